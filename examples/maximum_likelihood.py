"""Maximum likelihood with standard errors
=======================================

Logistic regression on the 23 flights of the space shuttle before Challenger: did rings of the
boosters suffer at low temperatures? Data: S. Dalal, E. Fowlkes and B. Hoadley, "Risk analysis of
the space shuttle", Journal of the American Statistical Association 84, 1989.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

import fdiff

fahrenheit = np.array(
    [66.0, 70, 69, 68, 67, 72, 73, 70, 57, 63, 70, 78, 67, 53, 67, 75, 70, 81, 76, 79, 75, 76, 58]
)
damaged = np.array([0, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1])


def loss(b: np.ndarray) -> float:
    """Minus the logarithm of the likelihood of what was seen."""
    score = b[0] + b[1] * fahrenheit
    return np.sum(np.logaddexp(0.0, score) - damaged * score)


# %%
# Newton's method needs the gradient and the Hessian. The inverse of the Hessian at the minimum is
# the covariance of the estimates. For another model, change `loss`: with a log link, Poisson counts
# have ``np.sum(np.exp(score) - counts * score)``.

hessian = fdiff.hessian(loss)
fit = minimize(
    fdiff.value_and_grad(loss), np.zeros(2), jac=True, hess=hessian, method="trust-exact"
)
covariance = np.linalg.inv(hessian(fit.x))
errors = np.sqrt(np.diag(covariance))
for name, value, error in zip(("intercept", "slope"), fit.x, errors, strict=True):
    print(f"{name:10}{value:8.4f} ± {error:.4f}")
assert np.allclose(fit.x, [15.0429, -0.2322], rtol=1e-3)  # what R's glm gives
assert np.allclose(errors, [7.3786, 0.1082], rtol=1e-3)

# %%
# The band is that of the score, by the delta method: the score's gradient times the covariance.
# At the launch of Challenger it was 31 degrees.

cold = np.linspace(30.0, 85.0, 200)
rows = np.stack([np.ones_like(cold), cold], axis=1)
deviation = np.sqrt(np.sum((rows @ covariance) * rows, axis=1))
score = rows @ fit.x
middle, low, high = (expit(score + bars * deviation) for bars in (0.0, -1.96, 1.96))
_, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.fill_between(cold, low, high, alpha=0.3, label="95 % band")
axes.plot(cold, middle, label="chance of damage")
axes.plot(fahrenheit, damaged, "o", alpha=0.6, label="flights")
axes.axvline(31.0, linestyle="--", color="tab:red", label="the launch of Challenger")
axes.set(xlabel="temperature, °F", ylabel="damaged rings")
axes.legend(loc=(0.08, 0.05))
plt.show()
