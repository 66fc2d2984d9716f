"""Each notebook runs from top to bottom with an installed fdiff alone; what it claims holds."""

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONG = {"03_numba", "04_solvers", "05_loops"}  # 10 to 30 seconds each

# What holds after the last cell, as the code of one more.
CLAIMS = {
    "01_first_derivatives": """
assert min(digits(best.x, parameters)) > 8
assert min(right) > 9 > 4 > min(wrong)
assert results["BFGS, exact gradient"].nfev * 20 < results["BFGS, finite differences"].nfev
for name in ("BFGS, exact gradient", "trust-exact, exact Hessian", "trust-ncg, hessp"):
    assert np.max(np.abs(results[name].x - 1)) < 1e-6, name
assert results["trust-exact, exact Hessian"].nhev < 50
""",
    "02_toolbox": """
assert right > 0.99 and losses[-1] < 0.02 * losses[0]
assert apart < 1e-12
assert np.allclose(slope(far), 0.5 * (1 + np.tanh(far / 2)), rtol=1e-12, atol=1e-12)
assert np.isnan(naive[-1]) and checked
assert seen[0] > 1 and len(seen) == 1
assert "sqrt(0.0)" in report and "distances = np.sqrt(" in report
assert np.all(np.isfinite(force))
names = {event.key for event in prof.key_averages()}
assert "training step" in names and len(names) > 5
assert "training step" in prof._repr_html_()
""",
    "03_numba": """
assert np.max(np.abs(root - 1.0)) < 1e-9
assert inside < outside
assert np.max(np.abs(newton(np.full(7, 0.9))[0] - 1.0)) < 1e-9
assert np.allclose(whole[0], y_bar, rtol=1e-10) and np.allclose(whole[1], p_bar, rtol=1e-10)
assert abs(lowest + 39.16616570377142 * 8) < 1e-9
assert np.all(np.abs(found[np.argmin(values)] + 2.903534) < 1e-6)
assert np.array_equal(twice(np.ones(3))[0], 2.0 * weights)
assert abs(integral - (wave(1.0) - wave(0.0))) < 1e-14
""",
    "04_solvers": """
assert quadratic[4] < 1e-10 < 1e-6 < linear[7]
assert abs(slope - quotient) < 1e-5
assert result.success and np.max(np.abs(problem.constraints(result.x))) < 1e-6
assert np.max(np.abs(torque)) <= WEAK + 1e-9 and abs(angle[-1] - np.pi) < 1e-9
assert jacobian.nnz == 400 and second.nnz == 82
assert np.all(np.abs(fit.x - truth) < 4.0 * fit.stderr)
width = np.max(upper - lower, axis=0)
assert np.max(width[fine > 12.0]) > np.max(width[fine <= 12.0])
""",
    "05_loops": """
assert fit.success and np.all(np.abs(deviations - TRUTH) < 3.0 * stderr)
gradient_at = fdiff.grad(loss)
ends = [gradient_at(fit.x + d) - gradient_at(fit.x - d) for d in 1e-5 * np.eye(2)]
assert np.allclose(np.linalg.inv(np.array(ends) / 2e-5), covariance, rtol=1e-5)
assert abs(height - 13.0) < 0.01 and np.max(np.abs(slopes - [0.0, 1.0, 0.0])) < 0.01
moved = [by_parameters(calm + d, 1_000_000)[0] for d in (1e-4 * np.eye(3)[1], -1e-4 * np.eye(3)[1])]
assert abs((moved[0] - moved[1]) / 2e-4 - slopes[1]) < 1e-5
assert 0.8 < rate < 1.1 and growth[14.0][-1] < 1e-2
assert little < 1_000_000 < 20_000_000 < much and np.array_equal(whole, again)
assert np.allclose(whole, slopes, rtol=1e-9) and worst < 1e-12
assert nodes < 600 and difference < 1e-9 and abs(plain_loss(fit.x) - fit.fun) < 1e-9
""",
}

# Before the first cell: an editable installation has put the clone on the path.
OUTSIDE = """
import importlib.util, pathlib, sys
clone, installed = {clone!r}, {installed!r}
sys.path[:] = [p for p in sys.path if p not in (clone, clone + "/tests")]
assert pathlib.Path.cwd() != pathlib.Path(clone)
assert importlib.util.find_spec("fdiff").origin.startswith(installed)
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A folder that holds fdiff alone, as site-packages would: all that kernels import it from."""
    folder = tmp_path / "installed"
    shutil.copytree(ROOT / "fdiff", folder / "fdiff")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path / "kernels"))
    return folder


def run(notebook, folder, before, after):
    """Run `notebook` in `folder`, with one more cell of code at either end."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell(before))
    notebook.cells.append(nbformat.v4.new_code_cell(after))
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()


def nodes_named_in(notebook):
    """The nodes of backward passes that outputs name: those kept are to be those made."""
    outputs = json.dumps([cell.get("outputs") for cell in notebook.cells])
    return set(re.findall(r"\w+Backward\d*\b", outputs))


def test_each_notebook_makes_claims():
    assert {path.stem for path in NOTEBOOKS} == set(CLAIMS)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=[pytest.mark.slow] if p.stem in LONG else [], id=p.stem)
        for p in NOTEBOOKS
    ],
)
def test_notebook_runs_outside_the_clone_and_keeps_its_claims(path, tmp_path, installed):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    before = OUTSIDE.format(clone=str(ROOT), installed=str(installed))
    notebook = nbformat.read(path, as_version=4)
    kept = nodes_named_in(notebook)
    run(notebook, folder, before, CLAIMS[path.stem])
    assert kept == nodes_named_in(notebook)
    assert list(folder.iterdir()) == []  # and leaves nothing behind


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_kept_executed_and_small(path):
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    assert [c.execution_count for c in cells] == list(range(1, len(cells) + 1))
    assert path.stat().st_size < 200_000


def test_the_data_in_the_notebook_are_those_of_nist():
    from user_code import nist

    cells = nbformat.read(ROOT / "notebooks" / "01_first_derivatives.ipynb", as_version=4).cells
    (code,) = [c.source for c in cells if "observations =" in c.source]
    found, data = {}, nist.read("Hahn1")
    exec("import numpy as np\n" + code, found)
    for name, key in {
        "x": "x",
        "y": "y",
        "start": "start2",
        "parameters": "b",
        "deviations": "sd",
    }.items():
        assert found[name].tolist() == data[key].tolist(), name
