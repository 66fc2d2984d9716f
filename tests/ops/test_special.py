"""scipy.special: values are SciPy's, derivatives are held against mpmath and JAX.

mpmath knows the functions to any number of digits: its differences over tiny steps are exact to
far more digits than ours, and share nothing with our rules.
"""

import subprocess
import sys

import jax
import jax.numpy as jnp
import jax.scipy.special as jsc
import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc
from tapes import tape_of, values

import fdiff
import fdiff.ops.scipy_ops.special_tables.special
from fdiff.arraytype import type_of
from fdiff.errors import UnsupportedError
from fdiff.primitive import PRIMITIVES, UFUNCS

jax.config.update("jax_enable_x64", True)


def first(f, x):
    """First derivative in both modes."""
    back = float(fdiff.grad(f)(x))
    ahead = float(fdiff.jvp(f, x, 1.0)[1])
    np.testing.assert_allclose(ahead, back, rtol=1e-13, atol=1e-300)
    return back


def second(f, x):
    return float(fdiff.grad(fdiff.grad(f))(x))


# --- against mpmath ----------------------------------------------------------------------------


def scaled_airy(sign):
    return lambda x: mp.exp(sign * 2 * x**1.5 / 3)


def half_t(df, t):
    """Distribution of Student for t > 0."""
    return 1 - mp.betainc(df / 2, 0.5, 0, df / (df + mp.mpf(t) ** 2), regularized=True) / 2


def lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def spherical(bessel, n):
    return lambda x: mp.sqrt(mp.pi / 2 / x) * bessel(n + mp.mpf(1) / 2, x)


