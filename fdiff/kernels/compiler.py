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
from .bones import Skeleton, Values
from .crew import Code, pool, threads
from .emit import Source, elementary, has_steps, patient, share
from .emit import emit as text_of
from .routines import text_of as text_of_routine
from .runtime import crew as crewing
from .runtime.blas import table
from .schedule import schedule as loops_of
from .schedule.work import Work, work_of
from .sharing import PARTS, Shared
from .skeleton import missing as missing  # noqa: PLC0414 - for whoever asks `kernels`
from .skeleton import skeleton as skeleton_of
from .skeleton import supported as supported  # noqa: PLC0414 - for whoever asks `kernels`

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
_LEAST = 60_000.0  # ns of work from which on several threads share it
_HEAVY = 5_000.0  # ns of work from which on a loop is shared, if any is
_WAIT = 2_000.0  # ns of it that a wait for the others has to be worth
_GRAIN = 20_000.0  # ns of work in a part of it, at least
_MOST_PARTS = 64
_LONGEST = 1000  # lines of a kernel for threads: it has no steps, and compiling grows faster
_AMONG = 12  # times as much work as what parts have of their own takes
_ENTRY = 0.5  # ns for an entry of what a part has of its own
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


class _Made(NamedTuple):
    """A text, the work of each of its items that threads share (or of all), and what parts have."""

    source: Source
    work: tuple[tuple[Work, ...], ...]
    own: tuple[Work, ...] = ()
    turns: int = 0  # how often threads wait for each other

    @property
    def lines(self) -> int:
        return self.source.text.count("\n")

    def heavy(self, sizes: tuple[int, ...]) -> frozenset[int]:
        """The items that take long."""
        return frozenset(k for k, some in enumerate(self.work) if _time(some, sizes) > _HEAVY)

    def parts(self, sizes: tuple[int, ...]) -> int:
        """In how many parts the loops are shared; 1 if they are not worth it.

        It follows from the sizes alone, and with it how sums are rounded.
        """
        time = sum(_time(some, sizes) for some in self.work)
        if time < _LEAST + _WAIT * self.turns:
            return 1
        own = _time(self.own, sizes)
        return int(min(_MOST_PARTS, time / _GRAIN, time / (_AMONG * own) if own else _MOST_PARTS))


def _time(some: tuple[Work, ...], sizes: tuple[int, ...]) -> float:
    return sum(work.nanoseconds(sizes) for work in some)


@lru_cache(maxsize=2048)
def _plain(bones: Skeleton) -> _Made:
    """The kernel for one thread."""
    with collector_paused():
        program = loops_of(bones)
        return _Made(text_of(program, bones), tuple(work_of(item) for item in program.items))


@lru_cache(maxsize=256)
def _shared(bones: Skeleton, heavy: frozenset[int]) -> _Made | None:
    """The kernel for several threads, who share what is heavy; None if they could share nothing."""
    program = share(loops_of(bones), heavy)
    if program is None:
        return None
    work = tuple(work_of(item.item) for item in program.items if isinstance(item, Shared))
    own = (Work(t.dims, _ENTRY) for t in program.temporaries if t.copies == PARTS)
    return _Made(text_of(program, bones), work, tuple(own), len(program.items))


def _chosen(bones: Skeleton, values: Values) -> tuple[Source, int]:
    """The text for these sizes, and in how many parts its loops are shared."""
    made = _plain(bones)
    if threads() > 1 and made.parts(values.ints) > 1 and made.lines <= _LONGEST:
        shared = _shared(bones, made.heavy(values.ints))
        parts = 1 if shared is None else shared.parts(values.ints)
        if shared is not None and parts > 1:
            return shared.source, parts
    return made.source, 1


def _key(bones: Skeleton, made: Source) -> _Key:
    """What a kernel is kept under: which loops are shared shows in the text alone."""
    return bones, made.text if made.shared else ""


def source(tape: Tape, layouts: tuple[str, ...]) -> str:
    """Text of the kernel of `tape`."""
    return _chosen(*skeleton_of(tape, layouts))[0].text


def predict_seconds(tape: Tape, layouts: tuple[str, ...]) -> float:
    """What compiling would take, LLVM's own start apart; 0 if the kernel is at hand."""
    bones, values = skeleton_of(tape, layouts)
    made, _ = _chosen(bones, values)
    return 0.0 if _key(bones, made) in _kernels else made.seconds()


def on_disk(tape: Tape, layouts: tuple[str, ...]) -> bool:
    """Whether the kernel can be read from disk (or is loaded already)."""
    bones, values = skeleton_of(tape, layouts)
    made, _ = _chosen(bones, values)
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
    _plain.cache_clear()
    _shared.cache_clear()
    _patient.cache_clear()
    if disk:
        cache.clear()


def compile(tape: Tape, layouts: tuple[str, ...]) -> Executable:  # noqa: A001 - the module is the namespace
    """The kernel of `tape` for inputs of these layouts (``"C"``, or ``"A"`` for any strides)."""
    from .calling import Executable  # noqa: PLC0415 - this is where LLVM is loaded

    bones, values = skeleton_of(tape, layouts)
    made, parts = _chosen(bones, values)
    key = _key(bones, made)
    kernel = _kernels.get(key)
    if kernel is None:
        if lacking := missing(tape):
            raise TapeError(f"a kernel was asked for that cannot be made: no {', '.join(lacking)}")
        with _lock:
            kernel = _kernels.get(key) or _kernels.setdefault(key, _make(made, layouts))
            while len(_kernels) > _MOST:
                _kernels.popitem(last=False)
    else:
        _count["hits"] += 1
        with suppress(KeyError):  # another thread may just have dropped it
            _kernels.move_to_end(key)
    return Executable(kernel, tape, values, parts)


def _make(made: Source, layouts: tuple[str, ...]) -> Kernel:
    from .calling import Kernel  # noqa: PLC0415 - LLVM is loaded with the first kernel
    from .native.entrance import text as calling  # noqa: PLC0415 - LLVM is loaded with the first kernel

    addresses = _addresses(made.routines, shared=made.shared)
    again = None if patient(made.text) is None else partial(_patient, made.text)
    code = _obtain(made.text)
    call = _function(calling())
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
