"""The old spelling of recorded arrays: `Variable`.

Source: torch's page ``torch.autograd``, section "Variable (deprecated)".
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ..errors import InputError, failure, flag, warn
from .arrays.recorded_array import RecordedArray, Version, array_kind_of, new_array, tensor


def Variable(  # noqa: N802 - torch's name
    data: object,
    requires_grad: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    volatile: bool | None = None,  # noqa: FBT001 - torch's signature
) -> RecordedArray:
    """Make a recorded array (old name: write `fdiff.autograd.tensor`).

    Parameters
    ----------
    data : RecordedArray or array_like
        The numbers. The memory of a recorded array, or of an ndarray, is shared as in torch.
    requires_grad : bool
        Whether operations on the array are recorded.
    volatile : bool, optional
        Raises an error. It had no effect when torch removed it.

    Returns
    -------
    RecordedArray
        A leaf.

    Raises
    ------
    InputError
        If `volatile` is given.
    DtypeError
        If `requires_grad` is true for a dtype that has no gradients.

    Warns
    -----
    DeprecationWarning
        Always. The warning says what to write.

    References
    ----------
    ``torch.autograd.Variable``.

    Examples
    --------
    >>> import numpy as np
    >>> import warnings
    >>> import fdiff.autograd
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     x = fdiff.autograd.Variable(np.ones(2), requires_grad=True)
    >>> np.sum(x * 3.0).backward()
    >>> x.grad
    tensor([3., 3.])
    """
    call = "fdiff.autograd.Variable"
    if volatile is not None:
        fact = "`volatile` has been removed."
        raise failure(InputError, call, fact, "Write `with fdiff.autograd.no_grad():` instead.")
    requires_grad = flag(requires_grad, "requires_grad", call)
    option = ", requires_grad=True" * requires_grad
    warn(
        f"{call} is deprecated: write fdiff.autograd.tensor(data{option}), which copies its data.",
        DeprecationWarning,
    )
    if isinstance(data, RecordedArray):
        data = data.detach()
        return data.requires_grad_(requires_grad) if requires_grad else data
    if isinstance(data, np.ndarray) and data.dtype.isnative and data.dtype.kind in "fc":
        return new_array(data, array_kind_of(data, requires_grad), None, Version())
    return tensor(data, requires_grad=requires_grad)
