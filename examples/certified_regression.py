"""Regression with certified error bars
====================================

A nonlinear fit whose parameters and standard errors NIST certifies to 11 digits. The data are those
of Kowalik and Osborne, set MGH09 of the Statistical Reference Datasets
(https://www.itl.nist.gov/div898/strd/nls/data/mgh09.shtml), a problem of higher difficulty.
"""

import matplotlib.pyplot as plt
import numpy as np

from fdiff.optimize import least_squares

x = np.array([4.0, 2, 1, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])
y = np.array([0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246])
certified = np.array([0.19280693458, 0.19128232873, 0.12305650693, 0.13606233068])
certified_errors = np.array([0.011435312227, 0.19633220911, 0.080842031232, 0.090025542308])


def rate(b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The rate of an enzyme, by the concentration of what it acts on."""
    return b[0] * (x**2 + b[1] * x) / (x**2 + b[2] * x + b[3])


# %%
# The solver gets the exact Jacobian of the residuals. The standard errors follow from the same
# Jacobian at the end.

start = [0.25, 0.39, 0.415, 0.39]
fit = least_squares(lambda b: rate(b, x) - y, start, xtol=1e-15, ftol=1e-15, gtol=1e-15)
print(fit)
assert np.allclose(fit.x, certified, rtol=1e-7)
assert np.allclose(fit.stderr, certified_errors, rtol=1e-7)

# %%
# Each parameter is uncertain by half of its value or more. The curve is not: the errors of the
# parameters are correlated, which the band takes into account.

fine = np.geomspace(0.05, 5.0, 200)
low, high = fit.band(rate, fine)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.fill_between(fine, low, high, alpha=0.3, label="95 % band")
left.semilogx(fine, rate(fit.x, fine), label="fit")
left.plot(x, y, "o", label="measured")
left.set(xlabel="concentration", ylabel="rate")
left.legend()
picture = right.imshow(fit.correlation, cmap="PuOr", vmin=-1.0, vmax=1.0)
names = [f"b{k}" for k in range(1, 5)]
right.set(xticks=range(4), yticks=range(4), xticklabels=names, yticklabels=names)
right.set_title("correlation of the parameters")
figure.colorbar(picture)
plt.show()
