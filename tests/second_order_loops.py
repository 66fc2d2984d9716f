"""Programs with loops, as users write them in place and again for libraries without stores.

Each has its loop in place, for fdiff, and in parts for JAX and torch: what the loop begins with,
one step, and the result. `MASKED` store by masks of traced arrays, `SMOOTH` by none.
"""

from typing import NamedTuple

import numpy as np


class Program(NamedTuple):
    """A program, its point, and its parts for libraries without stores."""

    in_place: object
    begin: object
    step: object
    end: object
    x: np.ndarray
    steps: int

    def of(self, lib, loop):
        """The program in the functions of a library, with its loop over steps."""
        return lambda x: self.end(
            lib, x, loop(self.steps, lambda k, c: self.step(lib, x, k, c), self.begin(lib, x))
        )


STEPS = 50
STATE = np.array([0.4, -0.9, 0.7, 1.2])
WEIGHTS = 0.6 * np.sin(np.arange(16.0) ** 2).reshape(4, 4)


# ------------------------------------------------------------------------------ stores by masks


def boxed(x):
    """Particles in a box, of which those leave that are outside: they come in at its other side."""
    p, v, box = x * 1.0, 3.0 * np.sin(x), 1.1 + 0.1 * x[0]
    for _ in range(STEPS):
        v -= 0.05 * p * p * x[1]
        p += 0.05 * v
        outside = p > 1.0
        p[outside] -= box
        below = p < -1.3
        p[below] += box
    return np.sum(p * p * v)


def boxed_step(lib, x, _, carry):
    p, v = carry
    box = 1.1 + 0.1 * x[0]
    v = v - 0.05 * p * p * x[1]
    p = p + 0.05 * v
    p = lib.where(p > 1.0, p - box, p)
    return lib.where(p < -1.3, p + box, p), v


def clipped(x):
    """Values above a bound become the bound, values below another one a part of themselves."""
    u, top = x * 1.0, 0.9 + 0.1 * x[2] * x[2]
    for _ in range(STEPS):
        u = u + 0.2 * np.sin(3.0 * u) * x[::-1]
        high, low = u > top, u < -0.8
        u[high] = top
        u[low] = 0.5 * u[low] - 0.1 * x[low]
    return np.sum(u * u * x)


def clipped_step(lib, x, _, u):
    u = u + 0.2 * lib.sin(3.0 * u) * lib.flip(x, (0,))
    top = 0.9 + 0.1 * x[2] * x[2]
    high, low = u > top, u < -0.8
    return lib.where(low, 0.5 * u - 0.1 * x, lib.where(high, top, u))


def rectified(x):
    """A network with the same layer many times, whose negative units are a tenth."""
    h = x * 1.0
    for k in range(STEPS):
        h = WEIGHTS @ h + (0.4 + 0.01 * k) * x * x
        negative = h < 0.0
        h[negative] *= 0.1
    return np.sum(h * h)


def rectified_step(lib, x, k, h):
    h = lib.asarray(WEIGHTS) @ h + (0.4 + 0.01 * k) * x * x
    return lib.where(h < 0.0, 0.1 * h, h)


def settled(x):
    """Entries that are small are frozen, and counted with a weight that others decide."""
    u, total = x * 1.0, 0.0
    for _ in range(STEPS):
        still = u * u < 0.05
        v = 0.97 * u + 0.02 * np.roll(u, 1) * x
        v[still] = u[still]
        total = total + np.sum(np.where(still, v * 0.3, 0.0))
        u = v
    return np.sum(u**3) + total * x[3]


def settled_step(lib, x, _, carry):
    u, total = carry
    still = u * u < 0.05
    v = lib.where(still, u, 0.97 * u + 0.02 * lib.roll(u, 1) * x)
    return v, total + lib.sum(lib.where(still, v * 0.3, 0.0 * v))


MASKED = {
    "boxed": Program(
        boxed, lambda lib, x: (x * 1.0, 3.0 * lib.sin(x)), boxed_step,
        lambda lib, x, c: lib.sum(c[0] * c[0] * c[1]), STATE, STEPS,
    ),
    "clipped": Program(
        clipped, lambda lib, x: x * 1.0, clipped_step,
        lambda lib, x, u: lib.sum(u * u * x), STATE, STEPS,
    ),
    "rectified": Program(
        rectified, lambda lib, x: x * 1.0, rectified_step,
        lambda lib, x, h: lib.sum(h * h), STATE, STEPS,
    ),
    "settled": Program(
        settled, lambda lib, x: (x * 1.0, 0.0 * x[0]), settled_step,
        lambda lib, x, c: lib.sum(c[0] ** 3) + c[1] * x[3], STATE, STEPS,
    ),
}  # fmt: skip

