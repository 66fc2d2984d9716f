"""The state of this installation, fact by fact, for reports of faults; nothing here raises."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, version

from ..foreign_errors import environment_value, not_foreign
from ..process.environment import VARIABLES
from . import disk_cache, late_imports
from .compiler_choice import LLVM, NUMBA
from .cuda.devices import adapter
from .cuda.devices.driver import driver_state
from .installation import compiler_state, extras
from .thread_pool import threads

Fact = tuple[str, str]  # what it is about, and what is so
_PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "llvmlite",
    "numba-cuda",
    "cuda-core",
    "cupy",
    "nvmath-python",
)
_UNKNOWN = "not known"


def facts(own: str) -> Iterator[Fact]:
    """Every fact; `own` is the version of fdiff."""
    yield "fdiff", own
    yield "python", f"{platform.python_version()} {platform.python_implementation()}"
    yield "system", _fact(lambda: f"{platform.system()} {platform.release()} {platform.machine()}")
    for name in _PACKAGES:
        yield name, _version(name)
    yield "llvm", _fact(lambda: late_imports.machine_code.machine.described()[0])
    yield "llvm compiler", _fact(lambda: compiler_state(LLVM), "does not work")
    yield "numba compiler", _fact(lambda: compiler_state(NUMBA), "does not work")
    yield "processor", _fact(_processor)
    yield "cache", _fact(_cache)
    yield "threads", _fact(lambda: str(threads()))
    yield "settings", _fact(_settings)
    yield "extras", _fact(extras)
    yield from _cuda_facts()


def _cuda_facts() -> Iterator[Fact]:
    state = driver_state()
    yield "cuda driver", state.fault or f"supports CUDA {state.release}"
    yield "cuda devices", ", ".join(state.devices) or "none"
    yield "cuda toolkit", _fact(lambda: "{}.{}".format(*adapter.toolkit()))
    yield "cuda simulator", "on" if adapter.simulated() else "off"
    yield "device='cuda'", _fact(_verdict)


def _verdict() -> str:
    """Whether calls with ``device="cuda"`` run, and if not, why."""
    if fault := adapter.fault_in_words():
        return f"no: {fault}"
    return "yes, on the simulator" if adapter.simulated() else "yes"


def _fact(fact: Callable[[], str], otherwise: str = _UNKNOWN) -> str:
    """The fact; what went wrong, if it cannot be found out."""
    try:
        return fact()
    except not_foreign(Exception, again=fact) as error:  # of a broken installation
        return f"{otherwise}: {type(error).__name__}: {error}".splitlines()[0]


def _version(package: str) -> str:
    """The version of a package, or that it is not installed."""
    names = [package] if package != "cupy" else ["cupy-cuda12x", "cupy-cuda13x", "cupy"]
    for name in names:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "not installed"


def _processor() -> str:
    """The processor as LLVM knows it, and how many cores this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{late_imports.machine_code.machine.described()[1]}, {cores} cores"


def _cache() -> str:
    """Where kernels and their texts are stored, how many there are, and whether they can be."""
    folder = disk_cache.directory()
    if folder is None:
        chosen = environment_value("FDIFF_CACHE_DIR")
        off = chosen in ("", "off")
        if off:
            return "off (FDIFF_CACHE_DIR)"
        return f"none: {chosen or 'no directory'} cannot be used"
    sizes = [path.stat().st_size for path in folder.glob("*.kernel")]
    use = "can be written to" if disk_cache.writable(folder) else "is read only"
    return f"{folder} ({use}, {len(sizes)} files, {sum(sizes) >> 10} KiB)"


def _settings() -> str:
    """The environment variables that change fdiff's behaviour, and similar names."""
    names = sorted(k for k in os.environ if k.startswith("FDIFF_") or k in _OTHERS)
    shown = {name: "set" if name == disk_cache.KEY else os.environ[name] for name in names}
    return " ".join(f"{name}={shown[name]}{_unread(name)}" for name in names) or "none"


def _unread(name: str) -> str:
    """A remark where fdiff reads no such variable, with the name that comes nearest."""
    if name in VARIABLES or name in _OTHERS:
        return ""
    nearest = get_close_matches(name, VARIABLES, n=1, cutoff=0.0)[0]
    return f" (fdiff reads no such variable; did you mean {nearest}?)"


_OTHERS = ("OMP_NUM_THREADS", adapter.SIMULATOR, "CUDA_VISIBLE_DEVICES", "CUDA_HOME")
