"""`gradcheck`: compare derivatives with ones measured by complex steps or finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np

from ..dispatch.arguments import Function, called
from ..errors import DtypeError, GradcheckError, failure
from ..tracebacks import public
from .input_checks import check_inputs
from .jacobians import jacobian
from .options import check_callable
from .products import vjp

Arrays = tuple[np.ndarray, ...]
Rows = tuple[Arrays, ...] | Arrays


def _flat_outputs(f: Function, inputs: Arrays) -> list[np.ndarray]:
    out = f(*[x[()] for x in inputs])  # a scalar for an array without axes
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
        columns.append([np.imag(o) / 1e-100 for o in outs])
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


@public
def gradcheck(
    f: Function,
    inputs: object,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
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
    points = _points(inputs, f, "gradcheck")
    tolerance, call = Tolerance(eps, atol, rtol), called("gradcheck", f)
    return _compare(f, points, tolerance, call, raise_exception=raise_exception)


class Tolerance(NamedTuple):
    """The step of the differences, and how far derivatives may be apart."""

    eps: float
    atol: float
    rtol: float


def _points(inputs: object, f: Function, name: str) -> Arrays:
    """Copies of the inputs, which must be float64: differences are too coarse for float32."""
    check_callable(f, name)
    args, _ = check_inputs(inputs, f, name)
    points = tuple(np.array(a, copy=True) for a in args)
    for point in points:
        if point.dtype != np.float64:
            fact = f"inputs must be float64 to measure with, not {point.dtype}."
            raise failure(DtypeError, called(name, f), fact, "Convert them with x.astype(float).")
    return points


def _compare(
    f: Function, points: Arrays, tolerance: Tolerance, call: str, *, raise_exception: bool
) -> bool:
    numeric = [measured(f, points, i, tolerance.eps) for i in range(len(points))]
    for mode in ("reverse", "forward"):
        found = cast("Rows", jacobian(f, points, mode=mode))
        rows = found if isinstance(found[0], tuple) else (cast("Arrays", found),)
        for i, blocks in enumerate(numeric):
            for o, block in enumerate(blocks):
                analytic = np.reshape(rows[o][i], block.shape)
                close = np.allclose(
                    analytic, block, rtol=tolerance.rtol, atol=tolerance.atol, equal_nan=True
                )
                if close:
                    continue
                if not raise_exception:
                    return False
                fact = f"Jacobian mismatch for output {o} with respect to input {i} in {mode} mode,"
                shown = f"{fact}\nnumerical: {block}\nanalytical: {analytic}"
                raise failure(GradcheckError, call, shown)
    return True


@public
def gradgradcheck(
    f: Function,
    inputs: object,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Compare second derivatives of `f` with measured ones: `gradcheck` of its vector products.

    The vector is drawn at random, the same at each call.

    Parameters
    ----------
    f, inputs, eps, atol, rtol, raise_exception
        As for `gradcheck`.

    Returns
    -------
    bool
        Whether all entries agree. Costs two gradients of `f` for each entry of the inputs.

    Raises
    ------
    GradcheckError, InputError
        As `gradcheck` does.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.gradgradcheck(lambda x: np.sin(x) * x, np.array([0.5, 2.0]))
    True
    """
    points = _points(inputs, f, "gradgradcheck")
    rng = np.random.default_rng(0)
    shapes = [out.shape for out in _flat_outputs(f, points)]
    v = tuple(rng.normal(size=shape) for shape in shapes)
    tolerance, call = Tolerance(eps, atol, rtol), called("gradgradcheck", f)
    return _compare(_pull_back(f, v), points, tolerance, call, raise_exception=raise_exception)


def _pull_back(f: Function, v: Arrays) -> Callable[..., object]:
    """The vector-Jacobian product with `v`, as a function of the inputs alone."""

    def product(*inputs: object) -> object:
        if any(isinstance(x, np.ndarray) and x.dtype.kind == "c" for x in inputs):
            raise TypeError(
                "fdiff differentiates real arrays; the complex step is for plain functions"
            )
        return vjp(f, inputs, v)[1]

    return product
