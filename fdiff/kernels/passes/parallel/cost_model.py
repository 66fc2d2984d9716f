"""A cost model of loops, which decides whether threads share them.

Fitted to kernels on one core (EPYC Turin) with data in the cache: nanoseconds an entry, measured
and predicted: a chain of five functions 2.8 2.7, Rosenbrock's gradient 0.2 0.4, Lennard-Jones
3.6 3.9, GMM with d = 10 25 24 (a point and a term). Out of the cache they take longer.
"""

from __future__ import annotations

from ...ir.loops import (
    BEGIN,
    BLOCK,
    END,
    Call,
    Conditional,
    Nest,
    Statement,
    StatementKind,
    TileLoop,
    VersionedLoop,
)
from ...ir.operation_costs import SLOW, flops_of
from ...kernel_source import Work

# ns: an addition, a function, an entry loaded or stored, one at an index, a term of a product
_FLOP, _CALLED, _MOVED, _PICKED, _TERM = 0.008, 0.45, 0.04, 0.4, 0.03
_SUMS = ("rt.add(", "rt.multiply(")
_COUNTS = 4  # sizes of a matrix product, whose product is the number of terms


def work_of(item: Nest | Call | TileLoop | VersionedLoop) -> tuple[Work, ...]:
    """The work of all nests and matrix products in an item; of versions, that of the fallback."""
    item = item.fallback if isinstance(item, VersionedLoop) else item
    out: list[Work] = []
    rows = item.rows if isinstance(item, TileLoop) else ""
    for one in item.items if isinstance(item, TileLoop) else (item,):
        if isinstance(one, Conditional):
            out.append(_of_nest(one.other))
        elif isinstance(one, Nest):
            out.append(_of_nest(one))
        elif one.routine.startswith("matmul"):
            counts = (d.replace(f"({END} - {BEGIN})", rows) for d in one.sizes[:_COUNTS])
            out.append(Work(tuple(counts), _TERM))
    return tuple(out)


def _of_nest(nest: Nest) -> Work:
    dims = tuple(d for d in nest.domain if d != BLOCK)
    return Work(dims, sum(map(_cost, nest.statements)) if nest.domain else 0.0)


def _cost(s: Statement) -> float:
    if s.kind in (StatementKind.WRAP, StatementKind.PICK):
        return _PICKED
    flops = 1 if s.text.startswith(_SUMS) else flops_of(s.text)
    return (_CALLED if flops >= SLOW else _FLOP * flops) + _MOVED * (s.access is not None)


def multiplying(terms: int) -> float:
    """Nanoseconds for a matrix product that adds up so many terms."""
    return _TERM * terms
