"""Plain Python loops that are traced once: `python -m benchmarks.plain_loops [name ...]`.

For each program, in a process of its own and with an empty cache, after another loop has been
compiled there: the plain run, the first result, the second call and the best of later ones, all as
processor time, and the memory that came with it; of some the Hessian, too. Simulators of users have
100 times the steps of `tests/programs/test_simulators.py`. With ``--unroll`` the programs are also
run with ``FDIFF_LOOPS=unroll``. Then the cost of one compared call, of the gates where no loop is
rolled, and a table of what is wanted. All are medians of three processes, of one with ``--once``.
Figures go to ``results/plain-loops-DATE.json``.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import fdiff
from fdiff.process.background import worker

from .loop_targets import CALLS, EULER, HEAD, rows
from .loops_by_hand import lorenz_adjoint
from .report import duration, ratio, table
from .run import ROOT, keep

H = 1e-3
sys.path[:0] = [str(ROOT / "tests" / folder) for folder in ("", "programs", "faults")]
PROCESSES = 3
Function = Callable[..., Any]


def lorenz(x: Any, trips: int = 1000) -> Any:
    y, p = x[:3], x[3:]

    def rhs(y: Any) -> Any:
        return np.array(
            [p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]]
        )

    for _ in range(trips):
        k1 = rhs(y)
        k2 = rhs(y + 0.5 * H * k1)
        k3 = rhs(y + 0.5 * H * k2)
        k4 = rhs(y + H * k3)
        y = y + H / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return 0.5 * np.sum(y * y)


def lorenz_of_numbers(x: Any, trips: int = 1000) -> Any:
    a, b, c = x[0], x[1], x[2]
    for _ in range(trips):
        u, v, w = x[3] * (b - a), a * (x[4] - c) - b, a * b - x[5] * c
        a, b, c = a + H * u, b + H * v, c + H * w
    return 0.5 * (a * a + b * b + c * c)


OBSERVED = np.cumsum(np.random.default_rng(0).normal(size=10_000))


def kalman(logs: Any, trips: int = 10_000, dt: float = 0.7) -> Any:
    """As users write it: all in place."""
    q, r = np.exp(logs[0]), np.exp(logs[1])
    move, see = np.array([[1.0, dt], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    noise = q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
    x, cov, total = np.zeros(2), 2.0 * np.eye(2), 0.0
    for t in range(trips):
        x[:] = move @ x
        cov[:] = move @ cov @ move.T + noise
        v, s = OBSERVED[t] - see @ x, see @ cov @ see.T + r
        gain = cov @ see.T @ np.linalg.inv(s)
        x += gain @ v
        cov -= gain @ see @ cov
        cov[:] = 0.5 * (cov + cov.T)
        total = total - 0.5 * (np.log(2 * np.pi) + np.log(s[0, 0]) + v[0] ** 2 / s[0, 0])
    return total


def burgers(u0: Any, trips: int = 10_000) -> Any:
    u = u0.copy()
    for _ in range(trips):
        flux = 0.5 * u * u
        u[1:-1] -= 0.05 * (flux[2:] - flux[:-2]) - 0.2 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.sum(u * u)


def network() -> tuple[Function, np.ndarray]:
    """ADBench's LSTM as it is written, by its weights."""
    from user_code import loaders, lstm

    path = ROOT / "tests" / "data" / "adbench" / "lstm" / "lstm_l2_c1024.txt"
    d = loaders.read_lstm(path)
    return lambda main: lstm.objective(main, d["extra"], d["state"], d["seq"]), d["main"]


def njit_loop() -> tuple[Function, np.ndarray]:
    """A function of Numba's with a loop of 100,000 trips, called inside of `f`."""
    import numba

    @numba.njit  # type: ignore[untyped-decorator] - numba has no types
    def walk(a: Any, b: Any, trips: int) -> Any:
        for _ in range(trips):
            a = a + 1e-5 * np.sin(a * b)
        return a

    walk(0.5, 0.3, 10)
    return lambda x: 2.0 * walk(x[0], x[1], 100_000), np.array([0.5, 0.3])


def simulator(name: str) -> tuple[Function, tuple[Any, ...], int]:
    """A simulator of users with 100 times the steps, its arguments, and which one counts."""
    os.environ["FDIFF_FAULT_TESTS"] = "all"  # as the long tests have it
    import test_many_trips as simulators

    function, args, argnum = simulators.PROGRAMS[name]
    assert simulators.MORE == 100
    return lambda *args: sum(np.sum(p * p) for p in simulators.parts(function(*args))), args, argnum


def euler(x: Any) -> Any:
    y = x[:3]
    for _ in range(1000):
        y = y + H * np.stack([y[1] - x[3] * y[0], y[0] * y[2] - y[1], y[0] * y[1] - y[2]])
    return y


