"""Rules 1 to 4 of torch's section on gradient layouts, on plain arrays."""

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from fdiff.autograd.backward_passes.gradient_layouts import (
    accumulated,
    first_gradient,
    is_dense,
    same_layout,
)


def laid_out(kind, dtype=np.float64):
    """An array of shape (2, 3, 4) of the named layout."""
    whole = np.arange(96.0).astype(dtype)
    made = {
        "C": lambda: whole[:24].reshape(2, 3, 4),
        "Fortran": lambda: whole[:24].reshape((2, 3, 4), order="F"),
        "permuted": lambda: whole[:24].reshape(3, 4, 2).transpose(2, 0, 1),
        "apart": lambda: whole.reshape(2, 3, 16)[:, :, ::4],
        "padded": lambda: whole.reshape(2, 3, 16)[:, :, :4],
        "broadcast": lambda: np.broadcast_to(whole[:4], (2, 3, 4)),
        "overlapping": lambda: as_strided(whole, (2, 3, 4), (8, 8, 8)),
        "backwards": lambda: whole[:24].reshape(2, 3, 4)[::-1],
    }
    return made[kind]()


DENSE = ("C", "Fortran", "permuted")
OTHERS = ("apart", "padded", "broadcast", "overlapping", "backwards")
G = np.linspace(0.0, 1.0, 24).reshape(2, 3, 4)


@pytest.mark.parametrize("kind", DENSE + OTHERS)
def test_what_is_dense(kind):
    assert is_dense(laid_out(kind)) == (kind in DENSE)


def test_axes_of_length_one_and_empty_arrays_are_dense():
    assert is_dense(np.empty((4, 1, 3))[:, :, :].transpose(1, 2, 0))
    assert is_dense(np.empty((8, 3))[:1, :])
    assert is_dense(np.empty((4, 6))[:, ::2][:0])
    assert is_dense(np.empty(()))


@pytest.mark.parametrize(
    ("kind", "owned", "order"), list(itertools.product(DENSE + OTHERS, [False, True], "CF"))
)
def test_the_first_gradient_lies_as_a_dense_parameter_else_in_c_order(kind, owned, order):
    parameter, gradient = laid_out(kind), np.array(G, order=order)
    found = first_gradient(parameter, gradient, owned=owned)
    wanted = parameter.strides if kind in DENSE else G.strides
    assert found.strides == wanted
    np.testing.assert_array_equal(found, G)
    assert found.flags.writeable
    # taken as it is where it may be, and lies as it should: no copy
    assert (found is gradient) == (owned and gradient.strides == wanted)
    assert owned or not np.shares_memory(found, gradient)


def test_the_first_gradient_has_the_dtype_of_the_parameter():
    parameter = laid_out("Fortran", np.float32)
    found = first_gradient(parameter, G.copy(), owned=True)
    assert (found.dtype, found.strides) == (np.float32, parameter.strides)


def test_what_cannot_be_written_to_is_copied():
    gradient = np.broadcast_to(np.float64(1.0), (3,))
    found = first_gradient(np.zeros(3), gradient, owned=True)
    found += 1.0
    np.testing.assert_array_equal(found, 2.0)


@pytest.mark.parametrize("kind", ["C", "Fortran", "permuted", "apart", "padded", "backwards"])
def test_more_is_added_in_place_and_keeps_the_strides(kind):
    grad = laid_out(kind)
    before, strides = grad.copy(), grad.strides
    found = accumulated(grad, G, create_graph=False)
    assert found is grad
    assert grad.strides == strides
    np.testing.assert_array_equal(grad, before + G)


@pytest.mark.parametrize("kind", ["C", "Fortran", "permuted", "apart"])
def test_with_a_graph_the_sum_is_a_new_array_that_lies_as_before(kind):
    grad = laid_out(kind)
    before = grad.copy()
    found = accumulated(grad, G, create_graph=True)
    assert not np.shares_memory(found, grad)
    assert found.strides == (grad.strides if kind in DENSE else G.strides)
    np.testing.assert_array_equal(found, before + G)
    np.testing.assert_array_equal(grad, before)


def test_layouts_are_compared_without_axes_of_length_one_and_in_entries():
    assert same_layout(np.empty((1, 3)), np.empty((3, 1)).T)
    assert same_layout(np.empty((2, 3), np.float32), np.empty((2, 3)))
    assert not same_layout(np.empty((2, 3)), np.empty((3, 2)).T)
