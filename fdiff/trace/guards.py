"""What Python sees of traced values, and what must hold for it to see the same again.

A value is computed, by the interpreter, only when Python demands it. What the tape relies on from
then on is either *frozen* (inputs of integers and truth values, compared as a whole) or a *guard*:
a node that must have the value it had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..arraytype import BOOL, INT
from ..primitive import PRIMITIVES
from ..tape import INPUT, Tape

if TYPE_CHECKING:
    from .recording import Trace
    from .traced_array import TracedArray


class Looks:
    """The looks taken during one trace.

    `given` holds the value of each input at the arguments at hand, as an array, as the traced array
    of an enclosing trace, or as a function; `moving` are the inputs a derivative is taken for, and
    `origin` the traced arrays of an enclosing trace that inputs are entries of.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.given: dict[int, object] = {}
        self.moving: set[int] = set()
        self.origin: dict[int, TracedArray] = {}
        self.frozen: set[int] = set()
        self.guards: dict[int, np.ndarray] = {}
        self._known: dict[int, object] = {}
        self._reads: list[int] = []  # by node: the inputs it depends on, as bits
        self._slopes: list[int] = []  # those it depends on with a derivative
        self._roots: list[int] = []  # those it depends on but through what is stopped

    @property
    def closed(self) -> bool:
        """Whether the values have been let go."""
        return not hasattr(self, "trace")

    def close(self) -> None:
        """Let go of the values, and of the trace, which would keep each other alive."""
        del self.trace
        self._known.clear()
        self.given.clear()
        self.origin.clear()

    # ------------------------------------------------------------------------------- values

    def value(self, node_id: int, deed: str) -> object:
        """Value of a node at the arguments at hand."""
        known, nodes = self._known, self.trace.builder.nodes
        stack = [node_id]
        with np.errstate(all="ignore"):
            while stack:
                i = stack[-1]
                node = nodes[i]
                missing = [a for a in node.args if a not in known]
                if i in known:
                    stack.pop()
                elif missing:
                    stack += missing
                elif node.primitive is INPUT:
                    known[i] = self._input(i, deed)
                else:
                    args = [known[a] for a in node.args]
                    known[i] = node.primitive.evaluate(*args, **dict(node.params))
        return known[node_id]

    def _input(self, node_id: int, deed: str) -> object:
        given = self.given.get(node_id)
        if given is None:
            trace = self.trace
            raise trace.fail(
                f"`f` {deed}; it depends on an argument of type {trace.builder.type(node_id)}"
                " whose value is not known.",
                "Use numpy functions (numpy.where for a branch).",
            )
        if isinstance(given, np.ndarray):
            return given
        if callable(given):
            return given()
        outer: TracedArray = given  # type: ignore[assignment] - the input of a trace around this one
        return np.asarray(outer.home.looks.value(outer.id, deed))

    # ----------------------------------------------------------------------------- dependence

    def _extend(self, node_id: int) -> None:
        nodes, inputs = self.trace.builder.nodes, self.trace.builder.inputs
        place = {i: k for k, i in enumerate(inputs)}
        for i in range(len(self._reads), node_id + 1):
            node = nodes[i]
            if node.primitive is INPUT:
                bits = slopes = roots = 1 << place[i]
            else:
                bits = slopes = roots = 0
                for a in node.args:
                    bits |= self._reads[a]
                    slopes |= self._slopes[a]
                    roots |= self._roots[a]
            smooth = not node.primitive.flat and any(t.floating for t in node.types)
            self._reads.append(bits)
            self._slopes.append(slopes if smooth else 0)
            self._roots.append(0 if node.primitive.name == "stop_gradient" else roots)

    def _inputs(self, bits: int) -> list[int]:
        return [i for k, i in enumerate(self.trace.builder.inputs) if bits >> k & 1]

    def moves(self, node_id: int) -> bool:
        """Whether a derivative is taken for something the node depends on with a derivative."""
        self._extend(node_id)
        for i in self._inputs(self._slopes[node_id]):
            outer = self.origin.get(i, self.given.get(i))
            if i in self.moving:
                return True
            if hasattr(outer, "home") and outer.home.looks.moves(outer.id):  # type: ignore[union-attr] - only a traced array has a home
                return True
        return False

    def depends(self, node_id: int) -> bool:
        """The same for what depends on it in any way: a rounded value, a truth value."""
        self._extend(node_id)
        for i in self._inputs(self._roots[node_id]):
            outer = self.origin.get(i, self.given.get(i))
            if i in self.moving:
                return True
            if hasattr(outer, "home") and outer.home.looks.depends(outer.id):  # type: ignore[union-attr] - only a traced array has a home
                return True
        return False

    def knows(self, node_id: int) -> bool:
        """Whether the value of a node can be computed."""
        self._extend(node_id)
        return all(i in self.given for i in self._inputs(self._reads[node_id]))

    def apart(self, node_id: int) -> bool:
        """Whether a node depends on entries of a mapped array, of which only one is at hand."""
        self._extend(node_id)
        for i in self._inputs(self._reads[node_id]):
            outer = self.given.get(i)
            if i in self.origin:
                return True
            if hasattr(outer, "home") and outer.home.looks.apart(outer.id):  # type: ignore[union-attr] - only a traced array has a home
                return True
        return False

    def settle(self, node_id: int) -> bool:
        """Freeze what the node depends on, if that is nothing but integers and truth values."""
        self._extend(node_id)
        inputs = self._inputs(self._reads[node_id])
        if not all(self._countable(i) for i in inputs):
            return False
        for i in inputs:
            outer = self.given.get(i)
            if hasattr(outer, "home"):
                outer.home.looks.settle(outer.id)  # type: ignore[union-attr] - only a traced array has a home
            else:
                self.frozen.add(i)
        return True

    def settled(self, node_id: int) -> bool:
        """Whether a node depends on nothing but constants and what is frozen already."""
        self._extend(node_id)
        for i in self._inputs(self._reads[node_id]):
            outer = self.given.get(i)
            if hasattr(outer, "home"):
                if not outer.home.looks.settled(outer.id):  # type: ignore[union-attr] - a traced array of the trace around this one
                    return False
            elif i not in self.frozen:
                return False
        return True

    def _countable(self, input_id: int) -> bool:
        if input_id in self.origin or self.trace.builder.type(input_id).dtype.kind not in "biu":
            return False
        outer = self.given.get(input_id)
        if hasattr(outer, "home"):
            looks: Looks = outer.home.looks  # type: ignore[union-attr] - only a traced array has a home
            looks._extend(outer.id)  # type: ignore[union-attr] - only a traced array has a home
            return all(looks._countable(i) for i in looks._inputs(looks._reads[outer.id]))  # type: ignore[union-attr] - only a traced array has a home
        return isinstance(outer, np.ndarray)

    # --------------------------------------------------------------------------------- guards

    def look(self, node_id: int, deed: str) -> np.ndarray:
        """Value of a node, which the tape relies on from now on."""
        node = self.trace.builder.nodes[node_id]
        if node.value is not None:
            return node.value
        if node_id not in self.guards:
            value = np.asarray(self.value(node_id, deed))
            if self.settle(node_id):
                return value
            self.guards[node_id] = np.array(value)
        return self.guards[node_id]

    def guarded(self, node_id: int) -> bool:
        """Whether a look at a node would enter a guard."""
        if node_id in self.guards or self.trace.builder.nodes[node_id].value is not None:
            return False
        self._extend(node_id)
        return not all(self._countable(i) for i in self._inputs(self._reads[node_id]))

    def expect(self, node_id: int, value: object) -> None:
        """Rely on a value without computing it."""
        if self.trace.builder.nodes[node_id].value is None:
            self.guards.setdefault(node_id, np.asarray(value))

    def check(self) -> Tape | None:
        """Tape that tells whether every guard holds; None where there is none."""
        if not self.guards:
            return None
        trace, holds = self.trace, -1
        for node_id, value in self.guards.items():
            one = _equal(trace, node_id, value)
            holds = one if holds < 0 else trace.add(PRIMITIVES["logical_and"], (holds, one))
        return trace.builder.finish([holds])


