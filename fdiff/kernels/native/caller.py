"""Python's way to a kernel: one function of machine code that reads what to do from a table.

It compares the arguments with what the kernel was made for, and what was read from outside with
what it was; it takes memory for results and workspace, calls the kernel and builds the result. A
function of ours for each kernel would have to be compiled; this one is compiled once a machine, and
what Python calls is a builtin whose ``self`` is a table of 64-bit words. Anything it does not
expect gives None, and nothing has happened.

Layouts: CPython's ``PyObject_HEAD`` and ``PyFloatObject``, and NumPy's ``PyArrayObject_fields``
(numpy/_core/include/numpy/ndarraytypes.h), which are part of their binary interfaces.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .machine import python_api

HEAD = object.__basicsize__ // 8  # words before the contents of an object; its type is the last
_PLAIN, _WRITEABLE, _ALIGNED = 0x101, 0x400, 0x100  # of ndarray.flags
_NUMPY_API = {"NewCopy": 85, "NewFromDescr": 94, "Scalar": 60}
_PYTHON_API = (
    "Py_IncRef", "Py_DecRef", "PyObject_CallOneArg", "PyErr_Clear", "PyErr_Occurred",
    "PyTuple_New", "PyTuple_SetItem", "PyEval_SaveThread", "PyEval_RestoreThread",
    "PyMem_RawMalloc", "PyMem_RawFree", "PyLong_FromLong",
)  # fmt: skip

# What a table holds, word by word.
_HEADER = (
    "none", "true", "array", "float", "float64", *_PYTHON_API, *_NUMPY_API, "kernel", "ints",
    "floats", "arguments", "data", "strides", "cell", "size", "keep", "release", "inputs",
    "input_count", "constants", "constant_count", "reads", "read_count", "places", "place_count",
    "outputs", "output_count", "first", "result", "result_count",
)  # fmt: skip
_INPUT = (
    "at",
    "source",
    "object",
    "descr",
    "rank",
    "dims",
    "mask",
    "most",
    "strides",
    "width",
    "real",
)
_OUTPUT = ("descr", "rank", "dims", "scalar")
_READ = ("function", "object", "argument", "value", "owned")

_TEXT = """
def call(self: "i8", args: "i8", n: "i8"):
    d = rt.words(rt.words(self)[HEAD])
    given = rt.words(args)
    none = d[D_none]
    ok = n == d[D_arguments]
    data = rt.words(rt.room(d[D_data]))
    slots = rt.room(d[D_input_count] + d[D_output_count] * 2 + 1)
    strides = rt.words(rt.room(d[D_strides] + 1))
    copies = rt.words(rt.room(d[D_input_count] + 1))
    copied = 0
    # --- what is given
    for k in range(d[D_input_count]):
        if not ok:
            break
        r = rt.words(d[D_inputs] + 8 * INPUT * k)
        x = r[I_object]
        if r[I_source] >= 0:
            x = given[r[I_source]]
        o = rt.words(x)
        if o[HEAD - 1] == d[D_array]:
            ok = o[HEAD + 5] == r[I_descr] and rt.halves(x)[2 * HEAD + 2] == r[I_rank]
            if ok:
                dims = rt.words(o[HEAD + 2])
                wanted = rt.words(r[I_dims])
                for axis in range(r[I_rank]):
                    if dims[axis] != wanted[axis]:
                        ok = False
            if ok and rt.halves(x)[2 * HEAD + 12] & r[I_mask] != r[I_mask]:
                ok = r[I_most] > 0
                if ok:
                    x = rt.call(d[D_NewCopy], x, 0)
                    ok = x != 0
                    if ok:
                        copies[copied] = x
                        copied = copied + 1
                        o = rt.words(x)
                    else:
                        rt.call(d[D_PyErr_Clear])
            if ok and r[I_strides] >= 0:
                steps = rt.words(o[HEAD + 3])
                for axis in range(r[I_rank]):
                    strides[r[I_strides] + axis] = steps[axis] // r[I_width]
                    if steps[axis] % r[I_width] != 0:
                        ok = False
            if ok:
                data[r[I_at]] = o[HEAD]
        elif r[I_real] and (o[HEAD - 1] == d[D_float] or o[HEAD - 1] == d[D_float64]):
            place = slots + 8 * k
            rt.words(place)[0] = o[HEAD]
            data[r[I_at]] = place
        else:
            ok = False
    # --- what was read from outside
    for k in range(d[D_read_count]):
        r = rt.words(d[D_reads] + 8 * READ * k)
        if ok:
            held = rt.call(r[R_function], r[R_object], r[R_argument])
            ok = held == r[R_value]
            if held != 0 and r[R_owned] != 0:
                rt.call(d[D_Py_DecRef], held)
            elif held == 0 and not ok:
                rt.call(d[D_PyErr_Clear])
    for k in range(d[D_place_count]):
        r = rt.words(d[D_places] + 16 * k)
        if ok:
            held = rt.call(d[D_PyObject_CallOneArg], r[0], r[1])
            ok = held == d[D_true]
            if held == 0:
                rt.call(d[D_PyErr_Clear])
            else:
                rt.call(d[D_Py_DecRef], held)
    # --- memory for what comes out
    made = rt.words(rt.room(d[D_output_count] + 1))
    count = 0
    out = 0
    failed = False
    for k in range(d[D_output_count]):
        if not ok:
            break
        r = rt.words(d[D_outputs] + 8 * OUTPUT * k)
        made[k] = 0
        if r[O_scalar]:
            data[d[D_first] + k] = slots + 8 * (d[D_input_count] + 2 * k)
        else:
            rt.call(d[D_Py_IncRef], r[O_descr])
            made[k] = rt.call(
                d[D_NewFromDescr], d[D_array], r[O_descr], r[O_rank], r[O_dims], 0, 0, 0, 0
            )
            if made[k] == 0:
                ok = False
                failed = True
            else:
                data[d[D_first] + k] = rt.words(made[k])[HEAD]
        count = k + 1
    for k in range(d[D_constant_count]):
        data[d[D_input_count] + k] = rt.words(d[D_constants])[k]
    # --- the kernel
    raw = 0
    if ok and d[D_size]:
        raw = rt.words(d[D_cell])[0]
        rt.words(d[D_cell])[0] = 0
        if raw == 0:
            raw = rt.call(d[D_PyMem_RawMalloc], d[D_size] + 64)
        ok = raw != 0
        data[d[D_data] - 1] = raw + 63 & -64
    status = 0
    if ok:
        state = 0
        if d[D_release]:
            state = rt.call(d[D_PyEval_SaveThread])
        status = rt.call(d[D_kernel], data, strides, rt.words(d[D_ints]), rt.words(d[D_floats]))
        if d[D_release]:
            rt.call(d[D_PyEval_RestoreThread], state)
        if raw != 0 and d[D_keep] != 0 and rt.words(d[D_cell])[0] == 0:
            rt.words(d[D_cell])[0] = raw
        elif raw != 0:
            rt.call(d[D_PyMem_RawFree], raw)
    # --- the result
    if ok and d[D_result_count] == 0:
        out = rt.call(d[D_PyLong_FromLong], status)
    elif ok and status == 0:
        depth = 0
        stack = rt.words(rt.room(d[D_result_count] + 1))
        code = rt.words(d[D_result])
        for k in range(d[D_result_count]):
            if code[k] >= 0:
                r = rt.words(d[D_outputs] + 8 * OUTPUT * code[k])
                x = made[code[k]]
                if r[O_scalar]:
                    x = rt.call(d[D_Scalar], data[d[D_first] + code[k]], r[O_descr], 0)
                else:
                    rt.call(d[D_Py_IncRef], x)
                stack[depth] = x
                depth = depth + 1
            else:
                size = -code[k] - 1
                depth = depth - size
                group = rt.call(d[D_PyTuple_New], size)
                for j in range(size):
                    rt.call(d[D_PyTuple_SetItem], group, j, stack[depth + j])
                stack[depth] = group
                depth = depth + 1
        out = stack[0]
    for k in range(count):
        if made[k] != 0:
            rt.call(d[D_Py_DecRef], made[k])
    for k in range(copied):
        rt.call(d[D_Py_DecRef], copies[k])
    if out == 0 and not failed:
        rt.call(d[D_Py_IncRef], none)
        out = none
    return out
