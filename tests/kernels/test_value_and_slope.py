"""Slopes cost little beside their functions: in one loop, or made of one call."""

import re

import mpmath
import numpy as np
import pytest
from scipy import special as sc
from tapes import tape_of, values
from test_vector_math import Loop, ulps

from fdiff import kernels
from fdiff.kernels.ir.operation_costs import ALIKE, INLINED
from fdiff.kernels.runtime.maths.value import fused
from fdiff.kernels.runtime.maths.value_and_slope import SPLIT
from fdiff.ops.entrywise.accurate_partials import DIRECTION, SHARES
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

N = 24
FUNCTIONS = {
    "tanh": np.tanh,
    "expit": sc.expit,
    "expm1": np.expm1,
    "logaddexp": lambda x: np.logaddexp(x, 0.3 * x[::-1]),
    "logaddexp2": lambda x: np.logaddexp2(x, 0.3 * x[::-1]),
    "hypot": lambda x: np.hypot(x, 0.3 * x[::-1]),
}


def mixed(name, matrix):
    """The slope is read by a loop that comes after the one of the function."""
    return lambda x: np.sum(np.sin(matrix @ FUNCTIONS[name](matrix @ x)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_slope_is_computed_in_the_loop_of_its_function(name, rng):
    matrix, x = 0.2 * rng.normal(size=(N, N)), rng.normal(size=N)
    tape = simplify(vjp(tape_of(mixed(name, matrix), x), [0]))
    text = kernels.source(tape, ("C",) * len(tape.inputs))
    nests = re.split(r"^    # ", text, flags=re.MULTILINE)
    alike = [f for f, first in ALIKE.items() if first == ALIKE[f"rt.{name}"] and f != f"rt.{name}"]
    here = [i for i, nest in enumerate(nests) if f"rt.{name}(" in nest]
    slopes = [i for i, nest in enumerate(nests) for f in alike if f"{f}(" in nest]
    assert slopes
    assert set(slopes) == set(here)
    kernel = kernels.compile(tape, ("C",) * len(tape.inputs))
    given = [x] if len(tape.inputs) == 1 else [x, np.float64(1.0)]
    for got, want in zip(kernel(*given), values(tape, *given), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_what_is_alike_is_what_there_is():
    pairs = [op.name for both in (*SHARES.values(), DIRECTION) for op in both]
    assert {f"rt.{name}" for name in (*pairs, *SPLIT)} <= set(ALIKE)


EXACT = {
    "tanh": (mpmath.tanh, 2.0),
    "sech_squared": (lambda x: mpmath.sech(x) ** 2, 4.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLIT)
def test_what_is_made_of_a_call_has_its_digits(name, rng):
    exact, bound = EXACT[name]
    loop = Loop(1, np.float64, INLINED + 1, f"out[i] = rt.{name}(x[i])")
    edge = np.log(3.0) / 2 + np.arange(-50, 50) * 2.0**-50
    sizes = [rng.uniform(0, 3, 4000), 10.0 ** rng.uniform(-300, 2.6, 2000), edge]
    x = np.concatenate([*sizes, [5e-324, 371.0, 372.3]])
    x = np.concatenate([x, -x])
    with mpmath.workprec(1200):
        assert np.max(ulps(loop(x), [exact(mpmath.mpf(v)) for v in x], np.float64)) <= bound
    ends = np.array([0.0, -0.0, np.inf, -np.inf, 1e300, 800.0])
    want = {"tanh": np.tanh(ends), "sech_squared": np.array([1.0, 1.0, 0, 0, 0, 0])}[name]
    np.testing.assert_array_equal(loop(ends), want)
    np.testing.assert_array_equal(np.signbit(loop(ends)), np.signbit(want))
    assert np.isnan(loop(np.array([np.nan]))).all()


INLINED_SLOPES = {
    "sech_squared": (EXACT["sech_squared"][0], 4.0, 372.0),
    "logistic_slope": (lambda x: 1 / (2 + 2 * mpmath.cosh(x)), 3.0, 745.0),
    "exp_minus_square": (lambda x: mpmath.exp(-x * x), 1.5, 27.3),
}


@pytest.mark.skipif(not fused(), reason="without fused operations the square is rounded")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", INLINED_SLOPES)
def test_slopes_have_their_digits(name, dtype, rng):
    exact, bound, most = INLINED_SLOPES[name]
    loop = Loop(1, dtype, 1, f"out[i] = rt.{name}(x[i])")
    sizes = [rng.uniform(0, 3, 4000), rng.uniform(0, most, 2000), 10.0 ** rng.uniform(-37, 0, 500)]
    x = (np.concatenate(sizes) * rng.choice([-1.0, 1.0], 6500)).astype(dtype)
    with mpmath.workprec(160):
        assert np.max(ulps(loop(x), [exact(mpmath.mpf(float(v))) for v in x], dtype)) <= bound
    ends = np.array([0.0, np.inf, -np.inf, 3e38, most * 1.1], dtype)
    want = [float(exact(mpmath.mpf(0))), 0.0, 0.0, 0.0, 0.0]
    np.testing.assert_array_equal(loop(ends), want)
    assert np.isnan(loop(np.array([np.nan], dtype))).all()


@pytest.mark.skipif(not fused(), reason="without fused operations the product is rounded")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exponentials_of_products_have_their_digits_and_ends(dtype, rng):
    loop = Loop(2, dtype, 1, "out[i] = rt.exp_product(x[i], y[i])")
    x, y = (rng.normal(size=6000) * 8.0).astype(dtype), (rng.normal(size=6000) * 15.0).astype(dtype)
    with mpmath.workprec(160):
        want = [mpmath.exp(mpmath.mpf(float(a)) * float(b)) for a, b in zip(x, y, strict=True)]
    assert np.max(ulps(loop(x, y), want, dtype)) <= 1.5
    ends = np.array([0.0, 1.0, -1.0, 1e19, 3e38, np.inf, -np.inf, np.nan, 1e-38, -3e38], dtype)
    x, y = (a.ravel() for a in np.meshgrid(ends, ends))
    with np.errstate(all="ignore"):
        want, got = np.exp(x * y), loop(x, y)
    sure = ~np.isfinite(want) | (want == 0.0) | (want == 1.0)
    np.testing.assert_array_equal(got[sure], want[sure])
    np.testing.assert_allclose(got[~sure], want[~sure], rtol=4 * np.finfo(dtype).eps)


def test_a_function_and_its_slope_are_one_call():
    steps = "s = rt.tanh(x[i])", "out[i] = s * rt.sech_squared(x[i])"
    loop = Loop(1, np.float64, INLINED + 1, *steps)
    called = re.findall(r"call <\d+ x double> @fdiff_(\w+)_f8_outlined", loop.ir)
    assert called
    assert set(called) == {"nearer"}
    bodies = re.findall(r"^\d+|^vector.body.*?br i1", loop.ir, flags=re.MULTILINE | re.DOTALL)
    assert all(body.count("@fdiff_nearer_f8_outlined_") <= 4 for body in bodies)
