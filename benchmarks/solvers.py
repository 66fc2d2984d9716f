"""Solvers with derivatives of `fdiff.optimize`: seconds of processor time, and fdiff's share.

    python -m benchmarks.solvers [files of PGLib-OPF ...]

It prints, for AC optimal power flow, the optimum and the seconds of one solve through each package
of IPOPT; for a Bratu problem of 10,000 unknowns the seconds of value and gradient beside SciPy's
sparse Newton steps; the cost of one evaluation by SciPy's methods; and for CVODE of SUNDIALS on a
Brusselator of 2,048 unknowns right-hand sides and the share of Jacobians, compiled and before.
Minima of several runs.
"""

import importlib
import runpy
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import process_time, thread_time
from typing import Any

import numpy as np
from scipy.optimize import Bounds
from scipy.sparse.linalg import splu

import fdiff
from fdiff.optimize import Problem, counted_functions, curve_fit, ipopt, least_squares, root

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))
CASES = [str(TESTS / "data" / "opf" / f"pglib_opf_case{n}_ieee.m") for n in (14, 118)]


# Shares are those of the thread: others may run beside it.
counted_functions.perf_counter = thread_time


def fastest(call: Callable[[], object], runs: int = 5) -> float:
    """Seconds of processor time of the fastest of several calls."""
    seconds: list[float] = []
    for _ in range(runs):
        begin = process_time()
        call()
        seconds.append(process_time() - begin)
    return min(seconds)


def power_flow(file: str) -> None:
    """One row for each package of IPOPT."""
    acopf: Any = importlib.import_module("user_code.acopf")
    data = acopf.load(file)
    start, (low, high, lower, upper) = acopf.start(data), acopf.bounds(data)
    problem = Problem(
        acopf.objective, acopf.constraints, bounds=Bounds(low, high), lower=lower, upper=upper,
        args=(data,),
    )  # fmt: skip
    compiled = fastest(lambda: problem.compile(start), 1)
    for name in ("cyipopt", "ipyopt"):
        if not find_spec(name):
            continue
        module = importlib.import_module(name)
        ipopt._module = lambda _, module=module: module
        result: Any = None
        best, within = np.inf, np.inf
        for _ in range(10):
            begin = thread_time()
            result = problem.ipopt(start, options={"tol": 1e-8})
            best = min(best, thread_time() - begin)
            assert problem.report is not None
            seconds = problem.report.seconds
            within = min(within, sum(seconds.values()) - seconds["solver"])
        row = f"{result.fun:.4f} in {result.nit} iterations, {best:.3f} s"
        row += f", {100 * within / best:.1f} % in functions, compile {compiled:.2f} s"
        print(f"{Path(file).stem} {name}: {row}")


SIDE = 100


def bratu(u: Any, p: Any) -> Any:
    """Residuals of a nonlinear Poisson equation on a square."""
    inner = np.pad(u.reshape(SIDE, SIDE), 1)
    around = inner[2:, 1:-1] + inner[:-2, 1:-1] + inner[1:-1, 2:] + inner[1:-1, :-2]
    return (around - 4 * inner[1:-1, 1:-1]).ravel() * (SIDE + 1) ** 2 + p * np.exp(u)


def systems() -> None:
    """Value and gradient of a root, beside Newton's steps by hand."""
    start, slopes = np.zeros(SIDE * SIDE), fdiff.jacobian(bratu, sparse="csc")
    residual = fdiff.jit(bratu)

    def by_hand() -> None:
        u = start
        for _ in range(5):
            u = u - splu(slopes(u, 5.0)).solve(residual(u, 5.0))

    both = fdiff.value_and_grad(lambda p: np.mean(root(bratu, start, p)))
    value = fastest(lambda: root(bratu, start, 5.0))
    print(f"Bratu: root {value:.3f} s, value and gradient {fastest(lambda: both(5.0)):.3f} s, "
          f"five steps by hand {fastest(by_hand):.3f} s")  # fmt: skip


def costs() -> None:
    """Microseconds of an evaluation, the solver included, after everything is compiled."""
    x = np.linspace(0.0, 2.0, 25)
    y = 2.0 * np.exp(-0.7 * x)

    def chain(x: Any) -> Any:
        return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    problem = Problem(chain, lambda x: x[1:] ** 2 + x[:-1], lower=-np.inf, upper=1.5)
    for _ in range(3):
        problem.minimize(np.full(10, 0.2))
    assert problem.report is not None
    counts, seconds = problem.report.counts, problem.report.seconds
    total = sum(t for name, t in seconds.items() if name != "solver")
    print(f"SLSQP: {1e6 * total / sum(counts.values()):.1f} us each of {counts}")
    fits = {
        "least_squares": lambda: least_squares(lambda p: p[0] * np.exp(-p[1] * x) - y, [1, 1]),
        "curve_fit": lambda: curve_fit(lambda x, a, b: a * np.exp(-b * x), x, y, [1, 1]),
    }
    for name, fit in fits.items():
        print(f"{name}: {1e3 * fastest(fit, 20):.2f} ms a fit")


def integrator() -> None:
    """CVODE with exact Jacobians, beside its own differences."""
    example = runpy.run_path(str(TESTS.parent / "examples" / "brusselator.py"))
    if example["CVODE"] is None:
        return
    slope, y, calls, within = fdiff.jit(example["slope"]), example["start"](1024), [0], [0.0]
    jacobian = fdiff.jacobian(example["slope"], argnums=1, sparse="csc")

    def right_hand_side(t: float, y: Any, out: Any) -> None:
        calls[0] += 1
        out[:] = slope(t, y)

    def fill(t: float, y: Any, _: Any, entries: Any) -> None:
        begin = thread_time()
        jacobian.data(t, y, out=entries)
        within[0] += thread_time() - begin

    def solved(**given: Any) -> tuple[int, float]:
        calls[0], within[0], begin = 0, 0.0, thread_time()
        places = {"linsolver": "sparse", "sparsity": jacobian.pattern(0.0, y)}
        solver = example["CVODE"](right_hand_side, **places, **example["ACCURACY"], **given)
        solver.solve(np.array([0.0, 10.0]), y)
        return calls[0], within[0] / (thread_time() - begin)

    count, by_numpy = min(solved(jacfn=fill) for _ in range(5))
    jacobian.data.compile(0.0, y)
    _, share = min(solved(jacfn=fill) for _ in range(5))
    print(f"CVODE: {count} right-hand sides, {solved()[0]} with its own differences, Jacobians "
          f"{100 * share:.1f} % of the time, {100 * by_numpy:.1f} % before compile()")  # fmt: skip


if __name__ == "__main__":
    for case in sys.argv[1:] or CASES:
        power_flow(case)
    if not sys.argv[1:]:
        systems()
        costs()
        integrator()
