"""From a tape to an executable kernel: what is at hand, on disk, or has to be compiled.

Importing this does not import LLVM, which is loaded with the first kernel. ``FDIFF_CACHE_DIR``
moves the disk cache, and ``FDIFF_CACHE_DIR=off`` switches it off. The 1,024 kernels used last stay
in memory; one that is dropped lives on as long as something holds its `Executable`.
"""

from __future__ import annotations

import math
import os
import re
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from ..errors import DefectWarning, warn
from ..process.background import Job, allowed, checkpoint, worker
from ..process.collector import collector_paused
from ..process.forking import no_fork
from ..process.progress import Stage
from ..tape import Tape
from . import cache
from .ir.graph import KernelGraph
from .ir.graph_of_tape import kernel_graph, no_kernel
from .ir.graph_of_tape import missing as missing  # noqa: PLC0414 - for whoever asks `kernels`
from .ir.graph_of_tape import supported as supported  # noqa: PLC0414 - for whoever asks `kernels`
from .ir.parallel import PARTS, THREADS
from .kernel_source import KernelSource, elementary, has_outlined, libm_fallback
from .runtime.blas import table
from .runtime.routines import text_of as text_of_routine
from .runtime.worker_code import TEXTS
from .source_cache import (
    SelectedSource,
    forget,
    has_kernel_of_length,
    has_source_on_disk,
    record_tape_length,
    select_source,
    write_to_disk,
)
from .thread_pool import WorkerCode, pool, threads

if TYPE_CHECKING:
    from .executable import Executable, Kernel
    from .llvm.machine import Loaded


class CacheInfo(NamedTuple):
    """Counters of this process: kernels compiled, read from disk, found in memory."""

    compiled: int
    loaded: int
    hits: int
    entries: int
    seconds: float


_MOST = 1024  # kernels in memory
_Key = tuple[KernelGraph, str]
_kernels: OrderedDict[_Key, Kernel] = OrderedDict()
_resident: list[Loaded] = []
_lock = threading.RLock()
_count = {"compiled": 0, "loaded": 0, "hits": 0}
_spent = [0.0]


def _renew_lock() -> None:
    global _lock  # noqa: PLW0603 - one lock for the module, another one for a child
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


@contextmanager
def compiling() -> Generator[None]:
    """LLVM for this thread alone, and no fork: a child would inherit LLVM's lock as it is.

    Whoever calls LLVM, even for an address, does it in here. A fork waits for the thread that has
    LLVM, and not for those that wait for it.
    """
    with _lock, no_fork:
        yield


def started() -> bool:
    """Whether LLVM is loaded."""
    return f"{__package__}.llvm.machine" in sys.modules


def _key(graph: KernelGraph, made: KernelSource) -> _Key:
    """What a kernel is kept under: which loops are shared shows in the text alone."""
    return graph, made.text if made.shared else ""


def source(tape: Tape, layouts: tuple[str, ...]) -> str:
    """Text of the kernel of `tape`."""
    return select_source(*kernel_graph(tape, layouts)).source.text


def predict_seconds(tape: Tape, layouts: tuple[str, ...]) -> float:
    """What compiling would take, LLVM's own start apart; 0 if the kernel is at hand."""
    graph, values = kernel_graph(tape, layouts)
    made = select_source(graph, values).source
    return 0.0 if _key(graph, made) in _kernels else made.seconds()


def workspace(tape: Tape, layouts: tuple[str, ...]) -> int:
    """Bytes that the kernel of `tape` holds besides its inputs and outputs."""
    graph, values = kernel_graph(tape, layouts)
    choice = select_source(graph, values)
    copies = {"": 1, THREADS: threads(), PARTS: choice.parts}
    return sum(room.bytes(values.ints) * copies[room.copies] for room in choice.source.buffers)


def seen(tape: Tape) -> bool:
    """Whether there may be a kernel of `tape`: there is one of a tape of this length."""
    return has_kernel_of_length(len(tape))


