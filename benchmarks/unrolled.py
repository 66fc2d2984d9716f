"""First derivatives of unrolled loops: `python -m benchmarks.unrolled [WORDS]`.

Processor time from a function that is not known yet to its first gradient, Jacobian and Hessian,
on the interpreter, in a process that has differentiated others, the least of three; a Jacobian
and a Hessian beside the gradient. Programs of 200 steps of a Python loop.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fdiff

from .report import duration, ratio, table
from .run import chosen, keep

STEPS = 200
Function = Callable[[Any], Any]


def runge_kutta(slope: Function, y: Any) -> Any:
    """The last state after steps of the classical method."""
    h = 0.01
    for _ in range(STEPS):
        a = slope(y)
        b = slope(y + h / 2 * a)
        c = slope(y + h / 2 * b)
        d = slope(y + h * c)
        y = y + h / 6 * (a + 2 * b + 2 * c + d)
    return y


def lorenz(y: Any) -> Any:
    return runge_kutta(
        lambda y: np.stack(
            [10.0 * (y[1] - y[0]), y[0] * (28.0 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
        ),
        y,
    )


def oscillators(y: Any) -> Any:
    """Two numbers, each a Python variable."""
    x, v = y[0], y[1]
    for _ in range(STEPS):
        for _ in range(4):
            force = -np.sin(x) - 0.1 * v
            x, v = x + 0.01 * v, v + 0.01 * force
    return np.stack([x, v])


def burgers(u: Any) -> Any:
    for _ in range(STEPS):
        flux, new = 0.5 * u * u, u.copy()
        inner = 0.05 * (flux[2:] - flux[:-2]) - 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        new[1:-1] = u[1:-1] - inner
        u = new
    return u


OBSERVED = np.cumsum(np.random.default_rng(0).normal(size=STEPS))


def kalman(p: Any) -> Any:
    """Innovations of a filter for a position and a speed."""
    shift, look = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    x, cov, found = np.zeros(2), np.eye(2), []
    for k in range(STEPS):
        x, cov = shift @ x, shift @ cov @ shift.T + np.exp(p[0]) * np.eye(2)
        gain = cov @ look.T / ((look @ cov @ look.T)[0, 0] + np.exp(p[1]))
        error = OBSERVED[k] - look @ x
        x, cov = x + gain @ error, cov - gain @ look @ cov
        found.append(error[0])
    return np.stack(found)


CASES: dict[str, tuple[Function, np.ndarray]] = {
    "Lorenz, np.stack": (lorenz, np.array([1.0, 1.1, 0.9])),
    "oscillator, numbers": (oscillators, np.array([1.0, 0.5])),
    "Burgers, 64 cells": (burgers, 1.0 + 0.1 * np.sin(np.linspace(0.0, 6.28, 64))),
    "Kalman filter": (kalman, np.array([-1.0, 0.2])),
}


def first(make: Callable[[], Function], x: np.ndarray) -> float:
    """Seconds from the function to its first derivative."""
    times = []
    for _ in range(3):
        fdiff.cache_clear()
        gc.collect()
        derivative = make()
        begin = time.process_time()
        derivative(x)
        times.append(time.process_time() - begin)
    return min(times)


def main() -> int:
    os.environ.setdefault("FDIFF_TIER", "interpret")
    rows, kept = [], {}
    for name in chosen(sys.argv[1:], CASES):
        f, x = CASES[name]
        g = lambda x, f=f: np.sum(f(x) ** 2)  # noqa: E731 - a line
        makers = (
            lambda g=g: fdiff.grad(g), lambda f=f: fdiff.jacobian(f), lambda g=g: fdiff.hessian(g),
        )  # fmt: skip
        gradient, jacobian, hessian = (first(make, x) for make in makers)
        kept[name] = {"gradient": gradient, "Jacobian": jacobian, "Hessian": hessian}
        figures = [*map(duration, (gradient, jacobian, hessian))]
        rows.append([name, *figures, ratio(jacobian / gradient), ratio(hessian / gradient)])
    head = ["200 steps, first", "gradient", "Jacobian", "Hessian", "Jacobian / g.", "Hessian / g."]
    print(table(head, rows))
    keep("loops", "unrolled, seconds to the first", kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
