"""Distributions, distances, interpolation and filters of SciPy.

Values are SciPy's, also at the edges; derivatives are held against mpmath and differences.
"""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
import scipy.interpolate as ip
import scipy.ndimage as nd
import scipy.stats as st
from scipy.spatial import distance as sd
from scipy.stats import norm

import fdiff
from fdiff.errors import UnsupportedError

RNG = np.random.default_rng(4)
SHAPES = {
    "norm": (),
    "expon": (),
    "uniform": (),
    "lognorm": (0.7,),
    "t": (3.2,),
    "gamma": (2.3,),
    "beta": (1.5, 2.6),
    "chi2": (4.1,),
    "f": (3.3, 5.1),
    "poisson": (1.7,),
    "binom": (5, 0.3),
}
DENSE = ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
WHOLE = ("pmf", "logpmf", "cdf", "logcdf", "sf", "logsf")
POINTS = np.array([-np.inf, -2, -0.5, 0, 0.3, 0.5, 1, 1.7, 2, 3, np.inf, np.nan])
COUNTS = np.array([-1, 0, 0.5, 1, 2, 3, 4, 5, 6, np.nan, np.inf, -np.inf])
SHARES = np.array([-0.1, 0, 0.2, 0.5, 0.9, 1, 1.1, np.nan])
CALLS = [
    (name, call)
    for name in SHAPES
    for call in (WHOLE if name in {"poisson", "binom"} else DENSE)
    if (name, call) not in {("f", "ppf"), ("f", "isf")}
]
pytestmark = pytest.mark.filterwarnings(
    "ignore:divide by zero:RuntimeWarning", "ignore:invalid value:RuntimeWarning"
)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")  # kernels are tested against it elsewhere


def same(ours, plain, rtol=1e-12):
    assert isinstance(ours, type(plain))
    assert np.asarray(ours).dtype == np.asarray(plain).dtype
    np.testing.assert_allclose(ours, plain, rtol=rtol, atol=rtol)


def differences(f, *xs):
    """Derivatives along one way, extrapolated twice (Richardson)."""
    rng = np.random.default_rng(6)
    ways = [rng.normal(size=np.shape(x)) for x in xs]

    def slope(h):
        up, down = (f(*[x + s * w for x, w in zip(xs, ways, strict=True)]) for s in (h, -h))
        return [(u - d) / (2 * h) for u, d in zip(up, down, strict=True)]

    rows = [slope(h) for h in (2e-3, 1e-3, 5e-4)]
    for factor in (4.0, 16.0):
        rows = [
            [(factor * b - a) / (factor - 1) for a, b in zip(*pair, strict=True)]
            for pair in pairwise(rows)
        ]
    return tuple(ways), rows[0]


