"""A function of the benchmarks with SciPy's error function, for which a peer gets its own."""

import numpy as np
from scipy.special import erf


def black_scholes(spot, sigma, strike, time, rate):
    """The worth of a book of European calls."""
    root = sigma * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * sigma**2) * time) / root
    paid = strike * np.exp(-rate * time)
    upper, lower = 1.0 + erf(d1 / np.sqrt(2.0)), 1.0 + erf((d1 - root) / np.sqrt(2.0))
    return np.sum(0.5 * spot * upper - 0.5 * paid * lower)
