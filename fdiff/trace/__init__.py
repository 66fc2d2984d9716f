"""Record a tape by running plain NumPy code on traced arrays.

`traced_array` holds the stand-in for an array, `recording` the trace it belongs to and how ops
enter their nodes, `record` the way from a run to a finished tape.
"""

from .record import Input, Recording, private, record, splice
from .recording import (
    FOLD_LIMIT,
    Trace,
    applied,
    apply,
    apply_many,
    assemble,
    constant_value,
    implements,
    replaces,
)
from .traced_array import TracedArray, current, look, root_trace, tracing, unsupported
from .views import memory_layout

__all__ = [
    "FOLD_LIMIT",
    "Input",
    "Recording",
    "Trace",
    "TracedArray",
    "applied",
    "apply",
    "apply_many",
    "assemble",
    "constant_value",
    "current",
    "implements",
    "look",
    "memory_layout",
    "private",
    "record",
    "replaces",
    "root_trace",
    "splice",
    "tracing",
    "unsupported",
]
