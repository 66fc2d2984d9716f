"""A cart that swings up a pole
============================

Optimal control by collocation. Run it with

.. code-block:: sh

    python examples/cart_pole.py [INTERVALS]

A cart moves for two seconds until the pole that hangs from it stands upright, one metre further, at
the least sum of squared forces. Unknowns are all states and forces on a grid of times; equations
between neighbours replace the differential equation (the trapezoidal rule). Model and numbers are
those of M. Kelly, "An Introduction to Trajectory Optimization", SIAM Review 59, 2017, section 6.
IPOPT solves the problem if `ipyopt` is installed, SciPy's SLSQP otherwise. For a free end time,
make the time one more unknown, with bounds above 0.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

from fdiff.optimize import Problem

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Vector = np.ndarray

CART, POLE, LENGTH, GRAVITY = 1.0, 0.3, 0.5, 9.81  # kg, kg, m, m/s²
TIME, WAY, FORCE, RAIL = 2.0, 1.0, 20.0, 2.0  # s, m, and the largest force in N and place in m


def motion(state: Vector, force: Vector) -> Vector:
    """The derivative in time of place, angle and their speeds; each may be a row of times."""
    _, angle, speed, turning = state
    sine, cosine = np.sin(angle), np.cos(angle)
    mass = CART + POLE * sine**2
    pull = force + POLE * LENGTH * turning**2 * sine
    along = (pull + POLE * GRAVITY * cosine * sine) / mass
    around = -(pull * cosine + (CART + POLE) * GRAVITY * sine) / (LENGTH * mass)
    return np.stack([speed, turning, along, around])


def parts(x: Vector) -> tuple[Vector, Vector]:
    """States, of shape (4, times), and forces."""
    table = x.reshape(5, -1)
    return table[:4], table[4]


def effort(x: Vector) -> float:
    """The integral of the squared force."""
    _, force = parts(x)
    return TIME / (force.size - 1) * np.sum((force[1:] ** 2 + force[:-1] ** 2) / 2)


def defects(x: Vector) -> Vector:
    """What the states change by, less the integral of the motion."""
    state, force = parts(x)
    slope = motion(state, force)
    step = TIME / (force.size - 1)
    return (np.diff(state) - step / 2 * (slope[:, 1:] + slope[:, :-1])).ravel()


def problem_of(intervals: int) -> tuple[Problem, Vector]:
    """The problem, and a straight line as its start."""
    low = np.full((5, intervals + 1), -np.inf)
    low[0], low[4] = -RAIL, -FORCE
    high = -low
    end = np.array([WAY, np.pi, 0.0, 0.0])
    low[:4, 0] = high[:4, 0] = 0.0
    low[:4, -1] = high[:4, -1] = end
    bounds = list(zip(low.ravel(), high.ravel(), strict=True))
    start = np.zeros((5, intervals + 1))
    start[:4] = np.linspace(np.zeros(4), end, intervals + 1).T
    return Problem(effort, defects, bounds=bounds, lower=0.0, upper=0.0), start.ravel()


def solve(problem: Problem, start: Vector) -> OptimizeResult:
    """By IPOPT if it is installed, else by SciPy."""
    try:
        return problem.ipopt(start)
    except ImportError:
        return problem.minimize(start, "SLSQP", options={"maxiter": 300})


def draw(state: Vector, force: Vector) -> None:
    """The pole at some times, and the force."""
    _, (above, below) = plt.subplots(2, 1, figsize=(8, 5), layout="constrained")
    shades = plt.get_cmap("plasma")(np.linspace(0.3, 0.85, state.shape[1]))
    for k in range(0, state.shape[1], max(state.shape[1] // 12, 1)):
        place, angle = state[:2, k]
        tip = [place, place + LENGTH * np.sin(angle)], [0.0, -LENGTH * np.cos(angle)]
        above.plot(*tip, color=shades[k], linewidth=2)
        above.plot(tip[0][1], tip[1][1], "o", color=shades[k])
        above.plot(place, 0.0, "s", color=shades[k], markersize=10)
    above.set(aspect="equal", xlabel="metres; from violet to yellow in time")
    above.margins(y=0.15)
    below.plot(np.linspace(0.0, TIME, force.size), force)
    below.set(xlabel="seconds", ylabel="force, N")
    plt.show()


def main() -> None:
    intervals = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    problem, start = problem_of(intervals)
    result = solve(problem, start)
    (place, angle, *_), force = parts(result.x)
    print(f"{start.size} variables, {problem.rows} equations: {result.message}")
    print(f"effort {result.fun:.3f} N² s after {result.nit} iterations")
    print("time  " + "".join(f"{t:7.1f}" for t in np.linspace(0, TIME, 6)))
    for name, values in (("place", place), ("angle", angle), ("force", force)):
        at = np.interp(np.linspace(0, 1, 6), np.linspace(0, 1, values.size), values)
        print(f"{name:6}" + "".join(f"{v:7.2f}" for v in at))
    assert 58.8 < result.fun < 62.0  # 58.808 with 2,000 intervals
    draw(*parts(result.x))


if __name__ == "__main__":
    main()
