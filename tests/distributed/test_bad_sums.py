"""What sums over partitions refuse: an error names the call, the fact and the way out."""

import threading
import types

import numpy as np
import pytest
from summed_data import PARTS, W, here, loss

import fdiff
from fdiff.bounded_cache import WeakKeys
from fdiff.distributed import cluster, map_over, partitions, sum_over
from fdiff.errors import FdiffError, InputError

HERE = here(PARTS)
total = sum_over(loss, HERE)
writes = []


def ragged(w, X, y):
    return X @ w


def counting(w, X, y):
    writes.append(len(y))
    return np.sum(X @ w)


def different(w, X, y):
    return (w[0], w[1]) if len(y) % 2 else w[0]


PARTITIONS = {
    "none": ([], "there are no partitions"),
    "array": (np.ones(3), "arrays of NumPy are not partitions"),
    "arrays": ((np.ones(3), np.ones(3)), "np.array_split"),
    "text": ("data.npy", "data of type str are not partitions"),
    "generator": ((p for p in PARTS), "data of type generator"),
    "rows": ([np.ones(3), np.ones(3)], "partition 0 is of type ndarray"),
}
CALLS = {
    "shapes": (lambda: sum_over(ragged, HERE)(W), "which depend on the partition"),
    "texts": (lambda: sum_over(lambda w, X, y: "no", HERE)(W), "type str cannot be added"),
    "truth": (lambda: sum_over(lambda w, X, y: y > 0, HERE)(W), "dtype bool cannot be added"),
    "structures": (lambda: sum_over(different, HERE)(W), "different structure"),
    "arguments": (lambda: sum_over(lambda w, X: w, HERE)(W), "of partition 0 of 9"),
    "out": (lambda: total(W, out=np.ones(4)), "there is no `out=`"),
    "released": (lambda: _released()(W), "have been released"),
    "lengths": (lambda: sum_over(loss, (HERE, here(PARTS[:3]))), "9, 3 partitions"),
    "aux": (
        lambda: fdiff.grad(sum_over(lambda w, X, y: (w[0], "aux"), HERE), has_aux=True)(W),
        "type str cannot be added",
    ),
    "vmap": (lambda: fdiff.vmap(total), "no meaning for a sum over partitions"),
    "njit": (lambda: fdiff.njit(total), "code that Numba compiles cannot wait"),
    "cfunc": (lambda: fdiff.cfunc(total, W), "C code cannot wait"),
    "cuda": (lambda: fdiff.grad(total, device="cuda"), "workers compute on processors"),
    "sparse": (lambda: fdiff.hessian(total, sparse=True), "sparse results are not added"),
    "from the end": (lambda: fdiff.grad(total, argnums=-1), "counts from the end"),
    "of the data": (lambda: fdiff.grad(total, argnums=1)(W), "takes 2 parameters at least"),
    "no vector": (lambda: fdiff.hvp(total)(W), "takes 2 parameters at least"),
    "recorded": (lambda: total(fdiff.autograd.tensor([1.0] * 4)), "a recorded array"),
    "map in a trace": (
        lambda: fdiff.grad(lambda w: map_over(loss, HERE)(w))(W),
        "partitions have no derivatives",
    ),
    "writes": (lambda: sum_over(counting, HERE)(W), "writes to what is outside"),
    "writes of a derivative": (
        lambda: sum_over(fdiff.grad(counting), HERE)(W),
        "writes to what is outside",
    ),
    "no function": (lambda: sum_over(3, HERE), "expects a function first"),
}


def _released():
    with here(PARTS) as rows:
        return sum_over(loss, rows)


@pytest.mark.parametrize("name", PARTITIONS)
def test_data_that_is_no_partitions(name):
    data, words = PARTITIONS[name]
    with pytest.raises(InputError) as caught:
        partitions(data)
    assert words in _without_lines(caught.value)
    assert str(caught.value).startswith("fdiff.distributed.partitions: ")
    assert "test_bad_sums.py" in str(caught.value)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("name", CALLS)
def test_calls_that_are_refused(name):
    call, words = CALLS[name]
    for _ in range(2):
        with pytest.raises(FdiffError) as caught:
            call()
        assert words in _without_lines(caught.value)
    del writes[:]


