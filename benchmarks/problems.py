"""Functions of the benchmarks that are no user's code, in plain NumPy.

A peer gets this very file with its own namespace in the place of `np` (`inputs.functions`).
"""

import numpy as np


def sum_of_squares(x):
    return np.sum(x**2)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def chain(x):
    """Six transcendental functions an entry."""
    return np.sum(np.sin(x) * np.exp(-(x**2)) + np.log1p(x**2) * np.tanh(x))


def logistic(w, x, y):
    """The mean loss of logistic regression, labels ±1, with a ridge."""
    return np.sum(np.log1p(np.exp(-y * (x @ w)))) / x.shape[0] + 0.005 * np.sum(w * w)


def mlp(x, w1, b1, w2, b2, w3, b3):
    """A network with two hidden layers: the outputs of one input, or of rows of inputs."""
    return np.tanh(np.tanh(x @ w1 + b1) @ w2 + b2) @ w3 + b3


def mlp_loss(w1, b1, w2, b2, w3, b3, x, y):
    return np.sum((mlp(x, w1, b1, w2, b2, w3, b3) - y) ** 2) / x.shape[0]


def dense(x, a, b):
    """A vector function with two products."""
    return b @ np.tanh(a @ x)


def lennard_jones(x, i, j):
    """The energy of a cluster, every pair once."""
    d = x[i] - x[j]
    inverse = 1.0 / np.sum(d * d, axis=1) ** 3
    return np.sum(4.0 * (inverse * inverse - inverse))


def gaussian_process(theta, squares, eye, y):
    """Minus the log marginal likelihood: log amplitude, length and noise; squared distances."""
    signal = np.exp(2.0 * theta[0] - 0.5 * squares * np.exp(-2.0 * theta[1]))
    factor = np.linalg.cholesky(signal + np.exp(2.0 * theta[2]) * eye)
    z = np.linalg.solve(factor, y)
    constant = 0.5 * y.shape[0] * np.log(2.0 * np.pi)
    return 0.5 * np.sum(z * z) + np.sum(np.log(np.diag(factor))) + constant


def bratu(u):
    """The squared residual of Bratu's equation on the unit square, five points a node."""
    spacing = 1.0 / (u.shape[0] - 1)
    middle = u[1:-1, 1:-1]
    laplacian = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * middle
    residual = laplacian + 6.0 * spacing**2 * np.exp(middle)
    return np.sum(residual * residual)
