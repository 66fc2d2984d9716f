"""A cost model of loops, by which `kernels/thread_break_even.py` decides what threads share.

Fitted to kernels on one core (EPYC Turin) with data in the cache: nanoseconds an entry, measured
and predicted: a chain of five functions 2.8 2.7, Rosenbrock's gradient 0.2 0.4, Lennard-Jones
3.6 3.9, GMM with d = 10 25 24 (a point and a term). Out of the cache they take longer. The model
is our own: docs/decisions/parallel-loops.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...ir.control_items import ControlItem, SequentialLoop
from ...ir.loops import (
    BEGIN,
    BLOCK,
    END,
    Call,
    Conditional,
    Item,
    Nest,
    Statement,
    StatementKind,
    TileLoop,
    VersionedLoop,
    nests_and_calls,
)
from ...ir.operation_costs import SLOW, flops_of
from ...ir.product_sizes import product_sizes
from ...kernel_source import Work

# Prices in nanoseconds.
_NS_FLOP = 0.008  # an addition of an entry
_NS_FUNCTION = 0.45  # an elementary function of an entry
_NS_ACCESS = 0.04  # an entry loaded or stored
_NS_INDEXED = 0.4  # an entry at an index that is found at run time
_NS_TERM = 0.03  # a term of a matrix product
_NS_SCALAR_OP = 0.5  # an operation on numbers in a long program (`ns_in_long_program`)
_NS_LOOP = 2.0  # the start of a loop there
_NS_FUNCTION_LOOP = 8.0  # the start of a loop with an elementary function there
_NS_CALLED_FUNCTION = 2.0  # an elementary function of an entry there
_NS_SERIAL_FLOP = 0.1  # an addition of numbers in a trip, which wait for each other
_NS_SERIAL_FUNCTION = 4.0  # an elementary function of numbers in a trip
# ns of routines other than products for each matrix, as multiples of products of its size and the
# number of columns. Fitted to matrices of 2 to 256 rows on one core (EPYC Turin, OpenBLAS):
# measured times are 0.6 to 2.4 of the predicted ones (``python -m benchmarks.explain --routines``),
# of `cofactor` where no matrix is nearly singular.
_ROUTINES: dict[str, dict[str, float]] = {
    "solve": {"nnn": 0.01, "nn": 3.0, "nnc": 0.06, "nc": 1.2},
    "inv": {"nnn": 0.06, "nn": 4.5},
    "det": {"nnn": 0.01, "nn": 2.0},
    "slogdet": {"nnn": 0.01, "nn": 2.0},
    "cholesky": {"nnn": 0.008, "nn": 1.1},
    "cholesky_bar": {"nnn": 0.018, "nn": 1.8},
    "cofactor": {"nnn": 0.08, "nn": 8.0},
    "triangular": {"n": 7.0, "nc": 0.5, "nnc": 0.022},
}

# Systems of triangular matrices, all of which have one row of the table.
_TRIANGULAR = {
    f"triangular{transposed}{how}": "triangular"
    for transposed in (0, 1)
    for how in ("", "checked", "unit")
}


def work_of(item: Nest | Call | TileLoop | VersionedLoop) -> tuple[Work, ...]:
    """The work of all nests and products in an item; for versions, the fallback's work."""
    item = item.fallback if isinstance(item, VersionedLoop) else item
    out: list[Work] = []
    rows = item.rows if isinstance(item, TileLoop) else ""
    for part in item.items if isinstance(item, TileLoop) else (item,):
        if isinstance(part, Conditional):
            out.append(_of_nest(part.other))
        elif isinstance(part, Nest):
            out.append(_of_nest(part))
        elif isinstance(part, ControlItem):
            out += [_each_trip(part, w) for item in _items_of_bodies(part) for w in _in_trip(item)]
        elif part.is_product:
            counts = (d.replace(f"({END} - {BEGIN})", rows) for d in product_sizes(part).counts)
            out.append(Work(tuple(counts), _NS_TERM))
    return tuple(out)


def routine_work(
    item: Nest | Call | TileLoop | VersionedLoop,
) -> Iterator[tuple[str, tuple[Work, ...]]]:
    """The names of the other routines that an item calls, and their work: none if it is not known.

    It is not part of `work_of`, because threads do not share it.
    """
    for part in nests_and_calls(item):
        if isinstance(part, ControlItem):
            inside = (works for item in _items_of_bodies(part) for works in routine_work(item))
            yield from ((name, tuple(_each_trip(part, w) for w in some)) for name, some in inside)
        elif isinstance(part, Call) and not part.is_product:
            yield part.routine, matrix_work(part.name, part.sizes)


def _items_of_bodies(item: ControlItem) -> Iterator[Item]:
    """The items of the bodies of a loop or a switch."""
    for body in item.bodies:
        yield from body.lowered.items


def _in_trip(item: Item) -> tuple[Work, ...]:
    """The work of an item in a trip: numbers wait for numbers, where entries of arrays do not."""
    if isinstance(item, Nest) and not item.domain:
        return (Work((), sum(map(_cost_of_number, item.statements))),)
    return work_of(item)


def _cost_of_number(s: Statement) -> float:
    flops, access = flops_of(s.text), _NS_ACCESS * (s.access is not None)
    return _NS_SERIAL_FUNCTION if flops >= SLOW else _NS_SERIAL_FLOP * flops + access


def _each_trip(item: ControlItem, work: Work) -> Work:
    """The work of all trips of a loop."""
    length = item.length if isinstance(item, SequentialLoop) else "1"
    return Work((length, *work.dims), work.cost)


def matrix_work(routine: str, sizes: Sequence[str]) -> tuple[Work, ...]:
    """The work of a routine for `sizes`: number of matrices, their order, and columns if any."""
    stack, *sizes = sizes
    named = dict(zip("nc", sizes, strict=False))
    costs = _ROUTINES.get(_TRIANGULAR.get(routine, routine), {})
    return tuple(
        Work((stack, *(named[size] for size in term)), cost) for term, cost in costs.items()
    )


def _of_nest(nest: Nest) -> Work:
    dims = tuple(d for d in nest.domain if d != BLOCK)
    return Work(dims, sum(map(_cost, nest.statements)) if nest.domain else 0.0)


def _cost(s: Statement) -> float:
    if s.kind in (StatementKind.WRAP, StatementKind.EXTREME):
        return _NS_INDEXED
    flops, access = flops_of(s.text), _NS_ACCESS * (s.access is not None)
    return (_NS_FUNCTION if flops >= SLOW else _NS_FLOP * flops) + access


def ns_in_long_program(flops: int, size: int) -> float:
    """Nanoseconds for an operation among thousands, of `size` entries with `flops` flops each.

    Their loops are short, and their functions are called; other kernels inline them. Fitted to
    loops of 1,500 to 2,000 passes, unrolled to tapes of 7,000 to 20,000 nodes, whose times are 0.7
    to 1.4 of the predicted ones: ``python -m benchmarks.explain --long``.
    """
    start, entry = (_NS_SCALAR_OP if size == 1 else _NS_LOOP), _NS_FLOP * flops + _NS_ACCESS
    if flops >= SLOW:
        start, entry = start + _NS_FUNCTION_LOOP, _NS_CALLED_FUNCTION
    return start + entry * size


def ns_of_product(terms: int) -> float:
    """Nanoseconds for a matrix product that adds up `terms` terms."""
    return _NS_TERM * terms
