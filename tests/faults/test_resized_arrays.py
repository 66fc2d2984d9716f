"""An array that machine code reads by its address cannot be resized, whatever ``refcheck`` says."""

import gc

import numba
import numpy as np
import pytest

import fdiff

X = np.full(4, 2.0)
VIEWS = {
    "itself": lambda base: base,
    "a view": lambda base: base[:4],
    "every second entry": lambda base: base[::2][:4],
    "a view of a view": lambda base: base.reshape(2, -1)[1][:4],
}


def c_function(f):
    c = fdiff.cfunc(fdiff.grad(f), X)
    return c, c.ctypes


def compiled_code(f):
    slope = fdiff.njit(fdiff.grad(f), "f8[4]")

    @numba.njit
    def call(x):
        return slope(x)

    call(X)
    return slope, call


@pytest.mark.parametrize("made_by", [c_function, compiled_code])
@pytest.mark.parametrize("view", VIEWS)
def test_a_captured_array_stays_where_it_is(view, made_by):
    base = np.arange(4.0 if view == "itself" else 8.0)
    scale = VIEWS[view](base)
    kept = made_by(lambda x: np.sum(scale * x))
    with pytest.raises(ValueError, match="cannot resize"):
        base.resize(1_000_000, refcheck=False)
    if made_by is compiled_code:
        np.testing.assert_array_equal(kept[1](X), scale)


def test_it_may_be_resized_when_the_c_function_is_gone():
    base = np.arange(4.0)
    kept = c_function(lambda x: np.sum(base * x))
    del kept
    fdiff.cache_clear()
    gc.collect()
    base.resize(8, refcheck=False)
    assert base.shape == (8,)
