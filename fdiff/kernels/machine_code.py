"""Machine code of kernels, routines and the entry stub: from the disk cache, or compiled by LLVM.

Importing this loads LLVM (see `late_imports`). LLVM serves one thread at a time: `compiling`. The
caches: docs/decisions/source-and-object-caches.md.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Literal

from ..errors import DefectWarning, warn
from ..foreign_errors import Suppressed, is_foreign
from ..process.background import Job, allowed, checkpoint, possible, worker
from ..process.forking import no_fork
from ..process.garbage_collection import collector_paused
from ..process.interrupt_safe_locks import TurnLock
from ..process.interruptible import has_abandoned_call, wait_for_left
from ..process.memory_reserve import give_back
from ..process.observed_spans import CACHE, COMPILE, mark, span
from . import disk_cache, kernel_names
from .compiler_choice import LLVM, NUMBA, numba_compiler
from .executable import Executable as Executable  # noqa: PLC0414 - for `kernel_lookup`
from .executable import Kernel, release_workspaces
from .kernel_source import KernelSource
from .llvm import machine
from .llvm.machine import Loaded
from .llvm.stub import entry_stub as stub
from .llvm.stub.stub_binding import rehearsed, stub_fault
from .llvm.text_to_module import function_of, module_of
from .runtime.blas_lapack_addresses import table
from .runtime.routines import has_vectors, routine_text
from .runtime.worker_code import TEXTS
from .thread_pool import WorkerCode, pool

counts = {"compiled": 0, "loaded": 0}  # kernels, in this process
seconds = [0.0]  # spent compiling them
_functions: list[Loaded] = []  # which stay loaded
_lock = TurnLock()


class _Compiling:
    """LLVM for this thread alone, and no fork: a child would inherit LLVM's lock as it is.

    All calls of LLVM are made in here, even those for an address. A fork waits for the thread that
    uses LLVM, and not for those that wait for it.
    """

    def __enter__(self) -> None:
        frame = sys._getframe(1)
        _lock.acquire(frame)
        no_fork.enter(frame)
        wait_for_left()

    def __exit__(self, *_: object) -> None:
        frame = sys._getframe(1)
        no_fork.leave(frame)
        _lock.release(frame)


compiling = _Compiling


def is_busy() -> bool:
    """Whether another thread uses LLVM, so that this one would have to wait for it."""
    return _lock.taken_elsewhere() or has_abandoned_call()


def make_kernel(source: KernelSource, layouts: tuple[str, ...], compiler: str) -> Kernel:
    """The kernel of a text for inputs of these layouts."""
    addresses = _addresses(source.routines, compiler, parallel=source.threaded)
    by_libm = partial(_fallback, source, compiler) if source.facts.angles else None
    code = _kernel_code(source, compiler)
    run = _parallel_run(compiler) if source.threaded else 0
    return Kernel(code, addresses, source, layouts, by_libm, entry_stub, run, compiler)


@lru_cache(maxsize=64)
def _fallback(source: KernelSource, compiler: str) -> Loaded:
    """A kernel by libm, compiled when the first argument is out of range."""
    with compiling():
        return _kernel_code(source.by_libm(), compiler)


def release() -> None:
    """Give back all memory that is not in use."""
    _fallback.cache_clear()
    release_workspaces()
    with compiling():
        machine.release()
    give_back()


# --- object code ------------------------------------------------------------------------------


def _kernel_code(source: KernelSource, compiler: str) -> Loaded:
    """The function of a kernel's text."""
    text = source.text

    def compiled() -> bytes:
        begin = time.perf_counter()
        code = numba_compiler().kernel_code(text) if compiler == NUMBA else by_llvm()
        seconds[0] += time.perf_counter() - begin
        counts["compiled"] += 1
        return code

    def by_llvm() -> bytes:
        with collector_paused():
            assembly = machine.assembly(module_of(text, "kernel"), last=True)
        if len(assembly) >= 1 << 16:  # LLVM's thread has a heap of its own
            give_back()
        checkpoint()
        # SLP vectorisation takes half of the time for long kernels, and found nothing in an LSTM's.
        # It took four fifths for steps of Runge-Kutta as bodies of loops, and made them no faster.
        packed = not (source.facts.outlined or source.facts.trips)
        return machine.object_code(assembly, packed=packed, straight=source.facts.straight)

    loaded, from_disk = _loaded(text, "kernel", compiler, compiled)
    counts["loaded"] += from_disk
    return loaded


Optimisation = Literal["unrolled", "loops", "vectors", "glue"]


def function(text: str, optimisation: Optimisation = "unrolled") -> int:
    """Address of the last function in `text`, which stays loaded."""
    with compiling():
        return _function(text, optimisation)


def load_unshared(text: str) -> Loaded:
    """The last function in a text that names addresses: it is for this process alone."""
    with compiling(), collector_paused():
        name = re.findall(r"^def (\w+)", text, re.MULTILINE)[-1]
        return Loaded(machine.glue_code(function_of(text)), name)


