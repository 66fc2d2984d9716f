"""Every differentiable function of the registry at special points, to the third order.

At 0, 1, -1, at ends of domains and supports, at equal arguments: derivatives along lines through
the point, in all nestings of both modes, against what the function's values say (`taylor_fits.py`).
Rows are made of the registry, so that a new function has one by itself.
"""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import taylor_fits
from scipy import special as sc
from scipy import stats as st

import fdiff
import fdiff.ops.scipy_ops.special_tables.special
from fdiff.errors import UnsupportedError
from fdiff.ops.scipy_ops.probability.stats import TRACED_DISTRIBUTIONS
from fdiff.primitive import PRIMITIVES, UFUNCS, load_tables

load_tables()
TOLERANCE = 1e-4
# Where there is no derivative these give what docs/kinks.md states; all others nan or an infinity.
STATED = {
    *("absolute", "fabs", "sign", "copysign", "heaviside", "maximum", "minimum", "fmax", "fmin"),
    *("floor", "ceil", "trunc", "rint", "remainder", "fmod", "floor_divide", "arctan2", "hypot"),
    *("huber", "i0e", "i1e", "ive", "power", "float_power", "powm1", "round"),
    *(
        "gammasgn",
        "nextafter",
        "spacing",
        "divmod, 0",
        "divmod, 1",
        "modf, 0",
        "modf, 1",
        "frexp, 0",
    ),
    *(
        f"laplace.{name}"
        for name in ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
    ),
    # as 0**y at 0, of which their densities are multiples at 0
    *(
        f"{name}.pdf"
        for name in ("gamma", "beta", "chi2", "f", "weibull_min", "weibull_max", "chi", "nakagami")
    ),
    *("powerlaw.pdf", "fisk.pdf"),
}
# Through these points there are derivatives along lines, from this order on, that are not linear
# (quadratic) in the direction, such as a log(a / b) of rel_entr along (a, b): there is no gradient
# (no Hessian), and it is nan.
NOT_LINEAR = {
    ("rel_entr", (0.0, 0.0)): 1,
    ("kl_div", (0.0, 0.0)): 1,
    ("pseudo_huber", (0.0, 0.0)): 2,
}
# Distribution functions whose formulas have no derivatives at the end of the support: those from
# outside are given.
INNER_ONLY = {
    "f",
    "lognorm",
    "invweibull",
    "maxwell",
    "chi",
    "nakagami",
    "invgamma",
    "levy",
    "truncnorm",
}


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    with np.errstate(all="ignore"):
        yield


# --- rows: what the registry holds ------------------------------------------------------------


class Row(NamedTuple):
    """A function on arrays, the points as one array for each argument, and which arguments move.

    At an end of a support the derivatives are those from within: others are in another `region`.
    """

    call: Callable[..., object]
    points: list[np.ndarray]
    moving: tuple[bool, ...]
    region: Callable[..., np.ndarray] = lambda x, *_: np.zeros(np.shape(x))
    inner_only: bool = False

    @property
    def directions(self) -> list[tuple[int, ...]]:
        """Each moving argument alone, all together, two of them against each other."""
        free = [k for k, moves in enumerate(self.moving) if moves]
        alone = [tuple(int(k == j) for k in range(len(self.moving))) for j in free]
        together = [tuple(int(m) for m in self.moving)] if len(free) > 1 else []
        pairs = itertools.combinations(free, 2)
        against = [tuple((k == i) - (k == j) for k in range(len(self.moving))) for i, j in pairs]
        return [*together, *alone, *against]


FLOATS, WHOLES = (0.0, 1.0, -1.0, 0.5, 2.0), (0, 1, 2, 3)
PARAMETERS = (1.0, 2.0, 2.5)


def _ufunc_rows() -> dict[str, Row]:
    rows = {}
    for ufunc in UFUNCS:
        name, primitive = ufunc.__name__, PRIMITIVES.get(ufunc.__name__)
        if ufunc.signature or not _floating(ufunc) or name in rows:
            continue
        samples = (
            primitive.samples[0].make(np.random.default_rng(0))
            if primitive and primitive.samples
            else ()
        )
        whole = [np.asarray(a).dtype.kind == "i" for a in samples] or [False] * ufunc.nin
        rest = FLOATS if ufunc.nin < 3 else PARAMETERS
        values = [
            WHOLES if w else FLOATS if k == ufunc.nin - 1 else rest for k, w in enumerate(whole)
        ]
        points = [np.array(v) for v in zip(*itertools.product(*values), strict=True)]
        for k in range(ufunc.nout):
            call = ufunc if ufunc.nout == 1 else lambda *x, ufunc=ufunc, k=k: ufunc(*x)[k]
            rows[name if ufunc.nout == 1 else f"{name}, {k}"] = Row(
                call, points, tuple(not w for w in whole)
            )
    return rows


