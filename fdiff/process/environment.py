"""The environment of a process: its switches and cores, and whether it is a worker."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path

from ..errors import InputError, failure
from ..foreign_errors import Suppressed, environment_value


def switch(variable: str) -> bool | None:
    """A variable of the environment that is 0 or 1, as a truth value; None where it is not set."""
    return _switched(variable, environment_value(variable) or "")


@lru_cache(maxsize=8)
def _switched(variable: str, said: str) -> bool | None:
    if said not in ("", "0", "1"):
        fact, way = f"{said!r} is neither 0 nor 1.", "Set it to 0 or 1, or leave it unset."
        raise failure(InputError, variable, fact, way)
    return said == "1" if said else None


# All that fdiff reads. docs/configuration.md says what each does.
VARIABLES = (
    "FDIFF_TIER",
    "FDIFF_COMPILER",
    "FDIFF_CACHE_DIR",
    "FDIFF_CACHE_KEY",
    "FDIFF_NUM_THREADS",
    "FDIFF_BACKGROUND",
    "FDIFF_DETERMINISTIC",
    "FDIFF_LOOPS",
    "FDIFF_CPU",
    "FDIFF_TRACEBACK",
    "FDIFF_DUMP",
    "FDIFF_PROGRESS",
    "FDIFF_CUDA_GRAPHS",
    "FDIFF_VERIFY",
)
DUMP = "FDIFF_DUMP"  # which programs are printed to stderr while they are made
TAPES = "tapes"  # the word for tapes; others are names of passes of the kernel compiler
VERIFY = "FDIFF_VERIFY"  # whether tapes and kernels are verified after each step, as in all tests


THREADS = "FDIFF_NUM_THREADS", "OMP_NUM_THREADS"
# What these say when fdiff is imported, and from then on. Libraries set the second while they start
# processes and leave it so, as a `LocalCluster` of Dask does: it is meant for the others.
threads_asked = tuple(map(os.environ.get, THREADS))


def verifying() -> bool:
    """Whether every tape and every form of a kernel is verified as soon as it is made.

    For tapes this is asked once, when fdiff is imported.
    """
    return switch(VERIFY) is True


def dumped() -> frozenset[str]:
    """The words of ``FDIFF_DUMP``."""
    return _words(environment_value(DUMP) or "")


@lru_cache(maxsize=8)
def _words(said: str) -> frozenset[str]:
    return frozenset(said.split(",")) - {""}


def is_worker() -> bool:
    """Whether this is a worker of `multiprocessing`."""
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


def bound_cores() -> int:
    """How many cores the scheduler may run this process on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cores() -> int:
    """How many whole cores this process may use: fewer where its control group has a quota."""
    return min(bound_cores(), _granted())


@lru_cache(maxsize=1)
def _granted() -> int:
    """How many whole cores the control group of this process may use (Linux)."""
    lines: list[str] = []
    with Suppressed(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    quota = sys.maxsize
    for line in lines:
        _, names, path = line.split(":", 2)
        if names and "cpu" not in names.split(","):
            continue
        root = Path("/sys/fs/cgroup", "cpu" if names else "")
        folder = root.joinpath(path.lstrip("/"))
        for group in (folder, *folder.parents):
            if not group.is_relative_to(root):
                break
            quota = min(quota, _quota(group))
    return quota


def _quota(group: Path) -> int:
    """Whole cores that a control group may use, by its second or first version."""
    for names in (("cpu.max",), ("cpu.cfs_quota_us", "cpu.cfs_period_us")):
        with Suppressed(OSError, ValueError):
            quota, period = " ".join((group.joinpath(name)).read_text() for name in names).split()
            return max(int(quota) // int(period), 1) if quota not in ("max", "-1") else sys.maxsize
    return sys.maxsize
