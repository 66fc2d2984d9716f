"""Tapes as Python functions, for what runs them thousands of times as long as there is no kernel: solvers and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ..interpret import stored_once
from ..tape import CONSTANT, INPUT, Node, Tape
from ..trace.operation_cache import caller
from .shapes.joining_and_splitting import concatenate
from .shapes.view_ops import reshape, slice_, slices
from .tape_text import TapeText, defined

Run = Callable[..., tuple[np.ndarray, ...]]


def _by_types(tape: Tape, node: Node) -> Callable[..., object]:
    """What computes a node, chosen by the types of its operands."""
    types = tuple([tape.nodes[a].types for a in node.args])
    return caller(node.primitive, node.params, types, node.types)


class _PointText(TapeText):
    """The text of a tape, written node by node from the last to the first.

    Arrays are let go of behind the last node that reads them.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape, partial(_by_types, tape), {"array": np.array})
        self.lines: list[str] = []
        self.stored_once = stored_once(tape)
        needed = {*tape.outputs, *tape.inputs}
        for i in range(len(tape.nodes) - 1, -1, -1):
            if i in needed and tape.nodes[i].primitive not in (INPUT, CONSTANT):
                text, operands = self.special(i) or (self.expression(i), tape.nodes[i].args)
                last = [a for a in {*operands} - needed if self.is_array(a)]
                self.lines += [f"        del {', '.join([f'v{a}' for a in last])}"] if last else []
                self.lines.append(f"        v{i} = {text}")
                needed.update(operands)

    def is_array(self, i: int) -> bool:
        """Whether a node that is computed holds more than a number."""
        node = self.tape.nodes[i]
        return node.primitive is not CONSTANT and any(t.shape for t in node.types)

    def special(self, i: int) -> tuple[str, Sequence[int]] | None:
        """Expressions of another kind and their operands: single entries, arrays built of such, stores into copies."""
        nodes = self.tape.nodes
        primitive, args, named = nodes[i].primitive, nodes[i].args, dict(nodes[i].params)
        if primitive.rules.overwrite is not None and args[0] in self.stored_once:
            store = self.bound(partial(primitive.rules.overwrite, **named))
            return f"{store}({', '.join(map(self.name, args))})", args
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


def function_of(tape: Tape) -> Callable[..., tuple[object, ...]]:
    """A function that gives the outputs of a tape."""
    make: Callable[[], Callable[..., tuple[object, ...]]] = maker(tape, len(tape.inputs))
    return make()


def maker(tape: Tape, own: int) -> Callable[..., Run]:
    """Compile a tape to a function of the inputs behind the first `own` ones, which returns a function of these."""
    text = _PointText(tape)
    names = [f"v{i}" for i in tape.inputs]
    head = [f"def make({', '.join(names[own:])}):", f"    def run({', '.join(names[:own])}):"]
    lines = [*head, *reversed(text.lines), f"        return {text.results()}", "    return run"]
    return defined("make", lines, text.scope)
