"""Modules of SciPy with their functions as SciPy defines them (see `intact`).

They are imported when they are asked for: ``special``, ``sparse_linalg``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .intact import intact
from .process.forking import no_fork
from .process.memory_reserve import check_room_for_scipy

if TYPE_CHECKING:  # for type checkers these are SciPy's
    from scipy import (
        fft,
        integrate,
        interpolate,
        linalg,
        ndimage,
        optimize,
        signal,
        sparse,
        special,
        stats,
    )
    from scipy.sparse import linalg as sparse_linalg
    from scipy.spatial import distance as spatial_distance

    __all__ = [
        "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse",
        "sparse_linalg", "spatial_distance", "special", "stats",
    ]  # fmt: skip

_NAMES = frozenset(
    (
        *("fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse"),
        *("sparse_linalg", "spatial_distance", "special", "stats"),
    )
)


def __getattr__(name: str) -> object:
    if name not in _NAMES:
        raise AttributeError(name)
    check_room_for_scipy()
    with no_fork:
        module = globals()[name] = intact(import_module(f"scipy.{name.replace('_', '.')}"))
    return module
