"""The structure of the package: floors, imports, sizes and names."""

import ast
import collections
import functools
import inspect
import re
import statistics
import subprocess
import sys
import types

import pytest
from llvmlite import ir
from package_trees import MODULES, PACKAGE, ROOT, TREES, nodes_of

import fdiff
import fdiff.autograd
import fdiff.profiler

LONGEST_TEXT = 41  # lines, the quotes apart
LONGEST_FUNCTION, LONG_FUNCTION, MEDIAN_FUNCTION = 50, 20, 6  # lines, docstring apart
LONGEST_FILE, MEDIAN_FILE = 400, 170
TABLES = {"fdiff.ops.entrywise.elementwise"}  # rows, one an op: as long as the ops are many
MOST_NAMES = 43
MOST_FILES = 26  # in a folder
ROW = re.compile(r"^\| `(.+)` \| (\d+) \| \S", re.MULTILINE)  # of tables of counts in decisions
SUFFIXES = {".py", ".md", ".txt"}
VAGUE = {"utils", "util", "helpers", "misc", "common", "base", "manager"}

# What the tests below let pass for now: only ever shorter.
CIRCLES = [  # each a set of modules that import one another
]
# Modules that are imported, by their names as texts, when a call first needs them, and that import
# the module of that call, at once or through others: why these circles stay.
LATE_CIRCLES: dict[str, str] = {}
INSIDE_KERNELS: dict[str, str] = {}  # who imports what from inside of `fdiff.kernels`
SAME_CLASS_NAMES: set[str] = set()
# Names of type aliases that mean several types, or a type and a class.
SAME_ALIASES = {
    *re.findall(
        r"\w+",
        """
    Args Argument Arguments Around Array Arrays Axes Axis Bars Bits Blocks Body Branches Buffer
    Call Check Dims Edge Entries Flat Formula Function Hint Ids Key Kind Known Layout Line
    Lines Loops Lowering Mask Matrix Number Operand Options Part Place Places Point
    Prepared Ranges Result Routine Row Rows Rule Run Runs Shape Size Slices Source Span Split
    Step Structure Task Tree Trips Types Value Values Variable View Watcher Words
    """,
    )
}


def read_floors(text):
    """Module prefixes by floor: one floor a line, the lowest first, `#` starts a comment."""
    rows = [[p.strip() for p in line.split("#")[0].split(",")] for line in text.splitlines()]
    named = [[p for p in row if p] for row in rows]
    return {
        prefix: floor for floor, row in enumerate(row for row in named if row) for prefix in row
    }


FLOORS = read_floors((ROOT / "tests" / "floors.txt").read_text(encoding="utf-8"))


def prefix_of(name, floors):
    """The longest prefix in `floors` that `name` falls under, or None."""
    hits = [p for p in floors if name == p or name.startswith(p + ".")]
    return max(hits, key=len, default=None)


@functools.cache
def nodes_as_run(tree):
    """As `nodes_of`, without what type checkers alone read: what is under ``if TYPE_CHECKING``."""
    waiting, nodes = [tree], []
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        for_types = isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        waiting += node.orelse if for_types else ast.iter_child_nodes(node)
    return nodes


