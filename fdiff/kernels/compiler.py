"""From a tape to an executable kernel: what is at hand, on disk, or has to be compiled.

Importing this does not import LLVM, which is loaded with the first kernel. ``FDIFF_CACHE_DIR``
moves the disk cache, and ``FDIFF_CACHE_DIR=off`` switches it off. The 1,024 kernels used last stay
in memory; one that is dropped lives on as long as something holds its `Executable`.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, NamedTuple, cast

from ..collector import collector_paused
from ..errors import TapeError
from ..tape import Tape
from . import cache
from .bones import Skeleton
from .crew import Code, pool
from .routines import text_of as text_of_routine
from .runtime import crew as crewing
from .runtime.blas import table
from .skeleton import missing as missing  # noqa: PLC0414 - for whoever asks `kernels`
from .skeleton import skeleton as skeleton_of
from .skeleton import supported as supported  # noqa: PLC0414 - for whoever asks `kernels`
from .sources import Source, elementary, has_steps, patient
from .texts import Chosen, chosen, forget, keep, kept

if TYPE_CHECKING:
    from .calling import Executable, Kernel
    from .native.machine import Loaded


class CacheInfo(NamedTuple):
    """Counters of this process: kernels compiled, read from disk, found in memory."""

    compiled: int
    loaded: int
    hits: int
    entries: int
    seconds: float


_MOST = 1024  # kernels in memory
_Key = tuple[Skeleton, str]
_kernels: OrderedDict[_Key, Kernel] = OrderedDict()
_resident: list[Loaded] = []
_lock = threading.RLock()
_count = {"compiled": 0, "loaded": 0, "hits": 0}
_spent = [0.0]


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - one lock for the module, another one for a child
    _lock = threading.RLock()


# A fork waits until no thread compiles: a child would inherit LLVM's lock as it is.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lambda: _lock.acquire(),  # noqa: PLW0108 - the lock there is then
        after_in_parent=lambda: _lock.release(),  # noqa: PLW0108 - as above
        after_in_child=_renew_lock,
    )


def started() -> bool:
    """Whether LLVM is loaded."""
    return f"{__package__}.native.machine" in sys.modules


def _key(bones: Skeleton, made: Source) -> _Key:
    """What a kernel is kept under: which loops are shared shows in the text alone."""
    return bones, made.text if made.shared else ""


def source(tape: Tape, layouts: tuple[str, ...]) -> str:
    """Text of the kernel of `tape`."""
    return chosen(*skeleton_of(tape, layouts)).source.text


def predict_seconds(tape: Tape, layouts: tuple[str, ...]) -> float:
    """What compiling would take, LLVM's own start apart; 0 if the kernel is at hand."""
    bones, values = skeleton_of(tape, layouts)
    made = chosen(bones, values).source
    return 0.0 if _key(bones, made) in _kernels else made.seconds()


def on_disk(tape: Tape, layouts: tuple[str, ...]) -> bool:
    """Whether the kernel can be read from disk (or is loaded already): nothing is made to tell."""
    bones, values = skeleton_of(tape, layouts)
    if (bones, "") not in _kernels and not kept(bones):
        return False
    made = chosen(bones, values).source
    return _key(bones, made) in _kernels or cache.has(cache.name_of(made.text))


def cache_info() -> CacheInfo:
    """What the caches did in this process."""
    return CacheInfo(_count["compiled"], _count["loaded"], _count["hits"], len(_kernels), _spent[0])


def cache_clear(*, disk: bool = False) -> None:
    """Forget the kernels in memory, and on request those on disk."""
    _kernels.clear()
    if started():
        from .calling import release_spare  # noqa: PLC0415 - it needs LLVM

        release_spare()
    forget()
    _patient.cache_clear()
    if disk:
        cache.clear()


def compile(tape: Tape, layouts: tuple[str, ...]) -> Executable:  # noqa: A001 - the module is the namespace
    """The kernel of `tape` for inputs of these layouts (``"C"``, or ``"A"`` for any strides)."""
    from .calling import Executable  # noqa: PLC0415 - this is where LLVM is loaded

    bones, values = skeleton_of(tape, layouts)
    choice = chosen(bones, values)
    made = choice.source
    key = _key(bones, made)
    kernel = _kernels.get(key)
    if kernel is None:
        if lacking := missing(tape):
            raise TapeError(f"a kernel was asked for that cannot be made: no {', '.join(lacking)}")
        with _lock:
            kernel = _kernels.get(key) or _kernels.setdefault(key, _make(bones, choice, layouts))
            while len(_kernels) > _MOST:
                _kernels.popitem(last=False)
    else:
        _count["hits"] += 1
        with suppress(KeyError):  # another thread may just have dropped it
            _kernels.move_to_end(key)
    return Executable(kernel, tape, values, choice.parts)


