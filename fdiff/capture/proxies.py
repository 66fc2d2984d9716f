"""Proxies of the namespaces and dicts that a traced function reads: each logs what is read.

CPython reads the globals of a function through ``__getitem__`` where they are no exact dict, so a
subclass with ``__missing__`` sees the first read of each name and then costs nothing.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Protocol, Self, cast

from .data import Content
from .dependency_nodes import ABSENT, MappingItems
from .impure import pure_module
from .memoised_values import agree
from .revalidation import Dependency
from .value_kinds import MISSING, item_key

BUDGET = 256  # leaves of a container that are compared at each call; beyond, `f` is traced again

Where = str | tuple["Where", object]  # how the user would name a value: a name, or (where, key)
Answers = Callable[[object], object]
Copy = list[object] | dict[str, object] | set[object]
# Around a store in a place of the user, named in words: what has no number is not stored.
Refuse = Callable[[str], AbstractContextManager[None]]


class ProxyContext(Protocol):
    """What the proxies ask of the run they belong to."""

    @property
    def running(self) -> bool: ...
    def wrap(self, value: object, where: Where, /) -> tuple[object, Dependency]: ...
    def original(self, value: object, /) -> object: ...
    @property
    def settle(self) -> Answers: ...
    def looks_up(self, key: object, /) -> bool: ...
    def plain(self, value: object, /) -> object: ...
    def made(self, value: object, /) -> bool: ...
    @property
    def note(self) -> Callable[[str], None]: ...
    @property
    def meet(self) -> Callable[[object], bool]: ...
    def table(self, real: Mapping[str, object], /) -> MappingItems: ...
    @property
    def answer(self) -> Answers: ...
    def namespace(self, real: dict[str, object], /) -> GlobalsProxy: ...
    def keep(self, value: object, proxy: object, node: Dependency, /) -> None: ...
    def copied(self, copy: Copy, real: Copy, where: Where, /) -> None: ...
    def shared(self, value: object, where: Where, /) -> None: ...
    def data(self, value: object, node: Content, where: Where, /) -> None: ...
    def items(self, items: DictProxy, /) -> None: ...
    def forgotten(self, items: DictProxy, key: object, /) -> None: ...
    def cached(self, instance: object, member: CachedProperty, /) -> object: ...
    @property
    def plainly(self) -> Answers: ...
    @property
    def import_(self) -> Callable[..., object]: ...


class CachedProperty:
    """A ``functools.cached_property`` of a private class; `real` is the user's."""

    def __init__(
        self,
        real: functools.cached_property[object],
        function: Callable[[object], object],
        name: str,
        context: ProxyContext,
    ) -> None:
        self.real = real
        self.function = function
        self.name = name
        self.context = context
        self.__doc__ = real.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> object:
        return self if instance is None else self.context.cached(instance, self)


def label(where: Where) -> str:
    """``cfg['model'][0]``."""
    return where if isinstance(where, str) else f"{label(where[0])}[{where[1]!r}]"


class GlobalsProxy(dict[str, object]):
    """The private globals of all functions of one module, filled as names are read.

    `put` holds what was filled in, so that what the run itself stored can be told from it.
    """

    __slots__ = ("builtin", "context", "put", "real", "table")

    def __init__(self, context: ProxyContext, real: dict[str, object]) -> None:
        super().__init__(__name__=real.get("__name__"), __builtins__=BuiltinsProxy(context, self))
        if (registry := real.get("__warningregistry__")) is not None:  # C code looks for it here
            self["__warningregistry__"] = registry
        self.context = context
        self.real = real
        self.table = context.table(real)
        self.put = dict(self)
        self.builtin: set[str] = set()

    def __missing__(self, name: str) -> object:
        try:
            value = self.real[name]
        except KeyError:
            self.table.reads[name] = ABSENT
            return self._builtin(name)
        proxy, self.table.reads[name] = self.context.wrap(value, name)
        self[name] = self.put[name] = proxy
        return proxy

    def _builtin(self, name: str) -> object:
        real = self.real.get("__builtins__", builtins)
        names = vars(real) if isinstance(real, ModuleType) else cast("dict[str, object]", real)
        reads = self.context.table(names).reads
        reads[name] = ABSENT
        value = names[name]
        proxy, reads[name] = self.context.wrap(value, name)
        if value is builtins.__import__:
            proxy = self.context.import_
        self[name] = self.put[name] = proxy
        self.builtin.add(name)
        return proxy

    def holds(self, name: str) -> bool:
        """Whether the module has this name, or the run has given it one."""
        return name in self.real or (name in self and name not in self.builtin)

    def writes(self) -> Iterator[tuple[str, object]]:
        """`(name, value)` of what the run stored, MISSING for what it deleted."""
        for name, value in self.items():
            if self.put.get(name, MISSING) is not value and name != "__warningregistry__":
                yield name, value
        for name in self.put.keys() - self.keys():
            yield name, MISSING

    def forget(self) -> None:
        """Drop all proxies, so that no cycle keeps the run's arrays alive."""
        if (registry := self.get("__warningregistry__")) is not None:
            self.real["__warningregistry__"] = registry
        for name in self.put.keys() - {"__name__", "__builtins__"}:
            self.pop(name, None)
        self.put.clear()


