"""Facts about CPython and NumPy that the entry stub relies on, compared with the running
interpreter.

The stub reads objects by offset and calls NumPy's C interface by slot. Before the stub first runs,
`fault` names the facts that do not hold; then calls go through Python (`python_stub`). Memory is
only read inside objects whose class says that they are large enough.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import fdiff.intact_numpy as np

from ....foreign_errors import Suppressed, is_foreign

_NUMPY = sys.modules["numpy._core._multiarray_umath"]  # its C interface has no stub
HEAD = object.__basicsize__ // 8  # words of PyObject_HEAD; the last is the address of the class
# Slots of NumPy's table of C functions that the stub calls.
NUMPY_API = {"NewCopy": 85, "NewFromDescr": 94, "Scalar": 60, "EquivTypes": 182}
WORD = 8
CLASS = HEAD - 1
# Where fields of arrays lie (PyArrayObject_fields): words, and halves of words for 32 bits.
ARRAY = {"data": HEAD, "dims": HEAD + 2, "strides": HEAD + 3, "descr": HEAD + 5}
ARRAY_HALVES = {"rank": 2 * HEAD + 2, "flags": 2 * HEAD + 12}
VALUE = WORD * HEAD  # bytes before the value of a number
LENGTH = HEAD  # the word of a dict that counts its entries
_ARRAY_TYPE, _VERSION = 2, 0  # slots: the class of arrays, the version of the binary interface
_MAJOR = 2  # of that version


def python_api(name: str) -> int:
    """The address of a function of Python's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@lru_cache(maxsize=1)
def _slots() -> ctypes._Pointer[ctypes.c_void_p]:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    api = pointer(_NUMPY._ARRAY_API, None)
    return ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))


def numpy_api(slot: int) -> int:
    """The address in a slot of NumPy's table of C functions."""
    return int(_slots()[slot] or 0)


@lru_cache(maxsize=1)
def fault() -> str:
    """The first fact that does not hold here, in words; empty if the stub may run."""
    for check in (_interpreter, _heads, _arrays, _slots_of_numpy, _functions_of_python):
        try:
            words = next(check(), "")
        except Exception as error:
            if is_foreign(error):
                raise
            words = f"{check.__name__.strip('_')}: {error!r}"
        if words:
            return words
    return ""


Check = Iterator[str]


def _interpreter() -> Check:
    """The interpreter is CPython with a GIL; words have 64 bits, the least byte first."""
    if sys.implementation.name != "cpython":
        yield f"this is {sys.implementation.name}"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        yield "this Python is free-threaded"
    if ctypes.sizeof(ctypes.c_void_p) != WORD or sys.byteorder != "little":
        yield "pointers are not of 64 bits, least byte first"


def _word_at(address: int, index: int) -> int:
    return ctypes.c_uint64.from_address(address + WORD * index).value


def _heads() -> Check:
    """The class of an object is the last word of its head; the value of a number follows it."""
    numbers: tuple[tuple[object, Callable[..., object]], ...] = (
        (1.5, ctypes.c_double), (np.float64(2.5), ctypes.c_double), (2.5j, ctypes.c_double * 2),
        (np.float32(3.5), ctypes.c_float), (np.complex128(1j), ctypes.c_double * 2),
        (np.complex64(1 + 2j), ctypes.c_float * 2),
    )  # fmt: skip
    for instance in (object(), np.zeros(1), {}, [], (), "", 1, None, *[x for x, _ in numbers]):
        if _word_at(id(instance), CLASS) != id(type(instance)):
            yield f"the class of a {type(instance).__name__} lies elsewhere"
    for number, kind in numbers:
        if type(number).__basicsize__ < VALUE + ctypes.sizeof(kind):
            yield f"a {type(number).__name__} is smaller than its value"
        field = kind.from_address(id(number) + VALUE)
        value = complex(*field) if isinstance(number, complex | np.complexfloating) else field.value  # type: ignore[misc] - an array of two
        if value != number:
            yield f"the value of a {type(number).__name__} lies elsewhere"


