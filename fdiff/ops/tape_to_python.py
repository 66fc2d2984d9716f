"""Tapes as Python functions, for code that runs them thousands of times where there is no kernel.

Each node is an expression with Python's operators where there is one: on NumPy numbers, operators take
a tenth of the time of NumPy functions. The record of an operation names the operator (`EagerRule.sign`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ..generated_text import defined
from ..interpret import stored_once
from ..tape import CONSTANT, INPUT, ITEM, Tape
from ..trace.operation_cache import caller
from .shapes.joining_and_splitting import concatenate
from .shapes.view_ops import reshape, slice_, slices, spread, unslice, update

Run = Callable[..., tuple[np.ndarray, ...]]


class Expressions:
    """The expressions of a tape's nodes, and the `scope` in which their names are bound.

    Node `i` is called ``v<i>``, a constant or a function ``c<n>``.
    """

    def __init__(self, tape: Tape, scope: dict[str, object]) -> None:
        self.tape, self.scope = tape, scope
        self.names: dict[int, str] = {}  # of constants and, where they are other texts, of nodes

    def bound(self, value: object) -> str:
        """A new name of the scope, which stands for this value."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def name(self, i: int) -> str:
        """The name of node `i` in other expressions."""
        node = self.tape.nodes[i]
        if node.primitive is CONSTANT and i not in self.names:
            value = node.primitive.rules.evaluate(**dict(node.params))
            self.names[i] = self.bound(value if node.type.shape else np.asarray(value)[()])
        return self.names.get(i) or f"v{i}"

    def expression(self, i: int, operands: Sequence[str] = ()) -> str:
        """The expression of node `i`, in the names of its operands or in other texts for them."""
        node = self.tape.nodes[i]
        operands = operands or [*map(self.name, node.args)]
        if node.primitive is ITEM:
            return f"{operands[0]}[{node.k}]"
        if sign := node.primitive.lowering.eager.sign:
            return f"{sign}{operands[0]}" if len(operands) == 1 else f" {sign} ".join(operands)
        operand_types = tuple([self.tape.nodes[a].types for a in node.args])
        function = caller(node.primitive, node.params, operand_types, node.types)
        return f"{self.bound(function)}({', '.join(operands)})"


class Statements(Expressions):
    """The right sides of assignments to nodes."""

    def __init__(self, tape: Tape, scope: dict[str, object]) -> None:
        super().__init__(tape, scope)
        self.stored_once = stored_once(tape)

    def is_array(self, i: int) -> bool:
        """Whether a node that is computed holds more than a number."""
        node = self.tape.nodes[i]
        return node.primitive is not CONSTANT and any(t.shape for t in node.types)

    def special(self, i: int) -> tuple[str, Sequence[int]] | None:
        """Expressions of another kind and their operands: single entries, arrays built of such, stores into copies."""
        nodes = self.tape.nodes
        primitive, args, named = nodes[i].primitive, nodes[i].args, dict(nodes[i].params)
        if primitive in (unslice, update) and self.single(args[-1]):
            return self.stored_number(i)
        if primitive is spread and nodes[args[0]].primitive is CONSTANT:
            return self.bound(np.broadcast_to(nodes[args[0]].value, named["shape"])), ()
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
        if primitive is concatenate and nodes[i].type.ndim == 1 and all(self.single(a) for a in args):
            entries = [nodes[a].args[0] for a in args]
            return f"array(({' '.join(f'{self.name(a)},' for a in entries)}))", entries
        return None

    def entry(self, a: int, index: tuple[object, ...]) -> tuple[str, Sequence[int]]:
        return f"{self.name(a)}[{self.bound(index)}]", (a,)

    def stored_number(self, i: int) -> tuple[str, Sequence[int]]:
        """The store of a number into an array, or among zeros."""
        node, *_, part = self.tape.nodes[i], *self.tape.nodes[i].args
        array, value = self.name(node.args[0]), self.tape.nodes[part].args[0]
        if node.primitive is unslice:
            array = f"zeros({node.type.shape}, {node.type.dtype.str!r})"
        elif node.args[0] not in self.stored_once:
            array = f"array({array})"
        text = f"{self.bound(_with_entry)}({array}, {node.param('starts')}, {self.name(value)})"
        return text, (*node.args[:-1], value)

    def single(self, a: int) -> bool:
        """Whether a node reshapes a number to an array of one entry."""
        node = self.tape.nodes[a]
        single_entry = node.primitive is reshape and node.type.size == 1
        return single_entry and not self.tape.nodes[node.args[0]].type.ndim


class _FunctionText(Statements):
    """The text of a tape, written node by node from the last to the first.

    Arrays are let go of after the last node that reads them.
    """

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape, {"array": np.array, "zeros": np.zeros})
        self.lines: list[str] = []
        needed = {*tape.outputs, *tape.inputs}
        for i in range(len(tape.nodes) - 1, -1, -1):
            if i in needed and tape.nodes[i].primitive not in (INPUT, CONSTANT):
                text, operands = self.special(i) or (self.expression(i), tape.nodes[i].args)
                last = [a for a in {*operands} - needed if self.is_array(a)]
                self.lines += [f"        del {', '.join([f'v{a}' for a in last])}"] if last else []
                self.lines.append(f"        v{i} = {text}")
                needed.update(operands)


def _with_entry(array: np.ndarray, index: tuple[int, ...], value: object) -> np.ndarray:
    array[index] = value
    return array


def function_of(tape: Tape) -> Run:
    """A function that gives the outputs of a tape."""
    make: Callable[[], Run] = maker(tape, len(tape.inputs))
    return make()


def maker(tape: Tape, own: int) -> Callable[..., Run]:
    """Compile a tape to a function of the inputs after the first `own` ones, which returns a function of these."""
    text = _FunctionText(tape)
    names, results = [f"v{i}" for i in tape.inputs], [f"{text.name(o)}, " for o in tape.outputs]
    head = [f"def make({', '.join(names[own:])}):", f"    def run({', '.join(names[:own])}):"]
    lines = [*head, *reversed(text.lines), f"        return ({''.join(results)})", "    return run"]
    return defined("make", lines, text.scope)