def on_disk(tape: Tape, layouts: tuple[str, ...]) -> bool:
    """Whether the kernel can be read from disk (or is loaded already): nothing is made to tell."""
    graph, values = kernel_graph(tape, layouts)
    if (graph, "") not in _kernels and not has_source_on_disk(graph):
        return False
    made = select_source(graph, values).source
    return _key(graph, made) in _kernels or cache.has(cache.name_of(made.text))


def cache_info() -> CacheInfo:
    """What the caches did in this process."""
    return CacheInfo(_count["compiled"], _count["loaded"], _count["hits"], len(_kernels), _spent[0])


def cache_clear(*, disk: bool = False) -> None:
    """Forget the kernels in memory, and on request those on disk."""
    _kernels.clear()
    forget()
    _fallback.cache_clear()
    if started():
        with no_fork:
            from .executable import release_spare  # noqa: PLC0415 - it needs LLVM
            from .llvm.machine import release  # noqa: PLC0415 - it needs LLVM

        release_spare()
        with compiling():
            release()
    if disk:
        cache.clear()


def compile(tape: Tape, layouts: tuple[str, ...]) -> Executable:  # noqa: A001 - the module is the namespace
    """The kernel of `tape` for inputs of these layouts (``"C"``, or ``"A"`` for any strides)."""
    with no_fork, collector_paused():
        from .executable import Executable  # noqa: PLC0415 - this is where LLVM is loaded

    graph, values = kernel_graph(tape, layouts)
    choice = select_source(graph, values)
    made = choice.source
    key = _key(graph, made)
    kernel = _kernels.get(key)
    if kernel is None:
        if missing(tape):
            raise no_kernel(tape)
        record_tape_length(len(tape))
        checkpoint()
        size, seconds = len(graph.ops), made.seconds()
        with Stage("compiling", size=size, seconds=seconds), compiling():
            kernel = _kernels.get(key) or _kernels.setdefault(key, _make(graph, choice, layouts))
            while len(_kernels) > _MOST:
                _kernels.popitem(last=False)
    else:
        _count["hits"] += 1
        with suppress(KeyError):  # another thread may just have dropped it
            _kernels.move_to_end(key)
    with Stage("loading", size=len(tape)):
        return Executable(kernel, tape, values, choice.parts)


def _make(graph: KernelGraph, choice: SelectedSource, layouts: tuple[str, ...]) -> Kernel:
    with no_fork:
        from .executable import Kernel  # noqa: PLC0415 - LLVM is loaded with the first kernel

    made = choice.source
    addresses = _addresses(made.routines, shared=made.shared)
    again = None if libm_fallback(made.text) is None else partial(_fallback, made.text)
    code = _obtain(made.text)
    write_to_disk(graph, choice)
    run = _parallel_run() if made.shared else 0
    return Kernel(code, addresses, made.buffers, made.text, layouts, again, entry_stub, run)


_stubs: dict[bool, int] = {}  # addresses of the entry stubs: the full one, and for kernels alone
_stub_failures: dict[bool, Exception] = {}  # where calls go through Python for good
_stub_warned: set[bool] = set()


def entry_stub(*, full: bool = False) -> int:
    """Address of a function by which Python calls every kernel, compiled once a machine.

    The `full` one can do all that shortcuts need; the other calls a kernel alone, and is compiled
    in half of the time. They are compiled in the background if that is possible, and 0 until then.
    Where fdiff fails to compile one, it warns once, and the address stays 0.
    """
    if full in _stubs:
        return _stubs[full]
    if full not in _stub_failures:
        if allowed() and not cache.has(cache.name_of(_stub_text(full=full))):
            worker.submit_once(_stub_jobs[full])
            return 0
        _compile_stub(full=full)
    if full in _stub_failures and full not in _stub_warned:
        _stub_warned.add(full)
        error = _stub_failures[full]
        fact = f"fdiff failed to compile its entry stub ({type(error).__name__}: {error})"
        way = "Calls go through Python. This is a defect of fdiff: please report it."
        warn(f"{fact}. {way}", DefectWarning)
    return _stubs.get(full, 0)


def _compile_stub(*, full: bool) -> None:
    try:
        with compiling():
            _stubs[full] = _function(_stub_text(full=full), "glue")
    except Exception as error:  # noqa: BLE001 - whatever it is, kernels can be called without it
        _stub_failures[full] = error


