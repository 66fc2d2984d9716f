"""Traces that nvprof wrote: the ranges that `emit_nvtx` emitted, and the kernels inside them."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing

from ..errors import InputError, failure, given_path
from ..tracebacks import public
from .event_list import EventList
from .events import DeviceKernel, FunctionEvent, Interval

# The tables of nvprof, as CUPTI's activity records name them. A range is two markers of one number,
# of which only the first has a name; the times are nanoseconds.
_RANGES = """
SELECT start.id AS marker, start.name AS name, start.timestamp AS begin, finish.timestamp AS end
FROM CUPTI_ACTIVITY_KIND_MARKER AS start
INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS finish ON start.id = finish.id
WHERE start.name != 0 AND finish.name = 0
"""
# A kernel belongs to the ranges in which the call of CUDA's runtime that launched it lies.
_KERNELS = """
SELECT start.id AS marker, runtime._id_ AS runtime, kernel.start AS begin, kernel.end AS end,
    kernel.name AS name, kernel.deviceId AS device
FROM CUPTI_ACTIVITY_KIND_MARKER AS start
INNER JOIN CUPTI_ACTIVITY_KIND_MARKER AS finish ON start.id = finish.id
INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS runtime
    ON (start.timestamp < runtime.start AND runtime.end < finish.timestamp)
INNER JOIN CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL AS kernel
    ON kernel.correlationId = runtime.correlationId
WHERE start.name != 0 AND finish.name = 0
"""


@public
def load_nvprof(path: str | os.PathLike[str]) -> EventList:
    """The events of a file that nvprof wrote: ``nvprof -o trace.prof python program.py``.

    Each NVTX range is an event; the kernels that were launched in it are its `kernels`, and their
    times those of the device.

    Parameters
    ----------
    path : str or path-like
        An SQLite file with nvprof's tables.

    Returns
    -------
    EventList
        The events in the order in which they began, in microseconds. (torch's function of this
        name gives nvprof's nanoseconds as microseconds.)

    Raises
    ------
    InputError
        If there is no such file, or it is not one of nvprof's.

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
    if not file.is_file():
        fact = f"there is no file {str(file)!r}."
        raise failure(InputError, "load_nvprof", fact, "Give the path of a file that nvprof wrote.")
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as found:
        found.row_factory = sqlite3.Row
        try:
            events = {event.id: event for event in _ranges(found)}
            _add_kernels(found, events)
        except sqlite3.DatabaseError as error:
            fact = f"{str(file)!r} is no file of nvprof: {error}."
            way = "Write one by `nvprof -o FILE python PROGRAM`."
            raise failure(InputError, "load_nvprof", fact, way) from None
    ordered = sorted(events.values(), key=lambda e: (e.time_range.start, -e.time_range.end))
    _nest(ordered)
    return EventList(ordered, use_device="cuda")


def _strings(found: sqlite3.Connection) -> dict[int, str]:
    return {row[0]: row[1] for row in found.execute("SELECT _id_, value FROM StringTable")}


def _ranges(found: sqlite3.Connection) -> Iterator[FunctionEvent]:
    """An event for each range; two of one number would be a broken file."""
    names, seen = _strings(found), set[int]()
    for row in found.execute(_RANGES):
        if row["marker"] in seen:
            raise sqlite3.DatabaseError(f"marker {row['marker']} stands there twice")
        seen.add(row["marker"])
        interval = Interval(row["begin"] / 1e3, row["end"] / 1e3)
        yield FunctionEvent(row["marker"], names[row["name"]], 0, interval, use_device="cuda")


def _add_kernels(found: sqlite3.Connection, events: dict[int, FunctionEvent]) -> None:
    """Give each kernel to the innermost range that launched it."""
    names = _strings(found)
    launched: dict[int, list[sqlite3.Row]] = {}
    for row in found.execute(_KERNELS):
        launched.setdefault(row["runtime"], []).append(row)
    for rows in launched.values():
        row = min(rows, key=lambda r: events[r["marker"]].time_range.elapsed_us())
        name = names.get(row["name"], str(row["name"]))
        kernel = DeviceKernel(name, row["device"], (row["end"] - row["begin"]) / 1e3)
        events[row["marker"]].kernels.append(kernel)


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
