"""The walk over a linear tape: the terms of each node that moves, in a trace of the derivative.

The tape is linear in its last input, the seed: a tape of tangents (its Jacobian is the function's),
of cotangents (the transpose), of tangents of the gradient (the Hessian). Derivative rules have been
applied to all that is nonlinear, so that rules are needed for linear ops alone. Our own method:
docs/decisions/terms-and-cuts.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, Shape
from ...named_tuples import NamedTuple
from ...ops.term_rules import entrywise
from ...ops.terms import Entries, LinearTerm, whole
from ...tape import CONSTANT, ITEM, Node, Tape
from ...trace import Array, TracedArray
from ...user_lines import Line
from ..activity import reached
from ..simplify import SimplifyingTrace
from .affine_maps import Maps
from .cuts import Cuts, joined_entries
from .frozen_values import FrozenValues
from .linear_ops import is_linear
from .mixing_ops import mixed
from .term_merging import Merging

MANY = 64  # terms of a node, beyond which it becomes a source of its own


class Opaque(NamedTuple):
    """An op without structure, and the user's line."""

    node: Node
    line: Line | None


class OpaqueError(Exception):
    """A rule cannot state a structure; the error never leaves this folder."""


class TooManyError(Exception):
    """A structure has too many entries; it never leaves this folder."""

    def __init__(self, count: int, line: Line | None) -> None:
        super().__init__(count)
        self.count, self.line = count, line


def _columns(type_: ArrayType) -> int:
    """The columns of a node that is a source."""
    return type_.size * (2 if type_.dtype.kind == "c" else 1)


