"""Optimisers, least squares and root finders of other packages, with exact derivatives.

The functions here pass what a solver takes to SciPy and IPOPT: gradients, sparse Jacobians and
Hessians, each evaluated once at each point.
"""

from .evaluations import SolveReport
from .problem import Problem

__all__ = ["Problem", "SolveReport"]
