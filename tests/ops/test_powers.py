"""Powers of a variable base and exponent are right at every order, against mpmath.

Every partial derivative up to the third order, at exponents 0, 1, 2, 3 and at base 0, in every
mode and tier, by every name a power has.
"""

import itertools

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special as sc

import fdiff
from fdiff import autograd

BASES, EXPONENTS = (0.5, 1.0, 2.0, 3.25), (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, 2.5)
ORDERS = [(n, m) for n, m in itertools.product(range(4), repeat=2) if 0 < n + m < 4]
TIERS = ("interpret", "evaluate", "compile")
BY_DTYPE = [(tier, np.float64) for tier in TIERS] + [(tier, np.float32) for tier in TIERS[::2]]


def exact(x, y, n, m):
    """The derivative of order `n` in x and `m` in y of ``x**y``; at x = 0 its limit from above."""
    with mpmath.workdps(60):
        base = mpf(float(x)) if x else mpf("1e-4000")

        def slope(y):
            return mp.ff(y, n) * base ** (y - n)

        value = mp.diff(slope, mpf(float(y)), m)
    if x:
        return float(value)
    return np.sign(float(mp.sign(value))) * np.inf if abs(value) > 1e3 else float(mp.nint(value))


def partial(f, n, m, x, y):
    """The derivative of order `n` in the first and `m` in the second argument, in reverse mode."""
    for k in (0,) * n + (1,) * m:
        f = fdiff.grad(f, argnums=k)
    return float(f(x, y))


def forward(f, n, m, x, y):
    """The same in forward mode, in one argument at a time."""
    for k in (0,) * n + (1,) * m:
        f = _pushed(f, k)
    return float(f(x, y))


def _pushed(f, k):
    def along(x, y):
        g = (lambda t: f(t, y)) if k == 0 else lambda t: f(x, t)
        return fdiff.jvp(g, (x, y)[k], 1.0)[1]

    return along


WAYS = {
    "**": lambda x, y: x**y,
    "power": np.power,
    "float_power": np.float_power,
    "powm1": lambda x, y: sc.powm1(x, y) + 1.0,
    "boxcox": lambda x, y: sc.boxcox(x, y) * y + 1.0,
    "inv_boxcox": lambda x, y: sc.inv_boxcox((x - 1.0) * y, 1.0 / y) if y != 0 else x**y,
    "exp(xlogy)": lambda x, y: np.exp(sc.xlogy(y, x)),
    "exp(xlog1py)": lambda x, y: np.exp(sc.xlog1py(y, x - 1.0)),
}


