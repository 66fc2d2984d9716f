"""Constant factors of products are multiplied with one another: ``100 * (2 * x)`` is ``200 * x``.

A product that NumPy would compute keeps its bits: constants meet only where every input gives the
same rounded value. A product that a derivative rule has entered (`Builder.derivative`) has no such
model, and its constants meet in any order, as they would where somebody differentiates by hand.

Reassociation and constant folding: S. S. Muchnick, Advanced Compiler Design and Implementation,
1997, sections 12.3 and 12.1.
"""

from __future__ import annotations

import math
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import broadcast
from ...tape import Builder
from .rewrite_context import (
    SCALED,
    Ids,
    Parameters,
    new,
    node_if,
    repeated_node,
    repeated_number,
    seeks,
)

# A factor that may be moved within a derivative: one that moves where it overflows by a few bits.
SMALL = 16.0


@seeks("broadcast_to")
def product_of_numbers(b: Builder, args: Ids, params: Parameters) -> int | None:
    """``broadcast(2) * 3 -> broadcast(6)``: the product of two numbers is a number."""
    left, right = repeated_number(b, args[0]), repeated_number(b, args[1])
    if not isinstance(left, float) or not isinstance(right, float):
        return None
    types = [b.type(a) for a in args]
    shape = broadcast(*(t.shape for t in types))
    if left == 1.0:  # as seeds are
        return new(b, "broadcast_to", (repeated_node(b, args[1]),), shape=shape)
    dtype, product = types[0].dtype, left * right
    if not abs(product) <= _limits(dtype)[1]:
        return None
    return new(b, "broadcast_to", (b.constant(np.asarray(product, dtype)),), shape=shape)


@lru_cache(maxsize=16)
def _limits(dtype: np.dtype) -> tuple[float, float]:
    """The least normal number and the greatest."""
    limits = np.finfo(dtype)
    return float(limits.smallest_normal), float(limits.max)


@seeks(SCALED, "negative")
def merge_factors(b: Builder, args: Ids, params: Parameters) -> int | None:
    """``c * (d * x) -> (c d) * x``; in derivatives ``(c * x) * (d * y) -> ((c d) * x) * y``."""
    if b.type(args[0]).dtype.kind != "f":
        return None
    for here, other in ((0, 1), (1, 0)):
        outer, inner = _scalar_factor(b, args[here], args[other]), _scalar_product(b, args[other])
        if outer is not None and inner is not None:
            return _scaled_by(b, outer, *inner)
    return _merge_both(b, args) if b.derivative else None


def _merge_both(b: Builder, args: Ids) -> int | None:
    """``(c * x) * (d * y) -> ((c d) * x) * y``, where `x` is the smaller one."""
    left, right = _scalar_product(b, args[0]), _scalar_product(b, args[1])
    if left is None or right is None:
        return None
    if b.type(args[0]).size > b.type(args[1]).size:
        left, right = right, left
    scaled = _scaled_by(b, right[0], *left)
    return None if scaled is None else new(b, "multiply", (scaled, right[1]))


def _scalar_product(b: Builder, i: int) -> tuple[float, int] | None:
    """A factor and what it multiplies, where node `i` is such a product or its negative."""
    node, sign = b.nodes[i], 1.0
    if inner := node_if(b, i, "negative"):
        node, sign = b.nodes[inner.args[0]], -1.0
    if node.primitive.name == "add" and node.args[0] == node.args[1]:
        return sign * 2.0, node.args[0]
    if node.primitive.name != "multiply":
        return (sign, inner.args[0]) if inner else None
    for here, other in ((0, 1), (1, 0)):
        factor = _scalar_factor(b, node.args[here], node.args[other])
        if factor is not None:
            return sign * factor, node.args[other]
    return (sign, inner.args[0]) if inner else None


def _scalar_factor(b: Builder, i: int, x: int) -> float | None:
    """The number that node `i` is, where the product of it and `x` has the shape of `x`."""
    factor, shape = repeated_number(b, i), b.type(x).shape
    return (
        factor if isinstance(factor, float) and broadcast(b.type(i).shape, shape) == shape else None
    )


def _scaled_by(b: Builder, outer: float, inner: float, x: int) -> int | None:
    """``outer * (inner * x)`` as one product, where that may be; None where not."""
    dtype = b.type(x).dtype
    product = outer * inner
    least, most = _limits(dtype)
    if not least <= abs(product) <= most:
        return None
    few = min(max(abs(c), 1 / abs(c)) for c in (outer, inner)) <= SMALL
    if not (_exact(outer, inner) or (b.derivative and few)):
        return None
    if product == 1.0:
        return x
    if product == 2.0:
        return new(b, "add", (x, x))
    return new(b, "multiply", (b.constant(np.asarray(product, dtype)), x))


def _exact(outer: float, inner: float) -> bool:
    """Whether ``outer * (inner * x)`` and ``(outer inner) * x`` are the same for every `x`.

    A factor of a power of two rounds nothing, unless a product is too large or too small for its
    format: with factors of at least one, what overflows on the way is infinite in the end. A
    number times one that is whole is no smaller than the least number, and no fraction of it.
    """
    if abs(inner) == 1.0 or abs(outer) == 1.0:
        return True
    if abs(outer) < 1.0 or abs(inner) < 1.0:
        return False
    return _power_of_two(inner) or (_power_of_two(outer) and inner.is_integer())


def _power_of_two(c: float) -> bool:
    return abs(math.frexp(c)[0]) == 0.5
