"""Calls of operators with ``device="cuda"``: transfers of arrays to the device and back.

Everything else is as on the CPU (`stages`): the function is traced, its variant is chosen by types
and guards, and the plan runs its steps. Only the runners of the steps belong to the device.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ... import kernels
from ...device_arrays import DeviceArray, lies_on_device
from ...errors import DtypeError, InputError, failure
from ...foreign_errors import contextmanager
from ...trace.trace_stack import root_trace, stack
from ...tree import map_leaves, node_parts

if TYPE_CHECKING:
    from ...kernels import CudaDevice


def _device(call: str) -> CudaDevice:
    """The device that the public call `call` asked for."""
    return _finder()(call)


@lru_cache(maxsize=1)
def _finder() -> Callable[[str], CudaDevice]:
    """The function that finds a device; the first call imports its module."""
    return kernels.cuda_device


def placed(args: tuple[object, ...], call: str) -> tuple[object, ...]:
    """The arguments, where arrays of other libraries become views on the device; others stay."""
    device = _device(call)
    return tuple([_placed(arg, device) for arg in args])


def _placed(value: object, device: CudaDevice) -> object:
    if isinstance(value, DeviceArray):
        return value
    if lies_on_device(value):
        return device.view(value)
    if node_parts(value) is None:
        return value
    return map_leaves(lambda leaf: _placed(leaf, device), value)


def on_host(leaf: object) -> object:
    """The values of an array on a device; any other leaf as it is."""
    return leaf.host() if isinstance(leaf, DeviceArray) else leaf


def returned(value: object) -> object:
    """Results as users get them."""
    if isinstance(value, DeviceArray):
        return value.device.export(value)
    if type(value) is tuple:
        return tuple([returned(item) for item in value])
    return value if node_parts(value) is None else map_leaves(returned, value)


# --- out= ---------------------------------------------------------------------------------------


def places_on_device(places: Sequence[object], call: str) -> list[np.ndarray]:
    """Arrays with the shapes, strides and device addresses of `places`, which nobody reads."""
    if not places:
        return []
    device = _device(call)
    return [np.asarray(_Outline(device.view(place))) for place in places]


class _Outline:
    """The memory layout of a device array, in the terms of NumPy's array interface."""

    def __init__(self, array: DeviceArray) -> None:
        self.__array_interface__ = {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.address, True),
            "version": 3,
        }


def write_on_device(value: object, place: object, call: str) -> object:
    """The caller's array on a device, with the result written into it."""
    if not lies_on_device(place) or not lies_on_device(value):
        there, here = "out holds an array on a GPU", "the result is NumPy's"
        if not lies_on_device(place):
            there, here = "the result lies on a GPU", f"out holds {type(place).__name__}"
        way = "Results lie where the arguments lie: pass an out array that lies there, too."
        raise failure(InputError, call, f"{there}, and {here}.", way)
    device = _device(call)
    source, target = device.view(value), device.view(place)
    if _is_read_only(place) or source.shape != target.shape:
        what = "that is read-only" if _is_read_only(place) else f"of shape {target.shape}"
        fact = f"out holds an array {what}; the result has shape {source.shape}."
        raise failure(InputError, call, fact, "Pass an array shaped like the result.")
    if source.dtype != target.dtype:
        fact = f"out holds an array of {target.dtype}; the result is of {source.dtype}."
        raise failure(DtypeError, call, fact, "Pass an array of the dtype of the result.")
    device.write(source, target)
    return place


def _is_read_only(array: object) -> bool:
    """Whether an array of another library says that it must not be written to."""
    described: dict[str, tuple[int, bool]] = getattr(array, "__cuda_array_interface__", {})
    return bool(described.get("data", (0, False))[1])


@contextmanager
def tracing_for(device: str | None) -> Generator[None]:
    """Functions that are traced in this context run on `device`; None names no device."""
    before, stack.device = stack.device, device
    try:
        yield
    finally:
        stack.device = before


def check_outer_device(device: str, call: str) -> None:
    """Refuse a device inside a function that runs on another one: the outermost call decides."""
    if stack.device in (device, None):
        return
    outer = root_trace().call
    fact = f"device={device!r} was asked for inside {outer}, which runs on the CPU."
    raise failure(
        InputError, call, fact, f"Say device={device!r} there: the outermost call decides."
    )
