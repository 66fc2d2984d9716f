"""Kernels whose loops over the same rows take turns, a block of rows at a time."""

import re

import numpy as np
import pytest
from tapes import tape_of
from thread_counts import ask_for_threads

from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def mixture(x, means, scales):
    """Distances to each mean in that one's own coordinates: products of stacks of matrices."""
    d = x[:, None, :] - means
    y = np.einsum("kij,nkj->nki", scales, d) + d
    inner = -0.5 * np.sum(y * y, axis=2)
    top = np.max(inner, axis=1)
    return np.sum(top + np.log(np.sum(np.exp(inner - top[:, None]), axis=1)))


def layers(x, a, b):
    """Two products with the rows, and a third whose rows are not whole when the others run."""
    h = np.tanh(x @ a)
    g = np.tanh(h @ b)
    return np.sum(g * g, axis=1), h.T @ g


def across(x):
    """What needs all rows first stands between loops over them."""
    e = np.exp(0.1 * x)
    y = e / np.sum(e, axis=1, keepdims=True)
    centred = y - np.mean(y, axis=0)
    return np.sqrt(np.sum(centred * centred, axis=1)) * np.max(y)


def running(x):
    """A scan along the rows, and one along each row."""
    e = np.exp(0.1 * x)
    total = np.cumsum(e, axis=0) / np.sum(e, axis=1, keepdims=True)
    return np.cumsum(total * e, axis=1), np.argmax(np.sum(total, axis=1))


def turned_over(x):
    """Rows in the other direction: nothing that can take turns."""
    e = np.exp(0.1 * x)
    y = e / np.sum(e, axis=1, keepdims=True)
    return np.sum(y[::-1] * y * np.sum(y[::-1], axis=1, keepdims=True), axis=1)


def weighed(x):
    """A sum over rows beside one of each row, in double also for numbers in single precision."""
    n = np.sqrt(np.sum(x * x, axis=1, keepdims=True))
    u = x / n
    return np.sum(u * np.sum(u, axis=1, keepdims=True)), np.sum(u * n, axis=0)


ALONE = [softmax, across, running, turned_over, weighed]
SIZES = [1, 5, 16, 33, 700]  # fewer rows than a block, as many, some more, and several blocks


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def agree(tape, arrays, tolerance=1e-10):
    kernel = kernels.compile(tape, ("C",) * len(arrays))
    for got, want in zip(kernel(*arrays), evaluate(tape, *arrays), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def agree_with_derivatives(f, *xs, tolerance=1e-10):
    tape = tape_of(f, *xs)
    agree(tape, xs, tolerance)
    pulled = simplify(vjp(tape, range(len(xs))))
    bars = [
        np.cos(np.arange(t.size)).reshape(t.shape).astype(t.dtype)[()] for t in tape.output_types
    ]
    agree(pulled, [*xs, *bars[: len(pulled.inputs) - len(xs)]], tolerance)
    pushed = simplify(jvp(tape, range(len(xs))))
    agree(pushed, [*xs, *(np.sin(x) for x in xs)], tolerance)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("f", ALONE, ids=lambda f: f.__name__)
def test_rows(f, n):
    agree_with_derivatives(f, drawn(n, 37))


@pytest.mark.parametrize("n", SIZES)
def test_a_mixture(n):
    agree_with_derivatives(mixture, drawn(n, 6), drawn(9, 6), drawn(9, 6, 6))


@pytest.mark.slow
def test_a_mixture_with_as_many_terms_as_rows():
    """One size then stands for two axes."""
    for n in (6, 9):
        agree_with_derivatives(mixture, drawn(n, 6), drawn(9, 6), drawn(9, 6, 6))
    agree_with_derivatives(mixture, drawn(6, 6), drawn(6, 6), drawn(6, 6, 6))


@pytest.mark.parametrize("n", SIZES)
def test_products(n):
    agree_with_derivatives(layers, drawn(n, 20), drawn(20, 31) / 5.0, drawn(31, 8) / 5.0)


@pytest.mark.parametrize("f", [softmax, weighed], ids=lambda f: f.__name__)
def test_single_precision(f):
    agree_with_derivatives(f, drawn(70, 37).astype("f4"), tolerance=2e-4)


def test_rows_of_many_entries():
    agree_with_derivatives(weighed, drawn(50, 4001))


def test_what_a_mixture_keeps_is_as_large_as_a_block(monkeypatch):
    """All loops over the points are inside one loop over blocks of them."""
    ask_for_threads(monkeypatch, 1)
    x = drawn(5000, 6), drawn(9, 6), drawn(9, 6, 6)
    text = kernels.source(simplify(vjp(tape_of(mixture, *x), range(3))), ("C",) * 4)
    (rows,) = re.findall(r"for blocks in range\(\((\w+) \+ block", text)
    assert f"range({rows}" not in text.replace(f"range(({rows} + block", "")
    assert len(re.findall(r"range\(begin_row, end_row\)", text)) > 5


def test_blocks_that_add_up_products_have_more_rows():
    """Each block passes over the matrices that it adds to."""
    x = drawn(300, 400), drawn(400, 310) / 20.0, drawn(310, 8) / 20.0
    pulled = simplify(vjp(tape_of(layers, *x), range(3)))
    bars = [np.cos(np.arange(t.size)).reshape(t.shape) for t in pulled.input_types[3:]]
    assert "block = max(128, " in kernels.source(pulled, ("C",) * len(pulled.inputs))
    agree(pulled, [*x, *bars])
    alone = kernels.source(tape_of(softmax, x[0]), ("C",))
    assert "block = max(64, " in alone


def test_one_loop_stays_as_it_is():
    text = kernels.source(tape_of(lambda x: np.sum(np.sin(x) * x), drawn(50)), ("C",))
    assert "block" not in text
