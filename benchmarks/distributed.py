"""Sums over partitions on clusters of this machine: ``python -m benchmarks.distributed``.

Processor seconds of client, scheduler and workers, since walls depend on what else runs. The
scheduler is in the process of the client, but where it is measured alone. Names of measures as
arguments run these alone. Needs Dask, and 2 GB of memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, Scheduler, Worker
from scipy.optimize import least_squares, minimize

import fdiff
from fdiff.distributed import partitions, sum_over

CALLS = 40
ROWS, PARTS = 10_000_000, 40
WEIGHTS = np.linspace(-1.0, 1.0, 10)


def loss(w: Any, X: Any, y: Any) -> Any:
    """Logistic regression."""
    z = X @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def part(k: int, rows: int, columns: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Some rows."""
    rng = np.random.default_rng(k)
    X = rng.standard_normal((rows, columns))
    return X, (rng.random(rows) < 1.0 / (1.0 + np.exp(-X @ WEIGHTS[:columns]))) * 1.0


# ---------------------------------------------------------------------------- clusters and figures


@contextmanager
def local_cluster(**options: Any) -> Iterator[Client]:
    """Two workers, which are processes of their own."""
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0",
        silence_logs=logging.CRITICAL, memory_limit=0, **options,
    )  # fmt: skip
    with cluster, Client(cluster) as client:
        yield client


def processor_seconds(pids: list[int]) -> float:
    """What processes have taken so far, all threads together."""
    others = [pid for pid in pids if pid != os.getpid()]
    threads = [t for pid in others for t in Path(f"/proc/{pid}/task").iterdir()]
    there = sum(int((t / "schedstat").read_text().split()[0]) for t in threads) / 1e9
    return there + time.process_time() * (len(others) < len(pids))


def megabytes(pid: int) -> float:
    """The memory that a process occupies."""
    (line,) = [s for s in Path(f"/proc/{pid}/status").read_text().splitlines() if "VmRSS" in s]
    return int(line.split()[1]) / 1024


def workers_of(client: Client) -> list[int]:
    return [*client.run(os.getpid).values()]


def milliseconds(pids: list[int], call: Callable[[], object], calls: int = CALLS) -> float:
    """Processor time of a call in these processes: the least of three rounds."""
    call()
    rounds = list[float]()
    for _ in range(3):
        begin = processor_seconds(pids)
        for _ in range(calls):
            call()
        rounds.append((processor_seconds(pids) - begin) / calls * 1e3)
    return min(rounds)


def report(name: str, value: float, limit: float, unit: str = "", word: str = "at most") -> None:
    """One figure beside its limit."""
    print(f"{name:62} {value:9.3g} {unit:9} ({word} {limit:g})", flush=True)


# ---------------------------------------------------------------------------------------- measures


def tiny(client: Client) -> None:
    """What a call costs beside its work, and what plain Dask takes for the value alone."""
    w, costs = np.zeros(10), dict[int, float]()
    everyone = [os.getpid(), *workers_of(client)]
    for count in (2, 128):
        data = [part(k, 10) for k in range(count)]
        total = sum_over(loss, partitions(data, client))
        both = fdiff.value_and_grad(total)
        pairs = [  # in turn, since what else runs changes
            [milliseconds(everyone, partial(f, w), 10) for f in (both, total)] for _ in range(8)
        ]
        costs[count] = min(pairs)[0]
        report(f"value and gradient, {count} tiny partitions", costs[count], 40, "ms")
        ratio = float(np.median([ours / value for ours, value in pairs]))
        report(f"  beside the value alone, {count}", ratio, 1.3)
    report("128 partitions beside 2", costs[128] / costs[2], 1.3)
    held = client.scatter(data)
    tasks = [dask.delayed(lambda p: loss(w, *p))(p) for p in held]
    plain = milliseconds(everyone, lambda: client.compute(dask.delayed(sum)(tasks)).result(), 4)
    report("128 partitions beside the value by plain Dask", costs[128] / plain, 0.1)


def captured(client: Client) -> None:
    """80 MB that `f` reads, unchanged."""
    table = np.arange(1e7)
    total = sum_over(lambda w, x: w * np.sum(x) + table[0], partitions([(np.ones(3),)] * 2, client))
    total(1.0)
    took = milliseconds([os.getpid()], partial(total, 1.0), 5)
    report("80 MB captured", took / 80, 2, "ms per MB")


