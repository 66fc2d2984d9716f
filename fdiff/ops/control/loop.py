"""A loop as one op: its body is a tape.

``loop(trips, *carries, *invariants, *rows)`` runs the body
``(*carries, *invariants, *entries) -> (*carries, *outs)`` for each index below `trips`, from the
first to the last or, in `reverse`, from the last to the first. The *carries* are what a trip hands
to the next, *invariants* are read in all trips, *entries* are the entries of the *rows* along axis 0.
It returns the last carries, and the outs as rows of the `length` of the others, which are zero from
`trips` on. Derivatives are derived from the body, by the transforms of tapes: `transforms/loops/loop_rules.py`.

The form of ``lax.scan`` (J. Bradbury et al., JAX, 2018: entry ``jax.lax.scan`` of the reference).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeVar

import fdiff.intact_numpy as np

from ...arraytype import F8, INT, ArrayType
from ...errors import TapeError
from ...facets import Lowering
from ...hooks import BODY_RULES, hooks
from ...interpret import Interpreter
from ...kernel_rule import KernelRule, Kind
from ...primitive import LateParams, Primitive, Sample
from ...process.float_flags import noting
from ...process.forking import late
from ...tape import Tape
from ...trace import Array, Trace
from ..entrywise.families import opaque_op
from .loop_operands import checked_trips, operands

T = TypeVar("T")
function_of = late("tape_to_python", "fdiff.ops", "function_of")
loop_function = late("loop_texts", __package__, "loop_function")
FEW = 32  # runs of a body before a function is made of it


class BodyRunner:
    """Runs a body in NumPy: node by node at first and, where that comes often, as a Python function."""

    def __init__(self, body: Tape) -> None:
        self._body, self._few = body, FEW
        self._run: Callable[..., Sequence[np.ndarray]] = Interpreter(body)

    def __call__(self, *arrays: Array) -> Sequence[Array]:
        with noting():
            return self.trip(*arrays)

    def is_often(self, trips: int = 1) -> bool:
        """Whether these further runs pay for a function of the whole loop."""
        return trips > self._few

    def trip(self, *arrays: Array) -> Sequence[Array]:
        """One of many runs, around all of which flags are noted."""
        if self._few >= 0:
            self._few -= 1
            if self._few < 0:
                self._run = function_of(self._body)
        return self._run(*arrays)


@lru_cache(maxsize=256)
def runner_of(body: Tape) -> BodyRunner:
    """The runner of a body; equal bodies share it."""
    return BodyRunner(body)


def body_op(
    name: str, infer: Callable[..., tuple[ArrayType, ...]], evaluate: Callable[..., object], *samples: Sample,
    kind: Kind | None = None, **facts: object,
) -> Primitive:  # fmt: skip
    """Register an op with bodies, whose rules stand on a higher floor: they transform bodies. `facts` as in `opaque_op`."""
    jvp, vjp, batch = (partial(_run_rule, name, k) for k in range(3))
    lowering = Lowering(kind and KernelRule(kind), folds=False)
    return opaque_op(
        name, infer, evaluate, jvp, vjp, *samples, batch=batch, family="loop", lowering=lowering, told_needs=True, **facts
    )


def _run_rule(op: str, k: int, *args: object, **params: object) -> object:
    if op not in BODY_RULES:
        hooks.enter_body_rules()  # which imports them: most programs have no loops
    return BODY_RULES[op][k](*args, **params)


def _infer(
    trips: ArrayType, *types: ArrayType, body: Tape, carries: int, length: int, reverse: bool,
    rows: int, pulls: object = None,
) -> tuple[ArrayType, ...]:  # fmt: skip
    first = len(types) - rows
    outs = body.output_types
    row_types = (*types[:first], *[ArrayType(t.shape[1:], t.dtype) for t in types[first:]])
    if trips != ArrayType((), INT) or any(t.shape[:1] != (length,) for t in types[first:]):
        raise TapeError(f"a loop of {length} trips is given {types[first:]} as rows")
    if row_types != body.input_types or outs[:carries] != row_types[:carries]:
        raise TapeError(f"the body of a loop takes {body.input_types} to {outs}, given {row_types}")
    return (*outs[:carries], *[ArrayType((length, *t.shape), t.dtype) for t in outs[carries:]])


def _evaluate(
    *args: np.ndarray, body: Tape, carries: int, length: int, reverse: bool, rows: int,
    pulls: object = None,
) -> object:  # fmt: skip
    trips, types, results = operands(args, carries, rows).trips, body.output_types, None
    count = checked_trips(trips, length)
    with noting():
        if runner_of(body).is_often(count):
            results = loop_function(body, carries, rows, reverse=reverse)(length, *args)
        if results is None:
            results = _trip_by_trip(args, body, carries, rows, range(count)[:: -1 if reverse else 1], length)
    last = [np.array(x, t.dtype) for x, t in zip(results[:carries], types, strict=False)]
    return (*last, *results[carries:]) if len(types) > 1 else (*last, *results[carries:])[0]


def _trip_by_trip(
    args: Sequence[np.ndarray], body: Tape, carries: int, rows: int, trips: range, length: int
) -> Sequence[Array]:
    """The last carries and the outs of a loop, whose body runs in NumPy."""
    _, state, invariants, table = operands(args, carries, rows)
    outs = [np.zeros((length, *t.shape), t.dtype) for t in body.output_types[carries:]]
    run = runner_of(body).trip
    for k in trips:
        results = run(*state, *invariants, *[x[k] for x in table])
        state = results[:carries]
        for out, value in zip(outs, results[carries:], strict=True):
            out[k] = value
    return (*state, *outs)


def _swinging(carries: int, *, reverse: bool) -> LateParams:
    """A state of two entries driven by rows, a sum beside it, and an out; or fewer carries."""

    def make() -> dict[str, object]:
        pair, number = ArrayType((2,), F8), ArrayType((), F8)
        with Trace("loop", lines=False) as trace:
            state = [trace.input(t) for t in (pair, number)[:carries]]
            weights = trace.input(pair)
            force = trace.input(number)
            x = state[0] if state else weights * force
            new = [x + 0.3 * weights * np.sin(force * x)]
            new += [s + np.sum(x * x) for s in state[1:]]
            body = trace.builder.finish([trace.lift(y) for y in (*new[:carries], x * weights)])
        return {"body": body, "carries": carries, "length": 4, "reverse": reverse, "rows": 1}

    return LateParams(make)


def _sample(trips: int, carries: int, *, reverse: bool = False) -> Sample:
    def arrays(rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        state = [rng.normal(size=2), np.asarray(rng.normal())][:carries]
        return np.asarray(trips), *state, rng.normal(size=2), rng.normal(size=4)

    return Sample(arrays, _swinging(carries, reverse=reverse))


_SAMPLES = (_sample(4, 2), _sample(3, 2, reverse=True), _sample(4, 0), _sample(0, 1))


LOOP = body_op("loop", _infer, _evaluate, *_SAMPLES, kind=Kind.LOOP, pulls_masks=True)
