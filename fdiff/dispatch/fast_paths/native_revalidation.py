"""Revalidation in machine code: is each object that a function read from outside unchanged?

Each place that was read (a global, a closure cell, a default, an attribute) becomes a call of
Python's C interface and the address that the call must return, which the entry stub checks. Places
that no such call reaches stay Python functions of `fdiff.capture.revalidation`, which the stub
calls.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from gc import get_referents
from types import CellType, FunctionType, MappingProxyType, MethodType
from typing import TYPE_CHECKING, Any

from ...capture import revalidation
from ...capture.value_kinds import MISSING
from ...foreign_errors import not_foreign
from ...kernels import ATTRIBUTES, OWNED, Lookup, Preconditions

if TYPE_CHECKING:
    from ...capture.dependencies import Pins

_GETTERS = {
    "__code__": "PyFunction_GetCode",
    "__defaults__": "PyFunction_GetDefaults",
    "__kwdefaults__": "PyFunction_GetKwDefaults",
}


def native_reads(pins: Sequence[Pins]) -> Preconditions:
    """All that must be as it was. Captured arrays are inputs, whose types the stub compares."""
    reads: list[Lookup] = []
    rest: dict[object, list[object]] = {}
    for check, places in _kinds(pins):
        look = _NATIVE_READS.get(check)
        for place in places:
            seen = None if look is None else look(*place)
            if seen is None:
                rest.setdefault(check, []).append(place)
            else:
                reads += seen
    return Preconditions(tuple(reads), tuple((c, tuple(left)) for c, left in rest.items()), pins)


def _kinds(pins: Sequence[Pins]) -> Iterator[tuple[object, tuple[Any, ...]]]:
    """Kinds of places, and the contents of the places of each kind."""
    for pin in pins:
        yield revalidation.same_attributes, tuple([(f, "__code__", code) for f, code in pin.codes])
        yield revalidation.same_items, pin.items
        for check, places in pin.places:
            if check is not revalidation.same_layouts:
                yield check, places


def reads_of_function(f: object) -> tuple[Lookup, ...] | None:
    """The reads that show whether the first argument is the same function as `f`, or an equal one.

    None where reads of memory cannot show it.
    """
    if type(f) is FunctionType:
        return _sibling(f)
    if type(f) is not MethodType:
        return None
    return (
        Lookup("PyObject_Type", 0, 0, id(MethodType), OWNED),
        Lookup("PyMethod_Function", 0, 0, id(f.__func__)),
        Lookup("PyMethod_Self", 0, 0, id(f.__self__)),
    )


def _sibling(f: FunctionType) -> tuple[Lookup, ...] | None:
    """Checks that the first argument has the code, globals, defaults and cell contents of `f`."""
    try:
        contents = [cell.cell_contents for cell in f.__closure__ or ()]
    except not_foreign(ValueError):  # an empty cell
        return None
    if f.__kwdefaults__ or f.__dict__:
        return None
    reads = [
        Lookup("PyObject_Type", 0, 0, id(FunctionType), OWNED),
        Lookup("PyFunction_GetCode", 0, 0, id(f.__code__)),
        Lookup("PyFunction_GetGlobals", 0, 0, id(f.__globals__)),
        Lookup("PyFunction_GetKwDefaults", 0),
        Lookup("_PyObject_GetDictPtr", 0, how=ATTRIBUTES),
        *_tuple_checks("PyFunction_GetDefaults", f.__defaults__),
    ]
    if not contents:
        return (*reads, Lookup("PyFunction_GetClosure", 0))
    reads.append(Lookup("PyFunction_GetClosure", 0, into=1))
    for k, value in enumerate(contents):
        reads += [
            Lookup("PyTuple_GetItem", 1, k, into=2),
            Lookup("PyCell_Get", 2, 0, id(value), OWNED),
        ]
    return tuple(reads)


def _tuple_checks(function: str, values: tuple[object, ...] | None) -> list[Lookup]:
    """Checks that `function` of the first argument returns a tuple of these objects, or null."""
    if values is None:
        return [Lookup(function, 0)]
    size = Lookup("PyTuple_Size", 1, 0, len(values))
    items = [Lookup("PyTuple_GetItem", 1, k, id(value)) for k, value in enumerate(values)]
    return [Lookup(function, 0, into=1), size, *items]


def _item(mapping: object, key: object, value: object) -> list[Lookup] | None:
    if type(mapping) is MappingProxyType:  # of a class, which keeps one dict
        referents = get_referents(mapping)
        mapping = referents[0] if len(referents) == 1 else None
    if type(mapping) is not dict or type(key) is not str:
        return None
    return [Lookup("PyDict_GetItemWithError", mapping, id(key), _address(value))]


def _attribute(holder: object, name: str, value: object) -> list[Lookup] | None:
    if type(holder) is CellType:
        return [Lookup("PyCell_Get", holder, 0, _address(value), how=OWNED)]
    if type(holder) is FunctionType and name in _GETTERS:
        return [Lookup(_GETTERS[name], holder, 0, 0 if value is None else id(value))]
    return None


def _content(container: object, values: tuple[object, ...]) -> list[Lookup] | None:
    if type(container) is not list:
        return None
    size = Lookup("PyList_Size", container, 0, len(values))
    return [size, *[Lookup("PyList_GetItem", container, k, id(x)) for k, x in enumerate(values)]]


def _instance(holder: object, kind: type, namespace: object) -> list[Lookup] | None:
    """The class of an object and its own dict, if that is where Python keeps one."""
    find = ctypes.pythonapi.PyObject_GenericGetDict
    find.restype, find.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    if find(holder, None) is not namespace:
        return None
    return [
        Lookup("PyObject_Type", holder, 0, id(kind), how=OWNED),
        Lookup("PyObject_GenericGetDict", holder, 0, id(namespace), how=OWNED),
    ]


def _address(value: object) -> int:
    return 0 if value is MISSING else id(value)


_NATIVE_READS: dict[object, Callable[..., Sequence[Lookup] | None]] = {
    revalidation.same_items: _item,
    revalidation.same_attributes: _attribute,
    revalidation.same_contents: _content,
    revalidation.same_objects: _instance,
}
