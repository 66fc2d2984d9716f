"""Each notebook runs from top to bottom, and what it claims holds."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))

# What holds after the last cell, as the code of one more.
CLAIMS = {
    "01_first_derivatives": """
assert min(digits(best.x, data["b"])) > 8
assert min(right) > 9 > 4 > min(wrong)
assert results["BFGS, exact gradient"].nfev * 20 < results["BFGS, finite differences"].nfev
for name in ("BFGS, exact gradient", "trust-exact, exact Hessian", "trust-ncg, hessp"):
    assert np.max(np.abs(results[name].x - 1)) < 1e-6, name
assert results["trust-exact, exact Hessian"].nhev < 50
""",
}


def test_each_notebook_makes_claims():
    assert {path.stem for path in NOTEBOOKS} == set(CLAIMS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_and_keeps_its_claims(path, tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "kernels"))
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(CLAIMS[path.stem]))
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    client.execute()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_executed_and_small(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
    assert path.stat().st_size < 200_000
