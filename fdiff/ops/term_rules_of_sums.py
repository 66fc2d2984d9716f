"""Rules for terms of ops that add entries: sums, products, cumulative sums, sparse products.

Along an axis that is summed, entries are really added where all of them stand for one column; where each stands
for a column of its own, the axis becomes one of several columns of a row, and nothing is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import fdiff.intact_numpy as np

from ..tape import Node
from ..trace import Array, TracedArray, apply
from .shapes.subscripts import LETTERS, parse
from .terms import Entries, LinearTerm, TermSweep, ones_like, rows_key, whole

MANY = 64  # columns of a row, beyond which an operand is a source of its own before its columns grow


def summed(s: TermSweep, node: Node) -> list[LinearTerm]:
    axes = node.param("axes")
    left = [k for k in range(s.type(node.args[0]).ndim) if k not in axes]
    return [_summed(s, t, axes, left, node) for t in s.terms_of(node.args[0])]


def _summed(s: TermSweep, t: LinearTerm, axes: Sequence[int], left: Sequence[int], node: Node) -> LinearTerm:
    added = [k for k in axes if t.cols.shape[k] == 1]
    columns = [k for k in axes if t.cols.shape[k] != 1]
    order = (*left, *range(len(t.rows), t.cols.ndim), *columns)
    cols = np.transpose(t.cols, (*added, *order)).reshape([t.cols.shape[k] for k in order])
    coef = t.coef
    if coef is None and added:
        coef = s.lift(np.ones((1,) * t.cols.ndim, node.type.dtype))
    if coef is not None:
        times = prod([t.rows[k][1] for k in added if coef.shape[k] == 1])
        long = tuple([k for k in added if coef.shape[k] != 1])
        coef = np.sum(coef, axis=long, keepdims=True) if long else coef
        coef = coef if times == 1 else coef * times
        shape = [coef.shape[k] for k in order]
        coef = np.reshape(np.transpose(coef, (*added, *order)), shape)
    return LinearTerm(tuple([t.rows[k] for k in left]), cols, coef, t.source)


# --- products with what does not move ------------------------------------------------------------


def contracted(s: TermSweep, node: Node) -> list[LinearTerm]:
    labels = parse(node.param("subscripts"))
    q = int(not s.moves(node.args[0]))
    terms = s.eased(node.args[q])
    if any(_grows(t, labels[q], labels[2]) for t in terms):
        terms = s.source_of(node.args[q])
    return [_product(s, node, q, t) for t in terms]


def _grows(t: LinearTerm, labels: str, out: str) -> bool:
    """Whether a product lists many columns where the term has several: they are put together before."""
    more = prod([n for n, label in zip(t.cols.shape, labels, strict=False) if label not in out])
    return more > 1 and prod(t.extra) > 1 and more * prod(t.extra) > MANY


def _product(s: TermSweep, node: Node, q: int, t: LinearTerm) -> LinearTerm:
    """The term of a product with a term in the place of operand `q`."""
    labels = parse(node.param("subscripts"))
    mine, others, out = labels[q], labels[1 - q], labels[2]
    other = s.value(node.args[1 - q])
    sizes = dict(zip(others, other.shape, strict=True)) | dict(zip(mine, [n for _, n, _ in t.rows], strict=True))
    if t.rows != whole(s.type(node.args[q]).shape):
        keys = dict(zip(mine, rows_key(t.rows), strict=True))
        other = other[tuple([keys.get(label, slice(None)) for label in others])]
    added = [x for k, x in enumerate(mine) if x not in out and t.cols.shape[k] == 1]
    columns = [x for x in mine if x not in out and x not in added]
    fresh = [x for x in LETTERS if x not in mine + others + out][: t.cols.ndim - len(mine)]
    target = [*out, *fresh, *columns]
    every = [*mine, *fresh]
    cols = _arranged(np.reshape(t.cols, [n for x, n in zip(every, t.cols.shape, strict=True) if x not in added]),
                     [x for x in every if x not in added], target)  # fmt: skip
    coef = _factor(s, t, every, (other, list(others)), target, added, sizes)
    rows = dict(zip(mine, t.rows, strict=True))
    return LinearTerm(tuple([rows.get(x, (0, sizes[x], 1)) for x in out]), cols, coef, t.source)


def _factor(
    s: TermSweep,
    t: LinearTerm,
    every: Sequence[str],
    beside: tuple[TracedArray, list[str]],
    target: Sequence[str],
    added: Sequence[str],
    sizes: dict[str, int],
) -> TracedArray:
    """The coefficient of a product: the term's coefficient times the other operand, summed over the
    labels `added`.
    """
    other, others = beside
    coef = t.coef
    own = [] if coef is None else [x for x, n in zip(every, coef.shape, strict=True) if n != 1]
    if coef is not None:
        coef = np.reshape(coef, [n for n in coef.shape if n != 1])
    times = prod([sizes[x] for x in added if x not in own and x not in others])
    if any(x in (*own, *others) for x in added):
        left = [x for x in target if x in own or x in others]
        spell = "".join
        if coef is None:
            product = np.einsum(f"{spell(others)}->{spell(left)}", other)
        else:
            product = np.einsum(f"{spell(own)},{spell(others)}->{spell(left)}", coef, other)
        product = _arranged(product, left, target)
    else:
        product = _arranged(other, others, target)
        product = product if coef is None else _arranged(coef, own, target) * product
    return s.lift(product if times == 1 else product * times)


def _arranged(array: Array, labels: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """An array with an axis for each label of `target`, of length 1 where it has none."""
    there = [x for x in target if x in labels]
    moved = np.transpose(array, [labels.index(x) for x in there])
    shape = iter(moved.shape)
    return np.reshape(moved, [next(shape) if x in labels else 1 for x in target])


# --- cumulative sums, and products with sparse matrices --------------------------------------------


def cumulated(s: TermSweep, node: Node) -> list[LinearTerm]:
    """Terms of a cumulative sum: their sums where the map is the same along the axis, else a triangle."""
    named = dict(node.params)
    axis, shape = named["axis"], node.type.shape
    n, terms = shape[axis], s.terms_of(node.args[0])
    if all(t.cols.shape[axis] == 1 and t.rows[axis] == (0, n, 1) for t in terms):
        return [t._replace(coef=_accumulated(s, t, node, axis, n)) for t in terms]
    lists = []
    for entries in s.listed(terms, node.type):
        at = np.unravel_index(entries.rows, shape)[axis]
        count = at + 1 if named["reverse"] else n - at
        s.allow(int(np.sum(count, dtype=np.int64)))
        places = np.repeat(np.arange(len(at)), count)
        steps = np.arange(len(places)) - np.repeat(np.cumsum(count) - count, count)
        steps = -steps if named["reverse"] else steps
        lists.append(entries.at(places, entries.rows[places] + steps * prod(shape[axis + 1 :])))
    return s.cut(lists, node.type)


def _accumulated(s: TermSweep, t: LinearTerm, node: Node, axis: int, n: int) -> TracedArray:
    factor = s.lift(ones_like(t, node.type.dtype))
    full = tuple([n if k == axis else m for k, m in enumerate(factor.shape)])
    return apply(node.primitive, np.broadcast_to(factor, full), **dict(node.params))


def sparse_product(s: TermSweep, node: Node) -> list[LinearTerm]:
    """The entries of the matrix, and for each the entries of the operand that it meets."""
    data, rows, cols, _, x = node.args
    r, c = s.index(rows), s.index(cols)
    if node.param("transposed"):
        r, c = c, r
    k = s.type(x).shape[1]
    where, there = ((a[:, None] * k + np.arange(k)).reshape(-1) for a in (r, c))
    if s.moves(x):
        source, picked = s.source_of(x), there
        values = np.repeat(s.value(data), k)
    else:
        source, picked = s.source_of(data), np.repeat(np.arange(len(r)), k)
        values = np.reshape(s.value(x)[c], (-1,))
    return s.cut([_through(t, where, picked, values) for t in source], node.type)


def _through(t: LinearTerm, where: np.ndarray, picked: np.ndarray, values: object) -> Entries:
    """The entries of a product with a source that has the entries `picked`, one of its two parts if it is complex."""
    factor = values if t.coef is None else values * np.reshape(t.coef, (1,))
    return Entries(where, np.reshape(t.cols, (-1,))[picked], factor, t.source)


def first_operand(s: TermSweep, node: Node) -> list[LinearTerm]:
    """The terms of the first operand, of an op that gives its value."""
    return s.terms_of(node.args[0]) if s.moves(node.args[0]) else []

