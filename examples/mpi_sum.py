"""A sum over processes, by MPI
============================

A likelihood over data on many processes. Run it with

.. code-block:: sh

    mpirun -n 2 python examples/mpi_sum.py
"""

import numpy as np
from mpi4py import MPI
from scipy.optimize import minimize

import fdiff

comm = MPI.COMM_WORLD
rng = np.random.default_rng(comm.rank)
X = rng.standard_normal((10_000, 5))
y = rng.random(10_000) < 1.0 / (1.0 + np.exp(-X @ np.linspace(-1.0, 1.0, 5)))


def loss(w: np.ndarray, X: np.ndarray, y: np.ndarray) -> np.floating:
    z = X @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


local = fdiff.jit(fdiff.value_and_grad(loss))


def total(w: np.ndarray) -> tuple[float, np.ndarray]:  # the same points and digits on all ranks
    value, slope = local(w, X, y)
    sums = comm.allreduce(np.append(slope, value))
    return sums[-1], sums[:-1]


found = minimize(total, np.zeros(5), jac=True, method="L-BFGS-B")
if comm.rank == 0:
    print(f"{comm.size} ranks, {found.nfev} evaluations: w = {np.round(found.x, 2)}")
