"""Tapes as Python functions, for solvers that call them thousands of times at single points, as long as there is no kernel.

What does not depend on the solver's own arguments is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...tape import CONSTANT, INPUT, Node, Tape
from ..shapes.joining_and_splitting import concatenate
from ..shapes.view_ops import reshape, slice_, slices
from ..tape_text import TapeText, defined

Run = Callable[..., tuple[np.ndarray, ...]]


class _PointText(TapeText):
    """The text of a tape of single numbers, written node by node from the last to the first."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape, _function, {"array": np.array})
        self.lines: list[str] = []
        needed = {*tape.outputs}
        for i in range(len(tape.nodes) - 1, -1, -1):
            if i in needed and tape.nodes[i].primitive not in (INPUT, CONSTANT):
                text, operands = self.special(i) or (self.expression(i), tape.nodes[i].args)
                self.lines.append(f"        v{i} = {text}")
                needed.update(operands)

    def special(self, i: int) -> tuple[str, Sequence[int]] | None:
        """Shorter expressions for single entries: reads of one, and arrays built of them; and their operands."""
        nodes = self.tape.nodes
        primitive, args, named = nodes[i].primitive, nodes[i].args, dict(nodes[i].params)
        if primitive is reshape and named["shape"] == () and nodes[args[0]].type.ndim:
            inner = nodes[args[0]]
            if inner.primitive is slice_:  # one entry of an array
                return self.entry(inner.args[0], tuple(inner.param("starts")))
            return self.entry(args[0], (0,) * inner.type.ndim)
        if primitive is slice_:
            return self.entry(args[0], slices(named["starts"], named["sizes"], named["steps"]))
        if primitive is concatenate and all(self.single(a) for a in args):
            entries = [nodes[a].args[0] for a in args]
            return f"array(({' '.join(f'{self.name(a)},' for a in entries)}))", entries
        return None

    def entry(self, a: int, index: tuple[object, ...]) -> tuple[str, Sequence[int]]:
        return f"{self.name(a)}[{self.bound(index)}]", (a,)

    def single(self, a: int) -> bool:
        """Whether a node reshapes a number to an array of one entry."""
        node = self.tape.nodes[a]
        one = node.primitive is reshape and node.type.shape == (1,)
        return one and not self.tape.nodes[node.args[0]].type.ndim


def _function(node: Node) -> Callable[..., object]:
    return partial(node.primitive.rules.evaluate, **dict(node.params)) if node.params else node.primitive.rules.evaluate


def maker(tape: Tape, own: int) -> Callable[..., Run]:
    """Compile a tape to a function of the inputs behind the first `own` ones, which returns a function of these."""
    text = _PointText(tape)
    names = [f"v{i}" for i in tape.inputs]
    head = [f"def make({', '.join(names[own:])}):", f"    def run({', '.join(names[:own])}):"]
    lines = [*head, *reversed(text.lines), f"        return {text.results()}", "    return run"]
    return defined("make", lines, text.scope)
