"""Arrays as vectors of real numbers: a complex number counts as two, its real part first.

With these coordinates every function is one of real vectors, its Jacobian is a real matrix, and
torch's convention for complex numbers needs no case of its own: the pullback of ``v`` is the
gradient of ``Re(conj(v) * f)``, which is the product of the coordinates of `v` with that matrix.
Source: torch's note "Autograd mechanics", section "Autograd for Complex Numbers".
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np


def dimension(array: np.ndarray) -> int:
    """How many real numbers an array holds."""
    return array.size * (2 if array.dtype.kind == "c" else 1)


def to_real(array: np.ndarray) -> np.ndarray:
    """The coordinates of an array, as a vector of float64."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.kind == "c":
        return flat.astype(np.complex128).view(np.float64)
    return flat.astype(np.float64)


def from_real(coordinates: np.ndarray, like: np.ndarray) -> np.ndarray:
    """The array with these coordinates, of the shape and dtype of `like`."""
    if like.dtype.kind == "c":
        coordinates = np.ascontiguousarray(coordinates, np.float64).view(np.complex128)
    return coordinates.astype(like.dtype).reshape(like.shape)


def unit(k: int, like: np.ndarray) -> np.ndarray:
    """The array whose coordinate `k` is 1 and whose others are 0."""
    coordinates = np.zeros(dimension(like))
    coordinates[k] = 1.0
    return from_real(coordinates, like)


def zeros(like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of zeros of these shapes and dtypes."""
    return [np.zeros(x.shape, x.dtype) for x in like]


def only(k: int, part: np.ndarray, like: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of zeros but for `part` in place `k`."""
    parts = zeros(like)
    parts[k] = part
    return parts


def in_double(array: np.ndarray) -> np.ndarray:
    """A copy in double precision."""
    return np.array(array, np.complex128 if array.dtype.kind == "c" else np.float64)
