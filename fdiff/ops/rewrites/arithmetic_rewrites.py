"""Rewrites of arithmetic: factors of one, signs, choices, and broadcasts and transposes below them."""

from __future__ import annotations

from collections.abc import Mapping

from ...arraytype import broadcast
from ...facets import Rewrite
from ...primitive import PRIMITIVES
from ...tape import Builder
from .constant_factors import merge_factors, product_of_numbers
from .rewrite_context import (
    UNIT,
    Ids,
    Parameters,
    new,
    node_if,
    repeated_number,
    reshape_of,
    seeks,
    transpose_of,
)


@seeks(UNIT, "broadcast_to", "reshape")
def times_one(b: Builder, args: Ids, params: Parameters) -> int | None:
    """``x * 1 -> x`` and ``x * -1 -> -x``; also through a broadcast one.

    Not of complex numbers: ``(1 + 0j) * (inf + 0j)`` is ``inf + nanj``.
    """
    if b.type(args[0]).dtype.kind == "c":
        return None
    for here, other in ((0, 1), (1, 0)):
        factor = repeated_number(b, args[here])
        if factor == 1 and not isinstance(factor, bool):
            return args[other]
        if factor == -1:
            return new(b, "negative", (args[other],))
    return None


@seeks(UNIT, "broadcast_to", "reshape")
def over_one(b: Builder, args: Ids, params: Parameters) -> int | None:
    return (
        args[0] if repeated_number(b, args[1]) == 1 and b.type(args[0]).dtype.kind != "c" else None
    )


@seeks("negative")
def double_negative(b: Builder, args: Ids, params: Parameters) -> int | None:
    inner = node_if(b, args[0], "negative")
    return inner.args[0] if inner else None


@seeks("negative")
def minus_negative(b: Builder, args: Ids, params: Parameters) -> int | None:
    """``x + (-y) -> x - y``, ``(-x) + y -> y - x``."""
    if right := node_if(b, args[1], "negative"):
        return new(b, "subtract", (args[0], right.args[0]))
    if left := node_if(b, args[0], "negative"):
        return new(b, "subtract", (args[1], left.args[0]))
    return None


@seeks("negative")
def plus_negative(b: Builder, args: Ids, params: Parameters) -> int | None:
    """``x - (-y) -> x + y``."""
    right = node_if(b, args[1], "negative")
    return new(b, "add", (args[0], right.args[0])) if right else None


@seeks("negative")
def times_negatives(b: Builder, args: Ids, params: Parameters) -> int | None:
    """(-x) * (-y) -> x * y; the sign of one factor stays where it is."""
    left, right = node_if(b, args[0], "negative"), node_if(b, args[1], "negative")
    return new(b, "multiply", (left.args[0], right.args[0])) if left and right else None


def drop_broadcast(op: str) -> Rewrite:
    """op(broadcast(x), y) -> op(x, y) where y alone gives the shape."""

    @seeks("broadcast_to")
    def rule(b: Builder, args: Ids, params: Parameters) -> int | None:
        shapes = [b.type(a).shape for a in args]
        full = broadcast(*shapes)
        for k, a in enumerate(args):
            inner = node_if(b, a, "broadcast_to")
            rest = [s for j, s in enumerate(shapes) if j != k]
            if inner and broadcast(*rest, b.type(inner.args[0]).shape) == full:
                return new(b, op, (*args[:k], inner.args[0], *args[k + 1 :]), **params)
        return None

    return rule


@Rewrite
def drop_conversion(b: Builder, args: Ids, params: Parameters) -> int | None:
    """A conversion to the dtype the value has already."""
    return args[0]


@Rewrite
def one_choice(b: Builder, args: Ids, params: Parameters) -> int | None:
    """where(c, x, x) -> x, and nested choices by the same condition."""
    if args[1] == args[2]:
        return args[1]
    for k in (1, 2):
        inner = node_if(b, args[k], "where")
        if inner and inner.args[0] == args[0]:
            kept = list(args)
            kept[k] = inner.args[k]
            return new(b, "where", tuple(kept))
    return None