def logistic(client: Client) -> None:
    """Ten million rows, beside the same in one process and the gradient by hand in dask.array."""
    size, pids, w = ROWS // PARTS, workers_of(client), np.zeros(10)
    loaders = [partial(part, k, size) for k in range(PARTS)]
    local, X_y = fdiff.jit(fdiff.value_and_grad(loss)), part(0, size)
    alone = milliseconds([os.getpid()], lambda: local(w, *X_y)) * PARTS
    with partitions(loaders, client) as rows:
        both = fdiff.value_and_grad(sum_over(loss, rows))
        ours = milliseconds(pids, partial(both, w), 5)
        report("1e7 x 10 logistic, workers beside one process", ours / alone, 1.4)
        everyone = milliseconds([os.getpid(), *pids], partial(both, w), 5)
        for _ in range(20):
            both(w)
        limit = 1.15 * rows.nbytes / 2**20 / 2 + 200
        report("memory of a worker after 40 calls", max(map(megabytes, pids)), limit, "MB")
        there = lbfgs(both)
    hand = by_hand(client, size, everyone=[os.getpid(), *pids])
    report("1e7 x 10, dask.array by hand beside us", hand / everyone, 8, word="at least")
    X, y = map(np.concatenate, zip(*[load() for load in loaders], strict=True))
    here = lbfgs(lambda w: local(w, X, y))
    report("20 L-BFGS steps, minimum beside one process", abs(there / here - 1.0), 1e-12)


def lbfgs(both: Callable[[Any], Any]) -> float:
    """The value after 20 steps."""
    options = {"maxiter": 20, "ftol": 0.0, "gtol": 0.0}
    return float(minimize(both, np.zeros(10), jac=True, method="L-BFGS-B", options=options).fun)


def by_hand(client: Client, size: int, everyone: list[int]) -> float:
    """Milliseconds of value and gradient, written by hand for arrays of Dask."""
    blocks = [dask.delayed(part, nout=2)(k, size) for k in range(PARTS)]
    X = da.concatenate([da.from_delayed(b[0], (size, 10), float) for b in blocks])
    y = da.concatenate([da.from_delayed(b[1], (size,), float) for b in blocks])
    X, y = client.persist([X, y])
    client.gather(client.map(lambda _: None, client.futures_of([X, y])))
    w = np.zeros(10)

    def both() -> object:
        z = X @ w
        value = (np.logaddexp(0.0, z) - y * z).sum()
        return dask.compute(value, X.T @ (1.0 / (1.0 + np.exp(-z)) - y))

    return milliseconds(everyone, both, 1)


def fitting(client: Client) -> None:
    """Levenberg-Marquardt on sums, a million rows and six parameters, beside SciPy's."""
    x = np.linspace(0.0, 4.0, 1_000_000)
    true = np.array([2.0, 0.7, 1.0, 3.0, 0.5, -0.2])
    y = curve(true, x) + 0.01 * np.random.default_rng(0).standard_normal(x.size)
    begin = np.array([1.5, 0.5, 1.5, 2.5, 0.0, 0.0])
    residuals = lambda p, x, y: curve(p, x) - y  # noqa: E731 - sent to workers

    @fdiff.jit
    def normal(p: Any, x: Any, y: Any) -> Any:
        r, J = residuals(p, x, y), fdiff.jacobian(residuals)(p, x, y)
        return 0.5 * r @ r, J.T @ r, J.T @ J

    data = list(zip(np.array_split(x, 8), np.array_split(y, 8), strict=True))
    sums = sum_over(normal, partitions(data, client))
    jacobian, tight = fdiff.jacobian(residuals), dict.fromkeys(("xtol", "ftol", "gtol"), 1e-12)
    scipy = lambda: least_squares(residuals, begin, jacobian, method="lm", args=(x, y), **tight)  # noqa: E731 - twice
    ours, theirs = marquardt(sums, begin), scipy().x
    report("Levenberg-Marquardt, largest difference of x", np.max(np.abs(ours - theirs)), 1e-7)
    took = milliseconds([os.getpid(), *workers_of(client)], lambda: marquardt(sums, begin), 1)
    alone = milliseconds([os.getpid()], scipy, 1)
    report("  SciPy's lm beside it", alone / took, 4, word="at least")


def curve(p: Any, x: Any) -> Any:
    return p[0] * np.exp(-p[1] * x) + p[2] * np.exp(-p[3] * x) + p[4] + p[5] * np.sin(3.0 * x)


def marquardt(sums: Callable[[Any], Any], p: np.ndarray) -> np.ndarray:
    """Levenberg-Marquardt by sums of cost, J'r and J'J."""
    damping, (cost, slope, matrix) = 1e-6, sums(p)
    while True:
        step = np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), -slope)
        if np.linalg.norm(step) < 1e-7 * np.linalg.norm(p):  # of which the next is the square
            return p + step
        trial = sums(p + step)
        damping *= 0.1 if trial[0] < cost else 10.0
        if trial[0] < cost:
            p, (cost, slope, matrix) = p + step, trial


