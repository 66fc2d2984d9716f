"""The type of an array: shape and dtype, with NumPy's own broadcasting and promotion."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import zip_longest
from math import gcd, prod

import fdiff.intact_numpy as np

from .device_arrays import DeviceArray
from .named_tuples import NamedTuple

Shape = tuple[int, ...]
BOOL = np.dtype(np.bool_)
INT = np.dtype(np.int64)
F4 = np.dtype(np.float32)
F8 = np.dtype(np.float64)
MOST_AXES = 64  # of an array of NumPy
_COMPARED = 8  # entries of a slice that are looked for in another one by one


class ArrayType(NamedTuple):
    """Shape and dtype of an array; prints as ``f8[3,4]``."""

    shape: Shape
    dtype: np.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def floating(self) -> bool:
        """Whether a derivative with respect to such an array exists (real or complex)."""
        return self.dtype.kind in "fc"

    def __str__(self) -> str:
        return f"{self.dtype.str[1:]}[{','.join(map(str, self.shape))}]"


def type_of(array: np.ndarray | np.generic | DeviceArray) -> ArrayType:
    """Type of a concrete array or NumPy scalar, in native byte order."""
    dtype = array.dtype
    return ArrayType(array.shape, dtype if dtype.isnative else dtype.newbyteorder("="))


def without_ones(shape: Iterable[int]) -> Shape:
    """The lengths of the axes that have more or fewer than one entry."""
    return tuple([n for n in shape if n != 1])


@lru_cache(maxsize=4096)
def broadcast(*shapes: Shape) -> Shape:
    """Common shape of `shapes` by NumPy's rules; ValueError as NumPy words it."""
    if len({*shapes, ()}) == 2:  # one shape, and maybe scalars
        return max(shapes, key=len)
    if max(map(len, shapes), default=0) <= 32:  # `broadcast_shapes` takes no more
        return np.broadcast_shapes(*shapes)
    columns = zip_longest(*[shape[::-1] for shape in shapes], fillvalue=1)
    lengths = [set(column) - {1} or {1} for column in columns]
    if any(len(each) > 1 for each in lengths):
        raise ValueError("shape mismatch: objects cannot be broadcast to a single shape")
    return tuple([each.pop() for each in reversed(lengths)])


def broadcast_all(*arrays: np.ndarray | float) -> list[np.ndarray]:
    """As `numpy.broadcast_arrays`, which takes 32 axes."""
    shape = broadcast(*map(np.shape, arrays))
    return [np.broadcast_to(x, shape) for x in arrays]


@lru_cache(maxsize=4096)
def loop_dtypes(ufunc: np.ufunc, operands: tuple[np.dtype | type, ...]) -> tuple[np.dtype, ...]:
    """Dtypes of the loop NumPy chooses: inputs, then outputs.

    A Python `int`, `float` or `complex` among the operands stands for a weakly typed scalar
    (NEP 50: it takes the dtype of its partner).
    """
    own = operands if set(operands) != {int} else (INT,) * len(operands)  # no objects to compare
    return ufunc.resolve_dtypes((*own, *(None,) * ufunc.nout))


_PYTHON = {"c": complex, "f": float, "i": int}


def python_type(dtype: np.dtype) -> type:
    """The type of the Python numbers that a weakly typed scalar of this dtype stands for."""
    return _PYTHON[dtype.kind]


@lru_cache(maxsize=4096)
def promote(*operands: np.dtype | type) -> np.dtype:
    """Common dtype of arrays and weak Python scalars, as ``np.result_type`` gives it."""
    samples = [kind(0) if isinstance(kind, type) else kind for kind in operands]
    return np.result_type(*samples)


@lru_cache(maxsize=64)
def real_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of the parts of complex numbers of `dtype`; of real numbers their own."""
    return np.real(np.zeros((), dtype)).dtype


def shadow(type_: ArrayType) -> np.ndarray:
    """A read-only array of that shape and dtype over one element, to ask NumPy about shapes."""
    return np.broadcast_to(np.zeros((), type_.dtype), type_.shape)


def example_of(type_: ArrayType, strides: Shape) -> np.ndarray:
    """An array with these strides, counted in entries, over memory that is never touched.

    No strides stand for C order. NumPy is asked on it what a view of such an array looks like.
    """
    if not strides:
        return np.empty(type_.shape, type_.dtype)
    reach = [(n - 1) * s for n, s in zip(type_.shape, strides, strict=True)]
    first = -sum(r for r in reach if r < 0)
    memory = np.empty(max(sum(map(abs, reach)) + 1, 1), type_.dtype)
    steps = [s * memory.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(memory[first:], type_.shape, steps)


def distinct(numbers: np.ndarray) -> np.ndarray:
    """The numbers that differ, in order; NumPy imports `numpy.ma` in 5 ms unless it counts them."""
    return np.unique(numbers, return_counts=True)[0]


def disjoint(n: int, start: int, step: int, m: int, begin: int, stride: int) -> bool:
    """Whether `n` entries from `start` by `step` and `m` from `begin` by `stride` never meet."""
    ends, others = (start, start + (n - 1) * step), (begin, begin + (m - 1) * stride)
    if not n or not m or max(ends) < min(others) or max(others) < min(ends):
        return True
    if (start - begin) % gcd(step, stride):
        return True
    few, many = sorted(
        (range(start, start + n * step, step), range(begin, begin + m * stride, stride)), key=len
    )
    return len(few) <= _COMPARED and all(k not in many for k in few)
