"""Sums over data that is larger than memory, and over a regression with certified digits."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG
from summed_data import PARTS, W, loss
from user_code import nist

import fdiff
from fdiff.distributed import partitions, sum_over

FILES = """import functools, resource, sys
import numpy as np, fdiff
from pathlib import Path
from fdiff.distributed import partitions, sum_over

def load(k):
    with np.load(f"{k}.npz") as file:
        return file["X"], file["y"]

def loss(w, X, y):
    return np.sum((X @ w - y) ** 2)

COUNT, ROWS, W = 12, 100_000, np.linspace(-1.0, 1.0, 10)
rng = np.random.default_rng(0)
X = rng.standard_normal((ROWS, 10))
for k in range(COUNT):
    np.savez(f"{k}.npz", X=X + k, y=X[:, 0])
total = fdiff.value_and_grad(sum_over(loss, [functools.partial(load, k) for k in range(COUNT)]))
wanted = total(W)
used = [s for s in Path("/proc/self/status").read_text().splitlines() if s.startswith("VmData")]
limit = int(used[0].split()[1]) * 1024 + 6 * X.nbytes  # half of the files
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
value, slope = total(W)
assert (value, slope.tobytes()) == (wanted[0], wanted[1].tobytes())
try:
    held = [load(k) for k in range(COUNT)]
except MemoryError:
    print("memory is smaller than the files")
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory")
def test_files_that_are_larger_than_memory(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FILES], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "memory is smaller than the files\n", done.stderr


def residuals(b, x, y):
    return nist.MODELS["Hahn1"](b, x) - y


@fdiff.jit
def normal(b, x, y):
    r, J = residuals(b, x, y), fdiff.jacobian(residuals)(b, x, y)
    return {"cost": r @ r, "slope": J.T @ r, "matrix": J.T @ J, "count": r.size}


@pytest.mark.parametrize("where", [pytest.param("here", marks=pytest.mark.slow), "there"])
def test_certified_standard_errors_of_hahn1(session_client, where):
    """The data in three partitions, four times: errors are those of NIST but for the count."""
    data, times = nist.read("Hahn1"), 4
    parts = [*zip(*[np.array_split(data[name], 3) for name in "xy"], strict=True)] * times
    with session_client.as_current():
        rows = partitions(parts) if where == "there" else partitions(parts, None)
    sums, b = sum_over(normal, rows), data["start2"]
    scale = 1.0 / np.abs(data["b"])  # J'J has the square of J's condition number
    at = sums(b)
    for _ in range(60):
        matrix = at["matrix"] / np.outer(scale, scale)
        step = -np.linalg.lstsq(matrix, at["slope"] / scale, rcond=1e-16)[0] / scale
        while (trial := sums(b + step))["cost"] > at["cost"] * (1.0 + 1e-9):
            step = 0.5 * step
        b, at = b + step, trial
        if np.max(np.abs(step / b)) < 1e-8:
            break
    np.testing.assert_allclose(b, data["b"], rtol=1e-6)
    assert at["count"] == times * len(data["x"])
    variance = at["cost"] / times / data["dof"]
    inverse = np.linalg.inv(at["matrix"] / times / np.outer(scale, scale))
    errors = np.sqrt(variance * np.diag(inverse)) / scale
    np.testing.assert_allclose(errors, data["sd"], rtol=1e-5)


@pytest.mark.slow
def test_calls_leave_no_keys_threads_or_memory(client):
    total = fdiff.value_and_grad(sum_over(loss, partitions(PARTS, client)))

    def counts():
        keys = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))
        there = client.run(_threads_and_memory)
        return keys, threading.active_count(), there

    for k in range(40):
        total(W + k)
    keys, threads, there = counts()
    for k in range(500 if LONG else 60):
        total(W - k)
    more_keys, more_threads, after = counts()
    assert more_keys <= keys + 4
    assert more_threads <= threads + 1
    for address, (own_threads, memory) in there.items():
        assert after[address][0] <= own_threads + 1
        assert after[address][1] < memory + 20.0  # MB


def _threads_and_memory():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return threading.active_count(), pages * os.sysconf("SC_PAGESIZE") / 2**20
