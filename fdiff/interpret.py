"""Run a tape with NumPy: the first execution tier, and the reference for every kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain

import fdiff.intact_numpy as np

from .process.collector import collector_paused
from .process.float_flags import noting
from .process.observation import Span
from .tape import CONSTANT, INPUT, Tape

BeginNode = Callable[[int, Sequence[object]], Span]  # opens a span for a node and its operands
Step = tuple[Callable[..., object], int, tuple[int, ...], tuple[int, ...]]


class Interpreter:
    """A tape laid out for evaluation: one bound function a node, and when each value dies."""

    __slots__ = ("constants", "inputs", "outputs", "size", "steps")

    def __init__(self, tape: Tape) -> None:
        self.size = len(tape.nodes)
        self.inputs = tape.inputs
        self.outputs = tape.outputs
        self.constants: list[tuple[int, object]] = []
        self.steps: list[Step] = []
        with collector_paused():
            self._lay_out(tape)

    def _lay_out(self, tape: Tape) -> None:
        dies, stored_once = _last_uses(tape), _stored_once(tape)
        bound: dict[object, Callable[..., object]] = {}  # the same parameters are bound once
        for i, (primitive, args, params, _) in enumerate(tape.nodes):
            if primitive is INPUT:
                continue
            function = primitive.evaluate
            if primitive is CONSTANT:
                self.constants.append((i, function(**dict(params))))
                continue
            if primitive.overwrite is not None and args[0] in stored_once:
                function = primitive.overwrite
            if params:
                key = function, id(params)
                if (found := bound.get(key)) is None:
                    found = bound[key] = partial(function, **dict(params))
                function = found
            self.steps.append((function, i, args, dies.get(i, ())))

    def __call__(self, *arrays: np.ndarray) -> list[object]:
        return self.run(arrays, self.steps)

    def run(self, arrays: Sequence[np.ndarray], steps: Iterable[Step]) -> list[object]:
        """The same by an iterator over `steps`, which progress asks how many are left."""
        values: list[object] = [None] * self.size
        for i, array in zip(self.inputs, arrays, strict=True):
            values[i] = array
        for i, value in self.constants:
            values[i] = value
        with noting():
            for function, i, args, dead in steps:
                values[i] = function(*[values[a] for a in args])
                for d in dead:
                    values[d] = None
        return [values[i] for i in self.outputs]

    def observed(self, arrays: Sequence[np.ndarray], begin: BeginNode) -> list[object]:
        """Run the tape as `__call__` does, with a span around each node."""
        values: list[object] = [None] * self.size
        for i, value in (*zip(self.inputs, arrays, strict=True), *self.constants):
            values[i] = value
        with noting():
            for function, i, args, dead in self.steps:
                given = [values[a] for a in args]
                with begin(i, given) as span:
                    values[i] = function(*given)
                    span.memory = _owned(values[i]) - sum(_owned(values[d]) for d in dead)
                for d in dead:
                    values[d] = None
        return [values[i] for i in self.outputs]

    def flagged(self, arrays: Sequence[np.ndarray]) -> list[tuple[str, int]]:
        """What happens to which nodes on the way: "divide by zero", "overflow", "invalid value"."""
        values: list[object] = [None] * self.size
        for i, value in (*zip(self.inputs, arrays, strict=True), *self.constants):
            values[i] = value
        found: list[tuple[str, int]] = []
        at = [0]

        def happened(words: str, _: int) -> None:
            found.append((words, at[0]))

        with (
            suppress(ArithmeticError, IndexError, ValueError),
            np.errstate(all="call", under="ignore", call=happened),
        ):
            for function, i, args, dead in self.steps:
                at[0] = i
                values[i] = function(*[values[a] for a in args])
                for d in dead:
                    values[d] = None
        return found


def _owned(value: object) -> int:
    """Bytes of the memory that belongs to an array, or to several; none to a view."""
    if isinstance(value, tuple | list):
        return sum(map(_owned, value))
    return value.nbytes if isinstance(value, np.ndarray) and value.base is None else 0


LONG = 10_000  # nodes of a tape that may take a while, whatever they are


def _last_uses(tape: Tape) -> dict[int, tuple[int, ...]]:
    """For each node, the values that no later node reads (inputs and outputs live on)."""
    kept = {*tape.inputs, *tape.outputs}
    last: dict[int, int] = {}
    for i, node in enumerate(tape.nodes):
        for a in node.args:
            last[a] = i
    dies: dict[int, tuple[int, ...]] = {}
    for a, i in last.items():
        if a not in kept:
            dies[i] = (*dies.get(i, ()), a)
    return dies


def _stored_once(tape: Tape) -> set[int]:
    """The copies that stores have made and that one node alone reads: it may write to them."""
    uses = Counter(chain(tape.outputs, *[node.args for node in tape.nodes]))
    return {i for i, node in enumerate(tape.nodes) if node.primitive.overwrite and uses[i] == 1}


def evaluate(tape: Tape, *arrays: np.ndarray) -> Sequence[object]:
    """Outputs of `tape` at `arrays`, one for each of its inputs.

    NumPy's floating-point warnings are silent, and leave no more than a hint: a derivative formula
    may pass through a value that a ``where`` discards.
    """
    return Interpreter(tape)(*arrays)
