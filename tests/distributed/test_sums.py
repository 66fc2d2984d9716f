"""Sums over partitions and their derivatives, on a cluster and in one process: values and bits."""

import functools
import math
import threading

import numpy as np
import pytest
import scipy.optimize
from summed_data import PARTS, D, W, X, Y, bits, chunk, here, leaves, loss

import fdiff
from fdiff.distributed import cluster_calls, partitions, sum_over
from fdiff.distributed.ordered_sum import OrderedSum
from fdiff.distributed.sums import SumOver
from fdiff.errors import InputError, VectorError

V = np.ones(D)
DASK = "needs dask, an extra"
# Each operator with the parameters after the function.
OPERATORS = {
    "jit": (W,), "grad": (W,), "value_and_grad": (W,), "hessian": (W,), "jacobian": (W,),
    "jacrev": (W,), "jacfwd": (W,), "hessian_diagonal": (W,), "hvp": (W, V), "vhp": (W, V),
    "jvp": (W, V), "vjp": (W, 1.0),
}  # fmt: skip
each_operator = pytest.mark.parametrize("name", OPERATORS)


def close(found, wanted, rtol=1e-12):
    for a, b in zip(leaves(found), leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(np.max(np.abs(b)), 1.0))


@pytest.fixture
def passes(monkeypatch):
    """How many passes over the data there were; first terms alone are none."""
    seen, total = [], SumOver.total

    def counted(self, args, kwargs, *, first=False):
        if not first:
            seen.append(self)
        return total(self, args, kwargs, first=first)

    monkeypatch.setattr(SumOver, "total", counted)
    return seen


# ------------------------------------------------------------------------- the order of addition


@pytest.mark.parametrize("count", range(1, 41))
def test_the_order_of_addition_depends_on_the_number_of_terms_alone(count):
    rng = np.random.default_rng(count)
    terms = rng.standard_normal(count) * 10.0 ** rng.integers(-8, 8, count)
    found = set()
    for _ in range(20):
        parts = []
        for share in np.array_split(rng.permutation(count), rng.integers(1, 5)):
            part = OrderedSum(count)
            for k in share:
                part.add(int(k), float(terms[k]))
            parts.append(part)
        found.add(OrderedSum.joined(parts).total().hex())
    assert len(found) == 1
    assert math.isclose(float.fromhex(found.pop()), math.fsum(terms), rel_tol=1e-12, abs_tol=1e-6)


def test_small_integers_are_added_as_by_numpy():
    total = OrderedSum(3)
    for k in range(3):
        total.add(k, {"count": np.int8(100), "big": 2**70, "none": None})
    assert total.total() == {"count": 300, "big": 3 * 2**70, "none": None}


# ------------------------------------------------------------------------------------- operators


@each_operator
def test_each_operator_of_a_sum_is_one_pass(name, passes):
    operator, args = getattr(fdiff, name), OPERATORS[name]
    total = sum_over(loss, here(PARTS))
    found = operator(total)(*args)
    assert len(passes) == 1
    close(found, operator(lambda w: loss(w, X, Y))(*args))
    assert bits(sum_over(operator(loss), here(PARTS))(*args)) == bits(found)


@each_operator
def test_each_operator_of_a_function_with_a_sum_in_it_is_one_pass(name, passes):
    operator, args = getattr(fdiff, name), OPERATORS[name]
    total = sum_over(loss, here(PARTS))
    f = operator(lambda w: np.cos(w[0]) * total(w) + np.sum(w**2))
    wanted = operator(lambda w: np.cos(w[0]) * loss(w, X, Y) + np.sum(w**2))(*args)
    close(f(*args), wanted)
    del passes[:]
    close(f(*args), wanted)
    assert len(passes) == 1


def squares(w, X, y):
    return np.sum((X @ w - y) ** 2)


