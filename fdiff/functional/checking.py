"""Compare derivatives with measured ones: complex step where `f` allows it, else differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import GradcheckError, InputError, message, user_line
from ..program import Function
from .calls import check_callable
from .contract import check_inputs
from .first import jacobian, vjp

Arrays = tuple[np.ndarray, ...]


def _flat_outputs(f: Function, inputs: Arrays) -> list[np.ndarray]:
    out = f(*inputs)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def _complex_step(f: Function, inputs: Arrays, i: int) -> list[np.ndarray] | None:
    """Columns ``imag(f(x + ih)) / h``; None if `f` does not take complex numbers all the way.

    Squire and Trapp, "Using complex variables to estimate derivatives of real functions",
    SIAM Review 40(1), 1998. Functions that look at the real part only (comparisons, `abs`) would
    be measured wrongly, so one column is compared with a central difference first.
    """
    columns = []
    for k in range(inputs[i].size):
        moved = list(inputs)
        moved[i] = inputs[i].astype(complex)
        moved[i].ravel()[k] += 1e-100j
        try:
            with np.errstate(all="ignore"):
                outs = _flat_outputs(f, tuple(moved))
        except (TypeError, ValueError, np.linalg.LinAlgError):
            return None
        if not all(np.iscomplexobj(o) for o in outs):
            return None
        columns.append([o.imag / 1e-100 for o in outs])
    return _stack(columns, inputs[i])


def _central(f: Function, inputs: Arrays, i: int, eps: float) -> list[np.ndarray]:
    """Columns ``(f(x + eps) - f(x - eps)) / 2 eps``."""
    columns = []
    for k in range(inputs[i].size):
        sides = []
        for sign in (1.0, -1.0):
            moved = list(inputs)
            moved[i] = inputs[i].copy()
            moved[i].reshape(-1)[k] += sign * eps
            sides.append(_flat_outputs(f, tuple(moved)))
        columns.append([(hi - lo) / (2.0 * eps) for hi, lo in zip(*sides, strict=True)])
    return _stack(columns, inputs[i])


def _stack(columns: Sequence[Sequence[np.ndarray]], x: np.ndarray) -> list[np.ndarray]:
    """Columns as Jacobian blocks, one for each output, flat in the input."""
    return [np.stack(parts, axis=-1) for parts in zip(*columns, strict=True)] if columns else []


def measured(f: Function, inputs: Arrays, i: int, eps: float) -> list[np.ndarray]:
    """Jacobian of every output with respect to input `i`, measured.

    Complex steps are exact to the last bits, but wrong for a function that is not analytic (one
    that uses `abs`, comparisons or conjugates): they are believed where they agree with central
    differences to the accuracy of those.
    """
    differences = _central(f, inputs, i, eps)
    steps = _complex_step(f, inputs, i)
    if steps is None or len(steps) != len(differences):
        return differences
    for step, difference in zip(steps, differences, strict=True):
        if not np.allclose(step, difference, rtol=1e-3, atol=1e-5, equal_nan=True):
            return differences
    return steps


def gradcheck(
    f: Function, inputs: object, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True
) -> bool:
    """Compare the Jacobians of `f`, in both modes, with measured ones.

    Parameters
    ----------
    f : callable
        Function of arrays that returns an array or a tuple of arrays.
    inputs : array or tuple of arrays
        Where to check, in float64.
    eps : float
        Step of the central differences; complex steps are used where `f` is analytic.
    atol, rtol : float
        Allowed absolute and relative differences.
    raise_exception : bool
        Raise instead of returning False.

    Returns
    -------
    bool
        Whether all entries agree. Costs two evaluations of `f` for each entry of the inputs.

    Raises
    ------
    GradcheckError
        If an entry differs; the message shows both Jacobians.

    References
    ----------
    Squire and Trapp, "Using complex variables to estimate derivatives of real functions",
    SIAM Review 40(1), 1998.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.gradcheck(lambda x: np.sin(x) * x, np.array([0.5, 2.0]))
    True
    """
    check_callable(f, "gradcheck")
    args, _ = check_inputs(inputs, "gradcheck")
    points = tuple(np.array(a, copy=True) for a in args)
    for point in points:
        if point.dtype != np.float64:
            raise InputError(message("gradcheck", f"inputs must be float64 to measure with, not {point.dtype}.", "", user_line()))
    for mode in ("reverse", "forward"):
        found = jacobian(f, points, mode=mode)
        rows = found if isinstance(found[0], tuple) else (found,)  # type: ignore[index]
        for i in range(len(points)):
            for o, numeric in enumerate(measured(f, points, i, eps)):
                analytic = np.reshape(rows[o][i], numeric.shape)  # type: ignore[index]
                if not np.allclose(analytic, numeric, rtol=rtol, atol=atol, equal_nan=True):
                    if not raise_exception:
                        return False
                    raise GradcheckError(
                        message(
                            "gradcheck",
                            f"Jacobian mismatch for output {o} with respect to input {i} in {mode} mode,\n"
                            f"numerical: {numeric}\nanalytical: {analytic}", "", user_line(),
                        )
                    )  # fmt: skip
    return True


def gradgradcheck(
    f: Function, inputs: object, *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True
) -> bool:
    """Compare second derivatives of `f` with measured ones: `gradcheck` of its vector products.

    Parameters, result and errors are those of `gradcheck`; the vector is drawn at random, the same
    at each call.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.gradgradcheck(lambda x: np.sin(x) * x, np.array([0.5, 2.0]))
    True
    """
    check_callable(f, "gradgradcheck")
    args, _ = check_inputs(inputs, "gradgradcheck")
    points = tuple(np.asarray(a) for a in args)
    rng = np.random.default_rng(0)
    out = f(*points)
    v = tuple(rng.normal(size=np.shape(o)) for o in out) if isinstance(out, tuple) else rng.normal(size=np.shape(out))
    pulled = _pull_back(f, v)
    return gradcheck(pulled, points, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def _pull_back(f: Function, v: object) -> Callable[..., tuple[object, ...]]:
    """The vector product as a function of the inputs alone."""

    def product(*inputs: object) -> tuple[object, ...]:
        if any(np.iscomplexobj(x) for x in inputs):
            raise TypeError("fdiff differentiates real arrays; the complex step is for plain functions")
        return vjp(f, inputs, v)[1]  # type: ignore[index]

    return product


