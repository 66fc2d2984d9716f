"""Index-set splitting: loops around a box that is left out, as loops over the boxes beside it.

The adjoint of a stencil gathers over the interior of an array, and a loop nest over all entries
that are not in the interior does the boundary (`fuse.stencil_adjoint`). One thread of a CPU jumps
over the interior. Threads that take iterations by number would each test whether an iteration is
inside, of all that there are; so here the boundary becomes boxes: below and above the interior
along the first axis, then, between these two, below and above it along the second axis, and so on.

R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, Morgan Kaufmann 2001,
section 5.7 (index-set splitting).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.loops import Item, LoopProgram, Nest, Ranges


def split_boundaries(program: LoopProgram) -> LoopProgram:
    """The program, in which each nest that leaves out a box is several nests over boxes."""
    if not any(isinstance(item, Nest) and item.excluded for item in program.items):
        return program
    items: list[Item] = []
    for item in program.items:
        items += _nests_over_boxes(item) if isinstance(item, Nest) and item.excluded else [item]
    return replace(program, items=tuple(items))


def _nests_over_boxes(nest: Nest) -> list[Nest]:
    """The nests over the boxes: sums go on from one to the next, and the last one stores them."""
    boxes = list(_boxes(nest))
    out: list[Nest] = []
    for k, ranges in enumerate(boxes):
        sums = [
            replace(
                a,
                identity=a.name if k else a.identity,
                final=a.final if k == len(boxes) - 1 else (),
            )
            for a in nest.accumulators
        ]
        out.append(replace(nest, excluded=(), ranges=ranges, accumulators=tuple(sums)))
    return out


def _boxes(nest: Nest) -> Iterator[Ranges]:
    """The ranges of the boxes. None has a negative size, not even where the interior is empty."""
    rank = len(nest.domain)
    inside: list[tuple[str, str] | None] = [None] * rank
    for k, bounds in enumerate(nest.excluded):
        if bounds is None:
            continue
        begin, end = bounds[0], f"max({bounds[0]}, {bounds[1]})"
        for beside in (("0", begin), (end, nest.domain[k])):
            yield (*inside[:k], beside, *[None] * (rank - k - 1))
        inside[k] = begin, end
