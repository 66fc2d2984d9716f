"""Settings of backward passes of one thread: use of other threads, layout of gradients."""

from __future__ import annotations

from typing import ClassVar

from ...errors import flag
from ..modes import SetMode
from ..thread_state import state


class EngineSetting(SetMode):
    """A function that changes a setting of the engine."""

    setting: ClassVar[str]  # of `thread_state.state`

    def _current(self) -> dict[str, object]:
        return {self.setting: getattr(state, self.setting)}

    def _enter(self) -> None:
        setattr(state, self.setting, self.mode)


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
