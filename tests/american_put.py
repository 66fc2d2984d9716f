"""An American put on a binomial tree, and one with another branch."""

import numpy as np


def american_put(s, k=1.0, rate=0.02, sigma=0.3, steps=50):
    """A loop of 1,275 comparisons, with stores."""
    dt = 1.0 / steps
    up = np.exp(sigma * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    stock = s * up ** np.arange(-steps, steps + 1, 2.0)
    value = np.zeros(steps + 1)
    value[:] = np.maximum(k - stock, 0.0)
    for step in range(steps):
        value[:-1] = np.exp(-rate * dt) * (p * value[1:] + (1.0 - p) * value[:-1])
        for i in range(steps - step):
            exercise = k - stock[i] * up ** (step + 1)
            if exercise > value[i]:  # noqa: PLR1730 - as users write it
                value[i] = exercise
    return value[0]


def conditional_put(s, k=1.0, rate=0.02, sigma=0.3, steps=50):
    """The same with a branch that fdiff makes no select of."""
    dt = 1.0 / steps
    up = np.exp(sigma * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    stock = s * up ** np.arange(-steps, steps + 1, 2.0)
    value = np.zeros(steps + 1)
    value[:] = np.maximum(k - stock, 0.0)
    for step in range(steps):
        value[:-1] = np.exp(-rate * dt) * (p * value[1:] + (1.0 - p) * value[:-1])
        for i in range(steps - step):
            exercise = k - stock[i] * up ** (step + 1)
            value[i] = exercise if exercise > value[i] else value[i]  # noqa: FURB136 - as above
    return value[0]