class BuiltinsProxy(dict[str, object]):
    """The builtins of private globals: C code looks here where it cannot see `__missing__`."""

    __slots__ = ("globals",)

    def __init__(self, context: ProxyContext, globals_: GlobalsProxy) -> None:
        super().__init__(__import__=context.import_)
        self.globals = globals_

    def __missing__(self, name: str) -> object:
        return self.globals[name]


class ModuleProxy(ModuleType):
    """Stands for a module of the user: an attribute read is a read of its global."""

    __slots__ = ("_fdiff_globals", "_fdiff_module")

    def __init__(self, module: ModuleType, globals_: GlobalsProxy) -> None:
        super().__init__(module.__name__)
        object.__setattr__(self, "_fdiff_globals", globals_)
        object.__setattr__(self, "_fdiff_module", module)

    def __getattribute__(self, name: str) -> object:
        globals_: GlobalsProxy = _globals(self)
        return globals_[name] if globals_.holds(name) else _computed(self, globals_, name)

    def __setattr__(self, name: str, value: object) -> None:
        globals_: GlobalsProxy = _globals(self)
        globals_.context.note(f"a write to `{_module(self).__name__}.{name}`")
        setattr(_module(self), name, globals_.context.original(value))
        globals_[name] = globals_.put[name] = value
        globals_.builtin.discard(name)

    def __delattr__(self, name: str) -> None:
        globals_: GlobalsProxy = _globals(self)
        globals_.context.note(f"a write to `{_module(self).__name__}.{name}`")
        delattr(_module(self), name)
        globals_.pop(name, None)
        globals_.put.pop(name, None)


_globals = vars(ModuleProxy)["_fdiff_globals"].__get__
_module = vars(ModuleProxy)["_fdiff_module"].__get__


def _computed(module: ModuleProxy, globals_: GlobalsProxy, name: str) -> object:
    """An attribute that is no global of the module: of its type, or of its ``__getattr__``."""
    globals_.table.reads[name] = ABSENT
    value = getattr(_module(module), name)
    if globals_.holds(name):  # a lazy import has stored it
        return globals_[name]
    if name.startswith("__"):
        return globals_ if name == "__dict__" else value
    where = f"{_module(module).__name__}.{name}"
    globals_.context.note(f"the computed module attribute `{where}`")
    return globals_.context.wrap(value, where)[0]


class LibraryProxy(ModuleType):
    """Stands for a module of NumPy, SciPy or Python, so that ours can answer for its functions.

    `shared` keeps the answers from run to run.
    """

    __slots__ = ("_fdiff_context", "_fdiff_module", "_fdiff_shared")

    def __init__(
        self, module: ModuleType, context: ProxyContext, shared: dict[str, object]
    ) -> None:
        super().__init__(module.__name__)
        namespace = vars(self)
        namespace.clear()
        namespace.update(shared)
        object.__setattr__(self, "_fdiff_module", module)
        object.__setattr__(self, "_fdiff_context", context)
        object.__setattr__(self, "_fdiff_shared", shared)

    def __getattr__(self, name: str) -> object:
        module, context = self._fdiff_module, self._fdiff_context
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            proxy = context.wrap(value, name)[0]
        elif pure_module(module):
            proxy, impure = context.answer(value), context.meet(value)
            if not impure:
                self._fdiff_shared[name] = proxy
        else:
            proxy, node = context.wrap(value, f"{module.__name__}.{name}")
            if name in vars(module) and not callable(value):
                context.table(vars(module)).reads[name] = node
        vars(self)[name] = proxy
        return proxy

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._fdiff_module, name, self._fdiff_context.original(value))
        vars(self)[name] = value

    def __dir__(self) -> list[str]:
        return dir(self._fdiff_module)


