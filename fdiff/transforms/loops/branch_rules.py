"""Derivatives and batches of switches, and of loops whose number of trips a run tells.

A batch whose elements take several branches runs all of them and selects, which is if-conversion
(R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, Morgan Kaufmann 2001,
section 7.2).
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import INT, ArrayType
from ...hooks import BODY_RULES, BodyRules
from ...ops.control.loop import LOOP
from ...ops.control.switch import SWITCH
from ...ops.control.while_loop import LENGTH, SIZED, WHILE
from ...primitive import ZERO
from ...tape import Tape
from ...trace import Array, Trace, TracedArrays, apply_many, splice
from ...trace.derived_lines import kept_by_value
from ..activity import depends
from ..batch import batch
from ..cotangent_masks import Bar
from ..derivative_tapes import choose
from ..forward import jvp
from ..reverse import masked_vjp, vjp
from ..simplify import SimplifyingTrace
from .bodies import Places, moving
from .loop_pruning import prune_loops
from .loop_rules import batched_body, pushed_body, zeros_like

# --- tapes: how all of them move, and what is pulled back -----------------------------------------


@kept_by_value
def _tangents(tape: Tape, wrt: Places, outs: Places) -> Tape:
    """``(*inputs, *dots) -> (*outputs, *dots)`` with tangents of the outputs `outs`."""
    whole, count = jvp(tape, wrt), len(tape.outputs)
    return prune_loops(choose(whole, (*range(count), *[count + o for o in outs])))


@kept_by_value
def _cotangents(tape: Tape, wrt: Places, of: Places) -> Tape:
    """``(*inputs, *bars) -> bars`` of the inputs `wrt`, from the cotangents of the outputs `of`."""
    whole, count = vjp(tape, wrt, of), len(tape.outputs)
    return prune_loops(choose(whole, range(count, len(whole.outputs))))


def _moving_places(tapes: Sequence[Tape], dots: Sequence[object]) -> tuple[Places, Places]:
    """The inputs with tangents, and the outputs that have one in any of the tapes."""
    wrt = tuple([k for k, dot in enumerate(dots) if dot is not ZERO])
    rows = [depends(tape, wrt) for tape in tapes]
    outs = [o for o in range(len(tapes[0].outputs)) if any(any(row[o]) for row in rows)]
    return wrt, tuple(outs)


def _spread_out(results: TracedArrays, places: Places, count: int) -> list[object]:
    """A list of `count` entries: results at `places`, `ZERO` elsewhere."""
    by_place = dict(zip(places, results, strict=True))
    return [by_place.get(k, ZERO) for k in range(count)]


def _wanted_places(
    tapes: Sequence[Tape], bars: Sequence[object], needed: Sequence[bool]
) -> tuple[Places, Places]:
    """The inputs that get a cotangent, and the outputs that have one."""
    of = tuple([o for o, bar in enumerate(bars) if bar is not ZERO])
    types = tapes[0].input_types
    wrt = [k for k, need in enumerate(needed) if need and types[k].floating]
    rows = [depends(tape, wrt) for tape in tapes]
    reached = [k for n, k in enumerate(wrt) if any(row[o][n] for row in rows for o in of)]
    return tuple(reached), of


# --- switches -------------------------------------------------------------------------------------


def _jvp_switch(
    dots: Sequence[object], args: TracedArrays, outs: TracedArrays, *, branches: tuple[Tape, ...]
) -> list[object]:
    wrt, moved = _moving_places(branches, dots[1:])
    if not moved:
        return [ZERO] * len(outs)
    tapes = tuple([_tangents(branch, wrt, moved) for branch in branches])
    results = apply_many(SWITCH, *args, *[dots[1 + k] for k in wrt], branches=tapes)
    return _spread_out(results[len(outs) :], moved, len(outs))


def _vjp_switch(
    bars: Sequence[object], args: TracedArrays, outs: TracedArrays, *, needed: Sequence[bool],
    branches: tuple[Tape, ...],
) -> list[object]:  # fmt: skip
    wrt, of = _wanted_places(branches, bars, needed[1:])
    if not wrt:
        return [ZERO] * len(args)
    seeds = [bar for bar in bars if isinstance(bar, Bar)]
    masks = [bar.mask for bar in seeds if bar.mask is not None]
    left_out: Places = ()
    if masks:
        seeded = [o for o, bar in enumerate(bars) if isinstance(bar, Bar) and bar.mask is not None]
        tapes, left_out = _masked_cotangents(branches, wrt, of, tuple(seeded))
    else:
        tapes = tuple([_cotangents(branch, wrt, of) for branch in branches])
    values = [bar.value for bar in seeds]
    results = apply_many(SWITCH, *args, *values, *masks, branches=tapes)
    mask_of = dict(zip(left_out, results[len(wrt) :], strict=True))
    pulled: list[object] = [ZERO] * len(args)
    for k, bar in zip(wrt, results, strict=False):
        pulled[1 + k] = Bar(bar, mask_of.get(k))
    return pulled


def _masked_cotangents(
    branches: tuple[Tape, ...], wrt: Places, of: Places, masked: Places
) -> tuple[tuple[Tape, ...], Places]:
    """``(*inputs, *bars, *masks) -> (*bars, *masks)`` of each branch; and the inputs with masks.

    An input has a mask where a branch leaves entries of it out, or does not read it.
    """
    left_out = set[int]()
    for branch in branches:
        reads = depends(branch, wrt)
        _, has_mask = masked_vjp(branch, wrt, of, masked, ())
        for n, k in enumerate(wrt):
            if has_mask[n] or not any(reads[o][n] for o in of):
                left_out.add(k)
    places = tuple([k for k in wrt if k in left_out])
    return tuple([_masked_tape(branch, wrt, of, masked, places) for branch in branches]), places


@kept_by_value
def _masked_tape(tape: Tape, wrt: Places, of: Places, masked: Places, left_out: Places) -> Tape:
    """Cotangents of the inputs `wrt`, then masks of those that are `left_out`."""
    whole, _ = masked_vjp(tape, wrt, of, masked, left_out)
    return prune_loops(choose(whole, range(len(tape.outputs), len(whole.outputs))))


def _batch_switch(
    args: TracedArrays, mapped: Sequence[bool], size: int, *, branches: tuple[Tape, ...]
) -> list[object]:
    """Batching rule of a switch: one branch for all elements, or all branches and a selection."""
    on = tuple(map(bool, mapped[1:]))
    tapes = tuple([batch(branch, on, size) for branch in branches])
    if not mapped[0]:
        return [*apply_many(SWITCH, *args, branches=tapes)]
    results = [splice(tape, args[1:], args[0].home) for tape in tapes]
    index = np.clip(args[0], 0, len(branches) - 1)
    chosen: list[Array] = [*results[0]]
    for number, outs in enumerate(results[1:], 1):
        for k, out in enumerate(outs):
            here = np.reshape(index == number, (size, *(1,) * (out.ndim - 1)))
            chosen[k] = np.where(here, out, chosen[k])
    return [*chosen]


# --- loops with a condition -----------------------------------------------------------------------


@kept_by_value
def _with_inputs(tape: Tape, types: tuple[ArrayType, ...], places: Places) -> Tape:
    """The tape with inputs of these types; its own inputs are at the `places`."""
    with Trace("while_loop", lines=False) as trace:
        inputs = [trace.input(t) for t in types]
        outs = splice(tape, [inputs[k] for k in places], trace)
        return trace.builder.finish([x.id for x in outs])


def _jvp_while(
    dots: Sequence[object], args: TracedArrays, outs: TracedArrays, *, body: Tape, carries: int,
    cond: Tape, limit: int,
) -> list[object]:  # fmt: skip
    wrt = moving(body, carries, [dot is not ZERO for dot in dots])
    moved = [k for k in wrt if k < carries]
    if not moved:
        return [ZERO] * len(outs)
    pushed, _ = pushed_body(body, carries, 0, wrt)
    filled = {k: zeros_like(args[k]) if dots[k] is ZERO else dots[k] for k in wrt}
    rest = [filled[k] for k in wrt if k >= carries]
    first = carries + len(moved)
    places = (*range(carries), *range(first, first + len(args) - carries))
    results = apply_many(
        WHILE, *args[:carries], *[filled[k] for k in moved], *args[carries:], *rest, body=pushed,
        carries=first, cond=_with_inputs(cond, pushed.input_types, places), limit=limit,
    )  # fmt: skip
    return _spread_out(results[carries:first], tuple(moved), len(outs))


@kept_by_value
def _reverse_while(body: Tape, carries: int, wrt: Places, of: Places) -> Tape:
    """``(trips, *args, *bars) -> bars`` of the arguments `wrt`, by a loop of `LENGTH` rows."""
    with Trace("while_loop", lines=False) as trace:
        args = [trace.input(ArrayType((), INT)), *[trace.input(t) for t in body.input_types]]
        results = apply_many(
            LOOP, *args, body=body, carries=carries, length=LENGTH, reverse=False, rows=0
        )
        tape = trace.builder.finish([x.id for x in results])
    return _cotangents(tape, tuple([1 + k for k in wrt]), of)


def _vjp_while(
    bars: Sequence[object], args: TracedArrays, outs: TracedArrays, *, needed: Sequence[bool],
    body: Tape, carries: int, cond: Tape, limit: int,
) -> list[object]:  # fmt: skip
    of = tuple([o for o, bar in enumerate(bars) if bar is not ZERO])
    wrt = tuple([k for k, need in enumerate(needed) if need and args[k].type.floating])
    tape = _reverse_while(body, carries, wrt, of)
    results = apply_many(SIZED, outs[-1], *args, *[bars[o] for o in of], tape=tape)
    return _spread_out(results, wrt, len(args))


def _batch_while(
    args: TracedArrays, mapped: Sequence[bool], size: int, *, body: Tape, carries: int, cond: Tape,
    limit: int,
) -> list[object]:  # fmt: skip
    """A batched while loop: it runs until all elements are done; these keep their carries."""
    wide, on = batched_body(body, carries, tuple(map(bool, mapped)), size)
    test = batch(cond, on, size, spread=[False])
    several = bool(test.output_types[0].shape)
    if several:
        wide, on = batched_body(body, carries, (*[True] * carries, *on[carries:]), size)
        test = batch(cond, on, size)
    flags = zip(args, on, mapped, strict=True)
    arguments = [
        np.broadcast_to(x, (size, *x.shape)) if wanted and not there else x
        for x, wanted, there in flags
    ]
    if not several:
        results = apply_many(WHILE, *arguments, body=wide, carries=carries, cond=test, limit=limit)
        pairs = zip(results, (*on[:carries], False), strict=True)
        return [x if there else np.broadcast_to(x, (size, *x.shape)) for x, there in pairs]
    arguments.insert(carries, np.zeros(size, INT))  # trips of each element
    masked, ends = _masked_while(wide, test, carries)
    results = apply_many(
        WHILE, *arguments, body=masked, carries=carries + 1, cond=ends, limit=limit
    )
    return [*results[: carries + 1]]


@kept_by_value
def _masked_while(wide: Tape, test: Tape, carries: int) -> tuple[Tape, Tape]:
    """Body and condition for elements that end at different trips, which are counted."""
    types = wide.input_types
    tapes = []
    for last in (False, True):
        with SimplifyingTrace("vmap") as trace:
            state = [trace.input(t) for t in types[:carries]]
            trips = trace.input(ArrayType(test.output_types[0].shape, INT))
            inputs = [*state, *[trace.input(t) for t in types[carries:]]]
            (runs,) = splice(test, inputs, trace)
            if last:
                outs: list[object] = [np.any(runs)]
            else:
                new = splice(wide, inputs, trace)
                shaped = [np.reshape(runs, (-1, *(1,) * (x.ndim - 1))) for x in new]
                outs = [np.where(m, a, b) for m, a, b in zip(shaped, new, state, strict=True)]
                outs.append(trips + runs)
            tapes.append(trace.builder.finish([*map(trace.lift, outs)]))
    return tapes[0], tapes[1]


# --- tapes whose loops have as many trips as a run tells ------------------------------------------


def _jvp_sized(
    dots: Sequence[object], args: TracedArrays, outs: TracedArrays, *, tape: Tape
) -> list[object]:
    wrt, moved = _moving_places([tape], dots)
    if not moved:
        return [ZERO] * len(outs)
    tangents = _tangents(tape, wrt, moved)
    results = apply_many(SIZED, *args, *[dots[k] for k in wrt], tape=tangents)
    return _spread_out(results[len(outs) :], moved, len(outs))


def _vjp_sized(
    bars: Sequence[object], args: TracedArrays, outs: TracedArrays, *, needed: Sequence[bool],
    tape: Tape,
) -> list[object]:  # fmt: skip
    wrt, of = _wanted_places([tape], bars, needed)
    if not wrt:
        return [ZERO] * len(args)
    pulled = _cotangents(tape, wrt, of)
    results = apply_many(SIZED, *args, *[bars[o] for o in of], tape=pulled)
    return _spread_out(results, wrt, len(args))


def _batch_sized(
    args: TracedArrays, mapped: Sequence[bool], size: int, *, tape: Tape
) -> list[object]:
    return [*apply_many(SIZED, *args, tape=batch(tape, tuple(map(bool, mapped)), size))]


BODY_RULES[SWITCH.name] = BodyRules(_jvp_switch, _vjp_switch, _batch_switch)
BODY_RULES[WHILE.name] = BodyRules(_jvp_while, _vjp_while, _batch_while)
BODY_RULES[SIZED.name] = BodyRules(_jvp_sized, _vjp_sized, _batch_sized)
