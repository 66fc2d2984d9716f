"""Distributions of vectors in `scipy.stats`: the normal one and Dirichlet's, differentiated in the point and all parameters."""

from __future__ import annotations

from math import log, pi

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc
from fdiff.intact_scipy import stats as st

from ....trace import Array, TracedArray
from ...along_axes.reductions import as_scalar
from ...shapes.shaping import traced
from ..dense_linalg import solve_triangular
from .distributions import INF, of_reals

LOG_2PI = log(2.0 * pi)
# SciPy counts eigenvalues up to this share of the largest one as 0 (scipy.stats._multivariate._eigvalsh_to_eps).
NEGLIGIBLE = 1e6 * float(np.finfo(np.float64).eps)


def _covariance(mean: object, cov: object) -> tuple[TracedArray | None, Array]:
    """The mean as a vector, None for 0, and the covariance as a matrix."""
    if isinstance(cov, st.Covariance):
        cov = cov.covariance
    spread = of_reals(cov).astype(np.float64)
    centre = None if mean is None else of_reals(mean).astype(np.float64).ravel()
    dim = centre.size if centre is not None else spread.shape[0] if spread.ndim else 1
    spread = spread * np.eye(dim) if spread.ndim == 0 else np.diag(spread) if spread.ndim == 1 else spread
    if spread.shape != (dim, dim):
        raise ValueError(f"Array 'cov' must be square of the size of 'mean', {dim}, but cov.shape = {spread.shape}.")
    return centre, spread


def _points(x: object, centre: TracedArray | None, dim: int) -> TracedArray:
    """Distances of the points from the mean, along the last axis."""
    points = of_reals(x).astype(np.float64)
    points = points[None] if points.ndim == 0 else points[:, None] if points.ndim == 1 and dim == 1 else points
    away = points if centre is None else points - centre
    if away.shape[-1] != dim:
        raise ValueError(f"operands could not be broadcast together with shapes {points.shape} ({dim},)")
    return away


def _pseudo_inverse(spread: TracedArray) -> tuple[Array, Array, Array, Array]:
    """Pseudo-inverse of a covariance, the projector onto its null space, its rank, and log of its pseudo-determinant.

    With P the projector, the determinant of ``cov + P`` is the product of the eigenvalues that are not 0, and so
    are its derivatives of all orders along covariances of one rank: no eigenvector is differentiated.
    """
    inverse = np.linalg.pinv(spread, rcond=NEGLIGIBLE, hermitian=True)
    null = np.eye(spread.shape[0]) - spread @ inverse
    rank = spread.shape[0] - np.round(np.trace(null))
    null = np.where(rank == spread.shape[0], 0.0, null)  # so that rounding errors do not enter a regular covariance
    return inverse, null, rank, np.linalg.slogdet(spread + null)[1]


def normal(name: str, *args: object, **keywords: object) -> Array:
    """A function of the multivariate normal distribution; of `cov` the lower triangle is read, as in SciPy."""
    return _entropy(*args, **keywords) if name == "entropy" else _density(name, *args, **keywords)


def _entropy(mean: object = None, cov: object = 1) -> Array:
    _, _, rank, log_determinant = _pseudo_inverse(_covariance(mean, cov)[1])
    return as_scalar(0.5 * (rank * (LOG_2PI + 1.0) + log_determinant))


def _density(name: str, x: object, mean: object = None, cov: object = 1, allow_singular: object = False) -> Array:
    centre, spread = _covariance(mean, cov)
    dim = spread.shape[0]
    away = _points(x, centre, dim)
    if allow_singular or isinstance(cov, st.Covariance):
        inverse, null, rank, log_determinant = _pseudo_inverse(spread)
        value = -0.5 * (rank * LOG_2PI + log_determinant + np.sum((away @ inverse) * away, axis=-1))
        off = np.sum((away @ null) ** 2, axis=-1) >= (NEGLIGIBLE * np.max(np.abs(np.linalg.eigvalsh(spread)))) ** 2
        value = np.where(off, -INF, value)
    else:
        factor = np.linalg.cholesky(spread)
        whitened = solve_triangular(factor, away.reshape((-1, dim)).T, lower=True)
        squares = np.sum(whitened * whitened, axis=0).reshape(away.shape[:-1])
        value = -0.5 * (dim * LOG_2PI + squares) - np.sum(np.log(np.diagonal(factor)))
    value = np.squeeze(value)
    return as_scalar(np.exp(value) if name == "pdf" else value)


def _concentrations(alpha: object) -> TracedArray:
    a = of_reals(alpha).astype(np.float64)
    if a.ndim != 1:
        raise ValueError(f"Parameter vector 'a' must be one dimensional, but a.shape = {a.shape}.")
    if np.min(a) <= 0:
        raise ValueError("All parameters must be greater than 0")
    return a


def _shares(x: object, alpha: TracedArray) -> Array:
    """Points of the simplex, along the first axis, with the last share where it was left out."""
    shares = of_reals(x).astype(np.float64)
    if shares.ndim and shares.shape[0] + 1 == alpha.shape[0]:
        shares = np.concatenate([shares, 1.0 - np.sum(shares, axis=0, keepdims=True)], axis=0)
    if not shares.ndim or shares.shape[0] != alpha.shape[0]:
        raise ValueError(
            "Vector 'x' must have either the same number of entries as, or one entry fewer than, parameter vector"
            f" 'a', but alpha.shape = {alpha.shape} and x.shape = {shares.shape}."
        )
    if np.min(shares) < 0 or np.max(shares) > 1:
        raise ValueError("Each entry in 'x' must be between zero and one.")
    if np.any((shares == 0) & (alpha < 1).reshape((-1, *(1,) * (shares.ndim - 1)))):
        raise ValueError("Each entry in 'x' must be greater than zero if its alpha is less than one.")
    if np.any(np.abs(np.sum(shares, axis=0) - 1.0) > 10e-10):
        raise ValueError("The input vector 'x' must lie within the normal simplex.")
    return shares


def dirichlet(name: str, *args: object, **keywords: object) -> Array:
    """Density of Dirichlet's distribution, or its mean, variance or entropy."""
    return {"pdf": _dirichlet_pdf, "logpdf": _dirichlet_logpdf, "mean": _mean, "var": _variance, "entropy": _dirichlet_entropy}[name](
        *args, **keywords
    )


def _log_norm(a: TracedArray) -> TracedArray:
    return np.sum(sc.gammaln(a)) - sc.gammaln(np.sum(a))


def _dirichlet_logpdf(x: object, alpha: object) -> Array:
    a = _concentrations(alpha)
    shares = _shares(x, a)
    powers = sc.xlogy((a - 1.0).reshape((-1, *(1,) * (shares.ndim - 1))), shares)
    return as_scalar(np.sum(powers, axis=0) - _log_norm(a))


def _dirichlet_pdf(x: object, alpha: object) -> Array:
    return as_scalar(np.exp(traced(_dirichlet_logpdf(x, alpha))))


def _mean(alpha: object) -> Array:
    a = _concentrations(alpha)
    return as_scalar(np.squeeze(a / np.sum(a)))


def _variance(alpha: object) -> Array:
    a = _concentrations(alpha)
    total = np.sum(a)
    return as_scalar(np.squeeze(a * (total - a) / (total * total * (total + 1.0))))


def _dirichlet_entropy(alpha: object) -> Array:
    a = _concentrations(alpha)
    total = np.sum(a)
    return as_scalar(_log_norm(a) + (total - a.shape[0]) * sc.psi(total) - np.sum((a - 1.0) * sc.psi(a)))
