"""Operations as text of loop bodies: constants, expressions, and what reductions start from."""

from __future__ import annotations

from ...kernel_rule import Kind
from .expression_names import table_entry
from .kernel_graph import Operation
from .loops import NUMPY
from .operation_costs import formula_facts

_EXACT = ("f8", "f4", "i8")  # dtypes whose arithmetic stays in the dtype


def literal(op: Operation) -> str:
    """The text of a constant: a local that was read from a table, or a number in its dtype."""
    text = op.text
    if table_entry(text) or op.dtype == "b1":
        return text
    if op.dtype in ("f8", "i8"):
        return f"({text})" if text.startswith("-") else text
    return f"{NUMPY[op.dtype]}({text})"


def expression(op: Operation, *, narrow: bool) -> str:
    """The text of an elementwise operation in ``{0}``, ``{1}``, ..., converted to its dtype.

    `narrow`: a truth value computed from truth values, which needs that conversion, too.
    """
    text = op.text.replace("{T}", NUMPY[op.dtype])
    narrow = op.dtype not in (*_EXACT, "b1") or (narrow and op.kind is not Kind.SELECT)
    root = formula_facts(text).root if narrow else None
    converted = root is not None and root.name == NUMPY[op.dtype]
    return f"{NUMPY[op.dtype]}({text})" if narrow and not converted else text


def identity_of(kind: Kind, dtype: str) -> str:
    """The neutral element of a reduction, as text in `dtype`."""
    type_ = NUMPY[dtype]
    if kind in (Kind.ANY, Kind.ALL):
        return "False" if kind is Kind.ANY else "True"
    if kind in (Kind.MAX, Kind.MIN, Kind.CUMMAX):
        sign = "" if kind is Kind.MIN else "-"
        if dtype == "b1":
            return "True" if kind is Kind.MIN else "False"
        if dtype[0] == "f":
            return f"{type_}({sign}np.inf)"
        bits = 8 * int(dtype[1])
        if dtype[0] == "u":
            return f"{type_}({0 if sign else (1 << bits) - 1})"
        return f"{type_}({-(1 << (bits - 1)) if sign else (1 << (bits - 1)) - 1})"
    return f"{type_}({1 if kind in (Kind.PROD, Kind.CUMPROD) else 0})"
