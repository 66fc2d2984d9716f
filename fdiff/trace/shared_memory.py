"""Arrays that share memory become traced arrays that are views of one another.

In: concrete arrays that share memory, when a traced value is stored into one of them. Out: a traced
array for each, such that a store through one of them is seen by all, as in NumPy.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ..arraytype import real_dtype
from ..primitive import PRIMITIVES
from .apply_primitive import apply
from .array_links import ViewLink
from .node_strides import slowest_first
from .trace_stack import current
from .traced_array import TracedArray

Key = tuple[int | slice, ...]


def constant(array: np.ndarray) -> TracedArray:
    """A traced array of the values that an array has now."""
    trace = current()
    node = trace.lift(np.asarray(array).view(np.ndarray))
    return TracedArray(trace, node, trace.builder.type(node))


def whole_of(owner: np.ndarray, part: np.ndarray) -> tuple[np.ndarray, str] | None:
    """The complex array that `part` is the real or imaginary part of, and which; None if none."""
    size = owner.itemsize
    steps = [stride for n, stride in zip(part.shape, part.strides, strict=True) if n > 1]
    a_part = owner.dtype.kind == "c" and part.dtype == real_dtype(owner.dtype)
    if not a_part or any(s % size for s in steps):
        return None
    at = _address(part) - _address(owner)
    memory = np.ndarray.view(owner.transpose(slowest_first(owner.strides)), np.ndarray)
    whole = np.ndarray(part.shape, owner.dtype, memory, at - at % size, part.strides)
    return whole, "imag" if at % size else "real"


def read_only(handle: TracedArray) -> TracedArray:
    """A view of a traced array that cannot be written to."""
    out = TracedArray(handle.home, handle.id, handle.type)
    shape = (("shape", handle.shape),)
    out.link = ViewLink(handle, PRIMITIVES["reshape"], shape, out.node, fixed=True)
    return out


def handles_of(parts: list[np.ndarray]) -> list[TracedArray]:
    """One traced array for each array, the first of which owns the memory all of them view."""
    owner = parts[0]
    memory = owner.transpose(slowest_first(owner.strides))
    root = constant(memory)
    handles: list[TracedArray] = []
    for part in parts:
        handle = None
        if memory.flags.c_contiguous:
            handle = _sliced(root, memory, part)
            if handle is None and part.flags.c_contiguous:
                handle = _consecutive(root, memory, part)
        handles.append(_gathered(root, memory, part) if handle is None else handle)
    return handles


def memory_key(memory: np.ndarray, part: np.ndarray) -> Key | None:
    """The key of integers and slices that `part` is a view of `memory` by; None if none is seen.

    It is () for all of it. Steps are positive, axes stand in their order, and one is left, since
    indexing gives numbers else.
    """
    if not part.size or part.dtype != memory.dtype or part.ndim < min(1, memory.ndim):
        return None
    first = (_address(part) - _address(memory)) // memory.itemsize
    if not 0 <= first < memory.size:
        return None
    key: list[int | slice] = []
    axes = [*zip(part.shape, part.strides, strict=True)]
    starts = np.unravel_index(first, memory.shape)
    for k, size, stride in zip(starts, memory.shape, memory.strides, strict=True):
        start, (n, wide) = int(k), axes[0] if axes else (0, -1)
        step = max(wide // stride, 1)
        stop = start + (n - 1) * step + 1
        if wide != stride * step or stop > size:
            key.append(start)
            continue
        whole = n == size and step == 1
        key.append(slice(None) if whole else slice(start, stop, None if step == 1 else step))
        del axes[0]
    view = memory[(..., *key)]
    if (view.shape, view.strides, _address(view)) != (part.shape, part.strides, _address(part)):
        return None
    return () if all(k == slice(None) for k in key) else tuple(key)


def _address(part: np.ndarray) -> int:
    """The address of the first entry."""
    return part.__array_interface__["data"][0]


def _sliced(root: TracedArray, memory: np.ndarray, part: np.ndarray) -> TracedArray | None:
    """`part` as a slice of `memory`, transposed and reshaped; None if it is no such slice."""
    if not part.size or not memory.size:
        return None
    size = memory.dtype.itemsize
    first = (_address(part) - _address(memory)) // size
    starts = [int(k) for k in np.unravel_index(first, memory.shape)]
    sizes, steps, axes = [1] * memory.ndim, [1] * memory.ndim, []
    for n, stride in zip(part.shape, part.strides, strict=True):
        if n == 1:
            continue
        fits = [
            k
            for k, step in enumerate(memory.strides)
            if k not in axes
            and stride % step == 0
            and stride
            and 0 <= starts[k] + stride // step * (n - 1) < memory.shape[k]
        ]
        if not fits:
            return None
        k = fits[0]
        axes.append(k)
        sizes[k], steps[k] = n, stride // memory.strides[k]
    out = root
    if tuple(sizes) != memory.shape or any(s != 1 for s in steps):
        begin, size, step = tuple(starts), tuple(sizes), tuple(steps)
        out = apply(PRIMITIVES["slice"], root, starts=begin, sizes=size, steps=step)
    full = (*axes, *(k for k in range(memory.ndim) if k not in axes))
    if full != tuple(range(memory.ndim)):
        out = apply(PRIMITIVES["transpose"], out, axes=full)
    return _reshaped(out, part.shape)


def _reshaped(x: TracedArray, shape: tuple[int, ...]) -> TracedArray:
    return x if x.shape == shape else apply(PRIMITIVES["reshape"], x, shape=shape)


def _consecutive(root: TracedArray, memory: np.ndarray, part: np.ndarray) -> TracedArray:
    """`part` as consecutive entries of `memory` in another shape."""
    first = (_address(part) - _address(memory)) // memory.dtype.itemsize if part.size else 0
    out = _reshaped(root, (root.size,))
    if part.size != root.size:
        out = apply(PRIMITIVES["slice"], out, starts=(first,), sizes=(part.size,), steps=(1,))
    return _reshaped(out, part.shape)


def _addresses(part: np.ndarray) -> np.ndarray:
    """The address of each entry."""
    out = np.full(part.shape, _address(part), np.int64)
    for k, (n, stride) in enumerate(zip(part.shape, part.strides, strict=True)):
        out += (np.arange(n) * stride).reshape([-1 if j == k else 1 for j in range(part.ndim)])
    return out


def _gathered(root: TracedArray, memory: np.ndarray, part: np.ndarray) -> TracedArray:
    """`part` as entries picked out of `memory` by their addresses."""
    addresses = _addresses(memory).ravel()
    order = np.argsort(addresses, kind="stable")
    where = order[np.searchsorted(addresses[order], _addresses(part))]
    flat = _reshaped(root, (root.size,))
    trace = root.home
    index = trace.builder.constant(np.ascontiguousarray(where, np.int64))
    node = trace.add(PRIMITIVES["gather"], (flat.id, index))
    out = TracedArray(trace, node, trace.builder.type(node))
    out.link = ViewLink(flat, PRIMITIVES["gather"], (), flat.id, (index,))
    return out
