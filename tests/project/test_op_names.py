"""No code outside `fdiff/ops` compares a string with an op's name: records tell the facts."""

import ast
from pathlib import Path

import pytest
from package_trees import nodes_of, tree_of
from test_layout import fresh_process

import fdiff
from fdiff.ops.rewrites.rewrite_context import SCALED, UNIT
from fdiff.primitive import PRIMITIVES

ROOT = Path(fdiff.__file__).parent
FUNCTION = "words of kernel texts (`rt.isnan`, `max`), which ops name in their texts"
DTYPE = "a dtype of whole numbers; SciPy has a Bessel function of that name"
LAYOUT = "a rule of layouts, which ops name on their records"
FAMILY = "the family of loops, which ops name on their records"
ROUTINE = "routines, which ops name on their records"
# The words in each module that are an op's name and mean something else, and what they mean. An
# entry that is no longer needed is deleted.
ALLOWED: dict[str, tuple[str, str]] = {
    "__init__.py": ("switch while_loop", "public names"),
    "autograd/arrays/array_methods.py": ("add invert", "names of Python's operators"),
    "autograd/backward_passes/hook_registration.py": ("all any", "a choice, in torch's words"),
    "autograd/calls/recording.py": ("where", "a keyword of NumPy's ufuncs"),
    "autograd/arrays/torch_methods.py": ("add copy", "methods and keywords of torch's"),
    "capture/sources/object_attributes.py": ("imag real", "attributes of arrays"),
    "capture/sources/source_effects.py": ("where", "a keyword of NumPy's ufuncs"),
    "capture/written/assigned_names.py": ("add update", "methods of dicts and sets"),
    "capture/symbolic_numbers.py": ("ceil complex floor invert trunc", "special methods of Python"),
    "capture/written/write_log.py": ("copy item", "how a plain run has a value"),
    "dispatch/numpy_warnings.py": ("divide all log", "words of `numpy.errstate` and `warnings`"),
    "distributed/cluster_calls.py": ("log", "words of `numpy.errstate`"),
    "functional/call/complex_rules.py": ("conjugate", "a choice of the user's"),
    "kernels/bytecode/opcodes.py": ("max min", FUNCTION),
    "kernels/bytecode/opcode_bodies.py": (
        "copy cumsum cumprod cummax recurrence gather scatter_set", "names of instructions",
    ),
    "kernels/codegen/small_matrices.py": (
        "cholesky cholesky_bar cofactor det inv slogdet solve", ROUTINE,
    ),
    "kernels/cuda/large_angles.py": ("cos sin tan", FUNCTION),
    "kernels/cuda/devices/libraries.py": ("cholesky det inv slogdet solve", ROUTINE),
    "kernels/cuda/matrices/matrix_routines.py": (
        "cholesky cholesky_bar cofactor det inv slogdet solve", ROUTINE,
    ),
    "kernels/cuda/nvvm_builder.py": (
        (
            "cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 floor fmod hypot ldexp log log10 "
            "log1p log2 maximum minimum nextafter rint sin sinh tan tanh trunc"
        ),
        "names of C's functions, by which NVVM has them",
    ),
    "kernels/cuda/cuda_program.py": ("max min", "builtins of Python in expressions of sizes"),
    "kernels/cuda/matrices/register_matrices.py": (
        "cholesky cholesky_bar cofactor det inv slogdet solve", ROUTINE,
    ),
    "kernels/ir/graph_of_tape.py": ("i1", DTYPE),
    "kernels/ir/expression_names.py": ("max min", FUNCTION),
    "kernels/llvm/word_instructions.py": ("i1", DTYPE),
    "kernels/llvm/llvm_words.py": ("max min", FUNCTION),
    "kernels/passes/parallel/cost_model.py": (
        "cholesky cholesky_bar cofactor det inv slogdet solve", ROUTINE,
    ),
    "kernels/runtime/linalg_routines.py": ("cholesky cofactor det inv slogdet solve", ROUTINE),
    "kernels/runtime/scalar.py": (
        (
            "floor_divide fmod gcd heaviside invert isfinite isinf isnan lcm left_shift nextafter "
            "power remainder right_shift sign signbit spacing"
        ),
        FUNCTION,
    ),
    "kernels/runtime/triangular.py": ("cholesky_bar", ROUTINE),
    "error_hints.py": ("reshape", "a word of NumPy's messages"),
    "trace/branching/if_conversion.py": ("constant negative copy", "Python's bytecode"),
    "trace/node_strides.py": ("update", LAYOUT),
    "trace/array_links.py": ("update", LAYOUT),
    "transforms/loops/kept_values.py": ("loop", FAMILY),
    "transforms/loops/loop_invariants.py": ("loop", FAMILY),
    "transforms/pipeline.py": ("loop", FAMILY),
    "process/environment.py": ("max", "a word of the kernel's file `cpu.max`"),
}  # fmt: skip
# Every op of every table, SciPy's included; other tests may register ops of their own.
NAMES = """
from fdiff.ops.lazy_tables import MODULES
from fdiff.primitive import LAZY_TABLES, PRIMITIVES
for load in [LAZY_TABLES[module] for module in MODULES]:
    load()
print(*PRIMITIVES)
"""
# What rewrites look for once the tables that are always there are imported.
SOUGHT = "import fdiff.ops; from fdiff.primitive import SOUGHT_KINDS; print(*SOUGHT_KINDS)"


