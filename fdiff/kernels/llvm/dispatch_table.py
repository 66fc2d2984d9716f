"""Python's way to a kernel: one function of machine code that reads what to do from a table.

It compares the arguments with what the kernel was made for, and what was read from outside with
what it was; it takes memory for results and workspace, calls the kernel and builds the result. A
function of ours for each kernel would have to be compiled; this one is compiled once a machine, and
what Python calls is a builtin whose ``self`` is a table of 64-bit words. Anything it does not
expect gives None, or is for a general function, and nothing has happened.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import accumulate
from typing import Any

import numpy as np

from . import interpreter_abi
from .call_descriptor import (
    Given,
    KernelInput,
    KernelOutput,
    Machinery,
    Make,
    Preconditions,
    Read,
    Unpack,
)
from .entry_stub import (
    FROM,
    INTO,
    NUMPY_API,
    PYTHON_API,
    REGISTERS,
    RESULT_HOW,
    ROOMS,
    UNPACK_HOW,
    WORDS,
)
from .interpreter_abi import WORD, numpy_api, python_api
from .python_stub import portable

_PLAIN, _WRITEABLE, _ALIGNED = 0x101, 0x400, 0x100  # of ndarray.flags
_NOTHING = Preconditions()
_EMPTY: dict[object, None] = {}  # for those that no dict stands in the way of
_NEAR = 512  # entries of a strided array that are put side by side on the stack


Words = Callable[[Sequence[int]], int]


class _Table(np.ndarray):
    """Words for the caller, with everything whose address is among them."""

    held: list[object]


def caller(
    call: int,
    machinery: Machinery,
    given: Given,
    inputs: Sequence[KernelInput],
    outputs: Sequence[KernelOutput],
    result: Sequence[Make],
    outside: Preconditions = _NOTHING,
    guard: int | None = None,
) -> Callable[..., Any]:
    """A builtin that runs the kernel; a function of Python where the entry stub may not run.

    `inputs` are in the kernel's order, and after them come the arrays it writes to: `outputs`, some
    of which may be inputs too. `result` is the recipe of what is given; empty, it is the kernel's
    status. With `guard`, the number of an output, nothing is given unless that is true. `call` is
    the address of the compiled `text`.
    """
    if interpreter_abi.fault() or fault(call):
        return portable(machinery, inputs, outputs, status=not result)
    return _stub(call, machinery, given, inputs, outputs, result, outside, guard)


@lru_cache(maxsize=4)
def fault(call: int, *, full: bool = False) -> str:
    """Why the entry stub may not run here, in words; empty if it may. `full` is as for its text."""
    try:
        return interpreter_abi.fault() or (_rehearsed if full else _rehearsed_alone)(call)
    except Exception as error:  # noqa: BLE001 - whatever it is, the stub may not run
        return f"the entry stub fails with {error!r}"


def _stub(
    call: int,
    machinery: Machinery,
    given: Given,
    inputs: Sequence[KernelInput],
    outputs: Sequence[KernelOutput],
    result: Sequence[Make],
    outside: Preconditions = _NOTHING,
    guard: int | None = None,
) -> Callable[..., Any]:
    held: list[object] = [machinery, outside, given, tuple(inputs), tuple(outputs), tuple(result)]

    def words(values: Sequence[int]) -> int:
        array = np.array(values or [0], np.int64)
        held.append(array)
        return int(array.ctypes.data)

    read, shift = sum(i.written is None for i in inputs), len(machinery.constants)
    first, strides, records = read + shift, 0, []
    for k, one in enumerate(inputs):
        at = k if one.written is None else first + one.written
        records += _record(one, at, strides, words(one.shape))
        strides += len(one.shape) if one.strided else 0
    count = max([len(outputs), *(1 + i.written for i in inputs if i.written is not None)])
    made = Counter(step.what for step in result if step.how == "MADE")
    header = dict.fromkeys(WORDS, 0) | _fixed() | {
        "data": first + count + 1, "first": first,
        "inputs": words(records), "input_count": len(inputs), "written": len(inputs) - read,
        "outputs": words([
            x for o in outputs for x in (
                id(o.dtype), len(o.shape), words(o.shape), int(o.scalar), int(o.made),
            )
        ]),
        "output_count": len(outputs), "result_count": len(result),
        "guard": 0 if guard is None else guard + 1,
        "result": words([word for s in result for word in _made(s, outputs, made, words)]),
    }  # fmt: skip
    header |= _rooms({
        "data": first + count + 1, "slots": 2 * len(outputs), "strides": strides,
        "copies": len(inputs), "known": REGISTERS, "made": len(outputs), "stack": len(result),
    })  # fmt: skip
    header |= _given(given, words) | _furnished(machinery, words) | _outside(outside, words)
    table = np.array([int(v) for v in header.values()], np.int64).view(_Table)
    table.held = held
    return _builtin(call, table)


def _rooms(sizes: dict[str, int]) -> dict[str, int]:
    """Where each part of the memory on the stack begins, in bytes, and how many words there are."""
    begins = accumulate(sizes.values(), initial=0)
    found = {name: WORD * begin for name, begin in zip(sizes, begins, strict=False)}
    return {name: found[name] for name in ROOMS} | {"room": sum(sizes.values())}


def _given(given: Given, words: Words) -> dict[str, int]:
    total = given.arguments + len(given.keywords)
    return {
        "arguments": given.arguments, "keywords": words([id(name) for name in given.keywords]),
        "keyword_count": len(given.keywords), "given": total,
        "registers": total + sum(one.size for one in given.unpacks) + 1,
        "unpacks": words([word for one in given.unpacks for word in _unpacked(one, words)]),
        "unpack_count": len(given.unpacks),
    }  # fmt: skip


def _furnished(machinery: Machinery, words: Words) -> dict[str, int]:
    return {
        "kernel": machinery.address, "ints": machinery.ints.ctypes.data,
        "floats": machinery.floats.ctypes.data, "cell": machinery.cell.ctypes.data,
        "size": machinery.size, "keep": machinery.keep, "release": machinery.release,
        "constants": words([a.ctypes.data for a in machinery.constants]),
        "constant_count": len(machinery.constants),
    }  # fmt: skip


def _outside(outside: Preconditions, words: Words) -> dict[str, int]:
    return {
        "reads": words([word for read in outside.reads for word in _looked(read)]),
        "read_count": len(outside.reads),
        "occupied": id(_EMPTY if outside.occupied is None else outside.occupied),
        "general": 0 if outside.general is None else id(outside.general),
        "places": words([id(x) for pair in outside.places for x in pair]),
        "place_count": len(outside.places),
        "hinted": id(outside.hinted),
    }  # fmt: skip


def _unpacked(one: Unpack, words: Words) -> list[int]:
    length, item = _ACCESS.get(one.how) or _ACCESS[issubclass(one.kind, tuple)]
    what = id(one.names[0]) if one.how == "SAME" else words([id(name) for name in one.names])
    return [
        UNPACK_HOW.index(one.how), one.source, id(one.kind), one.size, what,
        python_api(length) if length else 0, python_api(item) if item else 0,
    ]  # fmt: skip


# Which functions tell the length of an argument, and give an item.
_ACCESS: dict[object, tuple[str, str]] = {
    True: ("PyTuple_Size", "PyTuple_GetItem"), False: ("PyList_Size", "PyList_GetItem"),
    "DICT": ("PyDict_Size", ""), "FIELDS": ("", ""), "SAME": ("", ""),
}  # fmt: skip


def _made(
    step: Make, outputs: Sequence[KernelOutput], made: Counter[int], words: Words
) -> list[int]:
    """A step of the recipe; `made` counts the places where each output stands."""
    how, what, make, put, names = step.how, step.what, 0, 0, 0
    where = what if how in ("MADE", "GIVEN") else id(what)
    if how == "MADE" and outputs[what].scalar:  # which lies where the kernel put it
        how, make = "SCALAR", id(outputs[what].dtype)
    elif how == "MADE" and made[what] == 1:
        how = "MOVED"
    elif how == "GROUP":
        kind = "PyTuple" if what is tuple else "PyList"
        make, put = python_api(f"{kind}_New"), python_api(f"{kind}_SetItem")
    elif how == "TABLE":
        names = words([id(name) for name in step.names])
    elif how == "CALLED" and step.names:
        names = id(step.names)
    return [RESULT_HOW.index(how), where, step.size, names, make, put]


def _looked(read: Read) -> list[int]:
    inside = type(read.thing) is int
    how = read.how | FROM * inside | INTO * (read.into > 0)
    thing = read.thing if inside else id(read.thing)
    return [python_api(read.function), thing, read.argument, read.value, how, read.into]  # type: ignore[list-item] - a register


def _record(one: KernelInput, at: int, strides: int, dims: int) -> list[int]:
    written = one.written is not None
    mask = _ALIGNED if one.strided else _PLAIN | (_WRITEABLE if written else 0)
    words = one.dtype.itemsize == 8 and len(one.shape) in (1, 2) and not one.strided
    near = one.copied and words and math.prod(one.shape) <= _NEAR
    kinds: tuple[type, ...] = ()
    if not (one.shape or written):
        kinds = NUMBERS.get(one.dtype, ()) if one.exact is None else (one.exact,)
    kind, other = [*map(id, kinds), 0, 0][:2]
    rank = len(one.shape) if one.exact in (None, np.ndarray) else -1  # which no array has
    return [
        at, one.source, id(one.array) if one.array is not None else 0, id(one.dtype),
        rank, dims, mask, int(one.copied), strides if one.strided else -1, one.dtype.itemsize,
        kind, other, int(near), int(written), math.prod(one.shape) * one.dtype.itemsize,
    ]  # fmt: skip


# The classes of numbers of a dtype: their value stands right behind the head of the object.
NUMBERS: dict[np.dtype, tuple[type, ...]] = {
    np.dtype("f8"): (float, np.float64), np.dtype("f4"): (np.float32,),
    np.dtype("c16"): (complex, np.complex128), np.dtype("c8"): (np.complex64,),
}  # fmt: skip


@lru_cache(maxsize=1)
def _fixed() -> dict[str, int]:
    """Addresses that are the same for every table."""
    out = {"none": id(None), "true": id(True), "array": id(np.ndarray), "text": id(str)}
    out |= {"whole": id(int), "bytes": id(bytes)}
    out |= {name: python_api(name) for name in PYTHON_API}
    return out | {name: numpy_api(k) for name, k in NUMPY_API.items()}


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


@cache  # builtins read it for as long as they live
def _method(call: int) -> _MethodDef:
    fast = 0x80 | 0x02  # METH_FASTCALL | METH_KEYWORDS: arguments as an array, and names
    return _MethodDef(b"kernel", call, fast, None)


def _builtin(call: int, table: _Table) -> Callable[..., Any]:
    """``call`` with this table as its ``self``."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_method(call)), table, None)


