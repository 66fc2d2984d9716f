"""Compiled kernels of tapes: made from their structure alone, kept in memory and on disk.

This page is all that the rest of fdiff knows of this folder. `compile` turns a tape into an
`Executable`, `encode` into a `BytecodeExecutable`, which needs no compile; `bind_entry_stub` makes
a builtin that calls a kernel from Python, as the call descriptors imported here say.

What is not imported here is loaded when it is first asked for: a program that is only interpreted
needs neither the compiler nor LLVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ..process.collector import collector_paused
from ..process.forking import no_fork
from .llvm.call_descriptor import (
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

if TYPE_CHECKING:
    from .bytecode import BytecodeExecutable, RefusedError
    from .bytecode import prepare as encode
    from .c_entry import CEntry
    from .c_signature import CParameter, CSignature, CStatus
    from .clocked_kernels import ClockedKernel, clocked_kernel
    from .codegen.source_generation import text_after
    from .compiler import (
        CacheInfo,
        cache_clear,
        cache_info,
        compile,  # noqa: A004 - the module is the namespace
        compiler_is_busy,
        missing,
        on_disk,
        predict_seconds,
        seen,
        source,
        started,
        supported,
        workspace,
    )
    from .compilers import check_compiler, compiler_of
    from .cost_forecast import Fusion, KernelForecast, fusion_of, kernel_forecast
    from .cuda.adapter import fault_in_words as cuda_fault
    from .cuda.adapter import simulated as cuda_simulated
    from .cuda.cuda_compiler import compile_cuda
    from .cuda.cuda_compiler import launches_of as cuda_launches
    from .cuda.cuda_compiler import missing as missing_on_cuda
    from .cuda.cuda_compiler import text_of as cuda_text
    from .cuda.cuda_executable import CudaExecutable
    from .cuda.device import CudaDevice
    from .cuda.device import device as cuda_device
    from .executable import BareKernel, CallParts, Executable
    from .installation_state import facts
    from .kernel_sequences import (
        FIXED,
        WORKSPACE,
        Place,
        SequencedCopy,
        SequencedKernel,
        buffer_bytes,
        kernel_sequence,
    )
    from .llvm.stub_binding import bind_entry_stub, stub_fault
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
    from .runtime.status import error_of
    from .tape_costs import TapeCosts, costs_of_tape, flops_of_node
    from .thread_pool import one_thread
    from .user_texts import UserTextError, rule_of_text

__all__ = [
    "ATTRIBUTES",
    "FIXED",
    "NOT_IN_ORDER",
    "OTHER_SHAPE",
    "OWNED",
    "PASSES",
    "SHARED_OUT",
    "WORKSPACE",
    "ArrayArgument",
    "BareKernel",
    "BytecodeExecutable",
    "CEntry",
    "CParameter",
    "CSignature",
    "CStatus",
    "CacheInfo",
    "CallLayout",
    "CallParts",
    "CallSignature",
    "Calls",
    "ClockedKernel",
    "CudaDevice",
    "CudaExecutable",
    "Executable",
    "FunctionType",
    "Fusion",
    "KernelForecast",
    "KernelInput",
    "KernelOutput",
    "KernelRecord",
    "Lookup",
    "Number",
    "NumberArgument",
    "Place",
    "Preconditions",
    "RecordTable",
    "RefusedError",
    "Result",
    "ResultStep",
    "SequencedCopy",
    "SequencedKernel",
    "TapeCosts",
    "Unpack",
    "UserTextError",
    "ValueArgument",
    "as_word",
    "bind_entry_stub",
    "buffer_bytes",
    "cache_clear",
    "cache_info",
    "check_compiler",
    "clocked_kernel",
    "compile",
    "compile_cuda",
    "compiler_is_busy",
    "compiler_of",
    "costs_of_tape",
    "cuda_device",
    "cuda_fault",
    "cuda_launches",
    "cuda_simulated",
    "cuda_text",
    "encode",
    "entry_stub",
    "error_of",
    "facts",
    "flops_of_node",
    "fusion_of",
    "hash_of",
    "kernel_forecast",
    "kernel_sequence",
    "missing",
    "missing_on_cuda",
    "on_disk",
    "one_thread",
    "predict_seconds",
    "rule_of_text",
    "seen",
    "source",
    "started",
    "stub_fault",
    "supported",
    "text_after",
    "workspace",
]

# Where a name is that is loaded when it is asked for; all others are in `compiler`.
_HOMES = {
    "BareKernel": ("executable", "BareKernel"),
    "CallParts": ("executable", "CallParts"),
    "BytecodeExecutable": ("bytecode", "BytecodeExecutable"),
    "ArrayArgument": ("numba.calls.call_layout", "ArrayArgument"),
    "CallLayout": ("numba.calls.call_layout", "CallLayout"),
    "Number": ("numba.calls.call_layout", "Number"),
    "NumberArgument": ("numba.calls.call_layout", "NumberArgument"),
    "Result": ("numba.calls.call_layout", "Result"),
    "ValueArgument": ("numba.calls.call_layout", "ValueArgument"),
    "Calls": ("numba.calls.function_type", "Calls"),
    "FunctionType": ("numba.calls.function_type", "FunctionType"),
    "KernelRecord": ("numba.calls.records", "KernelRecord"),
    "NOT_IN_ORDER": ("numba.calls.call_text", "NOT_IN_ORDER"),
    "OTHER_SHAPE": ("numba.calls.call_text", "OTHER_SHAPE"),
    "RecordTable": ("numba.calls.records", "RecordTable"),
    "SHARED_OUT": ("numba.calls.call_text", "SHARED_OUT"),
    "FIXED": ("kernel_sequences", "FIXED"),
    "WORKSPACE": ("kernel_sequences", "WORKSPACE"),
    "SequencedCopy": ("kernel_sequences", "SequencedCopy"),
    "SequencedKernel": ("kernel_sequences", "SequencedKernel"),
    "Place": ("kernel_sequences", "Place"),
    "buffer_bytes": ("kernel_sequences", "buffer_bytes"),
    "kernel_sequence": ("kernel_sequences", "kernel_sequence"),
    "CEntry": ("c_entry", "CEntry"),
    "CParameter": ("c_signature", "CParameter"),
    "CSignature": ("c_signature", "CSignature"),
    "CStatus": ("c_signature", "CStatus"),
    "as_word": ("numba.calls.records", "as_word"),
    "hash_of": ("numba.calls.records", "hash_of"),
    "CudaDevice": ("cuda.device", "CudaDevice"),
    "CudaExecutable": ("cuda.cuda_executable", "CudaExecutable"),
    "Executable": ("executable", "Executable"),
    "check_compiler": ("compilers", "check_compiler"),
    "compiler_of": ("compilers", "compiler_of"),
    "cuda_launches": ("cuda.cuda_compiler", "launches_of"),
    "cuda_fault": ("cuda.adapter", "fault_in_words"),
    "cuda_simulated": ("cuda.adapter", "simulated"),
    "entry_stub": ("machine_code", "entry_stub"),
    "Fusion": ("cost_forecast", "Fusion"),
    "KernelForecast": ("cost_forecast", "KernelForecast"),
    "TapeCosts": ("tape_costs", "TapeCosts"),
    "fusion_of": ("cost_forecast", "fusion_of"),
    "kernel_forecast": ("cost_forecast", "kernel_forecast"),
    "costs_of_tape": ("tape_costs", "costs_of_tape"),
    "flops_of_node": ("tape_costs", "flops_of_node"),
    "ClockedKernel": ("clocked_kernels", "ClockedKernel"),
    "clocked_kernel": ("clocked_kernels", "clocked_kernel"),
    "PASSES": ("passes.pipeline", "NAMES"),
    "RefusedError": ("bytecode", "RefusedError"),
    "bind_entry_stub": ("llvm.stub_binding", "bind_entry_stub"),
    "error_of": ("runtime.status", "error_of"),
    "compile_cuda": ("cuda.cuda_compiler", "compile_cuda"),
    "cuda_device": ("cuda.device", "device"),
    "cuda_text": ("cuda.cuda_compiler", "text_of"),
    "encode": ("bytecode", "prepare"),
    "facts": ("installation_state", "facts"),
    "missing_on_cuda": ("cuda.cuda_compiler", "missing"),
    "stub_fault": ("llvm.stub_binding", "stub_fault"),
    "UserTextError": ("user_texts", "UserTextError"),
    "one_thread": ("thread_pool", "one_thread"),
    "rule_of_text": ("user_texts", "rule_of_text"),
    "text_after": ("codegen.source_generation", "text_after"),
}


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    home, own = _HOMES.get(name, ("compiler", name))
    with no_fork, collector_paused():
        return getattr(import_module(f".{home}", __name__), own)
