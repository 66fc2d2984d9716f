"""Sparse derivatives beside fills written by hand: `python -m benchmarks.sparse [PART OF A NAME]`.

Of each program the values of its sparse derivative are computed by ``data`` of the prepared
function and by a Numba function that knows the structure and stores into it, in turn, on one core,
warm: the fastest of many calls. `structure` is the processor time from the tape to the structure
and the tape of the values. Values are compared before anything is timed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp

import fdiff

from . import sparse_programs
from .report import table

SECONDS = 0.5  # of calls, for each way


class Row(NamedTuple):
    """A prepared function, its point, and what fills the values by hand."""

    prepared: Any
    point: np.ndarray
    by_hand: Callable[[np.ndarray], np.ndarray]


def chain(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@numba.njit
def chain_by_hand(x: Any) -> Any:
    """The values of the tridiagonal Hessian, row by row."""
    n = len(x)
    out = np.empty(3 * n - 2)
    k = 0
    for i in range(n):
        if i > 0:
            out[k] = -400 * x[i - 1]
            k += 1
        value = 0.0
        if i < n - 1:
            value += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        if i > 0:
            value += 200
        out[k] = value
        k += 1
        if i < n - 1:
            out[k] = -400 * x[i]
            k += 1
    return out


def band(x: Any) -> Any:
    return chain(x) + np.sum(np.sin(x[:-2] * x[2:]))


@numba.njit
def band_by_hand(x: Any) -> Any:
    """The values of the pentadiagonal Hessian, row by row, each sine and cosine once."""
    n = len(x)
    sines, cosines = np.empty(n), np.empty(n)
    for i in range(n - 2):
        sines[i], cosines[i] = np.sin(x[i] * x[i + 2]), np.cos(x[i] * x[i + 2])
    out = np.empty(5 * n - 6)
    k = 0
    for i in range(n):
        value = 0.0
        if i > 1:
            out[k] = cosines[i - 2] - x[i - 2] * x[i] * sines[i - 2]
            value -= x[i - 2] ** 2 * sines[i - 2]
            k += 1
        if i > 0:
            out[k] = -400 * x[i - 1]
            value += 200
            k += 1
        at = k
        k += 1
        if i < n - 1:
            out[k] = -400 * x[i]
            value += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
            k += 1
        if i < n - 2:
            out[k] = cosines[i] - x[i] * x[i + 2] * sines[i]
            value -= x[i + 2] ** 2 * sines[i]
            k += 1
        out[at] = value
    return out


def brusselator(w: Any) -> Any:
    """Two species that react and diffuse on a torus."""
    n = int(np.sqrt(w.size // 2))
    u, v = w.reshape(2, n, n)

    def flow(a: Any) -> Any:
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    reaction = u * u * v
    return np.stack(
        [1 + reaction - 4.4 * u + 0.1 * flow(u), 3.4 * u - reaction + 0.1 * flow(v)]
    ).ravel()


def brusselator_by_hand(n: int) -> Callable[[np.ndarray], np.ndarray]:
    """What fills the values through their slots: four neighbours, and both species at a place."""
    size = n * n
    k = np.arange(size).reshape(n, n)
    near = np.stack([np.roll(k, s, a).ravel() for s in (1, -1) for a in (0, 1)])
    own = np.arange(size)
    rows = np.concatenate(
        [np.tile(own, 4), own, own, np.tile(own, 4) + size, own + size, own + size]
    )
    cols = np.concatenate([near.ravel(), own, own + size, near.ravel() + size, own, own + size])
    order = np.lexsort((cols, rows))
    slot = np.empty(len(rows), np.int64)
    slot[order] = np.arange(len(rows))
    base = np.full(len(rows), 0.1)
    uu, uv, vu, vv = (
        slot[4 * size : 5 * size],
        slot[5 * size : 6 * size],
        slot[10 * size : 11 * size],
        slot[11 * size :],
    )

    @numba.njit
    def fill(w: Any) -> Any:
        out = base.copy()
        for i in range(size):
            u, v = w[i], w[size + i]
            out[uu[i]] = 2 * u * v - 4.4 - 0.4
            out[uv[i]] = u * u
            out[vu[i]] = 3.4 - 2 * u * v
            out[vv[i]] = -u * u - 0.4
        return out

    return fill


def captured(n: int) -> Row:
    """A product with a captured matrix: values through the structure of the matrix itself."""
    matrix = sp.random_array((n, n), density=5 / n, rng=0, format="csr")
    data, cols = matrix.data, matrix.indices

    @numba.njit
    def fill(x: Any) -> Any:
        out = np.empty(len(data))
        slope = 1 - np.tanh(x) ** 2
        for k in range(len(data)):
            out[k] = data[k] * slope[cols[k]]
        return out

    return Row(fdiff.jacobian(lambda x: matrix @ np.tanh(x), sparse=True), point(n), fill)


def solid(n: int) -> Row:
    """The Hessian of a sheet's energy, near its state of rest."""
    parts = sparse_programs.sheet(n)
    u = 0.1 / n * np.random.default_rng(1).normal(size=2 * (n + 1) ** 2)
    prepared = fdiff.hessian(lambda u: sparse_programs.energy(u, *parts), sparse=True)
    return Row(prepared, u, sparse_programs.energy_by_hand(*parts, prepared(u)))