def check(f, *xs, rtol=1e-7):
    """Value, gradient and second derivatives in all arguments."""
    xs = tuple(np.asarray(x, float) for x in xs)
    weights = np.random.default_rng(5).normal(size=np.shape(f(*xs)))

    def total(*args):
        return np.sum(f(*args) * weights)

    np.testing.assert_allclose(fdiff.jit(f)(*xs), f(*xs), rtol=1e-12, atol=1e-13)
    gradient = fdiff.grad(total, argnums=tuple(range(len(xs))))
    ways, (measured,) = differences(lambda *a: [total(*a)], *xs)
    slope = sum(np.sum(g * w) for g, w in zip(gradient(*xs), ways, strict=True))
    np.testing.assert_allclose(slope, measured, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(fdiff.jvp(total, xs, ways)[1], slope, rtol=1e-11, atol=1e-11)
    bent = fdiff.hvp(total, xs, ways)[1]
    for ours, theirs in zip(bent, differences(gradient, *xs)[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=10 * rtol, atol=10 * rtol)


# --- distributions ----------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_values_are_those_of_scipy(name, call):
    function, shapes = getattr(getattr(st, name), call), SHAPES[name]
    whole = name in {"poisson", "binom"}
    points = COUNTS if whole else SHARES if call in {"ppf", "isf"} else POINTS
    scales = ({"loc": 1}, {}) if whole else ({}, {"loc": 0.2, "scale": 1.4}, {"scale": -1.0})
    for scale in scales:
        f = fdiff.jit(lambda x, scale=scale: function(x, *shapes, **scale))
        for x in (points, points[4]):
            same(f(x), function(x, *shapes, **scale))


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_parameters_that_are_not_allowed_give_nan(name, call):
    function, shapes = getattr(getattr(st, name), call), SHAPES[name]
    if shapes:
        value = fdiff.jit(lambda s: function(0.5, s, *shapes[1:]))(-1.0)
        assert np.isnan(value)


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_derivatives_in_points_and_parameters(name, call):
    function, shapes = getattr(getattr(st, name), call), SHAPES[name]
    if name == "binom":
        check(lambda p: function(np.arange(5), 5, p), np.linspace(0.2, 0.8, 5))
    elif name == "poisson":
        check(lambda mu: function(np.arange(5), mu), np.linspace(0.4, 3.0, 5))
    else:
        x = np.array([0.15, 0.35, 0.62, 0.9])
        loc, scale = np.array([0.05, -0.1, 0.1, -0.3]), np.array([1.3, 1.1, 1.6, 2.0])
        rows = [s + 0.1 * np.arange(4) for s in shapes]
        check(lambda x, loc, scale, *s: function(x, *s, scale=scale, loc=loc), x, loc, scale, *rows)


NORMAL = {
    "pdf": mp.npdf,
    "logpdf": lambda x: mp.log(mp.npdf(x)),
    "cdf": mp.ncdf,
    "logcdf": lambda x: mp.log(mp.ncdf(x)),
    "sf": lambda x: mp.ncdf(-x),
    "logsf": lambda x: mp.log(mp.ncdf(-x)),
}


@pytest.mark.parametrize("call", NORMAL)
@pytest.mark.parametrize("x", [-30.0, -3.0, 0.0, 1.5, 9.0])
def test_the_normal_distribution_far_out(call, x):
    f = getattr(norm, call)
    with mp.workdps(400):
        exact = [float(mp.diff(NORMAL[call], mp.mpf(x), n)) for n in (1, 2)]
    np.testing.assert_allclose(fdiff.grad(f)(x), exact[0], rtol=1e-11, atol=1e-300)
    # Beyond 9 the slope of log(1 - tiny) is tiny itself, and rounded by 1 - tiny.
    np.testing.assert_allclose(fdiff.grad(fdiff.grad(f))(x), exact[1], rtol=1e-9, atol=1e-300)


def test_parameters_are_traced_in_every_spelling():
    x = np.array([0.3, -0.7, 1.2])
    expected = fdiff.grad(lambda m: np.sum(-0.5 * ((x - m) / 2.0) ** 2 - np.log(2.0)))(0.4)
    spellings = (
        lambda m: st.norm.logpdf(x, m, 2.0),
        lambda m: norm.logpdf(x, scale=2.0, loc=m),
        lambda m: norm(m, 2.0).logpdf(x),
        lambda m: norm(loc=m, scale=2.0).logpdf(x),
        lambda m: norm.freeze(m, 2.0).logpdf(x),
        lambda m: st.multivariate_normal.logpdf(x, m, 4.0),
        lambda m: st.multivariate_normal(m, 4.0).logpdf(x),
    )
    for f in spellings:
        slope = fdiff.grad(lambda m, f=f: np.sum(f(m)))(0.4)
        np.testing.assert_allclose(slope, expected, rtol=1e-13)
    for f in (
        lambda x: norm(0.4, 2.0).logpdf(x),
        lambda x: st.multivariate_normal(0.4, 4.0).logpdf(x),
    ):
        slope = fdiff.grad(lambda x, f=f: np.sum(f(x)))(x)
        np.testing.assert_allclose(slope, (0.4 - x) / 4, rtol=1e-13)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_what_was_made_outside_works_and_is_never_stale():
    x = np.array([0.3, -0.7, 1.2])
    logpdf, frozen, both = norm.logpdf, norm(0.4, 2.0), st.multivariate_normal(np.zeros(3), 2.0)
    counts = st.poisson(1.5)
    np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(logpdf(x)))(x), -x)
    slope = fdiff.grad(lambda x: np.sum(frozen.logpdf(x)))
    np.testing.assert_allclose(slope(x), (0.4 - x) / 4)
    frozen.args = (1.4, 2.0)
    np.testing.assert_allclose(slope(x), (1.4 - x) / 4)
    np.testing.assert_allclose(fdiff.grad(both.logpdf)(x), -x / 2)
    np.testing.assert_allclose(frozen.cdf(x), norm.cdf(x, 1.4, 2.0))
    assert not np.any(fdiff.grad(lambda x: np.sum(counts.pmf(np.floor(x))))(x))


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_draws_are_new_at_each_call():
    slope = fdiff.grad(lambda x: np.sum(x * norm.rvs(size=3)))
    assert np.all(slope(np.ones(3)) != slope(np.ones(3)))


