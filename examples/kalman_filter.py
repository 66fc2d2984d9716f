"""Kalman filter fit
=================

The level of the Nile drifts, and is measured with errors. How much of each? The filter is a plain
Python loop over the years. Data and estimates: J. Durbin and S. Koopman, "Time Series Analysis by
State Space Methods", 2nd ed., Oxford 2012, section 2.10.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import fdiff

flow = np.array([
    1120.0, 1160, 963, 1210, 1160, 1160, 813, 1230, 1370, 1140, 995, 935, 1110, 994,
    1020, 960, 1180, 799, 958, 1140, 1100, 1210, 1150, 1250, 1260, 1220, 1030, 1100, 774,
    840, 874, 694, 940, 833, 701, 916, 692, 1020, 1050, 969, 831, 726, 456, 824,
    702, 1120, 1100, 832, 764, 821, 768, 845, 864, 862, 698, 845, 744, 796, 1040,
    759, 781, 865, 845, 944, 984, 897, 822, 1010, 771, 676, 649, 846, 812, 742,
    801, 1040, 860, 874, 848, 890, 744, 749, 838, 1050, 918, 986, 797, 923, 975,
    815, 1020, 906, 901, 1170, 912, 746, 919, 718, 714, 740,
])  # fmt: skip
years = np.arange(1871, 1971)


def filtered(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Levels, their variances, and minus the logarithm of the likelihood."""
    measured, drift = np.exp(p)
    level, variance, loss = flow[0], measured, 0.0  # the first year tells where it starts
    levels, variances = np.zeros(flow.size), np.zeros(flow.size)
    levels[0], variances[0] = level, variance
    for k in range(1, flow.size):
        variance = variance + drift
        surprise, spread = flow[k] - level, variance + measured
        loss = loss + 0.5 * (np.log(2 * np.pi * spread) + surprise**2 / spread)
        level = level + variance / spread * surprise
        variance = variance * measured / spread
        levels[k], variances[k] = level, variance
    return levels, variances, loss


# %%
# Gradient and Hessian of the loop, for the fit and for its standard errors.


def loss(p: np.ndarray) -> float:
    """What the fit makes small."""
    return filtered(p)[2]


start = np.log([10_000.0, 5_000.0])
hessian = fdiff.hessian(loss)
fit = minimize(fdiff.value_and_grad(loss), start, jac=True, hess=hessian, method="trust-exact")
errors = np.sqrt(np.diag(np.linalg.inv(hessian(fit.x))))
for name, value, error in zip(("measurement", "drift"), np.exp(fit.x), errors, strict=True):
    print(f"{name:12} variance {value:7.0f}, within a factor of {np.exp(error):.2f}")
assert np.allclose(np.exp(fit.x), [15099.0, 1469.1], rtol=1e-3)  # published

# %%
levels, variances, _ = filtered(fit.x)
band = 1.645 * np.sqrt(variances)
_, axes = plt.subplots(figsize=(8, 4), layout="constrained")
axes.fill_between(years, levels - band, levels + band, alpha=0.3, label="90 % band")
axes.plot(years, levels, label="level")
axes.plot(years, flow, ".", label="measured")
axes.axvline(1899, linestyle="--", color="tab:gray", label="the first dam at Aswan")
axes.set(ylabel="flow of the Nile, 10⁸ m³ a year")
axes.legend()
plt.show()
