"""End to end: whatever way captured data changes between calls, the next call sees it."""

import dataclasses
import functools
import threading
import types
import warnings

import numpy as np
import pytest
from test_capture import OPAQUE, TRACKED, A, B, by_name, module

import fdiff
from fdiff.errors import RetraceWarning

X = np.array([0.5, 1.0, 2.0])
NO_ARRAY = {"vectorized", "bound_to_object", "iterator", "masked_array"}
READABLE = [case for case in OPAQUE if case.__name__ not in NO_ARRAY]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        yield


@by_name(TRACKED + READABLE)
def test_a_new_array_is_seen(case):
    read, change = case()
    g = fdiff.grad(lambda x: np.sum(x * x * read()))
    np.testing.assert_allclose(g(X), 2 * X * A)
    for value in (B, B + 1, np.array([7.0]), np.array(3.0), B, B.astype(np.float32)):
        change(value)
        np.testing.assert_allclose(g(X), 2 * X * value)


@by_name([c for c in TRACKED + READABLE if c.__name__ != "object_array"])
def test_a_new_number_is_seen(case):
    read, change = case()
    g = fdiff.grad(lambda x: np.sum(x * x * read()))
    for value in (2.0, 3.0, 3, np.float64(2.0), -0.0, B, 5.0):
        change(value)
        np.testing.assert_allclose(g(X), 2 * X * value)


@by_name(TRACKED)
def test_writing_into_the_array_is_seen_without_a_new_trace(case):
    read, change = case()
    data = B.copy()
    change(data)
    g = fdiff.grad(lambda x: np.sum(x * x * read()))
    for k in range(3):
        data[:] = k
        np.testing.assert_allclose(g(X), 2 * X * k)
        data[1] = 10
        np.testing.assert_allclose(g(X), 2 * X * [k, 10, k])


@by_name(TRACKED)
def test_data_of_a_transformed_function_inside_another(case):
    read, change = case()
    inner = fdiff.grad(lambda y: np.sum(y**3 * read()))
    outer = fdiff.grad(lambda x: np.sum(inner(x) * read()))
    for value in (B, B + 1, 2.0, B):
        change(value)
        np.testing.assert_allclose(outer(X), 6 * X * value * value)


@pytest.mark.parametrize("operator_", [fdiff.grad, fdiff.jacrev, fdiff.jacfwd, fdiff.hessian])
def test_every_operator_sees_it(operator_):
    d = {"w": B.copy()}

    def f(x):
        return np.sum(x**3 * d["w"])

    g = operator_(f)
    first = np.asarray(g(X))
    d["w"] = d["w"] * 2
    np.testing.assert_allclose(g(X), 2 * first)
    d["w"][:] = 0
    np.testing.assert_allclose(g(X), 0 * first)


def test_fresh_lambdas_over_changing_data():
    for k in range(5):
        data, c = B * k, float(k)
        f = lambda x: np.sum(x * data) * c
        np.testing.assert_allclose(fdiff.grad(f)(X), data * c)
        np.testing.assert_allclose(
            fdiff.jacobian(functools.partial(lambda d, x: x * d, data), X), np.diag(data)
        )


def test_functions_with_equal_code_and_other_data_do_not_mix():
    def make(data, k):
        return fdiff.grad(lambda x: np.sum(x * x * data) * k)

    made = [(make(B * i, float(j)), B * i * j) for i in range(3) for j in range(3)]
    for _ in range(2):
        for g, expected in made:
            np.testing.assert_allclose(g(X), 2 * X * expected)


def test_integer_data_that_python_looks_at():
    index, n = np.array([2, 0, 1]), np.array(2)

    def f(x):
        total = 0.0
        for i in index[: int(n)]:
            total = total + x[i] ** 2
        return total

    g = fdiff.grad(f)
    np.testing.assert_allclose(g(X), [2 * X[0], 0, 2 * X[2]])
    index[:] = 1, 1, 0
    np.testing.assert_allclose(g(X), [0, 4 * X[1], 0])
    n[()] = 3
    np.testing.assert_allclose(g(X), [2 * X[0], 4 * X[1], 0])


def test_branches_on_captured_values():
    d = {"mode": "sum", "w": B, "flag": np.array(1.0)}

    def f(x):
        if d["mode"] == "sum" and d["flag"] > 0:
            return np.sum(x * d["w"])
        return np.prod(x)

    g = fdiff.grad(f)
    np.testing.assert_allclose(g(X), B)
    d["flag"][()] = -1
    np.testing.assert_allclose(g(X), np.prod(X) / X)
    d["flag"][()] = 1
    np.testing.assert_allclose(g(X), B)
    d["mode"] = "prod"
    np.testing.assert_allclose(g(X), np.prod(X) / X)


def test_a_function_that_counts_its_calls_is_run_each_time():
    m = module("n = 0\ndef f(x):\n    global n\n    n += 1\n    return (x * n).sum()")
    g = fdiff.grad(m.f)
    for k in range(1, 4):
        np.testing.assert_allclose(g(X), k)
        assert m.n == k


def test_a_parameter_dict_is_differentiated_inside():
    p = {"w": B}
    h = fdiff.grad(lambda x: np.sum(fdiff.grad(lambda q: np.sum(q["w"] ** 2 * x[0]))(p)["w"]))
    np.testing.assert_allclose(h(X), [2 * B.sum(), 0, 0])
    p["w"] = B * 2
    np.testing.assert_allclose(h(X), [4 * B.sum(), 0, 0])


def test_the_words_of_the_warning():
    p = types.new_class("Model", (dict,))()
    p.w = B
    g = fdiff.grad(lambda x: np.sum(x * p.w))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        with pytest.raises(RetraceWarning, match="attributes of the Model object `p`"):
            g(X)


def test_two_threads_with_data_of_their_own():
    def work(k, out):
        data = B * k
        g = fdiff.grad(lambda x: np.sum(x * data))
        for i in range(50):
            data[:] = B * (k + i)
            out.append(np.allclose(g(X), B * (k + i)))

    out = []
    threads = [threading.Thread(target=work, args=(k, out)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(out) == 200
    assert all(out)


@dataclasses.dataclass
class Settings:
    w: np.ndarray
    power: int = 2


def test_a_dataclass_of_settings():
    s = Settings(B)
    g = fdiff.grad(lambda x: np.sum(s.w * x**s.power))
    np.testing.assert_allclose(g(X), B * 2 * X)
    s.power = 3
    np.testing.assert_allclose(g(X), B * 3 * X**2)
    s.w = B * 2
    np.testing.assert_allclose(g(X), B * 6 * X**2)
