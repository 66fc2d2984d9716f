"""The places of the lines of a loop nest, and the addresses of the entries that they access.

Each statement stands in the outermost loop where all its operands are known, and so does the part
of an address that inner loops do not change (loop-invariant code motion; S. S. Muchnick, Advanced
Compiler Design and Implementation, Morgan Kaufmann 1997, section 13.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..ir.accesses import Access
from ..ir.index_expressions import plus, strides, times
from ..ir.loops import Nest, Statement, StatementKind, depth_of
from ..ir.operation_costs import formula_facts
from .lines import TextLine, deeper, let

T = TypeVar("T")


class LoopLines(Generic[T]):
    """The lines before and after the loop of each depth; `depth` is where each local is known.

    `let` makes the line that assigns a local.
    """

    def __init__(self, nest: Nest, let: Callable[[str, str], T]) -> None:
        self.rank = len(nest.domain)
        self.let = let
        self.before: list[list[T]] = [[] for _ in range(self.rank + 1)]
        self.after: list[list[T]] = [[] for _ in range(self.rank + 1)]
        self.depth: dict[str, int] = {}
        self.bases: dict[str, str] = {}
        self.prefix = _prefix(nest)

    def level(self, statement: Statement) -> int:
        """How many loops enclose a statement, which from now on is known there."""
        level = depth_of(statement, self.depth, self.rank)
        self.depth[statement.target] = level
        return level

    def address(self, access: Access) -> str:
        """Position in the flat buffer; its part that outer loops determine is computed there."""
        steps = access.buffer.strides or strides(access.dims)
        outer, inner, deepest, dynamic = "0", "0", 0, False
        for axis, step in zip(access.index, steps, strict=True):
            dynamic = dynamic or axis.start in self.depth
            if axis.var == self.rank - 1 and self.rank:
                inner = plus(inner, times(times(axis.step, f"i{axis.var}"), step))
                outer = plus(outer, times(axis.start, step))
            elif axis.var >= 0:
                outer = plus(outer, times(plus(axis.start, times(axis.step, f"i{axis.var}")), step))
                deepest = max(deepest, axis.var + 1)
            else:
                outer = plus(outer, times(axis.start, step))
        if not dynamic and inner != "0" and ("*" in outer or " " in outer):
            outer = self.base(outer, deepest)
        return plus(outer, inner)

    def base(self, text: str, depth: int) -> str:
        """A local for an expression, computed once at this depth."""
        if text not in self.bases:
            self.bases[text] = f"p{self.prefix}{len(self.bases)}"
            self.before[depth].append(self.let(self.bases[text], text))
        return self.bases[text]


def extreme_lines(target: str, at: str, comparison: str, operands: Sequence[str]) -> list[TextLine]:
    """Keep a value that is better than the best so far, or the first NaN, and where it stands."""
    value, best = operands
    return [
        TextLine(f"if {value} {comparison} {best} or ({value} != {value} and {best} == {best}):"),
        *deeper((let(best, value), let(target, at))),
    ]


def lines_of_local(statement: Statement, out_of_bounds: Sequence[TextLine]) -> list[TextLine]:
    """The lines of a statement that computes a local of others; none of other statements.

    Those `out_of_bounds` follow where a position lies outside of its axis.
    """
    kind, target, text, operands, _, _ = statement
    if kind is StatementKind.LET:
        return [let(target, text.format(*operands), formula_facts(text).elementary)]
    if kind is StatementKind.ACCUMULATE:
        return [let(target, text.format(target, *operands), formula_facts(text).elementary)]
    if kind is not StatementKind.WRAP:
        return []
    position = operands[0]
    if not text:
        return [let(target, f"np.int64({position})")]
    return [
        let(target, f"{position} + {text} if {position} < 0 else {position}"),
        TextLine(f"if {target} < 0 or {target} >= {text}:"),
        *deeper(out_of_bounds),
    ]


def _prefix(nest: Nest) -> str:
    """A prefix that makes the nest's own names unique: the number of its first local."""
    inside = [s for _, statements in nest.branches for s in statements]
    names = [s.target[1:] for s in (*nest.statements, *inside) if s.target[:1] == "v"]
    return f"{names[0]}_" if names else "_"
