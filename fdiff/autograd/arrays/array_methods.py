"""Operators, methods and attributes of recorded arrays: each is a recorded call of NumPy.

Recorded arrays have all methods of NumPy arrays: they are taken from `numpy.ndarray` itself. The
methods that store into the array are in `in_place_operations.py`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator

import fdiff.intact_numpy as np

from ...foreign_errors import noting, telling
from ...hooks import Args, Named
from ...process import observed_spans
from ...user_lines import user_line
from ..backward_passes.engine import backward
from ..backward_passes.hook_registration import (
    register_hook,
    register_post_accumulate_grad_hook,
    retain_grad,
)
from ..calls.recording import UNREAD, apply_ufunc, array_key, record, record_one, static_key
from ..thread_state import UNRECORDED_CALLS, state
from .array_kinds import NUMBER
from .recorded_array import Recordable, RecordedArray, Version
from .recorded_views import ViewOf
from .torch_spellings import check_keywords, missing

_BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide,
    "floordiv": np.floor_divide, "mod": np.remainder, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift, "pow": np.power, "matmul": np.matmul,
}  # fmt: skip
_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
_UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute, "invert": np.invert}


def _enter(name: str, value: object) -> None:
    """Give the class one more method or attribute."""
    setattr(RecordedArray, name, value)


# Each operator looks for the short way of its call itself: a function more would cost as much as
# NumPy takes for a few numbers.


def _binary(ufunc: np.ufunc) -> Callable[..., object]:
    unread = ufunc in UNREAD

    def operate(self: RecordedArray, other: Recordable) -> object:
        kind = other.__class__
        if self.viewing is not None:
            self.viewing.refresh(self)
        if kind is RecordedArray:
            if other.viewing is not None:
                other.viewing.refresh(other)
            call = state.calls.get((ufunc, self.kind, other.kind))
        elif kind is float or kind is int:
            number = NUMBER if unread else (kind, other or str(other))  # as in `array_key`
            call = state.calls.get((ufunc, self.kind, number))
        elif _foreign(other):
            return NotImplemented
        else:
            call = state.calls.get((ufunc, self.kind, array_key(ufunc, other)))
        if call is None or observed_spans.observer is not None:
            return apply_ufunc(ufunc, self, other)
        return call(self, other)

    return operate


def _reflected(ufunc: np.ufunc) -> Callable[..., object]:
    unread = ufunc in UNREAD

    def operate(self: RecordedArray, other: object) -> object:
        kind = other.__class__
        if self.viewing is not None:
            self.viewing.refresh(self)
        if kind is float or kind is int:
            number = NUMBER if unread else (kind, other or str(other))  # as in `array_key`
            call = state.calls.get((ufunc, number, self.kind))
        elif _foreign(other):
            return NotImplemented
        else:
            call = state.calls.get((ufunc, array_key(ufunc, other), self.kind))
        if call is None or observed_spans.observer is not None:
            return apply_ufunc(ufunc, other, self)
        return call(other, self)

    return operate


_KNOWN = frozenset((RecordedArray, float, int, np.ndarray))
_UNASKED = object()


def _foreign(other: object) -> bool:
    """Whether an object is not an operand for NumPy, and may implement the operation itself."""
    if other.__class__ in _KNOWN:
        return False
    asked = getattr(other, "__array_ufunc__", _UNASKED)  # pandas and others have a function here
    sparse = asked is _UNASKED and getattr(other, "__array_priority__", 0.0) > 0.0
    return other is None or asked is None or sparse


def _unary(ufunc: np.ufunc) -> Callable[..., object]:
    def operate(self: RecordedArray) -> object:
        if self.viewing is not None:
            self.viewing.refresh(self)
        call = state.calls.get((ufunc, self.kind))
        if call is None or observed_spans.observer is not None:
            return apply_ufunc(ufunc, self)
        return call(self)

    return operate


for _name, _ufunc in {**_BINARY, **_COMPARE}.items():
    _enter(f"__{_name}__", _binary(_ufunc))
for _name, _ufunc in _BINARY.items():
    _enter(f"__r{_name}__", _reflected(_ufunc))
for _name, _ufunc in _UNARY.items():
    _enter(f"__{_name}__", _unary(_ufunc))
_enter("__divmod__", lambda x, other: apply_ufunc(np.divmod, x, other))
_enter("__rdivmod__", lambda x, other: apply_ufunc(np.divmod, other, x))
_enter("__round__", lambda x, decimals=None: x.round(decimals or 0))
_enter("__hash__", object.__hash__)  # arrays are keys by identity, as in torch


def _array_ufunc(
    self: RecordedArray, ufunc: np.ufunc, method: str, *inputs: Recordable, **kwargs: object
) -> object:
    if kwargs or method != "__call__":
        what: Callable[..., object] = ufunc if method == "__call__" else getattr(ufunc, method)
        return record(what, ufunc.__name__, inputs, kwargs)
    if len(inputs) == 1:
        if self.viewing is not None:
            self.viewing.refresh(self)
        call = state.calls.get((ufunc, self.kind))
        if call is None or observed_spans.observer is not None:
            return apply_ufunc(ufunc, self)
        return call(self)
    a, b = inputs[0], inputs[-1]
    if a.__class__ is b.__class__ is RecordedArray and a.viewing is b.viewing is None:
        key = (ufunc, a.kind, b.kind) if len(inputs) == 2 else None
    else:
        key = (ufunc, *[array_key(ufunc, x) for x in inputs])
    call = state.calls.get(key)
    if call is None or observed_spans.observer is not None:
        return apply_ufunc(ufunc, *inputs)
    return call(*inputs)


def _array_function(
    self: RecordedArray, func: Callable[..., object], types: object, args: Args, kwargs: Named
) -> object:
    return record_one(func, func.__name__, args, kwargs)


def _missing(self: RecordedArray, name: str) -> object:
    raise missing(self, name)


_enter("__getattr__", telling(_missing))
_enter("__array_ufunc__", _array_ufunc)
_enter("__array_function__", _array_function)


# --------------------------------------------------------------------------------- methods


class _Method:
    """A method of `ndarray` as a function: ``method(x, *args)``; one object for each name.

    `method` is its name, for `recipes.py`.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = self.method = name

    def __call__(self, x: object, *args: object, **kwargs: object) -> object:
        return getattr(x, self.__name__)(*args, **kwargs)


