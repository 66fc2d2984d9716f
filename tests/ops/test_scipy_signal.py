"""Convolutions of `scipy.signal`: values are SciPy's, derivatives are held against differences."""

import numpy as np
import pytest
import scipy.signal as ss
from calculus import check_calculus

import fdiff
from fdiff.errors import UnsupportedError

RNG = np.random.default_rng(12)
MODES = ("full", "valid", "same")
PAIRS = [
    ((5,), (3,)),
    ((2,), (4,)),
    ((1,), (1,)),
    ((4, 3), (2, 2)),
    ((2, 2), (4, 3)),
    ((3, 2, 4), (2, 2, 1)),
]
CALLS = {
    "convolve": ss.convolve,
    "convolve, direct": lambda x, y, mode: ss.convolve(x, y, mode, "direct"),
    "convolve, fft": lambda x, y, mode: ss.convolve(x, y, mode, method="fft"),
    "correlate": ss.correlate,
    "correlate, direct": lambda x, y, mode: ss.correlate(x, y, mode, method="direct"),
    "fftconvolve": ss.fftconvolve,
    "oaconvolve": ss.oaconvolve,
}


def operands(shapes, dtype=np.float64):
    return [RNG.normal(size=shape).astype(dtype) for shape in shapes]


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives_to_second_order(name, mode, shapes):
    call = CALLS[name]
    x, y = operands(shapes)
    check_calculus(lambda x, y: call(x, y, mode=mode), x, y)


@pytest.mark.parametrize("name", CALLS)
def test_dtypes_are_those_of_scipy(name):
    call = CALLS[name]
    for dtype, tolerance in ((np.float32, 1e-5), (np.complex128, 1e-12)):
        x, y = operands(((4, 3), (2, 2)), dtype)
        ours, plain = fdiff.jit(lambda x, y: call(x, y, mode="same"))(x, y), call(x, y, mode="same")
        assert ours.dtype == plain.dtype
        np.testing.assert_allclose(ours, plain, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_along_chosen_axes_the_others_broadcast(mode):
    for axes, shapes in (
        (0, ((4, 3), (2, 3))),
        ([1], ((4, 3), (4, 2))),
        ((-1, 0), ((4, 3), (2, 3))),
    ):
        x, y = operands(shapes)
        check_calculus(lambda x, y, axes=axes: ss.fftconvolve(x, y, mode, axes), x, y)
    x, y = operands(((4, 3), (1, 3)))
    check_calculus(lambda x, y: ss.fftconvolve(x, y, mode, axes=1), x, y)


def test_convolve2d():
    for mode in MODES:
        check_calculus(
            lambda x, y, mode=mode: ss.convolve2d(x, y, mode), *operands(((4, 3), (2, 2)))
        )
    x, y = operands(((4, 3), (2, 2)))
    with pytest.raises(UnsupportedError, match="a boundary other than zeros"):
        fdiff.grad(lambda x: np.sum(ss.convolve2d(x, y, boundary="wrap")))(x)
    with pytest.raises(ValueError, match="must both be 2-D"):
        fdiff.grad(lambda x: np.sum(ss.convolve2d(x, y[0])))(x)


@pytest.mark.parametrize("name", CALLS)
def test_wrong_operands_raise_as_in_scipy(name):
    call = CALLS[name]
    x = RNG.normal(size=(4, 3))
    for other, mode in (
        (np.ones(3), "full"),
        (np.ones((5, 2)), "valid"),
        (np.ones((2, 2)), "some"),
    ):
        with pytest.raises(ValueError, match=r".") as plain:
            call(x, other, mode=mode)
        with pytest.raises(type(plain.value)):
            fdiff.grad(lambda x, other=other, mode=mode: np.sum(call(x, other, mode=mode)))(x)
