"""Splines as NumPy formulas: B-splines, piecewise polynomials, and derivatives at the points of the data.

The order of operations is SciPy's, so that values agree to the last digit; arguments may be traced or plain
arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...trace import Array, Operand, apply
from ..shapes.shaping import fresh, traced
from .matrix_functions import banded


def _column(x: Operand, ndim: int) -> Array:
    """`x` with ones after its axis, so that it meets the first axis of an array of `ndim` axes."""
    return np.reshape(x, (-1, *(1,) * (ndim - 1)))


def tridiagonal(lower: Array, main: Array, upper: Array, right: Array) -> Array:
    """Solution of a tridiagonal system, by SciPy's own routine."""
    zero = np.zeros(1)
    bands = np.stack([np.concatenate([zero, upper]), main, np.concatenate([lower, zero])])
    return _solved(bands, right, 1)


def _solved(bands: Array, right: Array, wide: int) -> Array:
    """Solution of a real system with `wide` bands on either side; a complex right-hand side is two real ones."""
    flat = traced(np.reshape(right, (len(right), -1)))
    if flat.dtype.kind != "c":
        return np.reshape(apply(banded, traced(bands), flat, low=wide, up=wide), np.shape(right))
    both = np.concatenate([np.real(flat), np.imag(flat)], axis=1)
    out = apply(banded, traced(bands), both, low=wide, up=wide)
    return np.reshape(out[:, : flat.shape[1]] + 1j * out[:, flat.shape[1] :], np.shape(right))


# --- slopes at the points -----------------------------------------------------------------------

End = tuple[int, object]  # order of a derivative at an end, and its value
Condition = str | End


def ends_of(bc_type: object) -> Sequence[Condition]:
    """Both boundary conditions of a ``CubicSpline``."""
    pair = (bc_type, bc_type) if isinstance(bc_type, str) else tuple(bc_type)
    named = {"clamped": (1, 0.0), "natural": (2, 0.0)}
    return tuple(named.get(c, c) if isinstance(c, str) else (int(c[0]), c[1]) for c in pair)


def cubic_slopes(x: Array, y: Array, bc: Sequence[Condition]) -> Array:
    """First derivatives of the cubic spline through points, along the first axis of `y`."""
    n, dx = len(x), np.diff(x)
    dxr = _column(dx, np.ndim(y))
    slope = np.diff(y, axis=0) / dxr
    if n == 2:
        bc = tuple((1, slope[0]) if isinstance(c, str) else c for c in bc)
    if n == 3 and bc == ("not-a-knot", "not-a-knot"):
        return _parabola(dx, dxr, slope)
    if bc[0] == "periodic":
        return _periodic(dx, dxr, slope, n)
    inner = 3 * (dxr[1:] * slope[:-1] + dxr[:-1] * slope[1:])
    first, last = _end(x, y, dx, dxr, slope, bc[0], 0), _end(x, y, dx, dxr, slope, bc[1], -1)
    main = np.concatenate([_row(first[0]), 2 * (dx[:-1] + dx[1:]), _row(last[0])])
    upper, lower = np.concatenate([_row(first[1]), dx[:-1]]), np.concatenate([dx[1:], _row(last[1])])
    return tridiagonal(lower, main, upper, np.concatenate([_row(first[2]), inner, _row(last[2])]))


def _row(x: Operand) -> Array:
    return np.reshape(x, (1, *np.shape(x)))


def _end(x: Array, y: Array, dx: Array, dxr: Array, slope: Array, condition: Condition, at: int) -> tuple[Operand, Operand, Array]:
    """The equation at one end: the entry on the diagonal, the one beside it, and the right-hand side."""
    near, far = (0, 1) if at == 0 else (-1, -2)
    shape = np.shape(y)[1:]
    if condition == "not-a-knot":
        d = x[2] - x[0] if at == 0 else x[-1] - x[-3]
        right = ((dxr[near] + 2 * d) * dxr[far] * slope[near] + dxr[near] ** 2 * slope[far]) / d
        if at:
            right = (dxr[-1] ** 2 * slope[-2] + (2 * d + dxr[-1]) * dxr[-2] * slope[-1]) / d
        return dx[far], d, right
    order, value = condition
    value = np.broadcast_to(value, shape)
    if order == 1:
        return 1.0, 0.0, value * 1.0
    if order != 2:
        raise ValueError("The specified derivative order must be 1 or 2.")
    bend = 0.5 * value * dx[near] ** 2
    rise = y[1] - y[0] if at == 0 else y[-1] - y[-2]
    return 2 * dx[near], dx[near], (3 * rise - bend if at == 0 else bend + 3 * rise)


def _parabola(dx: Array, dxr: Array, slope: Array) -> Array:
    """Slopes of the parabola through three points."""
    one, zero = np.ones(()), np.zeros(())
    rows = [[one, one, zero], [dx[1], 2 * (dx[0] + dx[1]), dx[0]], [zero, one, one]]
    matrix = np.stack([np.stack([traced(v) for v in row]) for row in rows])
    right = np.stack([2 * slope[0], 3 * (dxr[0] * slope[1] + dxr[1] * slope[0]), 2 * slope[1]])
    return np.reshape(np.linalg.solve(matrix, np.reshape(right, (3, -1))), np.shape(right))


