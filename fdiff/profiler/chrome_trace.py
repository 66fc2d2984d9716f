"""Events in the trace-event format, which chrome://tracing, Perfetto and Speedscope open.

The format is Google's "Trace Event Format" (Duca and Sinclair): an object with a list of events,
each with a phase `ph`. ``X`` is a complete event, from `ts` on for `dur`, both in microseconds;
``i`` an instant, ``C`` a counter, ``M`` names a process or a thread.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from .events import FunctionEvent


def trace_of(
    events: Sequence[FunctionEvent], threads: Mapping[int, str], *, memory: bool = False
) -> dict[str, object]:
    """The object that is written as JSON."""
    return {
        "traceEvents": [*_events(events, threads, memory=memory)],
        "displayTimeUnit": "ns",
        "otherData": {"producer": "fdiff.profiler"},
    }


def _events(
    events: Sequence[FunctionEvent], threads: Mapping[int, str], *, memory: bool
) -> Iterator[dict[str, object]]:
    pid = os.getpid()
    yield _named("process_name", "fdiff", pid, 0)
    for tid in dict.fromkeys(event.thread for event in events):
        yield _named("thread_name", threads.get(tid, f"thread {tid}"), pid, tid)
    held = 0
    for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
        yield _event(event, pid)
        if memory and event.self_cpu_memory_usage:
            held += event.self_cpu_memory_usage
            place = {"ts": event.time_range.end, "pid": pid, "tid": event.thread}
            yield {"name": "memory", "ph": "C", **place, "args": {"bytes": held}}


def _named(what: str, name: str, pid: int, tid: int) -> dict[str, object]:
    """An event that names a process or a thread."""
    return {"name": what, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}


def _event(event: FunctionEvent, pid: int) -> dict[str, object]:
    args = dict(event.args)
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
    if event.stack:
        args["Call stack"] = ";".join(event.stack)
    if event.self_cpu_memory_usage:
        args["Bytes"] = event.self_cpu_memory_usage
    begin, end = event.time_range
    place = {"pid": pid, "tid": event.thread, "cat": event.category, "args": args}
    if end > begin:
        return {"name": event.name, "ph": "X", "ts": begin, "dur": end - begin, **place}
    return {"name": event.name, "ph": "i", "s": "t", "ts": begin, **place}