def _arrays() -> Check:
    """Where data, rank, shape, strides, dtype and flags of an array lie."""
    last = max(*ARRAY.values(), *[half // 2 for half in ARRAY_HALVES.values()])
    if np.ndarray.__basicsize__ < WORD * (last + 1):
        yield "arrays are smaller than their fields"
    base = np.arange(24.0, dtype=np.float32)
    for array in (base.reshape(2, 3, 4), base.reshape(4, 6).T[1:, ::2], base[:0], base[3:4][0:1]):
        words = {name: _word_at(id(array), place) for name, place in ARRAY.items()}
        halves = (ctypes.c_int32 * (2 * last + 2)).from_address(id(array))
        if words["data"] != array.ctypes.data or words["descr"] != id(array.dtype):
            yield "the data or the dtype of an array lies elsewhere"
        if halves[ARRAY_HALVES["rank"]] != array.ndim:
            yield "the rank of an array lies elsewhere"
        if halves[ARRAY_HALVES["flags"]] != array.flags.num:
            yield "the flags of an array lie elsewhere"
        dims, strides = words["dims"], words["strides"]
        if strides != dims + WORD * array.ndim:  # so both point into the array's own memory
            yield "the shape or the strides of an array lie elsewhere"
        lengths = (ctypes.c_int64 * (2 * array.ndim)).from_address(dims)
        if tuple(lengths) != (*array.shape, *array.strides):
            yield "the shape or the strides of an array are not what they were taken for"


def _slots_of_header(names: Iterable[str]) -> dict[str, int]:
    """The slots of these functions by NumPy's own header, as far as that is installed."""
    core = Path(str(_NUMPY.__file__)).parent
    header = core.joinpath("include", "numpy", "__multiarray_api.h")
    text = ""
    with Suppressed(OSError):
        text = header.read_text(encoding="latin-1")
    slots = {}
    for name in names:
        _, defined, rest = text.partition(f"#define PyArray_{name} ")
        if defined:
            slots[name] = int(rest.partition("PyArray_API[")[2].partition("]")[0])
    return slots


def _slots_of_numpy() -> Check:
    """Each slot of NumPy's table holds the function that the stub expects: try them."""
    names = {"Type": _ARRAY_TYPE, "GetNDArrayCVersion": _VERSION} | NUMPY_API
    for name, slot in _slots_of_header(names).items():
        if slot != names[name]:
            yield f"NumPy's header has PyArray_{name} in slot {slot}"
    if numpy_api(_ARRAY_TYPE) != id(np.ndarray):
        yield "NumPy's C interface does not begin with the class of arrays"
    version = ctypes.PYFUNCTYPE(ctypes.c_uint)(numpy_api(_VERSION))()
    if version >> 24 != _MAJOR:
        yield f"NumPy's C interface is of version {version:#x}"
    py_object, number, address = ctypes.py_object, ctypes.c_int, ctypes.c_void_p
    new = ctypes.PYFUNCTYPE(
        py_object, py_object, address, number, address, *[address] * 2, number, py_object
    )
    copy = ctypes.PYFUNCTYPE(py_object, py_object, number)(numpy_api(NUMPY_API["NewCopy"]))
    scalar = ctypes.PYFUNCTYPE(py_object, address, py_object, address)(
        numpy_api(NUMPY_API["Scalar"])
    )
    alike = ctypes.PYFUNCTYPE(ctypes.c_ubyte, py_object, py_object)(
        numpy_api(NUMPY_API["EquivTypes"])
    )
    dtype, other = np.dtype("f4", metadata={"of": "no other array"}), np.dtype("f8")
    turned = np.arange(6, dtype=dtype).reshape(2, 3).T
    before = sys.getrefcount(dtype), sys.getrefcount(turned)
    copied, scalar_number = copy(turned, 0), scalar(turned.ctypes.data + 4, dtype, None)
    if not (copied.flags.c_contiguous and copied.flags.owndata and (copied == turned).all()):
        yield "the slot of PyArray_NewCopy holds another function"
    if type(scalar_number) is not np.float32 or scalar_number != 1.0:
        yield "the slot of PyArray_Scalar holds another function"
    if not alike(dtype, np.dtype("<f4")) or alike(dtype, other):
        yield "the slot of PyArray_EquivTypes holds another function"
    ctypes.pythonapi.Py_IncRef(py_object(dtype))  # the new array takes this reference
    lengths = (ctypes.c_int64 * 2)(3, 2)
    make = new(numpy_api(NUMPY_API["NewFromDescr"]))
    fresh = make(np.ndarray, id(dtype), 2, ctypes.addressof(lengths), None, None, 0, py_object())
    if fresh.shape != (3, 2) or fresh.dtype is not dtype or not fresh.flags.owndata:
        yield "the slot of PyArray_NewFromDescr holds another function"
    del copied, scalar_number, fresh
    if (sys.getrefcount(dtype), sys.getrefcount(turned)) != before:
        yield "NumPy's C interface counts references otherwise"


class _Sample:
    def method(self) -> None: ...


def _functions_of_python() -> Check:
    """Which functions return new references and which borrowed ones, by reference counts."""
    value, key, sample = object(), "a key of a dict", _Sample()

    def function() -> object:
        return value

    ((cell,), method) = function.__closure__ or (None,), sample.method
    samples: tuple[tuple[str, object, int, object, bool], ...] = (
        ("PyTuple_GetItem", (value,), 0, value, False),
        ("PyList_GetItem", [value], 0, value, False),
        ("PyDict_GetItemWithError", {key: value}, id(key), value, False),
        ("PyFunction_GetCode", function, 0, function.__code__, False),
        ("PyFunction_GetGlobals", function, 0, function.__globals__, False),
        ("PyFunction_GetClosure", function, 0, function.__closure__, False),
        ("PyMethod_Function", method, 0, _Sample.method, False),
        ("PyMethod_Self", method, 0, sample, False),
        ("PyCell_Get", cell, 0, value, True),
        ("PyObject_Type", sample, 0, _Sample, True),
        ("PyObject_GenericGetDict", sample, 0, vars(sample), True),
        ("PyObject_GetAttr", function, id("__code__"), function.__code__, True),
    )
    for name, holder, argument, wanted, references in samples:
        look = _prototype(ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(python_api(name))
        before = sys.getrefcount(wanted)
        if look(holder, argument) != id(wanted) or sys.getrefcount(wanted) != before + references:
            yield f"{name} does not {'give' if references else 'lend'} what it was asked for"
        if references:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(wanted))
    yield from _dicts(value, key, function)


def _dicts(value: object, key: str, function: Callable[..., object]) -> Check:
    """Where the length of a dict lies, how it is iterated, where a function's attributes lie."""
    for sample in ({}, {key: value}, dict.fromkeys(range(9))):
        if dict.__basicsize__ <= WORD * LENGTH or _word_at(id(sample), LENGTH) != len(sample):
            yield "the number of entries of a dict lies elsewhere"
    table, place, item = {key: value}, ctypes.c_ssize_t(0), [ctypes.c_void_p(), ctypes.c_void_p()]
    follow = _prototype(ctypes.c_int, ctypes.py_object, *[ctypes.c_void_p] * 3)
    more = follow(python_api("PyDict_Next"))
    where, before = [ctypes.addressof(x) for x in (place, *item)], sys.getrefcount(value)
    if more(table, *where) != 1 or [x.value for x in item] != [id(key), id(value)]:
        yield "PyDict_Next does not lend the entries of a dict"
    if more(table, *where) != 0 or sys.getrefcount(value) != before:
        yield "PyDict_Next does not end with the last entry"
    dict_of = _prototype(ctypes.c_void_p, ctypes.py_object)(python_api("_PyObject_GetDictPtr"))
    function.__dict__["kept"] = value
    at = dict_of(function)
    if at is None or _word_at(at, 0) != id(function.__dict__):
        yield "the attributes of a function lie elsewhere"


def _prototype(
    *types: type[ctypes.c_void_p | ctypes.c_int | ctypes.py_object[object]],
) -> Callable[[int], Callable[..., int | None]]:
    return ctypes.PYFUNCTYPE(*types)
