"""Shared memory of a tile loop: rows that it reads, and temporaries of its own.

Nests of a tile loop read a matrix with one thread for each row: what neighbours read at the same
time then has the stride of a row. So the threads of a block copy all rows of a tile to shared
memory first, in the order in which they lie, and read them there. Temporaries that one nest leaves
to the next lie there as well, as far as there is room.

NVIDIA, CUDA C++ Best Practices Guide, section 9.2.3 (shared memory).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ....named_tuples import NamedTuple
from ...ir.index_expressions import Axis, size
from ...ir.loops import BEGIN, BLOCK, END, NUMPY, Call, Nest, StatementKind, Temporary, TileLoop
from ..cuda_program import Numbers, evaluate
from ..devices.launch_sizes import Tuning

BYTES = 48 << 10  # of shared memory, which each block has
MOST_BYTES = 44 << 10  # of rows and temporaries
REDUCTION = 256  # bytes that the threads of a block exchange values through, at each place


class TileRows(NamedTuple):
    """The rows of an array that a tile reads.

    A row has `entries`, a text, which is `length` for the sizes of this program; in shared memory
    there is room for `most` entries of all rows. If there is a `gap`, a row is followed by an entry
    that nothing reads: threads that read a column of rows with an odd stride read different banks.
    """

    name: str
    dtype: str
    entries: str
    gap: bool
    length: int
    most: int

    @property
    def stride(self) -> str:
        """From the begin of a row to the begin of the next, in entries."""
        return f"{self.entries} + 1" if self.gap else self.entries

    @property
    def declared(self) -> str:
        """The line that reserves shared memory."""
        return f"{staged_name(self.name)} = cuda.shared.array({self.most}, {NUMPY[self.dtype]})"

    @property
    def copied(self) -> list[str]:
        """The lines by which the threads of a block copy a tile.

        The row of an entry is found by a product and a shift: to divide would take longer than to
        copy, and entries of a tile have small numbers (`_reciprocal`).
        """
        row = f"((e * {_reciprocal(self.length)}) >> {_BITS})"
        place = f"e + {row}" if self.gap else "e"
        return [
            "e = thread",
            f"while e < ({END} - {BEGIN}) * ({self.entries}):",
            f"    {staged_name(self.name)}[{place}] = {self.name}[{BEGIN} * ({self.entries}) + e]",
            "    e = e + threads",
        ]


_BITS, _LONGEST = 30, 1 << 15


def _reciprocal(n: int) -> int:
    """The factor of ``e`` for which the product's bits from `_BITS` on are ``e // n``.

    Exact for all entries ``e`` of a tile: ``e * n`` is below ``2**_BITS``.
    """
    return (1 << _BITS) // n + 1


def staged_name(name: str) -> str:
    """The name of the shared memory for rows of an array."""
    return f"{name}_rows"


class SharedRows:
    """Rows and temporaries that tiles of a loop may keep in shared memory.

    Memory that is updated atomically (`atomic`) stays where it is. Each of the `reductions` by all
    threads of a block needs some shared memory, too.
    """

    def __init__(
        self,
        tiles: TileLoop,
        temporaries: Sequence[Temporary],
        dtypes: Mapping[str, str],
        numbers: Numbers,
        atomic: frozenset[str],
        reductions: int,
    ) -> None:
        self._dtypes, self._numbers = dtypes, numbers
        self._room = min(MOST_BYTES, BYTES - REDUCTION * reductions)
        self._rows = _read_by_whole_rows(tiles, dtypes)
        self._all = temporaries
        self._temporaries = [t for t in temporaries if t.name not in atomic and _is_plain(t, tiles)]

    def height(self, least: int, tuning: Tuning) -> int:
        """How many rows a tile has at most.

        Enough for all threads of a block in the nest that does the `least` for a row, as long as
        shared memory would have room for all that a tile has: what is more fills the cache.
        """
        rows = sum(
            self._bytes(e, self._dtypes[n]) + self._gap(e) * _itemsize(self._dtypes[n])
            for n, e in self._rows.items()
        )
        own = sum(self._bytes(self._of_row(t), t.dtype) for t in self._all if BLOCK in t.dims)
        room = self._room // max(1, rows + own)
        wanted = min(tuning.threads // least, room)
        return max(tuning.tile_rows, wanted // tuning.tile_rows * tuning.tile_rows)

    def kept(self, height: int) -> tuple[list[TileRows], dict[str, int]]:
        """The rows that tiles of `height` rows read, and the entries of their temporaries."""
        read: list[TileRows] = []
        kept: dict[str, int] = {}
        left = self._room
        for name, entries in self._rows.items():
            gap, length = self._gap(entries), evaluate(entries, self._numbers)
            most = height * (length + gap)
            nbytes = most * _itemsize(self._dtypes[name])
            if 0 < length < _LONGEST and nbytes <= left:
                read.append(TileRows(name, self._dtypes[name], entries, gap, length, most))
                left -= nbytes
        for t in sorted(self._temporaries, key=lambda t: self._bytes(self._of_row(t), t.dtype)):
            most = height * max(1, evaluate(self._of_row(t), self._numbers))
            if most * _itemsize(t.dtype) <= left:
                kept[t.name] = most
                left -= most * _itemsize(t.dtype)
        return read, kept

    def _gap(self, entries: str) -> bool:
        return evaluate(entries, self._numbers) % 2 == 0

    def _of_row(self, t: Temporary) -> str:
        return size(tuple(d for d in t.dims if d != BLOCK))

    def _bytes(self, entries: str, dtype: str) -> int:
        return evaluate(entries, self._numbers) * _itemsize(dtype)


def _itemsize(dtype: str) -> int:
    return int(dtype[1:])


def _is_plain(t: Temporary, tiles: TileLoop) -> bool:
    """Whether nests alone use a temporary with rows."""
    called = {b for item in tiles.items if isinstance(item, Call) for b in item.buffers}
    nests = [item for item in tiles.items if isinstance(item, Nest)]
    carried = {
        s.memory for nest in nests for s in nest.all_statements if s.kind is StatementKind.CARRY
    }
    return t.dims.count(BLOCK) == 1 and t.dtype != "b1" and t.name not in called | carried


def _read_by_whole_rows(tiles: TileLoop, dtypes: Mapping[str, str]) -> dict[str, str]:
    """The arrays that all nests read by whole rows, with the entries of a row."""
    nests = [item for item in tiles.items if isinstance(item, Nest)]
    written = {s.memory for nest in nests for s in nest.all_statements if s.writes}
    written |= {b for item in tiles.items if isinstance(item, Call) for b in item.written}
    entries_of: dict[str, str] = {}
    other = set[str](written)
    for nest in nests:
        for name, entries in _read_by_rows(nest, tiles):
            if not entries or entries_of.setdefault(name, entries) != entries:
                other.add(name)
    return {n: e for n, e in entries_of.items() if n not in other and dtypes[n] != "b1"}


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
