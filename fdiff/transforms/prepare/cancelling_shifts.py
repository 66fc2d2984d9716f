"""Shifts that cancel: ``m + log(sum(exp(x - m)))`` does not depend on ``m``.

Programs subtract the maximum before they exponentiate, so that nothing overflows. Through it the
derivative is zero, and rounding errors where that zero is computed as ``1 - sum(softmax)``: nothing
is to be differentiated there. The same holds of ``exp(x - m) / sum(exp(x - m))`` and of
``x - m - log(sum(exp(x - m)))``, whatever ``m`` is. (P. Blanchard, D. J. Higham and N. J. Higham,
Accurately computing the log-sum-exp and softmax functions, IMA JNA 41, 2021, algorithm 4.1.)
"""

from __future__ import annotations

from functools import partial

from ...arraytype import Shape, without_ones
from ...ops.along_axes.reductions import sum_
from ...ops.entrywise.elementwise import add, divide, exp, log, stop, subtract
from ...ops.shapes.view_ops import reshape, spread
from ...primitive import Primitive
from ...tape import CONSTANT, Builder, Tape, rebuild

Edge = tuple[int, int]  # a node, and which of its arguments


def stop_cancelling_shifts(tape: Tape) -> Tape:
    """Wrap shifts that cancel in `stop_gradient`."""
    nodes = tape.nodes
    exponentials = [
        i
        for i, node in enumerate(nodes)
        if node.primitive is exp and nodes[node.args[0]].primitive is subtract
    ]
    if not exponentials:
        return tape
    users = tape.users()
    edges = {edge for i in exponentials for edge in _ShiftedExponential(tape, users, i).edges()}
    return _with_stops(tape, edges) if edges else tape


class _ShiftedExponential:
    """One ``exp(x - m)``, and the nodes computed from it."""

    def __init__(self, tape: Tape, users: list[list[int]], exp: int) -> None:
        self.nodes, self.outputs, self.users = tape.nodes, set(tape.outputs), users
        self.exp, self.difference = exp, tape.nodes[exp].args[0]
        self.shape = tape.nodes[exp].type.shape
        self.shift = self._spread(tape.nodes[self.difference].args[1])

    def edges(self) -> list[Edge]:
        """The edges by which the shift enters, if no result depends on it."""
        if self.nodes[self.shift].primitive is CONSTANT or not self._inner(self.exp):
            return []
        sums = {u for u in self.users[self.exp] if self._op(u) is sum_}
        if len(sums) != 1:
            return []
        (total,) = sums
        self.axes = set[int](self.nodes[total].param("axes"))
        self.kept = without_ones(n for k, n in enumerate(self.shape) if k not in self.axes)
        if not self._aligned(self.shift, alone=True):
            return []
        views = self._views(total)
        logs = [u for v in views for u in self.users[v] if self._op(u) is log]
        spreads = {w for u in logs for w in self._views(u)}
        quotients = {u for v in views for u in self.users[v]} - set(logs) - views
        shares = {u for u in self.users[self.exp] if u != total}
        rest = {u for w in spreads for u in self.users[w]} - spreads
        less = {u for u in self.users[self.difference] if u != self.exp}
        ends = [self._added(u, spreads) for u in rest - less]
        right = (
            self._inner(self.difference)
            and all(map(self._inner, (*views, *spreads)))
            and all(self._is_quotient(u, self.exp, views, divide) for u in quotients | shares)
            and all(self._is_quotient(u, self.difference, spreads, subtract) for u in less)
            and None not in ends
        )
        return [(self.difference, 1), *[e for e in ends if e is not None]] if right else []

    def _op(self, i: int) -> Primitive:
        return self.nodes[i].primitive

    def _inner(self, i: int) -> bool:
        return i not in self.outputs and bool(self.users[i])

    def _spread(self, i: int) -> int:
        """The operand of the broadcast `i`."""
        while self._op(i) is spread:
            i = self.nodes[i].args[0]
        return i

    def _aligned(self, i: int, *, alone: bool = False) -> bool:
        """Whether `i` has one entry for each sum; `alone`: or one in all."""
        shape = self.nodes[i].type.shape
        padded = (1,) * (len(self.shape) - len(shape)) + shape
        along = tuple([1 if k in self.axes else n for k, n in enumerate(self.shape)])
        return padded == along or (alone and not without_ones(shape))

    def _views(self, i: int) -> set[int]:
        """`i`, and nodes that have its entries in their order, in other shapes."""
        views, stack = {i}, [i]
        while stack:
            for u in self.users[stack.pop()]:
                node = self.nodes[u]
                plain = node.primitive in (reshape, spread)
                if plain and u not in views and without_ones(node.type.shape) == self.kept:
                    views.add(u)
                    stack.append(u)
        return views

    def _is_quotient(self, u: int, first: int, seconds: set[int], op: Primitive) -> bool:
        """Whether `u` is `first` divided by, or less, one of `seconds`, which lies along it."""
        node = self.nodes[u]
        if node.primitive is not op or node.args[0] != first:
            return False
        second = self._spread(node.args[1])
        return second in seconds and self._aligned(second)

    def _added(self, u: int, spreads: set[int]) -> Edge | None:
        """Where the shift is added to a logarithm again; None if `u` is something else."""
        node = self.nodes[u]
        if node.primitive is not add:
            return None
        for k in (0, 1):
            i, other = node.args[1 - k], self._spread(node.args[k])
            shape, added = self.nodes[i].type.shape, self.nodes[other].type.shape
            beside = shape == node.type.shape and (added == shape or not without_ones(added))
            if i in spreads and beside and self._is_shift(other):
                return u, k
        return None

    def _is_shift(self, i: int) -> bool:
        """Whether `i` has the entries of the shift, in their order."""
        wide = without_ones(self.nodes[self.shift].type.shape)
        return self._origin(i, wide) == self._origin(self.shift, wide)

    def _origin(self, i: int, wide: Shape) -> int:
        while self._op(i) is reshape and without_ones(self.nodes[i].type.shape) == wide:
            i = self.nodes[i].args[0]
        return i if without_ones(self.nodes[i].type.shape) == wide else -1 - i


def _with_stops(tape: Tape, edges: set[Edge]) -> Tape:
    """The tape with ``stop_gradient`` applied to these arguments."""

    def replacement(i: int, b: Builder, ids: dict[int, int]) -> int:
        primitive, args, params, _ = tape.nodes[i]
        moved = [b.add(stop, (ids[a],)) if (i, k) in edges else ids[a] for k, a in enumerate(args)]
        return b.add(primitive, tuple(moved), params)

    return rebuild(tape, Builder(), {i: partial(replacement, i) for i, _ in edges})
