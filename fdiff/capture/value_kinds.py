"""Kinds of values: the immutable ones and their comparison, and values that come from a library.

See docs/decisions/impure-functions.md.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
import re
import struct
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import CodeType, FunctionType
from typing import cast

import fdiff.intact_numpy as np

from ..primitive import LIBRARY_OBJECTS
from ..user_lines import SITE_PACKAGES, STDLIB


class Missing:
    """The value of an absent name or key, or of an empty cell."""


MISSING = Missing()
HEAP = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class that a ``class`` statement has made

# ----------------------------------------------------------------------- immutable values, by value


def _itself(value: Hashable) -> Hashable:
    return value


def _keys_of_parts(values: Iterable[object]) -> tuple[Hashable, ...] | None:
    keys = tuple(map(leaf_key, values))
    return None if None in keys else keys


def _parts_of_set(values: Iterable[object]) -> frozenset[Hashable] | None:
    keys = _keys_of_parts(values)
    return None if keys is None else frozenset(keys)


_KEYS: dict[type, Callable[..., Hashable]] = {
    **dict.fromkeys((int, bool, str, bytes, type(...), type(NotImplemented), CodeType), _itself),
    type(None): lambda _: "None",
    float: struct.Struct("d").pack,  # nan equals nan, 0.0 differs from -0.0
    complex: lambda z: struct.pack("2d", z.real, z.imag),
    range: lambda r: (r.start, r.stop, r.step),
    slice: lambda s: _keys_of_parts((s.start, s.stop, s.step)),
    tuple: _keys_of_parts,
    frozenset: _parts_of_set,
}
SCALARS = frozenset((int, float, complex, bool, str, bytes, type(None), type(...)))
_BY_REPR = {
    "datetime": {"date", "datetime", "time", "timedelta"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "pathlib": {"PosixPath", "PurePosixPath", "PureWindowsPath", "WindowsPath"},
}


def leaf_key(value: object) -> tuple[Hashable, ...] | None:
    """The key by which an immutable value is compared; None for other kinds."""
    kind = type(value)
    if (rule := _KEYS.get(kind)) is not None:
        return None if (key := rule(value)) is None else (kind, key)
    if isinstance(value, np.dtype):
        return np.dtype, value
    if isinstance(value, np.generic) and kind not in {np.void, np.object_}:
        return kind, value.dtype, value.tobytes()
    if kind.__name__ in _BY_REPR.get(module_name(kind).partition(".")[0], ()):
        return kind, repr(value)
    return None


def module_name(kind: type) -> str:
    name = kind.__module__
    return name if isinstance(name, str) else ""  # pyright: ignore[reportUnnecessaryIsInstance] - a class may hold anything there


def item_key(value: object) -> Hashable:
    """A key for an item of a set, or for a key of a dict: its value if it has one, else its id."""
    return leaf_key(value) or ("id", id(value))


# ---------------------------------------------------------------------------------------- libraries

_OURS = __name__.partition(".")[0]
_LIBRARIES = frozenset(("numpy", "scipy", "numba", "llvmlite", _OURS))
_SUFFIXES = tuple(EXTENSION_SUFFIXES)
_STDLIB = (STDLIB, "<frozen")


@lru_cache(maxsize=4096)
def _is_library(name: str, file: str | None) -> bool:
    """Whether code of this module is NumPy's, SciPy's, Numba's, Python's or ours: not the user's.

    A user's own `statistics.py` or `signal.py` is the user's.
    """
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return not file or file.startswith(_STDLIB)
    return top in _LIBRARIES


def library_namespace(namespace: Mapping[str, object]) -> bool:
    name, file = namespace.get("__name__"), namespace.get("__file__")
    return isinstance(name, str) and _is_library(name, file if isinstance(file, str) else None)


_MAKERS = frozenset(("abc", "types", "dataclasses"))  # their functions name themselves as modules


def library_class(kind: type) -> bool:
    name = module_name(kind)
    module = sys.modules.get(name)
    if name in _MAKERS and vars(module).get(kind.__name__) is not kind:
        return False  # `abc.ABCMeta("Name", ...)`, `types.new_class`
    return library_namespace(vars(module)) if module else _is_library(name, None)


@lru_cache(maxsize=1024)
def _compiled(top: str) -> bool:
    """Whether an installed package has parts written in C, which know its classes by identity."""
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return _installed(top, file) and any(
        name.startswith(f"{top}.") and str(getattr(module, "__file__", "")).endswith(_SUFFIXES)
        for name, module in sys.modules.copy().items()
    )


def _installed(top: str, file: str) -> bool:
    """Whether a package lies where packages are installed, or beside its ``.dist-info``."""
    beside = Path(file).parent.parent
    return file.startswith(SITE_PACKAGES) or any(beside.glob(f"{top}-*.dist-info"))


def is_pandas(kind: type) -> bool:
    """Whether a class is one of pandas, whose objects are data and whose methods are pure."""
    return module_name(kind).partition(".")[0] == "pandas" and packaged(kind)


def packaged(kind: type) -> bool:
    """Whether a class belongs to an installed package with parts written in C."""
    return _compiled(module_name(kind).partition(".")[0])


def is_user_function(value: object) -> bool:
    return isinstance(value, FunctionType) and not library_namespace(value.__globals__)


_FUNCTIONS = frozenset((np.ufunc, type(np.sum), types.BuiltinFunctionType, float, int, str))
_HOLDERS = frozenset((np.ndarray, dict, list, set, deque, FunctionType, functools.partial)) | {
    types.SimpleNamespace,
    types.ModuleType,
}


def foreign(value: object) -> bool:
    """Whether a value in a library's module may be, or contain, an object that a user put there."""
    kind = type(value)
    if kind in _FUNCTIONS:
        return False
    if isinstance(value, type):
        return not library_class(value)
    if kind is tuple:
        return any(map(foreign, cast("tuple[object, ...]", value)))
    if isinstance(value, types.MethodType):
        return is_user_function(value.__func__) or foreign(value.__self__)
    if isinstance(value, functools._lru_cache_wrapper):
        return is_user_function(value.__wrapped__)
    if kind in _HOLDERS or kind in LIBRARY_OBJECTS or module_name(kind) == "unittest.mock":
        return True
    return bool(kind.__flags__ & HEAP) and not library_class(kind)


