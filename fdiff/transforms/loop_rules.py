"""Derivatives and batches of loops: those of the body, by the transforms of tapes, in a loop.

The tangent of a carry is a carry, that of a row a row. Cotangents are carried by a loop that runs
the other way, as by a tape that is played back (A. Griewank and A. Walther, Evaluating Derivatives,
SIAM 2008, section 3.2); those of invariants are added up in further carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import fdiff.intact_numpy as np

from ..arraytype import INT, ArrayType
from ..ops.gather_scatter import iota
from ..ops.loop import LOOP, operands
from ..ops.view_ops import spread
from ..primitive import HOOKS, ZERO
from ..tape import Tape
from ..trace import TracedArray, apply, apply_many, splice
from ..trace.derived_lines import kept_by_value
from .batch import batch
from .bodies import Places, entered, moving, read_inputs, rearranged
from .dependence import depends
from .forward import jvp
from .loop_memory import Pullback, pullback_of
from .reverse import vjp
from .simplify import SimplifyingTrace

Traced = Sequence[TracedArray]


def zeros_like(x: TracedArray) -> object:
    """The derivative of what does not move."""
    return apply(spread, np.zeros((), x.dtype), shape=x.shape) if x.shape else np.zeros((), x.dtype)


# --- tangents -------------------------------------------------------------------------------------


@kept_by_value
def pushed_body(body: Tape, carries: int, rows: int, wrt: Places) -> tuple[Tape, Places]:
    """The body of the tangent loop, and the outs that have tangents."""
    whole, count = jvp(body, wrt), len(body.outputs)
    depending = depends(body, wrt)
    outs = tuple([o for o in range(carries, count) if any(depending[o])])
    moved = [k for k in wrt if k < carries]
    arguments = operands(
        (None, *zip(body.inputs, range(len(body.inputs)), strict=True)), carries, rows
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
    dots: Sequence[object], args: Traced, outs: Traced, *, body: Tape, carries: int, length: int,
    reverse: bool, rows: int,
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
    *restored, *row_bars)``.
    """

    body: Tape
    invariants: Places
    rows: Places


@kept_by_value
def _reverse(pullback: Pullback, last: int, sums: tuple[ArrayType, ...]) -> _Reverse:
    """The reverse loop of a body whose rows begin at the input `last`; `sums` are the types."""
    swept, carries, bars = pullback.swept, len(pullback.carries), pullback.bars
    restored = pullback.kept.restored
    arrays = [swept.inputs[r.carry] for r in restored]
    indices = [i for r in restored for i in r.indices(swept)]
    there = (*pullback.kept.nodes, *bars)
    read = read_inputs(swept, [*pullback.results, *indices], (*there, *arrays))
    invariants = tuple([k for k in read if k < last])
    rows = tuple([k for k in read if k >= last])
    with SimplifyingTrace("vjp") as trace:
        ids: dict[int, int] = {}

        def enter(nodes: Sequence[int]) -> None:
            ids.update({i: trace.input(swept.nodes[i].type).node for i in nodes})

        enter(bars[:carries])
        added: list[Any] = [trace.input(t) for t in sums]
        after = [trace.input(swept.nodes[i].type) for i in arrays]
        enter([*[swept.inputs[k] for k in invariants], *pullback.kept.nodes])
        old = [[trace.input(t) for t in r.types(swept)] for r in restored]
        enter([*[swept.inputs[k] for k in rows], *bars[carries:]])
        entered(swept, trace.builder, ids, indices)
        for i, r, array, entries in zip(arrays, restored, after, old, strict=True):
            ids[i] = r.put_back(swept, ids, trace, array, entries).node
        results = entered(swept, trace.builder, ids, pullback.results)
        for k, i in enumerate(results[carries : carries + len(sums)]):
            added[k] += TracedArray(trace, i, trace.builder.type(i))
        outputs = [*results[:carries], *map(trace.lift, added), *[ids[i] for i in arrays]]
        outputs += results[carries + len(sums) :]
        return _Reverse(trace.builder.finish(outputs), invariants, rows)


