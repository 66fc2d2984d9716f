"""What writes to the outside cost: `python -m benchmarks.writes`.

Twenty problems in the manner of SciPy's `go_benchmark_functions`, whose objects count their calls,
against the same without a counter: microseconds a call of `value_and_grad`, and the ratio. Below
that a loop that logs 1,000 values a call, a list that holds 1,000 values already, and a
simulation that logs its state, each with and without the log. Time of the thread, the best of
several rounds, once kernels are compiled.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fdiff

from .report import table

ROUNDS, SECONDS, WARM = 20, 5e-3, 30.0


def ackley(x: Any) -> Any:
    u, v = np.sum(x**2), np.sum(np.cos(2 * np.pi * x))
    return -20 * np.exp(-0.2 * np.sqrt(u / len(x))) - np.exp(v / len(x)) + 20.0 + np.exp(1.0)


def alpine(x: Any) -> Any:
    return np.sum(np.abs(x * np.sin(x) + 0.1 * x))


def beale(x: Any) -> Any:
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def booth(x: Any) -> Any:
    return (x[0] + 2 * x[1] - 7) ** 2 + (2 * x[0] + x[1] - 5) ** 2


def cigar(x: Any) -> Any:
    return x[0] ** 2 + 1e6 * np.sum(x[1:] ** 2)


def dixon_price(x: Any) -> Any:
    i = np.arange(2, len(x) + 1)
    return (x[0] - 1.0) ** 2 + np.sum(i * (2.0 * x[1:] ** 2 - x[:-1]) ** 2)


def exponential(x: Any) -> Any:
    return -np.exp(-0.5 * np.sum(x**2.0))


def griewank(x: Any) -> Any:
    i = np.arange(1.0, len(x) + 1.0)
    return np.sum(x**2 / 4000) - np.prod(np.cos(x / np.sqrt(i))) + 1


def himmelblau(x: Any) -> Any:
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def levy(x: Any) -> Any:
    y = 1 + (x - 1) / 4
    v = np.sum((y[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * y[1:]) ** 2))
    return v + np.sin(np.pi * y[0]) ** 2 + (y[-1] - 1) ** 2


def matyas(x: Any) -> Any:
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


def mccormick(x: Any) -> Any:
    return np.sin(x[0] + x[1]) + (x[0] - x[1]) ** 2 - 1.5 * x[0] + 2.5 * x[1] + 1


def michalewicz(x: Any) -> Any:
    i = np.arange(1, len(x) + 1)
    return -np.sum(np.sin(x) * np.sin(i * x**2 / np.pi) ** 20.0)


def mishra(x: Any) -> Any:
    n = len(x) - np.sum(x[:-1])
    return (1 + n) ** n


def rastrigin(x: Any) -> Any:
    return 10.0 * len(x) + np.sum(x**2.0 - 10.0 * np.cos(2.0 * np.pi * x))


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)


def salomon(x: Any) -> Any:
    u = np.sqrt(np.sum(x**2))
    return 1 - np.cos(2 * np.pi * u) + 0.1 * u


def schwefel(x: Any) -> Any:
    return 418.982887 * len(x) - np.sum(x * np.sin(np.sqrt(np.abs(x))))


def sphere(x: Any) -> Any:
    return np.sum(x**2)


def styblinski_tang(x: Any) -> Any:
    return np.sum(x**4 - 16 * x**2 + 5 * x) / 2


def zakharov(x: Any) -> Any:
    i = np.arange(1.0, len(x) + 1.0)
    u, v = np.sum(x**2), np.sum(0.5 * i * x)
    return u + v**2 + v**4


PROBLEMS = (
    ackley, alpine, beale, booth, cigar, dixon_price, exponential, griewank, himmelblau, levy,
    matyas, mccormick, michalewicz, mishra, rastrigin, rosenbrock, salomon, schwefel, sphere,
    styblinski_tang, zakharov,
)  # fmt: skip
Function = Callable[[Any], Any]


class Benchmark:
    """What the classes of problems derive from, as SciPy's do."""

    def __init__(self, problem: Function) -> None:
        self.problem = problem
        self.nfev = 0
        self.hist: list[Any] = []