def _floating(ufunc):
    """Whether floating numbers give floating numbers, and whole ones do not."""
    kinds = [t.split("->") for t in ufunc.types]
    return any("d" in i and set(o) == {"d"} for i, o in kinds)


# Left out: SciPy's infinity of Chebyshev polynomials of degree 1.5 has the wrong sign, and its
# `hyperu` has few digits.
CONSTANTS = {"whole": (-3, -2, -1, 0, 1, 2), "not whole": (-3.0, -2.5, -1.0, -0.5, 0.0, 0.5, 2.5)}


def _rows_of_constants() -> dict[str, Row]:
    """Functions with parameters that are constants, which are neither positive nor whole here."""
    rows = {}
    for (name, row), (kind, values) in itertools.product(UFUNC_ROWS.items(), CONSTANTS.items()):
        constants = row.moving.count(False)
        if any(row.moving) and 0 < constants < 3 and name != "hyperu":
            each = [FLOATS if moves else values for moves in row.moving]
            points = [np.array(v) for v in zip(*itertools.product(*each), strict=True)]
            with warnings.catch_warnings(), contextlib.suppress(TypeError):
                warnings.simplefilter("ignore")
                row.call(*points)  # some take whole numbers alone
                rows[f"{name}, {kind}"] = row._replace(points=points)
    return rows


SHAPES = {
    "truncnorm": [(-1.0, 1.0), (0.0, 2.0), (-1.0, 0.0)],
    "loguniform": [(1.0, 2.0), (0.5, 3.0)],
    "binom": [(1.0, 0.5), (4.0, 0.25), (4.0, 0.0), (4.0, 1.0)],
    "nbinom": [(1.0, 0.5), (3.0, 0.25), (2.5, 1.0)],
    "geom": [(0.5,), (0.25,), (1.0,)],
    "bernoulli": [(0.5,), (0.25,), (1.0,)],
    "betabinom": [(3.0, 1.0, 2.0), (4.0, 2.0, 2.0)],
}
ANY_SHAPES = {
    0: [()],
    1: [(1.0,), (2.0,), (3.0,), (2.5,)],
    2: [(1.0, 1.0), (1.0, 2.0), (2.0, 3.0), (2.5, 1.5)],
}


def _distribution_rows() -> dict[str, Row]:
    rows = {}
    for counterpart in TRACED_DISTRIBUTIONS.values():
        dist = counterpart._real
        if not isinstance(dist, st.rv_continuous | st.rv_discrete):
            continue
        discrete, count = isinstance(dist, st.rv_discrete), dist.numargs
        shapes = SHAPES.get(dist.name) or ANY_SHAPES[count]
        for name in counterpart._names:
            at = (0.0, 1.0, 0.5, 0.25) if name in ("ppf", "isf") else WHOLES if discrete else FLOATS
            points = [
                np.array(v, float) for v in zip(*((x, *s) for s in shapes for x in at), strict=True)
            ]
            whole = dist.name in ("binom", "betabinom")  # their first parameter
            moving = (not discrete, *(not (whole and k == 0) for k in range(count)))
            region = (
                Row._field_defaults["region"]
                if name in ("ppf", "isf") or discrete
                else _support_of(dist)
            )
            rows[f"{dist.name}.{name}"] = Row(
                getattr(dist, name), points, moving, region, dist.name in INNER_ONLY
            )
    return rows


def _support_of(dist):
    def region(x, *shapes):
        low, high = dist.support(*shapes)
        return np.where(x < low, -1, np.where(x > high, 1, 0))

    return region


# --- functions that are composed, and what is no ufunc: of a vector, at points of it ----------

