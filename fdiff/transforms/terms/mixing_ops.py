"""Linear ops without a rule of their own: their matrices, by the rule that batches them.

Entries of the operand mix, along all axes but those that the op's `axis_map` tells to be
independent. Seeds are the entries that mix, or the columns that reach the operand if those are
fewer; the block of both is dense. Of a call that declares a pattern they are sums of columns that
share no row, a seed for each colour. Our own: docs/decisions/terms-and-cuts.md.
"""

from __future__ import annotations

from math import prod
from typing import Protocol

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, distinct
from ...ops.shapes.gather_scatter import scatter_set
from ...ops.terms import SEED, Entries, LinearTerm, TermSweep, whole
from ...tape import Node
from ...trace import Array, TracedArray, apply
from ...user_lines import Line
from ..batch import widened
from ..custom_calls import CALL
from ..late_steps import late_step
from ..patterns.column_colouring import colours
from ..simplify import SimplifyingTrace
from .cuts import Cuts

# Only calls have patterns of their own.
declared_pattern = late_step("terms.declared_patterns", "declared_pattern")


class MixingSweep(TermSweep, Protocol):
    """The methods of the sweep that mixing operations use and rules do not."""

    trace: SimplifyingTrace
    values: list[int]
    cuts: Cuts
    line: Line | None

    def check(self, count: int) -> None: ...
    def cut(self, entries: list[Entries], type_: ArrayType) -> list[LinearTerm]: ...


Pairs = list[
    tuple[int, int]
]  # axes of the output, each with the axis of the operand which it lies along


def mixed(sweep: MixingSweep, node: Node) -> list[list[LinearTerm]]:
    """The terms of each output of a node."""
    terms_of_outputs: list[list[LinearTerm]] = [[] for _ in node.types]
    for q, a in enumerate(node.args):
        if sweep.moves(a) and sweep.terms_of(a) and sweep.type(a).size:
            more = _of_operand(sweep, node, q)
            terms_of_outputs = [
                terms + further for terms, further in zip(terms_of_outputs, more, strict=True)
            ]
    return terms_of_outputs


def _of_operand(sweep: MixingSweep, node: Node, q: int) -> list[list[LinearTerm]]:
    """The terms of each output, as far as operand `q` moves them."""
    type_ = sweep.type(node.args[q])
    declared = declared_pattern(node, q) if node.primitive is CALL else None
    if declared is not None:
        return [_coloured(sweep, node, q, *declared.nonzero())]
    pairs = _independent(sweep, node, q) if len(node.types) == 1 else []
    mixing = [k for k in range(type_.ndim) if k not in [along for _, along in pairs]]
    (source, *_) = sweep.source_of(node.args[q])
    if type_.dtype.kind != "c" and not any(type_.shape[along] > 1 for _, along in pairs):
        few = _reaching(sweep, type_, source.source, prod(type_.shape[k] for k in mixing))
        if few is not None:
            seeds, reached = few
            return _terms(sweep, node, q, seeds, [_columns(t, reached) for t in node.types], SEED)
    seeds, cols = _units(sweep, type_, pairs, mixing, node.type.ndim)
    maps = [cols if k == 0 else _columns(t, cols.reshape(-1)) for k, t in enumerate(node.types)]
    return _terms(sweep, node, q, seeds, maps, source.source)


def _reaching(
    sweep: MixingSweep, type_: ArrayType, source: int, most: int
) -> tuple[Array, np.ndarray] | None:
    """Seeds of the columns that reach an operand, and the columns; None from `most` columns on."""
    places, values = sweep.cuts.listed(source)
    reached = distinct(places.cols).astype(np.int64)
    if len(reached) >= most:
        return None
    at = np.searchsorted(reached, places.cols) * type_.size + places.rows
    values = np.ones(len(at), type_.dtype) if values is None else values
    flat = apply(scatter_set, np.zeros(len(reached) * type_.size, type_.dtype), values, at)
    return np.reshape(flat, (len(reached), *type_.shape)), reached