"""


def text() -> str:
    """The function's text, with every place in a table by its number."""
    numbers = {"HEAD": HEAD, "INPUT": len(_INPUT), "OUTPUT": len(_OUTPUT), "READ": len(_READ)}
    for letter, names in (("D", _HEADER), ("I", _INPUT), ("O", _OUTPUT), ("R", _READ)):
        numbers |= {f"{letter}_{name}": k for k, name in enumerate(names)}
    return re.sub(r"\b[A-Z]\w+\b", lambda m: str(numbers.get(m[0], m[0])), _TEXT)


class Input(NamedTuple):
    """An array or number a kernel reads, or an array it writes to.

    `source` is its place among the arguments, -1 for an `array` of one's own. `strided`: the kernel
    takes any strides; `copied`: what is not laid out plainly may be copied.
    """

    source: int
    shape: tuple[int, ...]
    dtype: np.dtype
    array: np.ndarray | None = None
    strided: bool = False
    copied: bool = False
    written: bool = False


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

    `function` is given the object and `argument`. That and `value` are addresses of objects, or
    numbers; null is a value too. `owned`: a reference to the value is handed out.
    """

    function: str
    thing: object
    argument: int = 0
    value: int = 0
    owned: bool = False


class Outside(NamedTuple):
    """What must be as it was: all that `reads` tell, anything else that a function can tell.

    `kept` are objects whose addresses stand in `reads`.
    """

    reads: tuple[Read, ...] = ()
    places: tuple[tuple[object, object], ...] = ()
    kept: object = None


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
    header = dict.fromkeys(_HEADER, 0) | _fixed() | {
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
    return [python_api(read.function), id(read.thing), read.argument, read.value, int(read.owned)]


def _record(one: Input, at: int, strides: int, dims: int) -> list[int]:
    mask = _ALIGNED if one.strided else _PLAIN | (_WRITEABLE if one.written else 0)
    real = not one.shape and one.dtype == np.float64 and not one.written
    return [
        at, one.source, id(one.array) if one.array is not None else 0, id(one.dtype),
        len(one.shape), dims, mask, int(one.copied), strides if one.strided else -1,
        one.dtype.itemsize, int(real),
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
    out |= {name: python_api(name) for name in _PYTHON_API}
    return out | {name: int(functions[k] or 0) for name, k in _NUMPY_API.items()}


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )  # fmt: skip


@lru_cache(maxsize=1)
def _method(call: int) -> _MethodDef:
    return _MethodDef(b"kernel", call, 0x80, None)  # METH_FASTCALL: the arguments as an array


def _builtin(call: int, table: _Table) -> Callable[..., Any]:
    """``call`` with this table as its ``self``."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(_method(call)), table, None)  # type: ignore[no-any-return] - ctypes gives any object