def imports(tree, module, *, is_package, nodes=nodes_of):
    """Absolute dotted names that `module` imports, at any depth, with their lines."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*start, *([node.module] if node.module else [])])
            yield from ((f"{stem}.{alias.name}", node.lineno) for alias in node.names)


def late_imports(tree, module, *, is_package):
    """Names that `module` imports by calls with a text: `late`, `imported`, and steps."""
    package = module if is_package else module.rpartition(".")[0]
    packages = {"__package__": package, "__name__": module}
    steps = {"late_step": 0, "step_where": 1}  # where the name stands, in a folder of transforms
    for node in nodes_of(tree):
        function = node.func if isinstance(node, ast.Call) else None
        kind = getattr(function, "id", getattr(function, "attr", ""))
        if kind not in {"late", "imported", *steps}:
            continue
        name, *others = [
            packages.get(arg.id, "") if isinstance(arg, ast.Name) else getattr(arg, "value", "")
            for arg in node.args[steps.get(kind, 0) :]
        ]
        if not name or not isinstance(name, str):  # a parameter of one of these functions
            continue
        if kind == "imported" and not name.startswith("."):
            yield name, node.lineno
        else:
            stem = "fdiff.functional" if len(node.args) == 2 else others[0]
            stem = (
                "fdiff.transforms" if kind in steps else others[0] if kind == "imported" else stem
            )
            yield f"{stem}.{name.lstrip('.')}", node.lineno


def all_imports(*finders):
    for module, path in MODULES.items():
        is_package = path.name == "__init__.py"
        for find in finders or (imports, late_imports):
            for name, line in find(TREES[module], module, is_package=is_package):
                yield module, name, f"{path.relative_to(ROOT)}:{line}"


def broken_floor(module, name, floors):
    """Why `module` may not import `name`; empty if it may."""
    if name.split(".")[0] != "fdiff":
        return ""
    here, there = prefix_of(module, floors), prefix_of(name, floors)
    if there is None:
        return f"{module} imports {name}, which has no floor"
    if here is None or here == there or floors[there] < floors[here]:
        return ""
    return f"{module} (floor {floors[here]}) imports {name} (floor {floors[there]})"


def functions():
    """Every function: its lines without the docstring, where it is, its node."""
    for module, tree in TREES.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                doc = ast.get_docstring(node, clean=False)
                lines = node.end_lineno - node.lineno + 1 - (len(doc.splitlines()) if doc else 0)
                yield lines, f"{module}:{node.lineno} {node.name}", node


def texts():
    """Every string that is no docstring: its lines, and where it is."""
    for module, tree in TREES.items():
        docs = {id(n.value) for n in nodes_of(tree) if isinstance(n, ast.Expr)}
        for node in nodes_of(tree):
            text = isinstance(node, ast.Constant) and isinstance(node.value, str)
            if text and id(node) not in docs:
                yield node.end_lineno - node.lineno, f"{module}:{node.lineno}"


GENERIC = {"found", "given", "made", "known", "one"}
MOST_GENERIC = 15


def test_names_of_values_say_what_the_values_are():
    """A recipe, an operand or a kernel is named so; `one` may be the number."""
    generic = []
    for module, tree in TREES.items():
        names = [n for n in nodes_of(tree) if isinstance(n, ast.Name | ast.arg)]
        lines = [n.lineno for n in names if getattr(n, "id", getattr(n, "arg", "")) in GENERIC]
        for node in nodes_of(tree) if lines else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                if any(first <= line <= node.end_lineno for line in lines):
                    generic.append(f"{module}:{node.lineno} {node.name}")
    assert len(generic) <= MOST_GENERIC, generic


SHORT = re.compile(r"\b(that|those)\s+of\b")
RIDDLES = re.compile(r"\AThe\s+same\b|\bso\s+many\b|\bwhoever\b", re.IGNORECASE)
TWICE = re.compile(r"\bwhat\b.*\bwhat\b", re.IGNORECASE | re.DOTALL)  # in the first paragraph


def test_docstrings_repeat_their_nouns():
    """A reader need not look back for the noun that "that of", "the same" or "what" stands for."""
    riddles = []
    for module, tree in TREES.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node) or ""
                first = text.partition("\n\n")[0]
                if RIDDLES.search(text) or SHORT.search(text) or TWICE.search(first):
                    riddles.append(f"{module}:{getattr(node, 'lineno', 1)}")
    assert riddles == []


def known_module(name):
    """The module of the package that the imported `name` is, or is in; None if it is another's."""
    while name not in MODULES:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return name


imports_as_run = functools.partial(imports, nodes=nodes_as_run)


def import_graph():
    """Modules of the package: those that each imports as it runs, imports by a text included."""
    graph = {module: set() for module in MODULES}
    for module, name, _ in all_imports(imports_as_run, late_imports):
        target = known_module(name)
        if target not in {None, module, "fdiff"}:
            graph[module].add(target)
    return graph


def reachable(graph):
    """Every vertex: the vertices that one or more edges lead to."""
    found = {}
    for start in graph:
        seen, waiting = set(), [start]
        while waiting:
            for target in graph[waiting.pop()] - seen:
                seen.add(target)
                waiting.append(target)
        found[start] = seen
    return found


def circles(graph):
    """Strongly connected components of more than one vertex."""
    reach = reachable(graph)
    return {
        frozenset(b for b in ahead if a in reach[b]) for a, ahead in reach.items() if a in ahead
    }


