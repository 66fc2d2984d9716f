"""The tables of operations; importing this package fills the registry.

What answers for SciPy (`special`, `scipylinalg`, `scipysparse`, ...) is imported when it is first met.
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
    numbaufuncs,
    places,
    polynomialfamilies,
    polynomials,
    python,
    reductions,
    sampling,
    scans,
    selection,
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
    "numbaufuncs",
    "places",
    "polynomialfamilies",
    "polynomials",
    "python",
    "reductions",
    "sampling",
    "scans",
    "selection",
    "shaping",
    "sorting",
    "statistics",
    "storing",
    "writing",
]

LATE["scipy.special"] = partial(import_module, ".special", __name__)
LATE["scipy.linalg"] = partial(import_module, ".scipylinalg", __name__)
LATE["scipy.sparse"] = partial(import_module, ".scipyfactors", __name__)  # and with it `.scipysparse`
LATE["scipy.integrate"] = partial(import_module, ".solvers.integrate", __name__)
LATE["scipy.optimize"] = partial(import_module, ".solvers.optimize", __name__)
LATE["scipy.stats"] = partial(import_module, ".scipystats", __name__)
LATE["scipy.spatial.distance"] = partial(import_module, ".scipydistance", __name__)
LATE["scipy.interpolate"] = partial(import_module, ".scipyinterpolate", __name__)
LATE["scipy.ndimage"] = partial(import_module, ".scipyndimage", __name__)
