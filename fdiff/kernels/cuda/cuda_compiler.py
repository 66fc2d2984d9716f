"""From a tape to kernels of a GPU: programs are kept by the structure of the tape."""

from __future__ import annotations

from collections.abc import Iterator

from ...bounded_cache import keep_recent
from ...kernel_rule import Category, Kind
from ...process.environment import switch
from ...tape import Tape
from ..ir.graph_of_tape import kernel_graph
from ..ir.graph_of_tape import missing as missing_in_graph
from ..ir.kernel_graph import KernelGraph, Values
from .code_generation import cuda_program
from .cuda_program import CudaProgram
from .devices import adapter, kernel_binaries
from .devices.cuda_executable import CudaExecutable
from .devices.device import CudaDevice
from .devices.launch_sizes import GPU, SIMULATOR
from .matrices.matrix_routines import each_matrix
from .nests.thread_bodies import thread_body

DETERMINISTIC = "FDIFF_DETERMINISTIC"
_MOST = 512  # programs in memory
_programs: dict[tuple[KernelGraph, tuple[int, ...], bool], CudaProgram] = {}


def program_of_graph(graph: KernelGraph, values: Values) -> CudaProgram:
    """The program of a graph for such sizes; sums in one order where the environment says so."""
    deterministic = switch(DETERMINISTIC) or False
    key = graph, values.ints, deterministic
    program = _programs.get(key)
    if program is None:
        tuning = SIMULATOR if adapter.simulated() else GPU
        generated = cuda_program(graph, values, tuning=tuning, deterministic=deterministic)
        program = keep_recent(_programs, key, generated, _MOST)
    return program


def missing(tape: Tape) -> list[str]:
    """The operations of a tape, or their dtypes, that have no CUDA kernel."""
    lacking = missing_in_graph(tape)
    return lacking or [*dict.fromkeys((*_without_routine(tape), *_not_of_threads(tape)))]


def _not_of_threads(tape: Tape) -> Iterator[str]:
    """Loops and switches that threads cannot run, each for an entry."""
    controls = [
        n
        for n in tape.nodes
        if n.primitive.lowering.kernel
        and n.primitive.lowering.kernel.kind.category is Category.CONTROL
    ]
    if controls:
        graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
        for op in graph.ops:
            if op.kind.category is Category.CONTROL and not (
                op.kind is Kind.LOOP and thread_body(op.bodies[0])
            ):
                yield next(n.primitive.name for n in controls if n.primitive.kind is op.kind)


def _without_routine(tape: Tape) -> Iterator[str]:
    """Operations whose routine, or C function of the user's, is one of the CPU alone."""
    for node in tape.nodes:
        rule = node.primitive.lowering.kernel
        if rule is not None and rule.address is not None:
            yield f"{node.primitive.name}, which calls a C function"
        if rule is not None and rule.routine is not None and rule.kind is not Kind.MATMUL:
            dtype = node.types[-1].dtype.str[1:]
            if each_matrix(rule.routine.name, dtype) is None:
                yield node.primitive.name


def compile_cuda(tape: Tape, device: CudaDevice) -> CudaExecutable:
    """The program of `tape` on a device, its kernels loaded."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    return CudaExecutable(program_of_graph(graph, values), graph, values, tape, device)


def cuda_text(tape: Tape) -> str:
    """The text of all kernels of `tape`, and how they are launched."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    return program_of_graph(graph, values).text


def launches_of(tape: Tape) -> int:
    """How many kernels and routines one run of `tape` launches."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    return len(program_of_graph(graph, values).steps)


def forget() -> None:
    """Drop programs and machine code that are in memory."""
    _programs.clear()
    kernel_binaries.forget()
