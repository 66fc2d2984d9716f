"""Derivatives at extreme points have the digits that the format can hold: against mpmath.

Slopes are within `SLOPE` units of the last place, second derivatives within `CURVATURE`, in both
modes, interpreted and compiled, in double and in single precision. What is worse is in `LOST`, with
the reason, and in docs/kinks.md.
"""

import numpy as np
import pytest
from extremes import BINARY, UNARY, exact, pairs, points, ulps
from tapes import tape_of, values
from tolerances import CURVATURE, LOST, SLOPE

import fdiff
from fdiff import kernels
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

DTYPES = (np.float64, np.float32)
ONLY_DOUBLE = {"x**(0.25 + 2**-54)"}  # it is 0.25 in single precision


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_CACHE_DIR", str(tmp_path_factory.mktemp("kernels") / "cache"))
        yield


def check(got, want, x, bound, *, overflow=True):
    """`overflow`: whether what is out of range must be an infinity of the right sign."""
    distance = ulps(np.asarray(got), want)
    if not overflow:
        distance[[abs(w) >= float(np.finfo(got.dtype).max) for w in want]] = 0.0
    at = int(np.argmax(distance))
    assert distance[at] <= bound, (
        float(distance[at]),
        [float(v.ravel()[at]) for v in x],
        float(np.ravel(got)[at]),
        float(want[at]),
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=["double", "single"])
@pytest.mark.parametrize("name", UNARY)
def test_derivatives_of_functions_of_one_number(name, dtype):
    if name in ONLY_DOUBLE and dtype is np.float32:
        return
    row = UNARY[name]
    x = points(name, dtype)
    first, second = ([exact(formula, v) for v in x] for formula in (row.slope, row.curvature))
    bounds = LOST.get(name, (SLOPE, CURVATURE, ""))
    tape, one = tape_of(row.call, x), np.ones_like(x)
    pulled = vjp(tape, [0])
    with np.errstate(all="ignore"):
        check(values(jvp(tape, [0]), x, one)[-1], first, [x], bounds[0])
        check(values(pulled, x, one)[-1], first, [x], bounds[0])
        twice = simplify(jvp(pulled, [0]))
        check(values(twice, x, one, one)[-1], second, [x], bounds[1], overflow=False)
    if kernels.supported(twice):
        found = kernels.compile(twice, ("C",) * 3)(x, one, one)
        check(found[len(found) // 2 - 1], first, [x], bounds[0])
        check(found[-1], second, [x], bounds[1], overflow=False)


@pytest.mark.parametrize("dtype", DTYPES, ids=["double", "single"])
@pytest.mark.parametrize("name", BINARY)
def test_slopes_of_functions_of_two_numbers(name, dtype):
    call, *formulas = BINARY[name]
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        value = np.asarray(call(x, y))
        keep = (
            np.isfinite(value)
            & ((np.abs(value) >= np.finfo(dtype).smallest_normal) | (value == 0))
            & (x + y != 0)
            & np.isfinite(x + y)
        )
    x, y = x[keep], y[keep]
    want = [[exact(formula, *v) for v in zip(x, y, strict=True)] for formula in formulas]
    bound = LOST.get(name, (SLOPE, CURVATURE, ""))[0]
    tape, one = tape_of(call, x, y), np.ones_like(x)
    pulled = simplify(vjp(tape, [0, 1]))
    compiled = kernels.compile(pulled, ("C",) * 3)(x, y, one) if kernels.supported(pulled) else None
    with np.errstate(all="ignore"):
        got = values(pulled, x, y, one)
        for k in (0, 1):
            check(got[k - 2], want[k], [x, y], bound)
            check(values(jvp(tape, [k]), x, y, one)[-1], want[k], [x, y], bound)
            if compiled is not None:
                check(compiled[k - 2], want[k], [x, y], bound)


LIMITS = {  # slopes at -inf and inf
    "exp": (0, np.inf),
    "expm1": (0, np.inf),
    "tanh": (0, 0),
    "arctan": (0, 0),
    "arcsinh": (0, 0),
    "erf": (0, 0),
    "erfc": (0, 0),
    "ndtr": (0, 0),
    "expit": (0, 0),
    "log_expit": (1, 0),
    "logaddexp(x, 0)": (0, 1),
    "logaddexp2(x, 0)": (0, 1),
    "log1p": (np.nan, 0),
    "exp2": (0, np.inf),
    "arctan2(x, 1)": (0, 0),
}


@pytest.mark.parametrize("name", LIMITS)
def test_slopes_at_infinities_are_limits_and_nan_stays(name):
    x = np.array([-np.inf, np.inf, np.nan])
    tape = simplify(vjp(tape_of(UNARY[name].call, x), [0]))
    want = np.array([*LIMITS[name], np.nan])
    with np.errstate(all="ignore"):
        found = [
            values(tape, x, np.ones(3))[-1],
            kernels.compile(tape, ("C",) * 2)(x, np.ones(3))[-1],
        ]
    for got in found:
        known = ~np.isnan(want) | (np.arange(3) == 2)
        np.testing.assert_array_equal(got[known], want[known])


def test_the_issue_of_each_function_is_gone():
    """What was 0, or infinite, and is a number."""
    import fdiff

    def slope(f, x):
        return fdiff.grad(f)(np.float64(x))

    np.testing.assert_allclose(slope(np.expm1, -37.5), 5.175555005801869e-17, rtol=1e-15)
    np.testing.assert_allclose(slope(np.tanh, 30.0), 3.5026045e-26, rtol=1e-7)
    np.testing.assert_allclose(slope(np.arcsinh, 1e155), 1e-155, rtol=1e-15)
    np.testing.assert_allclose(slope(lambda x: x**x, 1e-310), -712.8, rtol=1e-3)
    np.testing.assert_allclose(slope(lambda x: x / (1 + x), 1e16), 1e-32, rtol=1e-15)


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_the_modified_bessel_function_overflows_to_infinity():
    """Its largest term counts as 1, so that no term of 0 meets the infinite factor."""
    x = np.array([1e5, 1e8, 1e300, -1e300])
    np.testing.assert_array_equal(fdiff.jit(np.i0)(x), np.full(4, np.inf))
