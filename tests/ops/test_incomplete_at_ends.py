"""Incomplete gamma and beta functions and their inverses at ends of the domains of their arguments.

All partial derivatives to the third order, the mixed ones too, against mpmath's differences of the
functions, one-sided where the domain ends there.
"""

import itertools

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc
import scipy.stats as st

import fdiff

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
ORDER = 3


# --- the functions of mpmath, analytic in a at 0 too ------------------------------------------


def lower_gamma(a, x):
    return 1 - mp.gammainc(a, x) * mp.rgamma(a) if x else mp.mpf(0)


def lower_beta(a, b, x):
    """By the complement, whose integral has no pole at a = 0."""
    return 1 - mp.betainc(b, a, 0, 1 - x) * mp.gamma(a + b) * mp.rgamma(a) * mp.rgamma(b)


def small_beta(a, b, x):
    return mp.betainc(a, b, 0, x) / mp.beta(a, b)


def small_gamma(a, x):
    return mp.gammainc(a, 0, x) / mp.gamma(a)


def fisher(dfn, dfd, x):
    return small_beta(dfn / 2, dfd / 2, dfn * x / (dfn * x + dfd))


def inverse(distribution, scale):
    """Newton's method for log(x), from the first term of the series."""

    def quantile(a, *rest):
        *parameters, y = rest
        if y == 0:
            return mp.mpf(0)
        gap = lambda t: mp.log(distribution(a, *parameters, mp.exp(t))) - mp.log(y)
        start = mp.log(y * scale(a, *parameters)) / a
        return mp.exp(mp.findroot(gap, (start, start + mp.mpf("1e-6")), tol=mp.mpf(10) ** -90))

    return quantile


gamma_quantile = inverse(small_gamma, lambda a: mp.gamma(a + 1))
beta_quantile = inverse(small_beta, lambda a, b: a * mp.beta(a, b))


# --- rows: ours, mpmath's, the point, which arguments move -------------------------------------

ROWS = {
    "gammainc(0, x)": (sc.gammainc, lower_gamma, (0.0, 0.7), (0, 1)),
    "gammainc(0, x) beyond 1": (sc.gammainc, lower_gamma, (0.0, 3.0), (0, 1)),
    "gammainc(1e-4, x)": (sc.gammainc, lower_gamma, (1e-4, 0.7), (0, 1)),
    "gammaincc(0, x)": (sc.gammaincc, lambda a, x: 1 - lower_gamma(a, x), (0.0, 2.0), (0, 1)),
    "chdtr(0, x)": (sc.chdtr, lambda v, x: lower_gamma(v / 2, x / 2), (0.0, 1.5), (0, 1)),
    "chdtrc(0, x)": (sc.chdtrc, lambda v, x: 1 - lower_gamma(v / 2, x / 2), (0.0, 1.5), (0, 1)),
    "gdtr(a, 0, x)": (sc.gdtr, lambda a, b, x: lower_gamma(b, a * x), (2.0, 0.0, 0.6), (0, 1, 2)),
    "gdtr(a, 1, 0)": (sc.gdtr, lambda a, b, x: small_gamma(b, a * x), (2.0, 1.0, 0.0), (0, 2)),
    "gdtr(0, 2, x)": (sc.gdtr, lambda a, b, x: small_gamma(b, a * x), (0.0, 2.0, 1.5), (0, 2)),
    "gdtrc(a, 2, 0)": (
        sc.gdtrc,
        lambda a, b, x: 1 - small_gamma(b, a * x),
        (1.5, 2.0, 0.0),
        (0, 2),
    ),
    "gdtr(a, b, 0) in its parameters": (
        sc.gdtr,
        lambda a, b, x: mp.mpf(0),
        (1.5, 0.3, 0.0),
        (0, 1),
    ),
    "betainc(0, b, x)": (sc.betainc, lower_beta, (0.0, 1.7, 0.3), (0, 1, 2)),
    "betainc(a, 0, x)": (
        sc.betainc,
        lambda a, b, x: 1 - lower_beta(b, a, 1 - x),
        (1.2, 0.0, 0.6),
        (0, 1, 2),
    ),
    "betaincc(1e-4, b, x)": (
        sc.betaincc,
        lambda a, b, x: 1 - lower_beta(a, b, x),
        (1e-4, 0.4, 0.3),
        (0, 1, 2),
    ),
    "fdtr(2, n, 0)": (sc.fdtr, fisher, (2.0, 3.0, 0.0), (1, 2)),
    "fdtrc(4, n, 0)": (sc.fdtrc, lambda m, n, x: 1 - fisher(m, n, x), (4.0, 3.0, 0.0), (1, 2)),
    "fdtr(m, n, 0) in its parameters": (
        sc.fdtr,
        lambda m, n, x: mp.mpf(0),
        (0.7, 0.5, 0.0),
        (0, 1),
    ),
    "gammaincinv(1, 0)": (sc.gammaincinv, gamma_quantile, (1.0, 0.0), (1,)),
    "gammaincinv(1/2, 0)": (sc.gammaincinv, gamma_quantile, (0.5, 0.0), (1,)),
    "gammaincinv(1/3, 0)": (sc.gammaincinv, gamma_quantile, (1 / 3, 0.0), (1,)),
    "gammaincinv(0.2, 0)": (sc.gammaincinv, gamma_quantile, (0.2, 0.0), (0, 1)),
    "gammaincinv(0.01, 1e-4), where x is 0": (
        sc.gammaincinv,
        lambda a, y: mp.mpf(0),
        (0.01, 1e-4),
        (0, 1),
    ),
    "gammaincinv(a, 0) in a": (sc.gammaincinv, gamma_quantile, (2.5, 0.0), (0,)),
    "gammainccinv(1/2, 1)": (
        sc.gammainccinv,
        lambda a, y: gamma_quantile(a, 1 - y),
        (0.5, 1.0),
        (1,),
    ),
    "chdtri(1, 1)": (sc.chdtri, lambda v, p: 2 * gamma_quantile(v / 2, 1 - p), (1.0, 1.0), (1,)),
    "chdtri(v, 1) in v": (sc.chdtri, lambda v, p: mp.mpf(0), (3.0, 1.0), (0,)),
    "the quantile of chi(1) at 0": (
        st.chi.ppf,
        lambda q, df: mp.sqrt(2) * mp.erfinv(q),
        (0.0, 1.0),
        (0,),
    ),
    "the quantile of nakagami(1/4) at 1": (
        st.nakagami.isf,
        lambda q, nu: mp.sqrt(gamma_quantile(nu, 1 - q) / nu),
        (1.0, 0.25),
        (0,),
    ),
    "betaincinv(1, b, 0)": (sc.betaincinv, beta_quantile, (1.0, 2.5, 0.0), (1, 2)),
    "betaincinv(1/2, b, 0)": (sc.betaincinv, beta_quantile, (0.5, 1.7, 0.0), (1, 2)),
    "betaincinv(a, 1/2, 1)": (
        sc.betaincinv,
        lambda a, b, y: 1 - beta_quantile(b, a, 1 - y),
        (1.7, 0.5, 1.0),
        (0, 2),
    ),
    "betaincinv(a, 1/2, y), rounded to 1": (
        sc.betaincinv,
        lambda a, b, y: 1 - beta_quantile(b, a, 1 - y),
        (1.7, 0.5, 1.0 - 2.0**-30),
        (2,),
    ),
    "betaincinv(a, b, 1) in its parameters": (
        sc.betaincinv,
        lambda a, b, y: mp.mpf(1),
        (2.0, 2.5, 1.0),
        (0, 1),
    ),
    "betainccinv(1, b, 1)": (
        sc.betainccinv,
        lambda a, b, y: beta_quantile(a, b, 1 - y),
        (1.0, 2.5, 1.0),
        (1, 2),
    ),
    "betainccinv(a, 1, 0)": (
        sc.betainccinv,
        lambda a, b, y: 1 - beta_quantile(b, a, y),
        (0.8, 1.0, 0.0),
        (0, 2),
    ),
}
BACKWARDS = (
    "the quantile of nakagami(1/4) at 1",
    "gammainccinv(1/2, 1)",
    "chdtri(1, 1)",
    "betaincinv(a, 1/2, 1)",
    "betainccinv(1, b, 1)",
)