@pytest.mark.slow
def test_sums_that_do_not_wait_for_each_other_are_one_pass(passes):
    rows = here(PARTS)
    first, second, other = (
        sum_over(loss, rows),
        sum_over(squares, rows),
        sum_over(loss, here(PARTS)),
    )
    f, g = (lambda w: loss(w, X, Y)), (lambda w: squares(w, X, Y))
    cases = {
        1: (lambda w: first(w) * second(w), lambda w: f(w) * g(w)),
        2: (lambda w: first(w) * other(2.0 * w), lambda w: f(w) * f(2.0 * w)),
        3: (lambda w: first(w * second(w / first(w))), lambda w: f(w * g(w / f(w)))),
    }
    for count, (total, plain) in cases.items():
        for operator, args in ((fdiff.value_and_grad, (W,)), (fdiff.hvp, (W, V))):
            found = operator(total)
            found(*args)
            del passes[:]
            close(found(*args), operator(plain)(*args), 1e-11)
            assert len(passes) == count


@each_operator
def test_clusters_give_the_bits_of_one_process(client, name):
    operator, args = getattr(fdiff, name), OPERATORS[name]
    there = partitions(PARTS, client)
    assert bits(operator(sum_over(loss, there))(*args)) == bits(
        operator(sum_over(loss, here(PARTS)))(*args)
    )


def test_a_function_with_a_sum_in_it_on_a_cluster(client):
    total = sum_over(loss, partitions(PARTS, client))
    f, g = (lambda w: total(w) + np.sum(w**4)), (lambda w: loss(w, X, Y) + np.sum(w**4))
    close(fdiff.value_and_grad(f)(W), fdiff.value_and_grad(g)(W))
    close(fdiff.hessian(f)(W), fdiff.hessian(g)(W))


@pytest.mark.parametrize("product", [fdiff.hvp, fdiff.vhp])
def test_a_value_with_a_product_is_one_pass(product, passes):
    shifted = lambda w, b, X, y: loss(w, X, y) * b**2
    total, whole = sum_over(shifted, here(PARTS)), lambda w, b: shifted(w, b, X, Y)
    point, vectors = (W, 2.0), (V, 0.5)
    found = product(total, point, vectors)
    assert len(passes) == 1
    close(found, product(whole, point, vectors))
    one = product(sum_over(loss, here(PARTS)), W, V)
    assert len(passes) == 2
    close(one, product(lambda w: loss(w, X, Y), W, V))
    inside = lambda f: lambda w: np.sum(product(f, w, V)[1] ** 2) + product(f, w, V)[0]
    close(
        fdiff.grad(inside(sum_over(loss, here(PARTS))))(W),
        fdiff.grad(inside(lambda w: loss(w, X, Y)))(W),
    )
    with pytest.raises(VectorError, match="v has invalid size"):
        product(total, point, (V[1:], 0.5))


def test_a_value_with_a_product_on_a_cluster(client):
    found = fdiff.hvp(sum_over(loss, partitions(PARTS, client)), W, V)
    assert bits(found) == bits(fdiff.hvp(sum_over(loss, here(PARTS)), W, V))


@pytest.mark.slow
def test_immediate_and_nested_operators():
    total = sum_over(loss, here(PARTS))
    f = lambda w: loss(w, X, Y)
    close(fdiff.hessian(total, W), fdiff.hessian(f, W))
    close(fdiff.jacobian(fdiff.grad(total))(W), fdiff.hessian(f)(W))
    third = fdiff.jvp(fdiff.jit(fdiff.hessian(total)), W, V)[1]
    close(third, fdiff.jvp(fdiff.hessian(f), W, V)[1])
    posterior = fdiff.jvp(lambda w: fdiff.hessian(lambda u: total(u) * u[0])(w), W, V)[1]
    close(posterior, fdiff.jvp(fdiff.hessian(lambda u: f(u) * u[0]), W, V)[1], 1e-11)


def test_gradients_of_all_operators_inside_agree_with_differences():
    total = sum_over(loss, here(PARTS))
    fdiff.check_grads(lambda w: total(np.tanh(w)) * 1e-2, (W,), order=2)