def fresh_process(code, environment=None):
    """What `code` prints in a new interpreter."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


# -------------------------------------------------------------------------- floors, and imports


def test_every_module_has_a_floor():
    assert [m for m in MODULES if m != "fdiff" and prefix_of(m, FLOORS) is None] == []


def test_no_module_imports_from_its_own_floor_or_above():
    broken = [(where, broken_floor(module, name, FLOORS)) for module, name, where in all_imports()]
    assert [f"{where}: {why}" for where, why in broken if why] == []


def test_the_floors_are_checked_as_they_are_meant():
    floors = read_floors("fdiff.a  # lowest\n\nfdiff.b, fdiff.c\nfdiff.d.e\nfdiff.d\n")
    assert floors == {"fdiff.a": 0, "fdiff.b": 1, "fdiff.c": 1, "fdiff.d.e": 2, "fdiff.d": 3}
    assert not broken_floor("fdiff.b", "fdiff.a.Name", floors)
    assert not broken_floor("fdiff.d.f", "fdiff.d.g", floors)
    assert not broken_floor("fdiff.d.f", "fdiff.d.e", floors)
    assert not broken_floor("fdiff", "fdiff.d", floors)
    assert not broken_floor("fdiff.a", "numpy", floors)
    assert broken_floor("fdiff.b", "fdiff.c", floors)
    assert broken_floor("fdiff.d.e", "fdiff.d.f", floors)
    assert broken_floor("fdiff.b", "fdiff.grad", floors)


def test_imports_are_found_at_any_depth_and_made_absolute():
    text = "import numpy\nfrom ..tape import Tape\ndef f():\n    from . import emit\n"
    found = imports(ast.parse(text), "fdiff.kernels.disk_cache", is_package=False)
    assert list(found) == [
        ("numpy", 1),
        ("fdiff.tape.Tape", 2),
        ("fdiff.kernels.emit", 4),
    ]


def test_what_type_checkers_alone_read_is_not_imported():
    text = "if TYPE_CHECKING:\n    from .. import tape\nelse:\n    import a\nif b:\n    import c\n"
    run = imports_as_run(ast.parse(text), "fdiff.kernels.disk_cache", is_package=False)
    assert sorted(run) == [("a", 4), ("c", 6)]


def test_floors_name_what_exists():
    assert [prefix for prefix in FLOORS if prefix not in MODULES] == []


def test_no_modules_import_one_another():
    allowed = [{f"fdiff.{name}" for name in row.split()} for row in CIRCLES]
    graph = import_graph()
    late = [tuple(f"fdiff.{name}" for name in row.split()) for row in LATE_CIRCLES]
    behind = reachable(graph)
    for module, target in late:
        graph[module].remove(target)
    present = circles(graph)
    # Delete from LATE_CIRCLES what is gone.
    assert [edge for edge in late if edge[0] not in behind[edge[1]]] == []
    assert [sorted(circle) for circle in present if not any(circle <= row for row in allowed)] == []
    # Delete from CIRCLES what is gone.
    assert [row for row in allowed if not any(circle <= row for circle in present)] == []


def test_circles_are_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"f", "a"}, "f": {"e"}}
    assert circles(graph) == {frozenset("bc"), frozenset("ef")}


def test_kernels_are_entered_by_their_front_door_alone():
    found = collections.defaultdict(set)
    for module, name, _ in all_imports():
        target = known_module(name) or ""
        if target.startswith("fdiff.kernels.") and not module.startswith("fdiff.kernels"):
            found[module.removeprefix("fdiff.")].add(target.removeprefix("fdiff.kernels."))
    allowed = {module: set(names.split()) for module, names in INSIDE_KERNELS.items()}
    # What is gone is deleted from INSIDE_KERNELS.
    assert found == allowed


def is_step(node):
    """Whether a function takes a tape, and nothing else that has no default, to a tape."""
    if not isinstance(node, ast.FunctionDef):
        return False
    parameters = [*node.args.posonlyargs, *node.args.args]
    types = [ast.unparse(t) for t in (*[p.annotation for p in parameters[:1]], node.returns) if t]
    required = len(parameters) - len(node.args.defaults) + node.args.kw_defaults.count(None)
    return types == ["Tape", "Tape"] and required == 1


def test_steps_on_tapes_are_run_by_the_lists_of_the_pipeline():
    """`derive` runs them, so that ``FDIFF_DUMP=tapes`` prints each."""
    inside = {m: t for m, t in TREES.items() if prefix_of(m, ["fdiff.transforms"])}
    steps = {f"{m}.{n.name}" for m, tree in inside.items() for n in tree.body if is_step(n)}
    assert {"fdiff.transforms.simplify.simplify", "fdiff.transforms.custom_calls.inlined"} <= steps
    beside = [m for m, name, _ in all_imports(imports) if name in steps and m not in inside]
    assert beside == ["fdiff.dispatch.primal_nodes"]  # compares tapes for a profile, and runs none


def test_private_names_stay_in_their_files():
    private = [
        where
        for _, name, where in all_imports()
        if name.startswith("fdiff.") and re.search(r"\._[a-z]\w*$", name, re.IGNORECASE)
    ]
    assert private == []


def test_only_kernels_import_numba_and_llvm():
    outside = [
        where
        for module, name, where in all_imports()
        if name.split(".")[0] in {"numba", "llvmlite"}
        and prefix_of(module, ["fdiff.kernels"]) is None
    ]
    assert outside == []


def test_numpy_and_scipy_are_what_they_define_themselves():
    """All that computes calls `intact_numpy` and `intact_scipy`: users may replace a function."""
    own = ["fdiff.intact_numpy", "fdiff.intact_scipy", "fdiff.error_state"]
    own += ["fdiff.kernels.numba", "fdiff.kernels.cuda"]  # Numba knows NumPy as it is
    parts = ("special", "linalg", "integrate", "interpolate", "optimize", "stats", "sparse")
    outside = [
        where
        for module, name, where in all_imports()
        if (name == "numpy" or name in {f"scipy.{part}" for part in parts})
        and prefix_of(module, own) is None
    ]
    assert outside == []


def test_importing_fdiff_loads_neither_numba_nor_scipy_nor_rare_parts_of_numpy():
    heavy = ("numba", "llvmlite", "scipy", "numpy.random", "numpy.fft", "numpy.polynomial")
    code = f"import sys, fdiff; print([m for m in {heavy} if m in sys.modules])"
    assert fresh_process(code) == "[]"


def test_first_derivatives_import_little():
    """No rare parts of NumPy, nothing for loops, writes and branches, which `f` does not have."""
    late = ("numpy.ma", "numba", "llvmlite", "scipy", *[f"fdiff.{name}" for name in (
        "trace.looping.call_log", "trace.eager", "capture.written.write_log",
        "transforms.terms.declared_patterns", "transforms.sparsity.row_selection",
    )])  # fmt: skip
    code = (
        "import sys, numpy as np, fdiff\n"
        "def f(x): return x[0] * np.exp(-x[1] * np.arange(5.0)) + x[2] / (1.0 + x[3:] @ x[3:])\n"
        "x = np.linspace(0.5, 2.0, 8)\n"
        "fdiff.grad(lambda x: np.sum(f(x)))(x)\n"
        "fdiff.jacobian(f)(x), fdiff.hessian(lambda x: np.sum(f(x), axis=0))(x)\n"
        f"print([m for m in {late} if m in sys.modules])"
    )
    assert fresh_process(code) == "[]"


def test_importing_fdiff_makes_fewer_calls_than_importing_numpy():
    """Calls of Python and C functions: times depend on what else the processor does."""
    code = (
        "import sys, threading\n"
        "calls = [0]\n"
        "def count(frame, event, value): calls[0] += event in ('call', 'c_call')\n"
        "sys.setprofile(count)\n"
        "import numpy\n"
        "numpys = calls[0]\n"
        "import fdiff\n"
        "sys.setprofile(None)\n"
        "assert threading.active_count() == 1\n"
        "print(numpys, calls[0] - numpys)\n"
    )
    numpys, ours = map(int, fresh_process(code).split())
    assert 1000 < ours <= 0.7 * numpys


# ---------------------------------------------------------------------------------- public names


def public():
    """What a user finds on `fdiff`, submodules apart; some of it is imported when asked for."""
    for name in fdiff.__all__:
        getattr(fdiff, name)
    found = {n: v for n, v in vars(fdiff).items() if not n.startswith("_") and n != "annotations"}
    return {name: value for name, value in found.items() if not isinstance(value, types.ModuleType)}


def test_few_names_are_public_and_all_of_them_are_listed():
    listed = {name for name in fdiff.__all__ if name not in {"errors", "functional"}}  # submodules
    assert set(public()) == listed
    assert 0 < len(public()) <= MOST_NAMES


def test_public_names_are_documented_and_functions_with_an_example():
    documents = {
        name: inspect.getdoc(value) or "" for name, value in public().items() if callable(value)
    }
    called = {name for name, value in public().items() if isinstance(value, types.FunctionType)}
    assert [name for name, doc in documents.items() if not doc] == []
    assert [name for name in called if ">>>" not in documents[name]] == []
    takes_f = {name for name in called if "f" in inspect.signature(public()[name]).parameters}
    assert len(takes_f) > 12
    assert [name for name in takes_f if "\nRaises\n" not in documents[name]] == []


MOST_OPTIONS, MOST_OWN = 8, 6  # that are keyword-only; of those, under no name of torch's


def test_calls_have_few_options():
    modules = [fdiff, fdiff.autograd, fdiff.autograd.graph, fdiff.profiler]
    named = {name: getattr(m, name) for m in modules for name in m.__all__}
    calls = {name: v for name, v in named.items() if callable(v)}
    counts = {
        name: sum(p.kind is p.KEYWORD_ONLY for p in inspect.signature(v).parameters.values())
        for name, v in calls.items()
    }
    page = (ROOT / "docs" / "decisions" / "keyword-options.md").read_text(encoding="utf-8")
    exceptions = {name: int(n) for name, n in ROW.findall(page)}
    assert {name: n for name, n in counts.items() if n > MOST_OPTIONS} == exceptions
    for row in page.splitlines():
        if match := ROW.match(row):
            own = set(re.findall(r"`(\w+)`", row.split("|")[3]))
            assert own <= inspect.signature(calls[match[1]]).parameters.keys()
            assert len(own) <= MOST_OWN


# ----------------------------------------------------------------------------------------- sizes


def test_functions_are_short():
    lengths = sorted((lines, where) for lines, where, _ in functions())
    counts = [lines for lines, _ in lengths]
    assert [where for lines, where in lengths if lines > LONGEST_FUNCTION] == []
    assert counts[int(0.9 * len(counts))] <= LONG_FUNCTION
    assert statistics.median(counts) <= MEDIAN_FUNCTION


def test_texts_of_machine_level_code_are_short():
    """Functions that are written in a string are measured as functions are: in named pieces."""
    assert [where for lines, where in texts() if lines > LONGEST_TEXT] == []


def test_files_are_short():
    sizes = {
        name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()
    }
    # What is gone, or no longer long, is deleted from TABLES.
    assert {name for name, lines in sizes.items() if lines > LONGEST_FILE} == TABLES
    assert statistics.median(sizes.values()) <= MEDIAN_FILE


def lines_by_folder():
    """Lines of each folder outside `ops/`; those of `kernels/` are counted one by one."""
    counts = collections.Counter()
    for path in MODULES.values():
        *folders, _ = path.relative_to(PACKAGE).parts
        depth = 2 if folders[:1] == ["kernels"] else 1
        counts["/".join(folders[:depth]) or "."] += len(path.read_text("utf-8").splitlines())
    del counts["ops"]
    return counts


def test_folders_hold_few_files():
    counts = collections.Counter(path.parent for path in MODULES.values())
    assert [folder for folder, count in counts.items() if count > MOST_FILES] == []


RULES = ("jvp", "vjp", "slopes", "partials")  # how functions are named that are derivative rules


def test_rows_of_ops_can_be_read():
    """The formatter leaves ops alone, so that a rule stands on one line: this bounds their rows.

    A derivative rule that does not stand in a row is a function of 15 lines, its docstring apart.
    """
    wide, long = [], []
    for path in sorted((PACKAGE / "ops").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        wide += [
            f"{path.name}:{k}" for k, line in enumerate(text.splitlines(), 1) if len(line) > 140
        ]
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign | ast.Expr) and isinstance(node.value, ast.Call):
                lines = node.end_lineno - node.lineno + 1
                long += [f"{path.name}:{node.lineno}"] if lines > 15 else []
    assert wide == []
    assert long == []
    rules = {
        where: lines
        for lines, where, node in functions()
        if where.startswith("fdiff.ops.") and node.name.endswith(RULES)
    }
    assert len(rules) > 50
    assert {where: lines for where, lines in rules.items() if lines > 15} == {}


# What makes an entry of a table of ops, or of distributions.
MAKERS = set(
    re.findall(
        r"\w+",
        """
    Law Primitive _part body_op comparison elementwise flat_op law linear multilinear opaque_op
    reduction slope_op solver_op special special_many stacked_op
    """,
    )
)


def entries(node):
    """Calls that make entries of tables, which stand outside of functions."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in MAKERS:
        yield node
    elif not isinstance(node, ast.FunctionDef):
        for inner in ast.iter_child_nodes(node):
            yield from entries(inner)


