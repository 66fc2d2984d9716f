"""Loops that gather and scatter, in stages; sums that are made before the products they are of."""

import re

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

ATOMS = 40
ROWS = [1, 63, 64, 65, 300]  # less than a block, one, one and a row, several
PLACES = {
    "one": lambda n: np.full(n, 7),
    "sorted": lambda n: np.sort(np.arange(n) ** 2 % ATOMS),
    "runs": lambda n: np.arange(n) // 3 % ATOMS,
    "mixed": lambda n: np.arange(n) * 7 % 5 * 3,
    "from the end": lambda n: -1 - np.arange(n) * 11 % ATOMS,
}


def drawn(*shape, dtype="f8"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def agree(tape, arrays, tolerance=1e-10):
    found = kernels.compile(tape, ("C",) * len(arrays))(*arrays)
    for got, want in zip(found, evaluate(tape, *arrays), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def agree_with_derivatives(f, xs, wrt, tolerance=1e-10):
    tape = tape_of(f, *xs)
    agree(tape, xs, tolerance)
    bars = [
        np.cos(np.arange(t.size)).reshape(t.shape).astype(t.dtype)[()] for t in tape.output_types
    ]
    pulled = simplify(vjp(tape, wrt))
    agree(pulled, [*xs, *bars[: len(pulled.inputs) - len(xs)]], tolerance)
    agree(simplify(jvp(tape, wrt)), [*xs, *(np.sin(xs[k]) for k in wrt)], tolerance)
    return pulled


def pull(x, i, j):
    """What two rows say to each other: much to compute for each pair of places."""
    near = x[i] - x[j]
    far = 1.0 / (1.0 + np.sum(near * near, axis=1))
    return np.exp(-far) * np.sqrt(1.0 + far) / (2.0 + np.sin(far))


def several(x, i, j):
    """Results of one nest that go to several parts of an array, and a sum beside them."""
    d = np.exp(x[i, 0] * x[j, 1]) / (1.0 + x[i, 2] ** 2)
    e = np.log(1.0 + d * d) * np.tanh(x[j, 0])
    return np.concatenate([np.stack([d, e], axis=1).ravel(), d * e]), np.sum(d / (1.0 + e * e))


def chained(x, i, j):
    """Places that are found at places."""
    at = i[j % i.shape[0]]
    return np.sum(np.exp(x[at, 0]) / (1.0 + np.sin(x[at, 1]) ** 2) * np.sqrt(1.0 + x[at, 2] ** 2))


def both(x, i, j):
    """Single entries, each found by two places."""
    table = x[:, :1] * x[:, 1] + np.cos(x[:, 2])
    y = table[i, j]
    return np.sum(np.exp(-y * y) / (1.0 + np.cos(y) ** 2) + np.sqrt(2.0 + np.sin(y)))


FUNCTIONS = [pull, several, chained, both]


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("kind", PLACES)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_gathered_computed_scattered(f, kind, n):
    i, j = PLACES[kind](n), (np.arange(n) * 13 + 1) % ATOMS
    agree_with_derivatives(f, (drawn(ATOMS, 3), i, j), [0])


@pytest.mark.parametrize("n", ROWS)
def test_what_has_run_up_to_a_row_is_one_stage(n):
    """The largest entry so far is read at its place, which is the largest of places so far."""

    def running(x, y):
        return np.maximum.accumulate(x), np.exp(-y * y) / (1.0 + np.sqrt(1.0 + y * y))

    agree_with_derivatives(running, (drawn(n), drawn(n) + 0.5), [0, 1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_single_precision(kind):
    i, j = PLACES[kind](130), np.arange(130) * 13 % ATOMS
    agree_with_derivatives(pull, (drawn(ATOMS, 3, dtype="f4"), i, j), [0], 2e-4)


def test_what_is_between_is_a_loop_of_its_own():
    i = np.arange(200) % ATOMS
    tape = simplify(vjp(tape_of(pull, drawn(ATOMS, 3), i, i), [0]))
    text = kernels.source(tape, ("C",) * len(tape.inputs))
    loops = re.split(r"\n +for i0 in range", text)
    *runs, between = [loop for loop in loops if "rt.exp" in loop]
    assert not any("return 1" in loop for loop in (*runs, between))
    assert not re.search(r"x0\[|out\d\[v", between)


def test_places_outside_are_refused():
    x, i = drawn(ATOMS, 3), np.arange(200) % ATOMS
    tape = simplify(vjp(tape_of(pull, x, i, i), [0]))
    kernel = kernels.compile(tape, ("C",) * len(tape.inputs))
    bars = [np.ones(200)]
    for row in (0, 63, 64, 199):
        for wrong in (ATOMS, -ATOMS - 1):
            with pytest.raises(IndexError):
                kernel(x, np.where(np.arange(200) == row, wrong, i), i, *bars)


# --- sums before products ---------------------------------------------------------------------


def products(x, a, s):
    """A sum over rows through signs, sums and factors, to a product of stacks of matrices."""
    y = np.tanh(x)
    z = np.einsum("nki,kij->nkj", y, a)
    return np.sum(-(z + y * s), axis=0), np.sum(y, axis=0)


def across(x, a, s):
    """Over an axis of either operand, of both, and over one that is not the first."""
    z = np.einsum("nki,mi->nmk", x, s)
    return np.sum(z, axis=1), np.sum(np.einsum("nki,mj->mjkni", x, s), axis=(0, 3))


def kept(x, a, s):
    """The product is read by others too, or summed over an axis of both operands."""
    z = np.einsum("nki,kij->nkj", x, a)
    w = np.einsum("nki,kij->nkj", np.cos(x), a)
    return np.sum(z, axis=0) + np.sum(np.sin(z), axis=0), np.sum(w, axis=1)


def factors(x, a, s):
    """A factor that varies along the sum stays inside."""
    z = np.einsum("nki,kij->knj", x, a)
    weight = np.arange(1.0, x.shape[0] + 1.0)[:, None]
    return np.sum(z * weight, axis=1), np.sum(z * s[:, None, :] - z, axis=1)


@pytest.mark.parametrize("n", [1, 6, 90])
@pytest.mark.parametrize("f", [products, across, kept, factors], ids=lambda f: f.__name__)
def test_sums_of_products(f, n):
    agree_with_derivatives(f, (drawn(n, 6, 5), drawn(6, 5, 5), drawn(6, 5)), [0, 1, 2])


def test_a_product_less():
    """Nothing of as many rows is multiplied by a matrix for a sum over those rows."""
    xs = drawn(90, 6, 5), drawn(6, 5, 5), drawn(6, 5)
    text = kernels.source(tape_of(products, *xs), ("C",) * 3)
    assert "matmul" not in text
    assert "matmul" in kernels.source(tape_of(kept, *xs), ("C",) * 3)
