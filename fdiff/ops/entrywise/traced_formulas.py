"""Formulas of complex numbers on traced arrays: the text of a formula, read as operations."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import lru_cache

import fdiff.intact_numpy as np

from ...errors import TapeError
from ...kernel_rule import ComplexFormula

_FUNCTIONS: dict[str, Callable[..., object]] = {
    "abs": np.abs, "exp": np.exp, "cos": np.cos, "sin": np.sin, "hypot": np.hypot,
    "float64": lambda x: x * 1.0, "where": np.where,
}  # fmt: skip
_OPERATORS: dict[type, Callable[..., object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.USub: operator.neg, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
    ast.NotEq: operator.ne, ast.And: np.logical_and,
}  # fmt: skip


def traced_parts(formula: ComplexFormula, operands: dict[str, object]) -> list[object]:
    """The parts of the result, for operands by the names that they have in the formula."""
    before, parts = _parsed(formula)
    names = {"math.inf": math.inf, **operands}
    for name, expression in before:
        names[name] = _value(expression, names)
    return [_value(expression, names) for expression in parts]


@lru_cache(maxsize=64)
def _parsed(formula: ComplexFormula) -> tuple[list[tuple[str, ast.expr]], list[ast.expr]]:
    """The names and values of the lines before, and the expressions of the parts."""
    lines = [line.split(" = ", 1) for line in formula.before]
    before = [(name, ast.parse(text, mode="eval").body) for name, text in lines]
    return before, [ast.parse(text, mode="eval").body for text in formula.parts]


def _value(node: ast.expr, names: dict[str, object]) -> object:
    """The value of an expression on traced arrays, both ways of a choice included."""

    def of(x: ast.expr) -> object:
        return _value(x, names)

    match node:
        case ast.Name():
            return names[node.id]
        case ast.Constant():
            return node.value
        case ast.Attribute():
            return names[ast.unparse(node)]
        case ast.BinOp():
            return _OPERATORS[type(node.op)](of(node.left), of(node.right))
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)](of(node.operand))
        case ast.Compare(ops=[op], comparators=[right]):
            return _OPERATORS[type(op)](of(node.left), of(right))
        case ast.BoolOp(values=[left, right]):
            return _OPERATORS[type(node.op)](of(left), of(right))
        case ast.IfExp():
            return _FUNCTIONS["where"](of(node.test), of(node.body), of(node.orelse))
        case ast.Call():
            return _FUNCTIONS[ast.unparse(node.func).split(".")[-1]](*map(of, node.args))
        case _:
            raise TapeError(f"a formula has {ast.unparse(node)}")