@pytest.mark.parametrize(("n", "m"), ORDERS)
@pytest.mark.parametrize("way", WAYS)
def test_all_partial_derivatives_to_the_third_order(way, n, m, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    f = WAYS[way]
    for x, y in itertools.product(BASES, EXPONENTS):
        want = exact(x, y, n, m)
        for mode in (partial, forward):
            np.testing.assert_allclose(
                mode(f, n, m, x, y), want, rtol=1e-11, atol=1e-11, err_msg=f"{mode.__name__} {x, y}"
            )


@pytest.mark.parametrize(("n", "m"), ORDERS)
def test_base_zero(n, m, monkeypatch):
    """The one-sided limit, also where it is infinite; the derivatives in a constant stay finite."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    for y, mode in itertools.product((0.5, 1.0, 2.0, 2.5, 3.0, 4.0), (partial, forward)):
        want, got = exact(0.0, y, n, m), mode(np.power, n, m, 0.0, y)
        unknown = not np.isfinite(want) and n + m == 3  # of two infinite terms
        assert got == want or (unknown and not np.isfinite(got)), (mode.__name__, y, want, got)


@pytest.mark.parametrize(
    ("tier", "dtype"),
    [*((t, np.float64) for t in TIERS), ("interpret", np.float32), ("compile", np.float32)],
)
def test_the_same_in_every_tier(tier, dtype, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    x, y = (np.array(v, dtype).ravel() for v in np.meshgrid(BASES, EXPONENTS))
    grad = fdiff.grad(lambda x, y: np.sum(x**y), argnums=(0, 1))
    twice = fdiff.grad(lambda x, y: np.sum(grad(x, y)[0] + grad(x, y)[1]), argnums=(0, 1))
    want = {(n, m): np.array([exact(*p, n, m) for p in zip(x, y, strict=True)]) for n, m in ORDERS}
    first, second = grad(x, y), twice(x, y)
    tolerance = {"rtol": 40 * np.finfo(dtype).eps, "atol": 40 * np.finfo(dtype).eps}
    for k, (n, m) in enumerate([(1, 0), (0, 1)]):
        np.testing.assert_allclose(first[k], want[n, m], **tolerance)
        both = want[n + 1, m] + want[n, m + 1]
        np.testing.assert_allclose(second[k], both, **tolerance)
        assert first[k].dtype == second[k].dtype == dtype


@pytest.mark.parametrize("tier", TIERS)
def test_base_zero_in_every_tier(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    y = np.array([0.5, 1.0, 2.0, 3.0])
    x = np.zeros(4)
    grad = fdiff.grad(lambda x, y: np.sum(x**y), argnums=(0, 1))
    mixed = fdiff.grad(lambda x, y: np.sum(grad(x, y)[0]), argnums=(0, 1))
    for got, want in zip(grad(x, y), ([np.inf, 1, 0, 0], [0, 0, 0, 0]), strict=True):
        np.testing.assert_array_equal(got, want)
    wanted = ([-np.inf, 0, 2, 0], [-np.inf, -np.inf, 0, 0])
    for got, want in zip(mixed(x, y), wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_constants_arrays_and_broadcasting():
    """A weak base, an array of constant exponents, and operands that are broadcast."""
    y, third = 1.5, float(np.log(2.0) ** 3 * 2.0**1.5)
    g = fdiff.grad(fdiff.grad(fdiff.grad(lambda y: 2**y)))
    np.testing.assert_allclose(g(y), third, rtol=1e-13)
    x, e = np.array([0.5, 2.0]), np.array([[0.0], [1.0], [3.0]])
    H = fdiff.hessian(lambda e: np.sum(x**e))(e).reshape(3, 3)
    want = [sum(exact(b, p, 0, 2) for b in x) for p in e.ravel()]
    np.testing.assert_allclose(H, np.diag(want), rtol=1e-12, atol=1e-14)
    J = fdiff.jacobian(fdiff.grad(lambda x, e: np.sum(x**e)), argnums=1)(x, e).reshape(2, 3)
    want = [[exact(b, p, 1, 1) for p in e.ravel()] for b in x]
    np.testing.assert_allclose(J, want, rtol=1e-12)
    constant = fdiff.hessian(lambda x: np.sum(x ** np.array([0.0, 1.0, 2.0, 3.0])))(np.zeros(4))
    np.testing.assert_array_equal(constant, np.diag([0.0, 0.0, 2.0, 0.0]))


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, 1.5])
def test_complex_powers(exponent):
    """Derivatives along a line in base and exponent, the exponent a complex variable."""
    z, u, v = 0.7 + 0.4j, 0.3 - 0.2j, 0.5 + 0.6j

    def f(t):
        return (z + t * u) ** (exponent + t * v)

    def along(part):
        g = lambda t: part(f(t))
        for _ in range(3):
            g = fdiff.grad(g)
        return float(g(0.0))

    with mpmath.workdps(50):
        base, step, power, more = (mp.mpmathify(c) for c in (z, u, exponent, v))
        want = mp.diff(lambda t: (base + t * step) ** (power + t * more), 0, 3)
    np.testing.assert_allclose(
        [along(np.real), along(np.imag)], [float(want.real), float(want.imag)], rtol=1e-9
    )


def test_powers_of_recorded_arrays():
    """Recorded arrays share the rules: the mixed derivative at exponent 0."""
    x = autograd.tensor([2.0, 3.0], requires_grad=True)
    y = autograd.tensor([0.0, 1.0], requires_grad=True)
    (by_x,) = autograd.grad(np.sum(x**y), (x,), create_graph=True)
    (mixed,) = autograd.grad(np.sum(by_x), (y,))
    np.testing.assert_allclose(
        np.asarray(mixed), [exact(2.0, 0.0, 1, 1), exact(3.0, 1.0, 1, 1)], rtol=1e-14
    )


def test_power_of_a_function_of_one_number():
    third = fdiff.grad(fdiff.grad(fdiff.grad(lambda x: (1 + x) ** x)))
    with mpmath.workdps(40):
        want = float(mp.diff(lambda x: (1 + x) ** x, 1, 3))
    np.testing.assert_allclose(third(1.0), want, rtol=1e-13)
