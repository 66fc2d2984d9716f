"""The modules of ``numpy.polynomial`` (Chebyshev, Legendre, Laguerre, Hermite), by their three-term recurrences.

NumPy hands these functions to no protocol; private copies find the functions of this file instead. Most maps are
linear in the coefficients, with a matrix that NumPy itself computes from the unit vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from operator import index
from typing import cast

from numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial

import fdiff.intact_numpy as np

from ...named_tuples import NamedTuple
from ...trace import Array, Operand, TracedArray
from ..along_axes.data_dependent_shapes import look_if_traced
from ..along_axes.sorting import sort
from ..scipy_functions import replaces_if_traced
from ..shapes.axis_numbers import normal_axis
from ..shapes.joining_and_splitting import concatenate_call
from ..shapes.shaping import traced
from .eigenvalues import eigvals_real_if_possible
from .polynomials import fit_matrix, poly


class PolynomialFamily(NamedTuple):
    """``B[k+1] = (a x + b) B[k] - g B[k-1]`` with ``a, b, g = step(k)``; its NumPy module and prefix.

    The recurrences: Abramowitz and Stegun, Handbook of Mathematical Functions, table 22.7.
    """

    module: object
    prefix: str
    step: Callable[[int], tuple[float, float, float]]

    def function(self, name: str) -> Callable[..., Array]:
        return getattr(self.module, name.format(self.prefix))


FAMILIES = (
    PolynomialFamily(polynomial, "poly", lambda k: (1.0, 0.0, 0.0)),
    PolynomialFamily(chebyshev, "cheb", lambda k: (2.0 if k else 1.0, 0.0, 1.0)),
    PolynomialFamily(legendre, "leg", lambda k: ((2 * k + 1) / (k + 1), 0.0, k / (k + 1))),
    PolynomialFamily(laguerre, "lag", lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1))),
    PolynomialFamily(hermite, "herm", lambda k: (2.0, 0.0, 2.0 * k)),
    PolynomialFamily(hermite_e, "herme", lambda k: (1.0, 0.0, float(k))),
)


def _series(c: object) -> Array:
    array = np.atleast_1d(traced(c))
    return array if array.type.floating else array.astype(np.float64)


def _times(factor: float, value: Operand) -> Operand:
    return value if factor == 1.0 else factor * value


def _evaluated(family: PolynomialFamily, x: Operand, c: object, *, tensor: bool = True) -> Array:
    """Clenshaw's recurrence (MTAC 9, pages 118-120, 1955; DLMF 3.11(ii)), which is Horner's rule for powers."""
    at: Operand = x if type(x) in (int, float, complex) else traced(x)
    series = _series(c)
    if tensor:
        series = series.reshape((*series.shape, *(1,) * np.ndim(at)))
    after: Array | None = None
    value: Array = series[-1] + 0.0 * at
    for k in reversed(range(series.shape[0] - 1)):
        a, b, _ = family.step(k)
        slope = _times(a, at) + b if b else _times(a, at)
        g = family.step(k + 1)[2]
        behind = series[k] if after is None or not g else series[k] - _times(g, after)
        value, after = behind + slope * value, value
    return value


def _basis(family: PolynomialFamily, x: object, deg: int) -> Array:
    """All polynomials up to a degree, along a last axis."""
    degree = index(deg)
    if degree < 0:
        raise ValueError("deg must be non-negative")
    at = np.atleast_1d(traced(x)) + 0.0
    rows = [traced(np.ones(at.shape, at.dtype))]
    for k in range(degree):
        a, b, g = family.step(k)
        new = (_times(a, at) + b if b else _times(a, at)) * rows[-1]
        rows.append(new - _times(g, rows[-2]) if k and g else new)
    return np.stack(rows, axis=-1)


def _padded(c: np.ndarray, n: int) -> np.ndarray:
    return np.pad(c, (0, n - c.shape[0])) if c.shape[0] < n else c


def _register_values(family: PolynomialFamily) -> None:
    """Evaluation at points, on grids, and the matrices of a fit."""
    f = family.function

    @replaces_if_traced(f("{}val"))
    def value(x: object, c: object, tensor: bool = True) -> Array:
        return _evaluated(family, x, c, tensor=tensor)

    for depth in (2, 3):

        def together(*args: Array) -> Array:
            points, out = [traced(p) for p in args[:-1]], args[-1]
            if len({p.shape for p in points}) > 1:
                raise ValueError(f"{', '.join('xyz'[: len(points)])} are incompatible")
            for k, point in enumerate(points):
                out = _evaluated(family, point, out, tensor=k == 0)
            return out

        def grid(*args: Array) -> Array:
            out = args[-1]
            for point in args[:-1]:
                out = _evaluated(family, point, out)
            return out

        def columns(*args: object) -> Array:
            *points, degrees = args
            parts = [_basis(family, p, d) for p, d in zip(points, degrees, strict=True)]
            out = parts[0]
            for part in parts[1:]:
                out = out[..., :, None] * part[..., None, :]
                out = out.reshape((*out.shape[:-2], -1))
            return out

        replaces_if_traced(f(f"{{}}val{depth}d"))(together)
        replaces_if_traced(f(f"{{}}grid{depth}d"))(grid)
        replaces_if_traced(f(f"{{}}vander{depth}d"))(columns)

    @replaces_if_traced(f("{}vander"))
    def matrix(x: object, deg: int) -> Array:
        return _basis(family, x, deg)


def _register_maps(family: PolynomialFamily) -> None:
    """Derivative, antiderivative and change of basis: NumPy's own maps as matrices."""
    f = family.function
    derivative, integral = f("{}der"), f("{}int")

    @replaces_if_traced(derivative)
    def differentiate(c: object, m: int = 1, scl: Operand = 1, axis: int = 0) -> Array:
        series = _series(c)
        at = normal_axis(axis, series.ndim)
        matrix = derivative(np.eye(series.shape[at]), m)
        return _as(series, _along(matrix, series, at) * np.power(scl, index(m))) if index(m) else series

    @replaces_if_traced(integral)
    def integrate(c: object, m: int = 1, k: object = (), lbnd: object = 0, scl: object = 1, axis: int = 0) -> TracedArray:
        """Step by step: the constant makes the value at `lbnd` the next of `k`."""
        constants = list(k) if np.ndim(k) or isinstance(k, (list, tuple)) else [k]
        if index(m) < 0:
            raise ValueError("The order of integration must be non-negative")
        if len(constants) > m:
            raise ValueError("Too many integration constants")
        series = _series(c)
        at = normal_axis(axis, series.ndim)
        series = np.moveaxis(series, at, 0)
        for constant in [*constants, *[0] * (index(m) - len(constants))]:
            series = _as(series, _along(integral(np.eye(series.shape[0])), series, 0) * scl)
            first = _as(series, series[:1] + constant - _evaluated(family, lbnd, series)[None])
            series = concatenate_call([first, series[1:]])
        return np.moveaxis(series, 0, at)

    if family.prefix != "poly":
        for name in ("poly2{}", "{}2poly"):
            convert = f(name)
            replaces_if_traced(convert)(lambda c, convert=convert: _unit_map(convert, _series(c)))