def test_what_is_not_traced_goes_to_scipy():
    def f(x):
        assert isinstance(norm, st.rv_continuous)
        return np.sum(x) * norm.cdf(1.0) * norm.std(scale=3.0) * norm.ppf([0.9])[0]

    expected = norm.cdf(1.0) * 3.0 * norm.ppf(0.9)
    np.testing.assert_allclose(fdiff.grad(f)(np.ones(2)), expected)


def test_points_at_the_edges():
    for f, x, expected in (
        (lambda a: st.gamma.pdf([0.0, -1.0], a), 2.5, 0.0),
        (lambda a: st.beta.pdf([0.0, 1.0, 2.0], a, 2.0), 2.5, 0.0),
        (lambda s: st.lognorm.pdf(0.0, s), 0.5, 0.0),
        (lambda s: st.uniform.logpdf([0.0, 1.0, 3.0], 0, s), 2.0, -1.0),
        (lambda mu: st.poisson.logpmf([0, 1.5, -2], mu), 0.0, -1.0),
        (lambda mu: st.poisson.pmf([0, 1, 2], mu) * np.array([1, 3, 5]), 0.0, 2.0),
        (lambda p: st.binom.pmf([0, 1, 5], 5, p) * np.array([1, 3, 7]), 0.0, 10.0),
        (lambda p: st.binom.pmf([0, 4, 5], 5, p) * np.array([1, 3, 7]), 1.0, 20.0),
        (lambda p: st.binom.pmf(1000, 2000, p), 0.0, 0.0),
        (lambda p: st.binom.logpmf(5, 5, p), 1.0, 5.0),
        (lambda x: st.gamma.pdf(x, 1.0), 0.0, -1.0),
        (lambda k: st.binom.logpmf(k, 5, 0.3), 3.0, 0.0),
        (lambda x: st.t.logpdf(x, np.inf), 2.0, -2.0),
        (lambda m: norm.ppf(q=0.3, loc=m), 2.0, 1.0),
        (lambda m: st.poisson.logpmf(k=2, mu=m), 2.0, 0.0),
    ):
        total = lambda *a, f=f: np.sum(f(*a))
        same(fdiff.jit(f)(x), f(x))
        np.testing.assert_allclose(fdiff.grad(total)(x), expected, rtol=1e-13, atol=1e-15)
        assert np.isfinite(fdiff.grad(fdiff.grad(total))(x))


COV = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 1.0]])


@pytest.mark.slow
@pytest.mark.parametrize("call", ["pdf", "logpdf"])
def test_the_normal_distribution_of_vectors(call):
    f = getattr(st.multivariate_normal, call)
    mean = np.array([0.1, 0.2, -0.3])
    for x in (RNG.normal(size=3), RNG.normal(size=(4, 3)), RNG.normal(size=(2, 4, 3))):
        check(f, x, mean, COV)
        check(lambda x, d: f(x, mean, d), x, np.array([1.0, 2.0, 1.5]))
        check(lambda x, c: f(x, cov=c), x, COV)
    check(lambda x, s: f(x, cov=s), RNG.normal(size=5), 1.7)
    with pytest.raises(np.linalg.LinAlgError):
        fdiff.grad(lambda c: f(mean, mean, c))(-COV)
    with pytest.raises(ValueError, match="must be square"):
        fdiff.grad(lambda c: f(mean, mean, c))(COV[:2])


