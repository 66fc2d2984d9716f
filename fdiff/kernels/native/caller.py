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
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from .entrance import NUMPY_API, PYTHON_API, WORDS
from .machine import python_api

_PLAIN, _WRITEABLE, _ALIGNED = 0x101, 0x400, 0x100  # of ndarray.flags
_NEAR = 512  # entries of a strided array that are put side by side on the stack


class Input(NamedTuple):
    """An array or number a kernel reads, or an array it writes to.

    `source` is its place among the arguments, -1 for an `array` of one's own. `strided`: the kernel
    takes any strides; `copied`: what is not laid out plainly may be copied. `exact`: a number is a
    ``float`` and nothing else, as programs may tell them apart.
    """

    source: int
    shape: tuple[int, ...]
    dtype: np.dtype
    array: np.ndarray | None = None
    strided: bool = False
    copied: bool = False
    written: bool = False
    exact: bool = False


class Output(NamedTuple):
    """An array, or a `scalar`, that is made for the result."""

    shape: tuple[int, ...]
    dtype: np.dtype
    scalar: bool = False


class Machinery(NamedTuple):
    """A kernel as machine code, its tables, constants and workspace of so many bytes."""

    address: int
    ints: np.ndarray
    floats: np.ndarray
    constants: tuple[np.ndarray, ...]
    size: int
    cell: np.ndarray  # holds the address of a spare workspace
    keep: bool
    release: bool
    owner: object


class Read(NamedTuple):
    """A function of Python's API that looks at an object, and what it must return.

    `function` is given the object `thing` and `argument`. That and `value` are addresses of
    objects, or numbers; null is a value too. `how` the value is returned: it may be ``OWNED``, or
    the place of a dict, whose length counts (``ATTRIBUTES``). With `into` it is not compared, but
    kept in that register, and may be the `thing` of later reads; a register is meant by its number,
    and 0 is the first argument.
    """

    function: str
    thing: object
    argument: int = 0
    value: int = 0
    how: int = 0
    into: int = 0


class Outside(NamedTuple):
    """What must be as it was: all that `reads` tell, anything else that a function can tell.

    `kept` are objects whose addresses stand in `reads`. With anything in the dict `occupied`, a
    call is more than the kernel's. What is not as it was, or given otherwise, is for `general`;
    without one the caller returns None.
    """

    reads: tuple[Read, ...] = ()
    places: tuple[tuple[object, object], ...] = ()
    kept: object = None
    occupied: dict[object, None] | None = None
    general: Callable[..., object] | None = None


_NOTHING = Outside()


class _Table(np.ndarray):
    """Words for the caller, with everything whose address is among them."""

    held: list[object]


def caller(
    call: int,
    machinery: Machinery,
    arguments: int,
    inputs: Sequence[Input],
    outputs: Sequence[Output],
    result: Sequence[int],
    outside: Outside = _NOTHING,
) -> Callable[..., Any]:
    """A builtin of `arguments` positional arguments that runs the kernel.

    `inputs` are in the kernel's order, and after them come the arrays it writes to, unless they are
    `outputs`. `result` is what is given, in postfix notation: the number of an output, or
    ``-1 - n`` for a tuple of the last `n`; empty, it is the kernel's status. `call` is the address
    of the compiled `text`.
    """
    held: list[object] = [machinery, outside, tuple(inputs), tuple(outputs)]

    def words(values: Sequence[int]) -> int:
        array = np.array(values or [0], np.int64)
        held.append(array)
        return int(array.ctypes.data)

    read = [k for k, i in enumerate(inputs) if not i.written]
    shift = len(machinery.constants)
    first, strides, records = 0, 0, []
    for k, one in enumerate(inputs):
        at = k if not one.written else k + shift
        records += _record(one, at, strides, words(one.shape))
        strides += len(one.shape) if one.strided else 0
    first = len(read) + shift
    header = dict.fromkeys(WORDS, 0) | _fixed() | {
        "kernel": machinery.address, "ints": machinery.ints.ctypes.data,
        "floats": machinery.floats.ctypes.data, "arguments": arguments,
        "data": len(inputs) + shift + len(outputs) + 1, "strides": strides,
        "cell": machinery.cell.ctypes.data, "size": machinery.size, "keep": machinery.keep,
        "release": machinery.release, "inputs": words(records), "input_count": len(inputs),
        "constants": words([a.ctypes.data for a in machinery.constants]),
        "constant_count": shift, "first": first, "result": words(result),
        "result_count": len(result), "output_count": len(outputs),
        "reads": words([word for read in outside.reads for word in _looked(read)]),
        "read_count": len(outside.reads),
        "occupied": 0 if outside.occupied is None else id(outside.occupied),
        "general": 0 if outside.general is None else id(outside.general),
        "places": words([id(x) for pair in outside.places for x in pair]),
        "place_count": len(outside.places),
        "outputs": words([
            x for o in outputs for x in (id(o.dtype), len(o.shape), words(o.shape), int(o.scalar))
        ]),
    }  # fmt: skip
    table = np.array([int(v) for v in header.values()], np.int64).view(_Table)
    table.held = held
    return _builtin(call, table)


def _looked(read: Read) -> list[int]:
    thing = read.thing if type(read.thing) is int else id(read.thing)
    return [python_api(read.function), thing, *read[2:]]


def _record(one: Input, at: int, strides: int, dims: int) -> list[int]:
    mask = _ALIGNED if one.strided else _PLAIN | (_WRITEABLE if one.written else 0)
    real = not one.shape and one.dtype == np.float64 and not one.written
    words = one.dtype.itemsize == 8 and len(one.shape) in (1, 2) and not one.strided
    near = one.copied and words and math.prod(one.shape) <= _NEAR
    return [
        at, one.source, id(one.array) if one.array is not None else 0, id(one.dtype),
        len(one.shape), dims, mask, int(one.copied), strides if one.strided else -1,
        one.dtype.itemsize, int(real), int(near), int(one.exact),
    ]  # fmt: skip


@lru_cache(maxsize=1)
def _fixed() -> dict[str, int]:
    """Addresses that are the same for every table."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = pointer(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined] - NumPy's C API has no stub
    functions = ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))
    out = {"none": id(None), "true": id(True), "array": id(np.ndarray), "float": id(float)}
    out |= {"float64": id(np.float64)}
    out |= {name: python_api(name) for name in PYTHON_API}
    return out | {name: int(functions[k] or 0) for name, k in NUMPY_API.items()}


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


@cache  # builtins have its address
def _method(call: int) -> _MethodDef:
    fast = 0x80 | 0x02  # METH_FASTCALL | METH_KEYWORDS: arguments as an array, and names
    return _MethodDef(b"kernel", call, fast, None)


def _builtin(call: int, table: _Table) -> Callable[..., Any]:
    """``call`` with this table as its ``self``."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_method(call)), table, None)
