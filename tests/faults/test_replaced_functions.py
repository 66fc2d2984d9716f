"""What stands in a module of NumPy, SciPy or Python is looked up as Python does, at each call.

Anybody may put something else there: ``unittest.mock.patch``, a shim for debugging, a package that
mends another. Derivatives are those of what is there, before, in and after.
"""

import fractions
import functools
import importlib
import math
import re
import subprocess
import sys
import types
from unittest import mock

import numpy as np
import pytest
import scipy.interpolate
import scipy.linalg
import scipy.special
import scipy.stats
from faults_support import LONG
from numpy import sin
from scipy.stats import norm as norm_of_stats

import fdiff
from fdiff.kernels.llvm.stub import dict_entries

pytestmark = pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
X = np.array([0.3, 0.7])
SCALE = [1.5]


def own(x):
    return x * x * SCALE[0]


class Owner:
    factor = 2.5

    def __call__(self, x):
        return self.factor * x * x

    def method(self, x):
        return x**3 * self.factor


@functools.lru_cache
def cached_number():
    return 2.5


def late(x):
    import numpy as np
    from numpy import tanh

    return np.sum(np.exp(x) * tanh(x))


def by_name(x):
    return np.sum(getattr(np, f"{'cos'}")(x) * importlib.import_module("numpy").sqrt(x))


def cube(x):
    return np.sum(x**3)


def square_of_last(_, b):
    return b * b


def solved(x):
    return np.linalg.solve(2 * np.eye(2), x).sum()


def solved_by_scipy(x):
    return scipy.linalg.solve(2 * np.eye(2), x).sum()


def exp(x):
    return np.sum(np.exp(x) * x)


def norm(x):
    return np.linalg.norm(x)


def error_function(x):
    return scipy.special.erf(x).sum()


def pi(x):
    return np.sum(np.pi * x * x)


def called_as_it_is(x):
    return np.sum(np.exp() if np.exp is cached_number else np.exp(x)) * x[0]


def drawn(x):
    return np.sum(x * np.random.default_rng(1).normal())


class Norms:
    norm = staticmethod(cube)


# What is replaced, a function that looks it up, and what takes its place.
CASES = {
    "ufunc": ("numpy.sin", lambda x: np.sum(np.sin(x)), own),
    "other ufunc": ("numpy.multiply", lambda x: np.multiply(x, x).sum(), np.add),
    "function": ("numpy.sum", lambda x: np.sum(x * x), lambda a: (a * a * a).sum()),
    "choice": ("numpy.where", lambda x: np.where(x > 0.5, x, 1).sum(), lambda c, a, b: a * a),
    "linear algebra": ("numpy.linalg.norm", norm, cube),
    "solver": ("numpy.linalg.solve", solved, square_of_last),
    "module": ("numpy.linalg", norm, types.SimpleNamespace(norm=cube)),
    "class in place of a module": ("numpy.linalg", norm, Norms),
    "module of SciPy": ("scipy.special", error_function, types.SimpleNamespace(erf=own)),
    "special function": ("scipy.special.erf", error_function, own),
    "another special function": ("scipy.special.erf", error_function, scipy.special.erfc),
    "solver of SciPy": ("scipy.linalg.solve", solved_by_scipy, square_of_last),
    "math": ("math.sin", lambda x: math.sin(x[0]) + x[1], lambda a: a * a),
    "constant": ("numpy.pi", pi, 3.0),
    "constant of math": ("math.pi", lambda x: np.sum(math.pi * x * x), 3),
    "array": ("numpy.pi", pi, np.array([2.0, 3.0])),
    "builtin": ("builtins.abs", lambda x: np.sum(abs(x - 0.5)), own),
    "mock that wraps": ("numpy.exp", exp, mock.Mock(wraps=np.log)),
    "mock with a value": ("numpy.exp", exp, mock.Mock(return_value=2.0)),
    "mock with an effect": ("numpy.exp", exp, mock.MagicMock(side_effect=own)),
    "partial": ("numpy.exp", exp, functools.partial(np.multiply, 3.0)),
    "method": ("numpy.exp", exp, Owner().method),
    "object": ("numpy.exp", exp, Owner()),
    "cached": ("numpy.exp", called_as_it_is, cached_number),
    "vectorised": ("numpy.exp", exp, np.vectorize(lambda v: v * v)),
    "imported when it runs": ("numpy.exp", late, own),
    "imported name": ("numpy.tanh", late, own),
    "looked up by a text": ("numpy.sqrt", by_name, own),
    "global, which stays": ("numpy.sin", lambda x: np.sum(sin(x)), own),
    "random numbers": ("numpy.random.default_rng", drawn, np.random.RandomState),
    # what rules and NumPy's tier of fdiff call themselves
    "derivative of a sine": ("numpy.cos", lambda x: np.sum(np.sin(x)), own),
    "derivative of tanh": ("numpy.exp", lambda x: np.sum(np.tanh(x)), own),
    "derivative of gammaln": (
        "scipy.special.psi", lambda x: scipy.special.gammaln(x).sum(), own,
    ),
    "derivative of an inverse": (
        "numpy.linalg.solve", lambda x: np.sum(np.linalg.inv(np.outer(x, x) + np.eye(2))), cube,
    ),
    "derivative of a maximum": ("numpy.where", lambda x: np.max(x), lambda c, a, b: a),
    "sum of a product": ("numpy.sum", lambda x: x @ x, own),
    "broadcasting": ("numpy.broadcast_to", lambda x: (x * 2.0).sum(), own),
    "power": ("numpy.log", lambda x: (x**x).sum(), own),
}  # fmt: skip
ENVIRONMENTS = {"NumPy": "interpret", "bytecode": "evaluate", "kernel": None}


