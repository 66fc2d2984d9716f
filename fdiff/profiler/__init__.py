"""A profiler with the names and tables of torch.autograd.profiler.

`profile` records what fdiff does while it is in force: public calls, every operation that NumPy
runs and every loop nest of a kernel, tracing, transforms, compiling, caches. `session` collects,
`events` and `event_list` are what it gives, and the other modules show it or write it to files.
While no profile is in force this package is not even imported.
"""

from .event_list import EventList
from .events import DeviceKernel, FunctionEvent, FunctionEventAvg, Interval
from .nvprof import load_nvprof
from .profile_ranges import emit_itt, emit_nvtx, record_function
from .profile_session import profile

__all__ = [
    "DeviceKernel",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "profile",
    "record_function",
]


def __dir__() -> list[str]:
    """The public names, without the modules of the package."""
    return list(__all__)
