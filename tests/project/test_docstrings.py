"""Every public name of every public module says what goes in, what comes out, what it raises.

The examples are run as doctests: `testpaths` of pyproject.toml names `fdiff`.
"""

import ast
import builtins
import importlib
import inspect
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from package_trees import nodes_of, tree_of

import fdiff

MODULES = [
    "fdiff",
    "fdiff.functional",
    "fdiff.autograd",
    "fdiff.autograd.forward_ad",
    "fdiff.autograd.graph",
    "fdiff.distributed",
    "fdiff.optimize",
    "fdiff.profiler",
]
# Records and objects that others make, and what raises nothing of its own.
RAISES_NOTHING = {
    "DeviceKernel",
    "EventList",
    "FunctionEvent",
    "GradientEdge",
    "Interval",
    "RecordedArray",
    "SolveReport",
    "UnpackedDualTensor",
    "cache_clear",
    "increment_version",
    "save_on_cpu",
    "save_on_disk",
    "set_detect_anomaly",
    "stop_gradient",
}
# Made by fdiff alone: what users read is described under `Attributes`.
MADE_BY_FDIFF = {
    "Fit",
    "FunctionEvent",
    "FunctionEventAvg",
    "Node",
    "RecordedArray",
    "SolveReport",
}
# Switches and counters of fdiff's own: there is no method, and nobody's name, to cite.
NO_SOURCE = {"SolveReport", "cache_clear", "cache_info", "doctor"}


def public_names():
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, types.ModuleType):
                yield pytest.param(name, value, id=f"{module.__name__}.{name}")


