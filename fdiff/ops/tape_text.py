"""Tapes as Python text: an expression for each node, in Python's operators where it has one.

On NumPy's numbers operators take a tenth of the time of NumPy's functions. What an operator is, the
record of an operation says (`EagerRule.sign`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from ..tape import CONSTANT, INPUT, ITEM, Node, Tape


class TapeText:
    """The expressions of a tape's nodes, and the `scope` in which their names are bound.

    Node `i` is called ``v<i>``, a constant or a function ``c<n>``. ``function(node)`` computes a node
    for which Python has no operator.
    """

    def __init__(
        self,
        tape: Tape,
        function: Callable[[Node], Callable[..., object]],
        scope: dict[str, Any] | None = None,
    ) -> None:
        self.tape, self.function = tape, function
        self.scope: dict[str, Any] = {} if scope is None else scope
        self.names: dict[int, str] = {}  # of constants and, where they are other texts, of nodes

    def bound(self, value: object) -> str:
        """A new name of the scope, which stands for this value."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def name(self, i: int) -> str:
        """What stands for node `i` in other expressions."""
        node = self.tape.nodes[i]
        if node.primitive is CONSTANT and i not in self.names:
            self.names[i] = self.bound(node.primitive.rules.evaluate(**dict(node.params)))
        return self.names.get(i) or f"v{i}"

    def expression(self, i: int) -> str:
        """What computes node `i`, in the names of its operands."""
        node = self.tape.nodes[i]
        operands = [*map(self.name, node.args)]
        if node.primitive is ITEM:
            return f"{operands[0]}[{node.k}]"
        if sign := node.primitive.lowering.eager.sign:
            return f"{sign}{operands[0]}" if len(operands) == 1 else f" {sign} ".join(operands)
        return f"{self.bound(self.function(node))}({', '.join(operands)})"

    def statements(self, nodes: Sequence[int]) -> list[str]:
        """An assignment for each of these nodes that is computed."""
        fixed = (INPUT, CONSTANT)
        computed = [i for i in nodes if self.tape.nodes[i].primitive not in fixed]
        return [f"v{i} = {self.expression(i)}" for i in computed]

    def results(self) -> str:
        """The outputs of the tape, as a tuple."""
        return f"({''.join(f'{self.name(o)}, ' for o in self.tape.outputs)})"


def defined(name: str, lines: Sequence[str], scope: dict[str, Any]) -> Any:
    """The function `name` that the lines define in a scope."""
    exec(_code("\n".join(lines)), scope)  # noqa: S102 - our own text
    return scope[name]


@lru_cache(maxsize=1024)
def _code(text: str) -> CodeType:
    """The text, compiled once: rules for arrays of other sizes have the same text."""
    return compile(text, "<string>", "exec")
