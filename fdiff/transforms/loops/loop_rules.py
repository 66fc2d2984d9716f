"""Derivatives and batches of loops: the transforms of tapes, applied to the body, in a loop.

The tangent of a carry is a carry, the tangent of a row a row. Cotangents are carried by a loop that
runs the other way, as by a tape that is played back (A. Griewank and A. Walther, Evaluating
Derivatives, SIAM 2008, section 3.2); cotangents of invariants are added up in further carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, ArrayType
from ...hooks import BODY_RULES, BodyRules
from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.control.loop_operands import operands
from ...ops.shapes.gather_scatter import iota
from ...ops.shapes.view_ops import spread
from ...primitive import ZERO
from ...tape import Tape
from ...trace import TracedArray, TracedArrays, apply, apply_many, splice
from ...trace.derived_lines import kept_by_value
from ..activity import depends
from ..batch import batch
from ..cotangent_masks import Bar
from ..forward import jvp
from ..reverse import masked_vjp
from ..simplify import SimplifyingTrace
from .bodies import Places, entered, moving, read_inputs, rearranged
from .loop_pullbacks import Pullback, pullback_of


def zeros_like(x: TracedArray) -> object:
    """The derivative of a value that does not move."""
    return _zeros(x.type)


# --- tangents -------------------------------------------------------------------------------------


@kept_by_value
def pushed_body(body: Tape, carries: int, rows: int, wrt: Places) -> tuple[Tape, Places]:
    """The body of the tangent loop, and the outs that have tangents."""
    whole, count = jvp(body, wrt), len(body.outputs)
    depending = depends(body, wrt)
    outs = tuple([o for o in range(carries, count) if any(depending[o])])
    moved = [k for k in wrt if k < carries]
    arguments = operands(
        ((-1, -1), *zip(body.inputs, range(len(body.inputs)), strict=True)), carries, rows
    )
    dots = dict(zip(wrt, whole.inputs[len(body.inputs) :], strict=True))
    inputs: list[int] = []
    for part in arguments[1:]:
        inputs += [whole.inputs[k] for _, k in part]
        inputs += [dots[k] for _, k in part if k in dots]
    tangents = whole.outputs[count:]
    outputs = [*whole.outputs[:carries], *[tangents[k] for k in moved]]
    outputs += [*whole.outputs[carries:count], *[tangents[o] for o in outs]]
    return rearranged(whole, inputs, outputs), outs


def _jvp(
    dots: Sequence[object], args: TracedArrays, outs: TracedArrays, *, body: Tape, carries: int,
    length: int, reverse: bool, rows: int,
) -> list[object]:  # fmt: skip
    wrt = moving(body, carries, [dot is not ZERO for dot in dots[1:]])
    result: list[object] = [ZERO] * len(body.outputs)
    if not wrt:
        return result
    pushed, moved_outs = pushed_body(body, carries, rows, wrt)
    filled = {k: zeros_like(args[1 + k]) if dots[1 + k] is ZERO else dots[1 + k] for k in wrt}
    arguments = operands(args, carries, rows)
    last = len(args) - 1 - rows
    tangents = [
        [filled[k] for k in wrt if first <= k < end]
        for first, end in ((0, carries), (carries, last), (last, len(args)))
    ]
    results = apply_many(
        LOOP, arguments.trips, *arguments.carries, *tangents[0], *arguments.invariants,
        *tangents[1], *arguments.rows, *tangents[2], body=pushed, length=length,
        carries=carries + len(tangents[0]), reverse=reverse, rows=rows + len(tangents[2]),
    )  # fmt: skip
    moved = [k for k in wrt if k < carries]
    for k, dot in zip(moved, results[carries:], strict=False):
        result[k] = dot
    for o, dot in zip(moved_outs, results[len(results) - len(moved_outs) :], strict=True):
        result[o] = dot
    return result


# --- cotangents -----------------------------------------------------------------------------------


class _Reverse(NamedTuple):
    """The body of a reverse loop, and which invariants and rows of the loop it reads.

    ``(*bars, *sums, *restored, *invariants, *kept, *rows, *out_bars)`` gives ``(*bars, *sums,
    *restored, *row_bars)``. The bars, sums, row bars and out bars are each followed by their masks.
    """

    body: Tape
    invariants: Places
    rows: Places


@kept_by_value
def _reverse(pullback: Pullback, last: int, sums: tuple[ArrayType, ...]) -> _Reverse:
    """The reverse loop of a body whose rows begin at the input `last`; `sums` are the types."""
    swept, state, of_outs = pullback.swept, *_seeds(pullback)
    arrays = [swept.inputs[r.carry] for r in pullback.kept.restored]
    restored = pullback.kept.restored
    indices = [i for r in restored for i in r.indices(swept)]
    there = (*pullback.kept.nodes, *state, *of_outs)
    read = read_inputs(swept, [*pullback.results, *indices], (*there, *arrays))
    invariants = tuple([k for k in read if k < last])
    rows = tuple([k for k in read if k >= last])
    with SimplifyingTrace("vjp") as trace:
        ids: dict[int, int] = {}

        def enter(nodes: Sequence[int]) -> None:
            ids.update({i: trace.input(swept.nodes[i].type).node for i in nodes})

        enter(state)
        added = [trace.input(t) for t in sums]
        after = [trace.input(swept.nodes[i].type) for i in arrays]
        enter([*[swept.inputs[k] for k in invariants], *pullback.kept.nodes])
        old = [[trace.input(t) for t in r.types(swept)] for r in restored]
        enter([*[swept.inputs[k] for k in rows], *of_outs])
        entered(swept, trace.builder, ids, indices)
        for i, r, array, entries in zip(arrays, restored, after, old, strict=True):
            ids[i] = r.put_back(swept, ids, trace, array, entries).node
        results = _Results(pullback, last, entered(swept, trace.builder, ids, pullback.results))
        for k, i in enumerate(results.terms):
            term = TracedArray(trace, i, trace.builder.type(i))
            added[k] = added[k] | term if term.dtype == BOOL else added[k] + term
        outputs = [*results.state, *map(trace.lift, added), *[ids[i] for i in arrays]]
        return _Reverse(trace.builder.finish([*outputs, *results.rows]), invariants, rows)


def _seeds(pullback: Pullback) -> tuple[list[int], list[int]]:
    """Nodes of cotangents, then of masks, of the carries and of the outs."""
    seeds, carries = pullback.seeds, len(pullback.carries)
    count = carries + len(pullback.outs)
    first = count + sum(k in pullback.carries for k in pullback.masked)
    return [*seeds[:carries], *seeds[count:first]], [*seeds[carries:count], *seeds[first:]]


class _Results:
    """The results of a sweep: of carries, of invariants, and of rows, each with its masks."""

    def __init__(self, pullback: Pullback, last: int, results: Sequence[int]) -> None:
        carries, count = len(pullback.carries), len(pullback.carries) + len(pullback.inputs)
        shared = carries + sum(k < last for k in pullback.inputs)
        first = count + sum(k in pullback.carries for k in pullback.masked)
        masks = first + sum(k < last for k in pullback.left_out)
        self.state = [*results[:carries], *results[count:first]]
        self.terms = [*results[carries:shared], *results[first:masks]]
        self.rows = [*results[shared:count], *results[masks:]]


def _vjp(
    bars: Sequence[object], args: TracedArrays, outs: TracedArrays, *, needed: Sequence[bool],
    body: Tape, carries: int, length: int, reverse: bool, rows: int, pulls: Pullback | None = None,
) -> list[object]:  # fmt: skip
    if pulls is None:
        seeded = tuple([o for o, bar in enumerate(bars) if isinstance(bar, Bar)])
        masked = tuple([o for o in seeded if cast("Bar", bars[o]).mask is not None])
        wanted = tuple(map(bool, needed[1:]))
        pulls = pullback_of(body, carries, rows, wanted, seeded, masked, masked_vjp)
        if pulls is None:
            return [ZERO] * len(args)
        outs = apply_many(
            LOOP, *args, body=pulls.saving, carries=carries, length=length, reverse=reverse,
            rows=rows,
        )  # fmt: skip
    arguments, last = args[1:], len(args) - 1 - rows
    sums = [arguments[k].type for k in pulls.inputs if k < last]
    sums += [ArrayType(arguments[k].shape, BOOL) for k in pulls.left_out if k < last]
    back = _reverse(pulls, last, tuple(sums))
    state, of_outs = _cotangents(bars, outs, pulls)
    start = [*state, *map(_zeros, sums), *[outs[r.carry] for r in pulls.kept.restored]]
    table = [*[outs[o] for o in pulls.places], *[arguments[k] for k in back.rows], *of_outs]
    results = apply_many(
        LOOP, args[0], *start, *[arguments[k] for k in back.invariants], *table, body=back.body,
        carries=len(start), length=length, reverse=not reverse, rows=len(table),
    )  # fmt: skip
    held = len(start) - len(pulls.kept.restored)
    return _delivered(pulls, last, (*results[:held], *results[len(start) :]), len(args))


def _cotangents(
    bars: Sequence[object], outs: TracedArrays, pulls: Pullback
) -> tuple[list[object], list[object]]:
    """Initial carries and rows of a reverse loop: cotangents, then masks."""
    pairs = zip(outs, bars, strict=False)
    filled = [bar.value if isinstance(bar, Bar) else zeros_like(x) for x, bar in pairs]
    masks = {k: _mask_of(bars[k], outs[k]) for k in pulls.masked}
    parts = (pulls.carries, pulls.outs)
    state, rows = ([*[filled[k] for k in p], *[masks[k] for k in p if k in masks]] for p in parts)
    return state, rows


def _delivered(pulls: Pullback, last: int, results: TracedArrays, count: int) -> list[object]:
    """The cotangents of the `count` arguments of a loop, from the results of its reverse loop.

    Cotangents of carries, of invariants and of rows, each followed by their masks.
    """
    bars: list[object] = [ZERO] * count
    parts = (
        (pulls.carries, [k for k in pulls.carries if k in pulls.masked]),
        ([k for k in pulls.inputs if k < last], [k for k in pulls.left_out if k < last]),
        ([k for k in pulls.inputs if k >= last], [k for k in pulls.left_out if k >= last]),
    )
    rest = iter(results)
    for places, masked in parts:
        values = [next(rest) for _ in places]
        masks = {k: next(rest) for k in masked}
        for k, value in zip(places, values, strict=True):
            bars[1 + k] = Bar(value, masks.get(k))
    return bars


def _zeros(type_: ArrayType) -> object:
    """Zeros, or a mask that keeps no entry."""
    zero = np.zeros((), type_.dtype)
    return apply(spread, zero, shape=type_.shape) if type_.shape else zero


def _mask_of(bar: object, out: TracedArray) -> object:
    """The mask of a cotangent: all entries where it has none, and no entry where there is none."""
    if isinstance(bar, Bar) and bar.mask is not None:
        return bar.mask
    whole = np.asarray(isinstance(bar, Bar))
    return apply(spread, whole, shape=out.shape) if out.shape else whole


# --- batches --------------------------------------------------------------------------------------


@kept_by_value
def batched_body(
    body: Tape, carries: int, mapped: tuple[bool, ...], size: int
) -> tuple[Tape, tuple[bool, ...]]:
    """The body of the loop over a batch, and which of its inputs carry the axis."""
    on = [*mapped]
    while True:
        spread = [on[k] if k < carries else True for k in range(len(body.outputs))]
        wide = batch(body, on, size, spread=spread)
        pairs = zip(wide.output_types[:carries], body.output_types, strict=False)
        more = [on[k] or new.ndim > old.ndim for k, (new, old) in enumerate(pairs)]
        if more == on[:carries]:
            return wide, tuple(on)
        on[:carries] = more


def _rows_first(x: TracedArray) -> np.ndarray:
    """The axis of the trips and the axis of the batch, exchanged."""
    return np.moveaxis(cast("np.ndarray", x), 0, 1)


def _batch(
    args: TracedArrays, mapped: Sequence[bool], size: int, *, body: Tape, carries: int,
    length: int, reverse: bool, rows: int,
) -> list[object]:  # fmt: skip
    if mapped[0]:
        return _batch_trips(
            args,
            mapped,
            size,
            body=body,
            carries=carries,
            length=length,
            reverse=reverse,
            rows=rows,
        )
    wide, on = batched_body(body, carries, tuple(map(bool, mapped[1:])), size)
    arguments: list[object] = [args[0]]
    for k, x in enumerate(args[1:]):
        if on[k] and not mapped[1 + k]:
            arguments.append(np.broadcast_to(x, (size, *x.shape)))
        elif on[k] and k >= len(on) - rows:
            arguments.append(_rows_first(x))
        else:
            arguments.append(x)
    results = apply_many(
        LOOP, *arguments, body=wide, carries=carries, length=length, reverse=reverse, rows=rows
    )
    last = [
        x if on[k] else np.broadcast_to(x, (size, *x.shape))
        for k, x in enumerate(results[:carries])
    ]
    return [*last, *map(_rows_first, results[carries:])]


def _batch_trips(
    args: TracedArrays,
    mapped: Sequence[bool],
    size: int,
    *,
    body: Tape,
    carries: int,
    rows: int,
    length: int,
    reverse: bool,
) -> list[object]:
    """Batch over numbers of trips: finished elements keep their carries, and have zero outs."""
    parts = operands(args, carries, rows)
    masked = _masked(body, carries, rows)
    most = np.max(args[0], initial=0)
    index = apply(iota, size=length)
    on = operands(mapped, carries, rows)
    arguments = [most, *parts.carries, *parts.invariants, args[0], *parts.rows, index]
    flags = [False, *on.carries, *on.invariants, True, *on.rows, False]
    sizes = {"carries": carries, "length": length, "rows": rows + 1}
    return _batch(arguments, flags, size, body=masked, reverse=reverse, **sizes)


@kept_by_value
def _masked(body: Tape, carries: int, rows: int) -> Tape:
    """The body of a loop with two more inputs: trips after the invariants, then the index."""
    last = len(body.inputs) - rows
    with SimplifyingTrace("vmap") as trace:
        state = [trace.input(t) for t in body.input_types[:last]]
        trips = trace.input(ArrayType((), INT))
        state += [trace.input(t) for t in body.input_types[last:]]
        runs = trace.input(ArrayType((), INT)) < trips
        outs = splice(body, state, trace)
        old = [*state[:carries], *[np.zeros((), x.dtype) for x in outs[carries:]]]
        chosen = [np.where(runs, new, x) for new, x in zip(outs, old, strict=True)]
        return trace.builder.finish([trace.lift(x) for x in chosen])


BODY_RULES[LOOP.name] = BodyRules(_jvp, _vjp, _batch)