def _make(bones: Skeleton, choice: Chosen, layouts: tuple[str, ...]) -> Kernel:
    from .calling import Kernel  # noqa: PLC0415 - LLVM is loaded with the first kernel
    from .native.entrance import text as calling  # noqa: PLC0415 - LLVM is loaded with the first kernel

    made = choice.source
    addresses = _addresses(made.routines, shared=made.shared)
    again = None if patient(made.text) is None else partial(_patient, made.text)
    code = _obtain(made.text)
    keep(bones, choice)
    call = _function(calling(full=False))
    run = _crew() if made.shared else 0
    return Kernel(code, addresses, made.rooms, made.text, layouts, again, call, run)


def _crew() -> int:
    """The function by which several threads run a kernel; they start with the first such."""
    texts = (crewing.PART, crewing.WAIT, crewing.GRAB, crewing.SERVE, crewing.RUN)
    code = Code(*map(_function, texts))
    pool.ready(code)
    return code.run


@lru_cache(maxsize=64)
def _patient(text: str) -> Loaded:
    """The kernel for sines of huge arguments, compiled when the first is met."""
    with _lock:
        return _obtain(cast("str", patient(text)))


def _obtain(text: str) -> Loaded:
    """The compiled kernel, from disk if it is there."""
    from .native.machine import object_code  # noqa: PLC0415 - LLVM is loaded with the first kernel
    from .native.module import module_of  # noqa: PLC0415 - LLVM is loaded with the first kernel

    def compiled() -> bytes:
        begin = time.perf_counter()
        with collector_paused():
            module = module_of(text, "kernel", len(elementary(text)))
        # half of what long kernels would take, for not one instruction of an LSTM's
        code = object_code(module, packed=not has_steps(text))
        _spent[0] += time.perf_counter() - begin
        _count["compiled"] += 1
        return code

    found, stored = _stored(text, "kernel", compiled)
    _count["loaded"] += stored
    return found


def stub() -> int:
    """The entry stub for whole calls, with all that shortcuts need; compiled once a machine."""
    from .native.entrance import text  # noqa: PLC0415 - LLVM is loaded by now

    return function(text())


def function(text: str) -> int:
    """Address of the last function in `text`, compiled once a machine; it stays loaded."""
    with _lock:
        return _function(text)


@lru_cache(maxsize=256)
def _function(text: str, *, unrolled: bool = True) -> int:
    from .native.machine import object_code  # noqa: PLC0415 - LLVM is loaded with the first kernel
    from .native.module import function_of  # noqa: PLC0415 - LLVM is loaded with the first kernel

    name = re.findall(r"^def (\w+)", text, re.MULTILINE)[-1]
    found, _ = _stored(text, name, lambda: object_code(function_of(text), unrolled=unrolled))
    _resident.append(found)
    return found.address


def _stored(text: str, symbol: str, compiled: Callable[[], bytes]) -> tuple[Loaded, bool]:
    """Object code, from disk if it is there (which is told), or compiled and put there."""
    from .native.machine import Loaded  # noqa: PLC0415 - LLVM is loaded with the first kernel

    name = cache.name_of(text)
    payload = cache.read(name)
    if payload is not None:
        with suppress(RuntimeError, ValueError):  # no object code
            return Loaded(payload, symbol), True
    code = compiled()
    cache.write(name, code)
    return Loaded(code, symbol), False


def _addresses(names: tuple[str, ...], *, shared: bool) -> tuple[int, ...]:
    """Where matrix routines are, compiled once a machine, and the table of what they call.

    If threads share loops, another for what they call there: BLAS has threads of its own.
    """
    if not names:
        return ()
    from .native.machine import has  # noqa: PLC0415 - LLVM is loaded with the first kernel

    vector = 64 if has("avx512f") else 32
    found = [_function(text_of_routine(name, vector), unrolled=False) for name in names]
    tables = (table(), table(alone=True)) if shared else (table(),)
    return (*found, *(int(t.ctypes.data) for t in tables))
