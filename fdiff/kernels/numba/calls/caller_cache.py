"""``@njit(cache=True)`` on code that calls a kernel: a warning of fdiff's, and nothing on disk.

Machine code with the addresses of records is good in this process alone. Numba would not keep it
either, and says that it "uses dynamic globals". It tells whoever asks when a function is compiled,
just before it would write the file. (For `numba.cfunc` it does not; there its own words remain.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import event
from numba.core.caching import NullCache
from numba.core.errors import NumbaWarning

from ....errors import warn
from .intrinsics import HeldObject, objects_of
from .records import RecordCaller


class _CallerCache(event.Listener):
    """Switches the cache of a function off whose code calls a kernel, and warns."""

    def on_start(self, event: object) -> None:
        pass

    def on_end(self, event: Any) -> None:
        dispatcher, args = event.data["dispatcher"], tuple(event.data["args"])
        if isinstance(getattr(dispatcher, "_cache", None), NullCache | None):
            return
        compiled = dispatcher.overloads.get(args)  # there is none where compiling failed
        names = dict.fromkeys(_called(compiled.library)) if compiled is not None else {}
        if not names:
            return
        dispatcher._cache = NullCache()
        code = dispatcher.py_func.__code__
        fact = f"Numba does not keep {dispatcher.py_func.__name__} on disk (cache=True): it calls"
        fact += f" {', '.join(names)}, whose kernels have addresses in this process."
        way = "Leave cache=True out there; fdiff keeps the kernels themselves on disk."
        warn(f"njit: {fact} {way}", NumbaWarning, (code.co_filename, code.co_firstlineno))


def _called(library: Any) -> Iterator[str]:
    """The derivatives that machine code calls, itself or in functions that it was linked with."""
    for held in objects_of(library):
        if isinstance(held, HeldObject) and isinstance(held.value, RecordCaller):
            yield held.value.records.name
    for linked in library._linking_libraries:
        yield from _called(linked)


def watch() -> None:
    """Have Numba tell of each function that it has compiled."""
    event.register("numba:compile", _CallerCache())
