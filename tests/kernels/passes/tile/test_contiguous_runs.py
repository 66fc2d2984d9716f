"""Loops over runs of rows: index vectors that stay or count, wherever that begins and ends."""

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

ATOMS = 150


def pairs(n):
    return np.triu_indices(n, 1)


def sparse_rows(n):
    """Columns that follow each other in some rows, are scattered in others, and none in others."""
    draw = np.random.default_rng(n)
    rows, columns = [], []
    for row in range(n):
        count, first = draw.integers(0, n), draw.integers(0, n)
        here = np.arange(first, min(first + count, n)) if row % 3 else draw.integers(0, n, count)
        rows.append(np.full(here.size, row))
        columns.append(here)
    return np.concatenate(rows), np.concatenate(columns)


INDICES = {
    "pairs": pairs(ATOMS),
    "pairs with themselves": np.triu_indices(ATOMS, -1),
    "the other stays": pairs(ATOMS)[::-1],
    "sparse rows": sparse_rows(ATOMS),
    "backwards": tuple(a[::-1].copy() for a in pairs(40)),
    "both count": (np.arange(ATOMS - 1), np.arange(1, ATOMS)),
    "both stay": (np.full(300, 3), np.full(300, 7)),
    "all of them": (np.zeros(ATOMS, int), np.arange(ATOMS)),
    "from the end": (np.full(ATOMS, -1), np.arange(-ATOMS, 0)),
    "over the end": (np.full(40, -2), np.arange(-20, 20)),
    "one run after another": (np.repeat([4, 5, 6], 67), np.tile(np.arange(67), 3)),
    "short": pairs(5),
    "none": (np.zeros(0, int), np.zeros(0, int)),
}