def section(doc, title):
    """What stands under a heading of numpydoc; empty where there is none."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", doc, re.DOTALL | re.MULTILINE)
    return found[1] if found else ""


def parameters(value):
    """Names of the parameters of a function, or of the class that is called."""
    return [name for name in inspect.signature(value).parameters if name != "self"]


def returns_something(value):
    if isinstance(value, type):
        return False  # itself
    return inspect.signature(value).return_annotation not in (None, "None")


def test_all_modules_that_users_are_told_of_are_looked_at():
    found = {name for module in MODULES for name in importlib.import_module(module).__all__}
    assert len(found) > 60


@pytest.mark.parametrize(("name", "value"), list(public_names()))
def test_a_public_name_has_every_section(name, value):
    doc = inspect.getdoc(value)
    asked = {"Examples"}
    if name in MADE_BY_FDIFF:
        asked |= {"Attributes"} if name != "FunctionEventAvg" else set()
    elif parameters(value):
        asked |= {"Parameters", "Raises"} - ({"Raises"} if name in RAISES_NOTHING else set())
    if returns_something(value):
        asked |= {"Returns"}
    if name not in NO_SOURCE:
        asked |= {"References"}
    assert [title for title in sorted(asked) if not section(doc, title).strip()] == []
    assert ">>>" in section(doc, "Examples")


NO_EXAMPLE = {"ipopt"}  # needs a library that wheels of fdiff do not ask for


def public_methods():
    """Functions under `public`, which users call, whether or not a module has their name."""
    for path in sorted(Path(fdiff.__file__).parent.rglob("*.py")):
        for node in nodes_of(tree_of(path)) if "@public" in path.read_text("utf-8") else ():
            decorators = getattr(node, "decorator_list", ())
            if any(ast.unparse(d) == "public" for d in decorators) and node.name != "__call__":
                yield pytest.param(node, id=f"{path.stem}.{node.name}")


@pytest.mark.parametrize("node", list(public_methods()))
def test_a_public_method_tells_results_and_errors_with_an_example(node):
    doc, asked = ast.get_docstring(node), set()
    if node.name not in NO_EXAMPLE:
        asked |= {"Examples"}
        assert ">>>" in section(doc, "Examples")
    if ast.unparse(node.returns) != "None":
        asked |= {"Returns"}
    arguments = {a.arg for a in (*node.args.args, *node.args.kwonlyargs)} - {"self"}
    if arguments and node.name not in RAISES_NOTHING:
        asked |= {"Raises"}
    assert [title for title in sorted(asked) if not section(doc, title).strip()] == []


OPERATORS = ("grad", "value_and_grad", "jacobian", "jacfwd", "jacrev", "hessian")


@pytest.mark.parametrize("name", [*OPERATORS, "vjp", "jvp", "vhp", "hvp"])
def test_operators_give_shapes_and_units(name):
    returned = " ".join(section(inspect.getdoc(getattr(fdiff, name)), "Returns").split())
    assert re.search(r"per (squared )?unit of", returned)
    assert re.search(r"\bshapes?\b|built like|structure", returned)


@pytest.mark.parametrize(("name", "value"), list(public_names()))
def test_every_parameter_is_described(name, value):
    described = section(inspect.getdoc(value), "Parameters")
    if name in MADE_BY_FDIFF:
        return
    # Entries are not indented; a line may name several: ``f, inputs``.
    heads = " ".join(line for line in described.splitlines() if line and not line[0].isspace())
    named = set(re.findall(r"\w+", heads))
    assert [p for p in parameters(value) if p not in named] == []


def test_every_error_class_is_described():
    errors = importlib.import_module("fdiff.errors")
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, BaseException)
    ]
    assert len(classes) > 15
    assert [kind.__name__ for kind in classes if not kind.__doc__] == []


DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
# Modules without an algorithm of the literature or a documented rule, each under its reason.
TABLE = Path(__file__).parents[1] / "modules_without_algorithm.txt"
WITHOUT_ALGORITHM = {
    name for line in TABLE.read_text("utf-8").splitlines() for name in line.split("#")[0].split()
}
# A year; or documentation, which is renewed.
DATED = re.compile(
    r"arXiv|\b(?:19|20)\d\d\b|(?:torch's|NumPy's|Python's)\s+(?:page|note|guide|reference|library)\b[,\s]"
    r"|\bLanguage\s+Reference"
)
PLACE = re.compile(
    r"docs/decisions/|DLMF,? \d|\bidea\s+of\b|\bwhole\b|\bsections?\s+on\b"
    r"|\b(?i:algorithm|chapter|definition|entr(?:y|ie)|equation|figure|page|routine|rule|section"
    r"|strategy|table|theorem)s?\s+(?:[\"(`\d]|AS \d|[A-Z]{1,5}\b)"
)
STANDARD = re.compile(r"docs/decisions/|DLMF|dlmf\.nist\.gov|\b[PN]EP \d")  # need no year
DEFINES = re.compile(r"^(?:def|class) ", re.MULTILINE)
PACKAGE = Path(fdiff.__file__).parent


def paragraphs(path):
    """The paragraphs of the docstrings of a file, with their lines."""
    for node in nodes_of(tree_of(path)):
        if isinstance(node, DOCUMENTED) and (doc := ast.get_docstring(node)):
            for text in doc.split("\n\n"):
                yield node.body[0].lineno, text


def cites(text):
    """Whether a paragraph or a comment names a source and the place in the source."""
    return STANDARD.search(text) or (DATED.search(text) and PLACE.search(text))


def test_algorithms_cite_their_source_or_a_decision():
    """The source names a section or pages; or a page of decisions is about the file."""
    page = (PACKAGE.parent / "docs" / "decisions" / "by-file.md").read_text("utf-8")
    decided = tuple(re.findall(r"^- `fdiff/([^`]+)`", page, re.MULTILINE))
    unsourced = {
        path.relative_to(PACKAGE).with_suffix("").as_posix()
        for path in PACKAGE.rglob("*.py")
        if DEFINES.search(text := path.read_text("utf-8"))
        and not path.relative_to(PACKAGE).as_posix().startswith(decided)
        and not any(map(cites, text.split("\n\n")))
    }
    assert unsourced == WITHOUT_ALGORITHM


def test_citations_tell_the_place():
    """A paper with its year, or a manual, comes with a section or pages, or lends an idea."""
    placeless = [
        (path.relative_to(PACKAGE).as_posix(), line)
        for path in sorted(PACKAGE.rglob("*.py"))
        if DATED.search(path.read_text("utf-8"))
        for line, text in paragraphs(path)
        if DATED.search(text) and ">>>" not in text and not PLACE.search(text)
    ]
    assert placeless == []


IN_BACKTICKS = re.compile(r"(?<!`)`([A-Za-z_]\w+)`(?!`)")
# Text of code beside prose: a call, or an equation. Its words explain each other.
CODE = re.compile(r"``([^`]*[(=][^`]*)``")
WORD = re.compile(r"[A-Za-z_]\w*")


def declared(tree):
    """Names that other modules may mean: words in lower case are too often parameters as well."""
    for node in nodes_of(tree):
        if isinstance(node, DOCUMENTED[:3]):
            yield node.name
        for entry in node.body if isinstance(node, (ast.ClassDef, ast.Module)) else ():
            targets = entry.targets if isinstance(entry, ast.Assign) else ()
            targets = (entry.target,) if isinstance(entry, ast.AnnAssign) else targets
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))


def known_everywhere(trees):
    """Words that a docstring may put into backticks in any module."""
    words = {word for tree in trees.values() for word in declared(tree)}
    words = {word for word in words if not word.islower() or "_" in word}
    words |= {part for path in trees for part in path.with_suffix("").parts}
    words |= {name for module in MODULES for name in importlib.import_module(module).__all__}
    return words | {*dir(np), *dir(builtins), "f"} | sys.stdlib_module_names


def unknown_words(text, tree, elsewhere):
    """Words in backticks in private docstrings that neither the code nor another module has."""
    documented = [node for node in nodes_of(tree) if isinstance(node, DOCUMENTED)]
    lines, docs = text.split("\n"), []
    for node in documented:
        if (doc := ast.get_docstring(node)) is not None:
            where = node.body[0]
            for line in range(where.lineno - 1, where.end_lineno):
                lines[line] = ""
            if not re.search(r"^---+$", doc, re.MULTILINE):  # the words of public ones are checked
                docs.append((where.lineno, doc))
    words = set(WORD.findall("\n".join(lines))) | elsewhere
    for line, doc in docs:
        explained = set(WORD.findall(" ".join(CODE.findall(doc))))
        for word in IN_BACKTICKS.findall(doc):
            if word not in words | explained:
                yield line, word


def test_words_in_backticks_are_names():
    """A parameter that is renamed is renamed in the text, too; others' names have two backticks."""
    package = Path(fdiff.__file__).parent
    texts = {p.relative_to(package): p.read_text("utf-8") for p in package.rglob("*.py")}
    trees = {path: tree_of(package / path) for path in texts}
    elsewhere = known_everywhere(trees)
    unknown = [
        f"{path}:{line}: {word}"
        for path, tree in trees.items()
        for line, word in unknown_words(texts[path], tree, elsewhere)
    ]
    assert unknown == []


def test_a_renamed_parameter_is_noticed():
    text = 'def f(prefix):\n    """`known` with `prefix`, as in ``g(tail)`` with `tail`."""\n'
    tree = ast.parse(text)
    assert [*unknown_words(text, tree, known_everywhere({}))] == [(2, "known")]
