"""The columns of a dense Jacobian whose rows are gathered, computed where they stand in it.

``V[corr]``, for more indices than `V` has rows, gathers the Jacobian of `V`. Where other columns,
of constants, stand between the gathered ones, the Jacobian of `V` gets zeros there, and a choice
puts the others into what is gathered: one loop writes the result, where columns side by side would
be copied run by run (docs/decisions/terms-and-cuts.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, distinct
from ...ops.shapes.axis_maps import entrywise
from ...ops.shapes.gather_scatter import gather
from ...ops.shapes.joining_and_splitting import concatenate
from ...ops.shapes.view_ops import reshape
from ...ops.terms import SEED, LinearTerm, ones_like, whole
from ...trace import Array, TracedArray, apply
from .term_sweep import LinearSweep

MASK = 1 << 12  # entries of a mask of columns, up to which it is kept as a constant


def columns_of_gathered_rows(sweep: LinearSweep, node: int) -> Array | None:
    """The Jacobian of a node as a matrix, if one term gathers rows; else None.

    All other terms have one column in each row.
    """
    size = sweep.type(node).size
    while sweep.tape.nodes[node].primitive is reshape:
        (node,) = sweep.tape.nodes[node].args
    type_, columns = sweep.type(node), sweep.cuts.columns
    terms = _wide_and_single(sweep, node)
    if terms is None:
        return None
    wide, *single = terms
    place = np.full(columns, -1)
    place[wide.cols.reshape(-1)] = np.arange(wide.cols.size)
    assert wide.coef is not None
    # Where no column is gathered there is nothing, also beside infinities.
    matrix = np.where(place >= 0, _spread(wide.coef, place), np.zeros((), type_.dtype))
    for t in single:
        chosen = t.cols[..., np.newaxis] == np.arange(columns)
        matrix = np.where(chosen, _factor(sweep, t, type_), matrix)
    return np.reshape(np.broadcast_to(matrix, (*type_.shape, columns)), (size, columns))


def _wide_and_single(sweep: LinearSweep, node: int) -> list[LinearTerm] | None:
    """The term that gathers rows, then terms of one column in each row; None of other nodes.

    No two of the terms have a column in common.
    """
    terms, rows = sweep.terms.get(node, ()), whole(sweep.type(node).shape)
    wide = [t for t in terms if t.coef is not None and len(t.extra) == 1 and _gathers(t.coef)]
    single = [t for t in terms if not t.extra and t.cols.size * sweep.cuts.columns <= MASK]
    if (
        len(wide) != 1
        or len(wide) + len(single) != len(terms)
        or any(t.source != SEED or t.rows != rows for t in terms)
        or wide[0].cols.size != wide[0].extra[0]
    ):
        return None
    apart = [distinct(t.cols) for t in terms]
    if len(distinct(np.concatenate(apart))) != sum(map(len, apart)):
        return None
    return [*wide, *single]


def _factor(sweep: LinearSweep, t: LinearTerm, type_: ArrayType) -> Array:
    factor = sweep.lift(ones_like(t, type_.dtype))
    return np.reshape(factor, (*factor.shape, 1))


def _operand(wide: TracedArray, k: int) -> TracedArray:
    nodes = wide.home.builder.nodes
    number = nodes[wide.id].args[k]
    return TracedArray(wide.home, number, nodes[number].type)


def _wide_operand(wide: TracedArray) -> int | None:
    """The operand that alone has the columns of `wide`, its last axis: of what computes entry by
    entry, or gathers more rows than there are; else None.

    A gather of few rows is left to `row_selection`, which moves it.
    """
    nodes = wide.home.builder.nodes
    node = nodes[wide.id]
    types = [nodes[a].type for a in node.args]
    if node.primitive is gather:
        return 0 if types[0].ndim >= len(types) and wide.size >= types[0].size else None
    if node.primitive.structure.axis_map is not entrywise:
        return None
    own = [k for k, t in enumerate(types) if (t.ndim, *t.shape[-1:]) == (wide.ndim, wide.shape[-1])]
    return own[0] if len(own) == 1 else None


def _gathers(wide: TracedArray) -> bool:
    """Whether a path of nodes gathers columns, and is elementwise otherwise."""
    while (k := _wide_operand(wide)) is not None:
        if wide.home.builder.nodes[wide.id].primitive is gather:
            return True
        wide = _operand(wide, k)
    return False


def _spread(wide: TracedArray, place: np.ndarray) -> Array:
    """Columns in other places: `place` says for each which it is, or -1 for a column of zeros.

    Rows are gathered afterwards.
    """
    k = _wide_operand(wide)
    if k is None:
        return _joined(wide, place)
    node = wide.home.builder.nodes[wide.id]
    args: list[Array] = [_operand(wide, j) for j in range(len(node.args))]
    args[k] = _spread(_operand(wide, k), place)
    return apply(node.primitive, *args, **dict(node.params))


def _joined(wide: TracedArray, place: np.ndarray) -> Array:
    parts: list[Array] = []
    k = 0
    while k < len(place):
        first, low = int(place[k]), k
        while k < len(place) and place[k] == (first + k - low if first >= 0 else -1):
            k += 1
        if first < 0:
            parts.append(np.zeros((*wide.shape[:-1], k - low), wide.dtype))
        else:
            parts += _parts(wide, first, first + k - low)
    return np.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]


def _parts(wide: TracedArray, low: int, high: int) -> Sequence[Array]:
    """Columns `low` to `high`: operands of the concatenation where they fit, else a slice."""
    node = wide.home.builder.nodes[wide.id]
    if node.primitive is concatenate and dict(node.params)["axis"] == wide.ndim - 1:
        args = [_operand(wide, j) for j in range(len(node.args))]
        ends = np.cumsum([a.shape[-1] for a in args]).tolist()
        inside = [
            a for a, e in zip(args, ends, strict=True) if low <= e - a.shape[-1] and e <= high
        ]
        if sum(a.shape[-1] for a in inside) == high - low:
            return inside
    return [wide[..., low:high]]