POINT = np.array([1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0])
CELLS = 1.0 + 0.1 * np.sin(np.linspace(0.0, 6.28, 64))
CASES: dict[str, Callable[[], tuple[Function, np.ndarray]]] = {
    "Lorenz RK4, 1,000": lambda: (lorenz, POINT),
    "Lorenz of numbers, 10,000": lambda: (lambda x: lorenz_of_numbers(x, 10_000), POINT),
    "Kalman filter, 10,000": lambda: (kalman, np.array([-1.0, -0.5])),
    "Burgers in place, 10,000": lambda: (burgers, CELLS),
    "ADBench LSTM, c1024": network,
    "@njit, 100,000": njit_loop,
    EULER: lambda: (lambda x: np.sum(euler(x) ** 2), POINT[:4]),
}
SIMULATORS = [
    "Kalman filter", "with gaps", "smoother", "hidden states", "Gray-Scott", "lattice Boltzmann",
    "orbits", "gas", "heat", "atoms", "epidemic", "LSTM",
]  # fmt: skip
HESSIANS = ("Lorenz RK4, 1,000", "Kalman filter, 10,000")


def timed(call: Callable[[], Any]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def memory() -> float:
    """Bytes of this process, the most so far."""
    import resource

    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def steady(call: Callable[[], Any], seconds: float = 1.0) -> float:
    """The least wall time of calls in so many seconds."""
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def measured(name: str) -> dict[str, float]:
    """What the child process of a case finds."""
    warm = fdiff.value_and_grad(lambda x: fdiff.fori_loop(0, 9, lambda _, y: np.sin(y * x), x))
    fdiff.jit(warm)(0.5)
    for _ in range(40):
        fdiff.grad(lambda x: lorenz(x, 8))(POINT)
    fdiff.jacobian(lambda x: x * lorenz(x, 8))(POINT)  # imports what operators need
    worker.wait()  # or kernels of what came before are compiled beside what is measured
    f, *point = simulator(name) if name in SIMULATORS else CASES[name]()
    args, argnum = point if len(point) > 1 else (point, 0)
    figures = {"plain": min(timed(lambda: f(*copies(args))) for _ in range(3))}
    before = memory()
    gradient = fdiff.value_and_grad(f, argnums=argnum)
    call, x = lambda _: gradient(*copies(args)), args[0]
    figures["first"] = timed(lambda: call(x))
    if name in SIMULATORS:
        return figures
    figures["memory"] = memory() - before
    figures["second"] = timed(lambda: call(x))
    figures["to the steady state"] = figures["first"] + figures["second"]
    begin = time.process_time()
    for _ in range(20):  # until it is compiled, by one of the calls or beside them
        call(x)
        worker.wait()
    figures["to the steady state"] += time.process_time() - begin
    figures["steady"] = steady(lambda: call(x))
    if name in HESSIANS:
        second = fdiff.hessian(f)
        figures["Hessian, first"] = timed(lambda: second(x))
        second.compile(x)
        figures["Hessian"] = steady(lambda: second(x))
    if name == EULER:
        worker.wait()
        figures["Jacobian, first"] = timed(lambda: fdiff.jacobian(euler)(x))
        worker.wait()
        figures["Hessian, first"] = timed(lambda: fdiff.hessian(f)(x))
    return figures


def copies(args: Any) -> list[Any]:
    """Programs may overwrite their arguments."""
    return [x.copy() if isinstance(x, np.ndarray) else x for x in args]


def medians(way: str, processes: int, *arguments: str) -> dict[str, float]:
    """The median of each figure of several processes."""
    figures = [child(way, *arguments) for _ in range(processes)]
    return {name: statistics.median([each[name] for each in figures]) for name in figures[0]}


def child(way: str, *arguments: str) -> dict[str, float]:
    """The figures that a process prints which traces loops in this way."""
    with tempfile.TemporaryDirectory() as empty:
        paths = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        settings = {"FDIFF_LOOPS": way, "FDIFF_CACHE_DIR": empty, "PYTHONPATH": paths}
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.plain_loops", *arguments],
            env=os.environ | settings, capture_output=True, text=True, check=True, cwd=ROOT,
        )  # fmt: skip
    return json.loads(done.stdout.splitlines()[-1])


def programs(names: list[str], ways: list[str], processes: int) -> dict[str, dict[str, float]]:
    lines, kept = [], {}
    for name in names:
        for way in ways:
            figures = medians(way, processes, "--case", name)
            label = f"{name}, {way}" if way else name
            kept[label] = figures
            hessian = [
                duration(figures[k]) if k in figures else "" for k in ("Hessian, first", "Hessian")
            ]
            later = [duration(figures[k]) if k in figures else "" for k in ("second", "steady")]
            lines.append(
                [label, *(duration(figures[k]) for k in ("plain", "first")),
                 ratio(figures["first"] / figures["plain"]), *later,
                 f"{figures['memory'] / 1e6:.0f} MB" if "memory" in figures else "", *hessian]
            )  # fmt: skip
            print(lines[-1], flush=True)
    head = ["", "plain", "first", "first / plain", "second", "then", "memory", "Hessian", "then"]
    print(table(head, lines))
    keep("plain-loops", "programs, seconds", kept)
    return kept


