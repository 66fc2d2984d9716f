"""The tables of operations; importing this package fills the registry.

What answers for SciPy (`ops/scipy_ops/`, `ops/solvers/`) is imported when it is first met.
"""

from functools import partial
from importlib import import_module

from ..primitive import LATE
from . import (
    borders,
    cmaths,
    contraction,
    counting,
    creation,
    decompositions,
    elementwise,
    fourier,
    histograms,
    indexing,
    joining,
    linalg,
    lists,
    looping,
    memory,
    numba_ufuncs,
    places,
    polynomial_families,
    polynomials,
    python,
    reductions,
    sampling,
    scalars,
    scans,
    selection,
    selects,
    shaping,
    sorting,
    statistics,
    storing,
    writing,
)

__all__ = [
    "borders",
    "cmaths",
    "contraction",
    "counting",
    "creation",
    "decompositions",
    "elementwise",
    "fourier",
    "histograms",
    "indexing",
    "joining",
    "linalg",
    "lists",
    "looping",
    "memory",
    "numba_ufuncs",
    "places",
    "polynomial_families",
    "polynomials",
    "python",
    "reductions",
    "sampling",
    "scalars",
    "scans",
    "selection",
    "selects",
    "shaping",
    "sorting",
    "statistics",
    "storing",
    "writing",
]

LATE["scipy.special"] = partial(import_module, ".scipy_ops.special", __name__)
LATE["scipy.linalg"] = partial(import_module, ".scipy_ops.linalg", __name__)
LATE["scipy.sparse"] = partial(import_module, ".scipy_ops.sparse_factors", __name__)  # and with it `.scipy_ops.sparse`
LATE["scipy.integrate"] = partial(import_module, ".solvers.integrate", __name__)
LATE["scipy.optimize"] = partial(import_module, ".solvers.optimize", __name__)
LATE["scipy.stats"] = partial(import_module, ".scipy_ops.stats", __name__)
LATE["scipy.spatial.distance"] = partial(import_module, ".scipy_ops.distance", __name__)
LATE["scipy.interpolate"] = partial(import_module, ".scipy_ops.interpolate", __name__)
LATE["scipy.ndimage"] = partial(import_module, ".scipy_ops.ndimage", __name__)