def test_several_parameters_in_structures():
    def f(p, scale, X, y):
        return {"loss": scale * loss(p["w"], X, y) + p["b"] ** 2, "rows": len(y), "X'y": X.T @ y}

    total = sum_over(f, here(PARTS))
    p = {"w": W, "b": 0.5}
    found = total(p, 2.0)
    assert found["rows"] == len(Y)
    close(found["X'y"], X.T @ Y)
    slope = fdiff.grad(lambda p, s: total(p, s)["loss"], argnums=(0, 1))(p, 2.0)
    close(slope[0]["w"], 2.0 * fdiff.grad(loss)(W, X, Y))
    close(slope[0]["b"], 9 * 2 * 0.5)
    close(slope[1], loss(W, X, Y))
    direct = fdiff.grad(sum_over(lambda p, s, X, y: f(p, s, X, y)["loss"], here(PARTS)), (0, 1))
    close(direct(p, 2.0)[0]["w"], slope[0]["w"])


def test_vectors_of_sums_inside():
    f = lambda w, X, y: X.T @ np.tanh(X @ w - y)
    total = sum_over(f, here(PARTS))
    g, want = (lambda w: np.sum(total(w) ** 2)), (lambda w: np.sum(f(w, X, Y) ** 2))
    close(fdiff.grad(g)(W), fdiff.grad(want)(W))
    close(fdiff.hessian(g)(W), fdiff.hessian(want)(W))
    close(fdiff.jacobian(lambda w: total(w) * 2.0)(W), 2.0 * fdiff.jacobian(f)(W, X, Y))
    close(fdiff.vmap(lambda s: total(s * W))(np.arange(3.0))[2], f(2.0 * W, X, Y))


def test_a_branch_on_a_sum():
    total = sum_over(loss, here(PARTS))
    f = fdiff.grad(lambda w: total(w) if total(w) > 1e4 else 2.0 * total(w))
    close(f(W), 2.0 * fdiff.grad(loss)(W, X, Y))
    close(f(100.0 * W), fdiff.grad(loss)(100.0 * W, X, Y))


@pytest.mark.slow
def test_scipy_takes_sums_as_they_are(client):
    total = sum_over(loss, partitions(PARTS, client))
    posterior = lambda w: total(w) + 0.5 * np.sum(w**2)
    found = scipy.optimize.minimize(
        fdiff.value_and_grad(posterior), W, jac=True, hessp=fdiff.hvp(posterior),
        method="trust-ncg", options={"gtol": 1e-9},
    )  # fmt: skip
    slope = fdiff.grad(lambda w: loss(w, X, Y) + 0.5 * np.sum(w**2))(found.x)
    assert np.max(np.abs(slope)) < 1e-8
    found = scipy.optimize.minimize(fdiff.value_and_grad(total), W, jac=True, method="L-BFGS-B")
    assert np.max(np.abs(fdiff.grad(loss)(found.x, X, Y))) < 1e-2


# ------------------------------------------------------------------------------- bits, and kinds


def grouped(client, size):
    found = here(PARTS)
    found.on(client, [range(k, min(k + size, 9)) for k in range(0, 9, size)])
    return found


def test_bits_do_not_depend_on_groups_fan_in_or_threads(client, monkeypatch):
    wanted = bits(fdiff.value_and_grad(sum_over(loss, here(PARTS)))(W))
    for size in (1, 2, 3, 9):
        total = fdiff.value_and_grad(sum_over(loss, grouped(client, size)))
        assert bits(total(W)) == wanted
    monkeypatch.setattr(cluster_calls, "FAN_IN", 1)
    total = fdiff.value_and_grad(sum_over(loss, grouped(client, 1)))
    total._fan_in = 1
    monkeypatch.setattr(cluster_calls.ClusterCall, "_shares", lambda call: [[k] for k in range(9)])
    total._fan_in = 2
    assert bits(total(W)) == wanted


