"""An inverse problem of a PDE
===========================

How well does each part of a plate conduct heat, if its temperature is known at some places? The
temperature solves a diffusion equation. Its gradient by 100 unknown conductivities is that of the
adjoint method: one more solve, whatever their number.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import fdiff

N = 10  # cells of a side
NOISE = 0.002
rows, columns = np.divmod(np.arange(N * N), N)
right = np.flatnonzero(columns < N - 1)
down = np.flatnonzero(rows < N - 1)
first, second = np.concatenate([right, down]), np.concatenate([right + 1, down + N])
heated = np.where((rows > 1) & (rows < N - 2), 0.1, 0.0)


def temperature(p: np.ndarray) -> np.ndarray:
    """The temperature of each cell; `p` are logarithms of conductivities. Sides left and right
    are held at zero.
    """
    k = np.exp(p)
    between = 2.0 * k[first] * k[second] / (k[first] + k[second])
    matrix = np.zeros((N * N, N * N))
    np.add.at(matrix, (first, first), between)
    np.add.at(matrix, (second, second), between)
    np.add.at(matrix, (first, second), -between)
    np.add.at(matrix, (second, first), -between)
    edge = np.where((columns == 0) | (columns == N - 1), 2.0 * k, 0.0)
    return np.linalg.solve(matrix + np.diag(edge), heated)


# %%
# The truth is a plate with a spot that conducts badly. Smooth conductivities are preferred.

truth = np.where((rows - 4) ** 2 + (columns - 6) ** 2 < 6, np.log(0.3), 0.0)
measured = temperature(truth) + NOISE * np.random.default_rng(0).normal(size=N * N)


def misfit(p: np.ndarray) -> float:
    """Squared errors by the noise, and a penalty for steps between neighbours."""
    steps = p[first] - p[second]
    fit = np.sum((temperature(p) - measured) ** 2) / NOISE**2
    return fit + 40.0 * np.sum(np.sqrt(steps**2 + 1e-3))


value_and_grad = fdiff.value_and_grad(misfit)
found = minimize(value_and_grad, np.zeros(N * N), jac=True, method="L-BFGS-B",
                 options={"maxiter": 400, "maxfun": 1000})  # fmt: skip
left = np.sqrt(np.mean((temperature(found.x) - measured) ** 2))
print(f"{found.nit} steps; the temperatures are met up to {left:.4f}, the noise is {NOISE}")
assert 0.6 * NOISE < left < 1.1 * NOISE
assert np.corrcoef(found.x, truth)[0, 1] > 0.9

# %%
# The adjoint method by hand, for one number: dT/dp solves a system with the same matrix.

direction = np.zeros(N * N)
direction[50] = 1e-5
quotient = (misfit(truth + direction) - misfit(truth - direction)) / 2e-5
assert np.isclose(value_and_grad(truth)[1][50], quotient, rtol=1e-4)

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
fields = {"temperature": measured, "true conductivity": np.exp(truth), "found": np.exp(found.x)}
for panel, (name, field) in zip(axes, fields.items(), strict=True):
    limits = {} if name == "temperature" else {"vmin": 0.2, "vmax": 1.2}
    cmap = "inferno" if name == "temperature" else "viridis"
    figure.colorbar(panel.imshow(field.reshape(N, N), cmap=cmap, **limits), shrink=0.8)
    panel.set(title=name, xticks=[], yticks=[])
plt.show()
