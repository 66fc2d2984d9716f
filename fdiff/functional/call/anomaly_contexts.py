"""`detect_anomaly`, `set_detect_anomaly` and `debug_nans`: contexts that look for NaN and infinity.

`anomaly_checked_calls` runs the calls inside such a context; `anomaly_reports` words their errors.
Source: torch's page ``torch.autograd``, section "Debugging and anomaly detection".
"""

from __future__ import annotations

from contextlib import ContextDecorator
from copy import copy
from typing import Self

from ...errors import flag
from ...foreign_errors import whole_exit
from ...process import anomaly_watch
from ...process.anomaly_watch import AnomalyMode
from ...trace.trace_stack import ANOMALIES, occupied
from ...tracebacks import public_class


class _AnomalyContext(ContextDecorator):
    """A context that puts an anomaly mode in force until it ends."""

    def __init__(self, mode: AnomalyMode) -> None:
        self._mode = mode

    def __enter__(self) -> Self:
        try:
            anomaly_watch.enter(self._mode)
        except BaseException:
            anomaly_watch.leave(self._mode)
            raise
        return self

    @whole_exit
    def __exit__(self, *_: object) -> None:
        anomaly_watch.leave(self._mode)

    def _recreate_cm(self) -> Self:
        """The context of one call of a decorated function."""
        context = copy(self)
        context._mode = copy(self._mode)
        return context


def _truth(value: object, role: str, call: str) -> bool:
    """The option, checked: a function means that the parentheses of a decorator are missing."""
    way = f"As a decorator it is written with parentheses: @{call}(...)."
    return flag(value, role, f"fdiff.autograd.{call}", way)


def _close_fast_path(watching: bool) -> None:  # noqa: FBT001 - as listeners are called
    """Close the fast paths while a mode is in force, and open them when it ends."""
    if watching:
        occupied[ANOMALIES] = None
    else:
        occupied.pop(ANOMALIES, None)


anomaly_watch.listeners.append(_close_fast_path)


@public_class
class detect_anomaly(_AnomalyContext):  # noqa: N801 - torch's name
    """Find the operation that makes a NaN or an infinity which reaches a result.

    Inside the context, a call of an operator (`grad`, `jacobian`, `jit`, ...) or `backward` of
    recorded arrays raises `AnomalyError` if the value of the function or the result contains a NaN
    or an infinity. The error names the operation, or its partial derivative, that made the first
    such value from finite values; the user's line of the forward operation; the entries; and the
    values around them. Values that a `numpy.where` discards do not count, because derivatives are
    exact there. (torch looks for NaN in backward passes only.)

    Parameters
    ----------
    check_nan : bool
        If False, NaN is not looked for; errors in a backward pass still get a note with the forward
        line.

    Raises
    ------
    AnomalyError
        In the calls inside. It is a `RuntimeError`, as torch's, and a `FloatingPointError`.

    Notes
    -----
    It applies to the whole process, as in torch. A call costs its own time and one interpretation
    of the function. If an anomaly is found, the function is traced anew and its derivative is
    interpreted operation by operation.

    In code that Numba compiled, each call of a function made by `njit` calls Python, and raises the
    error. A call of a function made by `cfunc` does so too, and its `check` raises the error; with
    ``misses="raise"`` it never calls Python, and is not watched.

    References
    ----------
    ``torch.autograd.detect_anomaly``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> with fdiff.autograd.detect_anomaly():  # doctest: +IGNORE_EXCEPTION_DETAIL
    ...     fdiff.grad(lambda x: np.sum(np.sqrt(x)))(np.array([0.0, 1.0]))
    Traceback (most recent call last):
    fdiff.errors.AnomalyError: grad(<lambda>): Function 'SqrtBackward0' returned inf ...
    """

    def __init__(self, check_nan: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        super().__init__(AnomalyMode(check_nan=_truth(check_nan, "check_nan", "detect_anomaly")))


@public_class
class set_detect_anomaly(_AnomalyContext):  # noqa: N801 - torch's name
    """Switch the detection of anomalies on or off; as a context, until its end.

    Parameters
    ----------
    mode : bool
        Whether to look for anomalies.
    check_nan : bool
        As for `detect_anomaly`.

    References
    ----------
    ``torch.autograd.set_detect_anomaly``.

    Examples
    --------
    >>> import fdiff
    >>> with fdiff.autograd.set_detect_anomaly(True):
    ...     pass
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:  # noqa: FBT001, FBT002 - torch's signature
        call = "set_detect_anomaly"
        check, on = _truth(check_nan, "check_nan", call), _truth(mode, "mode", call)
        super().__init__(AnomalyMode(check_nan=check, enabled=on))
        anomaly_watch.set_mode(self._mode)

    def __enter__(self) -> Self:
        anomaly_watch.hand_to_context(self._mode)
        return self

    def _recreate_cm(self) -> Self:
        return self  # `__init__` has set the mode


@public_class
class debug_nans(_AnomalyContext):  # noqa: N801 - JAX's name
    """Like `detect_anomaly`, but also for values that the function discards.

    An operation that makes a NaN or an infinity raises an error even if `numpy.where` takes the
    other branch, or nothing reads the result, as with ``jax.debug_nans``.

    Raises
    ------
    AnomalyError
        In the calls inside.

    References
    ----------
    ``jax.debug_nans``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> with fdiff.debug_nans():
    ...     print(fdiff.grad(np.sin)(0.0))
    1.0
    """

    def __init__(self) -> None:
        super().__init__(AnomalyMode(discarded=True))
