"""Kernels over rows of a few components: those are written out, the loops are over rows."""

import re

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

ROWS = 67
PLACES = np.arange(ROWS * 2).reshape(ROWS, 2) * 7 % ROWS


def pairs(x):
    d = x[PLACES[:, 0]] - x[PLACES[:, 1]]
    inverse = 1.0 / (0.5 + np.sum(d * d, axis=1)) ** 3
    return np.sum(inverse * inverse - inverse)


def turned(x):
    """A cross product, a norm kept as a column, columns put back beside each other."""
    a, b = x[:, :3], x[:, 3:6] - x[:, [6]]
    cross = np.cross(a, b)
    unit = cross / np.sqrt(1.0 + np.sum(cross * cross, axis=1, keepdims=True))
    return np.concatenate([unit * x[:, 7:8], a[:, ::-1]], axis=1)


def raveled(x):
    y = np.sin(x[:, :2]) * x[:, 2:4]
    return np.concatenate([y.ravel(), x[:, 0], x.reshape(-1)[:5]])


def from_vector(x):
    return x.reshape(-1, 3)[:, 1] * np.exp(x.reshape(-1, 3)[:, 2]) + x.reshape(-1, 3)[:, 0]


def reduced(x):
    y = x.reshape(ROWS, 2, 4)
    first = np.max(y, axis=1) + np.prod(y, axis=1) - np.min(y, axis=(1, 2))[:, None]
    return np.sum(first, axis=0) + np.sum(y) * np.where(np.any(y > 1.0, axis=(0, 1)), 2.0, 3.0)


def scanned(x):
    return np.cumsum(x[:, :3], axis=0) * np.cumsum(x[:, 3:6], axis=1)


def moved(x):
    y = x[:, :6].reshape(ROWS, 2, 3).transpose(0, 2, 1)
    return np.broadcast_to(y[:, :, :1], (ROWS, 3, 2)) * y[:, ::-1] + y.T.T


def multiplied(x):
    a, b = x[:, :4].reshape(ROWS, 2, 2), x[:, 4:8].reshape(ROWS, 2, 2)
    m = np.einsum("nij,njk->nik", a, b)
    return np.einsum("nij,nkj->ik", m, a), x[:, :3] @ x[:3, :2], x[:, :2].T @ x[:, 2:4]


def stored(x):
    y = x[:, 5:8].copy()
    y[:, 0] = x[:, 1] ** 2
    y[:, 1:] = x[:, 2:4] * y[:, :1]
    return y * x[:, 3:6]


def stored_rows(x):
    y = x[:, :3] * 2.0
    y[1:, :2] = y[:-1, 1:] * x[1:, :2]
    y[5] = 1.0
    return y


def solved(x):
    a = x[:, :4].reshape(ROWS, 2, 2) + 4.0 * np.eye(2)
    return np.linalg.solve(a, x[:, 4:6, None])[:, :, 0] * x[:, :2]


def scattered(x):
    rows = np.concatenate([x[PLACES[:, 0], :3], x[PLACES[:, 1], 3:6]], axis=1)
    return np.sum(rows[:, :3] ** 2 * rows[:, 3:], axis=1) + x[PLACES[:, 0] - ROWS, 7]


FUNCTIONS = [
    pairs,
    turned,
    raveled,
    reduced,
    scanned,
    moved,
    multiplied,
    stored,
    stored_rows,
    solved,
    scattered,
]


def point(shape, dtype="f8"):
    return (1.0 + 0.5 * np.sin(1.0 + np.arange(np.prod(shape)))).reshape(shape).astype(dtype)


