"""Tapes that solvers call at single points, thousands of times: as Python functions, and by a kernel once that pays.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import fdiff.intact_numpy as np

from ...hooks import hooks
from ...interpret import Interpreter
from ...tape import CONSTANT, Tape
from ...transforms.loops.bodies import rearranged
from ..tape_to_python import maker

OFTEN = 1e-3  # seconds in Python after which it is asked again whether a kernel pays


class PointRuns:
    """Functions of the first `own` inputs of a tape, for values of the others.

    What these alone decide is computed once for all points. The time that points take in Python counts for all equal
    tapes, and when it pays for a kernel, as in `dispatch/tiers/tiered_execution.py`, that runs them.
    """

    def __init__(self, tape: Tape, own: int) -> None:
        held, self.tape = _parted(tape, own)
        self._held, self._make, self._spent = Interpreter(held), maker(self.tape, own), 0.0

    def at(self, extras: Sequence[np.ndarray]) -> Callable[..., Sequence[np.ndarray]]:
        """The function for these extras: of numbers and arrays, and its results are new arrays."""
        held = [np.asarray(x)[()] for x in self._held(*[np.asarray(x)[()] for x in extras])]
        arrays = [np.array(x, order="C") for x in held]
        runner = hooks.runner(self.tape)
        slow, kernel = self._make(*held), runner.kernel_after(0.0)

        def run(*own: np.ndarray) -> Sequence[np.ndarray]:
            nonlocal kernel
            if kernel is not None:
                return kernel(*own, *arrays)
            begin = perf_counter()
            results = [np.array(x) for x in slow(*[np.asarray(x, float)[()] for x in own])]
            self._spent += perf_counter() - begin
            if self._spent > OFTEN:
                kernel, self._spent = runner.kernel_after(self._spent), 0.0
            return results

        return run


def _parted(tape: Tape, own: int) -> tuple[Tape, Tape]:
    """Split a tape: values independent of the first `own` inputs, and outputs from these inputs and values."""
    nodes, moves, read = tape.nodes, bytearray(len(tape.nodes)), dict[int, None]()
    for i in tape.inputs[:own]:
        moves[i] = 1
    for i, node in enumerate(nodes):
        moves[i] = moves[i] or any(moves[a] for a in node.args)
        read.update(dict.fromkeys(node.args if moves[i] else ()))
    read.update(dict.fromkeys(tape.outputs))
    held = [i for i in read if not moves[i] and nodes[i].primitive is not CONSTANT]
    return rearranged(tape, tape.inputs[own:], held), rearranged(tape, [*tape.inputs[:own], *held], tape.outputs)
