"""From a tape to kernels of a GPU: programs are kept by the structure of the tape."""

from __future__ import annotations

from collections import OrderedDict

from ...tape import Tape
from ..ir.graph import KernelGraph, Values
from ..ir.graph_of_tape import kernel_graph
from ..ir.graph_of_tape import missing as missing_in_graph
from . import adapter, kernel_binaries
from .code_generation import cuda_program
from .device import CudaDevice
from .executable import CudaExecutable
from .program import CudaProgram
from .tuning import GPU, SIMULATOR

_MOST = 512  # programs in memory
_programs: OrderedDict[tuple[KernelGraph, tuple[int, ...]], CudaProgram] = OrderedDict()


def program_of(graph: KernelGraph, values: Values) -> CudaProgram:
    """The program of a graph for such sizes."""
    key = graph, values.ints[: graph.sizes]
    found = _programs.get(key)
    if found is None:
        tuning = SIMULATOR if adapter.simulated() else GPU
        found = _programs[key] = cuda_program(graph, values, tuning=tuning)
        if len(_programs) > _MOST:
            _programs.popitem(last=False)
    return found


def missing(tape: Tape) -> list[str]:
    """The operations of a tape, or their dtypes, that have no CUDA kernel."""
    return missing_in_graph(tape)


def compile_cuda(tape: Tape, device: CudaDevice) -> CudaExecutable:
    """The program of `tape` on a device, its kernels loaded."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    return CudaExecutable(program_of(graph, values), graph, values, tape, device)


def text_of(tape: Tape) -> str:
    """The text of all kernels of `tape`, and how they are launched."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    return program_of(graph, values).text


def forget() -> None:
    """Drop programs and machine code that are in memory."""
    _programs.clear()
    kernel_binaries.forget()
