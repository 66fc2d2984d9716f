"""The table of rewrites: what may stand in the place of a node.

A rewrite must give the same values for every input, NaN and infinities included: ``0 * x`` is kept,
`ZERO` never reaches a tape.
"""

from __future__ import annotations

from typing import Any

from ...arraytype import broadcast
from ...ops.contraction import contract
from ...ops.elementwise import (
    add,
    convert,
    copy,
    divide,
    maximum,
    minimum,
    multiply,
    negative,
    power,
    subtract,
    where,
)
from ...ops.gather_scatter import gather, scatter_add
from ...ops.reductions import sum_
from ...ops.view_ops import reshape, spread, transpose
from ...primitive import Primitive
from ...tape import CONSTANT, Builder
from .constant_factors import merge_factors, product_of_numbers
from .contraction_rewrites import (
    drop_axes_of_length_one,
    product_with_identity,
    product_with_number,
    sum_of_products,
)
from .rewrite_context import (
    SOUGHT,
    UNIT,
    Ids,
    Kind,
    Rule,
    new,
    node_if,
    repeated_number,
    reshape_of,
    seeks,
    transpose_of,
)

# --- the rules: each gives the id that may stand in for the node, or None ------------------------


@seeks(UNIT, spread, reshape)
def _times_one(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
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
            return new(b, negative, (args[other],))
    return None


@seeks(UNIT, spread, reshape)
def _over_one(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    return (
        args[0] if repeated_number(b, args[1]) == 1 and b.type(args[0]).dtype.kind != "c" else None
    )


@seeks(negative)
def _double_negative(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    inner = node_if(b, args[0], negative)
    return inner.args[0] if inner else None


@seeks(negative)
def _minus_negative(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """``x + (-y) -> x - y``, ``(-x) + y -> y - x``."""
    if right := node_if(b, args[1], negative):
        return new(b, subtract, (args[0], right.args[0]))
    if left := node_if(b, args[0], negative):
        return new(b, subtract, (args[1], left.args[0]))
    return None


@seeks(negative)
def _plus_negative(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """``x - (-y) -> x + y``."""
    right = node_if(b, args[1], negative)
    return new(b, add, (args[0], right.args[0])) if right else None


@seeks(negative)
def _times_negatives(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """(-x) * (-y) -> x * y; the sign of one factor stays where it is."""
    left, right = node_if(b, args[0], negative), node_if(b, args[1], negative)
    return new(b, multiply, (left.args[0], right.args[0])) if left and right else None


def _drop_broadcast(op: Primitive) -> Rule:
    """op(broadcast(x), y) -> op(x, y) where y alone gives the shape."""

    @seeks(spread)
    def rule(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
        shapes = [b.type(a).shape for a in args]
        full = broadcast(*shapes)
        for k, a in enumerate(args):
            inner = node_if(b, a, spread)
            rest = [s for j, s in enumerate(shapes) if j != k]
            if inner and broadcast(*rest, b.type(inner.args[0]).shape) == full:
                return new(b, op, (*args[:k], inner.args[0], *args[k + 1 :]), **params)
        return None

    return rule


def _broadcast(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """A broadcast of leading ones needs no reshape; of a broadcast, one is enough."""
    if b.type(args[0]).shape == params["shape"]:
        return args[0]
    inner = node_if(b, args[0], spread)
    if inner:
        return new(b, spread, inner.args, **params)
    inner = node_if(b, args[0], reshape)
    if inner:
        source = b.type(inner.args[0]).shape
        target = b.type(args[0]).shape
        if target[len(target) - len(source) :] == source and all(
            n == 1 for n in target[: len(target) - len(source)]
        ):
            return new(b, spread, inner.args, **params)
    return None


def _reshape(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    if b.type(args[0]).shape == params["shape"]:
        return args[0]
    inner = node_if(b, args[0], reshape)
    return reshape_of(b, inner.args[0], params["shape"]) if inner else None


def _transpose(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    axes: Ids = params["axes"]
    if axes == tuple(range(len(axes))):
        return args[0]
    inner = node_if(b, args[0], transpose)
    if inner is None:
        return None
    first = inner.param("axes")
    return transpose_of(b, inner.args[0], tuple(first[a] for a in axes))


def _joined_axes(source: Ids, target: Ids) -> list[list[int]] | None:
    """The axes of `source` that a reshape to `target` joins to each axis; None if it splits one."""
    groups: list[list[int]] = []
    taken = 0
    for n in target:
        group: list[int] = []
        joined = 1
        while joined < n and taken < len(source):
            group.append(taken)
            joined *= source[taken]
            taken += 1
        if joined != n:
            return None
        groups.append(group)
    if groups and all(source[a] == 1 for a in range(taken, len(source))):
        groups[-1] += range(taken, len(source))
        return groups
    return None


@seeks(reshape)
def _transpose_joined(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """Axes that a reshape joins are put in order before: its result may then be the memory itself.

    Columns of a Jacobian, ``(n, a * b)`` to ``(a * b, n)``, are written where they belong.
    """
    inner = node_if(b, args[0], reshape)
    if inner is None:
        return None
    axes: Ids = params["axes"]
    target = b.type(args[0]).shape
    groups = _joined_axes(b.type(inner.args[0]).shape, target)
    if groups is None or not any(len(group) > 1 for group in groups):
        return None
    order = tuple(a for axis in axes for a in groups[axis])
    before = dict(params, axes=order)
    x = _transpose(b, inner.args, before)
    if x is None:
        x = transpose_of(b, inner.args[0], order)
    return reshape_of(b, x, tuple(target[axis] for axis in axes))


def _drop_conversion(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """A conversion to the dtype the value has already."""
    return args[0]


def _where(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """where(c, x, x) -> x, and nested choices by the same condition."""
    if args[1] == args[2]:
        return args[1]
    for k in (1, 2):
        inner = node_if(b, args[k], where)
        if inner and inner.args[0] == args[0]:
            kept = list(args)
            kept[k] = inner.args[k]
            return new(b, where, tuple(kept))
    return None


def _sum_of_single_entries(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
    """A sum over axes of length one is a reshape; over no axes, the value."""
    source = b.type(args[0])
    axes: Ids = params["axes"]
    if all(source.shape[a] == 1 for a in axes):
        shape = tuple(n for k, n in enumerate(source.shape) if k not in axes)
        return reshape_of(b, args[0], shape)
    return None


_BY_ROWS = (gather, scatter_add)  # made of rows, in turn


def _outer_transpose(op: Primitive) -> Rule:
    """op(transpose(x), y) -> transpose(op(x, y)), where y is as transposed or has but one axis.

    Products of matrices take transposes as they are, but none below other arithmetic.
    """

    @seeks(transpose)
    def rule(b: Builder, args: Ids, params: dict[str, Any]) -> int | None:
        turned = [n for n in (node_if(b, a, transpose) for a in args) if n is not None]
        if not turned or any(n.params != turned[0].params for n in turned):
            return None
        if any(b.nodes[n.args[0]].primitive in _BY_ROWS for n in turned):
            return None  # one loop over the rows takes them in any order
        axes: Ids = turned[0].param("axes")
        inner = tuple(_untransposed(b, a, axes) for a in args)
        if any(a < 0 for a in inner):
            return None
        return transpose_of(b, new(b, op, inner, **params), axes)

    return rule


def _untransposed(b: Builder, i: int, axes: Ids) -> int:
    """What makes node `i` when its axes are put in this order; -1 if it has not all of them."""
    if node := node_if(b, i, transpose):
        return node.args[0]
    shape = b.type(i).shape
    if len(shape) > len(axes) or sum(n != 1 for n in shape) > 1:
        return -1
    if all(n == 1 for n in shape):
        return i
    padded = (1,) * (len(axes) - len(shape)) + shape
    return reshape_of(b, i, tuple(padded[axes.index(k)] for k in range(len(axes))))


RULES: dict[Primitive, tuple[Rule, ...]] = {
    contract: (product_with_identity, drop_axes_of_length_one, product_with_number),
    multiply: (
        product_of_numbers,
        _times_one,
        merge_factors,
        _times_negatives,
        _drop_broadcast(multiply),
        _outer_transpose(multiply),
    ),
    divide: (_over_one, _drop_broadcast(divide), _outer_transpose(divide)),
    add: (_minus_negative, _drop_broadcast(add), _outer_transpose(add)),
    subtract: (_plus_negative, _drop_broadcast(subtract), _outer_transpose(subtract)),
    negative: (_double_negative,),
    where: (_where, _drop_broadcast(where)),
    maximum: (_drop_broadcast(maximum),),
    minimum: (_drop_broadcast(minimum),),
    power: (_drop_broadcast(power),),
    spread: (_broadcast,),
    reshape: (_reshape,),
    transpose: (_transpose, _transpose_joined),
    convert: (_drop_conversion,),
    copy: (_drop_conversion,),
    sum_: (_sum_of_single_entries, sum_of_products),
}

# By op: its rules, each with the kinds it looks for among the arguments, None where it is asked
# always; all kinds that are looked for.
SEEKING = {op: [(rule, SOUGHT.get(rule)) for rule in rules] for op, rules in RULES.items()}
NOTABLE = frozenset[Kind]().union(*SOUGHT.values())

# What is done about nodes of an op: its rules are asked always, or only where an argument is
# notable; the node is looked for itself.
ASKED, SEEKS, NOTED = 1, 2, 4
SEEN_WITH = (CONSTANT, multiply)  # notable for what they hold


def _mode(op: Primitive) -> int:
    rules = SEEKING.get(op, ())
    mode = ASKED if any(sought is None for _, sought in rules) else SEEKS if rules else 0
    return mode | (NOTED if op in NOTABLE or op in SEEN_WITH else 0)


MODES = {op: _mode(op) for op in (*RULES, *NOTABLE, CONSTANT) if isinstance(op, Primitive)}