def test_normal_distributions_on_a_subspace():
    factor, mean = RNG.normal(size=(4, 2)), RNG.normal(size=4)
    for call in ("pdf", "logpdf"):
        f = getattr(st.multivariate_normal, call)
        on_plane = lambda w, m, d, f=f: f(m + d @ w, m, d @ d.T, allow_singular=True)
        check(on_plane, RNG.normal(size=2), mean, factor)
        regular = 2.0 * np.eye(4) + 0.3 * RNG.normal(size=(4, 4))
        check(lambda x, c, f=f: f(x, cov=c @ c.T, allow_singular=True), mean, regular)
        check(
            lambda x, f=f: f(x, mean, st.Covariance.from_diagonal([1.0, 2.0, 0.5, 0.7])),
            RNG.normal(size=4),
        )
    singular = st.multivariate_normal(mean, factor @ factor.T, allow_singular=True)
    check(lambda w: singular.logpdf(mean + factor @ w), RNG.normal(size=2))
    far = RNG.normal(size=(5, 4))
    same(fdiff.jit(singular.logpdf)(far), singular.logpdf(far))  # -inf: off the subspace


def test_entropies_of_normal_distributions():
    entropy = st.multivariate_normal.entropy
    check(lambda c: entropy(None, c @ c.T), np.eye(3) + 0.3 * RNG.normal(size=(3, 3)))
    check(lambda d: entropy(np.zeros(4), d @ d.T), RNG.normal(size=(4, 2)))
    check(lambda s: entropy(cov=s * s), 1.3)


def test_dirichlet_distributions():
    alpha, x = np.array([1.2, 2.0, 0.7]), np.array([0.2, 0.5, 0.3])
    for call in ("pdf", "logpdf"):
        f = getattr(st.dirichlet, call)
        check(lambda x, a, f=f: f(x / np.sum(x), a), x, alpha)
        check(f, x[:2], alpha)
        check(f, 0.2 + 0.4 * RNG.dirichlet(alpha, 5).T[:2], alpha)
        frozen = getattr(st.dirichlet(alpha), call)
        check(frozen, x[:2])
    for call in ("mean", "var", "entropy"):
        check(getattr(st.dirichlet, call), alpha)
        check(lambda a, call=call: getattr(st.dirichlet(a), call)(), alpha)
    expected = alpha[:2] - 1.0  # the slope of the logarithm of the density, by hand
    expected = expected / x[:2] - (alpha[2] - 1.0) / x[2]
    np.testing.assert_allclose(
        fdiff.grad(lambda x: st.dirichlet.logpdf(x, alpha))(x[:2]), expected, rtol=1e-13
    )
    for wrong, words in (
        (x * 1.1, "must lie within the normal simplex"),
        (np.array([-0.2, 0.7, 0.5]), "between zero and one"),
        (x[:1], "same number of entries"),
        (np.array([0.5, 0.5, 0.0]), "must be greater than zero"),
    ):
        with pytest.raises(ValueError, match=words):
            fdiff.grad(lambda x: st.dirichlet.logpdf(x, alpha))(wrong)
    with pytest.raises(ValueError, match="must be greater than 0"):
        fdiff.grad(lambda a: st.dirichlet.logpdf(x, a))(-alpha)


def test_what_has_no_rule_is_named():
    x = np.array([0.3, 0.7])
    for f, words in (
        (lambda x: np.real(norm.pdf(x + 1j)), "complex numbers"),
        (lambda x: norm.fit(x)[0], r"scipy.stats.norm.fit"),
        (lambda x: norm.entropy(x, x), r"scipy.stats.norm.entropy"),
        (lambda x: st.f.ppf(x, 2.0, 3.0), r"scipy.stats.f.ppf"),
        (st.multivariate_normal.cdf, r"scipy.stats.multivariate_normal.cdf"),
        (lambda x: st.wald(0, 1).logpdf(x), r"scipy.stats.wald.logpdf"),
        (lambda x: sd.cdist(x[:, None], x[:, None], "jaccard"), "cdist with metric='jaccard'"),
        (lambda x: sd.pdist(x[:, None], "minkowski", p=3), "pdist with p="),
        (lambda x: sd.cosine(x, x, [1, 2]), "cosine with weights"),
        (lambda x: ip.interp1d(x, x, kind="zero")(0.5), "interp1d with kind='zero'"),
        (lambda x: nd.median_filter(x, 3), "scipy.ndimage.median_filter"),
        (lambda x: nd.convolve(x, x, output=np.zeros(2)), "output="),
    ):
        with pytest.raises(UnsupportedError, match=words):
            fdiff.grad(lambda x, f=f: np.sum(f(x)))(x)