def test_four_of_five_ops_stand_on_one_line():
    lines = [
        node.end_lineno - node.lineno + 1
        for name, tree in TREES.items()
        if name.startswith("fdiff.ops.")
        for node in entries(tree)
    ]
    assert len(lines) > 350
    assert lines.count(1) >= 0.82 * len(lines)


def test_folders_keep_their_budgets():
    """Growth is a decision: who needs more lines raises a row of the page, and says for what."""
    page = (ROOT / "docs" / "decisions" / "size-of-the-code.md").read_text(encoding="utf-8")
    budgets = {name: int(most) for name, most in ROW.findall(page)}
    lines = lines_by_folder()
    assert budgets.keys() == lines.keys()
    assert {
        name: (count, budgets[name]) for name, count in lines.items() if count > budgets[name]
    } == {}
    said = int(re.search(r"There are (\d+),000\.", page)[1])
    assert said * 1000 == pytest.approx(sum(lines.values()), rel=0.02)
    # A budget that is far from what is there says nothing.
    assert sum(budgets.values()) <= 1.1 * sum(lines.values())


def test_returns_are_annotated():
    bare = [where for _, where, node in functions() if node.returns is None]
    assert bare == []


def test_marks_for_checkers_say_why_they_are_there():
    mark = re.compile(r"# ?((ruff: ?)?noqa|(type|pyright): ?ignore|pragma: ?no)(?!.* - \S)")
    names = ["fdiff", "tests", "benchmarks", "docs", "examples", "notebooks", "typings"]
    files = [path for name in names for path in (ROOT / name).rglob("*.py*")]
    files = [path for path in files if path.suffix in {".py", ".pyi"}]
    bare = [
        f"{path.relative_to(ROOT)}:{k}"
        for path in files
        if "user_code" not in path.parts  # not ours
        for k, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if mark.search(line)
    ]
    assert len(files) > 200
    assert bare == []


