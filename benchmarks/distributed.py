"""Sums over partitions on a cluster of this machine: ``python -m benchmarks.distributed``.

Processor seconds of all processes together, since walls depend on what else runs; the scheduler is
in the process of the client. Dask has to be installed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import numpy as np
from distributed import Client, LocalCluster

import fdiff
from fdiff.distributed import partitions, sum_over

CALLS = 40


def loss(w: Any, X: Any, y: Any) -> Any:
    """Logistic regression."""
    z = X @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def part(k: int, rows: int, columns: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Some rows."""
    rng = np.random.default_rng(k)
    return rng.standard_normal((rows, columns)), (rng.random(rows) < 0.5) * 1.0


def processor_seconds(pids: list[int]) -> float:
    """What processes have taken so far, all threads together."""
    threads = [t for pid in pids for t in Path(f"/proc/{pid}/task").iterdir()]
    return sum(int((t / "schedstat").read_text().split()[0]) for t in threads) / 1e9


def milliseconds(
    client: Client, call: Callable[[], object], calls: int = CALLS, *, own: bool = True
) -> float:
    """Processor time of a call, of workers and its `own` process: the least of three rounds."""
    call()
    pids, rounds = [*client.run(os.getpid).values(), *[os.getpid()] * own], list[float]()
    for _ in range(3):
        begin = processor_seconds(pids)
        for _ in range(calls):
            call()
        rounds.append((processor_seconds(pids) - begin) / calls * 1e3)
    return min(rounds)


def report(name: str, value: float, limit: float, unit: str = "") -> None:
    """One figure beside its limit."""
    print(f"{name:58} {value:9.3g} {unit:3} (at most {limit:g})", flush=True)


def tiny(client: Client) -> None:
    """What a call costs beside its work, and what plain Dask takes for the value alone."""
    w, costs = np.zeros(10), dict[int, float]()
    for count in (2, 128):
        data = [part(k, 10) for k in range(count)]
        rows = partitions(data, client)
        total = sum_over(loss, rows)
        value = milliseconds(client, lambda total=total: total(w))
        both = fdiff.value_and_grad(total)
        costs[count] = milliseconds(client, lambda both=both: both(w))
        report(f"value and gradient, {count} tiny partitions", costs[count], 40, "ms")
        report(f"  beside the value alone, {count}", costs[count] / value, 1.3)
    report("128 partitions beside 2", costs[128] / costs[2], 1.3)
    held = client.scatter(data)
    tasks = [dask.delayed(lambda p: loss(w, *p))(p) for p in held]
    plain = milliseconds(client, lambda: client.compute(dask.delayed(sum)(tasks)).result(), 4)
    report("128 partitions beside the value by plain Dask", costs[128] / plain, 0.1)


def captured(client: Client) -> None:
    """80 MB that `f` reads, unchanged."""
    table = np.arange(1e7)
    total = sum_over(lambda w, x: w * np.sum(x) + table[0], partitions([(np.ones(3),)] * 2, client))
    total(1.0)
    begin = time.process_time()
    for _ in range(5):
        total(1.0)
    report("80 MB captured", (time.process_time() - begin) / 5 / 80 * 1e3, 2, "ms per MB")


def large(client: Client) -> None:
    """Millions of rows, beside the same in one process."""
    w, rows = np.zeros(10), 250_000
    there = partitions([lambda k=k: part(k, rows) for k in range(8)], client)
    both = fdiff.value_and_grad(sum_over(loss, there))
    local, X_y = fdiff.jit(fdiff.value_and_grad(loss)), part(0, rows)
    local(w, *X_y)
    begin = time.process_time()
    for _ in range(16):
        local(w, *X_y)
    alone = (time.process_time() - begin) * 1e3 / 2
    found = milliseconds(client, lambda: both(w), 5, own=False)
    report("2e6 x 10 logistic, workers beside one process", found / alone, 1.4)


def main() -> None:
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0",
        silence_logs=logging.CRITICAL,
    )  # fmt: skip
    with cluster, Client(cluster) as client:
        for measure in (tiny, captured, large):
            measure(client)


if __name__ == "__main__":
    main()
