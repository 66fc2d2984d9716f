"""Derivatives of solutions of ODEs beside plain solves: `python -m benchmarks.odes [WORDS]`.

A chain of reactions with 4, 12 and 40 parameters, half as many states, 20 times: processor time of
a plain solve by SciPy, of the Jacobian by all parameters in solves, where finite differences take
one more than there are parameters, and of the gradient of a sum of squares in solves. Then a fit
by ``least_squares`` with exact Jacobians and with finite differences. Compiled, the least of five.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import fdiff

from .report import duration, ratio, table
from .run import chosen

METHODS = ("RK45", "DOP853", "Radau", "BDF", "LSODA")
SIZES = (4, 12, 40)
CASES = {f"{method}, {n} parameters": (method, n) for method in METHODS for n in SIZES}


def chain(method: str, n: int) -> tuple[Callable[[Any], Any], np.ndarray]:
    """The states at 20 times as a function of the parameters."""
    m, times = n // 2, np.linspace(0.0, 10.0, 20)
    start, p = np.linspace(1.0, 0.2, m), np.linspace(0.5, 1.5, n)

    def slope(t: float, y: Any, p: Any) -> Any:
        flow = p[:m] * y / (1.0 + p[m:] * y**2)
        return np.concatenate([-flow[:1], flow[:-1] - flow[1:]])

    def states(p: Any) -> Any:
        tolerances = {"rtol": 1e-8, "atol": 1e-9}
        found = solve_ivp(slope, (0.0, 10.0), start, method, times, args=(p,), **tolerances)
        return found.y.ravel()

    return states, p


def least(f: Callable[[np.ndarray], object], p: np.ndarray) -> float:
    """Seconds of a call, each at another point, since results are kept."""
    times = []
    for k in range(7):
        begin = time.process_time()
        f(p * (1.0 + 1e-9 * k))
        times.append(time.process_time() - begin)
    return min(times[2:])


def fitted(f: Callable[[Any], Any], p: np.ndarray, jac: Any) -> float:
    """Seconds of a fit to states with noise, with a Jacobian that has been called before."""
    data = f(p) + 1e-3 * np.random.default_rng(1).normal(size=f(p).size)
    begin = time.process_time()
    least_squares(lambda q: f(q) - data, 0.9 * p, jac=jac)
    return time.process_time() - begin


def main() -> int:
    os.environ.setdefault("FDIFF_TIER", "compile")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    rows = []
    for name in chosen(sys.argv[1:], CASES):
        f, p = chain(*CASES[name])
        jacobian, gradient = fdiff.jacobian(f), fdiff.grad(lambda q, f=f: np.sum(f(q) ** 2))
        plain, whole, slope = least(f, p), least(jacobian, p), least(gradient, p)
        fits = [fitted(f, p, jac) for jac in (jacobian, "2-point")]
        figures = [f"{whole / plain:.1f}", f"{slope / plain:.1f}", f"{p.size + 1}"]
        rows.append(
            [name, duration(plain), *figures, *map(duration, fits), ratio(fits[0] / fits[1])]
        )
    head = ["", "plain solve", "Jacobian, solves", "gradient, solves", "differences, solves"]
    print(table([*head, "fit", "by differences", "ratio"], rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