def _method(name: str) -> Callable[..., object]:
    call = _Method(name)

    def method(self: RecordedArray, *args: object, **kwargs: object) -> object:
        if kwargs:
            check_keywords(name, kwargs)
        return record_one(call, name, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = f"As `numpy.ndarray.{name}`."
    return method


def _attribute(name: str, *, settable: bool = False) -> property:
    read = operator.attrgetter(name)

    def get(self: RecordedArray) -> Recordable:
        return record_one(read, name, (self,), {})

    def store(self: RecordedArray, value: object) -> None:
        get(self)[...] = value  # a view

    return property(noting(get), store if settable else None, doc=f"As `numpy.ndarray.{name}`.")


def getitem(x: Recordable, key: object) -> object:
    """``x[key]``."""
    return x[key]


def _getitem(self: RecordedArray, key: object) -> object:
    """As of `numpy.ndarray`."""
    kind = key.__class__
    if kind is int or kind is slice:
        if self.viewing is not None:
            self.viewing.refresh(self)
        call_key = static_key((getitem, self.kind), key)
        call = state.calls.get(call_key)
        if call is not None and observed_spans.observer is None:
            out = call(self, (key,), _NO_KEYWORDS, call_key)
            if out is not None:
                return out
    return record_one(getitem, "get_item", (self, key), {})


_NO_KEYWORDS: dict[str, object] = {}


def _iterate(self: RecordedArray) -> Iterator[object]:
    if not self.value.ndim:
        raise TypeError("iteration over a 0-d array")
    return (self[i] for i in range(len(self.value)))


class FlatEntries:
    """The entries of an array in C order, like ``x.flat``, for reading; each read is recorded."""

    def __init__(self, array: RecordedArray) -> None:
        self.array = array

    def __len__(self) -> int:
        return self.array.size

    def __iter__(self) -> Iterator[object]:
        return iter(self.array.flatten())

    def __getitem__(self, key: object) -> object:
        return self.array.flatten()[key]

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError("x.flat of a recorded array is read-only. Write x.put(indices, value).")


def _of_value(name: str) -> property:
    return property(operator.attrgetter(f"value.{name}"), doc=f"As `numpy.ndarray.{name}`.")


_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
    "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten",
    "max", "mean", "min", "nonzero", "prod", "ravel", "repeat", "reshape", "round",
    "searchsorted", "squeeze", "std", "sum", "swapaxes", "take", "trace", "transpose", "var",
    "view",
)  # fmt: skip
for _name in _METHODS:
    _enter(_name, _method(_name))