def caches() -> None:
    """Kernels that workers compile, in a first and a second cluster with one cache directory."""
    with tempfile.TemporaryDirectory() as folder:
        for limit in (1, 0):
            with local_cluster(env={"FDIFF_CACHE_DIR": folder}) as client:
                total = fdiff.value_and_grad(sum_over(loss, partitions([part(0, 10)] * 4, client)))
                for _ in range(3):
                    total(np.zeros(10))
                compiled = client.run(lambda: fdiff.cache_info().compiled)
            report("kernels a worker compiles", max(compiled.values()), limit)


def scheduler() -> None:
    """The scheduler's time against the number of workers, which one process plays."""
    counts, took = (2, 8, 16, 32, 64), list[float]()
    for count in counts:
        with played_cluster(count) as (client, pid):
            rows = partitions([(np.ones(1000),)] * (4 * count), client)
            both = fdiff.value_and_grad(sum_over(lambda w, x: np.sum(np.cosh(w * x)), rows))
            w = np.zeros(1000)
            both(w)
            seconds = [above_idle(pid, 0.0, partial(time.sleep, 1.0)) for _ in range(4)]
            idle = float(np.median(seconds))  # heart-beats
            calls = [above_idle(pid, idle, partial(both, w)) for _ in range(8)]
            took.append(float(np.median(calls)) * 1e3)
            print(f"  {count} workers: {took[-1]:.1f} ms of the scheduler a call", flush=True)
            if count == 2:
                scheduler_memory(client, pid)
    report("scheduler, a worker and call", np.polyfit(counts, took, 1)[0], 1.2, "ms")


def above_idle(pid: int, idle: float, call: Callable[[], object]) -> float:
    """Processor seconds of a process in a call, above the `idle` ones of a second."""
    begin, since = processor_seconds([pid]), time.perf_counter()
    call()
    return processor_seconds([pid]) - begin - idle * (time.perf_counter() - since)


def scheduler_memory(client: Client, pid: int) -> None:
    """What data and parameters add to the scheduler."""
    before, w = megabytes(pid), np.ones(1_000_000)
    with partitions([partial(part, k, 500_000) for k in range(4)], client) as rows:
        total = sum_over(lambda w, X, y: w * X[0, 0], rows)
        for _ in range(5):
            total(w)
    more = megabytes(pid) - before
    report("scheduler, with 176 MB of data and 8 MB of parameters", more, 20, "MB more")


# What Dask does now and then, for calls alone to be measured.
SELDOM = {
    "DASK_DISTRIBUTED__ADMIN__TICK__INTERVAL": "2s",
    "DASK_DISTRIBUTED__ADMIN__SYSTEM_MONITOR__INTERVAL": "10s",
    "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING_INTERVAL": "10s",
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
}


@contextmanager
def played_cluster(count: int) -> Iterator[tuple[Client, int]]:
    """A scheduler in a process of its own, and one that plays so many workers."""
    start, env = [sys.executable, "-m", "benchmarks.distributed"], {**os.environ, **SELDOM}
    pipe: Any = {"stdout": subprocess.PIPE, "text": True, "env": env}
    scheduler = subprocess.Popen([*start, "--scheduler"], **pipe)
    assert scheduler.stdout is not None
    address = scheduler.stdout.readline().strip()
    workers = subprocess.Popen([*start, "--workers", address, str(count)], env=env)
    try:
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=240)
            yield client, scheduler.pid
    finally:
        for process in (workers, scheduler):
            process.terminate()
            process.wait()


async def schedule() -> None:
    async with Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()


async def work(address: str, count: int) -> None:
    workers = [Worker(address, nthreads=1, dashboard=False) for _ in range(count)]
    await asyncio.gather(*workers)
    await asyncio.gather(*[worker.finished() for worker in workers])


def main(names: list[str]) -> None:
    for measure in (caches, scheduler):
        if not names or measure.__name__ in names:
            measure()
    with local_cluster() as client:
        for measure in (tiny, captured, fitting, logistic):
            if not names or measure.__name__ in names:
                measure(client)


if __name__ == "__main__":
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if sys.argv[1:2] == ["--scheduler"]:
        asyncio.run(schedule())
    elif sys.argv[1:2] == ["--workers"]:
        asyncio.run(work(sys.argv[2], int(sys.argv[3])))
    else:
        main(sys.argv[1:])
