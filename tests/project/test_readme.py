"""The README says what is so: its examples, its links, its figures."""

import contextlib
import io
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff.process.environment import VARIABLES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs"))
import make_coverage  # noqa: E402 - what writes the page is what is tested
import make_links  # noqa: E402 - as above

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_examples_print_what_is_shown(monkeypatch):
    """Each python block, in order and in one namespace, prints the text block after it.

    Those with IPOPT run where that is installed, as in `make test-solvers`.
    """
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)  # objects that are printed name another one
    blocks = BLOCK.findall(TEXT)
    names = {}
    for (kind, code), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind != "python":
            continue
        assert next_kind == "text", f"no output is shown for:\n{code}"
        if ".ipopt(" in code and not find_spec("ipyopt"):
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "README.md", "exec"), names)
        assert printed.getvalue() == shown, code


def test_the_first_example_has_ten_lines():
    kind, code = BLOCK.findall(TEXT)[0]
    assert kind == "python"
    assert len(code.splitlines()) <= 10


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#]+)\)", re.sub(r"`[^`\n]*`", "", TEXT))
    files = {t: make_links.linked_file(t) for t in targets}
    assert not [t for t in targets if not t.startswith("https://")], "a package index shows README"
    assert not [t for t, file in files.items() if file and not file.exists()]
    elsewhere = {t for t, file in files.items() if file is None}
    assert elsewhere == {"https://docs.jax.dev", "https://pytorch.org", "https://web.casadi.org"}


def test_one_address_of_the_repository_is_named(tmp_path, monkeypatch):
    old, new = make_links.home(), "https://github.com/someone/elsewhere"
    for name in make_links.FILES:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert old in text
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert sorted(make_links.FILES) == sorted(files_with(old))
    monkeypatch.setattr(make_links, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_links.py", new])
    make_links.main()
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in make_links.FILES]
    owner = old.removeprefix("https://github.com/")
    assert not [text for text in texts if owner in text]
    assert make_links.home() == new


def files_with(address):
    """The files of users and of the site that name the address of the repository."""
    pages = [*ROOT.glob("*.*"), *(ROOT / "docs").glob("*.*"), *(ROOT / "examples").glob("*.*")]
    pages += (ROOT / "conda").glob("*.*")
    kinds = {".md", ".toml", ".cff", ".py", ".rst", ".yaml"}
    texts = [page for page in pages if page.suffix in kinds]
    named = [page for page in texts if address in page.read_text(encoding="utf-8")]
    return [page.relative_to(ROOT).as_posix() for page in named]


def test_the_number_of_functions_is_that_of_the_coverage():
    said = int(re.findall(r"(\d+)\s+functions, methods and operators", TEXT)[0])
    assert said == sum(1 for example in make_coverage.examples() if example.code)


def test_the_error_bars_are_as_said(monkeypatch):
    """The routines of linear algebra decide on how many digits more there are: 8.6 to 10."""
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import fit_nist

    off, digits = re.findall(r"are (\d+) % off\..* to (\d+) digits or more", TEXT, re.DOTALL)[0]
    p = fit_nist.problem("Hahn1")
    rough, exact = (fit_nist.fit(p, "start1", jacobian) for jacobian in ("2-point", p.exact))
    worst = np.max(np.abs(rough.errors / p.data["sd"] - 1.0))
    assert worst == pytest.approx(int(off) / 100, abs=0.01)
    assert fit_nist.digits(exact.errors, p.data["sd"]) > int(digits)


def test_every_public_call_is_named():
    reference = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    unnamed = [name for name in fdiff.__all__ if not re.search(rf"\b{name}\b", reference)]
    assert not unnamed


def test_the_variables_of_the_environment_are_those_that_are_read():
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(FDIFF_\w+)`", page, re.MULTILINE)
    assert [*named, "FDIFF_CUDA_GRAPHS", "FDIFF_VERIFY"] == [*VARIABLES]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "fdiff").rglob("*.py")]
    assert {*re.findall(r"FDIFF_[A-Z_]+", "".join(sources))} - {"FDIFF_"} == {*VARIABLES}
    assert "`FDIFF_CUDA_GRAPHS=0`" in (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")


@pytest.fixture
def report(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import report

    yield report
    for name in [name for name in sys.modules if name.startswith("benchmarks")]:
        del sys.modules[name]


def test_the_table_is_that_of_the_raw_figures(report):
    latest = max((ROOT / "benchmarks" / "results").glob("[0-9]*.json"))
    raw = json.loads(latest.read_text(encoding="utf-8"))
    assert report.placed(TEXT, raw) == TEXT
    tables = (ROOT / "benchmarks" / "results.md").read_text(encoding="utf-8")
    assert tables == f"# Benchmarks\n\n{report.markdown(raw)}"


def test_the_table_of_a_gpu_is_that_of_the_raw_figures(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import cuda_report

    parts = json.loads(cuda_report.latest().read_text(encoding="utf-8"))
    table = cuda_report.markdown(parts)
    parts["graphs"] = [
        {"name": "a", "launches": 4, "seconds with a graph": 36e-6, "seconds one by one": 83e-6},
        {"name": "b", "fault": "stopped"},
    ]
    said = "with and without a CUDA graph: a (4 launches) 36 µs and 83 µs, b (- launches) - and -."
    assert said in cuda_report.markdown(parts)
    for part in ("calls", "jax"):
        parts[part] = {"fault": "stopped"}
    parts["rows"][0] = {"name": "elementwise", "fault": "stopped"}
    assert "| elementwise | - | - | - | - | - |" in cuda_report.markdown(parts)
    page = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")
    assert cuda_report.placed(page, table) == page
    for name in [name for name in sys.modules if name.startswith("benchmarks")]:
        del sys.modules[name]
