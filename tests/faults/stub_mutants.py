"""Mutants of the entry stub: its text with one number, fact, operator or condition changed."""

import ast
from collections.abc import Iterator

from fdiff.kernels.llvm.stub import entry_stub
from fdiff.kernels.runtime.macros import expand

# Macros that are facts about Python and NumPy, or bounds. All others are places in the descriptor.
FACTS = ("A_", "CLASS", "LENGTH", "VALUE", "KEYS", "KIND", "FRAME_WORDS", "COPY_WORDS")
NEGATED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
}  # fmt: skip
NEXT = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
OTHER = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
}  # fmt: skip
Change = tuple[ast.expr, str]  # what is replaced, and by what


def changes(node: ast.AST) -> Iterator[Change]:
    """What may stand in place of a node or of its condition."""
    match node:
        case ast.Constant(bool()):
            yield node, str(not node.value)
        case ast.Constant(int()):
            yield from ((node, str(value)) for value in (node.value + 1, node.value - 1))
        case ast.Name() if node.id.startswith(FACTS):
            yield from ((node, f"({node.id} {step} 1)") for step in "+-")
        case ast.Compare(ops=[op]):
            for other in (NEGATED.get(type(op)), NEXT.get(type(op))):
                if other is not None:
                    yield node, shown(ast.Compare(node.left, [other()], node.comparators))
        case ast.BinOp() if type(node.op) in OTHER:
            yield node, shown(ast.BinOp(node.left, OTHER[type(node.op)](), node.right))
        case ast.BoolOp():
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, shown(ast.BoolOp(other, node.values))
        case ast.UnaryOp(ast.Not()):
            yield node, shown(node.operand)
        case ast.If() | ast.IfExp():
            yield node.test, shown(ast.UnaryOp(ast.Not(), node.test))
        case ast.Expr(ast.Call()):
            yield node.value, f"0  # {ast.unparse(node)}"


def shown(node: ast.expr) -> str:
    return f"({ast.unparse(node)})"


def mutants(*, full: bool = True) -> Iterator[tuple[str, str]]:
    """Each mutant's name, the line that differs and the one before, and its text."""
    template = entry_stub.template(full=full)
    starts = [0]
    for line in template.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in ast.walk(ast.parse(template)):
        for old, new in changes(node):
            begin = starts[old.lineno - 1] + old.col_offset
            end = starts[old.end_lineno - 1] + old.end_col_offset
            text = template[:begin] + new + template[end:]
            first, second = text[starts[old.lineno - 2] :].split("\n")[:2]
            yield f"{first.strip(' #')} | {second.strip()}", expand(text, entry_stub.MACROS)
