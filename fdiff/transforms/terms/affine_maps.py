"""Maps of terms: NumPy views of one array that counts, which serve as symbolic affine maps.

Slices, transposes and broadcasts of a view cost nothing, and it tells its first entry and its steps
by where it lies. What is gathered is an array of its own (docs/decisions/terms-and-cuts.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import fdiff.intact_numpy as np

from ...arraytype import Shape

SAMPLE = 64  # entries of a map by which it is looked up


class Maps:
    """One array 0, 1, 2, ...: maps are views of it.

    `size` is the largest number of columns of a source in the sweep.
    """

    def __init__(self, size: int) -> None:
        self.all = np.arange(size)
        self.all.flags.writeable = False
        self._begin = _address(self.all)

    def grid(self, shape: Shape) -> np.ndarray:
        """The flat numbers of the entries of an array."""
        return self.all[: prod(shape)].reshape(shape)

    def first(self, cols: np.ndarray) -> int | None:
        """The first entry of a view; None of an array of its own."""
        if not cols.size:
            return None
        at = _address(cols) - self._begin
        return at // self.all.itemsize if 0 <= at < self.all.nbytes else None

    def key(self, cols: np.ndarray) -> object:
        """A key of a map, equal for equal maps of a shape: some entries, or the place of a view."""
        first = self.first(cols)
        if first is None:
            return cols.reshape(-1)[:: cols.size // SAMPLE + 1].tobytes()
        return first, cols.strides

    def same(self, a: np.ndarray, b: np.ndarray) -> bool:
        """Whether two maps are equal."""
        if a.shape != b.shape:
            return False
        if a.strides == b.strides and _address(a) == _address(b):
            return True
        return bool(np.array_equal(a, b))

    def affine(
        self, first: int, axes: Sequence[tuple[int, int]], extra: Sequence[tuple[int, int]]
    ) -> np.ndarray:
        """The view from an entry by steps along axes: of length 1 where the step is 0."""
        size = self.all.itemsize
        shape = [n if step else 1 for n, step in axes] + [n for n, _ in extra]
        strides = [step * size for _, step in (*axes, *extra)]
        return np.lib.stride_tricks.as_strided(self.all[first:], shape, strides, writeable=False)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
