"""Compiled kernels of tapes: made from their structure alone, kept in memory and on disk.

This page is all that the rest of fdiff knows of this folder. `compile` turns a tape into an
`Executable`, `encode` into a `BytecodeExecutable`, which needs no compile; `bind_entry_stub` makes
a builtin that calls a kernel from Python, as the call descriptors say.

All of it is loaded when it is first asked for: a program that is only interpreted needs neither the
compiler nor LLVM.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from ..process.forking import no_fork
from ..process.garbage_collection import collector_paused
from ..process.memory_reserve import check_room

# ruff: noqa: F401 - type checkers and editors read these imports; nothing here uses them
# pyright: reportUnusedImport=false
if TYPE_CHECKING:
    from .bytecode import BytecodeExecutable, RefusedError
    from .bytecode import prepare as encode
    from .c_entry import CEntry
    from .c_signature import CParameter, CSignature, CStatus
    from .clocked_kernels import ClockedKernel, clocked_kernel
    from .codegen.source_generation import text_after
    from .compiler_choice import check_compiler, compiler_of
    from .cost_forecast import Fusion, KernelForecast, fusion_of, kernel_forecast
    from .cuda.cuda_compiler import compile_cuda, cuda_text
    from .cuda.cuda_compiler import launches_of as cuda_launches
    from .cuda.cuda_compiler import missing as missing_on_cuda
    from .cuda.devices.adapter import fault_in_words as cuda_fault
    from .cuda.devices.adapter import simulated as cuda_simulated
    from .cuda.devices.cuda_executable import CudaExecutable
    from .cuda.devices.device import CudaDevice
    from .cuda.devices.device import device as cuda_device
    from .executable import BareKernel, CallParts, Executable
    from .fault_report import facts
    from .kernel_lookup import (
        CacheInfo,
        cache_clear,
        cache_info,
        can_schedule,
        compile,  # noqa: A004 - the module is the namespace
        compiler_is_busy,
        has_kernel,
        missing,
        on_disk,
        predict_seconds,
        seen,
        source,
        started,
        supported,
        workspace,
    )
    from .kernel_sequences import (
        FIXED,
        WORKSPACE,
        Place,
        SequencedCopy,
        SequencedKernel,
        buffer_bytes,
        kernel_sequence,
    )
    from .llvm.stub.call_descriptor import (
        ATTRIBUTES,
        OWNED,
        CallSignature,
        KernelInput,
        KernelOutput,
        Lookup,
        Preconditions,
        ResultStep,
        Unpack,
    )
    from .llvm.stub.stub_binding import bind_entry_stub, stub_fault
    from .machine_code import entry_stub
    from .numba.calls.call_layout import (
        ArrayArgument,
        CallLayout,
        Number,
        NumberArgument,
        Result,
        ValueArgument,
    )
    from .numba.calls.call_text import NOT_IN_ORDER, OTHER_SHAPE, SHARED_OUT
    from .numba.calls.function_type import Calls, FunctionType
    from .numba.calls.records import KernelRecord, RecordTable, as_word, hash_of
    from .passes.pipeline import NAMES as PASSES
    from .record_calls import record_caller
    from .runtime.status_errors import error_of
    from .tape_costs import TapeCosts, costs_of_tape, flops_of_node
    from .thread_pool import one_thread, threads
    from .user_texts import UserTextError, rule_of_text

# The modules of names that are not in `kernel_lookup`, then names that differ from their module's.
_NAMES = {
    "bytecode": "BytecodeExecutable RefusedError",
    "c_entry": "CEntry",
    "c_signature": "CParameter CSignature CStatus",
    "clocked_kernels": "ClockedKernel clocked_kernel",
    "codegen.source_generation": "text_after",
    "compiler_choice": "check_compiler compiler_of",
    "cost_forecast": "Fusion KernelForecast fusion_of kernel_forecast",
    "cuda.cuda_compiler": "compile_cuda cuda_text",
    "cuda.devices.cuda_executable": "CudaExecutable",
    "cuda.devices.device": "CudaDevice",
    "executable": "BareKernel CallParts Executable",
    "fault_report": "facts",
    "kernel_sequences": (
        "FIXED Place SequencedCopy SequencedKernel WORKSPACE buffer_bytes kernel_sequence"
    ),
    "llvm.stub.call_descriptor": (
        "ATTRIBUTES CallSignature KernelInput KernelOutput Lookup OWNED Preconditions "
        "ResultStep Unpack"
    ),
    "llvm.stub.stub_binding": "bind_entry_stub stub_fault",
    "machine_code": "entry_stub",
    "numba.calls.call_layout": (
        "ArrayArgument CallLayout Number NumberArgument Result ValueArgument"
    ),
    "numba.calls.call_text": "NOT_IN_ORDER OTHER_SHAPE SHARED_OUT",
    "numba.calls.function_type": "Calls FunctionType",
    "numba.calls.records": "KernelRecord RecordTable as_word hash_of",
    "record_calls": "record_caller",
    "runtime.status_errors": "error_of",
    "tape_costs": "TapeCosts costs_of_tape flops_of_node",
    "thread_pool": "one_thread threads",
    "user_texts": "UserTextError rule_of_text",
}
_HOMES = {name: (home, name) for home, names in _NAMES.items() for name in names.split()} | {
    "PASSES": ("passes.pipeline", "NAMES"),
    "cuda_device": ("cuda.devices.device", "device"),
    "cuda_fault": ("cuda.devices.adapter", "fault_in_words"),
    "cuda_launches": ("cuda.cuda_compiler", "launches_of"),
    "cuda_simulated": ("cuda.devices.adapter", "simulated"),
    "encode": ("bytecode", "prepare"),
    "missing_on_cuda": ("cuda.cuda_compiler", "missing"),
}


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    home, own = _HOMES.get(name, ("kernel_lookup", name))
    with no_fork, collector_paused():
        if f"{__name__}.{home}" not in sys.modules:
            check_room()  # imports that fail for lack of it say nothing of memory
        return getattr(import_module(f".{home}", __name__), own)