def _along(matrix: np.ndarray, series: TracedArray, axis: int) -> Array:
    own = matrix.astype(series.dtype)
    return np.moveaxis(np.tensordot(own, series, axes=(1, axis)), 0, axis)


def _as(series: TracedArray, new: TracedArray) -> TracedArray:
    """What NumPy computes in place, in the memory of a series."""
    return new.astype(series.dtype) if np.can_cast(new.dtype, series.dtype, "same_kind") else new


def _unit_map(function: Callable[..., np.ndarray], series: TracedArray) -> Array:
    n = series.shape[0]
    rows = [_padded(function(e), n)[:n] for e in np.eye(n)]
    return np.tensordot(np.stack(rows, axis=1).astype(series.dtype), series, axes=(1, 0))


def _trimmed(c: object) -> Array:
    """Without the zeros at the end, as NumPy trims: they decide a shape."""
    series = _series(c)
    if series.ndim != 1:
        raise ValueError("Coefficient array is not 1-d")
    if not series.shape[0]:
        raise ValueError("Coefficient array is empty")
    held = np.flatnonzero(
        look_if_traced(series != 0, "computed with the coefficients of polynomials, where zeros at the end decide a shape")
    )
    return series[: int(held[-1]) + 1 if held.size else 1]


def _register_algebra(family: PolynomialFamily) -> None:
    """Sums and products; they trim zeros at the end, as NumPy does."""
    f = family.function
    multiply = f("{}mul")

    for name, combine in (("{}add", np.add), ("{}sub", np.subtract)):

        def total(c1: object, c2: object, combine: np.ufunc = combine) -> Array:
            left, right = _trimmed(c1), _trimmed(c2)
            n = max(left.shape[0], right.shape[0])
            return _trimmed(combine(*(concatenate_call([a, np.zeros(n - a.shape[0], a.dtype)]) for a in (left, right))))

        replaces_if_traced(f(name))(total)

    @replaces_if_traced(multiply)
    def times(c1: object, c2: object) -> Array:
        left, right = _trimmed(c1), _trimmed(c2)
        n = left.shape[0] + right.shape[0] - 1
        table = np.zeros((n, left.shape[0], right.shape[0]), np.result_type(left.dtype, right.dtype))
        for i, j in product(range(left.shape[0]), range(right.shape[0])):
            table[:, i, j] = _padded(multiply(np.eye(i + 1)[i], np.eye(j + 1)[j]), n)
        return _trimmed(np.einsum("nij,i,j->n", table, left, right))