MODULUS = [-50, -0.5, 0.0, 1e-6, 0.5, 0.99, 1 - 1e-9]
TABLE = {
    "erf": (sc.erf, mp.erf, [-3, 0, 0.5, 6]),
    "erfc": (sc.erfc, mp.erfc, [-3, 0, 5]),
    "erfcx": (sc.erfcx, lambda x: mp.exp(x * x) * mp.erfc(x), [-3, 0, 3, 20, 24.9, 25.1, 100, 1e6]),
    "erfi": (sc.erfi, mp.erfi, [-2, 0, 3]),
    "dawsn": (
        sc.dawsn,
        lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
        [-30, 0, 0.5, 24, 26, 40],
    ),
    "erfinv": (sc.erfinv, mp.erfinv, [-0.9, 0, 0.5, 0.999]),
    "ndtr": (sc.ndtr, mp.ncdf, [-6, 0, 3]),
    "log_ndtr": (sc.log_ndtr, lambda x: mp.log(mp.ncdf(x)), [-100, -30, -1, 0, 3, 9]),
    "ndtri": (sc.ndtri, lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [0.01, 0.5, 0.9]),
    "gamma": (sc.gamma, mp.gamma, [-2.5, 0.5, 3, 20]),
    "rgamma": (sc.rgamma, mp.rgamma, [-3, -2, -1.5, 0, 0.3, 1, 4, 20]),
    "gammaln": (sc.gammaln, lambda x: mp.log(abs(mp.gamma(x))), [-2.5, 0.5, 3, 1e5]),
    "psi": (sc.psi, lambda x: mp.psi(0, x), [-2.5, 0.3, 5, 1e4]),
    "polygamma2": (lambda x: sc.polygamma(2, x), lambda x: mp.psi(2, x), [0.4, 3, 50]),
    "zeta": (lambda q: sc.zeta(3.5, q), lambda q: mp.zeta(3.5, q), [0.4, 3, 50]),
    "expit": (sc.expit, lambda x: 1 / (1 + mp.exp(-x)), [-40, 0, 40, 700]),
    "logit": (sc.logit, lambda p: mp.log(p / (1 - p)), [0.01, 0.5, 0.99]),
    "log_expit": (sc.log_expit, lambda x: -mp.log1p(mp.exp(-x)), [-40, 0, 40]),
    "exprel": (
        sc.exprel,
        lambda x: (mp.exp(x) - 1) / x if x else mp.mpf(1),
        [-100, -5, -1e-3, 0.0, 1e-8, 2, 30, 300],
    ),
    "boxcox_l": (
        lambda c: sc.boxcox(2.5, c),
        lambda c: (mp.mpf(2.5) ** c - 1) / c if c else mp.log(2.5),
        [-2, -1e-9, 0.0, 1e-6, 1, 3],
    ),
    "boxcox1p_l": (
        lambda c: sc.boxcox1p(1e-3, c),
        lambda c: (mp.mpf(1 + mp.mpf(1e-3)) ** c - 1) / c if c else mp.log(1 + mp.mpf(1e-3)),
        [-2, 0.0, 1e-6, 1, 3],
    ),
    "inv_boxcox_l": (
        lambda c: sc.inv_boxcox(1.5, c),
        lambda c: (1 + c * mp.mpf(1.5)) ** (1 / c) if c else mp.exp(1.5),
        [-0.6, -1e-9, 0.0, 1e-6, 0.2, 0.5, 3],
    ),
    "spence": (sc.spence, lambda z: mp.polylog(2, 1 - z), [0.01, 0.5, 0.99, 1.0, 1.01, 1.5, 5]),
    "expi": (sc.expi, mp.ei, [-3, 0.5, 5]),
    "exp1": (sc.exp1, mp.e1, [0.1, 5]),
    "expn0": (lambda x: sc.expn(0, x), lambda x: mp.expint(0, x), [0.1, 5]),
    "expn1": (lambda x: sc.expn(1, x), lambda x: mp.expint(1, x), [0.1, 5]),
    "expn4": (lambda x: sc.expn(4, x), lambda x: mp.expint(4, x), [0.1, 5]),
    "si": (lambda x: sc.sici(x)[0], mp.si, [-3, 0, 0.5, 20]),
    "ci": (lambda x: sc.sici(x)[1], mp.ci, [0.5, 20]),
    "shi": (lambda x: sc.shichi(x)[0], mp.shi, [-2, 0, 0.5, 10]),
    "chi": (lambda x: sc.shichi(x)[1], mp.chi, [0.5, 10]),
    "fresnel_s": (lambda x: sc.fresnel(x)[0], mp.fresnels, [-1, 0, 2, 5]),
    "j0": (sc.j0, lambda x: mp.besselj(0, x), [-2, 0, 3, 50]),
    "j1": (sc.j1, lambda x: mp.besselj(1, x), [-2, 0, 3, 50]),
    "y0": (sc.y0, lambda x: mp.bessely(0, x), [0.2, 3, 50]),
    "y1": (sc.y1, lambda x: mp.bessely(1, x), [0.2, 3, 50]),
    "i0": (sc.i0, lambda x: mp.besseli(0, x), [-2, 0, 3, 50]),
    "i1": (sc.i1, lambda x: mp.besseli(1, x), [-2, 0, 3, 50]),
    "k0": (sc.k0, lambda x: mp.besselk(0, x), [0.2, 3, 50]),
    "k1": (sc.k1, lambda x: mp.besselk(1, x), [0.2, 3, 50]),
    "i0e": (sc.i0e, lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), [-2, 0.5, 3, 50, 1e3]),
    "i1e": (sc.i1e, lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), [-2, 0.5, 3, 50]),
    "k0e": (sc.k0e, lambda x: mp.exp(x) * mp.besselk(0, x), [0.5, 3, 50]),
    "k1e": (sc.k1e, lambda x: mp.exp(x) * mp.besselk(1, x), [0.5, 3, 50]),
    "jv2.5": (lambda x: sc.jv(2.5, x), lambda x: mp.besselj(2.5, x), [0.3, 2, 30]),
    "jv0": (lambda x: sc.jv(0, x), lambda x: mp.besselj(0, x), [-1, 0, 2, 30]),
    "yv": (lambda x: sc.yv(0.5, x), lambda x: mp.bessely(0.5, x), [0.3, 2, 30]),
    "iv": (lambda x: sc.iv(0.5, x), lambda x: mp.besseli(0.5, x), [0.3, 2, 30]),
    "kv": (lambda x: sc.kv(0.5, x), lambda x: mp.besselk(0.5, x), [0.3, 2, 30]),
    "ive": (lambda x: sc.ive(1.5, x), lambda x: mp.exp(-x) * mp.besseli(1.5, x), [0.3, 2, 30]),
    "kve": (lambda x: sc.kve(1.5, x), lambda x: mp.exp(x) * mp.besselk(1.5, x), [0.3, 2, 30]),
    "kn": (lambda x: sc.kn(0, x), lambda x: mp.besselk(0, x), [0.3, 2, 30]),
    "yn": (lambda x: sc.yn(0, x), lambda x: mp.bessely(0, x), [0.3, 2, 30]),
    "sph_jn": (
        lambda x: sc.spherical_jn(2, x),
        lambda x: mp.sqrt(mp.pi / 2 / x) * mp.besselj(2.5, x),
        [0.3, 2, 30],
    ),
    "sph_jnd": (
        lambda x: sc.spherical_jn(2, x, derivative=True),
        lambda x: mp.diff(lambda x: mp.sqrt(mp.pi / 2 / x) * mp.besselj(2.5, x), x),
        [0.3, 2, 30],
    ),
    "sph_kn": (
        lambda x: sc.spherical_kn(1, x),
        lambda x: mp.sqrt(mp.pi / 2 / x) * mp.besselk(1.5, x),
        [0.3, 2, 30],
    ),
    "sph_yn": (
        lambda x: sc.spherical_yn(1, x),
        lambda x: mp.sqrt(mp.pi / 2 / x) * mp.bessely(1.5, x),
        [0.3, 2, 30],
    ),
    "sph_in": (lambda x: sc.spherical_in(0, x), lambda x: mp.sinh(x) / x, [0.3, 2, 30]),
    "struve": (lambda x: sc.struve(1.0, x), lambda x: mp.struveh(1, x), [0.3, 2, 10]),
    "ai": (lambda x: sc.airy(x)[0], mp.airyai, [-5, 0, 2, 8]),
    "bi'": (lambda x: sc.airy(x)[3], lambda x: mp.airybi(x, derivative=1), [-5, 0, 2, 8]),
    "aie": (lambda x: sc.airye(x)[0], lambda x: mp.airyai(x) * mp.exp(2 * x**1.5 / 3), [0.5, 2, 8]),
    "bie": (
        lambda x: sc.airye(x)[2],
        lambda x: mp.airybi(x) * mp.exp(-2 * x**1.5 / 3),
        [0.5, 2, 8],
    ),
    "ellipk": (sc.ellipk, mp.ellipk, [-50, -0.5, 0.0, 1e-6, 0.5, 0.99, 1 - 1e-9]),
    "ellipe": (sc.ellipe, mp.ellipe, [-50, -0.5, 0.0, 1e-6, 0.5, 0.99, 1 - 1e-9]),
    "ellipkm1": (sc.ellipkm1, lambda p: mp.ellipk(1 - p), [1e-20, 1e-6, 0.5, 1.0, 3]),
    "ellipkinc_m": (
        lambda m: sc.ellipkinc(1.2, m),
        lambda m: mp.ellipf(1.2, m),
        [-50, -0.5, 0.0, 1e-6, 0.5, 0.99, 1.0],
    ),
    "ellipkinc_m2": (
        lambda m: sc.ellipkinc(7.0, m),
        lambda m: mp.ellipf(7.0, m),
        [-50, -0.5, 0.0, 1e-6, 0.5, 0.99],
    ),
    "ellipeinc_m": (
        lambda m: sc.ellipeinc(1.2, m),
        lambda m: mp.ellipe(1.2, m),
        [-50, -0.5, 0.0, 1e-6, 0.5, 0.99, 1.0],
    ),
    "ellipeinc_phi": (
        lambda p: sc.ellipeinc(p, 0.7),
        lambda p: mp.ellipe(p, 0.7),
        [-2, 0, 1, 3, 30],
    ),
    "hyp0f1": (lambda x: sc.hyp0f1(1.5, x), lambda x: mp.hyp0f1(1.5, x), [-5, 0, 0.5, 3]),
    "hyp1f1": (
        lambda x: sc.hyp1f1(1.5, 2.5, x),
        lambda x: mp.hyp1f1(1.5, 2.5, x),
        [-20, 0, 0.5, 3],
    ),
    "hyp2f1": (
        lambda x: sc.hyp2f1(1.5, 0.7, 2.5, x),
        lambda x: mp.hyp2f1(1.5, 0.7, 2.5, x),
        [-20, -0.5, 0, 0.5, 0.9],
    ),
    "lambertw": (lambda x: sc.lambertw(x).real, mp.lambertw, [-0.3, 0, 0.5, 30]),
    "lambertw-1": (lambda x: sc.lambertw(x, -1).real, lambda x: mp.lambertw(x, -1), [-0.3, -0.01]),
    "betaln": (lambda a: sc.betaln(a, 2.0), lambda a: mp.log(mp.beta(a, 2)), [0.5, 3, 100]),
    "poch": (lambda m: sc.poch(1.5, m), lambda m: mp.rf(1.5, m), [0.5, 3]),
    "binom": (lambda n: sc.binom(n, 2.5), lambda n: mp.binomial(n, 2.5), [3, 7.5]),
    "gammainc_a": (
        lambda a: sc.gammainc(a, 3.0),
        lambda a: mp.gammainc(a, 0, 3, regularized=True),
        [1e-8, 0.01, 0.5, 2, 3, 10, 50],
    ),
    "gammainc_a2": (
        lambda a: sc.gammainc(a, 100.0),
        lambda a: mp.gammainc(a, 0, 100, regularized=True),
        [50, 90, 100, 110, 200.0],
    ),
    "gammainc_a3": (
        lambda a: sc.gammainc(a, 1e-3),
        lambda a: mp.gammainc(a, 0, 1e-3, regularized=True),
        [1e-3, 0.5, 2, 5.0],
    ),
    "gammaincc_x": (
        lambda x: sc.gammaincc(2.5, x),
        lambda x: mp.gammainc(2.5, x, regularized=True),
        [1e-6, 0.5, 3, 40],
    ),
    "gammaincinv_a": (
        lambda a: sc.gammaincinv(a, 0.3),
        lambda a: mp.findroot(
            lambda x: mp.gammainc(a, 0, x, regularized=True) - mp.mpf(0.3),
            sc.gammaincinv(float(a), 0.3),
        ),
        [0.7, 3, 20],
    ),
    "betainc_a": (
        lambda a: sc.betainc(a, 2.0, 0.3),
        lambda a: mp.betainc(a, 2, 0, mp.mpf(0.3), regularized=True),
        [0.01, 0.5, 2, 20],
    ),
    "betainc_b": (
        lambda b: sc.betainc(3.0, b, 0.7),
        lambda b: mp.betainc(3, b, 0, mp.mpf(0.7), regularized=True),
        [0.01, 0.5, 2, 20],
    ),
    "betainc_x": (
        lambda x: sc.betainc(3.0, 1.5, x),
        lambda x: mp.betainc(3, 1.5, 0, x, regularized=True),
        [0.1, 0.5, 0.99],
    ),
    "stdtr": (
        lambda t: sc.stdtr(3.0, t),
        lambda t: mp.mpf(1) - mp.betainc(1.5, 0.5, 0, 3 / (3 + t * t), regularized=True) / 2,
        [0.5, 2, 30],
    ),
    "stdtr_df": (
        lambda v: sc.stdtr(v, 1.3),
        lambda v: (
            mp.mpf(1) - mp.betainc(v / 2, 0.5, 0, v / (v + mp.mpf(1.3) ** 2), regularized=True) / 2
        ),
        [1.0, 5, 30],
    ),
    "fdtr": (
        lambda a: sc.fdtr(a, 3.0, 1.2),
        lambda a: mp.betainc(
            a / 2, 1.5, 0, a * mp.mpf(1.2) / (3 + a * mp.mpf(1.2)), regularized=True
        ),
        [1.0, 4],
    ),
    "multigammaln": (
        lambda a: sc.multigammaln(a, 3),
        lambda a: sum(mp.loggamma(a - mp.mpf(j) / 2) for j in range(3)),
        [2, 7],
    ),
    "legendre": (lambda x: sc.eval_legendre(4, x), lambda x: mp.legendre(4, x), [-1, 0, 0.5, 1]),
    "legendre_nu": (lambda x: sc.eval_legendre(1.5, x), lambda x: mp.legenp(1.5, 0, x), [0.1, 0.5]),
    "chebu": (lambda x: sc.eval_chebyu(5, x), lambda x: mp.chebyu(5, x), [0, 0.4]),
    "jacobi": (
        lambda x: sc.eval_jacobi(3, 0.5, 1.5, x),
        lambda x: mp.jacobi(3, 0.5, 1.5, x),
        [-1, 0, 0.5, 1],
    ),
    "laguerre0": (lambda x: sc.eval_laguerre(0, x), lambda x: mp.laguerre(0, 0, x), [0, 0.5]),
    "genlag": (
        lambda x: sc.eval_genlaguerre(3, 0.5, x),
        lambda x: mp.laguerre(3, 0.5, x),
        [0, 0.5, 3],
    ),
    "gegen": (
        lambda x: sc.eval_gegenbauer(4, 0.3, x),
        lambda x: mp.gegenbauer(4, 0.3, x),
        [0, 0.5],
    ),
    "herm": (lambda x: sc.eval_hermite(4, x), lambda x: mp.hermite(4, x), [0, 0.5, 2]),
    "owens_h": (
        lambda h: sc.owens_t(h, 0.7),
        lambda h: (
            mp.quad(lambda t: mp.exp(-h * h * (1 + t * t) / 2) / (1 + t * t), [0, mp.mpf(0.7)])
            / 2
            / mp.pi
        ),
        [0.3, 2],
    ),
    "wrightomega": (sc.wrightomega, lambda z: mp.lambertw(mp.exp(z)), [-1, 0.5, 3]),
}