def _stub_text(*, full: bool) -> str:
    with no_fork:
        from .llvm.entry_stub import text  # noqa: PLC0415 - LLVM is loaded by now

    return text(full=full)


_stub_jobs = {
    full: Job(partial(_compile_stub, full=full), lambda: math.inf) for full in (False, True)
}


def _parallel_run() -> int:
    """The function by which several threads run a kernel; they start with the first such."""
    code = WorkerCode(**{name: _function(text, "glue") for name, text in TEXTS.items()})
    pool.ready(code)
    return code.run


@lru_cache(maxsize=64)
def _fallback(text: str) -> Loaded:
    """The kernel by libm, compiled when the first argument is out of range."""
    with compiling():
        return _obtain(cast("str", libm_fallback(text)))


def _obtain(text: str) -> Loaded:
    """The compiled kernel, from disk if it is there."""
    with no_fork, collector_paused():
        from .llvm.machine import object_code  # noqa: PLC0415 - LLVM is loaded with the first kernel
        from .llvm.module import module_of  # noqa: PLC0415 - LLVM is loaded with the first kernel

    def compiled() -> bytes:
        begin = time.perf_counter()
        with collector_paused():
            module = module_of(text, "kernel", len(elementary(text)))
        checkpoint()
        # half of what long kernels would take, for not one instruction of an LSTM's
        code = object_code(module, packed=not has_outlined(text))
        _spent[0] += time.perf_counter() - begin
        _count["compiled"] += 1
        return code

    found, stored = _stored(text, "kernel", compiled)
    _count["loaded"] += stored
    return found


def function(text: str) -> int:
    """Address of the last function in `text`, compiled once a machine; it stays loaded."""
    with compiling():
        return _function(text)


@lru_cache(maxsize=256)
def _function(text: str, way: Literal["unrolled", "loops", "vectors", "glue"] = "unrolled") -> int:
    """The function, its loops made vectors of and unrolled or not, or with the vectors it has."""
    with no_fork:
        from .llvm.machine import glue_code, object_code, routine_code  # noqa: PLC0415 - LLVM is loaded with the first kernel
        from .llvm.module import function_of  # noqa: PLC0415 - LLVM is loaded with the first kernel

    name = re.findall(r"^def (\w+)", text, re.MULTILINE)[-1]

    def compiled() -> bytes:
        with collector_paused():
            module = function_of(text)
        if way == "glue":
            return glue_code(module)
        if way == "vectors":
            return routine_code(module, name)
        return object_code(module, unrolled=way == "unrolled")

    found, _ = _stored(text, name, compiled)
    _resident.append(found)
    return found.address


def _stored(text: str, symbol: str, compiled: Callable[[], bytes]) -> tuple[Loaded, bool]:
    """Object code, from disk if it is there (which is told), or compiled and put there."""
    with no_fork:
        from .llvm.machine import Loaded  # noqa: PLC0415 - LLVM is loaded with the first kernel

    name = cache.name_of(text)
    kind = f"code of {symbol}"
    payload = cache.read(name, kind)
    if payload is not None:
        with suppress(RuntimeError, ValueError):  # no object code
            return Loaded(payload, symbol), True
    code = compiled()
    cache.write(name, kind, code)
    return Loaded(code, symbol), False


def _addresses(names: tuple[str, ...], *, shared: bool) -> tuple[int, ...]:
    """Where matrix routines are, compiled once a machine, and the table of what they call.

    If threads share loops, another for what they call there: BLAS has threads of its own.
    """
    if not names:
        return ()
    with no_fork:
        from .llvm.machine import has  # noqa: PLC0415 - LLVM is loaded with the first kernel

    vector = 64 if has("avx512f") else 32
    texts = [text_of_routine(name, vector) for name in names]
    found = [_function(text, "vectors" if "rt.load_vector(" in text else "loops") for text in texts]
    tables = (table(), table(alone=True)) if shared else (table(),)
    return (*found, *(int(t.ctypes.data) for t in tables))
