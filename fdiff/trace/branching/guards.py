"""The guard set of a trace: values that Python saw, and the conditions for seeing the same.

Python code sees a traced value where it branches on it, turns it into a number or prints it. Only
then is the value computed, by evaluating the nodes it depends on. A finished tape is valid for
other arguments as long as Python would see the same. For that the guard set records either

- *pinned inputs*: inputs of integers and truth values, compared whole with what they were, or
- *guards*: nodes that must have the value they had. They become the check tape of the recording.

Guards of recorded traces as in A. Gal et al., Trace-based just-in-time type specialization for
dynamic languages, PLDI 2009, section 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Protocol, TypeGuard

import fdiff.intact_numpy as np

from ...errors import TraceError
from ...tape import INPUT, Builder

Fail = Callable[[str, str], TraceError]  # the error for a fact and a way out
MANY = 64  # guards, from which on it may be worth to let the loops of a function choose


class EnclosingRecorder(Protocol):
    """The protocol of an enclosing trace that the guard set uses."""

    @property
    def builder(self) -> Builder: ...
    @property
    def guards(self) -> GuardSet: ...


class EnclosingValue(Protocol):
    """The protocol of a traced array of an enclosing trace that the guard set uses."""

    @property
    def id(self) -> int: ...
    @property
    def home(self) -> EnclosingRecorder: ...
    def example(self) -> np.ndarray: ...


def is_enclosing(value: object) -> TypeGuard[EnclosingValue]:
    """Whether the value of an input is a traced array of an enclosing trace."""
    return hasattr(value, "home")


class GuardSet:
    """The guards and pinned inputs of one trace, and the values they are taken from.

    `given` holds the value of each input at the arguments at hand: an array, the traced array of an
    enclosing trace, or a function that gives an array. `active` are the inputs a derivative is
    taken for. `batch_of` holds, for an input that is one entry of a batch, the traced array of the
    enclosing trace that holds the whole batch.
    """

    def __init__(self, builder: Builder, fail: Fail) -> None:
        self.builder = builder
        self.fail = fail
        self.closed = False  # whether the values have been released
        self.given: dict[int, object] = {}
        self.active: set[int] = set()
        self.batch_of: dict[int, EnclosingValue] = {}
        self.pinned: set[int] = set()
        self.expected: dict[int, np.ndarray] = {}  # by node: the value a guard compares it with
        self.exceeded: Callable[[], None] | None = None  # called when there are `MANY` guards
        self._known: dict[int, object] = {}  # by node: its value at the arguments at hand
        # Nodes of operands that are not nearly equal, and values of loops where others are moved.
        self.apart = set[int]()
        self.moved: dict[tuple[int | None, float], dict[int, object]] = {}
        # By node, each a set of inputs as the bits of an integer:
        self._depends: list[int] = []  # inputs it depends on in any way
        self._differentiable: list[int] = []  # inputs it depends on with a derivative
        self._unstopped: list[int] = []  # inputs it depends on other than through stop_gradient
        self._moving: dict[int, bool] = {}  # by such a set: whether one is differentiated

    def close(self) -> None:
        """Release the values, and the trace, which would keep each other alive."""
        if not self.closed:
            self.closed = True
            del self.builder, self.fail
        self._known.clear()
        self.moved.clear()
        self.given.clear()
        self.batch_of.clear()

    # ------------------------------------------------------------------------------- values

    def value(self, node_id: int, action: str) -> object:
        """Value of a node at the arguments at hand; errors say that `f` did `action`."""
        values, nodes = self._known, self.builder.nodes
        if node_id in values:
            return values[node_id]
        stack = [node_id]
        with np.errstate(all="ignore"):
            while stack:
                i = stack[-1]
                node = nodes[i]
                missing = [a for a in node.args if a not in values]
                if i in values:
                    stack.pop()
                elif missing:
                    stack += missing
                elif node.primitive is INPUT:
                    values[i] = self._input(i, action)
                else:
                    args = [values[a] for a in node.args]
                    values[i] = node.primitive.rules.evaluate(*args, **dict(node.params))
        return values[node_id]

    def _input(self, node_id: int, action: str) -> object:
        value = self.given.get(node_id)
        if value is None:
            raise self.fail(
                f"`f` {action}; it depends on an argument of type {self.builder.type(node_id)}"
                " whose value is not known.",
                "Use numpy functions (numpy.where for a branch).",
            )
        if isinstance(value, np.ndarray):
            return value
        if is_enclosing(value):
            return np.asarray(value.home.guards.value(value.id, action))
        assert callable(value), "no other values are given"
        return value()

    # ----------------------------------------------------------------------------- dependence

    def _extend(self, node_id: int) -> None:
        """Bring the sets of inputs up to date, up to this node."""
        if node_id < len(self._depends):
            return
        nodes, inputs = self.builder.nodes, self.builder.inputs
        place = {i: k for k, i in enumerate(inputs)}
        for i in range(len(self._depends), node_id + 1):
            node = nodes[i]
            if node.primitive is INPUT:
                depends = differentiable = unstopped = 1 << place[i]
            else:
                depends = differentiable = unstopped = 0
                for a in node.args:
                    depends |= self._depends[a]
                    differentiable |= self._differentiable[a]
                    unstopped |= self._unstopped[a]
            smooth = not node.primitive.rules.flat and any(t.floating for t in node.types)
            self._depends.append(depends)
            self._differentiable.append(differentiable if smooth else 0)
            self._unstopped.append(0 if node.primitive.rules.stops else unstopped)

    def _members(self, bits: int) -> list[int]:
        """The inputs in a set."""
        return [i for k, i in enumerate(self.builder.inputs) if bits >> k & 1]

    def _inputs(self, node_id: int) -> list[int]:
        """The inputs a node depends on in any way."""
        self._extend(node_id)
        return self._members(self._depends[node_id])

    def is_active(self, node_id: int) -> bool:
        """Whether the node has a derivative with respect to something that is differentiated."""
        self._extend(node_id)
        return self._any_input(self._differentiable[node_id], self.active, GuardSet.is_active)

    def depends(self, node_id: int) -> bool:
        """Whether the node depends on something that is differentiated.

        Unlike `is_active`, this counts rounded values and truth values, which have no derivative.
        """
        self._extend(node_id)
        bits = self._unstopped[node_id]
        moves = self._moving.get(bits)
        if moves is None:
            moves = self._moving[bits] = self._any_input(bits, self.active, GuardSet.depends)
        return moves

    def is_known(self, node_id: int) -> bool:
        """Whether the value of a node can be computed."""
        return all(i in self.given for i in self._inputs(node_id))

    def is_batched(self, node_id: int) -> bool:
        """Whether a node depends on a batch, of which only one entry is at hand."""
        self._extend(node_id)
        return self._any_input(self._depends[node_id], self.batch_of, GuardSet.is_batched)

    def is_batched_here(self, node_id: int) -> bool:
        """Whether a node depends on a batch of which the trace itself is one entry."""
        return any(i in self.batch_of for i in self._inputs(node_id))

    def _any_input(
        self, bits: int, these: Container[int], outside: Callable[[GuardSet, int], bool]
    ) -> bool:
        """Whether an input of a set is one of `these`.

        One that stands for a value of an enclosing trace is asked there, by `outside`.
        """
        for i in self._members(bits):
            outer = self.batch_of.get(i, self.given.get(i))
            if i in these or (is_enclosing(outer) and outside(outer.home.guards, outer.id)):
                return True
        return False

    # -------------------------------------------------------------------------- pinned inputs

    def pin(self, node_id: int) -> bool:
        """Pin the inputs of a node, if all of them hold integers or truth values."""
        inputs = self._inputs(node_id)
        if not all(map(self._can_pin, inputs)):
            return False
        for i in inputs:
            outer = self.given.get(i)
            if is_enclosing(outer):
                outer.home.guards.pin(outer.id)
            else:
                self.pinned.add(i)
        return True

    def is_pinned(self, node_id: int) -> bool:
        """Whether a node depends on nothing but constants and inputs that are pinned already."""
        for i in self._inputs(node_id):
            outer = self.given.get(i)
            if is_enclosing(outer):
                if not outer.home.guards.is_pinned(outer.id):
                    return False
            elif i not in self.pinned:
                return False
        return True

    def _can_pin(self, input_id: int) -> bool:
        if input_id in self.batch_of or self.builder.type(input_id).dtype.kind not in "biu":
            return False
        outer = self.given.get(input_id)
        if is_enclosing(outer):
            guards = outer.home.guards
            return all(map(guards._can_pin, guards._inputs(outer.id)))
        return isinstance(outer, np.ndarray)

    # --------------------------------------------------------------------------------- guards

    def guard(self, node_id: int, action: str) -> np.ndarray:
        """Value of a node, which the tape relies on from now on."""
        node = self.builder.nodes[node_id]
        if node.value is not None:
            return node.value
        if node_id not in self.expected:
            value = np.asarray(self.value(node_id, action))
            if self.pin(node_id):
                return value
            self._enter(node_id, np.array(value))
        return self.expected[node_id]

    def would_guard(self, node_id: int) -> bool:
        """Whether `guard` would add a guard: none is there, and the inputs cannot be pinned."""
        if node_id in self.expected or self.builder.nodes[node_id].value is not None:
            return False
        return not all(map(self._can_pin, self._inputs(node_id)))

    def note(self, node_id: int, value: object) -> None:
        """Remember the value of a node, which is known from elsewhere."""
        self._known.setdefault(node_id, value)

    def expect(self, node_id: int, value: object) -> None:
        """Rely on a value without computing it."""
        if self.builder.nodes[node_id].value is None and node_id not in self.expected:
            self._enter(node_id, np.asarray(value))

    def _enter(self, node_id: int, value: np.ndarray) -> None:
        self.expected[node_id] = value
        if len(self.expected) == MANY and self.exceeded is not None:
            self.exceeded()