class Plain(Benchmark):
    """A problem as it is."""

    def fun(self, x: Any) -> Any:
        """The value."""
        return self.problem(x)


class Counted(Benchmark):
    """A problem that counts its calls, as SciPy's benchmark functions do."""

    def fun(self, x: Any) -> Any:
        """The value."""
        self.nfev += 1
        return self.problem(x)


class Logged(Benchmark):
    """A problem that keeps its values in a list of 1,000 already."""

    def __init__(self, problem: Function) -> None:
        super().__init__(problem)
        self.hist = [0.0] * 1000

    def fun(self, x: Any) -> Any:
        """The value."""
        value = self.problem(x)
        self.hist.append(value)
        return value


class Loop:
    """A damped oscillator in 1,000 steps of a Python loop, whose energies are kept in a list."""

    def __init__(self, *, logs: bool) -> None:
        self.logs = logs
        self.energies: list[Any] = []

    def fun(self, x: Any) -> Any:
        """The last position."""
        position, speed = x[0], x[1]
        for _ in range(1000):
            speed = speed - 1e-2 * (position + 0.1 * speed)
            position = position + 1e-2 * speed
            if self.logs:
                self.energies.append(position)
        return position


class Simulation:
    """Diffusion in 100 steps, which keeps the time, the mean and a line of text of each tenth."""

    def __init__(self, *, logs: bool) -> None:
        self.logs = logs
        self.records: list[Any] = []
        self.steps = 0

    def fun(self, x: Any) -> Any:
        """The sum of squares of the last state."""
        state = x
        for k in range(100):
            state = state + 0.1 * (np.roll(state, 1) - 2 * state + np.roll(state, -1))
            if self.logs and k % 10 == 0:
                self.records.append((k, np.mean(state), state))
                self.steps += 10
        return np.sum(state**2)


def seconds(f: Function, x: np.ndarray) -> float:
    """Time of a call in this thread, the best of several rounds."""
    g = fdiff.value_and_grad(f)
    end = time.perf_counter() + WARM
    while time.perf_counter() < end and type(g.implementation).__name__ == "function":
        for _ in range(20):
            g(x)
        time.sleep(0.01)
    begin = time.thread_time()
    g(x)
    times = max(1, int(SECONDS / max(time.thread_time() - begin, 1e-7)))
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.thread_time()
        for _ in range(times):
            g(x)
        best = min(best, (time.thread_time() - begin) / times)
    return best


def compared(plain: Function, writing: Function, x: np.ndarray) -> tuple[float, float, float]:
    """Microseconds without and with writes, and the ratio."""
    without, with_ = seconds(plain, x), seconds(writing, x)
    return 1e6 * without, 1e6 * with_, with_ / without


def main() -> None:
    """Print the tables."""
    rows: list[list[str]] = []
    for kind in (Counted, Logged):
        ratios = []
        for problem in PROBLEMS:
            x = np.array([0.3, 0.7]) if problem in (beale, booth) else np.array([0.3, 0.7, 0.2])
            found = compared(Plain(problem).fun, kind(problem).fun, x)
            ratios.append(found[2])
            rows.append([f"{kind.__name__.lower()} {problem.__name__}", *_texts(found)])
        rows.append(
            [f"{kind.__name__.lower()}, the median", "", "", f"{statistics.median(ratios):.2f}"]
        )
    for make, x in ((Loop, np.array([1.0, 0.0])), (Simulation, np.linspace(0.0, 1.0, 50))):
        found = compared(make(logs=False).fun, make(logs=True).fun, x)
        rows.append([f"{make.__name__.lower()}, logged", *_texts(found)])
    print(table(["function", "µs without", "µs with", "ratio"], rows))


def _texts(found: tuple[float, float, float]) -> list[str]:
    return [f"{found[0]:.2f}", f"{found[1]:.2f}", f"{found[2]:.2f}"]


if __name__ == "__main__":
    main()
