"""Shapes and axes: `reshape`, `ravel`, `transpose`, `moveaxis`, `squeeze`, `broadcast_to`, copies, real parts.

Also what all tables use: `traced`, `floating`. The primitives are in `view_ops.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...arraytype import BOOL, Shape, broadcast, promote, python_type, shadow
from ...foreign_errors import hiding
from ...hooks import hooks
from ...primitive import PRIMITIVES
from ...trace import Array, TracedArray, apply, current, implements
from ...trace.array_links import is_copy, memory_axes
from ...trace.local_arrays import LocalArray, holds_traced
from ...trace.trace_stack import stack
from ..entrywise.families import kind_of
from .axis_numbers import normal_axis
from .view_ops import reshape, spread, transpose

# --- NumPy's functions -------------------------------------------------------------------------


def traced(x: object) -> TracedArray:
    """`x` as a traced array of the current trace; without its derivative where gradients are off."""
    if isinstance(x, TracedArray):
        return stack.traces[-1].seen(x) if stack.free and stack.traces else x
    trace = current()
    node = trace.lift(x)
    return TracedArray(trace, node, trace.builder.type(node))


def fresh(x: TracedArray) -> TracedArray:
    """A copy of `x`: the same node under a new handle."""
    return TracedArray(x.home, x.id, x.type)


def floating(x: object) -> TracedArray:
    """`x` as a traced array of floating-point numbers (real or complex); integers become float64."""
    array = traced(x)
    return array if array.type.floating else array.astype(np.float64)


def scalar_if_0d(x: TracedArray) -> TracedArray:
    """`x` as the result of a NumPy function: a NumPy scalar where it has no axes."""
    return TracedArray(x.home, x.id, x.type, scalar=not x.shape)


@implements(np.reshape)
def reshape_call(x: object, shape: object = None, order: str = "C", *, copy: object = None, newshape: object = None) -> TracedArray:
    """``np.reshape`` in C order; order "F" goes through a transpose, as its meaning says."""
    array = traced(x)
    target = newshape if shape is None else shape
    if order == "A":
        order = "F" if array.example().flags.fnc else "C"
    if order == "F":
        flipped = tuple(target)[::-1] if np.ndim(target) else (target,)
        return transpose_call(reshape_call(transpose_call(array), flipped, copy=copy))
    if order != "C":
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    new = np.reshape(shadow(array.type), target).shape
    out = array if new == array.shape else apply(reshape, array, shape=new)
    if copy is False and is_copy(out):
        raise ValueError("Unable to avoid creating a copy while reshaping.")
    return fresh(out) if copy else out


@implements(method="reshape")
def reshape_method(x: TracedArray, *shape: object, order: str = "C", copy: object = None) -> TracedArray:
    """``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    if not shape:
        raise TypeError("reshape() takes exactly 1 argument (0 given)")
    return reshape_call(x, shape[0] if len(shape) == 1 else shape, order, copy=copy)


@implements(np.ravel, method="ravel")
def ravel(x: object, order: str = "C") -> TracedArray:
    """One-dimensional: a view where the entries lie side by side in that order, else a copy."""
    array = traced(x)
    flags = _model(array).flags
    if order == "A":
        order = "F" if flags.fnc else "C"
    if order == "K":
        axes = memory_axes(array) if array.ndim > 1 else []
        array, order = (transpose_call(array, axes) if axes else array), "C"
        flags = _model(array).flags
    out = reshape_call(array, -1, order)
    return out if (flags.f_contiguous if order == "F" else flags.c_contiguous) else fresh(out)


@implements(method="flatten")
def flatten(x: TracedArray, order: str = "C") -> TracedArray:
    return fresh(ravel(x, order))


@implements(np.transpose, np.permute_dims)
def transpose_call(x: object, axes: Sequence[int] | None = None) -> TracedArray:
    """Axes in the order given; reversed where left out."""
    array = traced(x)
    order = tuple(reversed(range(array.ndim))) if axes is None else tuple(normal_axis(a, array.ndim) for a in axes)
    if sorted(order) != list(range(array.ndim)):
        raise ValueError("axes don't match array")
    return array if order == tuple(range(array.ndim)) else apply(transpose, array, axes=order)


@implements(method="transpose")
def transpose_method(x: TracedArray, *axes: object) -> TracedArray:
    order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
    return transpose_call(x, order)


