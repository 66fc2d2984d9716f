"""The tables of operations; importing this package fills the registry.

What answers for SciPy (`special`, `scipylinalg`, `scipysparse`) is imported when it is first met.
"""

from . import (
    contraction,
    counting,
    creation,
    decompositions,
    elementwise,
    fourier,
    indexing,
    joining,
    linalg,
    looping,
    polynomials,
    reductions,
    sampling,
    scans,
    selection,
    shaping,
    sorting,
    statistics,
)

__all__ = [
    "contraction",
    "counting",
    "creation",
    "decompositions",
    "elementwise",
    "fourier",
    "indexing",
    "joining",
    "linalg",
    "looping",
    "polynomials",
    "reductions",
    "sampling",
    "scans",
    "selection",
    "shaping",
    "sorting",
    "statistics",
]
