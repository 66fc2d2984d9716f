"""The memory layout of a leaf's gradient, when it is made and when further gradients are added.

The rules follow the section "Default gradient layouts" of torch's page ``torch.autograd``:

1. Where there is no gradient yet, and the parameter's memory is non-overlapping and dense, the
gradient gets the parameter's strides.

2. Any other first gradient is in C order.

3. Where there is a gradient, and ``create_graph=False``, more is added in place, so that the
gradient keeps its strides, also if the user has set it.

4. With ``create_graph=True`` the sum is a new array, with the same strides where they are dense.
"""

from __future__ import annotations

import fdiff.intact_numpy as np


def is_dense(array: np.ndarray) -> bool:
    """Whether the entries fill one block of memory, each its own place, none from the end.

    As torch's ``is_non_overlapping_and_dense``, which knows no negative strides.
    """
    expected = array.itemsize
    pairs = [(s, n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1]
    for stride, size in sorted(pairs):
        if stride != expected:
            return array.size == 0
        expected *= size
    return True


def first_gradient(parameter: np.ndarray, gradient: np.ndarray, *, owned: bool) -> np.ndarray:
    """The array that becomes ``grad`` where that is None: rules 1 and 2.

    Parameters
    ----------
    parameter : ndarray
        The leaf's array, of which only shape, dtype and strides matter.
    gradient : ndarray
        What has been computed, of the same shape.
    owned : bool
        Whether nobody else holds the memory of `gradient`, so that it may be taken as it is.

    Returns
    -------
    ndarray
        `gradient` itself if it is owned and lies as it should, else a copy.
    """
    dense = is_dense(parameter)
    if owned and gradient.dtype == parameter.dtype and gradient.flags.writeable:
        if gradient.flags.c_contiguous and (parameter.ndim < 2 or not dense):
            return gradient
        if same_layout(parameter if dense else np.empty(gradient.shape), gradient):
            return gradient
    out = np.empty_like(parameter, order="K" if dense else "C", subok=False)
    out[...] = gradient
    return out


def same_layout(array: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays of one shape lie in the same way; axes of length 1 do not matter."""
    strides = zip(array.shape, array.strides, other.strides, strict=True)
    unit, other_unit = array.itemsize, other.itemsize
    return all(n == 1 or a * other_unit == b * unit for n, a, b in strides)


def accumulated(grad: np.ndarray, gradient: np.ndarray, *, create_graph: bool) -> np.ndarray:
    """A ``grad`` that is there, with more added: rules 3 and 4.

    Parameters
    ----------
    grad, gradient : ndarray The gradient so far and the gradient to add, of one shape. create_graph
    : bool Whether the sum is a new array; else `grad` is added to in place.

    Returns
    -------
    ndarray
        `grad` itself where that was added to.
    """
    if not create_graph:
        grad += gradient
        return grad
    out = np.empty_like(grad, order="K" if is_dense(grad) else "C", subok=False)
    return np.add(grad, gradient, out=out)