setattr(TracedArray, "T", property(hiding(transpose_call)))  # noqa: B010 - a property of a class made elsewhere


@implements(np.swapaxes, method="swapaxes")
def swapaxes(x: Array, axis1: int, axis2: int) -> TracedArray:
    axes = list(range(np.ndim(x)))
    axis1, axis2 = normal_axis(axis1, len(axes)), normal_axis(axis2, len(axes))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return transpose_call(x, axes)


@implements(np.matrix_transpose)
def matrix_transpose(x: object) -> TracedArray:
    return swapaxes(x, -1, -2)


setattr(TracedArray, "mT", property(hiding(matrix_transpose)))  # noqa: B010 - as above


def _counted(ndim: int) -> np.ndarray:
    """An array whose axes have the strides 0, 1, ..., so that they can be told apart after NumPy has permuted them."""
    return np.lib.stride_tricks.as_strided(np.zeros(1, BOOL), (1,) * ndim, tuple(range(ndim)))


@implements(np.moveaxis)
def moveaxis(x: object, source: object, destination: object) -> TracedArray:
    array = traced(x)
    return transpose_call(array, np.moveaxis(_counted(array.ndim), source, destination).strides)


@implements(np.rollaxis)
def rollaxis(x: Array, axis: int, start: int = 0) -> TracedArray:
    return transpose_call(x, np.rollaxis(_counted(np.ndim(x)), axis, start).strides)


@implements(np.squeeze, method="squeeze")
def squeeze(x: object, axis: object = None) -> TracedArray:
    array = traced(x)
    return reshape_call(array, np.squeeze(shadow(array.type), axis).shape)


@implements(np.expand_dims)
def expand_dims(x: object, axis: object) -> TracedArray:
    array = traced(x)
    return reshape_call(array, np.expand_dims(shadow(array.type), axis).shape)


@implements(np.broadcast_to)
def broadcast_to(x: object, shape: object, subok: bool = False) -> TracedArray:
    array = traced(x)
    target = np.broadcast_to(shadow(array.type), shape).shape
    return array if target == array.shape else apply(spread, array, shape=target)


@implements(np.broadcast_arrays)
def broadcast_arrays(*arrays: object, subok: bool = False) -> tuple[TracedArray, ...]:
    shape = broadcast(*(np.shape(a) for a in arrays))
    return tuple(broadcast_to(a, shape) for a in arrays)


def at_least(x: object, ndim: int) -> TracedArray:
    array = traced(x)
    view = {1: np.atleast_1d, 2: np.atleast_2d, 3: np.atleast_3d}[ndim](shadow(array.type))
    return reshape_call(array, view.shape)


def deepened(x: TracedArray, ndim: int) -> TracedArray:
    """`x` with axes of length 1 in front, so that it has at least `ndim` axes."""
    return x.reshape((*(1,) * (ndim - x.ndim), *x.shape)) if x.ndim < ndim else x


@implements(np.atleast_1d)
def atleast_1d(*arrays: object) -> object:
    return at_least(arrays[0], 1) if len(arrays) == 1 else tuple(at_least(a, 1) for a in arrays)


@implements(np.atleast_2d)
def atleast_2d(*arrays: object) -> object:
    return at_least(arrays[0], 2) if len(arrays) == 1 else tuple(at_least(a, 2) for a in arrays)


@implements(np.atleast_3d)
def atleast_3d(*arrays: object) -> object:
    return at_least(arrays[0], 3) if len(arrays) == 1 else tuple(at_least(a, 3) for a in arrays)

@implements(np.copy)
def copy(x: object, order: str = "K", subok: bool = False) -> TracedArray:
    """A copy has the same value; a copy of a scalar is a 0-d array."""
    return _ordered(traced(x), order)


def _ordered(x: TracedArray, order: str) -> TracedArray:
    """A copy in the memory order asked for."""
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got '{order}')")
    if x.ndim < 2 or not x.home.mutable:
        return fresh(x)
    if order == "A":
        order = "F" if x.example().flags.fnc else "C"
    return with_axes(x, memory_axes(x) if order == "K" else list(range(x.ndim))[:: 1 if order == "C" else -1])


