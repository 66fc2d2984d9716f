"""Functions that gather rows, compute with each row by itself, and add up what each row gives.

The energy of pairs of atoms and its gradient are such functions: a row is a pair. Between gathers
and sums, rows do not mix, so that the Jacobian of that part is a small block for each row (partial
separability: A. Griewank and Ph. L. Toint, On the unconstrained optimization of partially separable
functions, in Nonlinear Optimization 1981, Academic Press 1982).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...arraytype import Shape
from ...ops.elementwise import add, convert, negative, subtract
from ...ops.gather_scatter import gather, scatter_add
from ...ops.view_ops import reshape
from ...tape import Builder, Node, Tape, prune, rebuild
from .row_independence import rows_first, rowwise

MOST_NODES = 4096
_MOST_TERMS = 64


class RowPart(NamedTuple):
    """Rows that are gathered of the input in some `shape`: those at `where`, or all (None)."""

    node: int
    where: int | None
    shape: Shape


class Term(NamedTuple):
    """Rows that are added to an array of some `shape`, or subtracted: at `where`, or all (None)."""

    node: int
    where: int | None
    shape: Shape
    minus: bool


@dataclass(eq=False, repr=False)
class Separated:
    """A tape in three pieces: what is gathered, `between`, and which terms are added up."""

    tape: Tape
    parts: list[RowPart] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)

    @property
    def before(self) -> Tape:
        """Tape of ``inputs -> (*parts, *the index vectors of parts and then of terms)``."""
        wheres = [p.where for p in (*self.parts, *self.terms) if p.where is not None]
        return prune(self.tape, [*(p.node for p in self.parts), *wheres])

    @property
    def between(self) -> Tape:
        """Tape of ``(*inputs, *parts) -> terms``, which computes with each row by itself."""
        tape, builder = self.tape, Builder()
        ids = {i: builder.input(tape.nodes[i].type) for i in tape.inputs}
        ids |= {p.node: builder.input(tape.nodes[p.node].type) for p in self.parts}
        terms = tuple([t.node for t in self.terms])
        return rebuild(replace(tape, outputs=terms), builder, {}, ids)


def separate(tape: Tape, k: int) -> Separated | None:
    """The pieces of a tape, as a function of input `k`; None if it is no function of this kind."""
    if len(tape) > MOST_NODES or not any(n.primitive is gather for n in tape.nodes):
        return None
    sweep = _RowSweep(rows_first(tape), k)
    gathers = sweep.run() and any(p.where is not None for p in sweep.out.parts)
    return sweep.out if gathers and sweep.out.terms else None


class _RowSweep:
    """For each node that depends on the input: is it the whole input, rows, or a sum of terms?"""

    def __init__(self, tape: Tape, k: int) -> None:
        self.tape = tape
        self.out = Separated(tape)
        self.whole = {tape.inputs[k]}
        self.rows: set[int] = set()
        self.sums: dict[int, list[Term]] = {}

    def run(self) -> bool:
        """Whether every node is one of these."""
        for i, node in enumerate(self.tape.nodes):
            moving = {a for a in node.args if a in self.whole or a in self.rows or a in self.sums}
            if not moving or node.primitive.flat or not any(t.floating for t in node.types):
                continue
            if len(node.types) > 1 or not self._take(i, node, moving):
                return False
        (last,) = self.tape.outputs
        if last in self.rows:
            self._placed(last)
        self.out.terms = self.sums.get(last, [])
        return True

    def _take(self, i: int, node: Node, moving: set[int]) -> bool:
        if moving <= self.whole and node.primitive in (reshape, gather):
            return self._read(i, node)
        if any(not self._as_rows(a) for a in moving & self.whole):
            return False
        if not moving.isdisjoint(self.sums):
            for a in moving & self.rows:
                self._placed(a)
            return self._added(i, node)
        if node.primitive is scatter_add and self._plain(node):
            self.sums[i] = [Term(node.args[0], node.args[1], node.param("shape"), minus=False)]
            return True
        self.rows.add(i)
        return rowwise(
            node, [self.tape.nodes[a].type for a in node.args], [a in moving for a in node.args]
        )

    def _read(self, i: int, node: Node) -> bool:
        """Enter a reshape of the whole input, or a gather by one index vector; else False."""
        if node.primitive is reshape:
            self.whole.add(i)
            return True
        self.rows.add(i)
        self.out.parts.append(RowPart(i, node.args[1], self.tape.nodes[node.args[0]].type.shape))
        return self._plain(node)

    def _as_rows(self, i: int) -> bool:
        """The input as its own rows, each once."""
        type_ = self.tape.nodes[i].type
        if i not in self.rows:
            self.rows.add(i)
            self.out.parts.append(RowPart(i, None, type_.shape))
        return type_.ndim > 0

    def _placed(self, i: int) -> None:
        """Rows as a term, each at its own place."""
        self.sums[i] = [Term(i, None, self.tape.nodes[i].type.shape, minus=False)]

    def _plain(self, node: Node) -> bool:
        """Whether there is one index vector, which is not moved itself."""
        return len(node.args) == 2 and self.tape.nodes[node.args[1]].type.ndim == 1

    def _added(self, i: int, node: Node) -> bool:
        """Enter a sum, difference or reshape of sums; False if it is none, or too long."""
        op = node.primitive
        if op not in (add, subtract, negative, reshape, convert):
            return False
        shape = node.type.shape
        if op is not reshape and any(self.tape.nodes[a].type.shape != shape for a in node.args):
            return False
        self.sums[i] = [
            term._replace(minus=term.minus ^ (op is negative or (op is subtract and k > 0)))
            for k, a in enumerate(node.args)
            for term in self.sums.get(a, [])
        ]
        return len(self.sums[i]) <= _MOST_TERMS