# --- the first run ----------------------------------------------------------------------------


def _idle() -> Machinery:
    """A kernel that does nothing: a function of Python's that gives zero."""
    zero = np.zeros(1, np.int64)
    address = python_api("PyErr_Occurred")
    return Machinery(address, zero, np.zeros(1), (), 0, zero, keep=False, release=False, owner=None)


def _rehearsed_alone(call: int) -> str:
    """What the stub of a kernel alone does that calls nothing, where it is not what it should."""
    array, number = np.arange(3.0), np.float64(0.5)
    inputs = [KernelInput(0, (3,), array.dtype), KernelInput(1, (), array.dtype)]
    steps, outputs = [Make("MADE", 0), Make("GROUP", tuple, 1)], [KernelOutput((2, 1), array.dtype)]
    stub = _stub(call, _idle(), Given(2), inputs, outputs, steps)
    counted = (array, number, array.dtype, None)
    before = [*map(sys.getrefcount, counted)]
    (made,) = stub(array, number)
    if stub(array) is not None or stub(number, array) is not None:
        return "the entry stub takes what it should not"
    if made.shape != (2, 1) or made.dtype is not array.dtype:
        return "the entry stub builds another result"
    del made
    if [*map(sys.getrefcount, counted)] != before:
        return "the entry stub loses references, or keeps them"
    return ""