MOST_ANY, MOST_IGNORED = 449, 92  # only ever fewer


def test_types_say_what_a_value_is():
    """`object` where nothing is asked of a value, else what is: `Any` and ignores hide mistakes."""
    texts = [path.read_text(encoding="utf-8") for path in MODULES.values()]
    assert sum(len(re.findall(r"\bAny\b", text)) for text in texts) <= MOST_ANY
    ignored = re.compile(r"(type|pyright): ?ignore\b")
    assert sum(len(ignored.findall(text)) for text in texts) <= MOST_IGNORED


def stub_of_llvmlite():
    """Functions in our stub: class, name, and parameters, which are None for a property."""
    text = (ROOT / "typings" / "llvmlite" / "ir.pyi").read_text(encoding="utf-8")
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    calls = {n: node.body[0].args for n, node in classes.items() if n.startswith("_")}  # protocols
    for owner, node in classes.items():
        for part in node.body if owner not in calls else ():
            if isinstance(part, ast.FunctionDef):
                yield owner, part.name, None if part.decorator_list else part.args
            elif isinstance(part, ast.AnnAssign) and ast.unparse(part.annotation) in calls:
                yield owner, part.target.id, calls[ast.unparse(part.annotation)]


@pytest.mark.parametrize(("owner", "name", "written"), list(stub_of_llvmlite()))
def test_the_stub_of_llvmlite_says_what_is_there(owner, name, written):
    found = getattr(getattr(ir, owner), name)
    if written is None:
        assert isinstance(found, property)
        return
    there = list(inspect.signature(found, follow_wrapped=False).parameters)
    assert len(there) >= len(written.posonlyargs)
    named = [a.arg for a in written.args]
    assert [n for n in there[len(written.posonlyargs) :] if n in named] == named


