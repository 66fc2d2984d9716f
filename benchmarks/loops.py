"""Loops as nodes of a tape, beside others: `python -m benchmarks.loops [name ...]`.

Runge-Kutta steps of Lorenz' equations (value and gradient, Hessian), Lorenz-96 with 20 states, a
Kalman filter over 10,000 observations, a gated recurrent network of 1,024 steps, and the time to
compile 10, 1,000 and 1,000,000 trips, gradients within memory budgets, and Kepler's equation by
Newton steps for 1,000 elements. Beside them JAX's ``lax.scan``, CasADi's ``mapaccum`` (where it is
installed) and programs written by hand for Numba. Least wall times in microseconds, of calls that
alternate, and multiples of fdiff's; of 1,000,000 trips the least processor time, which other
processes lengthen less. What is checked is that all agree. Figures go to
``results/loops-DATE.json``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fdiff
from fdiff import kernels
from fdiff.transforms.pipeline import RUN, derive

from . import loops_by_hand as by_hand
from .loops_by_hand import H
from .run import keep

SECONDS = 2.0
Call = Callable[[], Any]
FIGURES: dict[str, dict[str, float]] = {}  # microseconds of each row, by who ran it


def lorenz(y: Any, p: Any, xp: Any = np) -> Any:
    return xp.stack([p[0] * (y[1] - y[0]), y[0] * (p[1] - y[2]) - y[1], y[0] * y[1] - p[2] * y[2]])


def lorenz96(y: Any, p: Any, xp: Any = np) -> Any:
    return (xp.roll(y, -1) - xp.roll(y, 2)) * xp.roll(y, 1) - y + p[0]


def integrated(rhs: Any, states: int, trips: int, scan: Any, xp: Any = np) -> Callable[[Any], Any]:
    """Half the square of the state after so many steps, by its initial state and parameters."""

    def f(x: Any) -> Any:
        p = x[states:]

        def step(y: Any, _: Any) -> tuple[Any, None]:
            k1 = rhs(y, p, xp)
            k2 = rhs(y + 0.5 * H * k1, p, xp)
            k3 = rhs(y + 0.5 * H * k2, p, xp)
            k4 = rhs(y + H * k3, p, xp)
            return y + H / 6 * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

        y, _ = scan(step, x[:states], None, length=trips)
        return 0.5 * xp.sum(y * y)

    return f


def kalman(observed: np.ndarray, scan: Any, xp: Any = np, dt: float = 0.7) -> Callable[[Any], Any]:
    """The log-likelihood of a local linear trend, by the logarithms of its two variances."""
    move, see = xp.asarray([[1.0, dt], [0.0, 1.0]]), xp.asarray([[1.0, 0.0]])
    noise = xp.asarray([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])

    def f(logs: Any) -> Any:
        q, r = xp.exp(logs[0]), xp.exp(logs[1])

        def step(state: Any, y: Any) -> tuple[Any, Any]:
            x, cov = state
            x, cov = move @ x, move @ cov @ move.T + q * noise
            v, s = y - see @ x, see @ cov @ see.T + r
            gain = cov @ see.T @ xp.linalg.inv(s)
            x, cov = x + gain @ v, cov - gain @ see @ cov
            logl = -0.5 * (np.log(2 * np.pi) + xp.log(s[0, 0]) + v[0] ** 2 / s[0, 0])
            return (x, 0.5 * (cov + cov.T)), logl

        return xp.sum(scan(step, (xp.zeros(2), 2.0 * xp.eye(2)), observed)[1])

    return f


def recurrent(series: np.ndarray, scan: Any, xp: Any = np) -> Callable[[Any], Any]:
    """The loss of two layers of gates that act entry by entry, as in ADBench's LSTM."""
    width = series.shape[1]

    def layer(w: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        forget, add = (1.0 / (1.0 + xp.exp(-(w[k] * v + w[k + 1]))) for k, v in ((0, x), (2, h)))
        out, change = 1.0 / (1.0 + xp.exp(-(w[4] * x + w[5]))), xp.tanh(w[6] * h + w[7])
        c = c * forget + add * change
        return out * xp.tanh(c), c

    def f(w: Any) -> Any:
        def step(state: Any, x: Any) -> tuple[Any, Any]:
            h1, c1, h2, c2 = state
            h1, c1 = layer(w[0], x, h1, c1)
            h2, c2 = layer(w[1], h1, h2, c2)
            return (h1, c1, h2, c2), xp.log(2.0 + xp.sum(xp.exp(h2))) - xp.sum(x * h2)

        zeros = xp.zeros(width)
        return xp.sum(scan(step, (zeros,) * 4, series)[1])

    return f


def by_jax(make: Callable[..., Any], of: str) -> Callable[[Any], Any]:
    """What JAX compiles of a program that is made for its `scan`."""
    import jax

    jax.config.update("jax_enable_x64", val=True)  # type: ignore[no-untyped-call] - of JAX
    call = jax.jit(getattr(jax, of)(make(jax.lax.scan, jax.numpy)))
    return lambda x: jax.block_until_ready(call(x))


def least(
    calls: dict[str, Call], clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """The least time of each of several calls, in microseconds, taken in turns."""
    found = {name: [_timed(call, clock) for _ in range(2)][1:] for name, call in calls.items()}
    end = time.perf_counter() + SECONDS * len(calls)
    while time.perf_counter() < end:
        for name, call in calls.items():
            found[name].append(_timed(call, clock))
    return {name: 1e6 * min(times) for name, times in found.items()}


def _timed(call: Call, clock: Callable[[], float] = time.perf_counter) -> float:
    begin = clock()
    call()
    return clock() - begin


def report(name: str, calls: dict[str, Call]) -> None:
    """One row: the times of all, and multiples of the first one's."""
    values = [np.concatenate([np.ravel(v) for v in _leaves(call())]) for call in calls.values()]
    for value in values[1:]:
        np.testing.assert_allclose(value, values[0], rtol=1e-7, atol=1e-9)
    times = least(calls)
    FIGURES.setdefault(name, {}).update(times)
    own = next(iter(times.values()))
    cells = (f"{who} {t:,.1f} ({t / own:.2f})" for who, t in times.items())
    print(f"{name:32} {'   '.join(cells)}", flush=True)


def _leaves(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else (value,)


def beside_jax(name: str, make: Callable[..., Any], x: np.ndarray, *, hessian: bool) -> None:
    """The first call of fdiff, then value and gradient, and the Hessian, beside JAX."""
    f = make(fdiff.scan, np)
    ways = {"value_and_grad": fdiff.value_and_grad} | (
        {"hessian": fdiff.hessian} if hessian else {}
    )
    for way, operator in ways.items():
        call = fdiff.jit(operator(f))
        first = _timed(lambda call=call: call(x))
        other = by_jax(make, way)
        jax_first = _timed(lambda other=other: other(x))
        FIGURES[f"{name}, {way}"] = {"fdiff, first": 1e6 * first, "JAX, first": 1e6 * jax_first}
        print(f"{name}, {way}: first call {first:.2f} s, JAX {jax_first:.2f} s", flush=True)
        report(
            f"{name}, {way}",
            {"fdiff": lambda call=call: call(x), "JAX": lambda other=other: other(x)},
        )


def beside_hand(name: str, states: int, x: np.ndarray, trips: int = 1000) -> None:
    """Equations of Lorenz beside an adjoint written by hand, CasADi and JAX."""
    rhs = {3: lorenz, 20: lorenz96}[states]
    call = fdiff.jit(fdiff.value_and_grad(integrated(rhs, states, trips, fdiff.scan)))
    adjoint = {3: by_hand.lorenz_adjoint, 20: by_hand.lorenz96_adjoint}[states](trips)
    calls: dict[str, Call] = {"fdiff": lambda: call(x), "by hand": lambda: adjoint(x)}
    symbolic = by_hand.casadi_steps(states, trips)
    if symbolic is not None:
        calls["CasADi"] = lambda: [np.asarray(v) for v in symbolic(x)]
    report(name, calls)
    beside_jax(name, lambda scan, xp: integrated(rhs, states, trips, scan, xp), x, hessian=True)


def steps() -> None:
    """Lorenz' equations."""
    beside_hand("Lorenz, 1,000 steps", 3, np.array([1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0]))


def states() -> None:
    """Lorenz-96 with 20 states."""
    x = np.append(np.random.default_rng(0).normal(8.0, 1.0, 20), 8.0)
    beside_hand("Lorenz-96, 20 states", 20, x)


def anomaly(mean: Any, ecc: Any) -> Any:
    """The eccentric anomaly by Newton's method: Kepler's equation."""
    far = lambda state: np.abs(state[1]) > by_hand.CLOSE  # noqa: E731 - a line

    def newton(state: Any) -> Any:
        step = (state[0] - ecc * np.sin(state[0]) - mean) / (1.0 - ecc * np.cos(state[0]))
        return state[0] - step, step

    return fdiff.while_loop(far, newton, (mean + ecc * np.sin(mean), 1.0))[0]


def searches() -> None:
    """Kepler's equation for 1,000 elements: a `while_loop` under `vmap`, in reverse."""
    rng = np.random.default_rng(1)
    mean, ecc = rng.uniform(0.0, 6.0, 1000), rng.uniform(0.0, 0.8, 1000)
    many = fdiff.vmap(anomaly)
    summed = lambda mean, ecc: np.sum(many(mean, ecc))  # noqa: E731 - a line
    slopes = fdiff.jit(fdiff.value_and_grad(summed, argnums=(0, 1)))
    primal = by_hand.anomalies()
    value, (by_mean, _) = slopes(mean, ecc)
    root = primal(mean, ecc)
    np.testing.assert_allclose(value, np.sum(root), rtol=1e-12)
    np.testing.assert_allclose(by_mean, 1.0 / (1.0 - ecc * np.cos(root)), rtol=1e-9)
    times = least(
        {"Numba, values alone": lambda: primal(mean, ecc), "fdiff": lambda: slopes(mean, ecc)}
    )
    FIGURES["Kepler's equation, 1,000 elements"] = times
    plain, own = times.values()
    print(f"Kepler's equation: {own:,.0f} µs with gradient, {own / plain:.2f} of the values alone")


def filters() -> None:
    """The Kalman filter."""
    observed = np.cumsum(np.random.default_rng(0).normal(size=10_000))

    def make(scan: Any, xp: Any) -> Any:
        return kalman(observed, scan, xp)

    beside_jax("Kalman filter, 10,000", make, np.array([-1.0, -0.5]), hessian=True)


def networks() -> None:
    """The recurrent network."""
    rng = np.random.default_rng(0)
    series, weights = rng.normal(size=(1024, 14)), rng.normal(size=(2, 8, 14))

    def make(scan: Any, xp: Any) -> Any:
        return recurrent(series, scan, xp)

    beside_jax("two layers of gates, 1,024", make, weights, hessian=False)


def trips() -> None:
    """Least processor time to compile loops of any length, and a gradient of 1e6 trips."""
    x = np.array([1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0])
    os.environ["FDIFF_CACHE_DIR"] = "off"
    for n in (10, 10, 1000, 1_000_000):  # the first one loads the compiler
        slope = fdiff.value_and_grad(integrated(lorenz, 3, n, fdiff.scan))
        tape = derive(RUN, fdiff.make_tape(slope, x))
        times: list[float] = []
        for _ in range(5):
            kernels.cache_clear()
            begin = time.process_time()
            kernel = kernels.compile(tape, ("C",))
            times.append(1e3 * (time.process_time() - begin))
        taken = min(times)
        ran = least({"": lambda kernel=kernel: kernel(x)}, time.process_time)[""]
        FIGURES[f"{n:,} trips"] = {"to compile": 1e3 * taken, "fdiff": ran}
        print(f"{n:,} trips: {taken:.0f} ms to compile, {ran:,.1f} µs a gradient", flush=True)


def budgets() -> None:
    """Gradients of 1,000,000 steps within memory budgets: milliseconds, and the same bits."""
    x = np.array([1.0, 1.0, 1.0, 10.0, 28.0, 8.0 / 3.0])
    f = integrated(lorenz, 3, 1_000_000, fdiff.scan)
    calls: dict[str, Call] = {}
    for size in (1 << 30, 1_000_000, 100_000, 10_000, 1_000):
        with fdiff.memory_budget(size):
            call = fdiff.jit(fdiff.grad(f))
            call(x)
        calls[f"{size:,} bytes"] = lambda call=call: call(x)
    values = [call() for call in calls.values()]
    assert all(np.array_equal(value, values[0], equal_nan=True) for value in values)
    with np.errstate(all="ignore"):
        times = least(calls, time.process_time)
    FIGURES["budgets"] = times
    own = next(iter(times.values()))
    for name, taken in times.items():
        print(f"{name:20} {taken / 1e3:,.0f} ms ({taken / own:.2f})", flush=True)


PARTS = {p.__name__: p for p in (steps, states, searches, filters, networks, trips, budgets)}

if __name__ == "__main__":
    for asked in sys.argv[1:] or PARTS:
        FIGURES.clear()
        PARTS[asked]()
        keep("loops", asked, FIGURES)