def _equal(trace: Trace, node_id: int, value: np.ndarray) -> int:
    """Node that tells whether a node has this value, NaN being equal to NaN."""
    type_ = trace.builder.type(node_id)
    if type_.dtype == BOOL and not type_.shape:
        return node_id if value else trace.add(PRIMITIVES["logical_not"], (node_id,))
    constant = trace.builder.constant(np.array(value, type_.dtype, order="C"))
    same = trace.add(PRIMITIVES["equal"], (node_id, constant))
    if type_.floating and np.isnan(value).any():
        unknown = trace.builder.constant(np.isnan(value))
        here = trace.add(PRIMITIVES["isnan"], (node_id,))
        both = trace.add(PRIMITIVES["logical_and"], (here, unknown))
        same = trace.add(PRIMITIVES["logical_or"], (same, both))
    if type_.shape:
        same = trace.add(PRIMITIVES["all"], (same,), (("axes", tuple(range(type_.ndim))),))
    return same


def truth(trace: Trace, node_id: int) -> int:
    """Node of the truth value of a node."""
    if trace.builder.type(node_id).dtype == BOOL:
        return node_id
    zero = trace.builder.constant(np.zeros((), trace.builder.type(node_id).dtype))
    return trace.add(PRIMITIVES["not_equal"], (node_id, zero))


def whole(trace: Trace, node_id: int) -> int:
    """Node of the integer Python makes of a node."""
    if trace.builder.type(node_id).dtype.kind in "biu":
        return node_id
    seen = np.asarray(trace.looks.value(node_id, "turned a traced array into a Python int"))
    if not np.all(np.abs(seen) < 2.0**63):  # too large for the tape, or no number: Python decides
        return node_id
    return trace.add(PRIMITIVES["convert"], (node_id,), (("dtype", INT),))
