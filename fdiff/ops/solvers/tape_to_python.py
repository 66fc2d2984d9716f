"""Tapes as Python functions, for solvers that call them thousands of times at single points, as long as there is no kernel.

What does not depend on the solver's own arguments is computed once. Arithmetic is written with operators, which on
NumPy's numbers take a tenth of the time of NumPy's functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import fdiff.intact_numpy as np

from ...tape import CONSTANT, INPUT, ITEM, Tape
from ..view_ops import slices

Run = Callable[..., tuple[np.ndarray, ...]]
_OPERATORS = {np.add: "{} + {}", np.subtract: "{} - {}", np.multiply: "{} * {}", np.divide: "{} / {}", np.negative: "-{}"}


class _PythonSource:
    """The Python source of a tape, written node by node from the last to the first."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.scope = tape, {"array": np.array, "reshape": np.reshape}
        self.lines: dict[int, str] = {}
        self.needed: set[int] = set()
        self.want(tape.outputs)
        for i in range(len(tape.nodes) - 1, -1, -1):
            if i in self.needed:
                self.lines[i] = self.line(i)

    def want(self, nodes: Sequence[int]) -> None:
        self.needed.update(nodes)

    def held(self, i: int, value: object) -> str:
        """Bind a value in the scope of the source; its name."""
        name = f"c{i}"
        self.scope[name] = value
        return name

    def line(self, i: int) -> str:
        """The expression of a node; its operands are marked as needed."""
        node = self.tape.nodes[i]
        primitive, args, params = node.primitive, node.args, dict(node.params)
        if primitive is INPUT:
            return ""
        if primitive is CONSTANT:
            return self.held(i, primitive.evaluate(**params))
        text = self.special(i, primitive.name, args, params)
        if text:
            return text
        self.want(args)
        names = [f"v{a}" for a in args]
        if primitive is ITEM:
            return f"{names[0]}[{node.k}]"
        operator: Any = primitive.evaluate
        if operator in _OPERATORS:
            return _OPERATORS[operator].format(*names)
        return f"{self.held(i, partial(operator, **params) if params else operator)}({', '.join(names)})"

    def special(self, i: int, name: str, args: Sequence[int], params: dict[str, Any]) -> str:
        """Shorter expressions for single entries: reads of one, and arrays built of them."""
        nodes = self.tape.nodes
        if name == "reshape" and params["shape"] == () and nodes[args[0]].type.ndim:
            inner = nodes[args[0]]
            if inner.primitive.name == "slice":  # one entry of an array
                self.want(inner.args)
                return f"v{inner.args[0]}[{self.held(i, tuple(dict(inner.params)['starts']))}]"
            self.want(args)
            return f"v{args[0]}[{self.held(i, (0,) * inner.type.ndim)}]"
        if name == "slice":
            self.want(args)
            return f"v{args[0]}[{self.held(i, slices(params['starts'], params['sizes'], params['steps']))}]"
        if name == "concatenate" and all(self.single(a) for a in args):
            entries = [nodes[a].args[0] for a in args]
            self.want(entries)
            return f"array(({' '.join(f'v{a},' for a in entries)}))"
        return ""

    def single(self, a: int) -> bool:
        """Whether a node reshapes a number to an array of one entry."""
        node = self.tape.nodes[a]
        made = node.primitive.name == "reshape" and node.type.shape == (1,)
        return made and not self.tape.nodes[node.args[0]].type.ndim

    def source(self, own: int) -> str:
        inputs = self.tape.inputs
        first = [f"    v{i} = {line}" for i, line in sorted(self.lines.items()) if self.is_constant(i)]
        inner = [f"        v{i} = {line}" for i, line in sorted(self.lines.items()) if line and not self.is_constant(i)]
        outer = ", ".join(f"v{i}" for i in inputs[own:])
        head = [f"def make({outer}):", *first, f"    def run({', '.join(f'v{i}' for i in inputs[:own])}):"]
        outs = " ".join(f"v{o}," for o in self.tape.outputs)
        return "\n".join([*head, *inner, f"        return ({outs})", "    return run", ""])

    def is_constant(self, i: int) -> bool:
        return self.tape.nodes[i].primitive is CONSTANT


def maker(tape: Tape, own: int) -> Callable[..., Run]:
    """Compile a tape to a function of the inputs behind the first `own` ones, which returns a function of these."""
    text = _PythonSource(tape)
    scope: dict[str, Any] = dict(text.scope)
    exec(compile(text.source(own), "<fdiff solver>", "exec"), scope)  # noqa: S102 - our own text of a tape
    return scope["make"]