def with_axes(x: TracedArray, axes: list[int]) -> TracedArray:
    """A copy whose axes have this order in memory, the slowest first."""
    return TracedArray(x.home, x.home.copy_in_order(x.id, axes), x.type)


def in_order(x: TracedArray, order: str | None, *, copy: bool | None = None) -> TracedArray:
    """`x` itself if it has the memory order asked for and need not be copied, else a copy."""
    order = (order or "K").upper()
    lies = True
    if order in {"C", "F"}:  # looks at the layout of inputs, which thereby becomes part of the guards
        flags = _model(x).flags
        lies = flags.c_contiguous if order == "C" else flags.f_contiguous
    if lies and not copy:
        return x
    if copy is False:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    return _ordered(x, order)


hooks.in_order = in_order


@implements(method="copy")
def copy_method(x: TracedArray, order: str = "C") -> TracedArray:
    out = _ordered(x, order)
    return TracedArray(out.home, out.id, out.type, scalar=x.scalar, weak=x.weak)


@implements(np.shape)
def shape_call(x: TracedArray) -> Shape:
    return x.shape


@implements(np.ndim)
def ndim_call(x: TracedArray) -> int:
    return x.ndim


@implements(np.size)
def size_call(x: TracedArray, axis: int | None = None) -> int:
    return x.size if axis is None else x.shape[axis]


def _model(x: TracedArray) -> np.ndarray:
    """A NumPy array of the type and the memory layout of `x`, to ask NumPy about flags and strides."""
    return x.example() if x.ndim and x.home.mutable else np.empty(x.shape, x.dtype)


@implements(np.zeros_like, np.empty_like)
def zeros_like(
    x: object, dtype: object = None, order: str = "K", subok: bool = True, shape: object = None, *, device: object = None
) -> np.ndarray:
    return np.zeros_like(_model(traced(x)), dtype, order, shape=shape, device=device).view(LocalArray)


@implements(np.ones_like)
def ones_like(
    x: object, dtype: object = None, order: str = "K", subok: bool = True, shape: object = None, *, device: object = None
) -> np.ndarray:
    return np.ones_like(_model(traced(x)), dtype, order, shape=shape, device=device).view(LocalArray)


@implements(np.full_like)
def full_like(
    x: object, fill_value: object, dtype: object = None, order: str = "K", subok: bool = True, shape: object = None, *,
    device: object = None,
) -> np.ndarray:
    out = np.empty_like(_model(traced(x)), dtype, order, shape=shape, device=device).view(LocalArray)
    out[...] = fill_value if holds_traced(fill_value) else np.asarray(fill_value).astype(out.dtype)
    return out


@implements(np.real)
def real(x: TracedArray) -> TracedArray:
    """The real part, which for real arrays is the array."""
    return apply(PRIMITIVES["real"], x, scalar=x.scalar, weak=x.weak) if x.dtype.kind == "c" else traced(x)


@implements(np.imag)
def imag(x: TracedArray) -> Array:
    """The imaginary part, which for real arrays is zero."""
    if x.dtype.kind == "c":
        return apply(PRIMITIVES["imag"], x, scalar=x.scalar, weak=x.weak)
    return python_type(x.dtype)() if x.weak else x.dtype.type() if x.scalar else _read_only_zeros(x)


def _read_only_zeros(x: TracedArray) -> np.ndarray:
    out = zeros_like(x)
    out.setflags(write=False)
    return out


for _part, _reader in (("real", real), ("imag", imag)):
    setattr(TracedArray, _part, property(hiding(_reader)))


@implements(method="conj")
def conj(x: TracedArray) -> Array:
    """The conjugate; an array that is not complex is returned itself."""
    return np.conjugate(x) if x.dtype.kind == "c" else traced(x)


setattr(TracedArray, "conjugate", conj)  # noqa: B010 - a method of a class made elsewhere


@implements(np.result_type)
def result_type(*operands: object) -> np.dtype:
    return promote(*map(kind_of, operands))


@implements(np.iscomplexobj)
def iscomplexobj(x: TracedArray) -> bool:
    return x.dtype.kind == "c"


@implements(np.isrealobj)
def isrealobj(x: TracedArray) -> bool:
    return x.dtype.kind != "c"


@implements(np.common_type)
def common_type(*arrays: object) -> type:
    return np.common_type(*(np.empty(0, traced(a).dtype) for a in arrays))
