"""Programs for a GPU, made of tapes and run: on Numba's simulator, or on a GPU if there is one.

`TUNING` has small sizes, so that small arrays take every way of sharing work.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from fdiff.kernels.cuda import cuda_words
from fdiff.kernels.cuda.code_generation import cuda_program
from fdiff.kernels.cuda.cuda_program import Launch, Role, contents, entries, evaluate, numbers_of
from fdiff.kernels.cuda.devices import adapter
from fdiff.kernels.cuda.devices.cuda_executable import CudaExecutable
from fdiff.kernels.cuda.devices.device import device
from fdiff.kernels.cuda.devices.launch_sizes import GPU, SIMULATOR
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.runtime.status_errors import error_of

GARBAGE = 0x7B  # what memory is full of before it is written
ON_GPU = GPU._replace(
    threads=64,
    light=20,
    entry_blocks=3,
    partial_blocks=3,
    busy_threads=192,
    shared_terms=4,
    tiles=2,
)
TUNING = SIMULATOR if adapter.simulated() else ON_GPU


def program_of(tape, *, deterministic=False, tuning=TUNING):
    """The program of a tape, its values, and its numbers by name."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    program = cuda_program(graph, values, deterministic=deterministic, tuning=tuning)
    return program, values, numbers_of(graph, values)


def run_on_device(tape, *arrays, deterministic=False, tuning=TUNING):
    """The outputs of a tape, by the kernels of its program."""
    if not adapter.simulated():
        return _run_on_gpu(tape, arrays, deterministic=deterministic, tuning=tuning)
    program, values, numbers = program_of(tape, deterministic=deterministic, tuning=tuning)
    given = {m.name: array for m, array in contents(program, values)}
    given |= {m.name: arrays[m.number] for m in program.of(Role.INPUT)}
    memory = {m.name: _filled(m, numbers, given) for m in program.memory}
    for step in program.steps:
        _run(step, memory, numbers)
    for m in program.of(Role.STATUS):
        status = int(memory[m.name].copy_to_host()[0])
        if status:
            raise error_of(status)
    return [_result(m, memory[m.name], numbers) for m in program.of(Role.OUTPUT)]


def _run_on_gpu(tape, arrays, *, deterministic, tuning):
    """The same by the way that calls take, down to the driver."""
    graph, values = kernel_graph(tape, ("C",) * len(tape.inputs))
    program = cuda_program(graph, values, deterministic=deterministic, tuning=tuning)
    run = CudaExecutable(program, graph, values, tape, device("the tests"))
    return [array.host() for array in run.of_any(arrays[: len(tape.inputs)])]


def _run(step, memory, numbers):
    if not isinstance(step, Launch):
        for launch in step.instead:
            _run(launch, memory, numbers)
        return
    kernel = cuda.jit(cuda_words.function_of(step.kernel))
    number = {"i8": np.int64, "f8": np.float64}
    arguments = [
        memory[name] if p.address else number[p.dtype](numbers[name])
        for p, name in zip(step.kernel.parameters, step.arguments, strict=True)
    ]
    kernel[max(1, evaluate(step.blocks, numbers)), step.threads](*arguments)


def _filled(m, numbers, given):
    """Device memory with its contents before a call."""
    dtype = np.dtype("u1" if m.dtype == "b1" else m.dtype)
    if m.name in given:
        flat = np.ascontiguousarray(given[m.name]).reshape(-1)
        flat = flat.view("u1") if m.dtype == "b1" else flat
        return cuda.to_device(flat if flat.size else np.zeros(1, dtype))
    flat = np.zeros(max(1, entries(m, numbers)), dtype)
    if m.role is not Role.STATUS:
        flat.view("u1")[:] = GARBAGE
    return cuda.to_device(flat)


def _result(m, array, numbers):
    shape = [evaluate(d, numbers) for d in m.dims]
    flat = array.copy_to_host()[: int(np.prod(shape))].reshape(shape)
    return flat.view("b1") if m.dtype == "b1" else flat
