"""A trial call of the entry stub: the arguments that the kernel must get, and the result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import fdiff.intact_numpy as np

from ....foreign_errors import is_foreign
from ....named_tuples import NamedTuple
from ..stub.call_descriptor import (
    BoundKernel,
    CallSignature,
    KernelInput,
    KernelOutput,
    Preconditions,
    ResultStep,
    Unpack,
)
from ..stub.descriptor_layout import HEADER, LOOKUP, encode
from ..stub.interpreter_abi import VALUE, WORD

_LINE = 64  # bytes to which workspaces are aligned
MISS = object()  # the outcome of a call that does not fit
F8 = np.dtype("f8")
_NAMED: dict[str, object] = {}


def _missed(*arguments: object, **named: object) -> tuple[object, ...]:
    return (MISS, arguments, named)


CHECKS = Preconditions(occupied={}, fallback=_missed)


class Trial(NamedTuple):
    """One call: its arguments, its outcome, and the memory in between.

    The `outcome` is a result, ``MISS``, or the class of an exception. `operands` are the arrays and
    numbers that the inputs are. The kernel returns `status` and sets `flag`; a function of the C
    API that is `failing` fails once, with this error. NumPy makes `copies`. The call takes `frame`
    words for itself, if that is not 0. `patch` is a field of the first look-up, and what it holds
    instead.
    """

    outcome: Any
    given: tuple[object, ...] = ()
    inputs: tuple[KernelInput, ...] = ()
    operands: tuple[object, ...] = ()
    result: tuple[ResultStep, ...] = (ResultStep("OUTPUT", 0),)
    outputs: tuple[KernelOutput, ...] = (KernelOutput((2, 1), F8),)
    signature: CallSignature = CallSignature(1)
    named: dict[str, object] = _NAMED
    checks: Preconditions = CHECKS
    guard: int | None = None
    constants: tuple[np.ndarray, ...] = ()
    size: int = 0
    keep: bool = False
    release: bool = False
    status: int = 0
    flag: bool = False
    failing: tuple[str, type] = ("", MemoryError)
    copies: int = 0
    frame: int = 0
    patch: tuple[str, int] | None = None


class TrialKernel:
    """A stand-in for machine code: it checks its arguments and writes 1, 2, ... to its outputs.

    `check` raises for memory that is not known, `locked` tells whether the GIL is held. `wrong`
    says what was not as it should be, and `outside` is what a signal handler raised.
    """

    outside: Exception | None = None

    def __init__(self, trial: Trial) -> None:
        self.trial, self.wrong, self.runs, self.reports = trial, "", 0, 0
        self.check: Callable[..., None] = lambda *place, **own: None
        self.locked = lambda: not trial.release
        self._called = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)(self)
        address = ctypes.cast(self._called, ctypes.c_void_p).value or 0
        self.tables, self.spare = (np.zeros(2, np.int64), np.zeros(2)), np.zeros(1, np.int64)
        settings = trial.constants, trial.size, self.spare
        kernel = BoundKernel(
            address, *self.tables, *settings, keep=trial.keep, release=trial.release, owner=None
        )
        checks = trial.checks._replace(on_flags=self._report)
        call = trial.signature, trial.inputs, trial.outputs, trial.result, checks, trial.guard
        self.descriptor = encode(kernel, *call)
        if trial.frame:
            self.descriptor[HEADER.index("frame")] = trial.frame
            self.descriptor[HEADER.index("made")] = WORD * (trial.frame - 1)
        if trial.patch is not None:
            place = int(self.descriptor[HEADER.index("lookups")])
            field, word = trial.patch
            ctypes.c_int64.from_address(place + WORD * LOOKUP.index(field)).value = word

    def _report(self, *arguments: object, **named: object) -> None:
        self.reports += 1
        if self.trial.outcome is ArithmeticError:
            raise ArithmeticError

    def __call__(self, *tables: int) -> int:
        self.runs += 1
        try:
            self.wrong = self.wrong or self._look(*tables)
        except Exception as error:  # noqa: BLE001 - nothing may leave what C calls
            self.wrong, self.outside = str(error), error if is_foreign(error) else None
        return self.trial.status

    def _words(self, place: int, count: int) -> list[int]:
        self.check(place, WORD * count)
        return list((ctypes.c_int64 * count).from_address(place))

    def _look(self, data: int, strides: int, ints: int, floats: int) -> str:
        trial, place_of = self.trial, dict(zip(HEADER, self.descriptor.tolist(), strict=True))
        first = place_of["first"]
        words = self._words(data, place_of["data"])
        if (ints, floats) != tuple(table.ctypes.data for table in self.tables):
            return "the kernel gets other tables"
        constants = [constant.ctypes.data for constant in trial.constants]
        if words[first - len(constants) : first] != constants:
            return "the kernel gets other constants"
        for k, (entry, operand) in enumerate(zip(trial.inputs, trial.operands, strict=True)):
            place = words[k if entry.written is None else first + entry.written]
            steps = len(entry.shape) if entry.strided else 0
            if not self._reads(place, entry, operand, self._words(strides, steps)):
                return "the kernel reads other arguments"
            strides += WORD * steps
        if trial.size:
            self.check(words[-1], trial.size, own=True)
        if (words[-1] % _LINE and trial.size) or self.locked() is trial.release:
            return "the kernel gets another workspace, or the lock"
        if not self._write(words[first:]) or self._words(data, len(words)) != words:
            return "outputs of the kernel overlap others, or its addresses"
        return ""

    def _reads(self, place: int, entry: KernelInput, operand: object, steps: list[int]) -> bool:
        if not isinstance(operand, np.ndarray):
            return place == id(operand) + VALUE
        if entry.strided or (operand.flags.c_contiguous and operand.flags.aligned):
            whole = [step // operand.itemsize for step in operand.strides]
            return place == operand.ctypes.data and steps == whole[: len(steps)]
        self.check(place, operand.nbytes)
        return ctypes.string_at(place, operand.nbytes) == operand.tobytes()

    def _write(self, places: list[int]) -> bool:
        """Fill the outputs, with zeros where a guard is to fail; whether they lie apart."""
        written = dict[int, bytes]()
        for k, (out, place) in enumerate(zip(self.trial.outputs, places, strict=False)):
            value = 0 if self.trial.guard == k and self.trial.outcome is MISS else k + 1
            value = value * (1 + 1j) / 3 if out.dtype.kind == "c" else value  # no byte is zero
            entries = np.full(out.shape, value, out.dtype).tobytes()
            self.check(place, len(entries), own=True)
            ctypes.memmove(place, entries, len(entries))
            written[place] = entries
        return all(ctypes.string_at(place, len(kept)) == kept for place, kept in written.items())

    def fault(self, outcome: object) -> str:
        """The fault of the call's outcome, in words."""
        trial = self.trial
        if self.outside is not None:
            raise self.outside
        if self.wrong:
            return self.wrong
        missed = trial.outcome is MISS or trial.outcome is None
        if trial.outcome is MISS and not alike(outcome, (MISS, trial.given, trial.named), {}):
            return "it accepts a wrong call"
        if trial.outcome is not MISS and not alike(outcome, trial.outcome, {}):
            return "it gives another result"
        runs = not missed or trial.guard is not None or trial.status != 0
        if self.runs != runs and not isinstance(trial.outcome, type) and not trial.failing[0]:
            return "it runs the kernel another number of times"
        return ""