def test_the_kinds_of_data(client):
    da, dask = (
        pytest.importorskip("dask.array", reason=DASK),
        pytest.importorskip("dask", reason=DASK),
    )
    wanted = bits(fdiff.grad(sum_over(loss, here(PARTS)))(W))
    sizes = tuple(len(part[1]) for part in PARTS)
    data = {
        "loaders": [functools.partial(chunk, k) for k in range(9)],
        "closures": [lambda k=k: chunk(k) for k in range(9)],
        "arrays": (da.from_array(X, chunks=(sizes, D)), da.from_array(Y, chunks=(sizes,))),
        "futures": client.map(chunk, range(9), pure=False),
        "delayed": [dask.delayed(chunk)(k) for k in range(9)],
        "mixed": [*PARTS[:3], functools.partial(chunk, 3), *map(dask.delayed(chunk), range(4, 9))],
        "two": (partitions([(x,) for x, _ in PARTS], client), grouped_targets(client)),
    }
    for name, given in data.items():
        assert bits(fdiff.grad(sum_over(loss, given))(W)) == wanted, name


@pytest.mark.slow
def test_tables_of_dask(client):
    pandas, dd = (
        pytest.importorskip("pandas", reason="needs pandas"),
        pytest.importorskip("dask.dataframe", reason=DASK),
    )
    table = pandas.DataFrame({"x": X[:, 0], "y": Y})
    rows = partitions(dd.from_pandas(table, npartitions=4), client)
    total = sum_over(lambda w, t: np.sum((t["y"].to_numpy() - w * t["x"].to_numpy()) ** 2), rows)
    close(fdiff.grad(total)(2.0), np.sum(-2.0 * X[:, 0] * (Y - 2.0 * X[:, 0])))


def grouped_targets(client):
    found = here([(y,) for _, y in PARTS])
    found.on(client, [range(5), range(5, 9)])
    return found


def test_what_partitions_say_of_themselves(client):
    rows = partitions(PARTS, client)
    assert len(rows) == 9
    shown = repr(rows)
    assert "9 partitions in 9 groups on 2 workers" in shown
    assert f"{(X.nbytes + Y.nbytes) / 1e6:.1f} MB" in shown
    with rows:
        sum_over(loss, rows)(W)
    assert "released" in repr(rows)
    with pytest.raises(InputError, match="have been released"):
        sum_over(loss, rows)(W)


def test_threads_of_a_worker_add_in_the_same_order():
    distributed = pytest.importorskip("distributed", reason=DASK)
    wanted = bits(fdiff.value_and_grad(sum_over(loss, here(PARTS)))(W))
    cluster = distributed.LocalCluster(
        processes=False, n_workers=1, threads_per_worker=8, dashboard_address=":0"
    )
    with cluster, distributed.Client(cluster, set_as_default=False) as client:
        total = fdiff.value_and_grad(sum_over(loss, partitions(PARTS, client)))
        found = [None] * 3

        def run(k):
            found[k] = bits(total(W))

        threads = [threading.Thread(target=run, args=(k,)) for k in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert found == [wanted] * 3


def test_data_and_functions_stay_where_they_are(client):
    total = fdiff.value_and_grad(sum_over(loss, partitions(PARTS[:2], client)))
    total(W)

    def counts(dask_worker):
        from fdiff.distributed import worker_tasks

        moved = sum(t["total"] for t in dask_worker.transfer_incoming_log)
        unpickled = worker_tasks._functions.items()  # once each
        functions = {digest: id(f) for digest, f in unpickled}
        return moved, functions, fdiff.cache_info().compiled

    before = client.run(counts)
    for k in range(25):
        total(W + k)
    assert client.run(counts) == before


def test_large_parameters_and_arrays_are_sent_once(client):
    captured = np.arange(600_000.0)

    def f(w, x):
        return np.sum(captured[:4] * w[:4]) * np.sum(x)

    rows = partitions([(np.ones(2),), (np.ones(3),)], client)
    total, w = fdiff.grad(sum_over(f, rows)), np.ones(600_000)
    assert total(w)[3] == 15.0
    keys = {future.key for sent in rows.buffers for future in sent.values()}
    assert len(keys) == 2
    assert total(w)[3] == 15.0
    assert {future.key for sent in rows.buffers for future in sent.values()} == keys
    captured[3] = 100.0
    assert total(w)[3] == 500.0
    close(total(w)[:4], [0.0, 5.0, 10.0, 500.0])