def _without_lines(error):
    """The message, but for the user's lines, which are lines of this file."""
    return " ".join(line for line in str(error).splitlines() if not line.startswith("    "))


def test_dask_arrays_that_do_not_fit():
    da = pytest.importorskip("dask.array", reason="needs dask, an extra")
    X, y = da.ones((100, 4), chunks=(10, 4)), da.ones(100, chunks=20)
    with pytest.raises(InputError, match=r"rows in 5 chunks of 20, 20(?s:.*)rechunk"):
        partitions((X, y))
    with pytest.raises(InputError, match="along another axis"):
        partitions(da.ones((100, 4), chunks=(10, 2)))
    with pytest.raises(InputError, match="a Dask Array"):
        total(da.ones(4))
    closed = types.SimpleNamespace(status="closed", scatter=None)
    with pytest.raises(InputError, match="the client is closed"):
        partitions(PARTS, closed)
    with pytest.raises(InputError, match=r"must be a distributed\.Client, not str"):
        partitions(PARTS, "tcp://127.0.0.1:8786")


@pytest.mark.slow
def test_versions_that_differ(client, monkeypatch):
    monkeypatch.setattr(cluster, "_checked", WeakKeys())
    monkeypatch.setattr(fdiff, "__version__", "0.0.1")
    with pytest.raises(InputError, match=r"has fdiff 0.2\.\S+, and this process has fdiff 0.0.1"):
        partitions(PARTS, client)
    monkeypatch.undo()
    assert len(partitions(PARTS, client)) == 9


def test_what_clusters_refuse(client):
    rows = partitions(PARTS, client)
    for _ in range(2):
        with pytest.raises(InputError, match=r"writes to what is outside"):
            sum_over(counting, rows)(W)
    for f, words in (
        (ragged, "which depend on the partition"),
        (different, "different structure"),
        (lambda w, X: w, "of partition 0 of 9"),
        (lambda w, X, y: "no", "type str"),
    ):
        with pytest.raises(InputError, match=words) as caught:
            sum_over(f, rows)(W)
        assert str(caught.value).startswith("sum_over(")
    assert writes == []
    assert np.isfinite(sum_over(loss, rows)(W))


class Model:
    def __init__(self, lock):
        self.lock = lock

    def loss(self, w, X, y):
        return w[0]


LOCK = threading.Lock()


def test_what_cannot_be_sent_is_named(client, tmp_path):
    rows, lock, stream = partitions(PARTS, client), LOCK, (k for k in range(3))
    with (tmp_path / "log").open("w") as log:
        model, table = Model(lock), {"rows": [lock]}
        inner = lambda: lock
        read = {
            "`lock`, an object of type _thread.lock,": lambda w, X, y: (lock, w[0])[1],
            "`LOCK`, an object of type _thread.lock,": lambda w, X, y: (LOCK, w[0])[1],
            "`stream`, an object of type generator,": lambda w, X, y: (stream, w[0])[1],
            "`log`, an object of type _io.TextIOWrapper,": lambda w, X, y: (log, w[0])[1],
            "`model.lock`, an object of type _thread.lock,": lambda w, X, y: (model, w[0])[1],
            "an object of type _thread.lock": lambda w, X, y: (table, w[0])[1],
            "`lock`, an object of type _thread.lock, ": lambda w, X, y: (inner, w[0])[1],
            "`lock`, an object of type _thread.lock,  ": lambda w, X, y, lock=lock: w[0],
            "an object of type _thread.lock ": model.loss,
        }
        for words, f in read.items():
            for each in (f, fdiff.grad(f)):
                with pytest.raises(InputError) as caught:
                    sum_over(each, rows)(W)
                assert words.strip() in str(caught.value)
                assert "cannot be sent to workers" in str(caught.value)
    with pytest.raises(InputError, match=r"an object of type _thread\.lock cannot be sent"):
        sum_over(lambda w, s, X, y: w[0], rows)(W, lock)
    with pytest.raises(InputError, match=r"`lock`(?s:.*)Make it inside"):
        partitions([lambda: (lock, PARTS[0])[1]], client)
