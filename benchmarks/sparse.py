"""Sparse derivatives beside others: `python -m benchmarks.sparse [PART OF A NAME]`.

Of each program the values of its sparse derivative are computed by ``data`` of the prepared
function, by a Numba function that knows the structure and stores into it, by JAX with asdex, and
by CasADi, where these can be imported: in turn, on one core, warm, the fastest of many calls.
`structure` is the processor time from the tape to the structure and the tape of the values.
`CasADi first` is the time of its graph, its derivative and the first result. All values are
compared before anything is timed. Figures go to ``results/sparse-DATE.json``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
import scipy.sparse as sp

import fdiff

from . import inputs, sparse_programs
from .report import table
from .run import keep
from .sparse_programs import averaged_energy, band, brusselator, chain, energy

SECONDS = 0.3  # of calls, for each way and round
ROUNDS = 3
Values = Callable[[np.ndarray], Any]


class Row(NamedTuple):
    """A prepared function, its point, and the other ways to the values.

    `in_casadi` is the name of the program in `sparse_casadi`.
    """

    prepared: Any
    point: np.ndarray
    by_hand: Values | None = None
    in_jax: Callable[[], Values] | None = None
    hessian: bool = False
    in_casadi: str = ""


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
    data, cols, places = matrix.data, matrix.indices, matrix.tocoo()

    @numba.njit
    def fill(x: Any) -> Any:
        out = np.empty(len(data))
        slope = 1 - np.tanh(x) ** 2
        for k in range(len(data)):
            out[k] = data[k] * slope[cols[k]]
        return out

    def in_jax() -> Values:
        import jax.numpy as jnp

        return lambda x: jnp.zeros(n).at[places.row].add(places.data * jnp.tanh(x)[places.col])

    prepared = fdiff.jacobian(lambda x: matrix @ np.tanh(x), sparse=True)
    return Row(prepared, point(n), fill, in_jax)


def of_jax(name: str, *args: Any) -> Callable[[], Values]:
    """A program of `sparse_programs` in JAX's NumPy."""

    def make() -> Values:
        import jax.numpy as jnp

        program = getattr(inputs.functions(inputs.HERE / "sparse_programs.py", jnp), name)
        return lambda x: program(x, *args)

    return make


def solid(n: int) -> Row:
    """The Hessian of a sheet's energy, near its state of rest."""
    parts = sparse_programs.sheet(n)
    u = 0.1 / n * np.random.default_rng(1).normal(size=2 * (n + 1) ** 2)
    prepared = fdiff.hessian(lambda u: energy(u, *parts), sparse=True)
    fill = sparse_programs.energy_by_hand(*parts, prepared(u))
    return Row(prepared, u, fill, of_jax("energy", *parts), hessian=True)


def averaged(n: int) -> Row:
    """The Hessian of the energy with averaged pressures, in which elements meet twice."""
    parts = sparse_programs.sheet(n)
    u = 0.1 / n * np.random.default_rng(1).normal(size=2 * (n + 1) ** 2)
    prepared = fdiff.hessian(lambda u: averaged_energy(u, *parts), sparse=True)
    return Row(prepared, u)  # to compile it takes asdex more than six minutes


def bundle(name: str) -> Row:
    """The Jacobian of a bundle adjustment of ADBench, beside its solution."""
    problem = inputs.loaders().read_ba(str(inputs.ADBENCH / "ba" / f"{name}.txt"))
    cams, points, weights = problem["cams"], problem["X"], problem["w"]
    more = (len(cams), len(points), len(weights), problem["obs"], problem["feats"])
    z = np.concatenate([cams.ravel(), points.ravel(), weights])
    z = z * (1 + 1e-3 * np.random.default_rng(0).normal(size=z.size))
    file = inputs.USER_CODE / "ba.py"
    residuals = inputs.functions(file, np).residual_flat

    def in_jax() -> Values:
        import jax.numpy as jnp

        program = inputs.functions(file, jnp).residual_flat
        return lambda z: program(z, *more)

    return Row(fdiff.jacobian(lambda z: residuals(z, *more), sparse=True), z, None, in_jax)


def pendulum(n: int) -> Row:
    """The Jacobian of a pendulum's collocation."""
    prepared, z = fdiff.jacobian(sparse_programs.defects, sparse=True), point(3 * n)
    return Row(prepared, z, sparse_programs.defects_by_hand(n, prepared(z)))


def point(n: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, n)


def rows() -> dict[str, Callable[[], Row]]:
    """The rows, by name, each made when it is run."""
    programs: dict[str, Callable[[], Row]] = {}
    for f, fill in ((chain, chain_by_hand), (band, band_by_hand)):
        for n in (1_000, 100_000, 1_000_000):
            programs[f"{f.__name__}, Hessian, n = {n:,}"] = lambda n=n, f=f, fill=fill: Row(
                fdiff.hessian(f, sparse=True),
                point(n),
                fill,
                of_jax(f.__name__),
                hessian=True,
                in_casadi=f.__name__,
            )
    for n in (32, 100, 316):
        programs[f"Brusselator, {n} x {n}"] = lambda n=n: Row(
            fdiff.jacobian(brusselator, sparse=True),
            point(2 * n * n),
            brusselator_by_hand(n),
            of_jax("brusselator"),
            in_casadi="brusselator",
        )
    for n in (71, 224):
        programs[f"neo-Hookean sheet, {2 * n * n:,} triangles"] = lambda n=n: solid(n)
    programs["averaged pressures, 10,082 triangles"] = lambda: averaged(71)
    for n in (50, 1_000, 20_000):
        programs[f"pendulum, {n:,} intervals"] = lambda n=n: pendulum(n)
    programs["captured matrix, n = 10,000"] = lambda: captured(10_000)
    for name in ("ba1_n49_m7776_p31843", "ba4_n372_m47423_p204472"):
        if (inputs.ADBENCH / "ba" / f"{name}.txt").exists():
            count = int(name.rpartition("_p")[2])
            programs[f"bundle adjustment, {count:,} observations"] = lambda name=name: bundle(name)
    return programs