def drawn(*shape, dtype="f8"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def agree(tape, arrays, tolerance=1e-10, layout="C"):
    found = kernels.compile(tape, (layout,) * len(arrays))(*arrays)
    for got, want in zip(found, evaluate(tape, *arrays), strict=True):
        assert np.asarray(got).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def agree_with_derivatives(f, xs, tolerance=1e-10, layout="C"):
    """Values, cotangents and tangents of the first argument; gives the tape of cotangents."""
    tape = tape_of(f, *xs)
    agree(tape, xs, tolerance, layout)
    bars = [np.cos(np.arange(t.size)).reshape(t.shape).astype(t.dtype) for t in tape.output_types]
    pulled = simplify(vjp(tape, [0]))
    agree(pulled, [*xs, *bars[: len(pulled.inputs) - len(xs)]], tolerance, layout)
    agree(simplify(jvp(tape, [0])), [*xs, np.sin(xs[0])], tolerance, layout)
    return pulled


def pull(x, i, j):
    near = x[i] - x[j]
    far = 1.0 / (1.0 + np.sum(near * near, axis=1))
    return np.sum(np.exp(-far) * far), far


def by_coordinates(x, i, j):
    x = np.tanh(x.T)
    near = x[:, i] - x[:, j]
    far = 1.0 / (1.0 + np.sum(near * near, axis=0))
    return np.sum(np.exp(-far) * far)


def numbers(x, i, j):
    y = x[:, 0]
    return np.sum(np.exp(-((y[i] - y[j]) ** 2)) * y[j])


def of_a_table(x, i, j):
    table = x @ x.T
    return np.sum(np.exp(-table[i, j]) / (1.0 + table[i, j] ** 2))


def of_two_tables(x, i, j):
    """The same numbers as places in arrays of other lengths."""
    y = np.concatenate([x, x])
    return np.sum(np.exp(-((x[i, 0] - y[j, 1]) ** 2)) * y[i, 2] * x[j, 1])


def at_one_vector(x, i, j):
    return np.sum(np.exp(-x[j, 0]) / (1.0 + x[j, 1] ** 2))


def at_three(x, i, j):
    k = np.minimum(i, j)
    return np.sum(np.exp(-x[i, 0] * x[j, 1]) / (1.0 + x[k, 2] ** 2))


def of_places(x, i, j):
    """The numbers are used as numbers, too."""
    return np.sum(np.exp(-x[i, 0] * i / 99.0) / (1.0 + (x[j, 1] * j) ** 2))


def at_places_of_places(x, i, j):
    return np.sum(np.exp(-x[j[i % max(i.size, 1)], 0]) / (1.0 + x[i, 1] ** 2))


FUNCTIONS = [
    pull, by_coordinates, numbers, of_a_table, of_two_tables, at_one_vector, at_three, of_places,
    at_places_of_places,
]  # fmt: skip


@pytest.mark.parametrize("indices", INDICES.values(), ids=INDICES)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_runs_of_any_kind(f, indices):
    agree_with_derivatives(f, (drawn(ATOMS, 3), *indices))


@pytest.mark.parametrize("n", [7, 8, 9, 63, 64, 65, 66, 127, 128, 129, 300])
def test_runs_of_any_length(n):
    """The first so long, the second from where it ends."""
    i, j = np.repeat([1, 2], n), np.tile(np.arange(n) % ATOMS, 2)
    agree_with_derivatives(pull, (drawn(ATOMS, 3), i, j))
    agree_with_derivatives(pull, (drawn(ATOMS, 3), np.append(5, i), np.append(9, j)))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u1", "u2", "u4", "u8"])
def test_whole_numbers_of_any_kind(dtype):
    i, j = (a.astype(dtype) for a in pairs(100))
    agree_with_derivatives(pull, (drawn(100, 3), i, j))


def test_single_precision():
    agree_with_derivatives(pull, (drawn(ATOMS, 3, dtype="f4"), *pairs(ATOMS)), 5e-4)


@pytest.mark.parametrize("width", [1, 2, 8, 9, 20])
def test_rows_of_any_width(width):
    agree_with_derivatives(pull, (drawn(ATOMS, width), *pairs(ATOMS)))


def test_strided_arguments():
    x, (i, j) = drawn(2 * ATOMS, 6)[::2, ::2], pairs(ATOMS)
    agree_with_derivatives(pull, (x, i[::-1], j[::-1]), layout="A")
    agree_with_derivatives(pull, (x, np.repeat(i, 2)[::2], np.repeat(j, 2)[::2]), layout="A")


def test_a_kernel_serves_whatever_comes():
    """Runs are found anew at each call."""
    i, j = pairs(60)
    tape = simplify(vjp(tape_of(pull, drawn(60, 3), i, j), [0]))
    kernel = kernels.compile(tape, ("C",) * len(tape.inputs))
    x, bars = drawn(60, 3), [np.ones(()), np.cos(np.arange(i.size))][: len(tape.inputs) - 3]
    draw = np.random.default_rng(1)
    for order in (slice(None), draw.permutation(i.size), slice(None, None, -1), i * 0, slice(None)):
        given = (x, i[order].copy(), j[order].copy(), *bars)
        for got, want in zip(kernel(*given), evaluate(tape, *given), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


HUGE = np.iinfo(np.int64).max


@pytest.mark.parametrize("first", [61, 100, 101, 1000, HUGE - 39, HUGE, -HUGE, -140, -101])
def test_runs_outside_are_refused(first):
    """Runs that begin outside, end outside, or go on beyond the last of all whole numbers."""
    with np.errstate(over="ignore"):
        outside = first + np.arange(40)
    inside, fixed = np.arange(40), np.full(40, 3)
    tape = simplify(vjp(tape_of(pull, drawn(100, 3), inside, fixed), [0]))
    kernel = kernels.compile(tape, ("C",) * len(tape.inputs))
    x, bars = drawn(100, 3), [np.ones(()), np.ones(40)][: len(tape.inputs) - 3]
    kernel(x, inside, fixed, *bars)
    for given in ((outside, fixed), (fixed, outside), (fixed, np.full(40, first)), (outside,) * 2):
        if all(np.all((a >= -100) & (a < 100)) for a in given):
            continue
        with pytest.raises(IndexError):
            kernel(x, *given, *bars)


def test_loops_over_runs_find_no_places():
    tape = simplify(vjp(tape_of(pull, drawn(ATOMS, 3), *pairs(ATOMS)), [0]))
    text = kernels.source(tape, ("C",) * len(tape.inputs))
    ways = text.split("a run\n")[1:]
    assert len(ways) == 2
    for way in ways:
        loop = way.split("for i0 in range", 1)[1].split("else:")[0]
        assert "return 1" not in loop
        assert "x1[" not in loop
        assert "x2[" not in loop


def test_where_much_is_computed_there_is_one_loop():
    def dear(x, i, j):
        y = x[i, 0] - x[j, 0]
        return np.sum(np.exp(np.sin(y)) * np.tanh(y) + np.log(1.0 + np.cos(y) ** 2) * np.sqrt(y))

    tape = simplify(vjp(tape_of(dear, drawn(ATOMS, 3), *pairs(ATOMS)), [0]))
    text = kernels.source(tape, ("C",) * len(tape.inputs))
    assert "a run" not in text
    assert "# gathered" in text


def test_columns_are_picked_from_by_one_vector():
    """``x[i, 0]`` picks from a column: no vector of zeros stands for the number."""

    def f(x, i, j):
        return np.sum(np.exp(-x[i, 0] * x[j, -1]) / (1.0 + x[i, 1] ** 2))

    pulled = agree_with_derivatives(f, (drawn(ATOMS, 3), *pairs(ATOMS)))
    assert max(len(node.args) for node in pulled.nodes if node.primitive.name == "gather") == 2
    text = kernels.source(pulled, ("C",) * len(pulled.inputs))
    assert text.count("a run\n") == 2
    assert "k0" not in text


def test_few_entries_are_picked_from_all():
    """A column is not copied for them."""
    tape = tape_of(lambda x, i: np.exp(x[i, 0]), drawn(ATOMS, 3), np.arange(4))
    assert max(len(node.args) for node in tape.nodes if node.primitive.name == "gather") == 3
