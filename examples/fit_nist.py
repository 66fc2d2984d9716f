"""NIST's certified regressions
============================

Fits with exact Jacobians, and the number of their correct digits. Run it with

.. code-block:: sh

    python examples/fit_nist.py [DATASET]    one data set: parameters and standard errors (Hahn1)
    python examples/fit_nist.py --all        the digits of all 27, from both starting points

NIST certifies parameters and standard errors of 27 nonlinear regressions to 11 digits
(https://www.itl.nist.gov/div898/strd/nls/nls_main.shtml). Each is fitted twice: with the Jacobian
that fdiff derives from the model, and with SciPy's default, forward differences.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

import fdiff

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "user_code"))
import nist

Vector = np.ndarray
Jacobian = Callable[[Vector], np.ndarray]

STARTS = ("start1", "start2")
CERTIFIED_DIGITS = 11
WANTED_OF_FITS, WANTED_OF_ERRORS = 6, 9
# Its residuals, of 1e-13, are lost in the rounding of its parameters to 11 printed digits.
NOT_REPRODUCIBLE = {"Lanczos1"}


class Problem(NamedTuple):
    """One regression: its residuals as a function of the parameters, and what NIST certifies."""

    name: str
    data: dict[str, Vector]
    residuals: Callable[[Vector], Vector]
    exact: Jacobian


class Fit(NamedTuple):
    """What one fit gave: SciPy's result, the standard errors, seconds spent."""

    result: OptimizeResult
    errors: Vector
    seconds: float


def problem(name: str) -> Problem:
    """The data set `name`, ready to fit: the last line is all it takes to have its Jacobian."""
    data, model = nist.read(name), nist.MODELS[name]
    x, y = data["x"], data["y"]

    def residuals(b: Vector) -> Vector:
        return model(b, x) - y

    return Problem(name, data, residuals, fdiff.jacobian(residuals))


def forward_differences(f: Callable[[Vector], Vector], b: Vector) -> np.ndarray:
    """The Jacobian of `f` at `b` by one step a column, of the size SciPy takes for "2-point"."""
    steps = np.sqrt(np.finfo(float).eps) * np.maximum(1.0, np.abs(b)) * np.where(b < 0, -1.0, 1.0)
    columns = [(f(row) - f(b)) / (row[k] - b[k]) for k, row in enumerate(b + np.diag(steps))]
    return np.stack(columns, axis=1)


def standard_errors(jacobian: np.ndarray, residuals: Vector, dof: int) -> Vector:
    """Square roots of the diagonal of ``s**2 inv(J.T @ J)``.

    By QR of J with its columns scaled to length one: ``inv(R) @ inv(R).T`` is that inverse, without
    the squared condition number of ``J.T @ J`` (Björck, Numerical Methods for Least Squares
    Problems, SIAM 1996, section 2.8.3).
    """
    lengths = np.linalg.norm(jacobian, axis=0)
    r_inverse = np.linalg.inv(np.linalg.qr(jacobian / lengths, mode="r"))
    return np.sqrt(residuals @ residuals / dof) * np.linalg.norm(r_inverse, axis=1) / lengths


def fit(problem: Problem, start: str, jacobian: Jacobian | str) -> Fit:
    """One fit, with the same settings for every data set."""
    begin = time.perf_counter()
    with np.errstate(all="ignore"):  # a trial step may overflow; the solver then shortens it
        result = least_squares(
            problem.residuals,
            problem.data[start],
            jac=jacobian,
            method="trf",
            x_scale="jac",
            xtol=1e-15,
            ftol=1e-15,
            gtol=1e-15,
            max_nfev=2000,
        )
        errors = standard_errors(result.jac, result.fun, problem.data["dof"])
    return Fit(result, errors, time.perf_counter() - begin)


def digits(value: float | Vector, certified: float | Vector) -> float:
    """Correct significant digits, of the worst entry; no more than NIST certifies."""
    with np.errstate(all="ignore"):
        found = nist.lre(value, certified)
    return min(max(found, 0.0), float(CERTIFIED_DIGITS)) if np.isfinite(found) else 0.0


