"""Optimisers, least squares and root finders of other packages, with exact derivatives.

The functions here pass what a solver takes to SciPy and IPOPT: gradients, sparse Jacobians and
Hessians, each evaluated once at each point.
"""

from ..near_names import missing
from .curves import curve_fit
from .evaluations import SolveReport
from .fits import Fit
from .fitting import least_squares
from .large_roots import root
from .problem import Problem
from .solution_loops import fixed_point, newton

__all__ = [
    "Fit",
    "Problem",
    "SolveReport",
    "curve_fit",
    "fixed_point",
    "least_squares",
    "newton",
    "root",
]


def __getattr__(name: str) -> object:
    """The error for names of other optimisers, with what stands for them here."""
    raise missing(name, __name__)


def __dir__() -> list[str]:
    """The public names, without the modules of the package."""
    return list(__all__)
