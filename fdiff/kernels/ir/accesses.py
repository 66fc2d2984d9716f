"""Accesses of loop programs to entries of memory."""

from __future__ import annotations

from ...named_tuples import NamedTuple
from .index_expressions import Axis, Dims, Index

# A row of memory: the dims that an access reads, which of them the row is along, and its position.
Row = tuple[Dims, int, Axis]


class Buffer(NamedTuple):
    """Memory by its name; `strides` are names of run-time strides, None where contiguous."""

    name: str
    strides: tuple[str, ...] | None = None


class Access(NamedTuple):
    """An entry of `buffer`, read as if it had the shape `dims`."""

    buffer: Buffer
    dims: Dims
    index: Index  # pyright: ignore[reportIncompatibleMethodOverride] - tuple.index is never used

    @property
    def injective_loops(self) -> frozenset[int]:
        """The loops of which no two iterations access the same entry.

        A position that counts a loop, by a step that is not zero, tells its iterations apart,
        whatever the other loops do. What is found at run time tells nothing.
        """
        variables = [axis.var for axis in self.index if axis.var >= 0]
        return frozenset(variables)

    def row_in(self, loop: int) -> Row | None:
        """The row of memory that iteration `loop` accesses; None if it is not in one row."""
        axes = [k for k, axis in enumerate(self.index) if axis.var == loop]
        if loop not in self.injective_loops or len(axes) != 1:
            return None
        return self.dims, axes[0], self.index[axes[0]]._replace(var=0)