def _rehearsed(call: int) -> str:
    """The same of the stub for whole calls, which takes everything apart."""
    array, number, tag = np.arange(3.0), np.float64(0.5), "tag"
    unpacks = (
        Unpack("SEQUENCE", 0, list, 2), Unpack("DICT", 1, dict, 1, ("a",)),
        Unpack("SAME", 2, str, 0, (tag,)),
    )  # fmt: skip
    inputs = [
        KernelInput(3, (3,), array.dtype, exact=np.ndarray),
        KernelInput(4, (), array.dtype, exact=np.float64),
        KernelInput(5, (3,), array.dtype),
    ]  # fmt: skip
    steps = [
        Make("MADE", 0), Make("GIVEN", 4), Make("GROUP", list, 1), Make("CONSTANT", tag),
        Make("TABLE", None, 2, ("x", "y")), Make("GROUP", tuple, 2),
    ]  # fmt: skip
    outputs = [KernelOutput((2, 1), array.dtype)]
    stub = _stub(call, _idle(), Given(2, ("name",), unpacks), inputs, outputs, steps)
    counted = (array, number, array.dtype, None)
    given = [array, number], {"a": array}
    before = [*map(sys.getrefcount, counted)]
    found = stub(*given, name=tag)
    if stub(*given, name="another") is not None or stub([], {}, name=tag) is not None:
        return "the entry stub takes what it should not"
    made, rest = found
    if made.shape != (2, 1) or made.dtype is not array.dtype or rest != {"x": [number], "y": tag}:
        return "the entry stub builds another result"
    del found, made, rest
    if [*map(sys.getrefcount, counted)] != before:
        return "the entry stub loses references, or keeps them"
    return ""