def _periodic(dx: Array, dxr: Array, slope: Array, n: int) -> Array:
    """Derivatives of a periodic spline: the cyclic tridiagonal system by elimination of its last row and column."""
    if n == 3:
        return np.broadcast_to(np.sum(slope / dxr, axis=0) / np.sum(1.0 / dxr, axis=0), (3, *np.shape(slope)[1:]))
    first = 3 * (dxr[0] * slope[-1] + dxr[-1] * slope[0])
    inner = 3 * (dxr[1:] * slope[:-1] + dxr[:-1] * slope[1:])
    last = 3 * (dxr[-1] * slope[-2] + dxr[-2] * slope[-1])
    main = np.concatenate([2 * (dx[-1:] + dx[:1]), 2 * (dx[:-2] + dx[1:-1])])
    upper, lower = np.concatenate([dx[-1:], dx[: n - 4]]), dx[1 : n - 2]
    b1 = np.concatenate([first[None], inner[: n - 3]])
    zeros = np.zeros(n - 4)
    b2 = np.concatenate([-dx[:1], zeros, -dx[-3:-2]]) if n > 4 else np.stack([-dx[0], -dx[-3]])
    s1 = tridiagonal(lower, main, upper, b1)
    s2 = _column(tridiagonal(lower, main, upper, b2), np.ndim(slope))
    s = (last - dx[-2] * s1[0] - dx[-1] * s1[-1]) / (2 * (dx[-1] + dx[-2]) + dx[-2] * s2[0] + dx[-1] * s2[-1])
    start = s1 + s * s2
    return np.concatenate([start, s[None], start[:1]])


def pchip_slopes(x: Array, y: Array) -> Array:
    """Derivatives that keep the data's monotonicity: weighted harmonic means, 0 at local extrema.

    The whole note of F. N. Fritsch and J. Butland, "A method for constructing local monotone piecewise cubic
    interpolants", SIAM J. Sci. Stat. Comput. 5(2), pages 300-304, 1984.
    """
    h = _column(np.diff(x), np.ndim(y))
    m = np.diff(y, axis=0) / h
    if len(x) == 2:
        return np.concatenate([m, m])
    turns = (np.sign(m[1:]) != np.sign(m[:-1])) | (m[1:] == 0) | (m[:-1] == 0)
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    before, after = np.where(turns, 1.0, m[:-1]), np.where(turns, 1.0, m[1:])
    inner = np.where(turns, 0.0, 1.0 / ((w1 / before + w2 / after) / (w1 + w2)))
    first, last = _pchip_end(h[0], h[1], m[0], m[1]), _pchip_end(h[-1], h[-2], m[-1], m[-2])
    return np.concatenate([first[None], inner, last[None]])


