"""`scipy.spatial.distance`: distances of two vectors, and of all pairs of rows (`cdist`, `pdist`); composed functions."""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np
from fdiff.intact_scipy import spatial_distance as sd

from ...trace import Array, TracedArray, apply, unsupported
from ..along_axes.reductions import as_scalar
from ..entrywise.elementwise import stop
from ..scipy_functions import replaces_if_traced
from ..shapes.shaping import traced

Distance = Callable[[Array, Array], Array]

# --- of differences and of vectors, along the last axis ---------------------------------------


def _euclidean(x: Array, y: Array) -> Array:
    return np.linalg.norm(x - y, axis=-1)  # at 0 the derivative given is 0, as for `norm`


def _squared(x: Array, y: Array) -> Array:
    d = x - y
    return np.sum(d * d, axis=-1)


def _city(x: Array, y: Array) -> Array:
    return np.sum(np.abs(x - y), axis=-1)


def _largest(x: Array, y: Array) -> Array:
    return np.max(np.abs(x - y), axis=-1)


def _angle(x: Array, y: Array) -> Array:
    """One minus the cosine; rounding errors outside of [0, 2] are clipped without a change of the derivative."""
    product = np.sum(x * y, axis=-1)
    lengths = np.sqrt(np.sum(x * x, axis=-1) * np.sum(y * y, axis=-1))
    out = 1.0 - product / lengths
    return out + apply(stop, traced(np.clip(out, 0.0, 2.0) - out))


def _correlation(x: Array, y: Array) -> Array:
    return _angle(x - np.mean(x, axis=-1, keepdims=True), y - np.mean(y, axis=-1, keepdims=True))


METRICS: dict[str, Distance] = {
    "euclidean": _euclidean, "sqeuclidean": _squared, "cityblock": _city, "chebyshev": _largest, "cosine": _angle,
    "correlation": _correlation,
}
_OTHER_NAMES = {
    "euclid": "euclidean", "eu": "euclidean", "e": "euclidean", "sqe": "sqeuclidean", "sqeuclid": "sqeuclidean", "cblock": "cityblock",
    "cb": "cityblock",
    "c": "cityblock", "manhattan": "cityblock", "chebychev": "chebyshev", "cheby": "chebyshev", "cheb": "chebyshev", "ch": "chebyshev",
    "cos": "cosine", "co": "correlation",
}  # fmt: skip

# --- two vectors ------------------------------------------------------------------------------


def _vector(u: object) -> TracedArray:
    x = traced(u)
    if x.ndim != 1:
        raise ValueError("Input vector should be 1-D.")
    if x.dtype.kind == "c":
        raise unsupported("scipy.spatial.distance of complex numbers")
    return x if x.type.floating else x.astype(np.float64)


_EUCLIDEAN_IS_A_FLOAT = type(sd.euclidean([1.0], [0.0])) is float  # of Python, before SciPy 1.18


def _of_two(function: Callable[..., object], name: str) -> None:
    @replaces_if_traced(function)
    def measure(u: object, v: object, w: object = None) -> Array:
        x, y = _vector(u), _vector(v)
        if w is not None:
            raise unsupported(f"scipy.spatial.distance.{name} with weights")
        out = METRICS[name](x, y)
        if name != "euclidean" or not _EUCLIDEAN_IS_A_FLOAT:
            return as_scalar(out)
        out = out.astype(np.float64)  # SciPy gives a float of Python
        return out.as_python_float()


for _function, _name in (
    (sd.euclidean, "euclidean"), (sd.sqeuclidean, "sqeuclidean"), (sd.cityblock, "cityblock"), (sd.chebyshev, "chebyshev"),
    (sd.cosine, "cosine"),
):  # fmt: skip
    _of_two(_function, _name)

# --- all pairs --------------------------------------------------------------------------------


def _rows(x: object, name: str) -> TracedArray:
    a = traced(x)
    if a.ndim != 2:
        raise ValueError(f"{name} must be a 2-dimensional array.")
    if a.dtype.kind == "c":
        raise ValueError(f"Unsupported dtype {a.dtype}")
    return a.astype(np.float64)


def _metric(metric: object, call: str, out: object, keywords: dict[str, object]) -> Distance | None:
    """The distance asked for; None for a function of the user's."""
    if out is not None or any(v is not None for v in keywords.values()):
        raise unsupported(f"scipy.spatial.distance.{call} with {'out=' if out is not None else ', '.join(f'{k}=' for k in keywords)}")
    if callable(metric):
        return None
    name = str(metric).lower()
    distance = METRICS.get(_OTHER_NAMES.get(name, name))
    if distance is None:
        raise unsupported(f"scipy.spatial.distance.{call} with metric={metric!r}")
    return distance


@replaces_if_traced(sd.cdist)
def cdist(XA: object, XB: object, metric: object = "euclidean", *, out: object = None, **keywords: object) -> Array:
    a, b = _rows(XA, "XA"), _rows(XB, "XB")
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    measure = _metric(metric, "cdist", out, keywords)
    if measure is None:
        pairs = [metric(x, y) for x in a for y in b]
        return np.stack(list(map(traced, pairs))).astype(np.float64).reshape((len(a), len(b)))
    return measure(a[:, None, :], b[None, :, :])


@replaces_if_traced(sd.pdist)
def pdist(X: object, metric: object = "euclidean", *, out: object = None, **keywords: object) -> Array:
    """Distances of the pairs of rows, in order of the first."""
    a = _rows(X, "X")
    first, second = np.triu_indices(len(a), 1)
    measure = _metric(metric, "pdist", out, keywords)
    if measure is None:
        return np.stack([traced(metric(a[i], a[j])) for i, j in zip(first, second, strict=True)]).astype(np.float64)
    return measure(a[first], a[second])


@replaces_if_traced(sd.squareform)
def squareform(X: object, force: str = "no", checks: bool = True) -> Array:
    """From the distances of pairs to their matrix, and back."""
    x = traced(X)
    if force.lower() == "tomatrix" and x.ndim != 1:
        raise ValueError("Forcing 'tomatrix' but input X is not a distance vector.")
    if force.lower() == "tovector" and x.ndim != 2:
        raise ValueError("Forcing 'tovector' but input X is not a distance matrix.")
    if x.ndim == 1:
        n = int(np.ceil(np.sqrt(x.size * 2))) or 1
        if n * (n - 1) != x.size * 2:
            raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2.")
        place = np.full((n, n), x.size)
        place[np.triu_indices(n, 1)] = np.arange(x.size)
        return np.concatenate([x, np.zeros(1, x.dtype)])[np.minimum(place, place.T)]
    if x.ndim != 2:
        raise ValueError(f"The first argument must be one or two dimensional array. A {x.ndim}-dimensional array is not permitted")
    if x.shape[0] != x.shape[1]:
        raise ValueError("The matrix argument must be square.")
    if checks and not bool(np.all(x == x.T)):
        raise ValueError("Distance matrix 'X' must be symmetric.")
    if checks and not bool(np.all(np.diagonal(x) == 0)):
        raise ValueError("Distance matrix 'X' diagonal must be zero.")
    return x[np.triu_indices(len(x), 1)]
