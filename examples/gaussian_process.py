"""Gaussian process
================

Regression with a smooth random function. Its variance, its length and the noise are those of the
largest marginal likelihood (C. Rasmussen and C. Williams, "Gaussian Processes for Machine
Learning", MIT Press 2006, section 5.4).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize

import fdiff

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(-5.0, 5.0, 60))
y = np.sinc(x) + 0.3 * np.cos(1.3 * x) + 0.1 * rng.normal(size=x.size)


def kernel(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The covariance of the values at `a` and `b`; `p` are logarithms."""
    return np.exp(2 * p[0] - 0.5 * ((a[:, None] - b) / np.exp(p[1])) ** 2)


def loss(p: np.ndarray) -> float:
    """Minus the logarithm of the marginal likelihood."""
    factor = cholesky(kernel(x, x, p) + np.exp(2 * p[2]) * np.eye(x.size), lower=True)
    weights = cho_solve((factor, True), y)
    return 0.5 * y @ weights + np.sum(np.log(np.diag(factor))) + x.size / 2 * np.log(2 * np.pi)


# %%
# The gradient through the factorisation is exact, and so is the Hessian, which says how well the
# data determine the three numbers.

start = np.log([1.0, 1.0, 0.3])
fit = minimize(fdiff.value_and_grad(loss), start, jac=True, method="BFGS", options={"gtol": 1e-8})
errors = np.sqrt(np.diag(np.linalg.inv(fdiff.hessian(loss, fit.x))))
for name, value, error in zip(("size", "length", "noise"), np.exp(fit.x), errors, strict=True):
    print(f"{name:7}{value:.3f}, off by a factor of {np.exp(error):.2f} or less")

# %%
# The formula for one of the derivatives, by hand: half the trace of (K⁻¹ - K⁻¹ y yᵀ K⁻¹) dK/dp.

inverse = np.linalg.inv(kernel(x, x, start) + np.exp(2 * start[2]) * np.eye(x.size))
inner = inverse - np.outer(inverse @ y, inverse @ y)
by_hand = 0.5 * np.trace(inner @ (2 * kernel(x, x, start)))
assert np.isclose(fdiff.grad(loss)(start)[0], by_hand, rtol=1e-9)
assert 0.07 < np.exp(fit.x[2]) < 0.13  # the noise that was added: 0.1

# %%
fine = np.linspace(-7.0, 7.0, 300)
across = kernel(fine, x, fit.x)
inverse = np.linalg.inv(kernel(x, x, fit.x) + np.exp(2 * fit.x[2]) * np.eye(x.size))
mean = across @ inverse @ y
deviation = np.sqrt(np.exp(2 * fit.x[0]) - np.sum((across @ inverse) * across, axis=1))
_, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.fill_between(fine, mean - 2 * deviation, mean + 2 * deviation, alpha=0.3, label="95 % band")
axes.plot(fine, mean, label="mean")
axes.plot(x, y, "o", markersize=4, label="data")
axes.legend()
plt.show()
