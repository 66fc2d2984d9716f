"""Python's way to a kernel: a builtin that is the entry stub, bound to a call descriptor.

A function of machine code for each kernel would have to be compiled. So one function, the
`entry_stub`, serves all: it is compiled once a machine, and its ``self`` is an array of words that
says what to do. It compares the arguments with what the kernel was made for and revalidates what
the program read from outside, allocates results and workspace, calls the kernel and builds the
result. A call that does not fit returns None or goes to a fallback, and nothing has happened.

Before the stub is used in a process, the facts that it relies on are checked (`interpreter_abi`),
and so is a call of each kind; where anything is not as expected, calls go through `python_stub`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import fdiff.intact_numpy as np

from ...user_lines import is_foreign
from . import interpreter_abi
from .call_descriptor import (
    BoundKernel,
    CallSignature,
    KernelInput,
    KernelOutput,
    Preconditions,
    ResultStep,
    Unpack,
)
from .descriptor_layout import Descriptor, encode
from .interpreter_abi import python_api
from .python_stub import call_through_python

_NO_CHECKS = Preconditions()
TRIALS = 3  # tests of the stub that count references wrongly, before it counts as faulty


def bind_entry_stub(
    call: int,
    kernel: BoundKernel,
    signature: CallSignature,
    inputs: Sequence[KernelInput],
    outputs: Sequence[KernelOutput],
    result: Sequence[ResultStep],
    checks: Preconditions = _NO_CHECKS,
    guard: int | None = None,
) -> Callable[..., Any]:
    """A builtin that runs the kernel; a Python function where the entry stub cannot run.

    `call` is the address of the compiled stub. `inputs` are in the kernel's order, followed by the
    arrays that it writes to: `outputs`, some of which may be inputs. `result` says how the result
    is built; without a step it is the kernel's status. With `guard`, the number of an output, a
    call whose guard is false does not fit.
    """
    if interpreter_abi.fault() or stub_fault(call):
        return call_through_python(kernel, inputs, outputs, status=not result)
    return _bound(call, encode(kernel, signature, inputs, outputs, result, checks, guard))


@lru_cache(maxsize=4)
def stub_fault(call: int, *, full: bool = False) -> str:
    """Why the entry stub cannot run here, in words; empty if it can. `full` is as for its text."""
    test, words = _test_full if full else _test_simple, interpreter_abi.fault() or _COUNTS
    try:
        for _ in range(TRIALS):
            if words == _COUNTS:  # which other threads change, and the collector, now and then
                words = test(call)
    except Exception as error:
        if is_foreign(error):
            raise
        words = f"the entry stub fails with {error!r}"
    return words


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


@cache  # builtins read it for as long as they live
def _method(call: int) -> _MethodDef:
    fast = 0x80 | 0x02  # METH_FASTCALL | METH_KEYWORDS: arguments as an array, and names
    return _MethodDef(b"kernel", call, fast, None)


def _bound(call: int, descriptor: Descriptor) -> Callable[..., Any]:
    """The stub as a builtin whose ``self`` is the descriptor."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_method(call)), descriptor, None)


# --- tests of the stub itself, before its first use -------------------------------------------


def _idle() -> BoundKernel:
    """A kernel that does nothing: a function of Python's C API that returns zero."""
    zero = np.zeros(1, np.int64)
    address = python_api("PyErr_Occurred")
    return BoundKernel(
        address, zero, np.zeros(1), (), 0, zero, keep=False, release=False, owner=None
    )


def _bound_idle(
    call: int, signature: CallSignature, inputs: list[KernelInput], result: list[ResultStep]
) -> Callable[..., Any]:
    """The stub for the idle kernel, with one output of shape (2, 1)."""
    outputs = [KernelOutput((2, 1), np.dtype("f8"))]
    return _bound(call, encode(_idle(), signature, inputs, outputs, result, _NO_CHECKS, None))


_TAKES, _BUILDS = "the entry stub accepts a wrong call", "the entry stub builds another result"
_COUNTS = "the entry stub loses references, or keeps them"


def _test_simple(call: int) -> str:
    """What is wrong with the stub for positional arguments alone, in words."""
    array, number = np.arange(3.0), np.float64(0.5)
    inputs = [KernelInput(0, (3,), array.dtype), KernelInput(1, (), array.dtype)]
    result = [ResultStep("OUTPUT", 0), ResultStep("GROUP", tuple, 1)]
    stub = _bound_idle(call, CallSignature(2), inputs, result)
    counted = (array, number, array.dtype, None)
    before = [*map(sys.getrefcount, counted)]
    (made,) = stub(array, number)
    if stub(array) is not None or stub(number, array) is not None:
        return _TAKES
    if made.shape != (2, 1) or made.dtype is not array.dtype:
        return _BUILDS
    del made
    return _COUNTS if [*map(sys.getrefcount, counted)] != before else ""


def _test_full(call: int) -> str:
    """What is wrong with the full stub (keywords, unpacking, a nested result), in words."""
    array, number, tag = np.arange(3.0), np.float64(0.5), "tag"
    unpacks = (
        Unpack("SEQUENCE", 0, list, 2), Unpack("DICT", 1, dict, 1, ("a",)),
        Unpack("EQUAL", 2, str, 0, (tag,)),
    )  # fmt: skip
    inputs = [
        KernelInput(3, (3,), array.dtype, exact=np.ndarray),
        KernelInput(4, (), array.dtype, exact=np.float64), KernelInput(5, (3,), array.dtype),
    ]  # fmt: skip
    result = [
        ResultStep("OUTPUT", 0), ResultStep("ARGUMENT", 4), ResultStep("GROUP", list, 1),
        ResultStep("CONSTANT", tag), ResultStep("MAPPING", None, 2, ("x", "y")),
        ResultStep("GROUP", tuple, 2),
    ]  # fmt: skip
    stub = _bound_idle(call, CallSignature(2, ("name",), unpacks), inputs, result)
    counted = (array, number, array.dtype, None)
    given = [array, number], {"a": array}
    before = [*map(sys.getrefcount, counted)]
    found = stub(*given, name=tag)
    if stub(*given, name="another") is not None or stub([], {}, name=tag) is not None:
        return _TAKES
    made, rest = found
    if made.shape != (2, 1) or made.dtype is not array.dtype or rest != {"x": [number], "y": tag}:
        return _BUILDS
    del found, made, rest
    return _COUNTS if [*map(sys.getrefcount, counted)] != before else ""
