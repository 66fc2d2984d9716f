"""A neuron of Hodgkin and Huxley by Euler's method, as users write it: a loop of Python.

A. L. Hodgkin and A. F. Huxley, A quantitative description of membrane current and its application
to conduction and excitation in nerve, Journal of Physiology 117, 1952.
"""

import numpy as np

PARAMETERS = np.array([120.0, 36.0, 0.3, 10.0])  # conductances of Na, K and leak; current
START = (-65.0, 0.05, 0.6, 0.32)
STEP = 0.01  # milliseconds


def slopes(v, m, h, n, p):
    """Time derivatives of the potential and the three gates."""
    am = 0.1 * (v + 40.0) / (1.0 - np.exp(-(v + 40.0) / 10.0))
    bm = 4.0 * np.exp(-(v + 65.0) / 18.0)
    ah = 0.07 * np.exp(-(v + 65.0) / 20.0)
    bh = 1.0 / (1.0 + np.exp(-(v + 35.0) / 10.0))
    an = 0.01 * (v + 55.0) / (1.0 - np.exp(-(v + 55.0) / 10.0))
    bn = 0.125 * np.exp(-(v + 65.0) / 80.0)
    current = p[3] - p[0] * m**3 * h * (v - 50.0) - p[1] * n**4 * (v + 77.0) - p[2] * (v + 54.387)
    return current, am * (1.0 - m) - bm * m, ah * (1.0 - h) - bh * h, an * (1.0 - n) - bn * n


def of_numbers(steps):
    """The last potential; the state is four numbers."""

    def f(p):
        v, m, h, n = START
        for _ in range(steps):
            dv, dm, dh, dn = slopes(v, m, h, n, p)
            v, m, h, n = v + STEP * dv, m + STEP * dm, h + STEP * dh, n + STEP * dn
        return v

    return f


def of_array(steps):
    """The same with an array of states."""

    def f(p):
        state = np.array(START)
        for _ in range(steps):
            state = state + STEP * np.array(slopes(*state, p))
        return state[0]

    return f


def of_lists(steps):
    """The mean square of all potentials, which are put into a list."""

    def f(p):
        state, potentials = np.array(START), []
        for _ in range(steps):
            state = state + STEP * np.array(slopes(*state, p))
            potentials.append(state[0])
        return np.mean((np.array(potentials) + 60.0) ** 2)

    return f


def of_stores(steps):
    """The same, with states stored into an array of all times."""

    def f(p):
        states = np.zeros((steps + 1, 4))
        states[0] = START
        for k in range(steps):
            states[k + 1] = states[k] + STEP * np.array(slopes(*states[k], p))
        return np.mean((states[1:, 0] + 60.0) ** 2)

    return f


SPELLINGS = {
    "four numbers": of_numbers,
    "an array of states": of_array,
    "a list of results": of_lists,
    "stores into an array": of_stores,
}
