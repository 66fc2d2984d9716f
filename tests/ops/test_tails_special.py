"""SciPy's functions at extreme points against mpmath, and all functions at many random ones.

Slopes of SciPy's functions are within `SPECIAL` units of the last place in double precision; what
is worse is in `LOST_SPECIAL`, with the reason, and in docs/kinks.md. The ordinary tests take every
fifth point, those marked slow all of them.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from extremes import UNARY, exact, ulps
from extremes_special import SLOPES, settled, slope_points
from mpmath import mpf
from scipy import special as sc
from tapes import tape_of, values
from test_tails import DTYPES, ONLY_DOUBLE, check
from tolerances import CURVATURE, LOST, LOST_SPECIAL, SLOPE, SPECIAL

import fdiff
from fdiff import kernels
from fdiff.primitive import UFUNCS
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

HERE = Path(__file__).parents[1]
STEP = 5  # of the points that the ordinary tests take
RANDOM = int(os.environ.get("FDIFF_TAILS", "50"))  # of each of three kinds
FLAT = {"gammasgn", "round"}  # their slopes are 0


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


def check_slope(name, x):
    row = SLOPES[name]
    want = [settled(row.slope, v) for v in x]
    with np.errstate(all="ignore"):
        _, got = fdiff.jvp(row.call)(x, np.ones_like(x))
    check(got, want, [x], LOST_SPECIAL.get(name, (SPECIAL,))[0])


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_functions_of_scipy(name):
    x = slope_points(name)
    check_slope(name, x[list(SLOPES).index(name) % STEP % x.size :: STEP])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOPES)
def test_slopes_of_functions_of_scipy_at_all_points(name):
    check_slope(name, slope_points(name))


def test_every_function_of_scipy_has_a_row():
    tables = "".join((HERE / f"extremes{more}.py").read_text("utf-8") for more in ("", "_special"))
    rows = set(re.findall(r"\bsc\.(\w+)", tables))
    fdiff.grad(sc.erf)(0.5)  # SciPy's table is read at its first function
    names = {u.__name__ for u in UFUNCS if getattr(sc, u.__name__, None) is u}
    assert (
        names - rows - FLAT - {u.__name__ for u in vars(np).values() if isinstance(u, np.ufunc)}
        == set()
    )
    assert LOST_SPECIAL.keys() <= SLOPES.keys()


def random_points(name, dtype, count):
    """Of both signs: of any exponent, moderate ones, and neighbours of 0.5, 1 and 2."""
    rng, info = np.random.default_rng(sum(map(ord, name))), np.finfo(dtype)
    least, most = info.minexp - info.nmant, info.maxexp + 1
    wide = np.ldexp(rng.uniform(0.5, 1.0, count), rng.integers(least, most, count))
    some = rng.uniform(0.0, 0.8 * info.maxexp, count) * rng.choice([1.0, 0.1, 0.01], count)
    near = rng.choice([0.5, 1.0, 2.0], count) * (1.0 + rng.integers(-4, 5, count) * info.eps)
    inside = UNARY[name].inside
    both = (np.concatenate([wide, some, near]) * rng.choice([1.0, -1.0], 3 * count)).astype(dtype)
    return np.array([x for x in both if inside(float(x))], dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=["double", "single"])
@pytest.mark.parametrize("name", UNARY)
def test_derivatives_at_random_points(name, dtype):
    """Both modes, interpreted and compiled, at some hundred points where nobody has looked."""
    if name in ONLY_DOUBLE and dtype is np.float32:
        return
    row, x = UNARY[name], random_points(name, dtype, RANDOM)
    first, second = ([exact(formula, v) for v in x] for formula in (row.slope, row.curvature))
    large = [abs(w) > np.finfo(dtype).max / 16 for w in second]  # a factor may be out of range
    second = [mpf("inf") if out else w for w, out in zip(second, large, strict=True)]
    bounds = LOST.get(name, (SLOPE, CURVATURE))
    tape, one = tape_of(row.call, x), np.ones_like(x)
    pulled = vjp(tape, [0])
    twice = simplify(jvp(pulled, [0]))
    with np.errstate(all="ignore"):
        check(values(jvp(tape, [0]), x, one)[-1], first, [x], bounds[0])
        check(values(pulled, x, one)[-1], first, [x], bounds[0])
        check(values(twice, x, one, one)[-1], second, [x], bounds[1], overflow=False)
    if kernels.supported(twice):
        found = kernels.compile(twice, ("C",) * 3)(x, one, one)
        check(found[len(found) // 2 - 1], first, [x], bounds[0])
        check(found[-1], second, [x], bounds[1], overflow=False)


def test_what_is_lost_is_lost():
    """Rows of `LOST_SPECIAL` are needed: a bound is at most 16 times what is found, or `inf`."""
    for name, (bound, _) in LOST_SPECIAL.items():
        assert bound > SPECIAL, name
    x = np.array([19.0])
    with np.errstate(all="ignore"):
        got = fdiff.jvp(sc.dawsn)(x, np.ones(1))[1]
    assert ulps(got, [settled(SLOPES["dawsn"].slope, 19.0)])[0] > SPECIAL
