"""Traces that nvprof wrote: the ranges that `emit_nvtx` emitted, and the kernels inside them.

A file is data of others: it is opened for reading alone, of four tables rows are read and nothing
is computed by SQLite (no view, no function, no join), and what is in them is checked.
"""

from __future__ import annotations

import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from itertools import chain, repeat

from ..errors import InputError, failure, given_path
from ..foreign_errors import is_regular_file
from ..named_tuples import NamedTuple
from ..tracebacks import public
from .event_list import EventList
from .events import DeviceKernel, FunctionEvent, Interval

# The tables of nvprof, as CUPTI's activity records name them, and the columns that are read.
_PREFIX = "CUPTI_ACTIVITY_KIND_"
_COLUMNS = {
    "StringTable": ("_id_", "value"),
    f"{_PREFIX}MARKER": ("id", "name", "timestamp"),
    f"{_PREFIX}RUNTIME": ("correlationId", "start", "end"),
    f"{_PREFIX}CONCURRENT_KERNEL": ("correlationId", "name", "deviceId", "start", "end"),
}
_MOST_ROWS = 5_000_000  # of a table: what can be looked at
_STEPS, _MOST_TURNS = 100_000, 10_000  # SQLite's own steps, and how often it takes so many: seconds
_LONGEST = 1 << 20  # bytes of a name
_DEEPEST = 1000  # ranges inside each other


@public
def load_nvprof(path: str | os.PathLike[str]) -> EventList:
    """The events of a file that nvprof wrote: ``nvprof -o trace.prof python program.py``.

    Each NVTX range is an event. `kernels` lists the kernels that were launched in it, with their
    times on the device.

    Parameters
    ----------
    path : str or path-like
        An SQLite file with nvprof's tables.

    Returns
    -------
    EventList
        The events in the order of their begin, in microseconds. (torch's function of this name
        returns nvprof's nanoseconds as microseconds.)

    Raises
    ------
    InputError
        If there is no such file, or nvprof has not written it.

    References
    ----------
    ``torch.autograd.profiler.load_nvprof``.

    Examples
    --------
    >>> import fdiff.profiler
    >>> try:
    ...     fdiff.profiler.load_nvprof("trace.prof")
    ... except fdiff.errors.InputError as error:
    ...     print(str(error).splitlines()[0])
    load_nvprof: there is no file 'trace.prof'.
    """
    file = given_path(path, "path", "load_nvprof")
    if not is_regular_file(file):
        fact = f"there is no file {str(file)!r}."
        raise failure(InputError, "load_nvprof", fact, "Give the path of a file that nvprof wrote.")
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        ) as db:
            events = _events(_UntrustedFile(db))
    except (sqlite3.Error, UnicodeError, _BrokenFileError) as error:
        fact = f"{str(file)!r} is not a file of nvprof: {error}."
        way = "Write one by `nvprof -o FILE python PROGRAM`."
        raise failure(InputError, "load_nvprof", fact, way) from None
    return EventList(events, use_device="cuda")


class _BrokenFileError(Exception):
    """A file does not have the contents that nvprof writes."""


