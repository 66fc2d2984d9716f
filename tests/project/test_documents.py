"""The pages in docs/: their code runs and prints what they show; no error lacks an example."""

import ast
import contextlib
import io
import linecache
import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff import autograd, errors
from fdiff.kernels.ir.word_table import WORDS
from fdiff.kernels.llvm import expressions, statements

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))
import make_architecture  # noqa: E402 - what draws the picture is what is tested
import make_decisions  # noqa: E402 - likewise
import make_errors  # noqa: E402 - what writes the page is what is tested
import make_kernel_language  # noqa: E402 - as above
import make_tape_picture  # noqa: E402 - as above
import make_torch_names  # noqa: E402 - as above

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# No example can make these, or they are the base of the others.
OF_FDIFF = {
    "FdiffError",
    "CompileError",
    "TapeError",
    "DefectWarning",
    "ForkError",
    "LeakError",
    "DeviceError",
    "WorkerError",
}


@pytest.mark.parametrize(
    "name",
    [
        *("architecture", "guide", "sharp-bits", "coming-from", "c-functions", "njit", "explain"),
        *("checking", "custom-rules", "debugging-nans", "deployment", "how-it-works", "scipy"),
        *("index", "front-pages"),
        *("ten-minutes", "autograd", "kinks", "profiling", "state", "sparse", "distributed"),
        "kernel-language",
        "../fdiff/kernels/README",
    ],
)
def test_pages_print_what_is_shown(name, tmp_path, monkeypatch):
    check_page(name, tmp_path, monkeypatch)


def check_page(name, tmp_path, monkeypatch):
    """Each python block, in order and in one namespace, and the text block that may follow it."""
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)  # reports name another one
    monkeypatch.chdir(tmp_path)
    text = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    blocks, names, file = BLOCK.findall(text), {"__name__": "document"}, f"{name}.md"
    lines = []  # of all blocks, so that what they print can show a line of an earlier one
    for (kind, code), (next_kind, shown) in zip(blocks, [*blocks[1:], ("", "")], strict=True):
        if kind != "python" or (".ipopt(" in code and not find_spec("ipyopt")):
            continue
        above = "\n" * len(lines)
        lines += code.splitlines(keepends=True)
        linecache.cache[file] = (0, None, lines, file)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", errors.RetraceWarning)  # which the pages speak of
            exec(compile(above + code, file, "exec"), names)
        assert printed.getvalue() == (shown if next_kind == "text" else ""), code


@pytest.mark.parametrize("example", make_errors.examples(), ids=lambda e: e.title)
def test_cures_cure(example):
    assert make_errors.run(example.cure) is None


def test_the_catalogue_is_current_and_whole():
    page = make_errors.page()
    assert page == make_errors.PAGE.read_text(encoding="utf-8")
    named = errors_of_fdiff()
    shown = set(re.findall(r"^## (\w+)$", page, re.MULTILINE))
    assert named == shown | OF_FDIFF
    assert all(f"{name}`" in page for name in OF_FDIFF)


def test_the_language_of_kernels_is_as_the_code_says():
    wanted = "run `python docs/make_kernel_language.py --write`"
    page = make_kernel_language.PAGE.read_text(encoding="utf-8")
    assert page == make_kernel_language.page(), wanted
    assert all(f"`{word}`" in page for word in WORDS)
    assert {*statements._HANDLERS, *expressions._HANDLERS} == set(make_kernel_language.CONSTRUCTS)


def errors_of_fdiff():
    """The names of the exceptions and warnings that are defined in `fdiff.errors`."""
    return {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, (errors.FdiffError, Warning))
    }


def pages():
    """Every document: those of the repository, those in docs/ and those beside the code."""
    return [*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "fdiff").rglob("*.md")]


def test_the_table_of_names_of_torch_is_current_and_names_what_is_there():
    wanted = "run `python docs/make_torch_names.py --write`"
    page = make_torch_names.PAGE.read_text(encoding="utf-8")
    assert page == make_torch_names.page(), wanted
    assert make_torch_names.faults() == []
    assert len(make_torch_names.rows()) > 90


def test_links_lead_somewhere():
    for page in pages():
        text = re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8"))
        targets = [t for t in re.findall(r"\]\(([^)#]+)\)", text) if not t.startswith("https://")]
        # The site has copies of the notebooks in docs/.
        missing = [t for t in targets if not ((page.parent / t).exists() or (ROOT / t).exists())]
        assert not missing, page


