"""Facts about the CUDA driver of this machine, read without any package.

The driver is a shared library that comes with the system's display driver, never with Python.
"""

from __future__ import annotations

import ctypes
import sys

from ....foreign_errors import not_foreign
from ....named_tuples import NamedTuple

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_NO_DEVICE = 100  # CUDA_ERROR_NO_DEVICE
_MEANINGS = {  # of the codes that say what is wrong with an installation (cuda.h, CUresult)
    3: "this process was forked after CUDA had begun (start processes by spawn)",
    34: "it is a stub of the toolkit, not a driver",
    _NO_DEVICE: "it finds no GPU",
    802: "the system is not ready yet",
    803: "it does not fit the kernel module that is loaded",
    804: "forward compatibility is not supported on this GPU",
}


class DriverState(NamedTuple):
    """The driver: why there is none that works (else an empty text), its version, its GPUs.

    The version of the newest CUDA that the driver supports: 12080 for 12.8. 0 if it is not known.
    """

    fault: str
    version: int
    devices: tuple[str, ...]

    @property
    def release(self) -> str:
        """The version in the usual form."""
        return f"{self.version // 1000}.{self.version % 1000 // 10}"


def driver_state() -> DriverState:
    """The current state of the driver; never raises."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except not_foreign(OSError):
        return DriverState(f"{LIBRARY} was not found", 0, ())
    try:
        version = ctypes.c_int(0)
        library.cuDriverGetVersion(ctypes.byref(version))
        code = library.cuInit(0)
        if code:
            words = _MEANINGS.get(code, f"it does not start (CUDA error {code})")
            return DriverState(words, version.value, ())
        return DriverState("", version.value, tuple(_devices(library)))
    except not_foreign(AttributeError) as error:  # it is some other library of that name
        return DriverState(f"{LIBRARY} is no CUDA driver: {error}", 0, ())


def _devices(library: ctypes.CDLL) -> list[str]:
    """Name and compute capability of each GPU."""
    count = ctypes.c_int(0)
    library.cuDeviceGetCount(ctypes.byref(count))
    names: list[str] = []
    for k in range(count.value):
        device, name = ctypes.c_int(0), ctypes.create_string_buffer(256)
        library.cuDeviceGet(ctypes.byref(device), k)
        library.cuDeviceGetName(name, 256, device)
        major, minor = (_attribute(library, device, which) for which in (75, 76))
        names.append(f"{name.value.decode(errors='replace')} ({major}.{minor})")
    return names


def _attribute(library: ctypes.CDLL, device: ctypes.c_int, which: int) -> int:
    """An attribute of a GPU: 75 and 76 are the parts of its compute capability."""
    value = ctypes.c_int(0)
    library.cuDeviceGetAttribute(ctypes.byref(value), which, device)
    return value.value
