"""Functions of the benchmarks that are no user's code, in plain NumPy.

A peer gets this very file with its own namespace in the place of `np` (`cases.functions`).
"""

import numpy as np


def sum_of_squares(x):
    return np.sum(x**2)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def chain(x):
    """Six transcendental functions an entry."""
    return np.sum(np.sin(x) * np.exp(-(x**2)) + np.log1p(x**2) * np.tanh(x))