@Rewrite
def chosen_once(b: Builder, args: Ids, params: Parameters) -> int | None:
    """where(c, f(where(c, x, y)), z) -> where(c, f(x), z), as cotangents with masks have it."""
    inside = _where_chosen(b, args[1], args[0], LEVELS)
    return None if inside == args[1] else b.add(PRIMITIVES["where"], (args[0], inside, args[2]))


LEVELS = 3  # of arithmetic between two choices, as a slope is applied


def _where_chosen(b: Builder, i: int, condition: int, levels: int) -> int:
    """A node that is equal to node `i` where the condition of the same shape holds."""
    node = b.nodes[i]
    if len(node.types) > 1 or b.type(i).shape != b.type(condition).shape:
        return i
    if node.primitive.name == "where":
        return node.args[1] if node.args[0] == condition else i
    if not levels or node.primitive.family != "elementwise" or not node.args:
        return i
    args = tuple([_where_chosen(b, a, condition, levels - 1) for a in node.args])
    return i if args == node.args else b.add(node.primitive, args, node.params)


@seeks("broadcast_to", "constant")
def certain_choice(b: Builder, args: Ids, params: Parameters) -> int | None:
    """where(True, x, y) -> x, where True is a constant, repeated or not."""
    chosen = repeated_number(b, args[0])
    if chosen is None:
        return None
    shapes = [b.type(a).shape for a in args]
    taken = args[1] if chosen else args[2]
    shape = broadcast(*shapes)
    return taken if b.type(taken).shape == shape else new(b, "broadcast_to", (taken,), shape=shape)


_BY_ROWS = ("gather", "scatter_add")  # made of rows, in turn


def outer_transpose(op: str) -> Rewrite:
    """op(transpose(x), y) -> transpose(op(x, y)), where y is as transposed or has but one axis.

    Products of matrices take transposes as they are, but none below other arithmetic.
    """

    @seeks("transpose")
    def rule(b: Builder, args: Ids, params: Parameters) -> int | None:
        turned = [n for n in (node_if(b, a, "transpose") for a in args) if n is not None]
        if not turned or any(n.params != turned[0].params for n in turned):
            return None
        if any(b.nodes[n.args[0]].primitive.name in _BY_ROWS for n in turned):
            return None  # one loop over the rows takes them in any order
        axes: Ids = turned[0].param("axes")
        inner = tuple(_untransposed(b, a, axes) for a in args)
        if any(a < 0 for a in inner):
            return None
        return transpose_of(b, new(b, op, inner, **params), axes)

    return rule


def _untransposed(b: Builder, i: int, axes: Ids) -> int:
    """The node whose axes in this order make node `i`; -1 if there is none."""
    if node := node_if(b, i, "transpose"):
        return node.args[0]
    shape = b.type(i).shape
    if len(shape) > len(axes) or sum(n != 1 for n in shape) > 1:
        return -1
    if all(n == 1 for n in shape):
        return i
    padded = (1,) * (len(axes) - len(shape)) + shape
    return reshape_of(b, i, tuple(padded[axes.index(k)] for k in range(len(axes))))


# By op, in the order in which the rules are asked.
REWRITES: Mapping[str, tuple[Rewrite, ...]] = {
    "add": (minus_negative, drop_broadcast("add"), outer_transpose("add")),
    "subtract": (plus_negative, drop_broadcast("subtract"), outer_transpose("subtract")),
    "multiply": (
        product_of_numbers,
        times_one,
        merge_factors,
        times_negatives,
        drop_broadcast("multiply"),
        outer_transpose("multiply"),
    ),
    "divide": (over_one, drop_broadcast("divide"), outer_transpose("divide")),
    "negative": (double_negative,),
    "power": (drop_broadcast("power"),),
    "maximum": (drop_broadcast("maximum"),),
    "minimum": (drop_broadcast("minimum"),),
    "where": (one_choice, certain_choice, chosen_once, drop_broadcast("where")),
    "convert": (drop_conversion,),
    "copy": (drop_conversion,),
}