# --------------------------------------------------------------- loops of values and of tangents


def lorenz(x):
    y, p = x[:3], x[3:]
    for _ in range(STEPS):
        k1 = _lorenz_rates(np, y, p)
        k2 = _lorenz_rates(np, y + 0.005 * k1, p)
        y = y + 0.01 * k2
    return 0.5 * np.sum(y * y)


def _lorenz_rates(lib, y, p):
    return lib.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])


def lorenz_step(lib, x, _, y):
    k1 = _lorenz_rates(lib, y, x[3:])
    return y + 0.01 * _lorenz_rates(lib, y + 0.005 * k1, x[3:])


MOVE, SEE = np.array([[1.0, 0.7], [0.0, 1.0]]), np.array([[1.0, 0.0]])
SPREAD = np.array([[0.7**3 / 3, 0.7**2 / 2], [0.7**2 / 2, 0.7]])
OBSERVED = np.cumsum(np.sin(np.arange(1.0 * STEPS) ** 2))


def kalman(logs):
    q, r = np.exp(logs[0]), np.exp(logs[1])
    x, cov, total = np.zeros(2), 2.0 * np.eye(2), 0.0
    for t in range(STEPS):
        x[:] = MOVE @ x
        cov[:] = MOVE @ cov @ MOVE.T + q * SPREAD
        v, s = OBSERVED[t] - SEE @ x, SEE @ cov @ SEE.T + r
        gain = cov @ SEE.T @ np.linalg.inv(s)
        x += gain @ v
        cov -= gain @ SEE @ cov
        total = total - 0.5 * (np.log(s[0, 0]) + v[0] ** 2 / s[0, 0])
    return total


def kalman_step(lib, logs, t, carry):
    x, cov, total = carry
    move, see = lib.asarray(MOVE), lib.asarray(SEE)
    x, cov = move @ x, move @ cov @ move.T + lib.exp(logs[0]) * lib.asarray(SPREAD)
    v, s = lib.asarray(OBSERVED)[t] - see @ x, see @ cov @ see.T + lib.exp(logs[1])
    gain = cov @ see.T @ lib.linalg.inv(s)
    total = total - 0.5 * (lib.log(s[0, 0]) + v[0] ** 2 / s[0, 0])
    return x + gain @ v, cov - gain @ see @ cov, total


def burgers(u0):
    u = u0.copy()
    for _ in range(STEPS):
        flux = 0.5 * u * u
        u[1:-1] -= 0.05 * (flux[2:] - flux[:-2]) - 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u**3)


def burgers_step(lib, _, __, u):
    flux = 0.5 * u * u
    change = 0.05 * (flux[2:] - flux[:-2]) - 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return lib.concatenate([u[:1], u[1:-1] - change, u[-1:]])


SMOOTH = {
    "Lorenz": Program(
        lorenz, lambda lib, x: x[:3], lorenz_step, lambda lib, x, y: 0.5 * lib.sum(y * y),
        np.array([1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0]), STEPS,
    ),
    "Kalman": Program(
        kalman, lambda lib, x: (lib.asarray(np.zeros(2)), lib.asarray(2.0 * np.eye(2)), 0.0 * x[0]),
        kalman_step, lambda lib, x, c: c[2], np.array([-1.0, -0.5]), STEPS,
    ),
    "Burgers": Program(
        burgers, lambda lib, x: x * 1.0, burgers_step, lambda lib, x, u: lib.sum(u**3),
        1.0 + 0.5 * np.sin(np.linspace(0.0, 6.28, 12)), STEPS,
    ),
}  # fmt: skip
PROGRAMS = MASKED | SMOOTH


def second_order(grad, hessian, hvp, x):
    """Facts to compare: the gradient, the Hessian, and its product with a direction, twice.

    `hvp` gives that product by the library's own function, and as the tangent of a gradient.
    """
    direction = np.cos(np.arange(1.0, len(x) + 1.0))
    return [grad(x), hessian(x), *hvp(x, direction)]