def _register_zeros(family: PolynomialFamily) -> None:
    """Zeros by the eigenvalues of the companion matrix, and series from their zeros."""
    f = family.function
    companion = f("{}companion")

    @replaces_if_traced(companion)
    def companion_matrix(c: object) -> Array:
        """Affine in the coefficients divided by the last."""
        series = _trimmed(c)
        n = series.shape[0]
        if n < 2:
            raise ValueError("Series must have maximum degree of at least 1.")
        last = np.eye(n)[-1]
        start = companion(last)
        change = np.stack([companion(last + e) - start for e in np.eye(n)[:-1]], axis=-1)
        return start + np.tensordot(change, series[:-1] / series[-1], axes=(2, 0))

    # Some families of NumPy 2.5 give complex zeros, also where all are real, as `eigvals` does; others do not.
    gives_reals = f("{}roots")([-1.0, 0.0, 1.0]).dtype.kind == "f"

    @replaces_if_traced(f("{}roots"))
    def zeros(c: object) -> object:
        series = _trimmed(c)
        if series.shape[0] < 2:
            return np.array([], series.dtype)
        eigenvalues = eigvals_real_if_possible if gives_reals or series.shape[0] == 2 else np.linalg.eigvals
        return sort(eigenvalues(companion_matrix(series)[::-1, ::-1]))

    @replaces_if_traced(f("{}fromroots"))
    def from_roots(points: object) -> Array:
        """Products of the factors, in powers of x; then the family's own basis."""
        line = np.atleast_1d(traced(points))
        if not line.shape[0]:
            return np.ones(1)
        powers = traced(poly(sort(line)))[::-1]
        return powers if family.prefix == "poly" else _unit_map(f("poly2{}"), powers)


def _register_fit(family: PolynomialFamily) -> None:
    """Least squares in the family's basis, of all degrees up to one or of those listed."""

    @replaces_if_traced(family.function("{}fit"))
    def fit(x: object, y: object, deg: Array, rcond: object = None, full: bool = False, w: object = None) -> object:
        if np.ndim(deg):
            chosen = sorted(int(d) for d in cast("Sequence[int]", deg))
            columns = lambda line, d: _basis(family, line, chosen[-1])[:, np.array(chosen)]  # noqa: E731 - one of two, as below
        else:
            chosen, columns = list(range(index(deg) + 1)), lambda line, d: _basis(family, line, d)
        if (chosen and chosen[0] < 0) or not chosen:
            raise ValueError("expected deg >= 0")
        at, matrix, right, scale, _ = fit_matrix(x, y, chosen[-1], w, columns)
        limit = at.shape[0] * np.finfo(at.dtype).eps if rcond is None else rcond
        c, residuals, rank, singular = np.linalg.lstsq(matrix, right, limit)
        c = (c.T / scale).T
        if np.ndim(deg):
            place = {d: k for k, d in enumerate(chosen)}
            c = np.stack([c[place[d]] if d in place else np.zeros(c.shape[1:], c.dtype) for d in range(chosen[-1] + 1)])
        return (c, [residuals, rank, singular, limit]) if full else c


for _family in FAMILIES:
    _register_values(_family)
    _register_maps(_family)
    _register_algebra(_family)
    _register_zeros(_family)
    _register_fit(_family)