M = np.array([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.3, 0.2, 0.9]])  # singular
COMPOSED: dict[str, tuple[Callable[..., object], list[list[float]]]] = {
    "sinc": (lambda x: np.sum(np.sinc(x)), [[0.0], [1.0], [0.5]]),
    "numpy.i0": (lambda x: np.sum(np.i0(x)), [[0.0], [1.0], [-1.0]]),
    "prod": (np.prod, [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.0, -1.0, 2.0]]),
    "nanprod": (np.nanprod, [[0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]),
    "cumprod": (
        lambda x: np.sum(np.cumprod(x) * [1.0, 2.0, 3.0, 4.0]),
        [[0.0, 2.0, 3.0, 1.0], [1.0, 0.0, 0.0, 3.0], [0.0] * 4],
    ),
    "det": (
        lambda x: np.linalg.det(M * x[0] + np.diag(x[1:])),
        [[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]],
    ),
    "norm": (lambda x: np.linalg.norm(x) ** 2 + np.linalg.norm(x), [[0.0, 1.0], [1.0, 1.0]]),
    "norm of order 3": (lambda x: np.linalg.norm(x, 3), [[2.0, 1.0], [1.0, 1.0]]),
    "var": (np.var, [[1.0, 1.0, 1.0], [0.0, 1.0, -1.0]]),
    "std": (np.std, [[0.0, 1.0, -1.0], [1.0, 1.0, 2.0]]),
    "matrix_power": (lambda x: np.sum(np.linalg.matrix_power(M * x[0], 3)), [[0.0], [1.0]]),
    "logsumexp": (sc.logsumexp, [[0.0, 0.0], [1.0, 1.0, 1.0], [0.0, -1.0]]),
    "logsumexp with weights": (
        lambda x: sc.logsumexp(x[:2], b=x[2:]),
        [[0.3, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 2.0], [0.0, 1.0, 0.5, 0.5]],
    ),
    "logsumexp with signs": (
        lambda x: sc.logsumexp(x[:2], b=x[2:], return_sign=True)[0],
        [[0.3, 1.0, 1.0, -2.0], [1.0, 1.0, 0.0, -1.0]],
    ),
    "softmax": (lambda x: np.sum(sc.softmax(x)[0]), [[0.0, 0.0], [1.0, 1.0, 0.5]]),
    "log_softmax": (lambda x: sc.log_softmax(x)[0], [[0.0, 0.0], [1.0, 1.0, 0.5]]),
    "polygamma": (lambda x: np.sum(sc.polygamma([0, 1, 2], x[0])), [[1.0], [2.0], [-0.5]]),
    "zeta": (lambda x: np.sum(sc.zeta(2.0, x)), [[1.0], [0.5], [2.0]]),
    "multigammaln": (lambda x: sc.multigammaln(x[0], 2), [[4.0], [5.0]]),
    "factorial": (lambda x: np.sum(sc.factorial(x)), [[1.0], [0.5], [2.0]]),
    "comb": (lambda x: sc.comb(x[0], 2), [[3.0], [2.5]]),
    "binom of a whole number": (lambda x: sc.binom(x[0], 3), [[0.0], [1.0], [2.0], [5.0], [-2.5]]),
    "poch of a whole number": (
        lambda x: sc.poch(x[0], 3),
        [[-1.0], [0.0], [1.0], [-2.0], [-5.0], [-2.5]],
    ),
    "lambertw": (lambda x: np.sum(np.real(sc.lambertw(x))), [[0.0], [1.0], [2.0]]),
    "entropy": (lambda x: np.sum(sc.xlogy(x, x)), [[1.0, 0.5], [2.0, 1.0]]),
    "spherical_jn": (lambda x: np.sum(sc.spherical_jn([0, 1, 2, 3], x[0])), [[0.0], [1.0]]),
    "spherical_in": (lambda x: np.sum(sc.spherical_in([0, 1, 2, 3], x[0])), [[0.0], [1.0]]),
    "polyval": (lambda x: np.polyval(x[:3], x[3]), [[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
    "logistic": (
        lambda x: np.sum(st.logistic.logpdf(x[0], x[1], x[2])),
        [[0.0, 0.0, 1.0], [1.0, 1.0, 2.0]],
    ),
    "a power of itself": (lambda x: np.sum((1.0 + x) ** x), [[0.0], [1.0], [-0.5]]),
    "a product of powers": (
        lambda x: x[0] ** x[1] * x[2] ** (x[1] - 1.0),
        [[2.0, 1.0, 3.0], [1.0, 0.0, 0.5]],
    ),
}


# --- the comparison ----------------------------------------------------------------------------


def ahead(f):
    return lambda t: fdiff.jvp(f)(t, np.ones_like(t))[1]


def back(f):
    return fdiff.grad(lambda t: np.sum(f(t)))


NESTINGS = [steps for n in (1, 2) for steps in itertools.product((ahead, back), repeat=n)]
NESTINGS += [(ahead,) * 3, (back,) * 3, (back, back, ahead)]
MORE = [(back,), (ahead, back), (back, ahead), (ahead,) * 3, (back,) * 3]
FEW = [(back,), (back, ahead), (back,) * 3]


def compare(name, row, directions, nestings):
    """All points of a row along some directions: what is wrong, in words."""
    wrong, checked = [], 0
    for direction in directions:
        line = _line(row.call, row.points, direction)
        zeros = np.zeros(len(row.points[0]))
        known = _known(row, direction)
        for steps in nestings:
            f = line
            for step in steps:
                f = step(f)
            try:
                got = np.asarray(f(zeros))
            except UnsupportedError:  # of a parameter that is a constant
                break
            for i, orders in known.items():
                at = tuple(p[i] for p in row.points)
                checked += 1
                stated = (name in STATED and not any(at)) or (row.inner_only and got[i] == 0.0)
                if np.isnan(got[i]) and np.count_nonzero(direction) > 1:
                    stated |= len(steps) >= NOT_LINEAR.get((name, at), len(steps) + 1)
                if not stated and not _right(float(got[i]), orders[len(steps) - 1], name):
                    modes = " ".join(s.__name__ for s in steps)
                    wrong.append(
                        f"{name}{at} along {direction}, {modes}: {got[i]}, {orders[len(steps) - 1]}"
                    )
    return wrong, checked


def _line(call, points, direction):
    return lambda t: call(*[p + d * t if d else p for p, d in zip(points, direction, strict=True)])


def _known(row, direction):
    """What the values of the function say, at each point where it has a finite one."""
    columns = [p[:, None] for p in row.points]
    values = np.asarray(_line(row.call, columns, direction)(taylor_fits.OFFSETS), float)
    there = _line(row.region, columns, direction)(taylor_fits.OFFSETS) == row.region(*columns)
    values = np.where(there, values, np.nan)
    centre = np.asarray(row.call(*row.points), float)
    inside = np.isfinite(centre)
    return {i: taylor_fits.derivatives(float(centre[i]), values[i]) for i in np.flatnonzero(inside)}


def _right(got, known, name):
    if known.lacking == taylor_fits.UNKNOWN or (known.lacking and name in STATED):
        return True
    if not known.lacking:
        allowed = TOLERANCE * (1e-2 + abs(known.value))
        if known.error:
            allowed = 5.0 * known.error + 0.03 * abs(known.value)
        return abs(got - known.value) <= allowed
    if known.sides and any(abs(got - v) <= TOLERANCE * (1e-2 + abs(v)) for v in known.sides):
        return True  # an end of a domain
    return not np.isfinite(got) and not (
        np.isinf(got) and known.sign and np.sign(got) != known.sign
    )


UFUNC_ROWS, DISTRIBUTION_ROWS = _ufunc_rows(), _distribution_rows()
CONSTANT_ROWS = _rows_of_constants()


@pytest.mark.parametrize("name", UFUNC_ROWS)
def test_functions_of_numpy_and_scipy(name):
    row = UFUNC_ROWS[name]
    assert compare(name, row, row.directions[:1], FEW)[0] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", UFUNC_ROWS)
def test_functions_of_numpy_and_scipy_in_all_directions(name):
    row = UFUNC_ROWS[name]
    assert compare(name, row, row.directions, NESTINGS)[0] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CONSTANT_ROWS)
def test_constants_that_are_not_positive(name):
    row = CONSTANT_ROWS[name]
    assert compare(name.split(",")[0], row, row.directions[:1], FEW)[0] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTION_ROWS)
def test_distributions(name):
    row = DISTRIBUTION_ROWS[name]
    assert compare(name, row, row.directions, MORE)[0] == []


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_functions(name):
    """Along two lines in general position, and along the axes."""
    f, points = COMPOSED[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    for point in map(np.array, points):
        for direction in [*rng.normal(size=(2, point.size)), *np.eye(point.size)]:
            values = np.array([f(point + t * direction) for t in taylor_fits.OFFSETS], float)
            known = taylor_fits.derivatives(float(f(point)), values)
            for steps in MORE:
                g = lambda t, v=direction, p=point: f(p + t * v)
                for step in steps:
                    g = step(g)
                got = float(g(np.float64(0.0)))
                assert not known[len(steps) - 1].lacking, (point, direction)
                assert _right(got, known[len(steps) - 1], name), (
                    point,
                    direction,
                    steps,
                    got,
                    known,
                )


@pytest.mark.parametrize(
    "rows", [UFUNC_ROWS, DISTRIBUTION_ROWS], ids=["functions", "distributions"]
)
def test_values_are_those_of_plain_code(rows):
    """At all of these points, where formulas are chosen by cases too."""
    for name, row in rows.items():
        try:
            got = fdiff.jit(row.call)(*row.points)
        except UnsupportedError:
            continue
        want = row.call(*row.points)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13, err_msg=name)