def _pchip_end(h0: Array, h1: Array, m0: Array, m1: Array) -> Array:
    """One-sided three-point estimate, limited so that the shape is kept."""
    d = traced(((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1))
    steep = (np.sign(m0) != np.sign(m1)) & (np.abs(d) > 3.0 * np.abs(m0))
    return np.where(np.sign(d) != np.sign(m0), 0.0, np.where(steep, 3.0 * m0, d))


def akima_slopes(x: Array, y: Array, method: str) -> Array:
    """Derivatives by Akima's formula (H. Akima, J. ACM 17(4), 1970, equation 1), or by the modified one (``makima``)."""
    h = _column(np.diff(x), np.ndim(y))
    d = np.diff(y, axis=0) / h
    if len(x) == 2:
        return np.concatenate([d, d])
    m = _beyond_the_ends(d)
    dm = np.abs(np.diff(m, axis=0))
    f1, f2 = dm[2:], dm[:-2]
    if method == "makima":
        pm = np.abs(m[1:] + m[:-1])
        f1, f2 = f1 + 0.5 * pm[2:], f2 + 0.5 * pm[:-2]
    total = f1 + f2
    defined = total > 1e-9 * np.max(total)
    weight = f2 / np.where(defined, total, 1.0)
    return np.where(defined, m[1:-2] + weight * (m[2:-1] - m[1:-2]), 0.5 * (m[3:] + m[:-3]))


def _beyond_the_ends(d: Array) -> Array:
    """The slopes, and two more on either side, along the parabola through the last three points."""
    left = 2.0 * d[:1] - d[1:2]
    right = 2.0 * d[-1:] - d[-2:-1]
    return np.concatenate([2.0 * left - d[:1], left, d, right, 2.0 * right - d[-1:]])


def hermite(x: Array, y: Array, slopes: Array) -> Array:
    """Coefficients of cubics with these values and slopes, the highest power first."""
    h = _column(np.diff(x), np.ndim(y))
    slope = np.diff(y, axis=0) / h
    t = (slopes[:-1] + slopes[1:] - 2 * slope) / h
    return np.stack([t / h, (slope - slopes[:-1]) / h - t, slopes[:-1] * 1.0, y[:-1] * 1.0])


# --- piecewise polynomials ------------------------------------------------------------------------


def interval(x: Array, places: Array) -> Array:
    """The number of the interval of the sorted `x` in which each of `places` lies; the outer ones extend to infinity."""
    return np.clip(np.searchsorted(x, places, side="right") - 1, 0, len(x) - 2)


def polynomials(c: Array, x: Array, places: Array, nu: int) -> Array:
    """Derivatives of order `nu` of piecewise polynomials at a vector of places."""
    at = interval(x, places)
    s = _column(places - x[at], np.ndim(c) - 1)
    out: Array = np.zeros((np.shape(places)[0], *np.shape(c)[2:]), traced(c).dtype)
    power: Array | None = None
    for k in range(nu, len(c)):
        factor = float(np.prod(np.arange(k - nu + 1, k + 1)))
        term = c[len(c) - 1 - k][at]
        term = term if power is None else term * power
        out = out + (term if factor == 1.0 else term * factor)
        power = s if power is None else power * s
    return out


# --- B-splines --------------------------------------------------------------------------------------


def basis(t: Array, k: int, places: Array, nu: int, count: int) -> tuple[Array, list[Operand]]:
    """The number of the last knot before each place, and the ``k + 1`` B-splines that are not zero there.

    C. de Boor, "A Practical Guide to Splines", Springer 1978, chapter X; with derivatives of order
    `nu`. There are `count` B-splines in all.
    """
    at = k + np.searchsorted(t[k + 1 : count], places, side="right")
    h: list[Operand] = [np.ones(np.shape(places)), *[0.0] * k]
    for j in range(1, k + 1):
        before, h = h, [0.0, *h[1:]]
        for n in range(1, j + 1):
            high, low = t[at + n], t[at + n - j]
            same = high == low
            gap = np.where(same, 1.0, high - low)
            if j > k - nu:
                w = np.where(same, 0.0, j * before[n - 1] / gap)
                h[n - 1], h[n] = h[n - 1] - w, w
            else:
                w = np.where(same, 0.0, before[n - 1] / gap)
                h[n - 1], h[n] = h[n - 1] + w * (high - places), w * (places - low)
    return at, h


def bspline(t: Array, c: Array, k: int, places: Array, nu: int) -> Operand:
    """A B-spline, or its derivative, at a vector of places; coefficients along the first axis."""
    if nu > k:
        return np.zeros((len(places), *np.shape(c)[1:])) * c[0]
    at, h = basis(t, k, places, nu, len(t) - k - 1)
    out: Operand = 0.0
    for a in range(k + 1):
        out = out + c[at - k + a] * _column(h[a], np.ndim(c))
    return out


def interpolating_knots(x: Array, k: int, *, free: bool) -> Array:
    """Knots of `make_interp_spline`: without conditions at the ends (`free`), or with them."""
    n = len(x)
    if not free:
        inner = x
    elif k % 2:
        inner = x[(k + 1) // 2 : n - (k + 1) // 2]
    else:
        middle = (x[1:] + x[:-1]) / 2
        inner = middle[k // 2 : n - 1 - k // 2]
    ends = k + 1 if free else k
    return np.concatenate([np.repeat(x[:1], ends), inner, np.repeat(x[-1:], ends)])


def interpolating(x: Array, y: Array, t: Array, k: int, left: Sequence[End], right: Sequence[End]) -> Array:
    """Coefficients of the spline through points, with derivatives given at the ends."""
    count = len(t) - k - 1
    if count - len(x) != len(left) + len(right):
        raise ValueError(f"The number of derivatives at boundaries does not match: expected {count - len(x)}, got {len(left)}+{len(right)}")
    rows = [basis(t, k, x[:1], order, count) for order, _ in left]
    at, h = basis(t, k, x, 0, count)
    rows.append((at, h))
    rows += [basis(t, k, x[-1:], order, count) for order, _ in right]
    shape = np.shape(y)[1:]
    values = [_row(np.broadcast_to(v, shape) * 1.0) for _, v in left]
    values += [y, *(_row(np.broadcast_to(v, shape) * 1.0) for _, v in right)]
    columns = np.concatenate([a for a, _ in rows])
    entries = np.stack([np.concatenate([np.broadcast_to(h[a], np.shape(at)) for at, h in rows]) for a in range(k + 1)], axis=1)
    where = columns[:, None] - k + np.arange(k + 1)  # columns of the matrix
    row = np.arange(count)[:, None]
    places = (k + row - where) * count + where  # in bands of low = up = k
    bands = fresh(traced(np.zeros((2 * k + 1) * count)))
    bands[np.ravel(places)] = np.ravel(entries)
    return _solved(np.reshape(bands, (2 * k + 1, count)), np.concatenate(values), k)