class _UntrustedFile:
    """The rows of the tables of an untrusted file."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        db.execute("PRAGMA trusted_schema = OFF")
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
        # SQLite asks after so many steps, and ends the query at a 1. What answers is written in C:
        # in Python, signals would be handled there, and what their handlers raise would be lost.
        db.set_progress_handler(chain(repeat(0, _MOST_TURNS), repeat(1)).__next__, _STEPS)
        tables = {*self._every("SELECT name, upper(substr(sql, 1, 13)) FROM sqlite_master")}
        for table, columns in _COLUMNS.items():
            plain = [row[1] for row in self._every(f"PRAGMA table_xinfo({table})") if not row[6]]
            if (table, "CREATE TABLE ") not in tables or not {*columns} <= {*plain}:
                raise _BrokenFileError(f"it has no table {table} with {' and '.join(columns)}")

    def _every(self, query: str) -> Iterator[tuple[object, ...]]:
        """The rows of a query, of which there may not be too many.

        Python handles signals between two of them.
        """
        for k, row in enumerate(self.db.execute(query)):
            if k == _MOST_ROWS:
                raise _BrokenFileError(f"a table has more than {_MOST_ROWS} rows")
            yield row

    def of(self, table: str) -> Iterator[tuple[int, ...]]:
        """The rows of a table of numbers."""
        columns = _COLUMNS[table]
        for row in self._every(f"SELECT {', '.join(columns)} FROM {table}"):  # noqa: S608 - names from above
            numbers: list[int] = []
            for name, value in zip(columns, row, strict=True):
                if type(value) is not int:
                    raise _BrokenFileError(f"{name} of {table} is {type(value).__name__}, not int")
                numbers.append(value)
            yield tuple(numbers)

    def names(self) -> dict[int, str]:
        """The table of strings."""
        rows = self._every("SELECT _id_, value FROM StringTable")
        return {key: str(text) for key, text in rows if isinstance(key, int)}


def _events(file: _UntrustedFile) -> list[FunctionEvent]:
    """An event for each range, in the order in which they began, with the kernels inside."""
    names = file.names()
    ranges = sorted(_ranges(file, names), key=lambda r: (r.begin, -r.end))
    _add_kernels(file, names, ranges)
    ordered = [r.event for r in ranges]
    _nest(ordered)
    return ordered


class _MarkedRange(NamedTuple):
    """A range and its event; the times are nanoseconds."""

    begin: int
    end: int
    event: FunctionEvent


def _ranges(file: _UntrustedFile, names: dict[int, str]) -> Iterator[_MarkedRange]:
    """The ranges: two markers of one number, of which only the first has a name."""
    begins: dict[int, tuple[int, int]] = {}
    ends: dict[int, int] = {}
    for marker, name, time in file.of(f"{_PREFIX}MARKER"):
        if marker in (begins if name else ends):
            raise _BrokenFileError(f"marker {marker} stands there twice")
        if name:
            begins[marker] = name, time
        else:
            ends[marker] = time
    for marker, (name, begin) in begins.items():
        end = ends.get(marker)
        if end is None:  # the program ended in it
            continue
        if name not in names or end < begin:
            raise _BrokenFileError(f"marker {marker} has no name, or ends before it begins")
        interval = Interval(begin / 1e3, end / 1e3)
        event = FunctionEvent(marker, names[name], 0, interval, use_device="cuda")
        yield _MarkedRange(begin, end, event)


def _add_kernels(file: _UntrustedFile, names: dict[int, str], ranges: list[_MarkedRange]) -> None:
    """Give each kernel to the shortest range in which the call that launched it lies."""
    launched: dict[int, list[DeviceKernel]] = {}
    for call, name, device, begin, end in file.of(f"{_PREFIX}CONCURRENT_KERNEL"):
        kernel = DeviceKernel(names.get(name, str(name)), device, (end - begin) / 1e3)
        launched.setdefault(call, []).append(kernel)
    calls = [(begin, end, call) for call, begin, end in file.of(f"{_PREFIX}RUNTIME")]
    coming, around = deque(ranges), list[_MarkedRange]()
    for begin, end, call in sorted(calls):
        if call not in launched:
            continue
        while coming and coming[0].begin < begin:
            around.append(coming.popleft())
        around = [r for r in around if r.end > begin]
        _check_depth(len(around))
        if inside := [r for r in around if r.end > end]:
            shortest = min(inside, key=lambda r: r.end - r.begin)
            shortest.event.kernels += launched[call]


def _check_depth(count: int) -> None:
    if count > _DEEPEST:
        raise _BrokenFileError(f"more than {_DEEPEST} ranges are inside each other")


def _nest(ordered: list[FunctionEvent]) -> None:
    """Make each event the child of the innermost one that it lies in."""
    around: list[FunctionEvent] = []
    for event in ordered:
        while around and event.time_range.end > around[-1].time_range.end:
            around.pop()
        if around:
            event.cpu_parent = around[-1]
            around[-1].cpu_children.append(event)
        around.append(event)
        _check_depth(len(around))
