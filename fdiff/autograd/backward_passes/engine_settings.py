"""Settings of backward passes of one thread: use of other threads, layout of gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import ClassVar, ParamSpec, TypeVar, cast

from ...errors import InputError, failure, flag
from ...foreign_errors import wraps
from ..argument_checks import require_function
from ..thread_state import state

P = ParamSpec("P")
R = TypeVar("R")


class EngineSetting:
    """A function that changes a setting; also a context that restores it at the end, and a
    decorator.
    """

    setting: ClassVar[str]  # of `thread_state.state`

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._before: bool = getattr(state, self.setting)
        setattr(state, self.setting, on)

    def __enter__(self) -> None:
        pass  # it was set when this was made, as in torch

    def __exit__(self, *error: object) -> None:
        setattr(state, self.setting, self._before)

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """The function, each call of which runs with this setting."""
        setattr(state, self.setting, self._before)  # a decorator sets nothing where it stands
        name, on = f"{type(self).__name__}()", self._on
        make = cast("Callable[[bool], EngineSetting]", type(self))
        require_function(function, "what is decorated", name)
        if not inspect.isroutine(function) or inspect.iscoroutinefunction(function):
            fact = "a class, or an asynchronous function, was decorated."
            raise failure(InputError, name, fact, "Write `with` inside the function.")

        @wraps(function)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            with make(on):
                return function(*args, **keywords)

        return call


class set_multithreading_enabled(EngineSetting):  # noqa: N801 - as in torch
    """Whether backward passes of this thread may use other threads.

    Parameters
    ----------
    mode : bool
        With False, compiled kernels of a backward pass run on the calling thread alone.

    Raises
    ------
    fdiff.errors.InputError
        If `mode` is not a boolean.

    Notes
    -----
    A pass always walks the graph in the thread that calls it. Only loops of compiled kernels use
    other threads (``FDIFF_NUM_THREADS`` sets their number). While a pass with False runs, kernels
    of other threads also run on one thread each. Results are the same. Threads of the BLAS that
    NumPy calls are not changed.

    References
    ----------
    ``torch.autograd.grad_mode.set_multithreading_enabled``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor([1.0, 2.0], requires_grad=True)
    >>> with autograd.set_multithreading_enabled(False):
    ...     np.sum(x**2).backward()
    >>> x.grad
    tensor([2., 4.])
    """

    setting = "multithreading"

    def __init__(self, mode: bool) -> None:  # noqa: FBT001 - as in torch
        way = "Write set_multithreading_enabled(bool(mode))."
        super().__init__(on=flag(mode, "mode", "fdiff.autograd.set_multithreading_enabled", way))


class enforce_grad_layout_policy(EngineSetting):  # noqa: N801 - as in torch
    """Whether a first gradient is copied if its layout differs from its parameter's.

    Parameters
    ----------
    enable : bool
        With False, the array that a backward pass computed becomes ``grad`` with its own strides
        and without a copy, if nothing else refers to it.

    Raises
    ------
    fdiff.errors.InputError
        If `enable` is not a boolean.

    References
    ----------
    ``torch.autograd.grad_mode.enforce_grad_layout_policy``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd as autograd
    >>> x = autograd.tensor(np.asfortranarray(np.ones((2, 3))), requires_grad=True)
    >>> with autograd.enforce_grad_layout_policy(False):
    ...     np.sum(np.exp(x)).backward()
    >>> x.grad.shape
    (2, 3)
    """

    setting = "keeps_layouts"

    def __init__(self, enable: bool = True) -> None:  # noqa: FBT001, FBT002 - as in torch
        way = "Write enforce_grad_layout_policy(bool(enable))."
        super().__init__(
            on=flag(enable, "enable", "fdiff.autograd.enforce_grad_layout_policy", way)
        )
