"""Optimisers, least squares and root finders of other packages, with exact derivatives.

The functions here pass what a solver takes to SciPy and IPOPT: gradients, sparse Jacobians and
Hessians, each evaluated once at each point.
"""

from .counted_functions import SolveReport
from .curve_fitting import curve_fit
from .fit_results import Fit
from .large_roots import root
from .least_squares_fits import least_squares
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


_OTHERS = {  # names that users of other optimisers look for, and what stands for them here
    "minimize": "Write `fdiff.optimize.Problem(f).minimize(x0)`, or call SciPy's `minimize`.",
    "minimize_ipopt": "Write `fdiff.optimize.Problem(f, constraints).ipopt(x0)`.",
}


def __getattr__(name: str) -> object:
    """The error for a name that is not there."""
    fact = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(f"{fact}. {_OTHERS[name]}" if name in _OTHERS else fact, name=name)


def __dir__() -> list[str]:
    """The public names, without the modules of the package."""
    return list(__all__)