class LinearSweep:
    """The nodes of a linear tape in a trace, and the terms of those that move.

    `opaque` are the nodes whose structure is unknown, and all nodes that depend on these. No node
    has more than `most` entries.
    """

    most = 1 << 28

    def __init__(self, tape: Tape, trace: SimplifyingTrace, frozen: FrozenValues) -> None:
        self.tape, self.trace, self.frozen = tape, trace, frozen
        self.builder = trace.builder
        seed = tape.inputs[-1]
        moving = zip(tape.nodes, reached(tape, {seed: 1}), strict=True)
        self.maps = Maps(max(_columns(t) for node, moves in moving if moves for t in node.types))
        source = tape.nodes[seed].type
        self.cuts = Cuts(source.size, self.allow)
        self.values = [-1] * len(tape.nodes)
        for i in tape.inputs[:-1]:
            self.values[i] = self.builder.input(tape.nodes[i].type)
        self.terms: dict[int, list[LinearTerm]] = {}
        self.terms[seed] = [LinearTerm(whole(source.shape), self.grid(source.shape), None, -1)]
        self.items: dict[int, list[list[LinearTerm] | None]] = {}
        self.opaque: dict[int, Opaque] = {}
        self.line: Line | None = None
        self.entries = 0  # of all nodes: part of the price

    def run(self) -> None:
        """Enter each node that does not move, and find the terms of the others."""
        for i, node, line in self.tape.operations():
            self.line = self.trace.line = line
            first = node.args[0] if node.args else -1
            if node.primitive is ITEM and (first in self.items or first in self.opaque):
                parts = self.items.get(first)
                if parts is None:
                    self.opaque[i] = self.opaque[first]
                elif (part := parts[node.k]) is not None:
                    self.terms[i] = part
                continue
            hidden = [self.opaque[a] for a in node.args if a in self.opaque]
            if hidden:
                self.opaque[i] = hidden[0]
            elif any(a in self.terms for a in node.args):
                self._move(i, node)
            else:
                args = tuple([self.values[a] for a in node.args])
                self.values[i] = self.builder.add(
                    node.primitive, args, node.params, line, node.types
                )

    def _move(self, i: int, node: Node) -> None:
        """The terms of one node, some of whose arguments move."""
        moving = tuple([a in self.terms for a in node.args])
        types = tuple([self.type(a) for a in node.args])
        if not is_linear(node, moving, types):
            self.hide(i, node)
            return
        rule = node.primitive.structure.terms
        if rule is None and node.primitive.family == "elementwise":
            rule = entrywise
        try:
            several = len(node.types) > 1
            parts = mixed(self, node) if several or rule is None else [rule(self, node)]
        except OpaqueError:
            self.hide(i, node)
            return
        parts = [self.bounded(part, type_) for part, type_ in zip(parts, node.types, strict=True)]
        if len(parts) > 1:
            self.items[i] = [*parts]
        else:
            self.terms[i] = parts[0]

    def hide(self, i: int, node: Node) -> None:
        """Note a node of unknown structure."""
        self.opaque[i] = Opaque(node, self.line)

    def bounded(self, terms: list[LinearTerm], type_: ArrayType) -> list[LinearTerm]:
        """Merged terms of a node; where they are many, the node becomes a source."""
        terms = Merging(self.maps, self.lift, type_.dtype).merged(
            [t for t in terms if prod(t.domain)]
        )
        if len(terms) > MANY:
            terms = self.cut(self.listed(terms, type_), type_)
        self.check(sum(t.size for t in terms))
        return terms

    def check(self, count: int) -> None:
        """Count entries of a node; raise an error for more than fit in memory."""
        self.entries += count
        if count > self.most:
            raise TooManyError(count, self.line)

    # --- what rules ask for ---------------------------------------------------------------------

    def allow(self, count: int) -> None:
        if count > self.most:
            raise TooManyError(count, self.line)

    def moves(self, i: int) -> bool:
        return i in self.terms

    def type(self, i: int) -> ArrayType:
        return self.tape.nodes[i].type

    def value(self, i: int) -> TracedArray:
        return TracedArray(self.trace, self.values[i], self.type(i))

    def constant(self, i: int) -> bool:
        return self.builder.nodes[self.values[i]].primitive is CONSTANT

    def index(self, i: int) -> np.ndarray:
        value = self.frozen.of(i)
        if value is None:
            raise OpaqueError
        return value

    def holds(self, i: int) -> bool:
        value = self.frozen.settled(i)
        return value is not None and bool(value.all())

    def terms_of(self, i: int) -> list[LinearTerm]:
        return self.terms[i]

    def grid(self, shape: Shape) -> np.ndarray:
        return self.maps.grid(shape)

    def lift(self, value: object) -> TracedArray:
        """A value as an array of the trace."""
        node = self.trace.lift(value)
        return TracedArray(self.trace, node, self.builder.type(node))

    def cut(self, entries: list[Entries], type_: ArrayType) -> list[LinearTerm]:
        return self._source(self.cuts.add(entries, type_, self.line), type_)

    def _source(self, source: int, type_: ArrayType) -> list[LinearTerm]:
        """The terms of a node that is a source: one, or two if it is complex."""
        rows, count = whole(type_.shape), type_.size
        if not count:
            return []
        if type_.dtype.kind != "c":
            return [LinearTerm(rows, self.grid(type_.shape), None, source)]
        across = self.lift(np.full((1,) * type_.ndim, 1j, type_.dtype))
        real, imag = (self.maps.all[k : 2 * count : 2].reshape(type_.shape) for k in (0, 1))
        return [LinearTerm(rows, real, None, source), LinearTerm(rows, imag, across, source)]

    def source_of(self, i: int) -> list[LinearTerm]:
        self.terms[i] = self.cut(self.listed(self.terms[i], self.type(i)), self.type(i))
        return self.terms[i]

    def lean(self, i: int, count: int) -> list[LinearTerm]:
        terms, type_ = self.terms[i], self.type(i)
        if len(terms) > 1 and count >= type_.size:
            terms = Merging(self.maps, self.lift, type_.dtype).side_by_side(terms)
        wide = sum(prod(t.extra) for t in terms)
        return self.source_of(i) if wide > 1 and any(t.cols.size > MANY for t in terms) else terms

    def eased(self, i: int) -> list[LinearTerm]:
        terms, type_ = self.terms[i], self.type(i)
        if len(terms) < 2 or type_.dtype.kind == "c":
            return terms
        factors = [self._number(t) for t in terms]
        plain = all(t.rows == whole(type_.shape) and t.cols.ndim == type_.ndim for t in terms)
        if plain and all(f is not None for f in factors):
            pairs = [(t, f) for t, f in zip(terms, factors, strict=True) if f is not None]
            self.terms[i] = self._source(self.cuts.add_sum(pairs, type_, self.line), type_)
        return self.terms[i]

    def _number(self, t: LinearTerm) -> float | None:
        """The constant number that a coefficient is; None if it is another."""
        if t.coef is None:
            return 1.0
        value = self.builder.nodes[t.coef.id].value
        return float(value.reshape(())) if value is not None and value.size == 1 else None

    def listed(self, terms: Sequence[LinearTerm], type_: ArrayType) -> list[Entries]:
        """The entries of terms: rows, columns and values of each."""
        lists = []
        for t in terms:
            domain, count = t.domain, len(t.rows)
            self.check(prod(domain))
            key = tuple([slice(a, a + n * step, step) for a, n, step in t.rows])
            rows = self.grid(type_.shape)[key]
            rows = rows.reshape((*rows.shape, *(1,) * (len(domain) - count)))
            flat = [np.broadcast_to(a, domain).reshape(-1) for a in (rows, t.cols)]
            values = None if t.coef is None else self._flat(t.coef, domain)
            lists.append(Entries(flat[0], flat[1], values, t.source))
        return joined_entries(lists, type_.dtype) if len(lists) > MANY else lists

    def multiplies(self, term: LinearTerm) -> bool:
        return self.cuts.multiplies(term.source)

    def resolved(self, terms: Sequence[LinearTerm], type_: ArrayType) -> list[Entries]:
        return self.cuts.of_seed(self.listed(terms, type_), type_.size, type_.dtype)

    def _flat(self, coef: TracedArray, domain: Shape) -> Array:
        value = self.builder.nodes[coef.id].value
        if value is not None:
            return np.broadcast_to(value, domain).reshape(-1)
        return np.reshape(coef if coef.shape == domain else np.broadcast_to(coef, domain), (-1,))
