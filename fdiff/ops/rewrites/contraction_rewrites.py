"""Rewrites of contractions: products with identity seeds, axes of length one, sums of products."""

from __future__ import annotations

from ...facets import Rewrite
from ...primitive import PRIMITIVES
from ...tape import Builder
from ..shapes.subscripts import LETTERS, parse, sizes_by_label
from .rewrite_context import (
    Ids,
    Parameters,
    axes_of,
    new,
    node_if,
    repeated_number,
    reshape_of,
    seeks,
    transpose_of,
)


def _is_identity(b: Builder, i: int) -> bool:
    """Whether node `i` is an identity matrix made of counters, as unit seeds are."""
    node, shape = b.nodes[i], b.type(i).shape
    if node.primitive.name != "where" or len(shape) != 2 or shape[0] != shape[1]:
        return False
    test, inside, outside = node.args
    hit = node_if(b, test, "equal")
    if hit is None or (repeated_number(b, inside), repeated_number(b, outside)) != (1.0, 0.0):
        return False
    rows, columns = (b.nodes[a] for a in hit.args)
    if rows.primitive.name != "reshape" or rows.type.shape != (shape[0], 1):
        return False
    count = b.nodes[rows.args[0]]
    if count.primitive.name == "add" and repeated_number(b, count.args[1]) == 0:
        count = b.nodes[count.args[0]]
    counters = count.primitive.name == columns.primitive.name == "iota"
    return counters and columns.type.shape == shape[1:]


@seeks("where")
def product_with_identity(b: Builder, args: Ids, params: Parameters) -> int | None:
    """The product of an identity matrix with ``x`` is ``x`` with one axis relabelled.

    Zeros of unit seeds are directions that are not taken: they are no factors of what is infinite.
    """
    *sides, out = parse(params["subscripts"])
    for here, other in ((0, 1), (1, 0)):
        if not _is_identity(b, args[here]):
            continue
        summed = [x for x in sides[here] if x in sides[other] and x not in out]
        free = [x for x in sides[here] if x in out and x not in sides[other]]
        if len(summed) == len(free) == 1:
            renamed = sides[other].replace(summed[0], free[0])
            return transpose_of(b, args[other], tuple(renamed.index(x) for x in out))
    return None


@Rewrite
def product_with_number(b: Builder, args: Ids, params: Parameters) -> int | None:
    """The product of a number and an array is one entry by entry."""
    *sides, out = parse(params["subscripts"])
    for here, other in ((0, 1), (1, 0)):
        if not sides[here] and len(sides[other]) == len(out):
            turned = transpose_of(b, args[other], tuple(sides[other].index(x) for x in out))
            return b.add(PRIMITIVES["multiply"], (args[here], turned))
    return None


@Rewrite
def drop_axes_of_length_one(b: Builder, args: Ids, params: Parameters) -> int | None:
    """Without the axes of one entry: a matrix of one column is a vector.

    A pattern of products of vectors then also matches products of columns.
    """
    *sides, out = parse(params["subscripts"])
    left, right = map(b.type, args)
    size = sizes_by_label(params["subscripts"], left, right)
    if 1 not in size.values():
        return None
    kept = ["".join(x for x in side if size[x] != 1) for side in sides]
    if not all(kept):
        return None  # a number: its product is better told from the axes that are there
    result = "".join(x for x in out if size[x] != 1)
    inner = tuple(
        reshape_of(b, a, tuple(size[x] for x in side)) for a, side in zip(args, kept, strict=True)
    )
    return reshape_of(b, _contraction(b, inner, (*kept, result)), tuple(size[x] for x in out))


@Rewrite
def sum_of_products(b: Builder, args: Ids, params: Parameters) -> int | None:
    """A sum of products of arrays, each with axes that the other lacks: a product of matrices.

    Spelled as a product it takes no array of all terms, and a routine for matrices.
    """
    terms, axes = node_if(b, args[0], "multiply"), axes_of(params)
    if terms is None or terms.type.dtype.kind not in "fc":
        return None
    shape = terms.type.shape
    kept = [_long_axes(b.type(a).shape, len(shape)) for a in terms.args]
    if len(shape) > len(LETTERS) or not _is_matrix_product(shape, axes, *map(set, kept)):
        return None
    pairs = zip(terms.args, kept, strict=True)
    inner = tuple(reshape_of(b, a, tuple(shape[k] for k in own)) for a, own in pairs)
    left = tuple(k for k, n in enumerate(shape) if n != 1 and k not in axes)
    labels = tuple("".join(LETTERS[k] for k in own) for own in (*kept, left))
    dims = tuple(n for k, n in enumerate(shape) if k not in axes)
    return reshape_of(b, _contraction(b, inner, labels), dims)


def _long_axes(shape: tuple[int, ...], ndim: int) -> tuple[int, ...]:
    """The axes of several entries of an operand, as axes of what it is broadcast to."""
    return tuple(ndim - len(shape) + k for k, n in enumerate(shape) if n != 1)


def _is_matrix_product(shape: tuple[int, ...], axes: Ids, left: set[int], right: set[int]) -> bool:
    """Whether both operands have the axes that are summed, and each has one that the other lacks."""
    summed = {k for k in axes if shape[k] != 1}
    return bool(summed) and left & right >= summed and bool(left - right and right - left)


def _contraction(b: Builder, args: Ids, labels: tuple[str, ...]) -> int:
    """The product of two arrays, by the labels of both and of the result."""
    left, right, out = labels
    params: Parameters = {"subscripts": f"{left},{right}->{out}"}
    product = product_with_identity.rule(b, args, params)
    return new(b, "contract", args, **params) if product is None else product