def pendulum(n: int) -> Row:
    """The Jacobian of a pendulum's collocation."""
    prepared, z = fdiff.jacobian(sparse_programs.defects, sparse=True), point(3 * n)
    return Row(prepared, z, sparse_programs.defects_by_hand(n, prepared(z)))


def point(n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, n)


def rows() -> dict[str, Callable[[], Row]]:
    """The rows, by name, each made when it is run."""
    programs: dict[str, Callable[[], Row]] = {}
    for n in (1_000, 100_000, 1_000_000):
        programs[f"chain, Hessian, n = {n:,}"] = lambda n=n: Row(
            fdiff.hessian(chain, sparse=True), point(n), chain_by_hand
        )
    for n in (1_000, 100_000, 1_000_000):
        programs[f"band, Hessian, n = {n:,}"] = lambda n=n: Row(
            fdiff.hessian(band, sparse=True), point(n), band_by_hand
        )
    for n in (32, 100, 316):
        programs[f"Brusselator, {n} x {n}"] = lambda n=n: Row(
            fdiff.jacobian(brusselator, sparse=True), point(2 * n * n), brusselator_by_hand(n)
        )
    for n in (71, 224):
        programs[f"neo-Hookean sheet, {2 * n * n:,} triangles"] = lambda n=n: solid(n)
    for n in (50, 1_000, 20_000):
        programs[f"pendulum, {n:,} intervals"] = lambda n=n: pendulum(n)
    programs["captured matrix, n = 10,000"] = lambda: captured(10_000)
    return programs


def best(call: Callable[[], object]) -> float:
    """The shortest time of a call, in seconds."""
    shortest, end = np.inf, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        shortest = min(shortest, time.perf_counter() - begin)
    return float(shortest)


def measured(row: Row) -> list[str]:
    """Entries, time for the structure, and both ways to the values."""
    fdiff.cache_clear()  # the fill by hand may have asked for the structure
    begin = time.process_time()
    entries = len(row.prepared.coordinates(row.point)[0])
    structure = time.process_time() - begin
    values = row.prepared.data
    values.compile(row.point)
    np.testing.assert_allclose(values(row.point), row.by_hand(row.point), rtol=1e-12, atol=1e-12)
    for _ in range(100):
        values(row.point)
    time.sleep(0.5)  # the entry stub may still be compiling
    for _ in range(100):
        values(row.point)
    mine, by_hand = best(lambda: values(row.point)), best(lambda: row.by_hand(row.point))
    return [
        f"{entries:,}",
        f"{1e3 * structure:.0f}",
        f"{1e6 * mine:.1f}",
        f"{1e6 * by_hand:.1f}",
        f"{mine / by_hand:.2f}",
    ]


def main() -> None:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    head = ["program", "entries", "structure, ms", "data, µs", "by hand, µs", "ratio"]
    print(table(head, [[name, *measured(make())] for name, make in rows().items() if part in name]))


if __name__ == "__main__":
    main()