def is_ours(namespace: Mapping[str, object]) -> bool:
    """Whether a namespace is one of fdiff's."""
    return str(namespace.get("__name__")).partition(".")[0] == _OURS


# ----------------------------------------------------------------------------------- other objects

_IDENTITY = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.GenericAlias,
    types.UnionType,
    re.Pattern,
    dataclasses._MISSING_TYPE,
    *{type(value) for name, value in vars(dataclasses).items() if name == "_HAS_DEFAULT_FACTORY"},
    *{type(x) for x in (np.sum, np.s_, np.r_, np.c_, np.mgrid, np.ogrid)},
)


def unchanging(value: object) -> bool:
    """Whether nothing about this object can change, so that identities are compared."""
    kind = type(value)
    if isinstance(value, _IDENTITY) or kind is object:
        return True
    if isinstance(
        value, types.MethodWrapperType
    ):  # `object.__setattr__.__get__`, which attrs calls
        return unchanging(value.__self__)
    if kind.__module__ == "typing" and not isinstance(value, type):
        return True
    if isinstance(value, Enum):
        return leaf_key(value._value_) is not None and unchanging_class(kind)
    if isinstance(value, operator.itemgetter | operator.attrgetter):
        return leaf_key(value.__reduce__()[1]) is not None
    if isinstance(value, tuple) and hasattr(kind, "n_sequence_fields"):  # `sys.float_info`
        return leaf_key(tuple(value)) is not None
    return isinstance(value, np.ufunc) and any("O" not in loop for loop in value.types)


def unchanging_class(kind: type) -> bool:
    """Whether a class has no code and no data of the user."""
    if library_class(kind) or is_pandas(kind):
        return True
    if not ordinary(kind):
        return False
    return _is_plain_class(kind, {*getattr(kind, "__members__", ()), *getattr(kind, "_fields", ())})


def ordinary(kind: type) -> bool:
    """Whether the metaclass is a library's, or has no code and no data of the user.

    Other metaclasses may compute anything: attributes, items, the result of a call of the class.
    """
    return library_class(type(kind)) or (type(kind) is not kind and _is_plain_class(type(kind), ()))


def exception_data(kind: type) -> dict[str, object] | None:
    """Data and functions in an exception class of the user, if nothing else can change it.

    None if its functions read anything outside, or its data are not compared by value.
    """
    if not (issubclass(kind, BaseException) and ordinary(kind)):
        return None
    own = {name: value for name, value in vars(kind).items() if not is_user_function(value)}
    functions = vars(kind).keys() - own.keys()
    data = {name: v for name, v in own.items() if not (name[:2] == "__" and name[-2:] == "__")}
    if any(leaf_key(value) is None for value in data.values()):
        return None
    if any(_reads_outside(vars(kind)[name]) for name in functions):
        return None
    return data | {name: vars(kind)[name] for name in functions}