def _coloured(
    sweep: MixingSweep, node: Node, q: int, rows: np.ndarray, cols: np.ndarray
) -> list[LinearTerm]:
    """The terms of the one output, whose Jacobian has entries in these rows and columns alone."""
    type_, out = sweep.type(node.args[q]), node.type
    if not len(rows):
        return []
    colour = colours((out.size, type_.size), rows, cols)
    count = int(colour.max(initial=0)) + 1
    seeds = (colour == np.arange(count)[:, None]).astype(type_.dtype)
    (source,) = sweep.source_of(node.args[q])
    (products,) = _batched(sweep, node, q, np.reshape(seeds, (count, *type_.shape)))
    values = np.reshape(products, (-1,))[colour[cols] * out.size + rows]
    places = [a.astype(np.int64) for a in (rows, cols)]
    return sweep.cut([Entries(places[0], places[1], values, source.source)], out)


def _columns(type_: ArrayType, cols: np.ndarray) -> np.ndarray:
    """A map of the same columns for each entry of a node."""
    return cols.reshape((*(1,) * type_.ndim, len(cols)))


def _independent(sweep: MixingSweep, node: Node, q: int) -> Pairs:
    """The axes of the output that depend on one axis of the operand, entry by entry."""
    rule = node.primitive.structure.axis_map
    if rule is None:
        return []
    types, params = [sweep.type(a) for a in node.args], dict(node.params)
    maps = [rule(k, node.type, *types, **params) for k in range(node.type.ndim)]
    sources = [None if m is None else m.sources[q] for m in maps]
    return [(k, along) for k, along in enumerate(sources) if along is not None]


def _units(
    sweep: MixingSweep, type_: ArrayType, pairs: Pairs, mixing: list[int], ndim: int
) -> tuple[np.ndarray, np.ndarray]:
    """Unit seeds of the entries that mix, and the map of the columns for each of them."""
    shape, parts = type_.shape, 2 if type_.dtype.kind == "c" else 1
    count = prod(shape[k] for k in mixing)
    sweep.check(count * parts * type_.size)
    eye = np.eye(count, dtype=type_.dtype)
    eye = eye.reshape((count, *[n if k in mixing else 1 for k, n in enumerate(shape)]))
    seeds = eye if parts == 1 else np.concatenate([eye, 1j * eye]).astype(type_.dtype)
    along = [k for _, k in pairs]
    grid = (
        sweep.grid(shape).transpose([*along, *mixing]).reshape((*[shape[k] for k in along], count))
    )
    cols = grid if parts == 1 else np.concatenate([2 * grid, 2 * grid + 1], axis=-1)
    order = sorted(range(len(pairs)), key=lambda j: pairs[j][0])
    lead = [1] * ndim
    for k, a in pairs:
        lead[k] = shape[a]
    cols = cols.transpose([*order, len(pairs)]).reshape((*lead, count * parts))
    return np.broadcast_to(seeds, (count * parts, *shape)), cols


def _terms(
    sweep: MixingSweep, node: Node, q: int, seeds: Array, maps: list[np.ndarray], source: int
) -> list[list[LinearTerm]]:
    """The terms of a source whose columns `maps` name, by the op on all seeds at once."""
    size = seeds.shape[0]
    terms = []
    outs = _batched(sweep, node, q, seeds)
    for value, type_, cols in zip(outs, node.types, maps, strict=True):
        coef = np.moveaxis(value, 0, -1)  # type: ignore[call-overload] - stubs know no traced arrays
        there = type_.size and size
        terms.append([LinearTerm(whole(type_.shape), cols, coef, source)] if there else [])
    return terms


def _batched(sweep: MixingSweep, node: Node, q: int, seeds: Array) -> list[TracedArray]:
    """The op with all seeds in place of operand `q`, and zeros for other moving operands."""
    size = seeds.shape[0]
    sweep.check(size * sum(t.size for t in node.types))
    args = [
        sweep.trace.lift(np.zeros(sweep.type(a).shape, sweep.type(a).dtype))
        if sweep.moves(a)
        else sweep.values[a]
        for a in node.args
    ]
    args[q] = sweep.trace.lift(seeds)
    on = tuple([int(k == q) for k in range(len(args))])
    outs = widened(sweep.trace, node, args, on, size, sweep.line)
    batches = []
    for out, type_ in zip(outs, node.types, strict=True):
        value = TracedArray(sweep.trace, out, sweep.trace.builder.type(out))
        if value.ndim == type_.ndim:  # a rule may tell that the result is the same for all
            value = np.broadcast_to(value, (size, *type_.shape))
        batches.append(value)
    return batches
