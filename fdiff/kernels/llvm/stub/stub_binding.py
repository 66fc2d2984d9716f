"""Python's way to a kernel: a builtin that is the entry stub, bound to a call descriptor.

A function of machine code for each kernel would have to be compiled. So one function, the
`entry_stub`, serves all kernels: it is compiled once per machine, and its ``self`` is an array of
words that holds its instructions. It compares the arguments with the arguments that the kernel was
made for, revalidates the values that the program read from outside, allocates results and
workspace, calls the kernel and builds the result. A call that does not fit returns None or goes to
a fallback, and has no effect.

Before a process uses the stub, the facts that the stub relies on are checked (`interpreter_abi`),
and so are calls of it (`stub_trials`), all of them once per installation, after a rehearsal. If
anything differs from what is expected, calls go through `python_stub`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ....foreign_errors import is_foreign
from ....process.forking import no_fork
from ..stub_trials.trial import Trial, TrialKernel, usual_calls
from . import entry_stub, interpreter_abi
from .call_descriptor import (
    BoundKernel,
    CallSignature,
    KernelInput,
    KernelOutput,
    Preconditions,
    ResultStep,
)
from .descriptor_layout import Descriptor, encode
from .python_stub import call_through_python

_NO_CHECKS = Preconditions()
_COUNTS = "it loses references, or keeps them"
rehearsed = set[tuple[int, bool]]()  # stubs that this installation has found right: address, `full`
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
    *,
    full: bool = False,
) -> Callable[..., object]:
    """A builtin that runs the kernel; a Python function where the entry stub cannot run.

    `call` is the address of the compiled stub, the `full` or the simple one. `inputs` are in the
    kernel's order, followed by the arrays that it writes to: `outputs`, some of which may be
    inputs. `result` says how the result is built; without a step it is the kernel's status. With
    `guard`, the number of an output, a call whose guard is false does not fit.
    """
    if interpreter_abi.fault() or stub_fault(call, full=full):
        if checks.fallback is not None:  # it compares what was read, and builds the result
            return checks.fallback
        return call_through_python(kernel, inputs, outputs, status=not result)
    return _bound(call, encode(kernel, signature, inputs, outputs, result, checks, guard))


_faults: dict[tuple[int, bool], str] = {}


def stub_fault(call: int, *, full: bool = False) -> str:
    """Why the entry stub cannot run here, in words; empty if it can. `full` is as for its text.

    Threads that try it at the same time may find different things: what the first one has found
    holds for all. Its text is rehearsed before its code is run, unless it is among the `rehearsed`.
    """
    words = _faults.get((call, full))
    return _faults.setdefault((call, full), _fault(call, full=full)) if words is None else words


def _fault(call: int, *, full: bool) -> str:
    words = interpreter_abi.fault()
    try:
        if words or (call, full) in rehearsed:
            return words or _counted(call, [*usual_calls(full=full)])
        with no_fork:  # once an installation
            from ..stub_trials import every_trial  # noqa: PLC0415 - 600 lines

        words = every_trial.fault_of_text(entry_stub.text(full=full), full=full)
        words = words or _counted(call, [*every_trial.calls(full=full)])
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


_methods: dict[int, _MethodDef] = {}  # by the stub's address


def _method(call: int) -> _MethodDef:
    """The definition of the builtins of a stub, which is never freed.

    Builtins have its address and no reference to it, and the collector reads it there, also after
    the end of the process has cleared this module.
    """
    fast = 0x80 | 0x02  # METH_FASTCALL | METH_KEYWORDS: arguments as an array, and names
    method = _methods.get(call)
    if method is None:
        method = _methods[call] = _MethodDef(b"kernel", call, fast, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return method


def _bound(call: int, descriptor: Descriptor) -> Callable[..., object]:
    """The stub as a builtin whose ``self`` is the descriptor."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_method(call)), descriptor, None)


def _counted(call: int, trials: Sequence[Trial]) -> str:
    """The fault of the stub's machine code, in words."""
    for trial in trials:
        words = ""
        for _ in range(TRIALS):  # other threads change counts of references now and then
            words = _fault_of_code(call, trial)
            if words != _COUNTS:
                break
        if words:
            return words
    return ""


def _fault_of_code(call: int, trial: Trial) -> str:
    """The fault of the stub's machine code in two calls for one trial, in words."""
    kernel = TrialKernel(trial)
    stub = _bound(call, kernel.descriptor)
    counted = [stub, *(x for x in trial.given if isinstance(x, np.ndarray))]  # of this thread alone
    before: list[int] = []
    for _ in range(2):  # the first call may fill a cache
        before, kernel.runs = [*map(sys.getrefcount, counted)], 0
        words = kernel.fault(_outcome(stub, trial))
        if words:
            return words
    return _COUNTS if [*map(sys.getrefcount, counted)] != before else ""


def _outcome(stub: Callable[..., object], trial: Trial) -> object:
    try:
        return stub(*trial.given, **trial.named)
    except Exception as error:
        if type(error) is not trial.outcome:
            raise
        return type(error)
