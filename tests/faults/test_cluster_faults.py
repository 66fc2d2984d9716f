"""Sums over partitions while workers die: time is lost, no digit; what cannot be mended is told."""

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from faults_support import LONG, in_shard

import fdiff
from fdiff.distributed import cluster as waiting
from fdiff.distributed import map_over, partitions, sum_over
from fdiff.errors import WorkerError

distributed = pytest.importorskip("distributed", reason="needs dask.distributed, an extra")
D, ROWS = 4, 300
W = np.linspace(-1.0, 1.0, D)


def loss(w, X, y):
    z = X @ w
    return np.sum(np.logaddexp(0.0, z) - y * z)


def chunk(k):
    rng = np.random.default_rng([1, k])
    return rng.standard_normal((ROWS, D)), (rng.random(ROWS) < 0.5) * 1.0


PARTS = [chunk(k) for k in range(12)]
gradient = fdiff.jit(fdiff.value_and_grad(loss))


def slow(w, X, y):
    time.sleep(0.05)
    return gradient(w, X, y)


def deadly(w, X, y):
    os.kill(os.getpid(), signal.SIGKILL)
    return np.sum(w)


@pytest.fixture(scope="module", autouse=True)
def no_worker_is_given_up():
    """By the cluster, 15 seconds after a death, if it is away then because of a later one."""
    dask = pytest.importorskip("dask", reason="needs dask, an extra")
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10h"}):
        yield


def local_cluster(workers=2, **options):
    return distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0",
        silence_logs=logging.CRITICAL, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def client():
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        yield client


def data(kind):
    if kind == "values":
        return PARTS
    if kind == "loaders":
        return [functools.partial(chunk, k) for k in range(12)]
    da = pytest.importorskip("dask.array", reason="needs dask, an extra")
    X, y = (np.concatenate([part[i] for part in PARTS]) for i in (0, 1))
    return da.from_array(X, chunks=(ROWS, D)), da.from_array(y, chunks=ROWS)


def worker_pids(client, count=2):
    """The processes of workers, once so many are there: one that died may not be missed yet."""
    end = time.monotonic() + 60.0
    while time.monotonic() < end:
        pids = [*client.run(os.getpid, on_error="ignore").values()]
        if len(pids) == count and all(map(alive, pids)):
            return pids
        time.sleep(0.05)
    raise TimeoutError(f"{len(pids)} workers")


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def kill_later(pids, seconds):
    def kill():
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    return timer


MOMENTS = in_shard(np.random.default_rng(5).uniform(0.02, 0.5, 20)) if LONG else [0.25]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["loaders", "values", "dask"] if LONG else ["values"])
def test_a_worker_that_is_killed_costs_no_digit(client, kind):
    total = sum_over(slow, partitions(data(kind), client))
    wanted = total(W)
    for moment in MOMENTS:
        pid = min(worker_pids(client))
        timer = kill_later([pid], moment)
        value, slope = total(W)
        timer.join()
        assert (value, slope.tobytes()) == (wanted[0], wanted[1].tobytes())
    while alive(pid):
        time.sleep(0.05)
    assert total(W)[1].tobytes() == wanted[1].tobytes()


@pytest.mark.skipif(not LONG, reason="make test-faults")
@pytest.mark.parametrize("kind", ["loaders", "values", "dask"])
def test_both_workers_at_once(client, kind):
    pids = worker_pids(client)
    rows = partitions(data(kind), client)
    total, doubled = sum_over(slow, rows), map_over(lambda s, X, y: (s * X, y), rows)(2.0)
    wanted = total(W)
    kill_later(pids, 0.2)
    assert total(W)[1].tobytes() == wanted[1].tobytes()
    found = sum_over(fdiff.value_and_grad(loss), doubled)(W / 2.0)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)


@pytest.mark.skipif(not LONG, reason="make test-faults")
def test_workers_that_join_and_retire():
    with local_cluster(1) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        total = sum_over(fdiff.value_and_grad(loss), partitions(PARTS, client))
        wanted = total(W)[1].tobytes()
        cluster.scale(3)
        client.wait_for_workers(3, timeout=60)
        assert total(W)[1].tobytes() == wanted
        client.retire_workers([next(iter(client.nthreads()))])
        assert total(W)[1].tobytes() == wanted


@pytest.mark.skipif(not LONG, reason="make test-faults")
def test_functions_that_kill_workers():
    with local_cluster() as cluster, distributed.Client(cluster, set_as_default=False) as client:
        rows = partitions([functools.partial(chunk, k) for k in range(2)], client)
        with pytest.raises(WorkerError, match=r"partitions? 0.*was tried 4 times") as caught:
            sum_over(deadly, rows)(W)
        assert "give workers more" in str(caught.value)


@pytest.mark.skipif(not LONG, reason="make test-faults")
def test_data_that_nobody_can_make_again(client):
    pids = worker_pids(client)
    futures = client.scatter(PARTS, hash=False)
    total = sum_over(slow, partitions(futures, client))
    total(W)
    kill_later(pids, 0.1)
    with pytest.raises(WorkerError, match=r"was lost with its worker(?s:.*)Give loaders"):
        [total(W) for _ in range(3)]


@pytest.mark.skipif(not LONG, reason="make test-faults")
def test_no_workers_and_no_scheduler(monkeypatch):
    monkeypatch.setattr(waiting, "ALONE", 3.0)
    with local_cluster(1) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        total = sum_over(slow, partitions(PARTS, client))
        total(W)
        cluster.scale(0)
        while client.nthreads():
            time.sleep(0.1)
        with pytest.raises(WorkerError, match="no workers for 3 seconds"):
            total(W)
    begin = time.monotonic()
    with pytest.raises(Exception, match=r"(?i)client|scheduler|workers"):
        total(W)
    assert time.monotonic() - begin < 30.0
    client.close(timeout=1)


BITS = """import numpy as np, fdiff, test_cluster_faults as faults
from fdiff.distributed import sum_over
value, slope = fdiff.value_and_grad(sum_over(faults.loss, faults.PARTS))(faults.W)
print(float(value).hex(), slope.tobytes().hex())
"""


@pytest.mark.skipif(not LONG, reason="make test-faults")
def test_unequal_processors_give_the_digits_of_the_level_they_are_told():
    """Workers of another level than this process, and one that is of theirs."""
    folders = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    here = {"FDIFF_CPU": "x86-64-v2", "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, "-c", BITS], env={**os.environ, **here}, text=True, check=True,
        capture_output=True,
    )  # fmt: skip
    with local_cluster(env=here) as cluster, distributed.Client(cluster) as client:
        total = fdiff.value_and_grad(sum_over(loss, partitions(PARTS, client)))
        assert set(client.run(lambda: os.environ["FDIFF_CPU"]).values()) == {"x86-64-v2"}
        value, slope = total(W)
    assert done.stdout.split() == [float(value).hex(), slope.tobytes().hex()]


@pytest.mark.slow
def test_an_interrupt_returns_at_once_and_leaves_all_usable(client):
    worker_pids(client)
    total = sum_over(
        lambda w, X, y: (time.sleep(0.15), np.sum(X @ w))[1], partitions(PARTS, client)
    )
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        total(W)
    assert time.monotonic() - begin < 1.5
    rows = partitions(PARTS, client)
    wanted = sum(loss(W, *part) for part in PARTS)
    np.testing.assert_allclose(sum_over(loss, rows)(W), wanted, rtol=1e-12)
