"""Matrix products restricted to a tile of rows.

A product with the rows of a tile is the block of the whole product in these rows (G. H. Golub and
C. F. Van Loan, Matrix Computations, 4th ed., 2013, section 1.3); tiling itself is `row_tiling.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ....named_tuples import NamedTuple
from ...ir.accesses import Access, Buffer
from ...ir.combiners import Combiner
from ...ir.expression_names import names_in, renamed
from ...ir.index_expressions import ONE, Dims, identity, nonunit, other_factors, times
from ...ir.loops import BEGIN, BLOCK, END, NUMPY, Call, Nest, Statement, StatementKind, Temporary
from ...ir.product_sizes import ProductSizes, product_sizes


def operands_of(call: Call) -> list[tuple[str, StatementKind]]:
    """The buffers of a call, and whether it loads or stores each (both, if that is not known)."""
    load, store = StatementKind.LOAD, StatementKind.STORE
    if not call.is_product:
        return [(b, kind) for b in call.buffers for kind in (load, store)]
    a, b, out = call.buffers
    return [(a, load), (b, load), (out, store)]


class RowRole(NamedTuple):
    """The role of the axis of rows in a product, its operands and its result.

    `sums`: the product sums over the rows. Of each array: the stride from row to row ("" if it has
    no rows), and whether the rows are its first axis or its last ("first", "last").
    """

    sums: bool
    steps: tuple[str, str, str]
    places: tuple[str, str, str]


def role_of_rows(call: Call, axis: str, shapes: Mapping[str, Dims]) -> RowRole | None:
    """The role of an axis in a product of contiguous arrays; None if it cannot be tiled."""
    if not call.is_product:
        return None
    counts = [shapes.get(b, ()).count(axis) for b in call.buffers]
    sizes = product_sizes(call)
    inside = [k for k, text in enumerate(sizes.counts) if axis in names_in(text)]
    if len(inside) != 1 or names_in(sizes.counts[inside[0]]).count(axis) != 1:
        return None
    (k,) = inside
    others = other_factors(sizes.counts[k], axis)
    if not others:
        return None
    if counts != ([1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1])[k]:
        return None
    steps: list[str] = []
    places: list[str] = []
    for operand, has in enumerate(counts):
        step = times(_step(sizes, operand, k), others) if has else ""
        first = not any(axis in names_in(text) for text in sizes.strides[operand])
        steps.append(step)
        places.append("" if not has else "first" if first else "last" if step == ONE else "within")
    if "within" in places:
        return None
    return RowRole(k == 2, (steps[0], steps[1], steps[2]), (places[0], places[1], places[2]))


def _step(sizes: ProductSizes, operand: int, k: int) -> str:
    """The stride of an operand along the stack, the rows, the summed axis or the columns."""
    stack, lead = sizes.strides[operand]
    flips = (*sizes.flips, "0")
    axes = ((1, 2), (2, 3), (1, 3))[operand]  # its rows and its columns, among those four
    outer = axes[int(flips[operand])]
    return stack if k == 0 else lead if k == outer else ONE


def product_of_tile(call: Call, axis: str, role: RowRole, tile_local: Collection[str]) -> Call:
    """The product for the rows of one tile.

    Memory that is `tile_local` holds these rows only; in other memory they begin at the rows of the
    tile.
    """
    whole = product_sizes(call)
    sizes = [renamed(text, {axis: f"({END} - {BEGIN})"}) for text in whole.counts]
    begins: list[str] = []
    for k, (name, steps) in enumerate(zip(call.buffers, whole.strides, strict=True)):
        sizes += [renamed(text, {axis: BLOCK}) for text in steps] if name in tile_local else steps
        outside = role.steps[k] and name not in tile_local
        begins.append(times(BEGIN, role.steps[k]) if outside else "")
    return replace(call, sizes=(*sizes, *whole.flips), begins=tuple(begins))


def accumulated_product(call: Call, like: Temporary) -> tuple[Call, Nest, Nest]:
    """A product that sums over rows, for one tile: into memory of its own.

    Then nests that add this memory to the result, and that set the result to zero before all tiles.
    """
    some = f"{like.name}_some"
    part = replace(call, buffers=(*call.buffers[:2], some), comment=f"{some} = matmul")
    index, domain = identity(like.dims), nonunit(like.dims)
    value = f"v_{like.name}"
    load = Statement.load(value, Access(Buffer(some), like.dims, index))
    place = Access(Buffer(like.name), like.dims, index)
    text = Combiner.ADD.text(like.dtype)
    add = Statement(StatementKind.UPDATE, f"v_at_{like.name}", text, (value,), place, Combiner.ADD)
    zero = Statement.store((f"{NUMPY[like.dtype]}(0)",), place)
    return (
        part,
        Nest(domain, (load, add), (), f"{like.name} += {some}"),
        Nest(domain, (zero,), (), f"{like.name} = zeros"),
    )
