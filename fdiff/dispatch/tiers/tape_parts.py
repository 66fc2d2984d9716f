"""Tapes that cannot be one kernel, run in parts, so that their loops are compiled.

NumPy runs a SciPy solver, and a loop whose body has no kernel. The nodes between such nodes form
tapes of their own, each with its own runner; so does a reverse loop whose length only a run tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter

import fdiff.intact_numpy as np

from ... import kernels
from ...interpret import Interpreter
from ...ops.control.while_loop import SIZED, sized_tape
from ...tape import CONSTANT, INPUT, ITEM, Node, Tape
from ...transforms.loops.bodies import rearranged

Runs = Callable[[Sequence[np.ndarray]], Sequence[np.ndarray]]


def has_parts(tape: Tape) -> bool:
    """Whether a tape holds loops, and nodes of which no kernel can be made."""
    return next(tape.bodies(), None) is not None and not kernels.supported(tape)


def tapes_with_kernels(tape: Tape) -> list[Tape]:
    """The tapes of which kernels are made: itself, or its parts; none where there is nothing."""
    if kernels.supported(tape):
        return [tape]
    if not has_parts(tape):
        return []
    inner = TapeParts(tape, lambda _: lambda arrays: arrays).tapes
    return [x for part in inner for x in tapes_with_kernels(part)]


class TapeParts(Interpreter):
    """A tape laid out as parts that are run by runners of their own, and the nodes between them.

    A node has the level of its arguments, and the next level if an argument has no kernel; the
    nodes of one level that have kernels form one part.
    """

    __slots__ = ("runner", "tapes")

    def __init__(self, tape: Tape, runner: Callable[[Tape], Runs]) -> None:
        self.runner = runner
        self.tapes: list[Tape] = []  # of the parts
        super().__init__(tape)

    def _lay_out(self, tape: Tape) -> None:
        alone = [not kernels.has_kernel(node) for node in tape.nodes]
        levels = _levels(tape, alone)
        super()._lay_out(tape)
        singly = {step[1]: step for step in self.steps}
        self.steps = []
        for level in range(max(levels, default=0) + 1):
            own = [i for i, at in enumerate(levels) if at == level]
            self._enter(tape, [i for i in own if not alone[i]], levels, alone)
            for i in own:
                if alone[i] and i in singly:
                    function, _, args, _ = singly[i]
                    node = tape.nodes[i]
                    sized = node.primitive is SIZED
                    self.steps.append((self._sized(node) if sized else function, i, args, ()))

    def _sized(self, node: Node) -> Callable[..., object]:
        """A runner of a tape whose loops have as many rows as a run needs."""
        params = dict(node.params)

        self.tapes.append(sized_tape(0, **params))  # its kernel has the text of all lengths

        def run(*values: object) -> object:
            arrays = [*map(_in_order, values)]
            outs = self.runner(sized_tape(*arrays, **params))(arrays)
            return tuple(outs) if len(outs) > 1 else outs[0]

        return run

    def _enter(
        self, tape: Tape, own: Sequence[int], levels: Sequence[int], alone: Sequence[bool]
    ) -> None:
        """Enter the steps of one part: its run, and a step for each value that others read."""
        within = {i for i in own if tape.nodes[i].primitive not in (INPUT, CONSTANT)}
        read = {a for i in within for a in tape.nodes[i].args}
        sources = sorted(a for a in read - within if tape.nodes[a].primitive is not CONSTANT)
        wanted = {a for i, n in enumerate(tape.nodes) if i not in within for a in n.args}
        outs = sorted(within & (wanted | {*tape.outputs}))
        outs = [i for i in outs if len(tape.nodes[i].types) == 1]
        if not outs:
            return
        part, at = rearranged(tape, sources, outs), self.size
        self.size += 1
        self.tapes.append(part)
        run = self.runner(part)
        self.steps.append((lambda *arrays: run([*map(_in_order, arrays)]), at, tuple(sources), ()))
        self.steps += [(itemgetter(k), i, (at,), ()) for k, i in enumerate(outs)]


def _levels(tape: Tape, alone: list[bool]) -> list[int]:
    """The level of each node; selections are made to be alone where the node is."""
    levels: list[int] = []
    for i, (primitive, args, _, _) in enumerate(tape.nodes):
        if primitive is ITEM:
            alone[i] = alone[args[0]]
        behind = 0 if alone[i] else 1
        levels.append(max([levels[a] + behind * alone[a] for a in args], default=0))
    return levels


def _in_order(value: object) -> np.ndarray:
    array = np.asarray(value)
    return np.ascontiguousarray(array) if array.ndim else array
