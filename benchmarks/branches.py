"""Code that takes another way at each call, and methods: `python -m benchmarks.branches`.

Value and gradient of the same source by fdiff and by autograd, a fresh random point at each call;
medians over calls after the first hundred. Functions of a few ways are compiled. README's American
put from its first call on, as it is written there (branches become selects) and with a conditional
expression (calls are eager). For a method of a class, beside the same as functions.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence

import autograd
import autograd.numpy as anp
import numpy as np

import fdiff
from fdiff.process.background import worker

from .inputs import HERE, functions
from .report import duration, ratio, table

WARM, CALLS = 100, 200
N = 30
TOLERANCE = 1e-10

Array = np.ndarray
Function = Callable[..., object]
PUTS = functions(HERE.parent / "tests" / "american_put.py", np)


def branching(np: object) -> Function:
    """Thirty branches, each by the sign of an entry."""

    def f(x):
        s = 0.0
        for i in range(N):
            s = s + np.sin(x[i]) * x[i] if x[i] > 0 else s - np.exp(x[i])
        return s

    return f


def corana(np: object) -> Function:
    """Corana's function, of two branches for each of four entries, by a constant of the way."""

    def f(x):
        weights, r = [1.0, 1000.0, 10.0, 100.0], 0.0
        for j in range(4):
            z = np.floor(np.abs(x[j] / 0.2) + 0.49999) * np.sign(x[j]) * 0.2
            if abs(x[j] - z) < 0.05:
                r = r + 0.15 * (z - 0.05 * np.sign(z)) ** 2 * weights[j]
            else:
                r = r + weights[j] * x[j] * x[j]
        return r

    return f


def deceptive(np: object) -> Function:
    """SciPy's deceptive function: one of four ways for each of two entries."""

    def f(x):
        s = 0.0
        for i, a in enumerate((1.0 / 3.0, 2.0 / 3.0)):
            if x[i] < 0.8 * a:
                s = s - x[i] / a + 0.8
            elif x[i] < a:
                s = s + 5.0 * x[i] / a - 4.0
            elif x[i] < (1.0 + 4.0 * a) / 5.0:
                s = s + 5.0 * (x[i] - a) / (a - 1.0) + 1.0
            else:
                s = s + (x[i] - 1.0) / (1.0 - a) + 0.8
        return -((s / 2.0) ** 2)

    return f


def newton(np: object) -> Function:
    """The root of y³ + y = a, by as many steps as it takes."""

    def f(x):
        a, y, err = np.sum(x**2), 1.0, 1.0
        while err > 1e-10:
            step = (y**3 + y - a) / (3.0 * y**2 + 1.0)
            y = y - step
            err = abs(step)
        return y

    return f