@pytest.mark.parametrize(
    ("name", "x"), [(name, float(x)) for name, row in TABLE.items() for x in row[2]]
)
def test_first_and_second_derivatives_are_those_of_mpmath(name, x):
    ours, theirs, _ = TABLE[name]
    with mp.workdps(90):
        centre = mp.mpf(x)
        step = mp.mpf(10) ** -22 * (
            max(1, abs(x)) if abs(x) > 1e-6 or not x else abs(centre) / 1000
        )
        f = [theirs(centre + k * step) for k in (-2, -1, 0, 1, 2)]
        slope = float(mp.re((f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * step)))
        bend = float(mp.re((-f[0] + 16 * f[1] - 30 * f[2] + 16 * f[3] - f[4]) / (12 * step**2)))
    np.testing.assert_allclose(first(ours, x), slope, rtol=2e-11, atol=1e-14)
    np.testing.assert_allclose(second(ours, x), bend, rtol=1e-9, atol=1e-11)


# --- values and dtypes of every ufunc ----------------------------------------------------------


SPECIAL = [u for u in UFUNCS if getattr(np, u.__name__, None) is not u]
NAMES = {"round": "round_even"}  # NumPy's name is another op


@pytest.mark.parametrize("ufunc", SPECIAL, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_and_dtypes_are_those_of_scipy(ufunc, dtype, rng):
    sample = PRIMITIVES[NAMES.get(ufunc.__name__, ufunc.__name__)].samples[0].make(rng)
    sample = [x.astype(dtype) if x.dtype.kind == "f" else x for x in sample]
    for xs in (sample, [x[0, 0] for x in sample], [x[0] if k else x for k, x in enumerate(sample)]):
        expected = ufunc(*xs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        tape = tape_of(ufunc, *xs)
        assert tape.output_types == tuple(map(type_of, expected))
        for value, e in zip(values(tape, *map(np.asarray, xs)), expected, strict=True):
            # NumPy's own `log1p` may differ from SciPy's in the last digit
            np.testing.assert_allclose(value, e, rtol=2 * np.finfo(dtype).eps)


def test_scalars_come_out_as_scalars_and_python_floats_take_the_dtype_of_arrays():
    x = np.array([0.5, 1.5], np.float32)
    assert type(fdiff.jvp(sc.erf, np.float64(0.3), np.float64(1.0))[0]) is np.float64
    assert fdiff.jacobian(lambda t: sc.jv(2.5, t), x).dtype == np.float32
    assert fdiff.jacobian(lambda t: sc.eval_legendre(3, t), x.astype(float)).dtype == np.float64


# --- against JAX -------------------------------------------------------------------------------

X = np.array([0.3, 0.8, 1.7, 2.6])
Y = np.array([0.9, 0.4, 2.2, 1.1])
U = np.array([0.12, 0.37, 0.61, 0.93])
M = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])
W = np.array([[1.5, -0.2, 0.4], [0.0, 2.0, 0.3]])
PAIRS = {
    "erf": (sc.erf, jsc.erf, X),
    "erfc": (sc.erfc, jsc.erfc, X),
    "erfinv": (sc.erfinv, jsc.erfinv, U),
    "expit": (sc.expit, jsc.expit, X),
    "logit": (sc.logit, jsc.logit, U),
    "gammaln": (sc.gammaln, jsc.gammaln, X),
    "digamma": (sc.digamma, jsc.digamma, X),
    "i0": (sc.i0, jsc.i0, X),
    "i0e": (sc.i0e, jsc.i0e, X),
    "i1": (sc.i1, jsc.i1, X),
    "i1e": (sc.i1e, jsc.i1e, X),
    "ndtr": (sc.ndtr, jsc.ndtr, X),
    "log_ndtr": (sc.log_ndtr, jsc.log_ndtr, X),
    "ndtri": (sc.ndtri, jsc.ndtri, U),
    "entr": (sc.entr, jsc.entr, X),
    "expi": (sc.expi, jsc.expi, X),
    "xlogy": (sc.xlogy, jsc.xlogy, X, Y),
    "xlog1py": (sc.xlog1py, jsc.xlog1py, X, Y),
    "kl_div": (sc.kl_div, jsc.kl_div, X, Y),
    "rel_entr": (sc.rel_entr, jsc.rel_entr, X, Y),
    "betaln": (sc.betaln, jsc.betaln, X, Y),
    "beta": (sc.beta, jsc.beta, X, Y),
    "betainc": (lambda x: sc.betainc(2.5, 1.5, x), lambda x: jsc.betainc(2.5, 1.5, x), U),
    "polygamma": (lambda x: sc.polygamma(2, x), lambda x: jsc.polygamma(2, x), X),
    "zeta": (lambda q: sc.zeta(2.5, q), lambda q: jsc.zeta(2.5, q), X),
    "logsumexp": (sc.logsumexp, jsc.logsumexp, M),
    "logsumexp-axis": (lambda m: sc.logsumexp(m, axis=0), lambda m: jsc.logsumexp(m, axis=0), M),
    "logsumexp-axes": (
        lambda m: sc.logsumexp(m, axis=(0, 1), keepdims=True),
        lambda m: jsc.logsumexp(m, axis=(0, 1), keepdims=True),
        M,
    ),
    "logsumexp-b": (
        lambda m, w: sc.logsumexp(m, axis=1, b=w),
        lambda m, w: jsc.logsumexp(m, axis=1, b=w),
        M,
        np.abs(W) + 0.1,
    ),
    "logsumexp-sign": (
        lambda m, w: sc.logsumexp(m, 1, w, True, True)[0],
        lambda m, w: jsc.logsumexp(m, 1, w, True, True)[0],
        M,
        W + 0.01,
    ),
    "softmax": (lambda m: sc.softmax(m, axis=1), lambda m: jax.nn.softmax(m, axis=1), M),
    "softmax-all": (sc.softmax, lambda m: jnp.exp(m) / jnp.sum(jnp.exp(m)), M),
    "log_softmax": (
        lambda m: sc.log_softmax(m, axis=0),
        lambda m: jax.nn.log_softmax(m, axis=0),
        M,
    ),
    "multigammaln": (
        lambda x: sc.multigammaln(x + 2.0, 3),
        lambda x: jsc.multigammaln(x + 2.0, 3),
        X,
    ),
    "factorial": (sc.factorial, lambda x: jnp.exp(jsc.gammaln(x + 1.0)), X),
    "comb": (lambda n: sc.comb(n + 3.0, 2), lambda n: (n + 3.0) * (n + 2.0) / 2.0, X),
    "comb-repetition": (lambda n: sc.comb(n, 2, repetition=True), lambda n: (n + 1.0) * n / 2.0, X),
    "sinc": (sc.sinc, jnp.sinc, X),
    "log1p": (sc.log1p, jnp.log1p, X),
    "expm1": (sc.expm1, jnp.expm1, X),
    "exp2": (sc.exp2, jnp.exp2, X),
    "cbrt": (sc.cbrt, jnp.cbrt, X),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAIRS)