def best(*calls: Callable[[], object]) -> list[float]:
    """The shortest time of each call, in seconds: in turn, so that all meet the same machine."""
    shortest = [np.inf] * len(calls)
    for _ in range(ROUNDS):
        for k, call in enumerate(calls):
            end = time.perf_counter() + SECONDS
            while time.perf_counter() < end:
                begin = time.perf_counter()
                call()
                shortest[k] = min(shortest[k], time.perf_counter() - begin)
    return [float(t) for t in shortest]


def by_asdex(row: Row) -> Callable[[], Any]:
    """The call that computes the values by asdex, after they were compared."""
    import asdex
    import jax

    assert row.in_jax is not None
    make = asdex.hessian if row.hessian else asdex.jacobian
    x = jax.numpy.asarray(row.point)
    derivative = jax.jit(make(row.in_jax(), x))
    theirs, mine = derivative(x), row.prepared(row.point)
    places = np.asarray(theirs.indices)
    values = np.asarray(theirs.data), (places[:, 0], places[:, 1])
    difference = abs(sp.csr_array(values, shape=theirs.shape) - mine)
    np.testing.assert_array_less(difference.max(), 1e-9 * max(1.0, abs(mine).max()))

    def call() -> object:
        return derivative(x).data.block_until_ready()

    return call


def by_casadi(row: Row) -> tuple[Callable[[], object], float]:
    """The call that computes the values by CasADi, and the seconds to its first result."""
    from . import sparse_casadi

    expected = row.prepared(row.point)
    return sparse_casadi.values_of(row.in_casadi, row.point, expected, hessian=row.hessian)


def in_casadi(row: Row) -> bool:
    """Whether CasADi runs a row: the program is written in its symbols, and is not too large."""
    if not row.in_casadi or importlib.util.find_spec("casadi") is None:
        return False
    from . import sparse_casadi

    return len(row.point) <= sparse_casadi.LARGEST


def measured(name: str, row: Row, *, beside_asdex: bool) -> list[str]:
    """Entries, time for the structure, and all ways to the values."""
    fdiff.cache_clear()  # the fill by hand may have asked for the structure
    begin = time.process_time()
    entries = len(row.prepared.coordinates(row.point)[0])
    structure = time.process_time() - begin
    values, x, fill = row.prepared.data, row.point, row.by_hand
    values.compile(x)
    calls: dict[str, Callable[[], object]] = {"fdiff": lambda: values(x)}
    if fill is not None:
        np.testing.assert_allclose(values(x), fill(x), rtol=1e-12, atol=1e-12)
        calls["by hand"] = lambda: fill(x)
    if beside_asdex and row.in_jax is not None:
        calls["asdex"] = by_asdex(row)
    cold = None
    if in_casadi(row):
        calls["CasADi"], cold = by_casadi(row)
    for _ in range(100):
        values(x)
        time.sleep(0.01)  # the entry stub may still be compiling
    seconds = dict(zip(calls, best(*calls.values()), strict=True))
    mine = seconds["fdiff"]
    first = {} if cold is None else {"CasADi first": 1e6 * cold}
    keep("sparse", name, {**{who: 1e6 * s for who, s in seconds.items()}, **first})
    figures = [f"{entries:,}", f"{1e3 * structure:.0f}", f"{1e6 * mine:.1f}"]
    figures += _beside(seconds.get("by hand"), mine)
    if beside_asdex:
        if "asdex" in seconds:
            RATIOS.append(seconds["asdex"] / mine)
        figures += _beside(seconds.get("asdex"), mine, inverse=True)
    casadi = _beside(seconds.get("CasADi"), mine, inverse=True)
    return [*figures, *casadi, "" if cold is None else f"{cold:.2f}"]


RATIOS: list[float] = []  # asdex's times in those of fdiff


def _beside(other: float | None, mine: float, *, inverse: bool = False) -> list[str]:
    """Another time, and how it compares."""
    if other is None:
        return ["", ""]
    return [f"{1e6 * other:.1f}", f"{other / mine:.1f}" if inverse else f"{mine / other:.2f}"]


def main() -> None:
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    beside_asdex = importlib.util.find_spec("asdex") is not None
    head = ["program", "entries", "structure, ms", "data, µs", "by hand, µs", "ratio"]
    if beside_asdex:
        import jax

        jax.config.update("jax_enable_x64", True)
        head += ["asdex, µs", "times"]
    head += ["CasADi, µs", "times", "CasADi first, s"]
    chosen = {name: make for name, make in rows().items() if part in name}
    print(table(head, []))
    for name, make in chosen.items():
        figures = measured(name, make(), beside_asdex=beside_asdex)
        print(table([name, *figures], []).partition("\n")[0], flush=True)
    if RATIOS:
        mean = np.exp(np.mean(np.log(RATIOS)))
        print(f"asdex: {mean:.1f} times as long in geometric mean, {min(RATIOS):.1f} at least")


if __name__ == "__main__":
    os.environ.update(FDIFF_NUM_THREADS="1")
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    main()