# ------------------------------------------------------------------ the cost of one compared call


def numbers(x: Any, trips: int) -> Any:
    """Ten operators of numbers a trip."""
    a, b = x[0], x[1]
    for _ in range(trips):
        a = a * 0.5 + b * 0.25 - a * b * 0.125
        b = b * 0.5 + a * 0.25 + 0.1
    return a + b


def arrays(x: Any, trips: int) -> Any:
    """Eight calls of all kinds a trip: of NumPy, keys, slices, stores."""
    u, v = x.copy(), np.zeros(2)
    for k in range(trips):
        v[:] = np.sin(u)
        u = np.stack([v[0] * 0.5, u[1]])
        u = np.where(u > 0.1, u, v) + np.sum(v) * 0.01 * k / trips
    return np.sum(u)


def straight(x: Any) -> Any:
    """400 lines of a program whose calls are all different."""
    y = x
    for k in range(1, 9):
        for _ in range(5):  # fewer than what is rolled
            y = np.sin(y) * (k + 0.5) + y[::-1] / (k + 1.0)
        y = np.cumsum(np.tanh(y)) if k % 2 else np.exp(-y * y)
    return np.sum(y)


def costs() -> dict[str, float]:
    """Seconds of one compared call, and of a trace without loops."""
    x = np.array([0.4, 0.3])
    figures = {}
    for name, f, calls in (("of numbers", numbers, 10), ("of anything", arrays, 13)):
        traced, plain = [], []
        for trips in (2_000, 12_000):
            g = lambda x, f=f, trips=trips: f(x, trips)  # noqa: E731 - a line
            traced.append(min(timed(lambda g=g: fdiff.make_tape(g, x)) for _ in range(3)))
            plain.append(min(timed(lambda g=g: g(x)) for _ in range(3)))
        each = [(long - short) / (10_000 * calls) for short, long in (traced, plain)]
        figures[name], figures[f"{name}, plain"] = each
    figures["trace without loops"] = min(
        timed(lambda: fdiff.make_tape(straight, x)) for _ in range(40)
    )
    return figures


def calls(processes: int) -> dict[str, float]:
    kept = {way: medians(way, processes, "--costs") for way in ("unroll", "", "check")}
    checked = kept["check"]
    for name in ("of numbers", "of anything"):
        own = checked[name] - checked[f"{name}, plain"]
        print(
            f"a compared call {name}: {1e6 * own:.2f} µs ({1e6 * checked[name]:.2f} with its own)"
        )
    base = kept["unroll"]["trace without loops"]
    for way in ("", "check"):
        time = kept[way]["trace without loops"]
        print(
            f"a trace of 220 calls in short loops: {duration(time)}, {time / base:.2f} of unrolled"
        )
    keep("plain-loops", "calls, seconds", kept)
    figures = {n: checked[n] - checked[f"{n}, plain"] for n in ("of numbers", "of anything")}
    return figures | {
        "trace without loops": kept[""]["trace without loops"],
        "unrolled": base,
    }


def adjoint() -> dict[str, float]:
    """Lorenz' steady gradient beside an adjoint written by hand."""
    own, other = fdiff.value_and_grad(lorenz), lorenz_adjoint(1000)
    own.compile(POINT)
    np.testing.assert_allclose(own(POINT)[1], other(POINT)[1], rtol=1e-9)
    ours, theirs = steady(lambda: own(POINT)), steady(lambda: other(POINT))
    print(f"Lorenz: {duration(ours)}, {ours / theirs:.2f} of the adjoint by hand")
    figures = {"fdiff": ours, "by hand": theirs}
    keep("plain-loops", "beside the adjoint by hand, seconds", figures)
    return figures


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--case"]:
        print(json.dumps(measured(arguments[1])))
    elif arguments[:1] == ["--costs"]:
        print(json.dumps(costs()))
    else:
        words = [word for word in arguments if not word.startswith("--")]
        names = [
            name
            for name in (*CASES, *SIMULATORS)
            if not words or any(word in name for word in words)
        ]
        processes = 1 if "--once" in arguments else PROCESSES
        figures = programs(names, ["", "unroll"] if "--unroll" in arguments else [""], processes)
        if not words:
            figures = figures | {CALLS: calls(processes), "adjoint": adjoint()}
            lines = rows(figures, SIMULATORS)
            print(table(HEAD, lines))
            keep(
                "plain-loops",
                "measured and wanted",
                [dict(zip(HEAD, r, strict=True)) for r in lines],
            )


if __name__ == "__main__":
    main(sys.argv[1:])
