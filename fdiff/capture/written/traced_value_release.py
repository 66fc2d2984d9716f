"""Release of the values that a run leaves behind: plain numbers and arrays for traced values.

While `f` runs, its lists, dicts, objects and arrays may hold traced values and proxies. When the
run ends, every place that the user can reach gets the value that plain NumPy would have left there.
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from threading import local
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any, cast

import fdiff.intact_numpy as np

from ..dependency_nodes import attribute
from ..proxies.class_proxies import ProxyMeta
from ..proxies.module_proxies import GlobalsProxy
from ..proxies.object_proxy import slot_dict, slots
from ..proxy_context import ProxyContext
from ..value_kinds import MISSING, SCALARS, is_ours, is_traced, record_class

_PLAIN = frozenset((*SCALARS, np.float64, np.float32, np.int64, np.bool_, np.complex128))


class NoValueError(LookupError):
    """A traced value, `args[0]`, has no number where plain code would have left one."""


class Release:
    """Replaces proxies by the user's own objects, and traced values by numbers or arrays.

    Containers that the run has made are changed in place, each of them once, so that identities are
    kept. A traced value that has no number raises `NoValueError`.
    """

    def __init__(self, context: ProxyContext) -> None:
        self.context = context
        self._released: dict[int, tuple[object, object]] = {}

    def forget(self) -> None:
        """Drop all values, when the run is over."""
        self._released.clear()

    def __call__(self, value: object) -> object:
        """The user's value for a value of the run."""
        kind = type(value)
        if kind in SCALARS:
            return value
        if isinstance(value, tuple):
            return _rebuilt(value, [self(item) for item in cast("tuple[object, ...]", value)])
        original = self.context.original(value)
        if original is not value:
            return original
        if (entry := self._released.get(id(value))) is not None:
            return entry[0]
        self._released[id(value)] = value, value
        ours = isinstance(value, np.ndarray) and is_ours({"__name__": kind.__module__})
        if ours or is_traced(value):
            own = self._settled(value)
            self._released[id(value)] = own, value
            return own
        if isinstance(value, frozenset):
            items = list(cast("frozenset[object]", value))
            changed = [self(item) for item in items]
            own = value if _same(items, changed) else cast("type", kind)(changed)
            self._released[id(value)] = own, value
            return own
        self.within(value)
        return value

    def _settled(self, value: object) -> object:
        own = self.context.settle(value)
        if own is value and isinstance(value, np.ndarray):
            array = np.ndarray.view(value, np.ndarray)
            if array.dtype.kind in "biufc":  # else it stands for a traced one
                return array
        return own

    # ------------------------------------------------------------------------------ in place

    def within(self, value: object) -> None:
        """Release what a container or an object of the run holds."""
        for kinds, change in _CHANGES:
            if isinstance(value, kinds):
                change(self, value)
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, MethodType):
            self(value.__self__)
        elif isinstance(value, functools.partial):
            self._partial(cast("functools.partial[object]", value))
        elif type(value) is SimpleNamespace or is_instance(value) or record_class(type(value)):
            self.attributes(value)

    def attributes(self, value: object) -> None:
        """Release what an object holds in its attributes."""
        own_dict = slot_dict(value)
        for name, item in [*own_dict.copy().items(), *slots(value)]:
            if (own := self(item)) is item:
                continue
            if isinstance(value, local):  # which `object` does not store into
                own_dict[name] = own
            else:
                object.__setattr__(value, name, own)

    def contents(self, value: object) -> None:
        """Release what a container or object of the user holds, for which the run had no proxy."""
        self.within(value)
        if isinstance(value, type | FunctionType | MethodType | ModuleType):
            return
        self.attributes(value)
        for item in slot_dict(value).values():
            self.within(item)

    def table(self, value: Any) -> None:
        """Release the columns of an object of pandas."""
        for name in list(value) if value.ndim == 2 else [slice(None)]:
            if value[name].dtype == object:
                self._items(list(value[name]), functools.partial(value.__setitem__, name))

    def _items(self, items: list[object], replace_all: Callable[[list[object]], object]) -> None:
        """Release the items of a container, where any has to be replaced by `replace_all`."""
        if not _PLAIN.issuperset(map(type, items)):
            released = [self(item) for item in items]
            if not _same(items, released):
                replace_all(released)

    def _list(self, value: list[object]) -> None:
        self._items(
            [*list.__iter__(value)], functools.partial(list.__setitem__, value, slice(None))
        )

    def _deque(self, value: deque[object]) -> None:
        def replace_all(items: list[object]) -> None:
            value.clear()
            value.extend(items)

        self._items([*value], replace_all)

    def _set(self, value: set[object]) -> None:
        def replace_all(items: list[object]) -> None:
            set.clear(value)
            set.update(value, items)

        self._items([*set.__iter__(value)], replace_all)

    def _dict(self, value: dict[object, object]) -> None:
        if _PLAIN.issuperset(map(type, itertools.chain(dict.keys(value), dict.values(value)))):
            return
        items = list(dict.items(value))
        keys, values = [self(key) for key, _ in items], [self(item) for _, item in items]
        if not _same([key for key, _ in items], keys):
            kind: Any = OrderedDict if isinstance(value, OrderedDict) else dict
            kind.clear(value)
            kind.update(value, zip(keys, values, strict=True))
            return
        for (key, item), own in zip(items, values, strict=True):
            if own is not item:
                dict.__setitem__(value, key, own)

    def _array(self, value: np.ndarray) -> None:
        if value.dtype == object and value.flags.writeable:
            for place, item in list(np.ndenumerate(value)):
                if (own := self(item)) is not item:
                    value[place] = own

    def _variable(self, value: ContextVar[object]) -> None:
        item = value.get(MISSING)
        if (own := self(item)) is not item:
            value.set(own)

    def _function(self, value: FunctionType) -> None:
        """Release what the cells, defaults and attributes hold of a function that the run made."""
        if not isinstance(value.__globals__, GlobalsProxy):
            return
        for cell in value.__closure__ or ():
            item = attribute(cell, "cell_contents")
            if (own := self(item)) is not item:
                cell.cell_contents = own
        value.__defaults__ = cast("tuple[object, ...] | None", self(value.__defaults__))
        self.within(value.__kwdefaults__)
        self.within(value.__dict__)

    def _partial(self, value: functools.partial[object]) -> None:
        args = cast("tuple[object, ...]", self(value.args))
        keywords = {name: self(item) for name, item in value.keywords.items()}
        if not (_same(args, value.args) and _same(keywords.values(), value.keywords.values())):
            value.__setstate__((value.func, args, keywords, vars(value) or None))  # type: ignore[attr-defined] - the stubs leave it out


_CHANGES: tuple[tuple[type, Callable[..., None]], ...] = (
    (list, Release._list),
    (deque, Release._deque),
    (set, Release._set),
    (dict, Release._dict),
    (np.ndarray, Release._array),
    (ContextVar, Release._variable),
)


def _same(items: Iterable[object], others: Iterable[object]) -> bool:
    """Whether the same objects are in both, which are of one length."""
    return all(a is b for a, b in zip(items, others, strict=True))


def _rebuilt(value: tuple[object, ...], items: list[object]) -> tuple[object, ...]:
    kind = type(value)
    return value if _same(value, items) else tuple.__new__(kind, items)


def is_instance(value: object) -> bool:
    """Whether `value` is an instance of a proxy class, or of a class derived from one."""
    return isinstance(type(value), ProxyMeta)
