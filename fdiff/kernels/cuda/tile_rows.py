"""Rows of a tile in shared memory: read once, neighbouring threads neighbouring entries.

Nests of a tile loop read a matrix with one thread for each row: entries that neighbours read at the
same time are then a row apart. So the threads of a block copy all rows of a tile to shared memory
first, in the order in which they lie, and read them there.

NVIDIA, CUDA C++ Best Practices Guide, section 9.2.3 (shared memory).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..ir.indexing import Axis, size
from ..ir.loops import BEGIN, END, NUMPY, Nest, StatementKind, TileLoop
from .program import Numbers, evaluate

MOST_BYTES = 32 << 10  # of shared memory: a block has 48 KB, of which reductions take some


class TileRows(NamedTuple):
    """The rows of an array that a tile reads: how many entries each has, and all have at most."""

    name: str
    dtype: str
    entries: str
    most: int

    @property
    def first(self) -> str:
        """The number of the first entry of a tile."""
        return f"{BEGIN} * ({self.entries})"

    @property
    def declared(self) -> str:
        """The line that reserves shared memory."""
        return f"{staged_name(self.name)} = cuda.shared.array({self.most}, {NUMPY[self.dtype]})"

    @property
    def copied(self) -> list[str]:
        """The lines by which the threads of a block copy a tile."""
        return [
            "e = thread",
            f"while e < ({END} - {BEGIN}) * ({self.entries}):",
            f"    {staged_name(self.name)}[e] = {self.name}[{self.first} + e]",
            "    e = e + threads",
        ]


def staged_name(name: str) -> str:
    """What shared memory for rows of an array is called."""
    return f"{name}_rows"


def tile_rows(
    tiles: TileLoop, height: int, dtypes: Mapping[str, str], numbers: Numbers
) -> list[TileRows]:
    """The arrays whose rows a tile of so many rows copies, as far as shared memory goes."""
    nests = [item for item in tiles.items if isinstance(item, Nest)]
    written = {s.memory for nest in nests for s in nest.all_statements if s.writes}
    found: dict[str, str] = {}
    other = set[str](written)
    for nest in nests:
        for name, entries in _read_by_rows(nest, tiles):
            if not entries or found.setdefault(name, entries) != entries:
                other.add(name)
    out: list[TileRows] = []
    left = MOST_BYTES
    for name, entries in found.items():
        if name in other or dtypes[name] == "b1":
            continue
        most = 1 << (height * evaluate(entries, numbers) - 1).bit_length()
        nbytes = most * int(dtypes[name][1:])
        if nbytes <= left:
            out.append(TileRows(name, dtypes[name], entries, most))
            left -= nbytes
    return out


def _read_by_rows(nest: Nest, tiles: TileLoop) -> Iterable[tuple[str, str]]:
    """The arrays that a nest reads, with the entries of a row; empty if it is not read by rows."""
    rows = {k for k, r in enumerate(nest.ranges) if r == (BEGIN, END)}
    for s in nest.all_statements:
        if s.kind is StatementKind.CARRY:
            yield s.memory, ""
        if s.kind is not StatementKind.LOAD or s.access is None:
            continue
        dims, index = s.access.dims, s.access.index
        plain = s.access.buffer.strides is None and len(dims) > 1 and dims[0] == tiles.rows
        inside = plain and index[0].var in rows and index[0] == Axis(index[0].var)
        yield s.memory, size(dims[1:]) if inside else ""