def literals(node):
    """The strings that stand in a literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for entry in node.elts:
            yield from literals(entry)


def compared(tree):
    """The strings that something is compared with: operands, entries of sets, keys and cases."""
    for node in nodes_of(tree):
        match node:
            case ast.Compare(left=left, comparators=others):
                values = [left, *others]
            case ast.Dict(keys=keys):
                values = [key for key in keys if key is not None]
            case ast.Call(func=ast.Name(id="set" | "frozenset") | ast.Attribute(attr="fromkeys")):
                values = node.args[:1]
            case ast.Set() | ast.MatchValue():
                values = [node] if isinstance(node, ast.Set) else [node.value]
            case _:
                continue
        for value in values:
            yield from literals(value)


def found():
    """The names of ops that are compared, by module."""
    known = {*fresh_process(NAMES).split()}
    out = {}
    for path in sorted(ROOT.rglob("*.py")):
        module = path.relative_to(ROOT).as_posix()
        names = {*compared(tree_of(path))} & known
        if names and not module.startswith("ops/"):
            out[module] = names
    return out


def test_no_code_outside_ops_compares_names_of_ops():
    assert found() == {module: set(words.split()) for module, (words, _) in ALLOWED.items()}


def keyed_by_ops(tree):
    """The lines of tables of two rows or more whose keys are ops, imported from `fdiff.ops`."""
    ops = {
        alias.asname or alias.name
        for node in nodes_of(tree)
        if isinstance(node, ast.ImportFrom) and "ops" in (node.module or "").split(".")
        for alias in node.names
    }
    for node in nodes_of(tree):
        keys = node.keys if isinstance(node, ast.Dict) else ()
        if len([k for k in keys if isinstance(k, ast.Name) and k.id in ops]) > 1:
            yield node.lineno


def test_no_table_outside_ops_is_keyed_by_ops():
    assert [
        f"{path}:{line}"
        for path in ROOT.rglob("*.py")
        if "ops" not in path.relative_to(ROOT).parts
        for line in keyed_by_ops(tree_of(path))
    ] == []


def test_tables_keyed_by_ops_are_found():
    table = "RULES = {add: one, multiply: two}"
    head = "from ...ops.elementwise import add, multiply"
    assert list(keyed_by_ops(ast.parse(f"{head}\n{table}"))) == [2]
    assert list(keyed_by_ops(ast.parse(table))) == []


def test_rewrites_seek_ops_and_kinds_that_there_are():
    sought = {k for op in PRIMITIVES.values() for r in op.lowering.rewrites for k in r.sought or ()}
    assert sought - {UNIT, SCALED} <= {*PRIMITIVES}
    # The flags of ops are found once, so that no table that is imported later may seek more.
    assert {*fresh_process(SOUGHT).split()} == sought


@pytest.mark.parametrize(
    "text",
    [
        "if name == 'update': pass",
        "x = name not in ('slice', 'update')",
        "x = {'update': 1}",
        "X = frozenset(['update'])",
        "X = {'update', 'other'}",
        "X = dict.fromkeys(('update', 'slice'), 1)",
        "match name:\n    case 'update': pass",
    ],
)
def test_comparisons_are_found(text):
    assert "update" in {*compared(ast.parse(text))}
    assert PRIMITIVES["update"]


def test_other_strings_are_not_found():
    assert not {*compared(ast.parse("x = PRIMITIVES['update']; y = f('update'); z = ['update']"))}
