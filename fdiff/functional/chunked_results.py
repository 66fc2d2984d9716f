"""Results assembled from chunks: rows or columns of a Jacobian.

A result lies where its arguments lie: in host memory, or on a device, which copies the chunks into
the result itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..device_arrays import DeviceArray


def zeros_beside(arrays: Sequence[object], types: Sequence[ArrayType]) -> list[np.ndarray]:
    """Zeros of these types: on the device of the first array that lies on one, else NumPy's."""
    device = next((a.device for a in arrays if isinstance(a, DeviceArray)), None)
    if device is None:
        return [np.zeros(t.shape, t.dtype) for t in types]
    return [device.zeros(t.shape, t.dtype) for t in types]  # type: ignore[misc] - plans take either kind


def put_part(
    whole: np.ndarray | DeviceArray,
    part: np.ndarray | DeviceArray,
    first: int,
    count: int,
    *,
    columns: bool,
) -> None:
    """Write columns (or rows) from `first` on, of `count` in all, into a result."""
    if not whole.size:
        return
    lines = whole.size // count  # entries of a column, or of a row
    size = part.size // lines
    if not isinstance(whole, DeviceArray):
        assert not isinstance(part, DeviceArray), "a result on the host of parts that are not"
        values = np.reshape(part, (lines, size) if columns else (size, lines))
        if columns:
            whole.reshape((lines, count))[:, first : first + size] = values
        else:
            whole.reshape((count, lines))[first : first + size] = values
        return
    assert isinstance(part, DeviceArray), "a result on a device of parts that are not"
    item = whole.dtype.itemsize
    shape = (lines, size) if columns else (size, lines)
    begin = whole.address + item * first * (1 if columns else lines)
    strides = (item * (count if columns else lines), item)
    place = DeviceArray(whole.device, shape, whole.dtype, begin, whole.owner, strides)
    source = DeviceArray(part.device, shape, part.dtype, part.address, part.owner)
    whole.device.write(source, place)
