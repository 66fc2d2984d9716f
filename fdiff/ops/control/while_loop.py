"""A loop that runs while a condition holds, as one op; and tapes whose loops have as many trips.

``while(*carries, *invariants)`` runs the body ``(*carries, *invariants) -> carries`` as long as
``cond(*carries, *invariants)`` is true. It returns the last carries and the number of trips.

In reverse, what is kept has as many rows as there were trips, and no tape has arrays of a length
that only a run tells. So a reverse loop is a tape of its own, in the op ``sized(trips, *args)``: its
loops have `LENGTH` rows on the tape, and at each run as many as there are trips, rounded up to a
power of two. Its derivatives are the derivatives of that tape.

Source: J. Bradbury et al., JAX, 2018: entry ``jax.lax.while_loop``.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import BOOL, F8, INT, ArrayType
from ...errors import TapeError
from ...hooks import hooks
from ...kernel_rule import Kind
from ...primitive import LateParams, Sample
from ...process.float_flags import noting
from ...process.forking import late
from ...tape import INPUT, Node, Tape
from ...trace import Array, Trace, apply_many
from ...trace.derived_lines import kept_by_value
from .loop import LOOP, BodyRunner, body_op, runner_of
from .loop_operands import exceed

while_function = late("loop_texts", __package__, "while_function")
LENGTH = 2_147_483_629  # of rows on tapes of `sized`; a prime that is the size of nothing else
FEWEST = 16  # rows of a run


def _infer(
    *types: ArrayType, body: Tape, carries: int, cond: Tape, limit: int
) -> tuple[ArrayType, ...]:
    if types != body.input_types or types[:carries] != body.output_types:
        raise TapeError(f"the body of a loop takes {body.input_types}, given {types}")
    if cond.input_types != types or cond.output_types != (ArrayType((), BOOL),):
        raise TapeError(f"the condition of a loop takes {cond.input_types}, given {types}")
    return (*types[:carries], ArrayType((), INT))


def _evaluate(*args: Array, body: Tape, carries: int, cond: Tape, limit: int) -> object:
    state, trips = [*args[:carries]], 0
    run, holds = runner_of(body), runner_of(cond)
    while not run.is_often() and holds(*state, *args[carries:])[0]:
        state, trips = _next(run, state, args[carries:], trips, limit)
    if run.is_often():
        with noting():
            results = while_function(body, cond, carries)(limit, trips, *state, *args[carries:])
        while results is None and holds(*state, *args[carries:])[0]:
            state, trips = _next(run, state, args[carries:], trips, limit)
        *state, trips = results or (*state, trips)
    last = [np.array(x, t.dtype) for x, t in zip(state, body.output_types, strict=True)]
    return (*last, np.asarray(trips))


def _next(
    run: BodyRunner, state: Sequence[Array], invariants: Sequence[Array], trips: int, limit: int
) -> tuple[list[Array], int]:
    """The carries after one trip more, and the number of trips."""
    if limit and trips == limit:
        exceed(limit)
    return [*run(*state, *invariants)], trips + 1


def _halving() -> LateParams:
    """Newton's method for a square root: a carry of two entries, and how far it is."""

    def make() -> dict[str, object]:
        pair, number = ArrayType((2,), F8), ArrayType((), F8)
        with Trace("while_loop", lines=False) as trace:
            x, _, c = (trace.input(t) for t in (pair, number, pair))
            new = 0.5 * (x + c / x)
            body = trace.builder.finish([trace.lift(new), trace.lift(np.sum((new - x) ** 2))])
        with Trace("while_loop", lines=False) as trace:
            _, far, _ = (trace.input(t) for t in (pair, number, pair))
            cond = trace.builder.finish([trace.lift(far > 1e-20)])
        return {"body": body, "carries": 2, "cond": cond, "limit": 0}

    return LateParams(make)


def _sample(far: float) -> Sample:
    def arrays(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        return rng.uniform(1.0, 2.0, 2), np.asarray(far), rng.uniform(1.0, 3.0, 2)

    return Sample(arrays, _halving(), cotangent_kernels=False)


WHILE = body_op("while_loop", _infer, _evaluate, _sample(1.0), _sample(-1.0), kind=Kind.WHILE)


# --- tapes whose loops have as many trips as a run tells ------------------------------------------


def _infer_sized(*types: ArrayType, tape: Tape, budget: int | None = None) -> tuple[ArrayType, ...]:
    if types != tape.input_types or any(LENGTH in t.shape for t in tape.output_types):
        raise TapeError(f"a tape takes {tape.input_types} to {tape.output_types}, given {types}")
    return tape.output_types


def _evaluate_sized(*args: object, tape: Tape, budget: int | None = None) -> object:
    outs = runner_of(sized_tape(*args, tape=tape, budget=budget))(*args)
    results = [np.array(x) for x in outs]
    return tuple(results) if len(results) > 1 else results[0]


def sized_tape(trips: np.ndarray | int, *_: object, tape: Tape, budget: int | None = None) -> Tape:
    """The tape with loops that have rows for `trips` trips, within a budget of bytes."""
    most = int(np.max(trips, initial=0))
    return _within(of_length(tape, max(FEWEST, 1 << (most - 1).bit_length())), budget)


@kept_by_value
def _within(tape: Tape, budget: int | None) -> Tape:
    return hooks.within_budget(tape, budget)


@kept_by_value
def of_length(tape: Tape, length: int) -> Tape:
    """The tape with loops of `length` rows."""

    def resized(value: object) -> object:
        if value.__class__ is int:
            return length if value == LENGTH else value
        if isinstance(value, ArrayType):
            return ArrayType(resized(value.shape), value.dtype)
        return tuple(map(resized, value)) if value.__class__ is tuple else value

    nodes = [
        Node(primitive, args, params if primitive is INPUT else resized(params), resized(types))
        for primitive, args, params, types in tape.nodes
    ]
    return Tape(tuple(nodes), tape.inputs, tape.outputs, tape.lines)


def _doubling() -> LateParams:
    """The parameters of a sample: a loop of up to `LENGTH` trips, and the sum of its results."""

    def make() -> dict[str, object]:
        number = ArrayType((), F8)
        with Trace("while_loop", lines=False) as trace:
            x = trace.input(number)
            c = trace.input(number)
            body = trace.builder.finish([trace.lift(x + np.sin(c * x)), trace.lift(x * c)])
        with Trace("while_loop", lines=False) as trace:
            args = [trace.input(ArrayType((), INT)), trace.input(number), trace.input(number)]
            last, rows = apply_many(
                LOOP, *args, body=body, carries=1, length=LENGTH, reverse=False, rows=0
            )
            tape = trace.builder.finish([last.id, trace.lift(np.sum(rows))])
        return {"tape": tape}

    return LateParams(make)


def _five_trips(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    return np.asarray(5), *map(np.asarray, rng.normal(size=2))


SIZED = body_op("sized", _infer_sized, _evaluate_sized, Sample(_five_trips, _doubling()))
