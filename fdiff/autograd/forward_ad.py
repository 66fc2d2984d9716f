"""Forward mode on recorded arrays, with the names of ``torch.autograd.forward_ad``.

A dual array is a primal with a tangent. Operations on it are recorded like all others; the tangent
of a result is computed when `unpack_dual` asks for it, by a forward sweep through the graph
(`tangent_sweep.py`). A dual array, and every result computed from it, therefore has
``requires_grad=True``. Where gradients are off, tangents are computed at once, and an array with a
tangent is a dual without a graph. Source: torch's page ``torch.autograd``, section "Forward-mode
Automatic Differentiation".
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from ..foreign_errors import uninterrupted_entry
from ..named_tuples import NamedTuple
from ..trace import TracedArray
from ..tracebacks import public, public_class
from .arrays.array_kinds import array_kind_of
from .arrays.recorded_array import RecordedArray, new_array, plain
from .backward_passes.tangent_sweep import TangentSweep, different_size
from .modes import GradientMode
from .thread_state import state

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


@public_class
class UnpackedDualTensor(NamedTuple):
    """The result of `unpack_dual`: a primal and its tangent, or None without a tangent.

    Parameters
    ----------
    primal : RecordedArray or array
        The value.
    tangent : RecordedArray, array or None
        The tangent, with the shape and dtype of `primal`.

    References
    ----------
    ``torch.autograd.forward_ad.UnpackedDualTensor``.

    Examples
    --------
    >>> import fdiff.autograd.forward_ad as forward_ad
    >>> forward_ad.unpack_dual(2.0).tangent is None
    True
    """

    primal: Any
    tangent: Any


@public
def enter_dual_level() -> int:
    """Begin forward mode in this thread, until `exit_dual_level`.

    Returns
    -------
    int
        The level, always 0, because there is one level at a time.

    Raises
    ------
    RuntimeError
        If a level is already active. Nest `fdiff.jvp` for derivatives of higher order.

    References
    ----------
    ``torch.autograd.forward_ad.enter_dual_level``.

    Examples
    --------
    >>> import fdiff.autograd.forward_ad as forward_ad
    >>> forward_ad.enter_dual_level()
    0
    >>> forward_ad.exit_dual_level()
    """
    if state.dual is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment. Nest fdiff.jvp instead."
        )
    state.dual = TangentSweep()
    return 0


@public
def exit_dual_level(*, level: int | None = None) -> None:
    """End forward mode, and forget all tangents.

    Parameters
    ----------
    level : int, optional
        The level that ends. It must be the last one.

    Raises
    ------
    RuntimeError
        If there is no such level.

    References
    ----------
    ``torch.autograd.forward_ad.exit_dual_level``.

    Examples
    --------
    >>> import fdiff.autograd.forward_ad as forward_ad
    >>> level = forward_ad.enter_dual_level()
    >>> forward_ad.exit_dual_level(level=level)
    """
    sweep: TangentSweep | None = state.dual
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is"
            " not supported."
        )
    if sweep is None:
        raise RuntimeError("Trying to exit a forward AD level, but none was entered.")
    sweep.clear()
    state.dual = None


class dual_level(GradientMode):  # noqa: N801 - as in torch
    """Context and decorator in which dual arrays can be made and unpacked.

    Raises
    ------
    RuntimeError
        If a level is entered inside another.

    References
    ----------
    ``torch.autograd.forward_ad.dual_level``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(np.array([1.0, 2.0]), np.array([1.0, 0.0]))
    ...     value, tangent = forward_ad.unpack_dual(x * x)
    >>> tangent
    tensor([2., 0.])
    """

    def _before(self) -> dict[str, object]:
        return {"dual": None}

    def _enter(self) -> None:
        enter_dual_level()

    def __enter__(self) -> int:
        super().__enter__()
        return 0

    @uninterrupted_entry
    def __exit__(self, *error: object) -> None:
        try:
            exit_dual_level()
        finally:
            GradientMode.__exit__(self, *error)  # without a call before it

    def _again(self) -> Callable[[], GradientMode]:
        return dual_level


@public
def make_dual(tensor: object, tangent: object, *, level: int | None = None) -> RecordedArray:
    """Make a dual array: it has a tangent, and the memory of `tensor` (a copy of a plain array).

    Parameters
    ----------
    tensor : RecordedArray or array
        The primal, of floating point or complex dtype.
    tangent : RecordedArray or array
        Its tangent, of the same shape.
    level : int, optional
        The level. It must be the last one.

    Returns
    -------
    RecordedArray
        The dual array. Operations on it are recorded, and may be differentiated backwards.

    Raises
    ------
    RuntimeError
        If there is no level, if the shapes differ, or if one of the arrays is already a dual array.
    InputError
        In inference mode, where arrays have no tangents. Also in a function that an operator such
        as `fdiff.vmap` traces, if one of the arrays is an argument of it.
    ValueError
        If one of the arrays is neither floating point nor complex.

    References
    ----------
    ``torch.autograd.forward_ad.make_dual``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(np.array(2.0), np.array(1.0))
    ...     forward_ad.unpack_dual(np.sin(x)).tangent
    tensor(-0.41614684)
    """
    sweep: TangentSweep | None = state.dual
    if sweep is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to"
            " enter_dual_level() first."
        )
    if state.inference:
        fact = "a dual was made in inference mode, in which nothing has a tangent."
        way = "Use no_grad, which leaves forward mode on."
        raise failure(InputError, "fdiff.autograd.forward_ad.make_dual", fact, way)
    if isinstance(tensor, TracedArray) or isinstance(tangent, TracedArray):
        fact = "an operator traces this, and a dual holds numbers."
        way = "Use fdiff.jvp there: `fdiff.vmap(lambda t: fdiff.jvp(f, (x,), (t,))[1])(tangents)`."
        raise failure(InputError, "fdiff.autograd.forward_ad.make_dual", fact, way)
    primal, moved = _recorded(tensor, "primal"), _recorded(tangent, "tangent")
    if primal.shape != moved.shape:
        raise different_size(primal.shape, moved.shape)
    if sweep.of(primal.edge_now()) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same"
            " level 0 is not supported."
        )
    if sweep.of(moved.edge_now()) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not"
            " supported."
        )
    if moved.dtype != primal.dtype:
        moved = _converted(moved, primal)
    edge = sweep.enter(primal.value, moved, primal.edge_now() if state.grad_enabled else None)
    return new_array(primal.value, array_kind_of(primal.value, True), edge, primal.version)


@public
def unpack_dual(tensor: object, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent of an array.

    Parameters
    ----------
    tensor : RecordedArray or array
        Any array.
    level : int, optional
        The level. It must be the last one.

    Returns
    -------
    UnpackedDualTensor
        `primal` and `tangent`. The tangent is None if `tensor` does not depend on a dual array of
        an active level. Both can be differentiated backwards if leaves require gradients.

    Raises
    ------
    UnsupportedError
        If a dual array went through a custom rule without forward mode.
    InputError
        If `tensor` is not an array.
    RuntimeError
        If there is no such level, or if an array that a rule needs was modified, or freed by
        `backward`, before this call.

    Notes
    -----
    The first call sweeps through the graph since the dual arrays, and costs a small multiple of it.

    References
    ----------
    ``torch.autograd.forward_ad.unpack_dual``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(np.array([3.0]), np.array([1.0]))
    ...     forward_ad.unpack_dual(x**2)
    UnpackedDualTensor(primal=tensor([9.]), tangent=tensor([6.]))
    """
    _require_array(tensor)
    if level not in (None, 0):
        raise RuntimeError(
            "Trying to unpack a dual Tensor at a level that was not the last one that was created."
        )
    sweep: TangentSweep | None = state.dual
    if sweep is None or type(tensor) is not RecordedArray:
        return UnpackedDualTensor(tensor, None)
    edge = tensor.edge_now()
    tangent = sweep.of(edge)
    if edge is None or tangent is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(tensor if sweep.leads_to_leaf(edge) else tensor.detach(), tangent)


def _require_array(tensor: object) -> None:
    """Refuse arrays that cannot have a tangent."""
    if not isinstance(tensor, RecordedArray | np.ndarray | np.generic | Number | TracedArray):
        fact = f"an array is needed, not {type(tensor).__name__}."
        way = "Give what make_dual returned, or what was computed from it."
        raise failure(InputError, "fdiff.autograd.forward_ad.unpack_dual", fact, way)


def _recorded(array: object, what: str) -> RecordedArray:
    """An argument of `make_dual` as a recorded array."""
    # Stores into a plain array are not seen, and both are read when tangents are asked for.
    tangent = array if type(array) is RecordedArray else plain(np.array(array))
    if tangent.dtype.kind not in "fc":
        raise ValueError(
            f"Expected {what} to be floating point or complex, but got: {tangent.dtype}"
        )
    return tangent


def _converted(tangent: RecordedArray, primal: RecordedArray) -> RecordedArray:
    """A tangent of the dtype of its primal."""
    if tangent.dtype.kind == "c" != primal.dtype.kind:
        fact = "a real array was given a complex tangent."
        way = "Give its real part, or a complex primal."
        raise failure(InputError, "fdiff.autograd.forward_ad.make_dual", fact, way)
    return tangent.astype(primal.dtype)
