"""What was read from outside, as machine code looks at it: calls of Python's C interface.

Places that no such call reaches are left to the functions of `capture.walks`.
"""

from __future__ import annotations

import ctypes
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any

from ..capture import walks
from ..capture.kinds import MISSING
from ..kernels.native.caller import Outside, Read

if TYPE_CHECKING:
    from ..capture.reads import Pins

_GETTERS = {
    "__code__": "PyFunction_GetCode",
    "__defaults__": "PyFunction_GetDefaults",
    "__kwdefaults__": "PyFunction_GetKwDefaults",
}


def outside(pins: Pins) -> Outside:
    """All that must be as it was, but the types of captured arrays: they are inputs."""
    _, codes, items, places, _ = pins
    reads: list[Read] = []
    rest: list[tuple[object, object]] = []
    kinds: list[tuple[Any, tuple[Any, ...]]] = [
        (walks.attributes, tuple([(f, "__code__", code) for f, code in codes])),
        (walks.items, items),
        *[(check, found) for check, found in places if check is not walks.known],
    ]
    for check, found in kinds:
        look, left = _LOOKS.get(check), []
        for one in found:
            seen = None if look is None else look(*one)
            if seen is None:
                left.append(one)
            else:
                reads += seen
        if left:
            rest.append((check, tuple(left)))
    return Outside(tuple(reads), tuple(rest), pins)


def _item(mapping: object, key: object, value: object) -> list[Read] | None:
    if type(mapping) is not dict or type(key) is not str:
        return None
    return [Read("PyDict_GetItemWithError", mapping, id(key), _address(value))]


def _attribute(thing: object, name: str, value: object) -> list[Read] | None:
    if type(thing) is CellType:
        return [Read("PyCell_Get", thing, 0, _address(value), owned=True)]
    if type(thing) is FunctionType and name in _GETTERS:
        return [Read(_GETTERS[name], thing, 0, 0 if value is None else id(value))]
    return None


def _content(container: object, values: tuple[object, ...]) -> list[Read] | None:
    if type(container) is not list:
        return None
    size = Read("PyList_Size", container, 0, len(values))
    return [size, *[Read("PyList_GetItem", container, k, id(x)) for k, x in enumerate(values)]]


def _instance(thing: object, kind: type, namespace: object) -> list[Read] | None:
    """The class of an object and its own dict, if that is where Python keeps one."""
    find = ctypes.pythonapi.PyObject_GenericGetDict
    find.restype, find.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    if find(thing, None) is not namespace:
        return None
    return [
        Read("PyObject_Type", thing, 0, id(kind), owned=True),
        Read("PyObject_GenericGetDict", thing, 0, id(namespace), owned=True),
    ]


def _address(value: object) -> int:
    return 0 if value is MISSING else id(value)


_LOOKS: dict[object, Any] = {
    walks.items: _item,
    walks.attributes: _attribute,
    walks.contents: _content,
    walks.objects: _instance,
}