def show_fit(title: str, problem: Problem, found: Fit) -> None:
    """Parameters and standard errors beside the certified ones."""
    result, data = found.result, problem.data
    work = f"{result.nfev} evaluations, {result.njev} Jacobians, {found.seconds:.3f} s"
    print(f"\n{title}: {work}\n")
    print(f"{'parameter':>22}{'certified':>19}{'digits':>8}", end="")
    print(f"{'standard error':>21}{'certified':>19}{'digits':>8}")
    rows = zip(result.x, data["b"], found.errors, data["sd"], strict=True)
    for k, (b, b_certified, error, error_certified) in enumerate(rows, start=1):
        print(f"b{k}{b:20.10e}{b_certified:19.10e}{digits(b, b_certified):8.1f}", end="")
        print(f"{error:21.10e}{error_certified:19.10e}{digits(error, error_certified):8.1f}")
    worst = digits(result.x, data["b"]), digits(found.errors, data["sd"])
    print(f"worst{worst[0]:44.1f}{worst[1]:48.1f}")


def show_one(name: str) -> int:
    """One data set from its harder starting point, by both Jacobians."""
    p = problem(name)
    m, n = len(p.data["y"]), len(p.data["b"])
    print(f"{name}: {m} observations, {n} parameters, from NIST's start 1, far from the solution")
    show_fit("Exact Jacobian, by fdiff.jacobian", p, fit(p, "start1", p.exact))
    show_fit(
        f"Finite differences (SciPy's default, {n} evaluations a Jacobian)",
        p,
        fit(p, "start1", "2-point"),
    )
    return 0


def errors_at_certified(p: Problem, jacobian: np.ndarray) -> float:
    """Digits of the standard errors that `jacobian`, taken at the certified parameters, gives."""
    errors = standard_errors(jacobian, p.residuals(p.data["b"]), p.data["dof"])
    return digits(errors, p.data["sd"])


def all_digits(p: Problem) -> tuple[list[float], list[float]]:
    """Digits of the standard errors and of both fits: by the exact Jacobian, and by differences."""
    b = p.data["b"]
    exact = [errors_at_certified(p, p.exact(b))]
    differences = [errors_at_certified(p, forward_differences(p.residuals, b))]
    for start in STARTS:
        exact.append(digits(fit(p, start, p.exact).result.x, b))
        differences.append(digits(fit(p, start, "2-point").result.x, b))
    return exact, differences


def show_all() -> int:
    """The digits of every data set; 0 if they are as many as an exact Jacobian must give."""
    print("Correct digits of the worst parameter, by exact Jacobian and by finite differences (fd)")
    print(f"\n{'standard errors':>28}{'fit from start 1':>20}{'fit from start 2':>20}")
    print(f"{'':8}" + f" {'exact':>12}{'fd':>7}" * 3)
    short: list[str] = []
    for name in nist.names():
        exact, differences = all_digits(problem(name))
        pairs = zip(exact, differences, strict=True)
        print(f"{name:8}" + "".join(f" {a:12.1f}{b:7.1f}" for a, b in pairs), flush=True)
        errors, *fits = exact
        enough = errors >= WANTED_OF_ERRORS or name in NOT_REPRODUCIBLE
        if not enough or min(fits) < WANTED_OF_FITS:
            short.append(name)
    print(f"\nWanted of the exact Jacobian: {WANTED_OF_FITS} digits of each fit, and")
    print(f"{WANTED_OF_ERRORS} of the standard errors at the certified parameters (Lanczos1 apart,")
    print("where the printed digits cannot give them).")
    print(f"Short of that: {', '.join(short) or 'none'}.")
    return 1 if short else 0


def main() -> int:
    """Read the command line; the exit status."""
    parser = argparse.ArgumentParser(description="Fit NIST regressions with exact Jacobians.")
    parser.add_argument("dataset", nargs="?", default="Hahn1", help="one of NIST's 27 data sets")
    parser.add_argument("--all", action="store_true", help="the digits of all of them")
    options = parser.parse_args()
    if options.dataset not in nist.names():
        parser.error(f"no data set {options.dataset!r}: one of {', '.join(nist.names())}")
    return show_all() if options.all else show_one(options.dataset)


if __name__ == "__main__":
    sys.exit(main())