def test_the_stub_of_hooks_names_the_hooks_that_may_be_missing():
    """`hooks.pyi` states types of higher floors, which `hooks.py` may not import."""
    (table,) = [
        node
        for node in ast.parse((PACKAGE / "hooks.pyi").read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and node.name == "HookTable"
    ]
    rows = [node for node in table.body if isinstance(node, ast.AnnAssign)]
    optional = {row.target.id for row in rows if row.value is not None}
    plain = {name for name, value in vars(fdiff.hooks.HookTable).items() if value is None}
    assert plain == optional
    assert vars(fdiff.hooks.hooks).keys() <= {row.target.id for row in rows}


def test_no_module_has_a_vague_name():
    assert [m for m in MODULES if VAGUE & set(m.lower().strip("_").split("."))] == []


def test_no_two_modules_have_one_name():
    """But the lists of passes over tapes and over kernels, which go by the standard word."""
    names = collections.Counter(
        path.name for path in MODULES.values() if path.name != "__init__.py"
    )
    assert [name for name, count in names.items() if count > 1] == ["pipeline.py"]


def test_tests_of_kernels_lie_as_the_kernels_do():
    """In folders of the same names; tests of passes have the names of their passes, too."""
    tests, kernels = ROOT / "tests" / "kernels", PACKAGE / "kernels"
    paths = [path.relative_to(tests) for path in tests.rglob("test_*.py")]
    assert [path for path in paths if not (kernels / path.parent).is_dir()] == []
    modules = [path.with_name(path.name.removeprefix("test_")) for path in paths]
    assert [m for m in modules if m.parts[0] == "passes" and not (kernels / m).exists()] == []


def test_no_two_classes_have_one_name():
    counts = collections.Counter(
        node.name
        for tree in TREES.values()
        for node in nodes_of(tree)
        if isinstance(node, ast.ClassDef)
    )
    # What is gone is deleted from SAME_CLASS_NAMES.
    assert {name for name, count in counts.items() if count > 1} == SAME_CLASS_NAMES


def test_no_two_aliases_have_one_name():
    """An alias of a type has one meaning, which is no class; equal aliases may share a name."""
    meanings = collections.defaultdict(set)
    for module, tree in TREES.items():
        for node in nodes_of(tree):
            if isinstance(node, ast.ClassDef):
                meanings[node.name].add(module)
        for node in tree.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if name[0].isupper() and not name.isupper():
                    meanings[name].add(ast.unparse(node.value))
    # What is gone is deleted from SAME_ALIASES.
    assert {name for name, texts in meanings.items() if len(texts) > 1} == SAME_ALIASES


def test_files_that_are_named_in_docstrings_and_comments_exist():
    """Such as `trace/array_links.py`, by the end of its path; users' files apart."""
    named = re.compile(r"`((?:[\w-]+/)*[\w-]+\.(?:py|md|txt))\b")
    of_users = {"file.py", "signal.py", "statistics.py"}
    found = [path for name in ("fdiff", "tests", "docs") for path in (ROOT / name).rglob("*.*")]
    there = {f"/{path.relative_to(ROOT)}" for path in found if path.suffix in SUFFIXES}
    missing = [
        f"{path.relative_to(ROOT)}:{k}: {name}"
        for path in MODULES.values()
        for k, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for name in named.findall(line)
        if name not in of_users and not any(file.endswith(f"/{name}") for file in there)
    ]
    assert missing == []


def test_an_item_of_the_changelog_is_one_line_and_is_there_once():
    """Of two branches that are joined, the longer text of one may come back as a whole."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n## ")[2].splitlines()
    items = [line for line in lines if line.startswith("- ")]
    beginnings = collections.Counter(item[:40] for item in items)
    assert [line for line in lines if line.startswith(" ") or len(line) > 220] == []
    assert [item for item, count in beginnings.items() if count > 1] == []