def test_no_page_holds_a_mark_of_a_conflict():
    mark = re.compile(r"^(?:<{7}|={7}|>{7})(?: |$)", re.MULTILINE)
    assert [page for page in pages() if mark.search(page.read_text(encoding="utf-8"))] == []


def test_files_that_are_named_exist():
    """Paths from the root of the repository, wherever a document names them."""
    path = re.compile(r"\b(?:fdiff|tests|docs|benchmarks|examples)/[\w/.-]*\w\b/?")
    missing = [
        f"{page.relative_to(ROOT)}: {name}"
        for page in pages()
        for name in path.findall(re.sub(r"https://[^\s)]+", "", page.read_text(encoding="utf-8")))
        if not (ROOT / name).exists()
    ]
    assert missing == []


def test_what_is_named_in_a_file_is_there():
    """`path.py: name` in documents is a class, function or constant of that file."""
    named = re.compile(r"`(fdiff/[\w/]+\.py): (\w+)`")
    missing = [
        f"{page.relative_to(ROOT)}: {path}: {name}"
        for page in pages()
        for path, name in named.findall(page.read_text(encoding="utf-8"))
        if name not in names_of(ROOT / path)
    ]
    assert missing == []


def names_of(path):
    body = ast.parse(path.read_text(encoding="utf-8")).body
    constants = {
        ast.unparse(t) for node in body if isinstance(node, ast.Assign) for t in node.targets
    }
    return constants | {n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)}


def test_the_page_of_fdiff_autograd_lists_every_name_of_it():
    page = (DOCS / "autograd.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\.\. auto\w+:: fdiff\.autograd\.(\w+)$", page, re.MULTILINE)
    assert sorted(listed) == sorted(autograd.__all__)


def test_the_api_reference_lists_every_public_name():
    page = (DOCS / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   fdiff\.([\w.]+)$", page, re.MULTILINE)
    public = set(fdiff.__all__) - {"errors", "functional"}  # submodules
    kinds = {f"errors.{name}" for name in errors_of_fdiff()}
    modules = [(n, getattr(fdiff, n)) for n in ("distributed", "optimize", "profiler")]
    later = {f"{name}.{public}" for name, m in modules for public in m.__all__}
    returned = {
        "functional.call.prepared.Prepared",
        "functional.compiled.c_callables.CFunction",
        "functional.rules.primitives.PrimitiveFunction",
        "explanation.Explanation",
        "explanation.Cost",
        "pictures.Picture",
        "transforms.linearity.Dependence",
    }
    assert sorted(listed) == sorted({*returned, *public, *kinds, *later})


def test_the_picture_of_the_architecture_is_current():
    drawn = make_architecture.PICTURE.read_text(encoding="utf-8")
    assert drawn == make_architecture.picture(), "run `python docs/make_architecture.py --write`"


def test_the_picture_of_a_tape_is_current():
    drawn = make_tape_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == make_tape_picture.picture(), "run `python docs/make_tape_picture.py --write`"


def test_arcs_are_the_imports_that_do_not_follow_from_others():
    assert make_architecture.reduced([{1, 2, 3}, {2}, {3}, set()]) == [{1}, {2}, {3}, set()]


def test_the_glossary_is_short_and_sorted():
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    words = re.findall(r"^\| (.+?) \| ", page.partition("## Glossary")[2], re.MULTILINE)[1:]
    words.remove("---")
    assert 20 < len(words) <= 40
    assert words == sorted(words)


def test_the_index_of_decisions_lists_every_page_by_its_title():
    folder = DOCS / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    listed = {
        file: title for title, file in re.findall(r"^- \[(.+)\]\((.+)\)$", index, re.MULTILINE)
    }
    titles = {
        page.name: page.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        for page in folder.glob("*.md")
        if page.name not in make_decisions.OTHERS
    }
    assert listed == titles


def test_the_index_of_decisions_by_file_is_current():
    written = make_decisions.PAGE.read_text(encoding="utf-8")
    assert written == make_decisions.index(), "run `python docs/make_decisions.py --write`"
    assert written.count("\n- ") > 100


def test_a_decision_has_its_parts_and_is_short():
    parts = ("**Where.**", "**Context.**", "**Decision.**", "**What would change it.**")
    for page in (DOCS / "decisions").glob("*.md"):
        if page.name not in make_decisions.OTHERS:
            text = page.read_text(encoding="utf-8")
            assert [part for part in parts if part not in text] == [], page
            assert len(text.split()) < 500, page


def test_numpy_and_fdiff_are_what_examples_know():
    assert make_errors.run("fdiff.grad(np.sin)(1.0)") is None
    assert fdiff.grad(np.sin)(1.0) == np.cos(1.0)
