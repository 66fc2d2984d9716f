"""Shifts that cancel are not differentiated; shifts that do not are."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp, softmax

import fdiff

X = np.random.default_rng(5).normal(size=(3, 4))
SQUARE = np.random.default_rng(6).normal(size=(3, 3))


def stops(f, x):
    return sum(node.primitive.name == "stop_gradient" for node in fdiff.make_tape(f, x).nodes)


def rows(x):
    m = np.max(x, axis=1)
    return np.log(np.sum(np.exp(x - m[:, None]), axis=1)) + m


def kept(x):
    m = x.max(axis=1, keepdims=True)
    return (m + np.log(np.sum(np.exp(x - m), axis=1, keepdims=True)))[:, 0]


def columns(x):
    m = x.max(axis=0)
    return m + np.log(np.exp(x - m).sum(axis=0))


def whole(x):
    m = np.max(x)
    return m + np.log(np.sum(np.exp(x - m)))


def one_shift(x):
    m = np.max(x)
    return np.log(np.exp(x - m).sum(axis=1)) + m


def mean_shift(x):
    m = np.mean(x, axis=1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=1)) + m[:, 0]


def shares(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_shares(x):
    d = x - x.max(axis=-1, keepdims=True)
    return d - np.log(np.sum(np.exp(d), axis=-1, keepdims=True))


def both(x):
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    s = e.sum(axis=1, keepdims=True)
    return (m + np.log(s)) * (e / s)


CANCEL = {
    "rows": (rows, lambda x: logsumexp(x, axis=1)),
    "kept": (kept, lambda x: logsumexp(x, axis=1)),
    "columns": (columns, lambda x: logsumexp(x, axis=0)),
    "whole": (whole, logsumexp),
    "one shift": (one_shift, lambda x: logsumexp(x, axis=1)),
    "mean": (mean_shift, lambda x: logsumexp(x, axis=1)),
    "shares": (shares, lambda x: softmax(x, axis=1)),
    "log shares": (log_shares, lambda x: np.log(softmax(x, axis=1))),
    "both": (both, lambda x: logsumexp(x, axis=1, keepdims=True) * softmax(x, axis=1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CANCEL)
def test_what_cancels_is_not_differentiated(name, tier):
    f, by_scipy = CANCEL[name]
    assert stops(f, X)
    assert_allclose(f(X), by_scipy(X), rtol=1e-13)
    weights = np.cos(np.arange(np.size(f(X)))).reshape(np.shape(f(X)))

    def loss(x):
        return np.sum(weights * f(x) ** 2)

    def plain(x):  # without any shift
        e = np.exp(x)
        axis = {"columns": 0, "whole": None}.get(name, 1)
        s = e.sum(axis=axis, keepdims=True)
        form = {"shares": e / s, "log shares": x - np.log(s), "both": np.log(s) * (e / s)}
        found = form[name] if name in form else np.log(s).reshape(np.shape(weights))
        return np.sum(weights * found**2)

    assert_allclose(fdiff.grad(loss)(X), fdiff.grad(plain)(X), rtol=1e-12, atol=1e-14)
    assert_allclose(fdiff.jvp(loss, X, X)[1], fdiff.jvp(plain, X, X)[1], rtol=1e-12)
    assert_allclose(fdiff.hessian(loss)(X), fdiff.hessian(plain)(X), rtol=1e-11, atol=1e-13)
    third = fdiff.grad(lambda x: np.sum(fdiff.grad(lambda y: np.sum(fdiff.grad(loss)(y) ** 2))(x)))
    wanted = fdiff.grad(
        lambda x: np.sum(fdiff.grad(lambda y: np.sum(fdiff.grad(plain)(y) ** 2))(x))
    )
    assert_allclose(third(X), wanted(X), rtol=1e-10, atol=1e-12)


def test_ties_are_no_kinks_where_the_maximum_cancels():
    tied = np.array([[1.0, 1.0, 0.0]])
    slope = fdiff.jacobian(rows, tied)
    assert_allclose(slope[0, 0], softmax(tied[0]), rtol=1e-15)


def forgotten(x):  # the shift is not added again
    return np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1))


def other_axis(x):
    m = x.max(axis=0)
    return np.log(np.exp(x - m).sum(axis=1)) + m


def other_shift(x):
    m = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - m).sum(axis=1)) + m[::-1, 0]


def transposed_sum(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1)


def turned_log(x):
    d = x - x.max(axis=1, keepdims=True)
    return d - np.log(np.exp(d).sum(axis=1))


def read_besides(x):
    m = x.max(axis=1, keepdims=True)
    e = np.exp(x - m)
    return (np.log(e.sum(axis=1)) + m[:, 0]) * e[:, 0]


def returned_besides(x):
    m = x.max(axis=1, keepdims=True)
    d = x - m
    return np.log(np.exp(d).sum(axis=1)) + m[:, 0], d


def two_sums(x):
    m = x.max()
    e = np.exp(x - m)
    return np.log(e.sum(axis=1)) + m + np.log(e.sum(axis=0))


def sum_read(x):
    m = x.max(axis=1, keepdims=True)
    s = np.exp(x - m).sum(axis=1)
    return np.log(s) + m[:, 0] + s


def twice(x):
    m = x.max(axis=1)
    return np.log(np.exp(x - m[:, None]).sum(axis=1)) + 2.0 * m


def crossed(x):
    m = x.max(axis=1)
    return np.log(np.exp(x - m[:, None]).sum(axis=1))[:, None] + m


def flat_beside(x):  # of shape (3, 1, 2): the sums lie along another axis
    e = np.exp(x - np.max(x, axis=2, keepdims=True))
    return e / np.sum(e, axis=2)


def flat_added(x):
    m = np.max(x, axis=2)
    return np.log(np.sum(np.exp(x - m[:, :, None]), axis=2, keepdims=True)) + m


REMAIN = (
    forgotten, other_axis, other_shift, transposed_sum, turned_log, read_besides, returned_besides,
    two_sums, sum_read, twice, crossed, flat_beside, flat_added,
)  # fmt: skip


@pytest.mark.parametrize("f", REMAIN, ids=lambda f: f.__name__)
def test_what_does_not_cancel_is_differentiated(f, tier):
    def loss(x):
        out = f(x)
        return sum(np.sum(np.sin(part)) for part in (out if isinstance(out, tuple) else (out,)))

    x = SQUARE[:, None, :2] if f.__name__.startswith("flat") else SQUARE
    assert stops(f, x) == 0
    slope, h = fdiff.grad(loss)(x), 1e-6
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = h
        assert_allclose(slope[at], (loss(x + step) - loss(x - step)) / (2 * h), atol=1e-8)


@pytest.fixture(params=["interpret", "compile", "evaluate"])
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)
    return request.param
