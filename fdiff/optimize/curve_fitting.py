"""Curves through data, by SciPy's `curve_fit`, with exact Jacobians and covariances.

Source: G. A. F. Seber and C. J. Wild, "Nonlinear Regression", Wiley 1989, chapter 5.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from inspect import Signature, signature
from typing import TYPE_CHECKING, Any, cast

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, called, failure, shown
from ..foreign_errors import not_foreign
from ..functional.operators.jacobians import jacobian
from ..functional.operators.jit_programs import jit
from ..functional.options import check_callable
from ..tracebacks import public
from .bounds_checks import deviations, vector
from .fit_results import Fit
from .function_wrappers import Function, packed

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Deviations = np.ndarray | None


@public
def curve_fit(
    f: Callable[..., object],
    xdata: object,
    ydata: ArrayLike,
    p0: ArrayLike | None = None,
    sigma: ArrayLike | None = None,
    absolute_sigma: bool = False,  # noqa: FBT001, FBT002 - as SciPy takes it
    check_finite: bool | None = None,  # noqa: FBT001 - as SciPy takes it
    bounds: object = (-np.inf, np.inf),
    method: str | None = None,
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    **kwargs: object,
) -> Any:
    """Fit a curve ``f(x, *parameters)`` to data, as `scipy.optimize.curve_fit` does.

    Parameters
    ----------
    f : callable
        ``f(xdata, a, b, ...)`` returns an array like `ydata`.
    xdata, ydata : array_like
        The data. `xdata` may be any object that `f` takes.
    p0 : array_like, optional
        Start. Integers are converted to float64. The default is 1 for each parameter.
    sigma : array_like, optional
        Standard deviations of `ydata`, or their covariance matrix.
    absolute_sigma : bool
        Whether `pcov` follows from `sigma` alone. By default it is scaled by the residuals.
    check_finite, bounds, method, full_output, nan_policy, **kwargs
        SciPy's.

    Returns
    -------
    popt, pcov : ndarray
        Parameters and their covariance, and more with ``full_output=True``, as from SciPy. `pcov`
        comes from the QR decomposition of the exact Jacobian at `popt`.

    Raises
    ------
    InputError
        If `jac` is given, or the parameters cannot be counted.

    Warns
    -----
    RankWarning
        If the data do not determine a parameter, whose variance is then infinite.

    References
    ----------
    NIST, "Statistical Reference Datasets: Nonlinear Regression", whose certified standard errors
    are reached to 9 digits.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.optimize import curve_fit
    >>> x = np.linspace(0.0, 1.0, 30)
    >>> y = 2.0 * np.exp(1.3 * x) + 0.05 * np.sin(40.0 * x)
    >>> popt, pcov = curve_fit(lambda x, a, b: a * np.exp(b * x), x, y, p0=[1, 1])
    >>> np.round(popt, 1), np.round(np.sqrt(np.diag(pcov)), 3)
    (array([2. , 1.3]), array([0.009, 0.006]))
    """
    call = called("curve_fit", f)
    check_callable(f, "curve_fit")
    if kwargs.get("jac") is not None:
        fact = "jac is what fdiff computes."
        raise failure(InputError, call, fact, "Leave it out, or call SciPy's curve_fit.")
    names = _parameter_names(f, p0, call)
    start = None if p0 is None else vector(np.atleast_1d(p0), "p0", call)
    if p0 is not None and np.size(p0) != len(names):
        fact = f"p0 has {np.size(p0)} entries, and the curve has {len(names)} parameters."
        raise failure(InputError, call, fact, f"Give a start for each of {', '.join(names)}.")
    sigma = deviations(sigma, call)
    if sigma is not None and sigma.size == 1:  # one for all points
        sigma = np.full(np.size(ydata), sigma.item())
    if nan_policy == "omit":
        xdata, ydata, sigma = _without_nan(np.asarray(xdata), np.asarray(ydata), sigma)
    curve = _FittedCurve(f, names)
    if start is None:  # SciPy counts the parameters, and starts within the bounds
        curve.__signature__ = signature(f)
    others = {"check_finite": check_finite, "bounds": bounds, "method": method, **kwargs}
    others["nan_policy"] = None if nan_policy == "omit" else nan_policy
    fit = cast("Function", scipy.optimize.curve_fit)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Covariance of the parameters could not")
        popt, _, *more = fit(
            curve, xdata, ydata, start, sigma, absolute_sigma, jac=curve.jac, full_output=True,
            **others,
        )  # fmt: skip
    pcov = curve.fit(popt, np.asarray(ydata), sigma, call, absolute=absolute_sigma).covariance
    return (popt, pcov, *more) if full_output else (popt, pcov)


class _FittedCurve:
    """A curve and its derivatives by the parameters, compiled."""

    __signature__: Signature

    def __init__(self, f: Function, names: list[str]) -> None:
        self.names = names
        self._model, self._slopes = jit(packed(f)), jacobian(packed(f))
        self._x: object = None  # as SciPy has converted it

    def __call__(self, x: object, *parameters: float) -> Any:
        self._x = x
        return self._model(np.array(parameters, np.float64), x)

    def jac(self, x: object, *parameters: float) -> np.ndarray:
        slopes: object = self._slopes(np.array(parameters, np.float64), x)
        return np.reshape(slopes, (-1, len(self.names)))

    def fit(
        self, popt: np.ndarray, y: np.ndarray, sigma: Deviations, call: str, *, absolute: bool
    ) -> Fit:
        """The fitted parameters with their errors."""
        rest = _whitened(np.ravel(self(self._x, *popt) - y)[:, None], sigma)
        slopes = _whitened(self.jac(self._x, *popt), sigma)
        result = scipy.optimize.OptimizeResult(x=popt, cost=0.5 * np.sum(rest**2), jac=slopes)
        return Fit(result, absolute=absolute, call=call, names=self.names)


def _parameter_names(f: Callable[..., object], p0: ArrayLike | None, call: str) -> list[str]:
    """The names of the parameters, as far as `f` tells them."""
    try:
        takes = [*signature(f).parameters.values()][1:]
    except not_foreign(TypeError, ValueError):
        takes = []
    names = [p.name for p in takes if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    counted = names and not any(
        p.kind is p.VAR_POSITIONAL or p.default is not p.empty for p in takes
    )
    if p0 is not None and not counted:
        count = np.size(p0)
        return names if len(names) == count else [f"p[{k}]" for k in range(count)]
    if not names:
        fact = f"the parameters of {shown(f)} cannot be counted."
        raise failure(InputError, call, fact, "Give a start: p0=[1.0, 1.0] for two parameters.")
    return names


def _without_nan(
    x: np.ndarray, y: np.ndarray, sigma: Deviations
) -> tuple[np.ndarray, np.ndarray, Deviations]:
    """The data without the points at which one is no number, as SciPy omits them."""
    lost = np.isnan(x)
    kept = ~(lost.any(axis=tuple(range(lost.ndim - 1))) | np.isnan(y))
    if sigma is not None:
        sigma = sigma[kept] if sigma.ndim < 2 else sigma[kept][:, kept]
    return x[..., kept], y[kept], sigma


def _whitened(rows: np.ndarray, sigma: Deviations) -> np.ndarray:
    """Rows of residuals or their Jacobian, divided by standard deviations."""
    if sigma is None:
        return rows
    if sigma.ndim < 2:
        return rows / np.reshape(sigma, (-1, 1))
    return scipy.linalg.solve_triangular(np.linalg.cholesky(sigma), rows, lower=True)
