"""No fact is read out of the text of a kernel: loop programs and lines state what they do."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "fdiff"
FOLDERS = ("kernels", "explanation", "profiler")
MODULES = [path for name in FOLDERS for path in (PACKAGE / name).rglob("*.py")]

# Who may use regular expressions, and on what: only ever fewer.
EXPRESSIONS = "names, numbers and sums in expressions, which are text by design"
REWRITING = "rewrites a text, and reads no fact in it"
WRITTEN = "texts of functions that are written by hand"
OTHERS = "texts of other programs"
REGULAR_EXPRESSIONS = {
    "kernels/bytecode/interpreter.py": WRITTEN,
    "kernels/compiler_choice.py": OTHERS,
    "kernels/cuda/devices/adapter.py": OTHERS,
    "kernels/cuda/nests/nest_text.py": "what a line for GPUs assigns: these are strings",
    "kernels/file_owners.py": OTHERS,
    "kernels/installation.py": OTHERS,
    "kernels/ir/expression_names.py": EXPRESSIONS,
    "kernels/ir/index_expressions.py": EXPRESSIONS,
    "kernels/ir/printing.py": "a name of a parameter, as it is printed",
    "kernels/ir/word_table.py": REWRITING,
    "kernels/kernel_source.py": f"{EXPRESSIONS}; {REWRITING}",
    "kernels/llvm/text_to_module.py": "a parser, which takes a long text in pieces",
    "kernels/machine_code.py": WRITTEN,
    "kernels/passes/tile/loop_fission.py": "a hash by which bodies may be alike, which is no fact",
    "kernels/runtime/macros.py": WRITTEN,
    "kernels/runtime/routines.py": WRITTEN,
    "kernels/user_texts.py": "texts of kernels that users give",
}
TEXTS = {"text", "source", "comment", "line"}
TESTS = {"startswith", "endswith", "find", "index", "split", "rsplit", "partition", "rpartition"}
# Who may test how a text begins, or whether another is in it: only ever fewer.
TEXT_TESTS = {
    "kernels/bytecode/execution.py": "a file of the cache",
    "kernels/cuda/kernel_text.py": "whether a line for GPUs stores a local: these are strings",
    "kernels/kernel_names.py": OTHERS,
    "kernels/ir/operation_costs.py": "whether a formula has operands",
    "kernels/ir/operation_text.py": "the sign of a literal",
    "kernels/llvm/calling_convention.py": "the annotation of a parameter",
    "kernels/llvm/stub/interpreter_abi.py": OTHERS,
}


def tree(text):
    return list(ast.walk(ast.parse(text)))


def uses_regular_expressions(nodes):
    return any(isinstance(n, ast.Import) and "re" in {a.name for a in n.names} for n in nodes)


def is_text(node):
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in TEXTS


def asks_texts(nodes):
    """Whether a text is asked how it begins, or what is in it."""
    calls = [n.func for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)]
    compared = [n for n in nodes if isinstance(n, ast.Compare)]
    return any(call.attr in TESTS and is_text(call.value) for call in calls) or any(
        isinstance(op, ast.In | ast.NotIn) and is_text(right)
        for n in compared
        for op, right in zip(n.ops, n.comparators, strict=True)
        if not isinstance(n.left, ast.Name) or n.left.id != "ONE"  # an axis of one entry
    )


@pytest.mark.parametrize(
    ("asks", "allowed"),
    [(uses_regular_expressions, REGULAR_EXPRESSIONS), (asks_texts, TEXT_TESTS)],
    ids=["regular expressions", "tests of texts"],
)
def test_facts_are_stated_and_not_read_out_of_texts(asks, allowed):
    asking = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if asks(tree(path.read_text(encoding="utf-8")))
    }
    assert asking == set(allowed), "what is gone is deleted from the table"


def test_reads_of_texts_are_found():
    assert uses_regular_expressions(tree("import ast, re"))
    for text in ("source.text.startswith('def')", "'rt.double' in made.source.text"):
        assert asks_texts(tree(text)), text
    for text in ("f(text)", "text.count('x')", "name in names", "text + 'x'"):
        assert not asks_texts(tree(text)), text
