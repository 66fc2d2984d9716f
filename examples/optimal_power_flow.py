"""Optimal power flow of alternating current
=========================================

Which generators deliver how much, so that a grid runs at the lowest cost? Run it with

.. code-block:: sh

    python examples/optimal_power_flow.py [FILE]

FILE is a case of MATPOWER or PGLib-OPF (https://github.com/power-grid-lib/pglib-opf); without one
it is the grid of 14 buses that is kept with the tests. IPOPT solves it if ipyopt or cyipopt is
installed, else trust-constr of SciPy. Both get sparse Jacobians and Hessians.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
import numpy as np

from fdiff.optimize import Problem

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

Vector = np.ndarray
HERE = Path(globals().get("__file__", "examples")).resolve()  # a notebook has no file
DATA = HERE.parents[1] / "tests" / "data" / "opf"


class Grid:
    """Buses, generators and branches, in units of the base power."""

    def __init__(self, file: Path | str) -> None:
        text = Path(file).read_text(encoding="utf-8")

        def table(name: str) -> Vector:
            rows = re.findall(rf"mpc\.{name} = \[(.*?)\];", text, re.DOTALL)[0].split("\n")
            return np.array([row.split("%")[0].rstrip(";\t ").split() for row in rows[1:-1]], float)

        base = float(re.findall(r"mpc\.baseMVA = (.*?);", text)[0])
        bus, gen, cost, branch = map(table, ("bus", "gen", "gencost", "branch"))
        gen, cost, branch = gen[gen[:, 7] > 0], cost[gen[:, 7] > 0], branch[branch[:, 10] > 0]
        place = {number: k for k, number in enumerate(bus[:, 0])}
        self.at = np.array([place[number] for number in gen[:, 0]])
        self.ends = np.array([[place[a], place[b]] for a, b in branch[:, :2]]).T
        self.slack = np.flatnonzero(bus[:, 1] == 3)
        self.load = bus[:, 2:4].T / base
        self.shunt = bus[:, 4:6].T / base
        self.voltage = bus[:, [12, 11]].T
        self.power = np.concatenate([gen[:, [9, 8]], gen[:, [4, 3]]]).T / base
        self.cost = cost[:, 4:7] * [base**2, base, 1.0]
        self.rate, self.angle = branch[:, 5] / base, np.deg2rad(branch[:, 11:13].T)
        # Admittances of the lines, which have a transformer at their first end.
        y, ratio = 1.0 / (branch[:, 2] + 1j * branch[:, 3]), np.where(branch[:, 8], branch[:, 8], 1)
        tap, own = ratio * np.exp(1j * np.deg2rad(branch[:, 9])), y + 0.5j * branch[:, 4]
        first, second = (own / ratio**2, -y / np.conj(tap)), (own, -y / tap)
        self.first = np.array([part for y in first for part in (y.real, y.imag)])
        self.second = np.array([part for y in second for part in (y.real, y.imag)])


def parts(x: Vector, grid: Grid) -> list[Vector]:
    """Angles and sizes of the voltages, active and reactive power of the generators."""
    buses, generators = grid.load.shape[1], len(grid.at)
    return np.split(x, [buses, 2 * buses, 2 * buses + generators])


def cost(x: Vector, grid: Grid) -> float:
    """Dollars an hour."""
    active = parts(x, grid)[2]
    return np.sum(grid.cost[:, 0] * active**2 + grid.cost[:, 1] * active + grid.cost[:, 2])


def flow(admittance: Vector, near: Vector, far: Vector, angle: Vector) -> tuple[Vector, Vector]:
    """Active and reactive power that flows into lines from one of their ends."""
    g, b, g_far, b_far = admittance
    along, across = near * far * np.cos(angle), near * far * np.sin(angle)
    active = g * near**2 + g_far * along + b_far * across
    return active, -b * near**2 + g_far * across - b_far * along


def constraints(x: Vector, grid: Grid) -> Vector:
    """What is left at each bus, the squared power in each line, and angles between buses."""
    angle, size, *generated = parts(x, grid)
    start, end = grid.ends
    turn = angle[start] - angle[end]
    out = flow(grid.first, size[start], size[end], turn)
    back = flow(grid.second, size[end], size[start], -turn)
    left = []
    for k, sign in enumerate((1.0, -1.0)):  # active, reactive
        power = -grid.load[k] - sign * grid.shunt[k] * size**2
        np.add.at(power, grid.at, generated[k])
        np.subtract.at(power, start, out[k])
        np.subtract.at(power, end, back[k])
        left.append(power)
    return np.concatenate([*left, out[0] ** 2 + out[1] ** 2, back[0] ** 2 + back[1] ** 2, turn])


def problem_of(grid: Grid) -> tuple[Problem, Vector]:
    """The problem and its start: equal voltages, no power."""
    buses = grid.load.shape[1]
    free = np.full(buses, np.inf)
    free[grid.slack] = 0.0
    low, high = np.concatenate([[-free, free], grid.voltage, grid.power], axis=1)
    balance, rate = np.zeros(2 * buses), np.tile(grid.rate**2, 2)
    problem = Problem(
        cost,
        constraints,
        bounds=list(zip(low, high, strict=True)),
        lower=np.concatenate([balance, np.full(rate.size, -np.inf), grid.angle[0]]),
        upper=np.concatenate([balance, rate, grid.angle[1]]),
        args=(grid,),
    )
    start = np.zeros(low.size)
    start[buses : 2 * buses] = 1.0
    return problem, start


def solve(problem: Problem, start: Vector) -> OptimizeResult:
    """By IPOPT if it is installed, else by SciPy."""
    try:
        return problem.ipopt(start)
    except ImportError:
        return problem.minimize(start, "trust-constr", options={"maxiter": 300})


def draw(grid: Grid, problem: Problem, x: Vector) -> None:
    """Voltages and powers within their limits, and the entries of the Jacobian."""
    _, size, active, _ = parts(x, grid)
    _, panels = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
    bus, unit = np.arange(1, size.size + 1), np.arange(1, active.size + 1)
    panels[0].fill_between(bus, *grid.voltage, alpha=0.2, label="limits")
    panels[0].plot(bus, size, "o-", label="voltage")
    panels[0].set(xlabel="bus", xticks=bus[::3])
    low, high = grid.power[:, : active.size]
    panels[1].bar(unit, high - low, bottom=low, alpha=0.2, label="limits")
    panels[1].bar(unit, active, 0.4, label="active power")
    panels[1].set_xlabel("generator")
    panels[2].spy(problem.jacobian(x), markersize=2, color="tab:blue", aspect="auto")
    panels[2].set_xlabel("Jacobian of the constraints", labelpad=10)
    for panel in panels[:2]:
        panel.legend()
    plt.show()


def main() -> None:
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA / "pglib_opf_case14_ieee.m"
    grid = Grid(file)
    problem, start = problem_of(grid)
    result = solve(problem, start)
    print(f"{file.stem}: {start.size} variables, {problem.rows} constraints")
    entries = problem.jacobian(start).nnz, problem.hessian(start, np.ones(problem.rows)).nnz
    print(f"entries of the Jacobian {entries[0]}, of the lower Hessian {entries[1]}")
    print(f"{result.message}\n{result.fun:.4f} dollars an hour after {result.nit} iterations")
    print(problem.report)
    if len(sys.argv) == 1:
        assert abs(result.fun - 2178.1) < 0.05  # published with PGLib-OPF
    draw(grid, problem, result.x)


if __name__ == "__main__":
    main()
