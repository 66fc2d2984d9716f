"""Record a tape by running plain NumPy code on traced arrays.

`function_to_tape` goes from a run of a function to a finished tape. Meanwhile an `ordinary_trace`
is under way, in which a `traced_array` stands for each array; `apply_primitive` adds nodes to it.
"""

from .apply_primitive import applied, apply, apply_many, constant_value, implements, replaces
from .function_to_tape import ArgumentSpec, Recording, private, record, splice
from .node_strides import memory_layout
from .ordinary_trace import Trace
from .recorder import FOLD_LIMIT, Recorder, assemble
from .trace_stack import current, in_a_batch, root_trace, tracing, unsupported
from .traced_array import Array, Operand, TracedArray, TracedArrays, guarded_value

__all__ = [
    "FOLD_LIMIT", "ArgumentSpec", "Array", "Operand", "Recorder", "Recording", "Trace",
    "TracedArray", "TracedArrays", "applied", "apply", "apply_many", "assemble", "constant_value",
    "current", "guarded_value", "implements", "in_a_batch", "memory_layout", "private", "record",
    "replaces", "root_trace", "splice", "tracing", "unsupported",
]  # fmt: skip
