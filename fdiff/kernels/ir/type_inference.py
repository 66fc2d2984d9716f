"""Type inference for expressions of kernels, by Numba's rules: docs/decisions/llvm-directly.md."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from keyword import iskeyword

from ..llvm.types import common, unified
from .word_table import word_of

_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor)


class DtypeInference:
    """The dtypes of names, None where unknown, and of expressions of them."""

    def __init__(self, dtypes: dict[str, str]) -> None:
        self.dtypes: dict[str, str | None] = dict(dtypes)

    def of(self, text: str, operands: Sequence[str]) -> str | None:
        """The dtype of an expression of these operands; None if it is a number without a dtype."""
        node = _parsed(text, len(operands))
        return self._kind(node, {f"_{k}": name for k, name in enumerate(operands)})

    def _kind(self, node: ast.expr, names: dict[str, str]) -> str | None:
        if isinstance(node, ast.Name):
            name = names.get(node.id, node.id)
            if name.isidentifier() and not iskeyword(name):
                return self.dtypes.get(name) or _table(name)
            return self._kind(_parsed(name, 0), {})  # an operand may be a literal
        handler = _HANDLERS.get(type(node))
        return None if handler is None else handler(self, node, names)

    def _constant(self, node: ast.Constant, names: dict[str, str]) -> str | None:
        return "b1" if isinstance(node.value, bool) else None  # a number adapts to its operand

    def _unary(self, node: ast.UnaryOp, names: dict[str, str]) -> str | None:
        kind = self._kind(node.operand, names)
        if isinstance(node.op, ast.Not):
            return "b1"
        negative = kind is not None and isinstance(node.op, ast.USub) and kind[0] != "f"
        return common(kind, kind) if negative and kind is not None else kind

    def _binary(self, node: ast.BinOp, names: dict[str, str]) -> str | None:
        a, b = self._kind(node.left, names), self._kind(node.right, names)
        if a is None or b is None:
            return None
        if isinstance(node.op, _BITS) and a == b == "b1":
            return "b1"
        whole = "f" not in (a[0], b[0])
        return "f8" if isinstance(node.op, ast.Div) and whole else common(a, b)

    def _test(self, node: ast.expr, names: dict[str, str]) -> str | None:
        return "b1"

    def _choice(self, node: ast.IfExp, names: dict[str, str]) -> str | None:
        a, b = self._kind(node.body, names), self._kind(node.orelse, names)
        return None if a is None or b is None else unified(a, b)

    def _call(self, node: ast.Call, names: dict[str, str]) -> str | None:
        kinds = [self._kind(a, names) for a in node.args]
        if not isinstance(node.func, ast.Attribute):  # abs, min, max
            return kinds[0] if kinds and all(k == kinds[0] for k in kinds) else None
        word, first = word_of(ast.unparse(node.func)), kinds[0] if kinds else None
        if word is None or word.gives in "pv" or (first is None and word.gives in "fn"):
            return first
        return word.result([str(kind) for kind in kinds])


@lru_cache(maxsize=4096)
def _parsed(text: str, count: int) -> ast.expr:
    return ast.parse(text.format(*(f"_{k}" for k in range(count))), mode="eval").body


def _table(name: str) -> str | None:
    """The dtype of sizes ``n0, n1, ...`` and integers ``m0, m1, ...``; None for other names."""
    return "i8" if name[0] in "nm" and name[1:].isdigit() else None


_HANDLERS: dict[type[ast.expr], Callable[..., str | None]] = {
    ast.Constant: DtypeInference._constant,
    ast.UnaryOp: DtypeInference._unary,
    ast.BinOp: DtypeInference._binary,
    ast.Compare: DtypeInference._test,
    ast.BoolOp: DtypeInference._test,
    ast.IfExp: DtypeInference._choice,
    ast.Call: DtypeInference._call,
}