@lru_cache(maxsize=256)
def _function(
    text: str,
    optimisation: Optimisation = "unrolled",
    compiler: str = LLVM,
) -> int:
    """The address of a text's last function, cached; LLVM alone knows the `optimisation`.

    With ``unrolled`` and ``loops`` loops are vectorised, and unrolled or not; with ``vectors`` the
    text has vectors of its own; ``glue`` has no loops that are worth it.
    """
    name = re.findall(r"^def (\w+)", text, re.MULTILINE)[-1]

    def compiled() -> bytes:
        if compiler == NUMBA:
            return numba_compiler().function_code(text)
        with collector_paused():
            assembly = machine.assembly(function_of(text), last=True)
        if optimisation == "glue":
            return machine.glue_code(assembly)
        if optimisation == "vectors":
            return machine.routine_code(assembly, name)
        return machine.object_code(assembly, unrolled=optimisation == "unrolled")

    loaded, _ = _loaded(text, name, compiler, compiled, optimisation)
    _functions.append(loaded)
    return loaded.address


def _loaded(
    text: str,
    symbol: str,
    compiler: str,
    compiled: Callable[[], bytes],
    optimisation: str = kernel_names.KERNEL,
) -> tuple[Loaded, bool]:
    """The function `symbol` of a text, and whether it was on disk; if not, it is put there.

    It has a file for each `optimisation`.
    """
    name, kind = kernel_names.name_of(text, compiler, optimisation), f"code of {symbol}"
    with span(f"read {kind}", CACHE):
        payload = disk_cache.read(name, kind)
    mark(f"{kind} on disk: {'hit' if payload is not None else 'miss'}", CACHE)
    if payload is not None:
        with Suppressed(RuntimeError, ValueError), span("load machine code", COMPILE):
            return Loaded(payload, symbol), True  # raises if it is no object code
    with span(f"compile {symbol}", COMPILE):
        code = compiled()
    with span(f"write {kind}", CACHE):
        disk_cache.write(name, kind, code)
    with span("load machine code", COMPILE):
        return Loaded(code, symbol), False


# --- what kernels call, and what calls them ---------------------------------------------------


def _addresses(routines: tuple[str, ...], compiler: str, *, parallel: bool) -> tuple[int, ...]:
    """Addresses of matrix routines, and of the table of BLAS that they use.

    A parallel kernel has two such tables, one for use inside parallel loops: BLAS has threads of
    its own.
    """
    if not routines:
        return ()
    vector = 64 if machine.has("avx512f") else 32
    texts = [routine_text(name, vector) for name in routines]
    optimisations = ["vectors" if has_vectors(name) else "loops" for name in routines]
    pairs = zip(texts, optimisations, strict=True)
    functions = [_function(text, optimisation, compiler) for text, optimisation in pairs]
    tables = (table(), table(alone=True)) if parallel else (table(),)
    return (*functions, *(int(t.ctypes.data) for t in tables))


def _parallel_run(compiler: str) -> int:
    """The function that runs a kernel on several threads, which start with the first such."""
    code = WorkerCode(**{name: _function(text, "glue", compiler) for name, text in TEXTS.items()})
    pool.ready(code)
    return code.run


_stubs: dict[bool, int] = {}  # addresses of the entry stubs: the full one, and the simple one
_stub_failures: dict[bool, Exception] = {}  # where calls go through Python for good
_stub_warned: set[bool] = set()


def entry_stub(*, full: bool = False) -> int:
    """Address of the function by which Python calls every kernel.

    The `full` one does everything that fast paths need; the other calls a kernel alone, and is
    compiled in half of the time. They are compiled in the background if possible, and 0 until then.
    If fdiff fails to compile one, it warns once, and the address stays 0.
    """
    if full in _stubs:
        return _stubs[full]
    if full not in _stub_failures:
        if possible() and (is_busy() or (allowed() and not _stub_on_disk(full=full))):
            worker.submit(_stub_jobs[full])
            return 0
        _compile_stub(full=full)
    if full in _stub_failures and full not in _stub_warned:
        _stub_warned.add(full)
        error = _stub_failures[full]
        fact = f"fdiff failed to compile its entry stub ({type(error).__name__}: {error})"
        way = "Calls go through Python. This is a defect of fdiff: please report it."
        warn(f"{fact}. {way}", DefectWarning)
    return _stubs.get(full, 0)


def _stub_on_disk(*, full: bool) -> bool:
    """Whether the stub needs no time: its code is there, and found right by this installation."""
    text = stub.text(full=full)
    names = [kernel_names.name_of(text, optimisation=o) for o in ("glue", _TRIED[full])]
    return all(map(disk_cache.has, names))


# Words in place of optimisations, for entries that hold nothing: see `stub_binding.rehearsed`.
_TRIED = {True: "rehearsed", False: "rehearsed as the simple stub"}


def _compile_stub(*, full: bool) -> None:
    text = stub.text(full=full)
    name = kernel_names.name_of(text, optimisation=_TRIED[full])
    kind = "rehearsal of the entry stub"
    try:
        with compiling():  # trials count references, which other threads' trials would change
            call = _function(text, "glue")
            if disk_cache.read(name, kind) is not None:
                rehearsed.add((call, full))
            if not stub_fault(call, full=full) and (call, full) not in rehearsed:
                disk_cache.write(name, kind, b"")
            _stubs[full] = call
    except Exception as error:
        if not is_foreign(error):  # kernels can be called without it
            _stub_failures[full] = error
        elif not worker.runs_here():
            raise


_stub_jobs = {
    full: Job(partial(_compile_stub, full=full), lambda: math.inf) for full in (False, True)
}