def agree(tape, *arrays, layouts=None, rtol=1e-11):
    found = kernels.compile(tape, layouts or ("C",) * len(arrays))(*arrays)
    for got, want in zip(found, evaluate(tape, *arrays), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


def cotangents(tape):
    return [np.cos(np.arange(t.size)).reshape(t.shape).astype(t.dtype) for t in tape.output_types]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_values_tangents_and_cotangents(f):
    x = point((ROWS, 8))
    tape = tape_of(f, x)
    agree(tape, x)
    agree(simplify(jvp(tape, [0])), x, np.cos(x))
    agree(simplify(vjp(tape, [0])), x, *cotangents(tape))


def test_a_vector_of_rows():
    x = point(3 * ROWS)
    tape = tape_of(from_vector, x)
    agree(tape, x)
    agree(simplify(vjp(tape, [0])), x, *cotangents(tape))


@pytest.mark.parametrize("f", [turned, pairs, multiplied], ids=lambda f: f.__name__)
def test_strided_inputs(f):
    x = point((8, 2 * ROWS)).T[::2]
    tape = tape_of(f, x)
    pulled = simplify(vjp(tape, [0]))
    agree(pulled, x, *cotangents(tape), layouts=("A", *("C" * (len(pulled.inputs) - 1))))


@pytest.mark.parametrize("f", [turned, reduced, stored], ids=lambda f: f.__name__)
def test_single_precision(f):
    x = point((ROWS, 8), "f4")
    tape = tape_of(f, x)
    agree(simplify(vjp(tape, [0])), x, *cotangents(tape), rtol=2e-4)


@pytest.mark.parametrize("f", [pairs, turned, scattered], ids=lambda f: f.__name__)
def test_a_batch_of_tangents(f):
    x = point((ROWS, 8))
    pushed = simplify(jvp(tape_of(f, x), [0]))
    seeds = np.cos(np.arange(3 * x.size)).reshape(3, ROWS, 8)
    agree(simplify(batch(pushed, [False, True], 3)), x, seeds)


def test_places_outside_are_refused():
    x, at = point((ROWS, 3)), PLACES[:, 0]
    tape = tape_of(lambda x, i: np.sum(x[i] ** 2, axis=1), x, at)
    kernel = kernels.compile(tape, ("C", "C"))
    for wrong in (ROWS, -ROWS - 1):
        with pytest.raises(IndexError):
            kernel(x, np.where(at == 3, wrong, at))


def test_the_loops_are_over_rows_alone():
    """Pairs and the cotangent keep nothing longer than a block, and loop over no components."""
    x = point((ROWS, 3))
    text = kernels.source(simplify(vjp(tape_of(pairs, x), [0])), ("C", "C"))
    assert "for i1" not in text
    assert set(re.findall(r"range\((.*)\):", text)) == {
        "n0 * 3", "begin_row, ahead", "begin_row, end_row",
    }  # fmt: skip
    assert "rt.part" not in text


@pytest.mark.parametrize("count", [2, 8, 10, 12])
def test_components_of_matrices_whatever_the_length(count):
    """Some 30 parts a turn: a program that is spared operations has no less room for them."""

    def f(x):
        for k in range(count):
            x = np.sin(np.cos(x)) * np.sum(x, axis=2, keepdims=True) + (1.5 + k)
        return x

    text = kernels.source(tape_of(f, point((ROWS, 3, 3))), ("C",))
    assert "range(3)" not in text
    assert "for i1" not in text


def test_components_of_which_only_the_sum_is_known():
    """Four is a size beside many rows, two is not: the columns stand beside few."""

    def f(x, y):
        four = np.concatenate([np.sin(y), y * y], axis=1)
        return np.sum(np.exp(x) * x[:, ::-1], axis=1), four * four[:, ::-1]

    x, y = point((60, 4)), point((11, 2))
    tape = tape_of(f, x, y)
    agree(tape, x, y)
    agree(simplify(vjp(tape, [0, 1])), x, y, *cotangents(tape))


def test_few_rows_share_a_kernel():
    """Components are written out for many rows only: small arrays of any shape have one kernel."""

    def f(x):
        return np.sum(np.sin(x) ** 2, axis=1)

    shapes = [(3, 2), (5, 3), (4, 9), (90, 70)]
    assert len({kernels.source(tape_of(f, point(shape)), ("C",)) for shape in shapes}) == 1
    assert "range(3)" not in kernels.source(tape_of(f, point((500, 3))), ("C",))


def joined_columns(x, y, axis):
    """What a Jacobian is made of, and the normal equations: few joined columns, or rows."""
    parts = [np.exp(-x), y, -x * np.exp(-x), x * y, np.sin(3.0 * x), np.ones_like(x)]
    J = np.stack(parts, axis)
    J = J if axis else J.T
    return J.T @ J, J.T @ (x - y), J @ J[:6], y @ y


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_products_of_joined_columns_are_sums_in_one_loop(axis, dtype):
    """`J.T @ J` needs no `J` in memory, and half of its terms, since it is symmetric."""
    x, y = point(ROWS, dtype), np.cos(point(ROWS, dtype))
    tape = tape_of(lambda x, y: joined_columns(x, y, axis), x, y)
    rtol = 1e-11 if dtype == "f8" else 2e-4
    agree(tape, x, y, rtol=rtol)
    agree(simplify(vjp(tape, [0, 1])), x, y, *cotangents(tape), rtol=rtol)
    normal = tape_of(lambda x, y: joined_columns(x, y, axis)[:2], x, y)
    text = kernels.source(normal, ("C", "C"))
    assert text.count("for ") == 1
    assert text.count("rt.add") == 21 + 6