def _reads_outside(function: FunctionType) -> bool:
    """Whether a function names globals or cells, except the class around it."""
    if {*function.__code__.co_freevars} - {"__class__"}:
        return True
    return any(
        not function.__globals__.keys().isdisjoint(c.co_names) for c in parts_of(function.__code__)
    )


def parts_of(code: CodeType) -> Iterator[CodeType]:
    """A piece of code, and the code of all functions it defines."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from parts_of(value)


# Names that `collections`, `abc` and `enum` put into a class; other names except dunders are data.
_MACHINERY = frozenset(
    ("_fields", "_field_defaults", "_make", "_replace", "_asdict", "_abc_impl", "_is_protocol")
)


def _is_plain_class(kind: type, names: Collection[str]) -> bool:
    """Whether a class has no code and no data of the user, except attributes of these names."""
    return all(
        _is_field(value)
        if name in names
        else (name in _MACHINERY or name.strip("_") != name.rstrip("_") != name)
        and not _user_code(value)
        for base in kind.__mro__
        if not library_class(base)
        for name, value in vars(base).items()
    )


def _is_field(value: object) -> bool:
    """Whether Python finds an instance's own attribute of that name first, and no property."""
    kind = type(value)
    return not hasattr(kind, "__set__") or (library_class(kind) and not isinstance(value, property))


def _user_code(value: object) -> bool:
    function = getattr(value, "__func__", value)
    return isinstance(function, property) or (
        isinstance(function, FunctionType)
        and is_user_function(function)
        and not function.__code__.co_filename.startswith("<string>")  # written by dataclasses
    )


def field_names(kind: type) -> tuple[str, ...]:
    """Fields of a dataclass."""
    return tuple(field.name for field in dataclasses.fields(kind))


def record_class(kind: type) -> bool:
    """Whether a class is a dataclass without code or data of the user beside its fields."""
    return (
        ordinary(kind)
        and dataclasses.is_dataclass(kind)
        and unchanging_class(kind)
        and not any(is_user_function(field.default_factory) for field in dataclasses.fields(kind))
    )


def is_record(value: object) -> bool:
    """Whether `value` has no data beside the fields of its dataclass."""
    kind = type(value)
    if not (ordinary(kind) and dataclasses.is_dataclass(kind)):
        return False
    if not _is_plain_class(kind, (*field_names(kind), "__post_init__")):
        return False
    if hasattr(value, "__dict__"):
        return vars(value).keys() <= set(field_names(kind))
    return bool(kind.__dataclass_params__.frozen)  # type: ignore[attr-defined] - stubs leave it out


def is_named_tuple(value: object) -> bool:
    if not (isinstance(value, tuple) and ordinary(type(value))):
        return False
    fields = getattr(type(value), "_fields", None)
    return fields is not None and _is_plain_class(type(value), fields)


def is_dispatcher(value: object) -> bool:
    """Whether `value` is a function compiled by Numba, and not a ufunc made by Numba."""
    kind = type(value)
    numba = module_name(kind).partition(".")[0] == "numba" and kind.__name__.endswith("Dispatcher")
    return numba and hasattr(value, "py_func")


def is_vectorized(value: object) -> bool:
    """Whether `value` is a ufunc made by Numba of a Python function that it still has."""
    kind = type(value)
    numba = module_name(kind).startswith("numba.np.ufunc.") and not isinstance(value, type)
    return numba and hasattr(value, "types") and is_user_function(getattr(value, "__wrapped__", 0))


def is_transformed(value: object) -> bool:
    """Whether `value` is a callable made by fdiff, which watches what it reads itself."""
    return hasattr(type(value), "__fdiff__") and module_name(type(value)).startswith(_OURS + ".")


def has_rules(value: object) -> bool:
    """Whether `value` is a function with derivative rules of the user's, made by fdiff."""
    return hasattr(type(value), "__fdiff_parts__")


def is_traced(value: object) -> bool:
    return getattr(type(value), "__fdiff_traced__", False) is True


def traced_within(value: object) -> bool:
    """Whether a value is traced, or is a tuple that holds a traced value."""
    if isinstance(value, tuple):
        return any(map(traced_within, cast("tuple[object, ...]", value)))
    return is_traced(value)


def constant_of(value: object) -> np.ndarray | None:
    """The read-only array that an object of another class stands for, if it is a constant.

    A recorded array that requires no gradient is a constant (`autograd/arrays/recorded_array.py`).
    """
    read = getattr(type(value), "__fdiff_constant__", None)  # attributes may be made when asked for
    return read.fget(value) if isinstance(read, property) and read.fget is not None else None
