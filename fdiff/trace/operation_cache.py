"""Ops: nodes without their arguments, one for all nodes of a kind.

An op depends on types alone, so it is kept from one eager trace to the next; it carries what
computes it and, once asked for, its derivative rules.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from ..arraytype import ArrayType
from ..primitive import Primitive
from ..tape import CONSTANT, ITEM, Constant, Params

MOST = 1 << 13  # ops and templates remembered, of all functions
SMALL = 64  # entries up to which a constant is part of what an op is

Types = tuple[ArrayType, ...]

# What Python's operators say of NumPy scalars and arrays is what the ufuncs say, ten times sooner.
INFIX = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
_FASTER: dict[str, Callable[..., object]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "negative": operator.neg,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
}


class Op:
    """A node without its arguments: one for all nodes of a kind.

    `given` are the types of the outputs of its arguments, `constants` the small constants among
    them by position: a rule may read those. `rules` is for whoever takes derivatives, `quick` names
    a rule for single numbers.
    """

    __slots__ = (
        "call", "constants", "floating", "given", "params", "primitive", "quick", "rules",
        "types",
    )  # fmt: skip

    def __init__(
        self,
        primitive: Primitive,
        params: Params,
        given: tuple[Types, ...],
        constants: tuple[tuple[int, Constant], ...] = (),
        types: Types | None = None,
    ) -> None:
        self.primitive = primitive
        self.params = params
        self.given = given
        self.constants = constants
        self.types = types or _inferred(primitive, params, given)
        self.floating = any(t.floating for t in self.types)
        self.call = caller(primitive, params, given, self.types)
        self.rules: dict[object, Any] = {}
        self.quick = _quick(primitive, given, self.types)


_ARITHMETIC = frozenset(("add", "subtract", "multiply", "negative"))


def _quick(primitive: Primitive, given: tuple[Types, ...], types: Types) -> str:
    """The name of the rule for single real numbers that serves an op; empty if there is none."""
    name = primitive.name
    if types[0].dtype.kind != "f" or any(t[0].dtype.kind == "c" for t in given):
        return ""
    if name in _ARITHMETIC:
        return name if not types[0].shape else ""
    if name == "gather":
        single = not types[0].shape and given[0][0].ndim == len(given) - 1
        return "entry" if single and not any(t[0].shape for t in given[1:]) else ""
    return name if name == "store_entries" else ""


def _inferred(primitive: Primitive, params: Params, given: tuple[Types, ...]) -> Types:
    if primitive is ITEM:
        return primitive.infer(given[0], **dict(params))
    return primitive.infer(*[types[0] for types in given], **dict(params))


def caller(
    primitive: Primitive, params: Params, given: tuple[Types, ...], types: Types
) -> Callable[..., object]:
    """What computes the node from the values of its arguments."""
    if primitive is CONSTANT:
        value = primitive.evaluate(**dict(params))
        return lambda: value
    if primitive.name == "reshape" and given[0][0].shape == (1,) and not types[0].shape:
        return operator.itemgetter(0)  # a scalar, where `reshape` gives an array without axes
    if primitive.name == "slice":
        named: dict[str, Any] = dict(params)
        if all(step == 1 for step in named["steps"]):
            kept = zip(named["starts"], named["sizes"], strict=True)
            return operator.itemgetter(tuple([slice(a, a + n) for a, n in kept]))
    call = _FASTER.get(primitive.name, primitive.evaluate)
    return partial(call, **dict(params)) if params else call


_ops: dict[object, Op] = {}


def op_of(
    primitive: Primitive,
    params: Params,
    given: tuple[Types, ...],
    constants: tuple[tuple[int, Constant], ...] = (),
) -> Op:
    """The one op of this kind."""
    key = (primitive, params, given, constants)
    op = _ops.get(key)
    if op is None:
        if len(_ops) >= MOST:
            _ops.clear()
        op = _ops[key] = Op(primitive, params, given, constants)
    return op