def _vjp(
    bars: Sequence[object], args: Traced, outs: Traced, *, needed: Sequence[bool], body: Tape,
    carries: int, length: int, reverse: bool, rows: int, pulls: Pullback | None = None,
) -> list[object]:  # fmt: skip
    arguments = args[1:]
    result: list[object] = [ZERO] * len(args)
    if pulls is None:
        seeded = tuple([o for o, bar in enumerate(bars) if bar is not ZERO])
        pulls = pullback_of(body, carries, rows, tuple(map(bool, needed[1:])), seeded, vjp)
        if pulls is None:
            return result
        outs = apply_many(
            LOOP, *args, body=pulls.saving, carries=carries, length=length, reverse=reverse,
            rows=rows,
        )  # fmt: skip
    last = len(arguments) - rows
    shared = [arguments[k] for k in pulls.inputs if k < last]
    back = _reverse(pulls, last, tuple([x.type for x in shared]))
    filled = [zeros_like(x) if bar is ZERO else bar for x, bar in zip(outs, bars, strict=False)]
    start = [*[filled[k] for k in pulls.carries], *map(zeros_like, shared)]
    start += [outs[r.carry] for r in pulls.kept.restored]
    table = [*[outs[o] for o in pulls.places], *[arguments[k] for k in back.rows]]
    table += [filled[o] for o in pulls.outs]
    results = apply_many(
        LOOP, args[0], *start, *[arguments[k] for k in back.invariants], *table, body=back.body,
        carries=len(start), length=length, reverse=not reverse, rows=len(table),
    )  # fmt: skip
    moved = len(pulls.carries) + len(shared)
    found = (*results[:moved], *results[len(start) :])
    for k, bar in zip((*pulls.carries, *pulls.inputs), found, strict=True):
        result[1 + k] = bar
    return result


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


def _batch(
    args: Traced, mapped: Sequence[bool], size: int, *, body: Tape, carries: int, length: int,
    reverse: bool, rows: int,
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
            arguments.append(np.moveaxis(x, 0, 1))  # type: ignore[call-overload] - stubs know no traced arrays
        else:
            arguments.append(x)
    results = apply_many(
        LOOP, *arguments, body=wide, carries=carries, length=length, reverse=reverse, rows=rows
    )
    last = [
        x if on[k] else np.broadcast_to(x, (size, *x.shape))
        for k, x in enumerate(results[:carries])
    ]
    return [*last, *[np.moveaxis(x, 0, 1) for x in results[carries:]]]  # type: ignore[call-overload] - stubs know no traced arrays


def _batch_trips(
    args: Traced,
    mapped: Sequence[bool],
    size: int,
    *,
    body: Tape,
    carries: int,
    rows: int,
    **loop: Any,
) -> list[object]:
    """Elements with fewer trips stay as they are in the others; their outs are zero there."""
    parts, length = operands(args, carries, rows), loop["length"]
    masked = _masked(body, carries, rows)
    most = np.max(args[0], initial=0)
    index = apply(iota, size=length)
    on = operands(mapped, carries, rows)
    arguments = [most, *parts.carries, *parts.invariants, args[0], *parts.rows, index]
    flags = [False, *on.carries, *on.invariants, True, *on.rows, False]
    return _batch(arguments, flags, size, body=masked, carries=carries, rows=rows + 1, **loop)


@kept_by_value
def _masked(body: Tape, carries: int, rows: int) -> Tape:
    """The body of a loop with two more inputs: trips behind the invariants, then the index."""
    last = len(body.inputs) - rows
    with SimplifyingTrace("vmap") as trace:
        state = [trace.input(t) for t in body.input_types[:last]]
        trips: Any = trace.input(ArrayType((), INT))
        state += [trace.input(t) for t in body.input_types[last:]]
        runs = trace.input(ArrayType((), INT)) < trips
        outs: Sequence[Any] = splice(body, state, trace)
        old = [*state[:carries], *[np.zeros((), x.dtype) for x in outs[carries:]]]
        chosen = [np.where(runs, new, x) for new, x in zip(outs, old, strict=True)]
        return trace.builder.finish([trace.lift(x) for x in chosen])


HOOKS["loop.jvp"], HOOKS["loop.vjp"], HOOKS["loop.batch"] = _jvp, _vjp, _batch
