"""A user's function as a tape that a solver can call, and the derivatives that rules take of it.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...tape import CONSTANT, INPUT, ITEM, Tape, prune
from ...trace import Trace, TracedArray, current, splice
from ...transforms.pipeline import KEEP, PULL_OUTPUT, PUSH_FORWARD, VMAP, derive
from ...transforms.reverse import vjp
from ...transforms.sparsity.diagonal_colouring import diagonal_colours
from .compiled_callbacks import PointRuns


class UntracedBranch(Exception):  # noqa: N818 - no error: the function decides otherwise than when it was traced
    """Raised where a solver calls a function at a point at which it takes a branch that has not been traced."""

    def __init__(self, body: TracedFunction, point: Sequence[np.ndarray]) -> None:
        super().__init__(body, point)
        self.body, self.point = body, point


class TracedFunction:
    """A tape ``(*own, *extras) -> (holds, *results)``.

    The solver passes the `own` arguments; the extras are the traced values that the function captures. `holds` tells
    whether the function takes a branch that has been traced.
    """

    __slots__ = ("_runs", "own", "tape")

    def __init__(self, tape: Tape, own: int) -> None:
        self.tape, self.own = tape, own
        self._runs: PointRuns | None = None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, TracedFunction) and self.own == other.own and self.tape == other.tape)

    def __hash__(self) -> int:
        return hash((self.own, self.tape))

    def __repr__(self) -> str:
        return f"<function of {len(self.tape)} nodes>"

    @property
    def has_branches(self) -> bool:
        """Whether the function has branches on traced values."""
        return self.tape.nodes[self.tape.outputs[0]].primitive is not CONSTANT

    @property
    def types(self) -> tuple[ArrayType, ...]:
        """Types of the results."""
        return self.tape.output_types[1:]

    def bound(self, extras: Sequence[np.ndarray]) -> Callable[..., Sequence[np.ndarray]]:
        """The function of its own arguments (numbers and arrays), for these extras.

        It returns its results, or raises `UntracedBranch`.
        """
        if self._runs is None:
            tape = self.tape if self.has_branches else prune(self.tape, self.tape.outputs[1:])
            self._runs = PointRuns(tape, self.own)
        run = self._runs.at(extras)
        if not self.has_branches:
            return run

        def call(*own: np.ndarray) -> Sequence[np.ndarray]:
            holds, *outs = run(*own)
            if not holds:
                raise UntracedBranch(self, [np.array(x, float) for x in own])
            return outs

        return call

    def run(self, own: Sequence[np.ndarray], extras: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        """The results at one point."""
        return self.bound(extras)(*own)

    def spliced(self, own: Sequence[object], extras: Sequence[object]) -> list[TracedArray]:
        """The results as values of the current trace."""
        return self._entered(own, extras)[1:]

    def holds(self, own: Sequence[object], extras: Sequence[object]) -> TracedArray | None:
        """Whether a branch is taken that has been traced, as a value of the current trace; None if there are none."""
        return self._entered(own, extras)[0] if self.has_branches else None

    def _entered(self, own: Sequence[object], extras: Sequence[object]) -> list[TracedArray]:
        trace = current()
        operands = [TracedArray(trace, trace.lift(x), t) for x, t in zip([*own, *extras], self.tape.input_types, strict=True)]
        return splice(self.tape, operands, trace)

    # -------------------------------------------------------------------- derivatives, for the rules

    def pushforward(self, wrt: Sequence[int]) -> TracedFunction:
        """The JVP: tangents of the results, a function of the inputs followed by the tangents of the inputs `wrt`."""
        return _pushforward(self, tuple(wrt))

    def pullback(self, wrt: int, *, seeded: bool = False) -> TracedFunction:
        """The VJP for one input: its cotangent, a function of the inputs followed by the cotangent of the first result.

        With `seeded` that result is a number, and its cotangent is 1.
        """
        return _pullback(self, wrt, seeded)

    def cotangents(self, wrt: Sequence[int]) -> TracedFunction:
        """The VJP: cotangents of the inputs `wrt`, a function of the inputs followed by the cotangents of all results."""
        return _cotangents(self, tuple(wrt))

    def gradient(self) -> TracedFunction:
        """The gradient of the first result, a number, with respect to the last of the solver's own arguments."""
        return self.pullback(self.own - 1, seeded=True)

    def jacobian(self) -> TracedFunction:
        """The Jacobian of the first result with respect to the last own argument: a matrix (m, n)."""
        return _jacobian(self)

    def diagonal(self) -> TracedFunction:
        """The diagonal of that matrix, by as many products as its structure has colours: three for a chain."""
        return _diagonal(self)

    def batched(self, mapped: Sequence[bool], size: int) -> TracedFunction:
        """The function whose results have a batch axis in front; `mapped` tells which inputs have one."""
        return _batched(self, tuple(map(bool, mapped)), size)

    def jumps(self, moving: Sequence[int]) -> bool:
        """Whether a jump (a comparison, a rounding) depends both on the solver's own arguments and on an input in `moving`."""
        return _jumps(self, tuple(moving))


@lru_cache(maxsize=256)
def _pushforward(body: TracedFunction, wrt: tuple[int, ...]) -> TracedFunction:
    tape, n = derive((PUSH_FORWARD,), body.tape, wrt=wrt), len(body.tape.outputs)
    return _of(tape, [tape.outputs[0], *tape.outputs[n + 1 :]], body.own)


