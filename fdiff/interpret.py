"""Run a tape with NumPy: the first execution tier, and the reference for every kernel.

A tape is a list of operations in order: R. E. Wengert, "A simple automatic derivative evaluation
program", CACM 7(8), pages 463-464, 1964.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

import fdiff.intact_numpy as np

from .process.float_flags import noting
from .process.garbage_collection import collector_paused
from .tape import CONSTANT, INPUT, Tape

# What computes a node, its number, its operands' numbers, and the nodes that nothing reads after
# it.
Step = tuple[Callable[..., object], int, tuple[int, ...], tuple[int, ...]]
AtNode = Callable[..., object]  # the value of a node, given its step and its operands


class Interpreter:
    """A tape laid out for evaluation: one bound function a node, and when each value dies.

    It computes what `textbook_evaluate` computes; parameters are bound once, arrays are freed when
    nothing reads them any more, and stores write to copies that nothing else reads. Where all
    values are kept, none dies, and none is stored over.
    """

    __slots__ = ("constants", "inputs", "keeps", "outputs", "size", "steps")

    def __init__(self, tape: Tape, *, keeps: bool = False) -> None:
        self.keeps = keeps
        self.size = len(tape.nodes)
        self.inputs = tape.inputs
        self.outputs = tape.outputs
        self.constants: list[tuple[int, object]] = []
        self.steps: list[Step] = []
        with collector_paused():
            self._lay_out(tape)

    def _lay_out(self, tape: Tape) -> None:
        dies, overwritten = ({}, ()) if self.keeps else (_last_uses(tape), stored_once(tape))
        bound: dict[object, Callable[..., object]] = {}  # the same parameters are bound once
        for i, (primitive, args, params, _) in enumerate(tape.nodes):
            if primitive is INPUT:
                continue
            function = primitive.rules.evaluate
            if primitive is CONSTANT:
                self.constants.append((i, function(**dict(params))))
                continue
            if primitive.rules.overwrite is not None and args[0] in overwritten:
                function = primitive.rules.overwrite
            if params:
                key = function, id(params)
                if (step := bound.get(key)) is None:
                    step = bound[key] = partial(function, **dict(params))
                function = step
            self.steps.append((function, i, args, dies.get(i, ())))

    def __call__(self, *arrays: np.ndarray) -> list[object]:
        with noting():
            values = self.values(arrays, self.steps)
        return [values[i] for i in self.outputs]

    def run(self, arrays: Sequence[object], steps: Iterable[Step]) -> list[object]:
        """The outputs, by an iterator over `steps`, which progress asks how many are left."""
        with noting():
            values = self.values(arrays, steps)
        return [values[i] for i in self.outputs]

    def values(self, arrays: Sequence[object], steps: Iterable[Step]) -> list[object]:
        """The values of all nodes, without those that nothing reads any more."""
        values: list[object] = [None] * self.size
        for i, array in zip(self.inputs, arrays, strict=True):
            values[i] = array
        for i, value in self.constants:
            values[i] = value
        for function, i, args, dead in steps:
            values[i] = function(*map(values.__getitem__, args))
            for d in dead:
                values[d] = None
        return values

    def inspected(self, at_node: AtNode) -> list[Step]:
        """The steps for `run` or `values` that leave each node to ``at_node(step, *operands)``."""
        return [(partial(at_node, step), *step[1:]) for step in self.steps]


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


def stored_once(tape: Tape) -> set[int]:
    """The copies that stores have made and that one node alone reads: it may write to them."""
    uses = Counter(chain(tape.outputs, *[node.args for node in tape.nodes]))
    return {
        i for i, node in enumerate(tape.nodes) if node.primitive.rules.overwrite and uses[i] == 1
    }


def evaluate(tape: Tape, *arrays: np.ndarray) -> Sequence[object]:
    """Outputs of `tape` at `arrays`, one for each of its inputs.

    NumPy's floating-point warnings are silent, and leave no more than a hint: a derivative formula
    may pass through a value that a ``where`` discards.
    """
    return Interpreter(tape)(*arrays)


def textbook_evaluate(tape: Tape, *arrays: np.ndarray) -> list[object]:
    """The outputs of a tape, node by node: what a tape means.

    It is the reference of `test_textbook_reverse.py`.
    """
    inputs, values = dict(zip(tape.inputs, arrays, strict=True)), list[object]()
    for i, (primitive, args, params, _) in enumerate(tape.nodes):
        operands = [values[a] for a in args]
        value = inputs[i] if i in inputs else primitive.rules.evaluate(*operands, **dict(params))
        values.append(value)
    return [values[o] for o in tape.outputs]
