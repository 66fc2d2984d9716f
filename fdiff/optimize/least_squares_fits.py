"""Nonlinear least squares by SciPy, with exact Jacobians and errors of the parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, called, choice, failure
from ..functional.operators.jacobians import jacobian
from ..functional.operators.jit_programs import jit
from ..functional.options import check_callable
from ..process.progress import Stage
from ..tracebacks import public
from .bounds_checks import deviations, vector
from .counted_functions import Evaluation, SparseEvaluation, compile_or_call, sparse_jacobian
from .fit_results import Fit
from .function_wrappers import Function, divided, raveled, with_arguments
from .solver_progress import iterations_shown

SMALL = 1000  # entries up to which it is dense in any case


@public
def least_squares(
    residual: Callable[..., object],
    x0: object,
    *,
    args: tuple[object, ...] = (),
    sparse: object = "auto",
    sigma: object = None,
    absolute_sigma: bool = False,
    progress: object = None,
    **scipy_options: object,
) -> Fit:
    """Minimise a sum of squares, and estimate how certain the parameters are.

    Parameters
    ----------
    residual : callable
        ``residual(x, *args)`` returns an array, the differences between model and data.
    x0 : array_like
        Start, a vector. Integers are converted to float64.
    args : tuple
        Further arguments of `residual`.
    sparse : bool or "auto"
        Whether the Jacobian is sparse: SciPy then solves by ``method="trf"`` and ``"lsmr"``. By
        default it is if less than a tenth of its entries are there.
    sigma : float or array_like, optional
        Standard deviations of the data, by which residuals are divided.
    absolute_sigma : bool
        Whether errors follow from `sigma` alone. By default they are scaled by the residuals.
    progress : {None, False, "tqdm"}
        None shows a line after two seconds.
    **scipy_options
        Options of `scipy.optimize.least_squares`: `bounds`, `method`, `loss`, `ftol` and others.

    Returns
    -------
    Fit
        Parameters, errors, and SciPy's result.

    Raises
    ------
    InputError
        If `x0` is no vector, or an option is unknown.
    StructureError
        Under ``sparse=True``, if the structure of the Jacobian is unknown and large.

    Notes
    -----
    Residuals and their Jacobian are compiled, and evaluated once at each point.

    References
    ----------
    G. A. F. Seber and C. J. Wild, "Nonlinear Regression", Wiley 1989, chapter 5.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.optimize import least_squares
    >>> fit = least_squares(lambda x: np.array([x[0] - 1.0, x[1] - x[0] ** 2, x[1] - 1.1]), [0, 0])
    >>> np.round(fit.x, 2)
    array([1.03, 1.08])
    """
    call = called("least_squares", residual)
    check_callable(residual, "least_squares")
    x = vector(x0, "x0", call)
    if "jac" in scipy_options:
        fact = "jac is what fdiff computes."
        raise failure(InputError, call, fact, "Leave it out, or call SciPy's least_squares.")
    f = raveled(divided(with_arguments(residual, args), deviations(sigma, call)))
    with Stage("preparing", call):
        values, slopes = _compiled_residual(f, x, call, sparse, scipy_options)
    options, minimise = dict(scipy_options), cast("Function", scipy.optimize.least_squares)
    jac: Callable[..., object] = slopes
    if isinstance(slopes, SparseEvaluation):
        options = {"method": "trf", "tr_solver": "lsmr", **options}
        jac = slopes.matrix
    with iterations_shown(progress, call) as show:
        values.shown = lambda count, rest: show(count, 0.5 * float(rest @ rest))
        result = minimise(lambda x: values(x).copy(), x, jac=jac, **options)
    return Fit(result, absolute=absolute_sigma, call=call)


def _compiled_residual(
    f: Function, x: np.ndarray, call: str, sparse: object, options: dict[str, object]
) -> tuple[Evaluation, Evaluation]:
    """Residuals and their Jacobian, sparse if asked for, or if few entries are there."""
    if not isinstance(sparse, bool):
        choice(sparse, ("auto",), "sparse", call, "Write True or False, or leave it out.")
    value, slopes = jit(f), None
    compile_or_call(value, x)
    entries = np.size(value(x)) * x.size
    takes_sparse = options.get("method") != "lm" and options.get("tr_solver") != "exact"
    if takes_sparse and sparse is True:
        slopes = jacobian(f, sparse=True)
    elif takes_sparse and sparse is not False and entries > SMALL:
        slopes = sparse_jacobian(f, entries, x, format="csr")
    if slopes is not None:
        return Evaluation(value), SparseEvaluation(slopes, (x,), call)
    dense = jacobian(f)
    compile_or_call(dense, x)
    return Evaluation(value), Evaluation(dense)
