"""The names of ``torch.autograd.profiler``, from `fdiff.profiler`."""

from ..profiler import (
    EventList,
    FunctionEvent,
    emit_itt,
    emit_nvtx,
    load_nvprof,
    profile,
    record_function,
)

__all__ = [
    "EventList",
    "FunctionEvent",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "profile",
    "record_function",
]
