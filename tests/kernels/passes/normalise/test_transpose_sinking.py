"""Elementwise results that are read transposed, computed in that order to begin with."""

from dataclasses import replace

import numpy as np
import pytest
from tapes import tape_of

import fdiff
from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.passes.pipeline import lower_graph
from fdiff.transforms.batch import batch
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

I = np.arange(90) * 7 % 20  # noqa: E741 - indices, as in i, j
J = np.arange(90) * 11 % 20


def drawn(*shape, dtype="f8"):
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


def agree(tape, arrays, tolerance=1e-10):
    found = kernels.compile(tape, ("C",) * len(arrays))(*arrays)
    for got, want in zip(found, evaluate(tape, *arrays), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def agree_with_derivatives(f, xs, tolerance=1e-10):
    tape = tape_of(f, *xs)
    agree(tape, xs, tolerance)
    wrt = range(len(xs))
    pulled = simplify(vjp(tape, wrt))
    bars = [np.cos(np.arange(t.size)).reshape(t.shape).astype(t.dtype) for t in tape.output_types]
    agree(pulled, [*xs, *bars], tolerance)
    agree(simplify(jvp(tape, wrt)), [*xs, *(np.sin(x) for x in xs)], tolerance)


def undone(x, y):
    """Back and forth, beside what has one axis, one entry, or an axis of size one."""
    z = np.exp(x.T) * y + y[0] - x.T * np.sin(y)[None, :]
    return (z * z / (1.0 + z[:, :1] ** 2)).T + 1.0


def read_twice(x, y):
    """What is read in both orders stays as it is."""
    z = np.exp(x.T) * y
    return z.T * 2.0, np.sum(z, axis=1), np.sin(z)


def three_axes(x, y):
    """Orders that are undone only by another than themselves."""
    z = x[:, :, None] * y[: x.shape[1], None]
    w = np.tanh(z.transpose(2, 0, 1)) + z.transpose(2, 0, 1) ** 2
    return (w * w).transpose(1, 2, 0), (w - 1.0).transpose(2, 1, 0)


def together(x, y):
    """Two results share what is turned, and one of them would lose by it."""
    z = np.cos(x.T)
    first, second = z * y, z + np.exp(x.T) * np.sqrt(1.0 + x.T**2)
    return first.T, (second * first).T


def there_and_back(x, y):
    """What is turned is read, through its own transpose, by another that is turned."""
    z = np.exp(np.sin(x.T).T).T
    return z, np.cos(np.tanh(np.sin(x.T * y).T).T).T * 2.0, np.sqrt(1.0 + (z.T * x).T ** 2).T


FUNCTIONS = [undone, read_twice, three_axes, together, there_and_back]


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (8, 7), (30, 30)])
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_orders(f, shape):
    agree_with_derivatives(f, (drawn(*shape), drawn(shape[0])))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_single_precision(f):
    agree_with_derivatives(f, (drawn(8, 7, dtype="f4"), drawn(8, dtype="f4")), 2e-4)


def energy(x):
    d = x[I] - x[J]
    return np.sum(1.0 / (1.0 + np.sum(d * d, axis=1)) ** 3)


def products_with_the_hessian(x):
    """Of 31 tangents; the energy and its gradient are left out, and so not pulled at."""
    second = jvp(simplify(vjp(tape_of(energy, x), [0])), [0])
    second = simplify(replace(second, outputs=second.outputs[-1:]))
    return simplify(batch(second, [False, False, True], 31))


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_a_batch_of_second_derivatives(columns):
    """Tangents of what is gathered are computed, and added up, pair by pair in one loop."""
    x = drawn(20, columns)
    agree(products_with_the_hessian(x), [x, np.float64(1.5), drawn(31, 20, columns)])


def test_nothing_is_kept_between_gather_and_scatter():
    """No memory has an entry for each pair and tangent."""
    tape = products_with_the_hessian(drawn(20, 3))
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    (pairs,) = {
        p.dims[0] for p in graph.ops if p.kind in ("input", "array") and p.dtype in ("i4", "i8")
    }
    tangents = graph.ops[graph.inputs[-1]].dims[0]
    assert not any({pairs, tangents} <= {*t.dims} for t in lower_graph(graph).temporaries)


def test_axes_of_one_length_are_not_taken_for_one_another():
    x = drawn(4, 4)

    def f(x):
        return np.transpose(x.T * np.sin(x.T) * x)

    agree(tape_of(f, x), [x])
    places, others = np.array([1, 0, 2, 3]), np.array([3, 3, 1, 0])

    def pairs(x):
        d = (x[others] - x[places]) * x[places]
        return np.sum(d) + 0.5 * np.sum(np.cos(x[0] * x[places]))

    found = fdiff.jit(fdiff.jacobian(fdiff.grad(pairs), mode="forward"))(x[0])
    wanted = fdiff.jacobian(fdiff.grad(pairs), x[0], mode="reverse", chunk_size=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