def orders_of(moving, count):
    """Multi-indices of total order 1 to 3 in the arguments that move."""
    for total in range(1, ORDER + 1):
        for where in itertools.combinations_with_replacement(moving, total):
            yield tuple(where.count(k) for k in range(count))


def ours(f, point, orders, modes):
    """The partial derivative of `orders`, one argument after the other, by the modes in turn."""
    turn = itertools.cycle(modes)
    for k in [k for k, order in enumerate(orders) for _ in range(order)]:
        f = derivative(f, k, next(turn))
    return float(f(*point))


def derivative(f, k, mode):
    def slope(*x):
        alone = lambda t: f(*x[:k], t, *x[k + 1 :])
        return (
            fdiff.grad(alone)(x[k]) if mode == "back" else fdiff.jvp(alone, x[k], x[k] * 0 + 1)[1]
        )

    return slope


@pytest.mark.parametrize("name", ROWS)
def test_partial_derivatives_are_those_of_mpmath(name):
    f, reference, point, moving = ROWS[name]
    side = -1 if name in BACKWARDS else 1
    with mp.workdps(40):
        for orders in orders_of(moving, len(point)):
            want = float(mp.diff(reference, tuple(map(mp.mpf, point)), orders, direction=side))
            for modes in (("ahead", "back"), ("back", "ahead")):
                got = ours(f, point, orders, modes)
                np.testing.assert_allclose(
                    got, want, rtol=1e-9, atol=1e-11, err_msg=f"{orders} {modes}"
                )


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["ahead", "back"])
def test_single_precision_stays_single(mode):
    """To the third order, against ours in double precision."""
    for name, (f, _, point, moving) in ROWS.items():
        single = tuple(np.float32(x) for x in point)
        if f in (st.chi.ppf, st.nakagami.isf):
            continue  # of doubles alone
        for k in moving:
            slope = f
            for _ in range(ORDER):
                slope = derivative(slope, k, mode)
            got, want = slope(*single), slope(*point)
            assert np.asarray(got).dtype == np.float32, (name, k)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6, err_msg=f"{name} {k}")
