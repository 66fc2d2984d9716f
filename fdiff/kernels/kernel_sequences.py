"""Several kernels as one: machine code that calls them in turn, with copies in between.

The sequence is called like any kernel, so that whatever calls kernels by their addresses (records
of code of Numba and of C functions) calls a Jacobian in chunks likewise. `_TEXT` is the same for
all sequences; its table of integers says what to do.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import fdiff.intact_numpy as np

from ..named_tuples import NamedTuple
from .executable import BareKernel
from .llvm.stub.call_descriptor import BoundKernel, KernelInput
from .machine_code import function
from .runtime.macros import expand, numbered

# Where a place is: in an array whose address the sequence is given, or in its workspace, or at an
# address that is always the same. The addresses given are numbered: inputs first, then outputs.
WORKSPACE, FIXED = -1, -2
_LINE = 64  # bytes to which kernels' memory is aligned
_KERNEL = ("NEXT", "CODE", "BY_LIBM", "INTS", "FLOATS", "COUNT", "PLACES")
_COPY = (
    "NEXT", "CODE", "SOURCE", "SOURCE_OFFSET", "TARGET", "TARGET_OFFSET", "STEP", "WIDTH", "LINES"
)  # fmt: skip
_HEADER = ("AT_WORKSPACE", "MOVE")  # of the table of integers

Shape = tuple[tuple[int, ...], np.dtype]


class Place(NamedTuple):
    """Memory: what it is in, and how many bytes from its beginning."""

    where: int
    offset: int = 0


class SequencedKernel(NamedTuple):
    """A call of a kernel that reads and writes these places."""

    kernel: BareKernel
    reads: Sequence[Place]
    writes: Sequence[Place]


class SequencedCopy(NamedTuple):
    """Copies `lines` of `width` bytes, which lie `step` bytes apart at the target."""

    source: Place
    target: Place
    width: int
    lines: int
    step: int


_TEXT = """
def place(data: "i8*", work: "i8", where: "i8", offset: "i8") -> "i8":
    if where == FIXED:
        return offset
    if where == WORKSPACE:
        return work + offset
    return data[where] + offset

# The status of a kernel; any error may come from an angle that was out of range.
def kernel_status(data: "i8*", strides: "i8*", work: "i8", s: "i8*") -> "i8":
    given = rt.int64(work)
    for k in range(s[K_COUNT]):
        given[k] = place(data, work, s[K_PLACES + 2 * k], s[K_PLACES + 2 * k + 1])
    status = rt.call4(s[K_CODE], work, strides, s[K_INTS], s[K_FLOATS])
    if status != 0 and s[K_BY_LIBM] != 0:
        status = rt.call4(s[K_BY_LIBM], work, strides, s[K_INTS], s[K_FLOATS])
    return status

def copy(data: "i8*", work: "i8", move: "i8", s: "i8*") -> "i8":
    source = place(data, work, s[C_SOURCE], s[C_SOURCE_OFFSET])
    target = place(data, work, s[C_TARGET], s[C_TARGET_OFFSET])
    for k in range(s[C_LINES]):
        rt.call3(move, target + k * s[C_STEP], source + k * s[C_WIDTH], s[C_WIDTH])
    return 0

def sequence(data: "i8*", strides: "i8*", ints: "i8*", floats: "f8*") -> "i8":
    work = data[ints[AT_WORKSPACE]]
    step = rt.address(ints) + 8 * FIRST
    while step != 0:
        s = rt.int64(step)
        if s[K_CODE] == 0:
            copy(data, work, ints[MOVE], s)
        else:
            status = kernel_status(data, strides, work, s)
            if status != 0:
                return status
        step = s[K_NEXT]
    return 0
"""
_MACROS = {
    **numbered(_HEADER), **numbered(_KERNEL, "K_"), **numbered(_COPY, "C_"),
    "FIRST": len(_HEADER), "WORKSPACE": WORKSPACE, "FIXED": FIXED,
}  # fmt: skip


def kernel_sequence(
    steps: Sequence[SequencedKernel | SequencedCopy],
    inputs: tuple[KernelInput, ...],
    types: tuple[Shape, ...],
    buffers: int,
    owner: object,
) -> BareKernel:
    """The kernel that takes these steps. `buffers` are the bytes that places in its workspace take.

    They begin at its address; memory for the kernels themselves follows.
    """
    kernels = [s.kernel for s in steps if isinstance(s, SequencedKernel)]
    most = max(len(k.inputs) + len(k.kernel.constants) + len(k.made) + 1 for k in kernels)
    first = buffer_bytes(8 * most)  # the addresses that a kernel is given come first
    inner = first + buffer_bytes(buffers)
    size = inner + max(k.kernel.size for k in kernels)
    words = [len(inputs) + len(types), address_of(c_library().memmove)]
    code: dict[int, Callable[[], int]] = {}  # kernels by libm, by the word of their addresses
    begins: list[int] = []
    for step in steps:
        begins.append(len(words))
        if isinstance(step, SequencedKernel):
            if step.kernel.by_libm is not None:
                code[len(words) + _KERNEL.index("BY_LIBM")] = step.kernel.by_libm
            words += _kernel_words(step, first, inner)
        else:
            source, target = (_relocated(step.source, first), _relocated(step.target, first))
            words += [0, 0, *source, *target, step.step, step.width, step.lines]
    ints = np.array(words, np.int64)
    for begin, after in pairwise(begins):
        ints[begin] = ints.ctypes.data + 8 * after
    address = function(expand(_TEXT, _MACROS), "glue")
    bound = BoundKernel(
        address, ints, np.zeros(1), (), size, np.zeros(1, np.int64), keep=False, release=True,
        owner=(owner, *kernels),
    )  # fmt: skip
    return BareKernel(
        bound, inputs, types, partial(_by_libm, ints, code, address) if code else None
    )


def _by_libm(ints: np.ndarray, code: dict[int, Callable[[], int]], address: int) -> int:
    """The sequence again, whose kernels are followed by those that call libm."""
    for word, make in code.items():
        ints[word] = make()
    return address


def _kernel_words(step: SequencedKernel, first: int, inner: int) -> list[int]:
    bound = step.kernel.kernel
    fixed = [Place(FIXED, int(a.ctypes.data)) for a in bound.constants]
    places = [*step.reads, *fixed, *step.writes]
    words = [w for place in places for w in _relocated(place, first)]
    tables = [int(bound.ints.ctypes.data), int(bound.floats.ctypes.data)]
    return [0, bound.address, 0, *tables, len(places) + 1, *words, WORKSPACE, inner]


def _relocated(place: Place, first: int) -> Place:
    """A place whose offset counts from the beginning of the workspace if it is there."""
    return place._replace(offset=place.offset + first) if place.where == WORKSPACE else place


def buffer_bytes(size: int) -> int:
    """The bytes that an array of `size` bytes occupies in a workspace."""
    return -(-size // _LINE) * _LINE


def address_of(function: object) -> int:
    """The address of a function of ctypes."""
    return 0 if function is None else int(ctypes.cast(function, ctypes.c_void_p).value or 0)  # type: ignore[arg-type] - a function of ctypes


def c_library() -> ctypes.CDLL:
    """The C library, for functions that are called by address."""
    return ctypes.CDLL("msvcrt" if sys.platform == "win32" else None)
