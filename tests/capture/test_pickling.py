"""Copies of prepared functions: pickle, cloudpickle, joblib, dask, multiprocessing, deepcopy."""

import copy
import inspect
import multiprocessing
import pickle
import subprocess
import sys

import cloudpickle
import numpy as np
import pytest

import fdiff

X = np.array([1.0, 2.0])


def scalar(x, k=1.0):
    return k * np.sum(x**3)


def pair(x, k=1.0):
    return k * np.sum(x**3), np.sum(x)


def vector(x, k=1.0):
    return k * x * x


@fdiff.grad
def decorated(x):
    return np.sum(np.sin(x))


class Model:
    """A function object with data of its own."""

    def __init__(self):
        self.scale = np.array([1.0, 10.0])

    def __call__(self, x):
        return np.sum(self.scale * x**2)


PREPARED = [
    (fdiff.grad(scalar, argnums=(0, 1)), (X, 2.0)),
    (fdiff.grad(pair, has_aux=True), (X,)),
    (fdiff.value_and_grad(scalar), (X,)),
    (fdiff.jacobian(vector, mode="forward", strict=True), (X,)),
    (fdiff.hessian(scalar, chunk_size=1), (X,)),
    (fdiff.hessian_diagonal(scalar, chunk_size=2), (X,)),
    (fdiff.jacrev(vector), (X,)),
    (fdiff.jacfwd(vector, argnums=1), (X, 2.0)),
    (fdiff.vjp(vector), (X, X)),
    (fdiff.jvp(vector, argnums=1), (2.0, 1.0, X)),
    (fdiff.hvp(scalar), (X, X)),
    (fdiff.vhp(scalar, strict=True), (X, X)),
    (fdiff.jit(vector), (X,)),
    (fdiff.vmap(vector, in_axes=(0, None), out_axes=1), (np.ones((2, 3)), 2.0)),
    (fdiff.grad(fdiff.grad(np.sin)), (1.0,)),
    (fdiff.grad(Model()), (X,)),
]  # fmt: skip


@pytest.mark.parametrize("again", [
    lambda g: pickle.loads(pickle.dumps(g)),
    lambda g: pickle.loads(pickle.dumps(g, 2)),
    lambda g: cloudpickle.loads(cloudpickle.dumps(g)),
    copy.deepcopy,
])  # fmt: skip
@pytest.mark.parametrize(("prepared", "args"), PREPARED, ids=lambda p: getattr(p, "__fdiff__", ""))
def test_every_operator_is_made_again(prepared, args, again):
    other = again(prepared)
    assert other is not prepared
    assert other.origin.options == prepared.origin.options
    np.testing.assert_equal(other(*args), prepared(*args))


def test_every_operator_is_tried():
    made = {prepared.__fdiff__ for prepared, _ in PREPARED}
    documents = {name: inspect.getdoc(getattr(fdiff, name)) or "" for name in fdiff.__all__}
    operators = {name for name, document in documents.items() if "\nargnums :" in document}
    operators -= {"explain"}  # which gives a report
    assert len(operators) > 5
    assert operators | {"jit", "vmap"} <= made


def doubled(x):
    return 2.0 * x


def test_a_function_with_a_rule_keeps_it():
    ruled = fdiff.custom_vjp(doubled)
    ruled.defvjp(forward_of_doubled, backward_of_doubled)
    other = pickle.loads(pickle.dumps(ruled))
    assert other(1.0) == 2.0
    assert fdiff.grad(other)(1.0) == 3.0  # by the rule


def forward_of_doubled(x):
    return doubled(x), None


def backward_of_doubled(_, bar):
    return (3.0 * bar,)


def test_a_deep_copy_has_its_own_data():
    prepared = fdiff.grad(Model())
    other = copy.deepcopy(prepared)
    prepared.__wrapped__.scale[0] = 100.0
    np.testing.assert_array_equal(other(X), [2.0, 40.0])
    np.testing.assert_array_equal(prepared(X), [200.0, 40.0])


def test_a_decorated_function_is_found_by_its_name():
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_functions_that_pickle_cannot_send_are_refused_by_pickle():
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(fdiff.grad(lambda x: x))
    np.testing.assert_array_equal(
        cloudpickle.loads(cloudpickle.dumps(fdiff.grad(lambda x: 3 * x)))(1.0), 3.0
    )


def test_workers_of_multiprocessing():  # by fork below: JAX, which other tests import, warns of it
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for f in (decorated, PREPARED[2][0]):
            np.testing.assert_equal(pool.map(f, [X]), [f(X)])


SCRIPT = """
import numpy as np, fdiff

@fdiff.grad
def decorated(x):
    return np.sum(np.sin(x))

kept = fdiff.jacobian(lambda x: x**2)

def work(k):
    return decorated(np.ones(2) * k), kept(np.ones(1) * k)

if __name__ == "__main__":
    want = [work(k) for k in range(3)]
    import multiprocessing
    with multiprocessing.get_context("fork").Pool(1) as pool:
        np.testing.assert_equal(pool.map(work, range(3)), want)
    import dask
    from joblib import Parallel, delayed
    np.testing.assert_equal(Parallel(2)(delayed(work)(k) for k in range(3)), want)
    points = [np.ones(2) * k for k in range(3)]
    np.testing.assert_equal(Parallel(2)(map(delayed(decorated), points)), [w[0] for w in want])
    tasks = [dask.delayed(work)(k) for k in range(3)]
    np.testing.assert_equal(list(dask.compute(*tasks, scheduler="processes", num_workers=1)), want)
"""


@pytest.mark.slow
def test_a_script_whose_workers_use_its_globals(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
