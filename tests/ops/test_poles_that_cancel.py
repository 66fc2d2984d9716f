"""Points where a textbook formula is 0 / 0, 0 times infinity or a difference of infinities.

There is a derivative. Against closed forms and mpmath: orders 1 to 3, in every nesting of both
modes, in every tier.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import mpmath as mp
import numpy as np
import pytest
import scipy.special as sc

import fdiff

pytestmark = pytest.mark.filterwarnings(
    "ignore::RuntimeWarning",
    "ignore:Descending .wrt powers. order:DeprecationWarning",  # of mpmath, by its own functions
)
INFINITE = float("inf")
SOME = (-5.0, -3.0, -2.0, -1.0, 0.0, -0.5, -2.5, 0.5, 2.0)


class Row(NamedTuple):
    """A function of one array, what it is in mpmath, or its derivatives, and points."""

    call: Callable[[np.ndarray], object]
    exact: Callable[[mp.mpf], mp.mpf] | tuple[float, ...]
    points: tuple[float, ...]


def _quotients() -> Iterator[tuple[str, Row]]:
    """Of gamma functions, with poles above and below, next to them, or below alone."""
    for n in (1, 2, 3):
        beta = lambda x, n=n: mp.factorial(n - 1) / mp.rf(x, n)
        at = (*(x for x in SOME if not -n < x <= 0 or x % 1), -4.0 + 1e-9)
        yield f"beta(x, {n})", Row(lambda x, n=n: sc.beta(x, n), beta, at)
        yield f"beta({n}, x)", Row(lambda x, n=n: sc.beta(n, x), beta, at)
        log = lambda x, beta=beta: mp.log(abs(beta(x)))
        yield f"betaln(x, {n})", Row(lambda x, n=n: sc.betaln(x, n), log, at)
    yield "next to a pole", Row(lambda x: sc.beta(x, 1.0), lambda x: 1 / x, (-1 + 1e-9, -1.01))
    for b in (0.5, 1.25, -0.5, -1.25):
        at = tuple(-b - m for m in range(4))
        yield (
            f"zeros of beta(x, {b})",
            Row(lambda x, b=b: sc.beta(x, b), lambda x, b=b: mp.beta(x, b), at),
        )
    for m in (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 5.0):
        rising = lambda x, m=m: mp.rf(x, m) if m >= 0 else 1 / mp.rf(x + m, -m)
        at = tuple(x for x in SOME if m >= 0 or not 0 < x <= -m or x % 1)
        yield f"poch(x, {m})", Row(lambda x, m=m: sc.poch(x, m), rising, at)
        array = lambda x, m=m: sc.poch(x, np.full(x.shape, m, x.dtype))
        yield f"poch(x, array of {m})", Row(array, rising, at)


def _sum_of_powers(ratios: Callable[[int], mp.mpf], degree: int) -> Callable[[mp.mpf], mp.mpf]:
    return lambda x: mp.fsum(ratios(k) * x**k for k in range(degree + 1))


def _hypergeometric() -> Iterator[tuple[str, Row]]:
    """Polynomials and powers, also with a third parameter that is not positive, as in SciPy."""
    some = (-3.0, -2.0, -1.0, 0.0, 0.5, 2.0)
    for a, b, c in itertools.product(some, some, (-2.0, -1.0, 0.0, 1.0, 2.5)):
        degrees = [-q for q in (a, b) if q <= 0 and q % 1 == 0 and (q > c or c > 0)]
        term = lambda k, a=a, b=b, c=c: mp.rf(a, k) * mp.rf(b, k) / mp.rf(c, k) / mp.factorial(k)
        at: tuple[float, ...] = (-1.0, 0.0, 0.5)
        if c == b <= 0:
            exact = _sum_of_powers(lambda k, a=a: mp.rf(a, k) / mp.factorial(k), int(-b))
        elif c == a <= 0:
            exact = lambda x, b=b: (1 - x) ** -mp.mpf(b)
        elif degrees:
            exact, at = _sum_of_powers(term, int(min(degrees))), (*at, 1.0, 2.0)
        else:
            continue
        yield f"hyp2f1({a}, {b}, {c}, x)", Row(lambda x, p=(a, b, c): sc.hyp2f1(*p, x), exact, at)
    for n, b in itertools.product(range(5), (-4.0, -3.0, -2.0, -1.0, 0.5, 2.0)):
        term = lambda k, n=n, b=b: mp.rf(-n, k) / mp.rf(b, k) / mp.factorial(k)
        if b > 0 or 0 < n <= -b:  # SciPy's value is infinite elsewhere
            call = lambda x, n=n, b=b: sc.hyp1f1(-n, b, x)
            yield f"hyp1f1({-n}, {b}, x)", Row(call, _sum_of_powers(term, n), (-1.0, 0.0, 0.5, 3.0))
    for n, b in itertools.product(range(5), (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0)):
        term = lambda k, n=n, b=b: (-1) ** (n + k) * mp.binomial(n, k) * mp.rf(b + k, n - k)
        at = (0.0, 0.5, 3.0) if b <= 1 or n == 0 else (0.5, 3.0)  # SciPy's value is infinite
        call = lambda x, n=n, b=b: sc.hyperu(-n, b, x)
        yield f"hyperu({-n}, {b}, x)", Row(call, _sum_of_powers(term, n), at)


def _struve() -> Iterator[tuple[str, Row]]:
    for v in (0.0, 1.0, 2.0, 3.0):
        at = (0.0, 1e-3, 0.3, -0.7, 0.999, 1.0, 1.5, 20.0)
        yield f"struve({v}, x)", Row(lambda x, v=v: sc.struve(v, x), _series(v, -1), at)
        yield f"modstruve({v}, x)", Row(lambda x, v=v: sc.modstruve(v, x), _series(v, 1), at)
    for v in (-1.5, -0.5, 0.5, 1.5):
        at = (1e-3, 0.3, 1.5, 5.0)
        yield f"struve({v}, x)", Row(lambda x, v=v: sc.struve(v, x), _series(v, -1), at)
        yield f"modstruve({v}, x)", Row(lambda x, v=v: sc.modstruve(v, x), _series(v, 1), at)
    for v, limits in ((2.5, (0.0, 0.0, 0.0)), (1.5, (0.0, 0.0, INFINITE)), (-0.5, (INFINITE,) * 3)):
        yield f"struve({v}, 0)", Row(lambda x, v=v: sc.struve(v, x), limits, (0.0,))
        yield f"modstruve({v}, 0)", Row(lambda x, v=v: sc.modstruve(v, x), limits, (0.0,))


def _series(v: float, sign: int) -> Callable[[mp.mpf], mp.mpf]:
    """DLMF 11.2.1 and 11.2.2."""
    term = lambda k: mp.mpf(sign) ** k * mp.rgamma(k + 1.5) * mp.rgamma(k + v + 1.5)
    terms = [term(k) for k in range(70)]
    return lambda x: (x / 2) ** (v + 1) * mp.polyval(terms[::-1], x * x / 4)


def _others() -> Iterator[tuple[str, Row]]:
    for k, derivative in ((2, 0), (3, 1)):
        scaled = lambda x, d=derivative: (
            mp.airybi(x, derivative=d) * mp.exp(-mp.mpf(2) / 3 * x ** mp.mpf(1.5) if x > 0 else 0)
        )
        at = (-5.0, -1.0, -0.01, 0.5, 2.0)
        yield f"airye(x)[{k}]", Row(lambda x, k=k: sc.airye(x)[k], scaled, at)
    for n in (
        1,
        2,
        4,
        8,
        1000,
    ):  # (1 + y / n)**n, at its zero and next to it, and where it is subnormal
        power = lambda y, n=n: (1 + y / n) ** n
        at = (-0.9 * n, -0.6 * n, -0.4 * n, 0.3)
        at = (-float(n), *at) if n < 1000 else (-900.0, *at)
        yield f"inv_boxcox(y, 1 / {n})", Row(lambda y, n=n: sc.inv_boxcox(y, 1.0 / n), power, at)
        less = lambda y, n=n: power(y, n) - 1
        yield f"inv_boxcox1p(y, 1 / {n})", Row(lambda y, n=n: sc.inv_boxcox1p(y, 1.0 / n), less, at)
    limits = {
        1.0: (-1.0, INFINITE, INFINITE),
        0.5: (0.0, 8.0, INFINITE),
        0.25: (0.0, 0.0, 0.0),
        2.0: (INFINITE,) * 3,
    }
    for lmbda, exact in limits.items():  # from within
        call = lambda x, y=-1.0 / lmbda: sc.inv_boxcox(y, x)
        yield f"inv_boxcox({-1.0 / lmbda}, x)", Row(call, exact, (lmbda,))
    for d in (0.0, 0.5, 3.0):
        huber = lambda r, d=d: d * (mp.sqrt(d * d + r * r) - d)
        at = (-1.0, 0.0, 1e-3, 2.0)
        yield f"pseudo_huber({d}, x)", Row(lambda x, d=d: sc.pseudo_huber(d, x), huber, at)


ROWS = dict(itertools.chain(_quotients(), _hypergeometric(), _struve(), _others()))


def ahead(f):
    return lambda t: fdiff.jvp(f)(t, np.ones_like(t))[1]


def back(f):
    return fdiff.grad(lambda t: np.sum(f(t)))


NESTINGS = [steps for n in (1, 2, 3) for steps in itertools.product((ahead, back), repeat=n)]


def _expected(row: Row, order: int) -> list[float]:
    if isinstance(row.exact, tuple):
        return [row.exact[order - 1]] * len(row.points)
    with mp.workdps(60):
        return [float(mp.re(mp.diff(row.exact, mp.mpf(x), order))) for x in row.points]


def _compare(row: Row, nestings, dtype=np.float64, tolerance=1e-9):
    points = np.array(row.points, dtype)
    known = {n: _expected(row, n) for n in {len(steps) for steps in nestings}}
    for steps in nestings:
        f = row.call
        for step in steps:
            f = step(f)
        got, want = f(points), known[len(steps)]
        assert got.dtype == dtype
        for x, g, w in zip(row.points, got, want, strict=True):
            where = (x, [s.__name__ for s in steps], g, w)
            assert not np.isfinite(g) if np.isinf(w) else abs(g - w) <= tolerance * (1 + abs(w)), (
                where
            )


@pytest.mark.parametrize("name", ROWS)
def test_derivatives_to_third_order(name, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    _compare(ROWS[name], NESTINGS)


EACH = (
    *("beta(x, 2)", "zeros of beta(x, 0.5)", "betaln(x, 1)", "poch(x, array of -1.0)"),
    *(
        "hyp1f1(-1, -2.0, x)",
        "hyp2f1(-1.0, 2.0, -2.0, x)",
        "hyperu(-2, 0.5, x)",
        "struve(0.0, x)",
        "modstruve(1.0, x)",
    ),
    *("airye(x)[2]", "inv_boxcox(y, 1 / 2)", "inv_boxcox1p(y, 1 / 1)", "pseudo_huber(0.0, x)"),
)


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["evaluate", "compile"])
@pytest.mark.parametrize("name", EACH)
def test_every_tier(name, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    _compare(ROWS[name], [(back,), (back, ahead)])


@pytest.mark.parametrize("name", EACH)
def test_single_precision(name, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    row = ROWS[name]
    exact = tuple(x for x in row.points if x == np.float32(x))
    _compare(row._replace(points=exact), [(back,), (ahead, back)], np.float32, 2e-4)
