"""What is wanted of plain Python loops, beside what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from .report import duration, ratio, size

Figures = Mapping[str, float]
Found = Mapping[str, Figures]  # by program; seconds, and bytes of memory


class Target(NamedTuple):
    """A row of the table: a figure of a program, and how it follows from others what is wanted."""

    program: str
    figure: str
    wanted: Callable[[Figures, Found], float]


def fixed(limit: float) -> Callable[[Figures, Found], float]:
    """The same limit on all machines."""
    return lambda *_: limit


def runs(count: float, seconds: float = 0.0) -> Callable[[Figures, Found], float]:
    """So many plain runs and seconds."""
    return lambda own, _: count * own["plain"] + seconds


def firsts(count: float) -> Callable[[Figures, Found], float]:
    """So many first gradients."""
    return lambda own, _: count * own["first"]


LORENZ, KALMAN, BURGERS = "Lorenz RK4, 1,000", "Kalman filter, 10,000", "Burgers in place, 10,000"
LSTM, NJIT, EULER = "ADBench LSTM, c1024", "@njit, 100,000", "Euler steps, 1,000"
CALLS = "calls"
TARGETS = (
    Target(LORENZ, "first", runs(8, 0.3)),
    Target(LORENZ, "steady", lambda _, figures: figures["adjoint"]["by hand"]),
    Target(KALMAN, "first", runs(5, 0.6)),
    Target(KALMAN, "memory", fixed(20e6)),
    Target(KALMAN, "second", fixed(0.3)),
    Target(KALMAN, "steady", fixed(3e-3)),
    Target(KALMAN, "Hessian, first", firsts(2)),
    Target(KALMAN, "Hessian", fixed(40e-3)),
    Target(BURGERS, "first", runs(6, 0.4)),
    Target(BURGERS, "steady", fixed(4e-3)),
    Target(LSTM, "to the steady state", fixed(12.5 / 4)),  # of the unrolled program, when it began
    Target(LSTM, "steady", fixed(1.13e-3)),
    Target(CALLS, "of numbers", fixed(1e-6)),
    Target(CALLS, "of anything", fixed(3e-6)),
    Target(CALLS, "trace without loops", lambda own, _: 1.02 * own["unrolled"]),
    Target(NJIT, "first", fixed(3.0)),
    Target(NJIT, "steady", runs(20)),
    Target(EULER, "Jacobian, first", firsts(2)),
    Target(EULER, "Hessian, first", firsts(4)),
)
HEAD = ["", "measured", "wanted", "measured / wanted", "measured / plain run"]


def rows(figures: Found, simulators: list[str]) -> list[list[str]]:
    """The table of what has been measured; of each simulator the first gradient."""
    table = []
    for program, figure, wanted in (
        *TARGETS,
        *(Target(name, "first", runs(10, 1.0)) for name in simulators),
    ):
        own = figures.get(program, {})
        if figure in own:
            value, most = own[figure], wanted(own, figures)
            shown = size if figure == "memory" else duration
            plain = own.get("plain") if figure != "memory" else None
            table.append(
                [f"{program}: {figure}", shown(value), shown(most), ratio(value / most),
                 ratio(value / plain) if plain else ""]
            )  # fmt: skip
    return table