# --- distances --------------------------------------------------------------------------------
A, B = RNG.normal(size=(4, 3)), RNG.normal(size=(5, 3))
METRICS = ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "cosine", "correlation")


@pytest.mark.parametrize("metric", METRICS)
def test_distances_of_pairs(metric):
    check(lambda a, b: sd.cdist(a, b, metric), A, B)
    check(lambda a: sd.squareform(sd.pdist(a, metric)), A)
    if metric != "correlation":
        f = getattr(sd, metric)
        check(f, A[0], B[0])
        for dtype in (float, np.float32):
            u, v = A[0].astype(dtype), B[0].astype(dtype)
            same(fdiff.jit(f)(u, v), f(u, v), rtol=1e-6)


def test_metrics_that_are_functions():
    check(lambda a, b: sd.cdist(a, b, lambda u, v: np.sum((u - v) ** 4)), A, B)
    check(lambda a: sd.pdist(a, sd.cosine), A)


def test_distance_zero_has_slope_zero():
    for metric in ("euclidean", "cityblock", "chebyshev", "sqeuclidean"):
        slope = fdiff.grad(lambda a, metric=metric: np.sum(sd.cdist(a, a[:1], metric)))
        assert np.all(np.isfinite(slope(A)))
        assert not np.any(slope(A[:1]))
    assert not np.any(fdiff.grad(lambda a: sd.euclidean(a, a))(A[0]))


def test_square_forms_both_ways():
    distances = sd.pdist(A)
    check(sd.squareform, distances)
    matrix = sd.squareform(distances)
    same(fdiff.jit(sd.squareform)(matrix), distances)
    uneven = A[:, [0, 1, 2, 0]]
    unchecked = fdiff.jit(lambda m: sd.squareform(m, checks=False))
    same(unchecked(uneven), sd.squareform(uneven, checks=False))
    wrong = ((matrix + np.eye(4), "diagonal"), (np.triu(matrix), "symmetric"), (A, "square"))
    for bad, words in wrong:
        with pytest.raises(ValueError, match=words):
            fdiff.grad(lambda m: np.sum(sd.squareform(m)))(bad)
    with pytest.raises(ValueError, match="binomial"):
        fdiff.grad(lambda m: np.sum(sd.squareform(m)))(distances[:4])
    with pytest.raises(ValueError, match="same number of columns"):
        fdiff.grad(lambda a: np.sum(sd.cdist(a, B[:, :2])))(A)


# --- interpolation ----------------------------------------------------------------------------
KNOTS = np.array([0.0, 0.5, 1.0, 2.0])
QUERY = np.array([[-0.5, 0.0, 0.5], [1.7, 2.0, 2.5]])


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(
    "ends",
    [
        {"fill_value": "extrapolate"},
        {"bounds_error": False},
        {"bounds_error": False, "fill_value": (1.0, 2.0)},
        {"bounds_error": False, "fill_value": 3.0},
    ],
)
def test_lines_between_points(ends, axis):
    values = np.moveaxis(RNG.normal(size=(4, 3)), 0, axis)
    outside = ip.interp1d(KNOTS[::-1], np.flip(values, axis), axis=axis, **ends)
    for q in (QUERY, QUERY[0, 0], np.array(np.nan)):
        same(fdiff.jit(outside)(q), outside(q))
    inside = fdiff.jit(lambda y: ip.interp1d(KNOTS, y, axis=axis, **ends)(QUERY))
    same(inside(values), outside(QUERY))


