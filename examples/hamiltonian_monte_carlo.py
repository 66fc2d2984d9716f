"""Hamiltonian Monte Carlo in machine code
=======================================

Does coaching help before a test? Eight schools tried (D. Rubin, "Estimation in parallel randomized
experiments", Journal of Educational Statistics 6, 1981). The sampler is a loop under
``@numba.njit`` around the gradient that `fdiff.njit` gives, so a step never comes back to Python.
"""

import matplotlib.pyplot as plt
import numba
import numpy as np

import fdiff

effect = np.array([28.0, 8, -3, 7, -1, 1, 18, 12])
error = np.array([15.0, 10, 16, 11, 9, 11, 10, 18])


def logarithm(q: np.ndarray) -> float:
    """Of the posterior density: a mean, the logarithm of a spread, and eight deviations.

    Priors as in posteriordb: normal of size 5 for the mean, half-Cauchy of size 5 for the spread.
    """
    mean, spread, deviations = q[0], np.exp(q[1]), q[2:]
    misfit = np.sum(((effect - mean - spread * deviations) / error) ** 2)
    prior = (mean / 5.0) ** 2 + np.sum(deviations**2)
    return -0.5 * (misfit + prior) - np.log1p((spread / 5.0) ** 2) + q[1]


slope = fdiff.njit(fdiff.value_and_grad(logarithm), "f8[10]")


# %%
# R. Neal, "MCMC using Hamiltonian dynamics", Handbook of Markov Chain Monte Carlo, 2011: leapfrog
# steps of random number, then accepted or not.


@numba.njit
def sampled(draws: int, step: float, seed: int) -> tuple[np.ndarray, float]:
    """Draws of the posterior, and the share of accepted moves."""
    np.random.seed(seed)  # noqa: NPY002 - Numba's generator
    q, accepted = np.zeros(10), 0
    chain = np.empty((draws, 10))
    value, gradient = slope(q)
    for k in range(draws):
        p = np.random.standard_normal(10)  # noqa: NPY002 - as above
        start = value - 0.5 * np.sum(p**2)
        new, at, g = q.copy(), value, gradient
        for _ in range(np.random.randint(5, 16)):  # noqa: NPY002 - as above
            p = p + 0.5 * step * g
            new = new + step * p
            at, g = slope(new)
            p = p + 0.5 * step * g
        if np.log(np.random.random()) < at - 0.5 * np.sum(p**2) - start:  # noqa: NPY002 - as above
            q, value, gradient, accepted = new, at, g, accepted + 1
        chain[k] = q
    return chain, accepted / draws


chain, share = sampled(40_000, 0.25, 7)
chain = chain[2_000:]
mean, spread = chain[:, 0], np.exp(chain[:, 1])
print(f"{share:.0%} of the moves accepted; mean {mean.mean():.2f} ± {mean.std():.2f}, ", end="")
print(f"spread {spread.mean():.2f} ± {spread.std():.2f}")
assert abs(mean.mean() - 4.4) < 0.2  # the reference draws of posteriordb
assert abs(spread.mean() - 3.6) < 0.3

# %%
schools = mean[:, None] + spread[:, None] * chain[:, 2:]
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
left.hexbin(mean, chain[:, 1], gridsize=40, mincnt=1, cmap="viridis")
left.set(xlabel="mean effect", ylabel="log of the spread", ylim=(-3, 4))
places = np.arange(8)
right.errorbar(places - 0.12, effect, error, fmt="o", alpha=0.6, label="measured")
right.errorbar(places + 0.12, schools.mean(axis=0), schools.std(axis=0), fmt="o", label="posterior")
right.set(xlabel="school", ylabel="effect", xticks=places, xticklabels=list("ABCDEFGH"))
right.legend()
plt.show()