for _name in ("T", "mT"):
    _enter(_name, _attribute(_name))
for _name in ("real", "imag"):
    _enter(_name, _attribute(_name, settable=True))
_enter("flat", property(noting(FlatEntries), doc="As `numpy.ndarray.flat`, to read."))
_enter("__getitem__", _getitem)
_enter("__iter__", _iterate)
_enter("clone", _method("copy"))
_enter("__copy__", _method("copy"))
for _name in ("itemsize", "nbytes", "strides", "flags"):
    _enter(_name, _of_value(_name))


# ------------------------------------------------------------------------------- gradients


def _backward(
    self: RecordedArray,
    gradient: object = None,
    retain_graph: bool | None = None,  # noqa: FBT001 - torch's signature
    create_graph: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    inputs: object = None,
) -> None:
    """Add the gradients of this array to the ``grad`` of leaves: see `fdiff.autograd.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_enter("backward", _backward)
_enter("register_hook", register_hook)
_enter("register_post_accumulate_grad_hook", register_post_accumulate_grad_hook)
_enter("retain_grad", retain_grad)


# --------------------------------------------------------------------------------- stores


def _in_place(operate: Callable[[object, object], object]) -> Callable[..., object]:
    name = operate.__name__

    def store(self: RecordedArray, other: Recordable) -> object:
        if self.value.__class__ is not np.ndarray:
            return NotImplemented  # Python falls back on `x = x + other`, as it does for scalars
        if state.calls is UNRECORDED_CALLS and self.version.__class__ is Version:
            kind = other.__class__
            if (kind is RecordedArray or kind is float) and observed_spans.observer is None:
                operate(self.value, other.value if kind is RecordedArray else other)
                self.version.bump(user_line(2))
                return self
        return record(operate, name, (self, other), {}, stores=True)

    return store


for _name in _BINARY:
    _enter(f"__i{_name}__", _in_place(getattr(operator, f"i{_name.strip('_')}")))


def setitem(x: Recordable, key: Recordable, value: object) -> None:
    """``x[key] = value``."""
    x[key] = value


def _setitem(self: RecordedArray, key: object, value: object) -> None:
    """As of `numpy.ndarray`."""
    if type(value) is RecordedArray and _is_there(self, key, value):
        return  # the last step of ``x[key] += y``
    record(setitem, "set_item", (self, key, value), {}, stores=True)


def _is_there(x: RecordedArray, key: object, value: RecordedArray) -> bool:
    """Whether `value` is ``x[key]`` itself, the same memory with the same history."""
    view = value.viewing
    if not isinstance(view, ViewOf):
        return False
    root = x.viewing.root if isinstance(x.viewing, ViewOf) else x
    if view.root is not root or not _basic(key):
        return False
    there, here = x.value[key], value.value
    return (
        isinstance(there, np.ndarray)
        and there.shape == here.shape
        and there.__array_interface__["data"] == here.__array_interface__["data"]
        and there.strides == here.strides
    )


def _basic(key: object) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    return all(p is None or p is Ellipsis or isinstance(p, (int, slice)) for p in parts)


def _storing(name: str) -> Callable[..., object]:
    call = _Method(name)

    def method(self: RecordedArray, *args: object, **kwargs: object) -> object:
        return record(call, name, (self, *args), kwargs, stores=True)

    method.__name__ = name
    method.__doc__ = f"As `numpy.ndarray.{name}`."
    return method


_enter("__setitem__", _setitem)
for _name in ("fill", "partition", "put", "sort"):
    _enter(_name, _storing(_name))
