"""Fitted parameters with their errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, RankWarning, failure, shown, warn
from ..functional.operators.jacobians import jacobian
from ..lazy_attributes import cached_property
from .covariance import NormalInverse
from .function_wrappers import raveled, with_arguments

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult


def _scaled(variance: float, entries: np.ndarray) -> np.ndarray:
    """Entries times the variance of the residuals; infinite ones stay, even if that is zero."""
    finite = np.isfinite(entries) & np.isfinite(variance)
    return np.multiply(variance, entries, out=np.full_like(entries, np.inf), where=finite)


class Fit:
    """Fitted parameters, and how certain they are.

    Errors follow from the Jacobian at the solution, as is usual in nonlinear regression: they hold
    where the model is nearly linear within them. A parameter at a bound counts as free.

    Attributes
    ----------
    x : ndarray
        The parameters.
    cost : float
        Half the sum of squares, weighted.
    jac : ndarray or csr_array
        Jacobian of the weighted residuals.
    covariance : ndarray
        Of the parameters. Without ``absolute_sigma`` it is scaled by the variance of the residuals.
    stderr : ndarray
        Standard errors. They are infinite where the data do not determine a parameter.
    correlation : ndarray
        The covariance divided by the standard errors.
    scipy : scipy.optimize.OptimizeResult
        What SciPy returned.

    References
    ----------
    G. A. F. Seber and C. J. Wild, "Nonlinear Regression", Wiley 1989, section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.optimize import least_squares
    >>> t = np.linspace(0.0, 3.0, 20)
    >>> data = 2.0 * np.exp(-0.7 * t) + 0.01 * np.cos(9.0 * t)
    >>> fit = least_squares(lambda p, t: p[0] * np.exp(-p[1] * t) - data, [1, 1], args=(t,))
    >>> np.round(fit.x, 2), np.round(fit.stderr, 3)
    (array([2. , 0.7]), array([0.005, 0.003]))
    >>> lower, upper = fit.interval(0.95)
    >>> bool(lower[1] < 0.7 < upper[1])
    True
    >>> lower, upper = fit.band(lambda p, t: p[0] * np.exp(-p[1] * t), t)
    >>> lower.shape
    (20,)
    """

    def __init__(
        self, result: OptimizeResult, *, absolute: bool, call: str, names: Sequence[str] = ()
    ) -> None:
        self.scipy, self._call, self._names = result, call, names
        self.x, self.cost, self.jac = result.x, float(result.cost), result.jac
        free = self.jac.shape[0] - self.x.size
        self._degrees = np.inf if absolute else max(free, 0)
        self._variance = 1.0 if absolute else 2.0 * self.cost / free if free > 0 else np.inf

    def __repr__(self) -> str:
        rows = [
            f"x[{k}] = {x:.6g} ± {e:.2g}"
            for k, (x, e) in enumerate(zip(self.x[:10], self.stderr[:10], strict=True))
        ]
        more = [f"and {self.x.size - 10} more"] if self.x.size > 10 else []
        return f"<fdiff.optimize.Fit, cost {self.cost:.6g}: {', '.join(rows + more)}>"

    @cached_property
    def _inverse(self) -> NormalInverse:
        """The inverse of ``J' J``; warns of parameters that the data do not determine."""
        inverse = NormalInverse(self.jac)
        names = self._names or [f"x[{k}]" for k in range(self.x.size)]
        if lost := [name for name, no in zip(names, inverse.undetermined, strict=True) if no]:
            which = ", ".join(lost[:6]) + (f" and {len(lost) - 6} more" if len(lost) > 6 else "")
            fact = f"the data do not determine {which}: their variances are infinite."
            way = "Fix one of them, or measure at points where their effects differ."
            warn(f"{self._call}: {fact}\n{way}", RankWarning)
        return inverse

    @cached_property
    def covariance(self) -> np.ndarray:
        return _scaled(self._variance, self._inverse.matrix())

    @cached_property
    def stderr(self) -> np.ndarray:
        return np.sqrt(_scaled(self._variance, self._inverse.diagonal()))

    @cached_property
    def correlation(self) -> np.ndarray:
        scale = np.where(np.isfinite(self.stderr), self.stderr, np.nan)
        return self.covariance / np.outer(scale, scale)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the confidence intervals of the parameters, one by one."""
        half = self._quantile(level, "interval") * self.stderr
        return self.x - half, self.x + half

    def band(
        self, f: Callable[..., object], x: object, level: float = 0.95
    ) -> tuple[np.ndarray, np.ndarray]:
        """The confidence band of a curve ``f(parameters, x)``; new data scatter more widely.

        The ends have the shape of the values.
        """
        model = with_arguments(f, (x,))
        values = np.asarray(model(self.x))
        slopes = np.asarray(jacobian(raveled(model))(self.x))
        weighted = self._inverse @ np.ascontiguousarray(slopes.T)
        variance = _scaled(self._variance, np.sum(slopes.T * weighted, axis=0))
        lost = self._inverse.undetermined
        variance[np.any(slopes[:, lost] != 0.0, axis=1)] = np.inf
        half = self._quantile(level, "band") * np.sqrt(variance).reshape(values.shape)
        return values - half, values + half

    def _quantile(self, level: float, name: str) -> float:
        """Student's t, for a part `level` of all values."""
        if not 0.0 < level < 1.0:
            fact = f"level must lie between 0 and 1, and is {shown(level)}."
            raise failure(InputError, f"Fit.{name}", fact, "Write 0.95 for 95 %.")
        place = 0.5 + 0.5 * level
        if self._degrees == 0:
            return np.inf
        if np.isinf(self._degrees):
            return float(scipy.special.ndtri(place))
        return float(scipy.special.stdtrit(self._degrees, place))
