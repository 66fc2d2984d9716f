"""From a tape to an executable kernel: what is at hand, on disk, or has to be compiled.

Importing this does not import Numba; `load` does, when the first kernel is compiled or read from
disk. ``FDIFF_CACHE_DIR`` moves the disk cache, and ``FDIFF_CACHE_DIR=off`` switches it off. The
1,024 kernels used last stay in memory; one that is dropped lives on as long as something holds its
`Executable`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from types import ModuleType
from typing import NamedTuple

from ..tape import Tape
from . import cache
from .bones import Skeleton
from .calling import Executable, Kernel, bind, spare
from .emit import Source, patient
from .emit import emit as text_of
from .schedule import schedule as loops_of
from .skeleton import skeleton as skeleton_of
from .skeleton import supported as supported  # noqa: PLC0414 - for whoever asks `kernels`


class CacheInfo(NamedTuple):
    """Counters of this process: kernels compiled, read from disk, found in memory."""

    compiled: int
    loaded: int
    hits: int
    entries: int
    seconds: float


_MOST = 1024  # kernels in memory
_kernels: OrderedDict[Skeleton, Kernel] = OrderedDict()
_routines: dict[str, int] = {}
_lock = threading.RLock()
_count = {"compiled": 0, "loaded": 0, "hits": 0}
_spent = [0.0]


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - one lock for the module, another one for a child
    _lock = threading.RLock()


# A fork waits until no thread compiles: a child would inherit Numba's and LLVM's locks as they are.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _lock.acquire(),  # noqa: PLW0108 - the lock there is then
        after_in_parent=lambda: _lock.release(),  # noqa: PLW0108
        after_in_child=_renew_lock,
    )


def load() -> ModuleType:
    """The part that needs Numba."""
    from . import targets  # noqa: PLC0415 - the one place where Numba is loaded

    return targets


def started() -> bool:
    """Whether Numba is loaded."""
    return "fdiff.kernels.targets" in sys.modules


@lru_cache(maxsize=2048)
def _source(bones: Skeleton) -> Source:
    return text_of(loops_of(bones), bones)


def source(tape: Tape, layouts: tuple[str, ...]) -> str:
    """Text of the kernel of `tape`."""
    return _source(skeleton_of(tape, layouts)[0]).text


def predict_seconds(tape: Tape, layouts: tuple[str, ...]) -> float:
    """What compiling would take, Numba's own start apart; 0 if the kernel is at hand."""
    bones = skeleton_of(tape, layouts)[0]
    return 0.0 if bones in _kernels else _source(bones).seconds()


def on_disk(tape: Tape, layouts: tuple[str, ...]) -> bool:
    """Whether the kernel can be read from disk (or is loaded already)."""
    bones = skeleton_of(tape, layouts)[0]
    return bones in _kernels or cache.has(cache.name_of(_source(bones).text))


def cache_info() -> CacheInfo:
    """What the caches did in this process."""
    return CacheInfo(_count["compiled"], _count["loaded"], _count["hits"], len(_kernels), _spent[0])


def cache_clear(*, disk: bool = False) -> None:
    """Forget the kernels in memory, and on request those on disk."""
    for kernel in _kernels.values():
        load().forget(kernel.name)
    _kernels.clear()
    spare.clear()
    _source.cache_clear()
    _patient.cache_clear()
    if disk:
        cache.clear()


def compile(tape: Tape, layouts: tuple[str, ...]) -> Executable:  # noqa: A001 - the module is the namespace
    """The kernel of `tape` for inputs of these layouts (``"C"``, or ``"A"`` for any strides)."""
    bones, values = skeleton_of(tape, layouts)
    kernel = _kernels.get(bones)
    if kernel is None:
        with _lock:
            kernel = _kernels.get(bones) or _kernels.setdefault(bones, _make(bones))
            while len(_kernels) > _MOST:
                load().forget(_kernels.popitem(last=False)[1].name)
    else:
        _count["hits"] += 1
        with suppress(KeyError):  # another thread may just have dropped it
            _kernels.move_to_end(bones)
    return bind(kernel, tape, values)


def _make(bones: Skeleton) -> Kernel:
    made = _source(bones)
    addresses = tuple(_routine(name) for name in made.routines)
    name = cache.name_of(made.text)
    text = patient(made.text)
    again = None if text is None else partial(_patient, replace(made, text=text), bones)
    return Kernel(_obtain(made, bones, name), addresses, made.rooms, made.text, name, again)


@lru_cache(maxsize=64)
def _patient(made: Source, bones: Skeleton) -> Callable[..., int]:
    """The kernel for sines of huge arguments, compiled when the first is met."""
    with _lock:
        return _obtain(made, bones, cache.name_of(made.text))


def _obtain(made: Source, bones: Skeleton, name: str) -> Callable[..., int]:
    """The compiled text, from disk if it is there."""
    targets, text = load(), made.text
    payload = cache.read(name)
    result = None if payload is None else targets.load(payload, text, name)
    if result is not None:
        _count["loaded"] += 1
        return result.entry_point
    begin = time.perf_counter()
    signature = targets.signature_of(bones, workspace=bool(made.rooms))
    result = targets.compile_text(text, name, signature)
    _spent[0] += time.perf_counter() - begin
    _count["compiled"] += 1
    cache.write(name, targets.dump(result))
    return result.entry_point


def _routine(routine: str) -> int:
    """Address of a routine, compiled once a machine."""
    address = _routines.get(routine)
    if address is None:
        targets = load()
        name = cache.name_of(f"routine {routine}")
        payload = cache.read(name)
        result = None if payload is None else targets.load_routine(payload, name)
        if result is None:
            result = targets.compile_routine(routine)
            cache.write(name, targets.dump(result))
        address = _routines[routine] = targets.address_of(result)
    return address
