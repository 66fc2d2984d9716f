"""Record a tape by running plain NumPy code on traced arrays.

`traced_array` holds the stand-in for an array, `recording` the trace it belongs to and how ops
enter their nodes, `record` the way from a run to a finished tape.
"""

from .node_layouts import memory_layout
from .record import ArgumentSpec, Recording, private, record, splice
from .recorder import FOLD_LIMIT, Recorder, assemble
from .recording import (
    Trace,
    applied,
    apply,
    apply_many,
    constant_value,
    implements,
    replaces,
)
from .trace_stack import current, root_trace, tracing, unsupported
from .traced_array import TracedArray, guarded_value

__all__ = [
    "FOLD_LIMIT",
    "ArgumentSpec",
    "Recorder",
    "Recording",
    "Trace",
    "TracedArray",
    "applied",
    "apply",
    "apply_many",
    "assemble",
    "constant_value",
    "current",
    "guarded_value",
    "implements",
    "memory_layout",
    "private",
    "record",
    "replaces",
    "root_trace",
    "splice",
    "tracing",
    "unsupported",
]
