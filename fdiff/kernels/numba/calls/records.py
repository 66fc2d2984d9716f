"""Records: kernels at certain sizes, as machine words that code of Numba reads.

All records of one call layout are in a hash table, by the sizes of the arguments and the values of
its integers. Machine code walks the table without a lock: a record is complete before it is linked,
stays where it is, and its successor in a chain is always an older one. Nothing is freed while the
table is alive, and code that has its address holds it.

While anomalies are looked for, machine code finds an empty table: it asks Python at each call,
which looks for them and says which record to use.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from ....bounded_cache import WeakValues
from ....named_tuples import NamedTuple
from ....process import anomaly_watch
from ....process.forking import no_fork
from ....process.interrupt_safe_locks import TurnLock
from ...executable import BareKernel
from .call_layout import (
    ArrayArgument,
    CallLayout,
    Number,
    NumberArgument,
    Result,
    ValueArgument,
)

HEADER = (
    "NEXT", "TOTAL", "WORK", "WORK_AT", "KERNEL", "BY_LIBM", "STRIDES", "INTS", "FLOATS", "FIXED",
    "FIXED_COUNT", "PINS", "PIN_COUNT", "GUARD", "TWINS", "TWIN_COUNT", "C_ORDER",
)  # fmt: skip
OFFSETS = {name: k for k, name in enumerate(HEADER)}
NONE = -1  # in place of a position
LINE = 64  # bytes to which a workspace is aligned
STACK = 4096  # bytes that a call has on the stack
_FIRST = 8  # chains of a new table
MULTIPLIERS = tuple(  # odd, of the hash
    (0x9E3779B97F4A7C15 * (2 * k + 1) | 1) % (1 << 63) for k in range(64)
)
_lock = TurnLock()
_tables: WeakValues[int, RecordTable] = WeakValues()
_watching = [False]  # whether anomalies are looked for, as the tables know
_EMPTY = np.zeros(2, np.int64)  # one chain without a record


class WordMap(NamedTuple):
    """Where the words of a record are that follow its header, by leaf.

    `key` are what records are looked up by; `read` and `place` are the positions of arguments and
    of results among the addresses that the kernel is given. Of a result there are its sizes, too,
    or its value. From `bytes` on are the bytes of all these, in order.
    """

    key: tuple[tuple[int, int, int], ...]  # the word, the leaf, the axis (-1: the leaf's value)
    read: dict[int, int]
    place: dict[int, int]
    sizes: dict[int, tuple[int, ...]]
    value: dict[int, int]
    bytes: int
    length: int


def word_map(layout: CallLayout) -> WordMap:
    """The words of the records of a layout."""
    words = iter(range(len(HEADER), 1 << 20))
    key: list[tuple[int, int, int]] = []
    for k, entry in enumerate(layout.given):
        if isinstance(entry, ArrayArgument):
            key += [(next(words), k, axis) for axis in range(entry.rank)]
        elif not isinstance(entry, NumberArgument):
            key.append((next(words), k, -1))
    traced = [k for k, entry in enumerate(layout.given) if hasattr(entry, "read")]
    outputs = {k: entry for k, entry in enumerate(layout.made) if isinstance(entry, Result)}
    numbers = [k for k, entry in enumerate(layout.made) if isinstance(entry, Number)]
    return WordMap(
        tuple(key),
        {k: next(words) for k in traced},
        {k: next(words) for k in outputs},
        {k: tuple([next(words) for _ in range(entry.rank)]) for k, entry in outputs.items()},
        {k: next(words) for k in numbers},
        first := next(words),
        first + len(traced) + len(outputs) + len(numbers),
    )


class KernelRecord(NamedTuple):
    """The contents of a record.

    `key` are sizes and values in the order of the words; `sources` say for each input of the
    kernel which leaf it is, or are the array; `outputs` which output of the kernel each leaf of the
    result is, or its number. `pins` are inputs with the bytes that they must have, `guard` is the
    output that must be true. With `c_order`, all arrays must be contiguous as they are given.
    """

    key: tuple[int, ...]
    kernel: BareKernel
    sources: tuple[int | np.ndarray, ...]
    outputs: tuple[object, ...]
    pins: tuple[tuple[int, bytes], ...] = ()
    guard: int | None = None
    c_order: bool = False
    held: object = None

    @property
    def conditional(self) -> bool:
        """Whether calls with this key may need another record."""
        return bool(self.pins) or self.guard is not None


# Where results are: in new memory; or in the caller's, where what overlaps goes through other
# memory, or is refused.
NEW, COPIED, REFUSED = range(3)


class RecordCaller(NamedTuple):
    """The code that calls records of a table (`kernels.record_calls`), and its call data."""

    records: RecordTable
    code: int
    words: np.ndarray


class RecordTable:
    """The records of one layout, of calls of `name`. `cell` holds the address of its chains.

    Calls of a table that is not `watched` never ask, whatever Python looks for.
    """

    def __init__(self, layout: CallLayout, *, watched: bool = True) -> None:
        self.words = word_map(layout)
        self._layout = layout
        self.name = layout.name
        self.cell = np.zeros(1, np.int64)
        self._records: list[np.ndarray] = []
        self._held: list[object] = []
        self._known: dict[tuple[int, ...], list[tuple[object, int]]] = {}
        self._by_address: dict[int, KernelRecord] = {}
        self._words: dict[int, np.ndarray] = {}
        self._watched = watched
        self._chains(_FIRST)
        with no_fork, _lock:
            _tables[id(self)] = self

    def __len__(self) -> int:
        return len(self._records)

    def find(self, key: tuple[int, ...], identity: object = None) -> int:
        """The address of the record of a key, and of this trace if there may be several; or 0."""
        for owner, address in self._known.get(key, ()):
            if owner is None or owner is identity:
                return address
        return 0

    def add(self, record: KernelRecord, identity: object) -> int:
        """Add a record; its address, or the address of an equal one. `identity` is its trace."""
        with no_fork, _lock:
            entered = self.find(record.key, identity)
            if entered:
                return entered
            words = self._encode(record)
            address = int(words.ctypes.data)
            self._records.append(words)
            self._words[address] = words
            self._by_address[address] = record
            if len(self._records) > 2 * self._count:
                self._chains(4 * self._count)
            else:
                self._link(words)
            kept = identity if record.conditional else None
            self._known.setdefault(record.key, []).append((kept, address))
            return address

    def paths(self, key: tuple[int, ...]) -> int:
        """How many records a key has."""
        return len(self._known.get(key, ()))

    def by_libm(self, address: int) -> int:
        """The kernel for arguments that are out of range; 0 if it is not noted yet."""
        return int(self._words[address][OFFSETS["BY_LIBM"]])

    def record_at(self, address: int) -> KernelRecord:
        """The contents of the record at an address."""
        return self._by_address[address]

    def set_by_libm(self, address: int, code: int) -> None:
        """Note the kernel for arguments that are out of range."""
        self._words[address][OFFSETS["BY_LIBM"]] = code

    def _chains(self, count: int) -> None:
        """New chains, with every record in them, the oldest last."""
        heads = np.zeros(1 + count, np.int64)
        heads[0] = count - 1
        self._count, self._heads = count, heads
        self._held.append(heads)
        for words in self._records:
            self._link(words)
        self.publish()

    def publish(self) -> None:
        """Show machine code the chains, or none while Python is to be asked."""
        asked = self._watched and _watching[0]
        self.cell[0] = (_EMPTY if asked else self._heads).ctypes.data

    def _link(self, words: np.ndarray) -> None:
        key = [int(words[word]) for word, _, _ in self.words.key]
        place = 1 + (hash_of(key) & (self._count - 1))
        words[OFFSETS["NEXT"]] = self._heads[place]
        self._heads[place] = words.ctypes.data

    def _encode(self, record: KernelRecord) -> np.ndarray:
        """The words of a record."""
        bound, inputs, outputs, _ = record.kernel
        first = len(inputs) + len(bound.constants)
        work_at = first + len(outputs)
        count = work_at + 2  # the last place is for addresses of which nobody asks
        begin = -(-8 * count // LINE) * LINE
        fixed, strides = self._fixed(record)
        pins = self._pins(record)
        header = dict.fromkeys(HEADER, 0) | {
            "TOTAL": begin + bound.size, "WORK": begin, "WORK_AT": work_at,
            "KERNEL": bound.address, "STRIDES": strides, "INTS": bound.ints.ctypes.data,
            "FLOATS": bound.floats.ctypes.data, "FIXED": self._array(fixed),
            "FIXED_COUNT": len(fixed) // 3, "PINS": self._array(pins), "PIN_COUNT": len(pins) // 3,
            "GUARD": NONE if record.guard is None else first + record.guard,
            "C_ORDER": record.c_order,
        }  # fmt: skip
        words = np.zeros(self.words.length, np.int64)
        words[: len(HEADER)] = list(header.values())
        for (word, _, _), value in zip(self.words.key, record.key, strict=True):
            words[word] = value
        for leaf, word in self.words.read.items():
            at = [k for k, s in enumerate(record.sources) if type(s) is int and s == leaf]
            words[word] = at[0] if at else count - 1
        twins = self._outputs(record, words, first)
        words[OFFSETS["TWINS"]], words[OFFSETS["TWIN_COUNT"]] = self._array(twins), len(twins) // 2
        words[self.words.bytes :] = [*self._bytes(words)]
        self._held += [record, bound.owner]
        return words

    def _outputs(self, record: KernelRecord, words: np.ndarray, first: int) -> list[int]:
        """Fill in the words of the results; those that are copies, by address, and of what."""
        at, twins = set[int](), list[int]()
        spare = first + len(record.kernel.made) + 1
        for leaf, result in enumerate(self._layout.made):
            output = record.outputs[leaf]
            if isinstance(result, Number):
                bits = np.array([output], float if result.kind is float else np.int64)
                words[self.words.value[leaf]] = bits.view(np.int64)[0]
                continue
            assert isinstance(output, int), "an output of the kernel is known by its number"
            words[list(self.words.sizes[leaf])] = record.kernel.made[output][0]
            words[self.words.place[leaf]] = spare if output in at else first + output
            if output in at:
                twins += [len(self.words.read) + [*self.words.place].index(leaf), first + output]
            at |= {output}
        return twins

    def _bytes(self, words: np.ndarray) -> Iterator[int]:
        """The bytes of the arguments that the kernel reads, of its outputs, and of constants."""
        for leaf in self.words.read:
            argument = self._layout.given[leaf]
            assert not isinstance(argument, ValueArgument), "which no kernel reads"
            sizes = [word for word, of, _ in self.words.key if of == leaf]
            yield int(np.prod(words[sizes])) * argument.read.itemsize
        outputs = [r for r in self._layout.made if isinstance(r, Result)]
        constants = [r for r in self._layout.made if isinstance(r, Number)]
        for sizes, result in zip(self.words.sizes.values(), outputs, strict=True):
            yield int(np.prod(words[list(sizes)])) * result.dtype.itemsize
        yield from (1 if number.kind is bool else 8 for number in constants)

    def _fixed(self, record: KernelRecord) -> tuple[list[int], int]:
        """Addresses that are the same in every call: position, address, bytes; and the strides."""
        bound, inputs, outputs, _ = record.kernel
        fixed: list[int] = []
        strides: list[int] = []
        for k, (source, entry) in enumerate(zip(record.sources, inputs, strict=True)):
            if isinstance(source, np.ndarray):
                self._hold_in_place(source)
                low, high = np.lib.array_utils.byte_bounds(source)
                if entry.strided:
                    strides += [s // source.itemsize for s in source.strides]
                    fixed += [k, source.ctypes.data, high - source.ctypes.data]
                else:
                    fixed += [k, low, high - low]
        for k, constant in enumerate(bound.constants):
            fixed += [len(inputs) + k, constant.ctypes.data, 0]
        pairs = zip(record.outputs, self._layout.made, strict=True)
        used = {output for output, entry in pairs if isinstance(entry, Result)}
        for output in set(range(len(outputs))) - used - {record.guard}:
            shape, dtype = outputs[output]
            room = np.empty(shape, dtype)  # nobody reads it
            self._held.append(room)
            fixed += [len(inputs) + len(bound.constants) + output, room.ctypes.data, 0]
        return fixed, self._array(strides)

    def _hold_in_place(self, array: object) -> None:
        """Have NumPy refuse to resize an array whose address is in a record, and those it views.

        It does not move an array that has a weak reference, whatever ``refcheck`` says.
        """
        while isinstance(array, np.ndarray):
            self._held.append(weakref.ref(array))
            array = array.base

    def _pins(self, record: KernelRecord) -> list[int]:
        """Position of an input, and the address and number of the bytes that it must have."""
        pins: list[int] = []
        for k, seen in record.pins:
            copy = np.frombuffer(seen, np.uint8)
            self._held.append(copy)
            pins += [k, copy.ctypes.data, len(seen)]
        return pins

    def _array(self, values: Sequence[int]) -> int:
        """The address of these words."""
        array = np.array(values or [0], np.int64)
        self._held.append(array)
        return int(array.ctypes.data)


def hash_of(key: Sequence[int]) -> int:
    """The hash of a key, as machine code computes it."""
    total = sum(m * v for m, v in zip(MULTIPLIERS, key, strict=False))
    return (total & (1 << 64) - 1) >> 32


def as_word(value: int) -> int:
    """An integer as a machine word, which wraps."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _publish_all(watching: bool) -> None:  # noqa: FBT001 - as listeners are called
    _watching[0] = watching
    with no_fork, _lock:
        for table in _tables.values():
            table.publish()


anomaly_watch.listeners.append(_publish_all)
