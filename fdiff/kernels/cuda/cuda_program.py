"""Programs for a GPU: which memory they use, and which kernels and library routines run in order.

A program is made of a kernel graph and the values that the graph left out (`code_generation`), and
is run by the holders of device arrays. All of it is text and plain data: nothing here knows a GPU.

What runs a program does this, once for each call:

1. It has an array on the device for each `DeviceMemory`: inputs and outputs are arrays in
   row-major order, constants and tables of numbers are copied to the device once, temporaries
   come from a pool and need no initial value. Status words are set to 0.
2. It takes the steps in order, on one stream. The arguments of a launch stand in the order of its
   kernel's `parameters`: addresses of memory, and numbers by value.
3. It reads the status, if there is one: 0, or a code of `runtime.status_errors`, an error.

Texts are functions in Numba's language for CUDA, whose free names are ``cuda``, ``np``, ``math``
and ``rt`` (`words`). Sizes and numbers of the graph are called ``n0, n1, ...``, ``m0, m1, ...`` and
``f0, f1, ...`` in texts and expressions, and `Values.ints` and `Values.floats` list them in order:
sizes first, then integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from types import CodeType

import numpy as np

from ...named_tuples import NamedTuple
from ..ir.kernel_graph import KernelGraph, Values
from ..ir.loops import Call

Numbers = Mapping[str, int | float]  # what the sizes and numbers of a graph are, by their names


class Role(Enum):
    """The role of a piece of device memory, which tells the source of its contents."""

    INPUT = "input"  # given by the caller, never written to
    CONSTANT = "constant"  # entries of `Values.arrays`, never written to
    OUTPUT = "output"  # owned by the caller after the call
    TEMPORARY = "temporary"  # between steps; begins with any contents
    INTEGERS = "integers"  # all of `Values.ints`, for a kernel that uses many of them
    FLOATS = "floats"  # all of `Values.floats`, likewise
    STATUS = "status"  # one i8, 0 before the first step; what it says after the last is checked


class DeviceMemory(NamedTuple):
    """An array on the device, in row-major order; `dims` are expressions of sizes.

    `number` counts the inputs, the outputs or the entries of `Values.arrays`. Entries of truth
    values (``b1``) are bytes of 0 or 1.
    """

    name: str
    dtype: str
    dims: tuple[str, ...]
    role: Role
    number: int = -1


class Parameter(NamedTuple):
    """A parameter of a kernel: the address of the memory of this name, or a number by value.

    A number has dtype i8 or f8. An address leads to entries of `dtype`.
    """

    name: str
    dtype: str
    address: bool


class CudaKernel(NamedTuple):
    """A kernel as text: one function called `name`, in Numba's language for CUDA."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]


class Launch(NamedTuple):
    """A kernel and its one-dimensional grid: `blocks` is an expression of sizes and integers.

    `arguments` are names of memory and numbers, one for each parameter of the kernel: the names of
    the parameters, or others, where a program launches one kernel for several pieces of memory.
    Shared memory is static, so that a launch requests none.
    """

    kernel: CudaKernel
    blocks: str
    threads: int  # in each block
    arguments: tuple[str, ...]


class LibraryCall(NamedTuple):
    """A routine of a library in place of a call: ``matmul``, ``solve``, ...

    A product has the sizes of a stack, of rows, terms and columns; for each of both operands and of
    the result the step from one matrix to the next and from one row to the next; and whether either
    operand is transposed.
    """

    call: Call
    instead: tuple[Launch, ...] = ()


class SortKeys(NamedTuple):
    """Sorts the first `number` (an expression) entries, i8, of the memory `keys`, ascending.

    `instead` are launches of our own that do the same.
    """

    keys: str
    number: str
    instead: tuple[Launch, ...] = ()


Step = Launch | LibraryCall | SortKeys


@dataclass(frozen=True)
class CudaProgram:
    """Memory and steps of one kernel graph, for sizes of some range.

    It serves any values for which the code generator gives an equal program.
    """

    memory: tuple[DeviceMemory, ...]
    steps: tuple[Step, ...]

    @property
    def kernels(self) -> tuple[CudaKernel, ...]:
        """The kernels, in the order of their first launch."""
        return tuple(dict.fromkeys(k for step in self.steps for k in _kernels(step)))

    @property
    def text(self) -> str:
        """All kernels as one text, with what is launched and called in between."""
        shown: set[str] = set()
        return "\n\n".join(_step_text(step, shown) for step in self.steps) + "\n"

    def of(self, role: Role) -> tuple[DeviceMemory, ...]:
        """The memory of one role, by its numbers."""
        return tuple(sorted((m for m in self.memory if m.role is role), key=lambda m: m.number))


def numbers_of(graph: KernelGraph, values: Values) -> dict[str, int | float]:
    """The sizes and numbers of a graph by the names that texts and expressions have for them."""
    sizes, integers = values.ints[: graph.sizes], values.ints[graph.sizes :]
    out: dict[str, int | float] = {f"n{k}": n for k, n in enumerate(sizes)}
    out |= {f"m{k}": m for k, m in enumerate(integers)}
    return out | {f"f{k}": f for k, f in enumerate(values.floats)}


def contents(program: CudaProgram, values: Values) -> list[tuple[DeviceMemory, np.ndarray]]:
    """The memory that is filled once, and with what: constants, and tables of numbers."""
    tables = {Role.INTEGERS: (values.ints, np.int64), Role.FLOATS: (values.floats, np.float64)}
    out = [(m, values.arrays[m.number]) for m in program.of(Role.CONSTANT)]
    for role, (numbers, dtype) in tables.items():
        out += [(m, np.array(numbers, dtype)) for m in program.of(role)]
    return out


def evaluate(expression: str, numbers: Numbers) -> int:
    """The value of an expression of sizes and integers, such as ``min(1024, n0 * n1)``."""
    return int(eval(_compiled(expression), _FUNCTIONS, dict(numbers)))  # noqa: S307 - our own text


_FUNCTIONS: dict[str, object] = {"__builtins__": {}, "min": min, "max": max, "abs": abs}


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> CodeType:
    return compile(expression, "<size>", "eval")


def entries(memory: DeviceMemory, numbers: Numbers) -> int:
    """How many entries a piece of memory has, for these sizes."""
    total = 1
    for dim in memory.dims:
        total *= evaluate(dim, numbers)
    return total


def _kernels(step: Step) -> list[CudaKernel]:
    launches = (step,) if isinstance(step, Launch) else step.instead
    return [launch.kernel for launch in launches]


def _step_text(step: Step, shown: set[str]) -> str:
    """A step as text: a kernel with its launch in a comment, or a call as a comment.

    Kernels that were `shown` before stand there by their names, with their arguments.
    """
    if isinstance(step, Launch):
        kernel, launch = step.kernel, f"# {step.blocks} blocks of {step.threads} threads"
        if kernel.name in shown:
            return f"{launch}\n# {kernel.name}({', '.join(step.arguments)})"
        shown.add(kernel.name)
        return f"{launch}\n{kernel.text.rstrip()}"
    if isinstance(step, SortKeys):
        return f"# sort {step.number} entries of {step.keys}"
    call = step.call
    return f"# {call.routine}({', '.join((*call.buffers, *call.sizes))})"