@pytest.mark.parametrize("kind", ["linear", "cubic", "nearest", "previous", "next"])
@pytest.mark.parametrize("bounds_error", [None, True, False])
@pytest.mark.parametrize("fill", [np.nan, 3.0, (1.0, 2.0), "extrapolate"])
def test_beyond_the_ends_of_traced_values(kind, bounds_error, fill):
    def f(y):
        return ip.interp1d(KNOTS, y, kind, bounds_error=bounds_error, fill_value=fill)(QUERY)

    try:
        expected = f(KNOTS + 1.0)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:7]):  # "A value", or "Cannot" extrapolate
            fdiff.jit(f)(KNOTS + 1.0)
    else:
        same(fdiff.jit(f)(KNOTS + 1.0), expected)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_slopes_of_lines():
    q, y = np.array([0.1, 0.7, 1.6, 0.3]), np.array([1.0, 3.0, -1.0, 2.0])
    check(lambda x, y, q: ip.interp1d(x, y)(q), KNOTS, y, q)
    check(lambda q: ip.interp1d(KNOTS, y, fill_value="extrapolate")(q + 1.3), q)
    outside = ip.interp1d(KNOTS, y, kind="slinear")
    np.testing.assert_allclose(fdiff.grad(lambda q: np.sum(outside(q)))(q), [4, -8, 3, 4])
    for call in (outside, lambda q: ip.interp1d(KNOTS, q)(9.0)):
        with pytest.raises(ValueError, match="above the interpolation range"):
            fdiff.grad(lambda q, call=call: np.sum(call(q)))(q + 9)
    cubic = ip.interp1d(KNOTS, y, kind="cubic")
    check(cubic, q)
    np.testing.assert_allclose(cubic(KNOTS), y, atol=1e-12)


# --- filters ----------------------------------------------------------------------------------
MODES = ("reflect", "constant", "nearest", "mirror", "wrap")
GRID, LINE = np.arange(12.0).reshape(4, 3), np.array([1.0, 2.0, 3.0, 5.0])
FILTERS = {
    "gaussian": lambda x, mode: nd.gaussian_filter(x, (1.3, 0.8), cval=0.5, mode=mode),
    "slopes": lambda x, mode: nd.gaussian_filter(x, 0.9, order=(1, 3), mode=mode),
    "radius": lambda x, mode: nd.gaussian_filter(x, 0.9, radius=2, axes=1, mode=mode),
    "gaussian1d": lambda x, mode: nd.gaussian_filter1d(x, 0.8, order=2, mode=mode, axis=0),
    "uniform": lambda x, mode: nd.uniform_filter(x, (4, 3), origin=(1, -1), mode=mode),
    "uniform1d": lambda x, mode: nd.uniform_filter1d(x, 2, mode=mode),
    "convolve": lambda x, mode: nd.convolve(x, GRID, cval=2.0, mode=mode),
    "correlate": lambda x, mode: nd.correlate(x, GRID.T, origin=(1, -2), mode=mode),
    "convolve1d": lambda x, mode: nd.convolve1d(x, LINE, origin=-1, axis=0, mode=mode),
    "correlate1d": lambda x, mode: nd.correlate1d(x, LINE, origin=1, mode=mode),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FILTERS)
def test_filters(name, mode):
    f = fdiff.jit(lambda x: FILTERS[name](x, mode))
    for shape in ((7, 5), (3, 2), (1, 4)):
        x = RNG.normal(size=shape)
        same(f(x), FILTERS[name](x, mode))
        same(f(x.astype(np.float32)), FILTERS[name](x.astype(np.float32), mode), rtol=1e-5)
    check(lambda x: FILTERS[name](x, mode) ** 2, RNG.normal(size=(4, 3)))


def test_weights_and_widths_of_filters_are_traced():
    x = RNG.normal(size=(4, 5))
    check(nd.convolve, x, RNG.normal(size=(3, 2)))
    check(nd.correlate1d, x, RNG.normal(size=3))
    check(nd.gaussian_filter, x, 0.9)


def test_a_frozen_distribution_is_not_taken_for_one_of_another_family():
    of = lambda frozen: lambda t: frozen.logpdf(t)
    for family in (st.norm, st.logistic, st.cauchy, st.norm):
        f = of(family(0.0, 1.0))
        for _ in range(3):
            np.testing.assert_allclose(fdiff.jit(f)(0.3), f(0.3), rtol=1e-13)