def alike(result: object, wanted: object, pairs: dict[int, object]) -> bool:
    """Whether a result is as it was wanted; arrays that are one object, or two, in both."""
    if result is wanted:
        return True
    if type(result) is not type(wanted):
        return False
    if isinstance(wanted, np.ndarray) and isinstance(result, np.ndarray):
        other = pairs.setdefault(id(wanted), result)
        same = result.dtype is wanted.dtype and result.flags.owndata and result.flags.c_contiguous
        return (
            other is result and same and result.shape == wanted.shape and (result == wanted).all()
        )
    if isinstance(wanted, (tuple, list)) and isinstance(result, (tuple, list)):
        parts = zip(result, wanted, strict=False)
        return len(result) == len(wanted) and all(alike(*pair, pairs) for pair in parts)
    if isinstance(wanted, dict) and isinstance(result, dict):
        parts = ((result[key], value) for key, value in wanted.items())
        return list(result) == list(wanted) and all(alike(*pair, pairs) for pair in parts)
    return isinstance(wanted, (int, np.generic)) and bool(result == wanted)


# --- what is tried in each process ----------------------------------------------------------------

ONE = np.full((2, 1), 1.0)  # what the kernel writes to the first output
MOVED, TUPLE = ResultStep("OUTPUT", 0), ResultStep("GROUP", tuple, 1)


def usual_calls(*, full: bool) -> Iterator[Trial]:
    """A call with all that a stub is usually given, and calls that do not fit."""
    yield from nested_calls() if full else flat_calls()


def flat_calls() -> Iterator[Trial]:
    """An array and a number, and a tuple as the result."""
    array, number = np.arange(3.0), np.float64(0.5)
    inputs = (KernelInput(0, (3,), F8), KernelInput(1, (), F8))
    base = Trial((ONE,), (array, number), inputs, (array, number), (MOVED, TUPLE))
    base = base._replace(signature=CallSignature(2))
    yield base
    for arguments in ((array,), (number, array)):
        yield base._replace(given=arguments, outcome=MISS)


def nested_calls() -> Iterator[Trial]:
    """One call with every kind of argument, and arguments that do not fit."""
    array, number, tag = np.arange(3.0), np.float64(0.5), "tag"
    unpacks = (
        Unpack("SEQUENCE", 0, list, 2), Unpack("DICT", 1, dict, 1, ("a",)),
        Unpack("EQUAL", 2, str, 0, (tag,)),
    )  # fmt: skip
    inputs = (
        KernelInput(3, (3,), F8, exact=np.ndarray), KernelInput(4, (), F8, exact=np.float64),
        KernelInput(5, (3,), F8),
    )  # fmt: skip
    result = (
        MOVED, ResultStep("ARGUMENT", 4), ResultStep("GROUP", list, 1),
        ResultStep("CONSTANT", tag), ResultStep("MAPPING", None, 2, ("x", "y")),
        ResultStep("GROUP", tuple, 2),
    )  # fmt: skip
    base = Trial(
        (ONE, {"x": [number], "y": tag}), ([array, number], {"a": array}), inputs,
        (array, number, array), result, signature=CallSignature(2, ("name",), unpacks),
        named={"name": tag},
    )  # fmt: skip
    yield base
    yield base._replace(named={"name": "another"}, outcome=MISS)
    yield base._replace(given=([], {}), outcome=MISS)
