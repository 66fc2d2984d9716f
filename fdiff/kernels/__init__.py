"""Compiled kernels of tapes: made from their structure alone, kept in memory and on disk.

`compile` gives an `Executable`. All of it is in `compiler`, which is imported when the first kernel
is asked for: a program that is interpreted needs nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..process.collector import collector_paused
from ..process.forking import no_fork

if TYPE_CHECKING:
    from .compiler import (
        CacheInfo,
        cache_clear,
        cache_info,
        compile,  # noqa: A004 - the module is the namespace
        missing,
        on_disk,
        predict_seconds,
        seen,
        source,
        started,
        supported,
        workspace,
    )
    from .executable import Executable, Parts

    __all__ = [
        "CacheInfo",
        "Executable",
        "Parts",
        "cache_clear",
        "cache_info",
        "compile",
        "missing",
        "on_disk",
        "predict_seconds",
        "seen",
        "source",
        "started",
        "supported",
        "workspace",
    ]


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    with no_fork, collector_paused():
        return getattr(import_module(".compiler", __name__), name)