def rewritten_put(s, k=1.0, rate=0.02, sigma=0.3, steps=50):
    """The same without stores, which autograd cannot differentiate."""
    dt = 1.0 / steps
    up = np.exp(sigma * np.sqrt(dt))
    p = (np.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    stock = s * up ** np.arange(-steps, steps + 1, 2.0)
    value = anp.maximum(k - stock, 0.0)
    for step in range(steps):
        value = np.exp(-rate * dt) * (p * value[1:] + (1.0 - p) * value[:-1])
        entries = []
        for i in range(steps - step):
            exercise = k - stock[i] * up ** (step + 1)
            entries.append(exercise if exercise > value[i] else value[i])  # noqa: FURB136 - as above
        value = anp.array(entries)
    return value[0]


class Potential:
    """A model with parameters, as users write them."""

    def __init__(self, depth: float, width: float, centre: Array) -> None:
        self.depth = depth
        self.width = width
        self.centre = centre

    def distance(self, x):
        return (x - self.centre) / self.width

    def well(self, x):
        return -self.depth * np.exp(-0.5 * np.sum(self.distance(x) ** 2))

    def energy(self, x):
        return self.well(x) + 0.1 * np.sum(x**4)


def as_functions(depth: float, width: float, centre: Array) -> Function:
    """The same without a class."""

    def distance(x):
        return (x - centre) / width

    def well(x):
        return -depth * np.exp(-0.5 * np.sum(distance(x) ** 2))

    def energy(x):
        return well(x) + 0.1 * np.sum(x**4)

    return energy


def timed(calls: Sequence[Function], points: Sequence[Array]) -> list[list[float]]:
    """Seconds of each call at each point: all calls at one point, then at the next."""
    seconds: list[list[float]] = [[] for _ in calls]
    for x in points:
        for found, call in zip(seconds, calls, strict=True):
            begin = time.perf_counter()
            call(x)
            found.append(time.perf_counter() - begin)
    return seconds


def agree(calls: Sequence[Function], x: Array) -> None:
    (value, slope), *others = [call(x) for call in calls]
    for other, other_slope in others:
        np.testing.assert_allclose(other, value, rtol=TOLERANCE)
        np.testing.assert_allclose(other_slope, slope, rtol=TOLERANCE, atol=TOLERANCE)


def compared(name: str, write: Callable[[object], Function], draw: Function) -> list[str]:
    """fdiff and autograd on code that decides by values: a row of the table."""
    ours = fdiff.value_and_grad(write(np))
    theirs = autograd.value_and_grad(write(anp))
    points = [draw() for _ in range(WARM + CALLS)]
    for x in points[:3]:
        agree([ours, theirs], x)
    mine, other = (statistics.median(seconds[WARM:]) for seconds in timed([ours, theirs], points))
    return [name, duration(mine), duration(other), ratio(mine / other)]


def first_and_steady(kinds: Sequence[Function], draw: Function) -> list[list[float]]:
    """For each function the medians of a first call, all programs forgotten, and of later ones."""
    first: list[list[float]] = [[] for _ in kinds]
    for _ in range(20):
        for found, f in zip(first, kinds, strict=True):
            fdiff.cache_clear()
            call, x = fdiff.value_and_grad(f), draw()
            begin = time.perf_counter()
            call(x)
            found.append(time.perf_counter() - begin)
    os.environ["FDIFF_TIER"] = "compile"  # what later calls are, once they have earned it
    calls = [fdiff.value_and_grad(f) for f in kinds]
    points = [draw() for _ in range(WARM + 10 * CALLS)]
    agree(calls, points[0])
    steady = timed(calls, points)
    return [
        [statistics.median(a), statistics.median(b[WARM:])]
        for a, b in zip(first, steady, strict=True)
    ]


def methods(draw: Function) -> list[list[str]]:
    """Rows: the first call, which traces, and later calls."""
    parts = (1.5, 1.2, np.cos(np.arange(float(N))))
    return _rows(first_and_steady([Potential(*parts).energy, as_functions(*parts)], draw))


def _rows(found: list[list[float]]) -> list[list[str]]:
    rows = []
    for k, name in enumerate(("first call, traced", "a call, compiled")):
        method, plain = found[0][k], found[1][k]
        rows.append([name, duration(method), duration(plain), ratio(method / plain)])
    return rows


PUT_CALLS = 600


def puts() -> list[list[str]]:
    """Rows: each way to price the put at a new price each time, from a first call on."""
    rng = np.random.default_rng(0)
    prices = rng.uniform(0.8, 1.2, PUT_CALLS)
    rows = []
    for name, f, derive, count in (
        ("the function itself", PUTS.american_put, lambda f: f, 50),
        ("fdiff, as in README", PUTS.american_put, fdiff.value_and_grad, PUT_CALLS),
        ("fdiff, conditional expression", PUTS.conditional_put, fdiff.value_and_grad, 50),
        ("autograd, without stores", rewritten_put, autograd.value_and_grad, 20),
    ):
        (seconds,) = timed([derive(f)], prices[:count])
        worker.wait()  # each row as a program of its own
        later, last = seconds[2:], seconds[-10:]
        found = (seconds[0], statistics.median(later[:48]), max(later), statistics.median(last))
        rows.append([name, *map(duration, found)])
    return rows


def main() -> None:
    prices = puts()  # with all cores: kernels are made in the background
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rng = np.random.default_rng(0)

    def draw() -> Array:
        return rng.normal(size=N)

    os.environ["FDIFF_TIER"] = "compile"  # what later calls are, once they have earned it
    few = [
        compared("16 ways (Corana)", corana, lambda: rng.uniform(-5.0, 5.0, 4)),
        compared("16 ways (deceptive)", deceptive, lambda: rng.uniform(0.0, 1.0, 2)),
    ]
    del os.environ["FDIFF_TIER"]
    rows = [
        *few,
        compared("30 branches at random", branching, draw),
        compared("Newton, while err > 1e-10", newton, draw),
    ]
    print(table(["value and gradient", "fdiff", "autograd", "fdiff / autograd"], rows))
    print()
    head = ["American put", "first call", "calls 3 to 50", "longest from 3 on", "at the end"]
    print(table(head, prices))
    print()
    head = ["value and gradient", "a method", "the same as functions", "method / functions"]
    print(table(head, methods(draw)))


if __name__ == "__main__":
    main()