def by_differences(f):
    """The gradient of what Python computes now."""
    steps = 1e-5 * np.eye(2)
    with np.errstate(all="ignore"):
        return np.array([(f(X + h) - f(X - h)) / 2e-5 for h in steps])


def calls(count, gradient, f):
    wanted = by_differences(f)
    for _ in range(count):
        np.testing.assert_allclose(gradient(X), wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("tier", ENVIRONMENTS)
@pytest.mark.parametrize("first", ["before", "inside"])
@pytest.mark.parametrize("case", CASES)
def test_what_stands_in_a_module_is_what_is_differentiated(case, first, tier, monkeypatch):
    target, f, new = CASES[case]
    monkeypatch.setenv("FDIFF_BACKGROUND", "0")  # the fast path comes when it is due
    if ENVIRONMENTS[tier]:
        monkeypatch.setenv("FDIFF_TIER", ENVIRONMENTS[tier])
    else:
        monkeypatch.delenv("FDIFF_TIER", raising=False)
    f = types.FunctionType(f.__code__, f.__globals__, f.__name__)
    gradient = fdiff.grad(f) if ENVIRONMENTS[tier] else fdiff.jit(fdiff.grad(f))
    count = 9 if LONG or not ENVIRONMENTS[tier] else 2
    if first == "before":
        calls(count, gradient, f)
    for _ in range(1 + LONG):
        with mock.patch(target, new):
            calls(count, gradient, f)
        calls(count, gradient, f)


FIRST_USE = """
import contextlib, sys
from unittest import mock
import numpy as np
import scipy.interpolate, scipy.linalg, scipy.optimize, scipy.special, scipy.stats
import fdiff

x = np.array([0.3, 0.7])
positive = lambda x: np.outer(x, x) + np.eye(2)
uses = {
    "scipy.special.erf": lambda x: scipy.special.erf(x),
    "scipy.special.psi": lambda x: scipy.special.gammaln(x),
    "scipy.special.gammaln": lambda x: scipy.special.gammaln(x),
    "scipy.linalg.solve": lambda x: scipy.linalg.solve(positive(x), x),
    "scipy.linalg.cholesky": lambda x: scipy.linalg.cholesky(positive(x)),
    "scipy.linalg.expm": lambda x: scipy.linalg.expm(positive(x)),
    "scipy.stats.norm": lambda x: scipy.stats.norm.pdf(x),
    "scipy.optimize.brentq": lambda x: scipy.optimize.brentq(lambda t: t**3 + t - x[0], 0.0, 2.0),
    "scipy.interpolate.CubicSpline": lambda x: scipy.interpolate.CubicSpline(
        [0.0, 0.5, 1.0, 2.0], [1.0, 2.0, 0.0, 1.0])(x),
    "numpy.linalg.cholesky": lambda x: np.linalg.cholesky(positive(x)),
    "numpy.cos": lambda x: np.sin(x),
    "math.exp": lambda x: np.exp(x),
}
names = [n for n in uses if n == sys.argv[1] or not sys.argv[1]]
def checked(f):
    g = fdiff.grad(lambda x: np.sum(f(x)))(x)
    steps = 1e-5 * np.eye(2)
    np.testing.assert_allclose(
        g, [(np.sum(f(x + h)) - np.sum(f(x - h))) / 2e-5 for h in steps], rtol=1e-6, atol=1e-9)
with contextlib.ExitStack() as stack:
    for name in names:
        stack.enter_context(mock.patch(name, lambda *given: given[-1] * given[-1]))
    checked(lambda x: scipy.special.gammainc(2.0, x) * np.log(x))
for name in names:
    checked(uses[name])
"""


REPLACED_BEFORE = """
import numpy as np, scipy.special
x = np.array([0.3, 0.7])
slope, np.cos, np.exp = np.cos(x), np.sin, lambda x: x
scipy.special.psi = scipy.special.erf
import fdiff
assert np.allclose(fdiff.grad(lambda x: np.sum(np.sin(x)))(x), slope)
assert np.allclose(fdiff.grad(lambda x: np.sum(np.exp(x)))(x), 1.0)
g = fdiff.grad(lambda x: np.sum(scipy.special.gammaln(x)))(x)
assert np.allclose(g, [-3.5025242, -1.22002355])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", re.findall('^    "(.*?)": ', FIRST_USE, re.MULTILINE) if LONG else [""]
)
def test_a_first_use_while_functions_are_replaced_spoils_nothing_later(name):
    subprocess.run([sys.executable, "-c", FIRST_USE, name], check=True, timeout=120)


def test_fdiff_itself_calls_what_the_libraries_define():
    """Even where a function was replaced before fdiff was imported."""
    subprocess.run([sys.executable, "-c", REPLACED_BEFORE], check=True, timeout=120)


def test_what_takes_the_place_is_watched_like_the_code_of_the_user(monkeypatch):
    gradient = fdiff.jit(fdiff.grad(lambda x: np.sum(np.sin(x))))
    with mock.patch("numpy.sin", own):
        for scale in (1.5, 2.0, -1.0):
            monkeypatch.setitem(globals(), "SCALE", [scale])
            calls(3, gradient, lambda x: np.sum(np.sin(x)))


def test_setattr_of_pytest_in_a_nested_module(monkeypatch):
    def f(x):
        return np.sum(np.polynomial.chebyshev.chebval(x, [1.0, 2.0, 3.0]))

    gradient = fdiff.jit(fdiff.value_and_grad(f))
    for new in (None, lambda x, c: c[2] * x**3, None):
        with monkeypatch.context() as patch:
            if new is not None:
                patch.setattr(np.polynomial.chebyshev, "chebval", new)
            for _ in range(9):
                value, slope = gradient(X)
                np.testing.assert_allclose(value, f(X), rtol=1e-12)
                np.testing.assert_allclose(slope, by_differences(f), rtol=1e-6)


SPLINE = scipy.interpolate.CubicSpline([0.0, 0.5, 1.0, 2.0], [1.0, 2.0, 0.0, 1.0])
POLYNOMIAL = np.polynomial.Polynomial([1.0, 2.0, 3.0])


class Holder:
    spline = SPLINE


def third(x):
    return np.sum(x) * float(fractions.Fraction(1, 3).limit_denominator(5))


def made_polynomial(x):
    return np.sum(np.polynomial.Polynomial([1.0, 2.0, 3.0])(x) * x)


# A class or an object of a library, the method that is replaced, what calls it, what replaces it.
METHODS = {
    "spline": (type(SPLINE), "__call__", lambda x: np.sum(SPLINE(x)), lambda self, z: z * z),
    "held": (type(SPLINE), "__call__", lambda x: Holder.spline(x).sum(), lambda self, z: z * z),
    "base": (scipy.interpolate.PPoly, "__call__", lambda x: SPLINE(x)[0], lambda s, z, *_: z * z),
    "polynomial": (type(POLYNOMIAL), "__call__", lambda x: np.sum(POLYNOMIAL(x)), lambda s, z: z),
    "made": (type(POLYNOMIAL), "__call__", made_polynomial, lambda self, z: z**3),
    "mock": (type(POLYNOMIAL), "__call__", made_polynomial, mock.Mock(return_value=3.0)),
    "named": (
        type(POLYNOMIAL), "deriv", lambda x: np.sum(POLYNOMIAL.deriv()(x)), lambda self: own,
    ),
    "object": (scipy.stats.norm, "pdf", lambda x: scipy.stats.norm.pdf(x).sum(), own),
    "global": (norm_of_stats, "cdf", lambda x: norm_of_stats.cdf(x).sum(), own),
    "class": (
        type(norm_of_stats), "pdf", lambda x: norm_of_stats.pdf(x).sum(), lambda self, z: z**3,
    ),
    "of Python": (fractions.Fraction, "limit_denominator", third, lambda self, n: 7),
    "old polynomial": (
        np.poly1d, "__call__", lambda x: np.poly1d([1.0, 2.0])(x).sum(), lambda self, z: z**3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", [fdiff.grad, lambda f: fdiff.jit(fdiff.grad(f))])
@pytest.mark.parametrize("first", ["before", "inside"])
@pytest.mark.parametrize("case", METHODS)
def test_methods_that_are_replaced_are_those_that_are_called(case, first, operator, monkeypatch):
    owner, name, f, new = METHODS[case]
    monkeypatch.setenv("FDIFF_BACKGROUND", "0")
    f = types.FunctionType(f.__code__, f.__globals__, f.__name__)
    gradient = operator(f)
    if first == "before":
        calls(5, gradient, f)
    for _ in range(2):
        with mock.patch.object(owner, name, new):
            calls(3, gradient, f)
        calls(5, gradient, f)


@pytest.mark.parametrize("first", ["before", "inside"])
def test_modules_that_are_replaced_are_imported_as_they_are(first, monkeypatch):
    """``import`` in a function finds what `sys.modules` has now."""

    def f(x):
        import colorsys

        return colorsys.rgb_to_yiq(x[0], x[1], 0.5)[0]

    fake = types.ModuleType("colorsys")
    fake.rgb_to_yiq = lambda r, g, b: (r * r * g, b)
    gradient = fdiff.jit(fdiff.grad(f))
    if first == "before":
        calls(9, gradient, f)
    for module in (fake, types.SimpleNamespace(rgb_to_yiq=lambda r, g, b: (r**3 - g, b))):
        with mock.patch.dict("sys.modules", colorsys=module):
            calls(9, gradient, f)
        calls(9, gradient, f)


def test_names_come_and_go(monkeypatch):
    """A name that a module lacks is given to it, and taken away again."""

    def f(x):
        return np.sum(np.bump(x)) if hasattr(np, "bump") else np.sum(x)

    gradient = fdiff.jit(fdiff.grad(f))
    for _ in range(3):
        calls(9, gradient, f)
        with mock.patch("numpy.bump", own, create=True):
            calls(9, gradient, f)


def test_the_way_to_the_kernel_compares_names_where_they_lie():
    """A dict that grows, is emptied or changes is told from the one that was read."""
    assert dict_entries.readable()
    names = {f"name{k}": object() for k in range(50)}
    for name, value in names.items():
        entry = dict_entries.entry_of(names, id(name), id(value))
        assert dict_entries._compared_words(names, entry) == (entry.keys, id(name), id(value))
        assert dict_entries.entry_of(names, id(name), id(names)) is None
    assert dict_entries.entry_of({1: 2}, id(1), id(2)) is None
    assert dict_entries.entry_of(vars(Owner()), id("x"), id(1)) is None
    instance = Owner()
    instance.x = names
    assert dict_entries.entry_of(vars(instance), id("x"), id(names)) is None  # values lie apart