def test_derivatives_are_those_of_jax(name):
    ours, theirs, *xs = PAIRS[name]
    weights = np.cos(np.arange(np.size(ours(*xs)))).reshape(np.shape(ours(*xs)))
    argnums = tuple(range(len(xs)))
    np.testing.assert_allclose(fdiff.vjp(ours, tuple(xs), weights)[0], ours(*xs), rtol=1e-15)
    got = fdiff.grad(lambda *a: np.sum(ours(*a) * weights), argnums=argnums)(*xs)
    expected = jax.grad(lambda *a: jnp.sum(theirs(*a) * weights), argnums=argnums)(*xs)
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(
            g, e, rtol=1e-10, atol=1e-13
        )  # JAX's own digamma and erfinv are that good
    if np.ndim(xs[0]) < 2:  # mpmath has seen the others; JAX takes seconds for each
        return
    hessian = fdiff.hessian(lambda x: np.sum(ours(x, *xs[1:]) * weights), xs[0])
    reference = jax.hessian(lambda x: jnp.sum(theirs(x, *xs[1:]) * weights))(xs[0])
    np.testing.assert_allclose(hessian, reference, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("a", [0.4, 3.0, 25.0])
@pytest.mark.parametrize("x", [0.2, 3.0, 30.0])
def test_incomplete_gamma_in_its_parameter_is_that_of_jax(a, x):
    ours = fdiff.grad(lambda a: sc.gammainc(a, x))(a)
    np.testing.assert_allclose(
        ours, jax.grad(lambda a: jsc.gammainc(a, x))(a), rtol=1e-8, atol=1e-14
    )


def test_derivatives_of_bessel_functions_by_scipy_s_own_functions():
    for f, slope in ((sc.jv, sc.jvp), (sc.yv, sc.yvp), (sc.iv, sc.ivp), (sc.kv, sc.kvp)):
        np.testing.assert_allclose(
            first(lambda x, f=f: f(1.5, x), 2.2), slope(1.5, 2.2), rtol=1e-13
        )
        np.testing.assert_allclose(
            second(lambda x, f=f: f(1.5, x), 2.2), slope(1.5, 2.2, 2), rtol=1e-12
        )
        np.testing.assert_allclose(
            first(lambda x, s=slope: s(1.5, x), 2.2), slope(1.5, 2.2, 2), rtol=1e-12
        )
    for f in (sc.spherical_jn, sc.spherical_yn, sc.spherical_in, sc.spherical_kn):
        np.testing.assert_allclose(
            first(lambda x, f=f: f(3, x), 2.2), f(3, 2.2, derivative=True), rtol=1e-12
        )
        ours = fdiff.jvp(lambda x, f=f: f(3, x, derivative=True), 2.2, 1.0)[0]
        np.testing.assert_allclose(ours, f(3, 2.2, derivative=True), rtol=1e-13)


# --- edge points -------------------------------------------------------------------------------

INF, NAN = np.inf, np.nan
EDGES = {
    "erf at inf": (sc.erf, INF, 0.0),
    "erf at nan": (sc.erf, NAN, NAN),
    "erfinv at 1": (sc.erfinv, 1.0, INF),
    "ndtr at -inf": (sc.ndtr, -INF, 0.0),
    "ndtri at 0": (sc.ndtri, 0.0, INF),
    "log_ndtr at -inf": (sc.log_ndtr, -INF, INF),
    "gamma at a pole": (sc.gamma, -1.0, NAN),
    "rgamma at -2": (sc.rgamma, -2.0, 2.0),
    "rgamma at 0": (sc.rgamma, 0.0, 1.0),
    "expit at inf": (sc.expit, INF, 0.0),
    "expit at -inf": (sc.expit, -INF, 0.0),
    "logit at 0": (sc.logit, 0.0, INF),
    "xlogy at 0, 0": (lambda y: sc.xlogy(0.0, y), 0.0, 0.0),
    "xlogy in x": (lambda x: sc.xlogy(x, 2.0), 0.0, np.log(2.0)),
    "entr at 0": (sc.entr, 0.0, INF),
    "entr below 0": (sc.entr, -1.0, NAN),
    "rel_entr at y = 0": (lambda y: sc.rel_entr(0.0, y), 0.0, 0.0),
    "huber at its bend": (lambda r: sc.huber(1.0, r), 1.0, 1.0),
    "huber at 0": (lambda r: sc.huber(1.0, r), 0.0, 0.0),
    "boxcox at 0": (lambda c: sc.boxcox(0.0, c), 2.0, 0.25),
    "exprel at 0": (sc.exprel, 0.0, 0.5),
    "cosm1 at 0": (sc.cosm1, 0.0, 0.0),
    "j0 at 0": (sc.j0, 0.0, 0.0),
    "j1 at 0": (sc.j1, 0.0, 0.5),
    "i1 at 0": (sc.i1, 0.0, 0.5),
    "i0e at 0": (sc.i0e, 0.0, 0.0),
    "k0 at 0": (sc.k0, 0.0, -INF),
    "y0 at 0": (sc.y0, 0.0, INF),
    "jv(1) at 0": (lambda x: sc.jv(1, x), 0.0, 0.5),
    "spherical_jn at 0": (lambda x: sc.spherical_jn(1, x), 0.0, 1.0 / 3.0),
    "sici at 0": (lambda x: sc.sici(x)[0], 0.0, 1.0),
    "ellipk at 0": (sc.ellipk, 0.0, np.pi / 8),
    "ellipe at 0": (sc.ellipe, 0.0, -np.pi / 8),
    "ellipk above 1": (sc.ellipk, 1.5, NAN),
    "ellipkinc at 0": (lambda p: sc.ellipkinc(p, 0.3), 0.0, 1.0),
    "spence at 1": (sc.spence, 1.0, -1.0),
    "expi at 0": (sc.expi, 0.0, INF),
    "gammainc at 0": (lambda x: sc.gammainc(2.5, x), 0.0, 0.0),
    "gammainc(1) at 0": (lambda x: sc.gammainc(1.0, x), 0.0, 1.0),
    "gammainc in a at 0": (lambda a: sc.gammainc(a, 0.0), 2.0, 0.0),
    "gammainc in a at inf": (lambda a: sc.gammainc(a, INF), 2.0, 0.0),
    "gammainc below 0": (lambda x: sc.gammainc(2.0, x), -1.0, NAN),
    "gammainc in a < 0": (lambda a: sc.gammainc(a, 1.0), -1.0, NAN),
    "betainc at 0": (lambda x: sc.betainc(2.0, 3.0, x), 0.0, 0.0),
    "betainc in a at 1": (lambda a: sc.betainc(a, 3.0, 1.0), 2.0, 0.0),
    "stdtr in df at 0": (lambda v: sc.stdtr(v, 0.0), 3.0, 0.0),
    "lambertw at 0": (lambda x: sc.lambertw(x).real, 0.0, 1.0),
    "lambertw below -1/e": (lambda x: sc.lambertw(x).real, -1.0, NAN),
    "legendre of degree 0": (lambda x: sc.eval_legendre(0, x), 0.3, 0.0),
    "legendre at 1": (lambda x: sc.eval_legendre(4, x), 1.0, 10.0),
    "bdtr with k = n": (lambda p: sc.bdtr(3, 3, p), 0.4, 0.0),
    "factorial below 0": (sc.factorial, -1.5, 0.0),
    "expn(0)": (lambda x: sc.expn(0, x), 2.0, -0.75 * np.exp(-2.0)),
}


@pytest.mark.parametrize("name", EDGES)
def test_edge_points(name):
    f, x, expected = EDGES[name]
    got = fdiff.grad(f)(x), fdiff.jvp(f, x, 1.0)[1]
    np.testing.assert_allclose(got, [expected, expected], rtol=1e-14)


def test_the_sum_of_exponentials_is_smooth_where_terms_tie():
    hessian = fdiff.hessian(sc.logsumexp, np.zeros(2))
    np.testing.assert_allclose(hessian, [[0.25, -0.25], [-0.25, 0.25]], rtol=1e-15)
    np.testing.assert_allclose(
        fdiff.grad(lambda x: sc.logsumexp(x, b=[1.0, 3.0]))(np.zeros(2)), [0.25, 0.75]
    )
    np.testing.assert_allclose(
        fdiff.hessian(lambda x: sc.softmax(x)[0], np.zeros(2)), np.zeros((2, 2)), atol=1e-16
    )


def test_the_sum_of_exponentials_with_infinite_terms():
    slopes = lambda x: fdiff.grad(sc.logsumexp)(np.array(x))
    np.testing.assert_array_equal(slopes([-INF, 0.0]), [0.0, 1.0])
    np.testing.assert_array_equal(slopes([INF, 0.0]), [1.0, 0.0])
    np.testing.assert_array_equal(slopes([-INF, -INF]), [0.0, 0.0])
    tiny = np.array([0.0, -45.0])
    assert fdiff.jvp(sc.logsumexp, tiny, tiny)[0] == sc.logsumexp(tiny) > 0.0


def test_a_zero_weight_hides_its_term():
    f = lambda x: sc.logsumexp(x, b=np.array([0.0, 1.0]))
    x = np.array([INF, 0.5])
    assert fdiff.jvp(f, x, np.ones(2))[0] == f(x) == 0.5
    np.testing.assert_array_equal(fdiff.grad(f)(x), [0.0, 1.0])


# --- errors ------------------------------------------------------------------------------------

LACKING = {
    "jv": (lambda v: sc.jv(v, 1.0), "v"),
    "kve": (lambda v: sc.kve(v, 1.0), "v"),
    "hyp2f1": (lambda b: sc.hyp2f1(0.5, b, 1.5, 0.3), "b"),
    "zeta": (lambda x: sc.zeta(x, 2.0), "x"),
    "eval_gegenbauer": (lambda a: sc.eval_gegenbauer(3, a, 0.2), "alpha"),
    "bdtr": (lambda n: sc.bdtr(2, n, 0.3), "n"),
    "expn": (lambda n: sc.expn(n, 0.5), "n"),
}


@pytest.mark.filterwarnings("ignore:.*non-integer arg.*")
@pytest.mark.parametrize("name", LACKING)
def test_parameters_without_a_rule_are_named_when_they_are_differentiated(name):
    f, argument = LACKING[name]
    fact = f"scipy.special.{name} has no derivative with respect to its argument `{argument}`"
    words = rf"{fact}(.|\n)*test_special.py"
    with pytest.raises(UnsupportedError, match=words):
        fdiff.grad(f)(3.0)
    with pytest.raises(UnsupportedError, match=words):
        fdiff.jvp(f, 3.0, 1.0)


def test_parameters_without_a_rule_may_be_arguments_that_are_not_differentiated():
    f = sc.jv
    np.testing.assert_allclose(fdiff.grad(f, argnums=1)(1.5, 2.0), sc.jvp(1.5, 2.0), rtol=1e-14)
    np.testing.assert_allclose(
        fdiff.jvp(lambda x: f(1.5, x), 2.0, 1.0)[1], sc.jvp(1.5, 2.0), rtol=1e-14
    )


def test_functions_without_a_rule_are_named():
    with pytest.raises(
        UnsupportedError, match=r"scipy.special.elliprf has no derivative rule(.|\n)*elliprf"
    ):
        fdiff.grad(lambda x: sc.elliprf(x, 1.0, 2.0))(0.5)
    with pytest.raises(UnsupportedError, match=r"scipy.special.factorial2 has no derivative rule"):
        fdiff.grad(sc.factorial2)(3.0)
    with pytest.raises(UnsupportedError, match="exact=True"):
        fdiff.grad(lambda x: sc.factorial(x, exact=True))(3.0)
    with pytest.raises(UnsupportedError, match="k=2, a complex branch"):
        fdiff.grad(lambda x: sc.lambertw(x, 2).real)(3.0)
    with pytest.raises(ValueError, match="positive integer"):
        fdiff.grad(lambda x: sc.multigammaln(x, 1.5))(3.0)


# --- the tables are imported when they are needed ----------------------------------------------


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.slow
def test_the_table_is_imported_at_the_first_function_of_scipy():
    code = (
        "import sys, fdiff, numpy as np, scipy.special\n"
        "fdiff.grad(lambda x: np.sin(x))(1.0)\n"
        "print('fdiff.ops.scipy_ops.special_tables.special' in sys.modules)\n"
        "from scipy.special import erf, logsumexp\n"
        "print(fdiff.grad(lambda x: {})(0.0) > 0)\n"
        "print('fdiff.ops.scipy_ops.special_tables.special' in sys.modules)\n"
    )
    for call in ("erf(x)", "logsumexp([x, 1.0])"):
        assert fresh(code.format(call)) == ["False", "True", "True"]