class DictProxy(MutableMapping[object, object], dict[object, object]):  # type: ignore[misc] - a dict derives from it in the stubs alone
    """Stands for a dict: only the keys that are looked up count; what the run writes goes through.

    The storage of the base class holds the values that have been read. The dict may be a cache in
    which `f` looks its argument up; what it holds then was computed without derivatives. So where a
    derivative is taken for a key, the key is missing until `f` has computed its value again.
    """

    __slots__ = (
        "_fdiff_context",
        "_fdiff_missed",
        "_fdiff_real",
        "_fdiff_table",
        "_fdiff_where",
        "_fdiff_written",
    )  # fmt: skip

    def __init__(self, context: ProxyContext, real: dict[object, object], where: Where) -> None:
        self._fdiff_context = context
        self._fdiff_real = real
        self._fdiff_table = MappingItems()
        self._fdiff_where = where
        self._fdiff_written: dict[object, None] = {}
        self._fdiff_missed: dict[object, object] = {}

    _fdiff_kind = dict  # what a tree of arguments takes it for

    __getitem__ = dict.__getitem__
    __hash__ = None

    def __missing__(self, key: object) -> object:
        context, where, reads = self._fdiff_context, self._fdiff_where, self._fdiff_table.reads
        name = context.plain(key)
        if name in self._fdiff_real and context.looks_up(key):
            context.note(self._fdiff_kept())
            self._fdiff_missed[name] = self._fdiff_real[name]
            raise KeyError(name)
        if len(reads) >= BUDGET:
            context.note(f"more than {BUDGET} items of the dict `{label(where)}`")
            return context.wrap(self._fdiff_real[name], (where, name))[0]
        reads[name] = ABSENT
        value, reads[name] = context.wrap(self._fdiff_real[name], (where, name))
        dict.__setitem__(self, key, value)
        return value

    def __iter__(self) -> Iterator[object]:
        keys = tuple(self._fdiff_real)
        if len(keys) <= BUDGET:
            self._fdiff_table.keys = tuple(map(item_key, keys))
        else:
            where = label(self._fdiff_where)
            self._fdiff_context.note(f"the {len(keys)} keys of the dict `{where}`")
        return iter([self._fdiff_context.wrap(key, self._fdiff_where)[0] for key in keys])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _write(self) -> None:
        self._fdiff_context.note(f"a write to the dict `{label(self._fdiff_where)}`")

    def __setitem__(self, key: object, value: object) -> None:
        self._write()
        name = self._fdiff_context.plain(key)
        self._fdiff_real[name] = self._fdiff_context.original(value)
        self._fdiff_written[name] = None
        dict.__setitem__(self, key, value)

    def setdefault(self, key: object, default: object = None) -> object:
        """A container for what belongs to a key is no kept result: it is found as ever."""
        name = self._fdiff_context.plain(key)
        if isinstance(default, list | dict | set) and name in self._fdiff_real:
            return self[name]
        return super().setdefault(key, default)

    def __delitem__(self, key: object) -> None:
        self._write()
        del self._fdiff_real[self._fdiff_context.plain(key)]
        dict.pop(self, key, None)

    def _fdiff_carry_over(self, release: Answers, refuse: Refuse) -> None:
        """The user's dict gets plain values; kept ones are compared with what `f` has computed."""
        real = self._fdiff_real
        for name in [name for name in self._fdiff_written if name in real]:
            with refuse(label((self._fdiff_where, name))):
                value = real.pop(name)
                real[name] = release(value)
        for name, kept in self._fdiff_missed.items():
            if name not in self._fdiff_written or not agree(real.get(name, MISSING), kept):
                self._fdiff_context.forgotten(self, name)

    def _fdiff_forget(self, other: DictProxy) -> None:
        """Read again what another run has written."""
        plain, written = self._fdiff_context.plain, other._fdiff_written
        for key in [key for key in dict.keys(self) if plain(key) in written]:
            dict.pop(self, key)

    def _fdiff_kept(self) -> str:
        return f"a value kept in the dict `{label(self._fdiff_where)}`"

    def popitem(self) -> tuple[object, object]:
        keys = list(self)
        if not keys:
            raise KeyError("popitem(): dictionary is empty")
        return keys[-1], self.pop(keys[-1])  # the last one, where `MutableMapping` takes the first

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def copy(self) -> dict[object, object]:
        return dict(self)

    def __reversed__(self) -> Iterator[object]:
        return reversed(list(self))

    def __or__(self, other: dict[object, object]) -> dict[object, object]:  # type: ignore[override] - narrower than the stubs' overloads
        return dict(self) | other

    def __ror__(self, other: dict[object, object]) -> dict[object, object]:  # type: ignore[override] - narrower than the stubs' overloads
        return other | dict(self)

    def __ior__(self, other: Mapping[object, object]) -> Self:  # type: ignore[override] - narrower than the stubs' overloads
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[object, ...]:  # copy.copy and copy.deepcopy
        return dict, (dict(self),)