@lru_cache(maxsize=256)
def _pullback(body: TracedFunction, wrt: int, seeded: bool) -> TracedFunction:
    seeds = [np.ones(())] if seeded else None
    tape = vjp(body.tape, [wrt], [1], seeds)
    return _of(tape, [tape.outputs[0], tape.outputs[-1]], body.own)


@lru_cache(maxsize=256)
def _cotangents(body: TracedFunction, wrt: tuple[int, ...]) -> TracedFunction:
    tape = derive((PULL_OUTPUT,), body.tape, wrt=wrt, of=range(1, len(body.tape.outputs)))
    return _of(tape, [tape.outputs[0], *tape.outputs[len(body.tape.outputs) :]], body.own)


@lru_cache(maxsize=256)
def _jacobian(body: TracedFunction) -> TracedFunction:
    own = body.tape.input_types[body.own - 1]
    directions = np.eye(own.size).reshape((own.size, *own.shape))
    return _products(body, directions, lambda columns: np.transpose(np.reshape(columns, (own.size, -1))))


@lru_cache(maxsize=256)
def _diagonal(body: TracedFunction) -> TracedFunction:
    at = body.own - 1
    colours = diagonal_colours(derive((KEEP,), body.tape, keep=(1,)), at).reshape(body.tape.input_types[at].shape)
    there = np.stack([colours == k for k in range(int(colours.max(initial=-1)) + 1)])
    return _products(body, there.astype(float), lambda columns: np.sum(np.where(there, columns, 0.0), axis=0))


def _products(body: TracedFunction, directions: np.ndarray, result: Callable[[TracedArray], object]) -> TracedFunction:
    """A function: `result` of the products of the Jacobian with each of some directions."""
    pushforward = body.pushforward([body.own - 1])
    seeds = [False] * len(body.tape.inputs) + [True]
    spread = [False, *[True] * len(pushforward.types)]
    wide = derive(VMAP, pushforward.tape, mapped=seeds, size=len(directions), spread=spread)
    with Trace("jacobian", lines=False) as trace:
        inputs = [trace.input(t) for t in body.tape.input_types]
        seed = TracedArray(trace, trace.lift(directions), wide.input_types[-1])
        holds, columns, *_ = splice(wide, [*inputs, seed], trace)
        tape = trace.builder.finish([_all(holds, trace), trace.lift(result(columns))])
    return TracedFunction(tape, body.own)


@lru_cache(maxsize=256)
def _batched(body: TracedFunction, mapped: tuple[bool, ...], size: int) -> TracedFunction:
    wide = derive(VMAP, body.tape, mapped=mapped, size=size, spread=[False, *[True] * len(body.types)])
    if not wide.output_types[0].shape:
        return TracedFunction(wide, body.own)
    with Trace("vmap", lines=False) as trace:
        inputs = [trace.input(t) for t in wide.input_types]
        holds, *outs = splice(wide, inputs, trace)
        tape = trace.builder.finish([_all(holds, trace), *map(trace.lift, outs)])
    return TracedFunction(tape, body.own)


def _all(holds: TracedArray, trace: Trace) -> int:
    return trace.lift(np.all(holds) if holds.shape else holds)


def _of(tape: Tape, outputs: Sequence[int], own: int) -> TracedFunction:
    return TracedFunction(prune(tape, outputs), own)


# Comparisons that change no integral: they differ at single points or at NaN alone.
_HARMLESS = frozenset({"equal", "not_equal", "isnan", "isfinite", "isinf", "stop_gradient"})


@lru_cache(maxsize=256)
def _jumps(body: TracedFunction, moving: tuple[int, ...]) -> bool:
    tape = body.tape
    own, slopes = bytearray(len(tape.nodes)), bytearray(len(tape.nodes))
    for k, i in enumerate(tape.inputs):
        own[i], slopes[i] = k < body.own, k in moving
    for i, (primitive, args, _, types) in enumerate(tape.nodes):
        if primitive in (INPUT, CONSTANT):
            continue
        own[i] = any(own[a] for a in args)
        if primitive is ITEM and not types[0].floating and tape.nodes[args[0]].primitive.name.startswith("scipy."):
            continue  # how a solver inside ended
        moves = any(slopes[a] for a in args)
        flat = primitive is not ITEM and (primitive.rules.flat or not any(t.floating for t in types))
        slopes[i] = moves and not flat
        jumps = flat or (primitive.rules.kink is not None and primitive.rules.kink.jumps)
        if jumps and moves and own[i] and primitive.name not in _HARMLESS:
            return True
    return False


def constant_body(
    results: Callable[[list[TracedArray], list[TracedArray]], Sequence[object]], own: Sequence[ArrayType], extras: Sequence[ArrayType],
) -> TracedFunction:
    """A `TracedFunction` from a Python function ``results(own, extras)`` of traced arrays."""
    with Trace("solver", lines=False) as trace:
        first, others = [trace.input(t) for t in own], [trace.input(t) for t in extras]
        outs = results(first, others)
        tape = trace.builder.finish([trace.builder.constant(np.array(True)), *map(trace.lift, outs)])
    return TracedFunction(tape, len(own))
