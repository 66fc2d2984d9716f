"""Proxies of modules: the user's modules, whose globals are recorded, and modules of libraries.

CPython reads the globals of a function through ``__getitem__`` if they are not an exact dict, so a
subclass with ``__missing__`` sees the first read of each name and then costs nothing.
"""

from __future__ import annotations

import builtins
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Protocol, cast

from ...foreign_errors import HiddenError, hiding, is_foreign, not_foreign, uninterrupted_entry
from ..dependency_nodes import ABSENT, Identical
from ..impure_functions import RANDOM, pure_module
from ..proxy_context import Pair, ProxyContext, Where
from ..value_kinds import MISSING, foreign, library_namespace
from ..written.write_targets import item_of


class ModuleContext(ProxyContext, Protocol):
    """The part of a run that proxies of modules need: one `GlobalsProxy` for each module."""

    def namespace(self, real: dict[str, object], /) -> GlobalsProxy: ...


class GlobalsProxy(dict[str, object]):
    """The globals of the private copies of one module's functions, filled as names are read.

    `put` holds the filled-in values: any other value was stored by the run. `builtin` are the names
    that were found among the builtins.
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

    @uninterrupted_entry
    def __missing__(self, name: str) -> object:
        try:
            return self._read(name)
        except (AttributeError, KeyError) as error:
            if is_foreign(error):
                raise HiddenError from error
            raise

    def _read(self, name: str) -> object:
        try:
            value = self.real[name]
        except not_foreign(KeyError):
            self.table.reads[name] = ABSENT
            return self._builtin(name)
        proxy, self.table.reads[name] = self.context.read(value, name, item_of(self.table, name))
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
        """Names that the run stored, with their values; MISSING for names that it deleted."""
        for name, value in self.items():
            if self.put.get(name, MISSING) is not value and name != "__warningregistry__":
                yield name, value
        for name in self.put.keys() - self.keys():
            yield name, MISSING

    def forget(self) -> None:
        """Drop all proxies, so that no reference cycle keeps the arrays of the run alive."""
        if (registry := self.get("__warningregistry__")) is not None:
            self.real["__warningregistry__"] = registry
        for name in self.put.keys() - {"__name__", "__builtins__"}:
            self.pop(name, None)
        self.put.clear()


class BuiltinsProxy(dict[str, object]):
    """The builtins of private globals, for C code that does not call their `__missing__`."""

    __slots__ = ("globals",)

    def __init__(self, context: ProxyContext, globals_: GlobalsProxy) -> None:
        super().__init__(__import__=context.import_)
        self.globals = globals_

    @uninterrupted_entry
    def __missing__(self, name: str) -> object:
        return self.globals[name]


class ModuleProxy(ModuleType):
    """Proxy of a module of the user: its attributes are the globals of its functions."""

    __slots__ = ("_fdiff_globals", "_fdiff_module")

    def __init__(self, module: ModuleType, globals_: GlobalsProxy) -> None:
        super().__init__(module.__name__)
        object.__setattr__(self, "_fdiff_globals", globals_)
        object.__setattr__(self, "_fdiff_module", module)

    @uninterrupted_entry
    def __getattribute__(self, name: str) -> object:
        return _value(self, name, _source(self, name)[name])

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


@hiding
def _source(module: ModuleProxy, name: str) -> dict[str, object]:
    """The mapping that has an attribute; reading it is all that runs a user's ``__getattr__``."""
    globals_: GlobalsProxy = _globals(module)
    if globals_.holds(name):
        return globals_
    globals_.table.reads[name] = ABSENT
    return defaultdict(partial(getattr, _module(module), name))


@hiding
def _value(module: ModuleProxy, name: str, value: object) -> object:
    """The value of an attribute: a global, or a proxy of a computed value."""
    globals_: GlobalsProxy = _globals(module)
    if globals_.holds(name):  # a lazy import may have stored it meanwhile
        return globals_[name]
    if name.startswith("__"):
        return globals_ if name == "__dict__" else value
    where = f"{_module(module).__name__}.{name}"
    globals_.context.note(f"the computed module attribute `{where}`")
    return globals_.context.wrap(value, where)[0]


class LibraryProxy(ModuleType):
    """Proxy of a module of NumPy, SciPy or Python, with our replacements of its functions.

    Each name is looked up once in a run, because anybody may have replaced its value.
    """

    __slots__ = ("_fdiff_context", "_fdiff_module", "_fdiff_pure", "_fdiff_reads")

    def __init__(self, module: ModuleType, context: ProxyContext) -> None:
        super().__init__(module.__name__)
        vars(self).clear()
        object.__setattr__(self, "_fdiff_module", module)
        object.__setattr__(self, "_fdiff_context", context)
        object.__setattr__(self, "_fdiff_pure", pure_module(module))
        object.__setattr__(self, "_fdiff_reads", context.table(vars(module)).reads)

    @hiding
    def __getattr__(self, name: str) -> object:
        module, context, reads = self._fdiff_module, self._fdiff_context, self._fdiff_reads
        reads[name] = ABSENT
        value = getattr(module, name)
        if foreign(value) or not self._fdiff_pure or context.meet(value):
            proxy, node = context.wrap(value, f"{module.__name__}.{name}")
        else:
            proxy, node = context.answer(value), Identical(value)
        if name in vars(module):
            reads[name] = node
        vars(self)[name] = proxy
        return proxy

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._fdiff_module, name, self._fdiff_context.original(value))
        vars(self)[name] = value

    def __dir__(self) -> list[str]:
        return dir(self._fdiff_module)


def wrap_module(context: ModuleContext, module: ModuleType, where: Where) -> Pair:
    if isinstance(module, ModuleProxy | LibraryProxy):  # of an enclosing run, which records reads
        return module, Identical(module)
    namespace = vars(module)
    if not library_namespace(namespace):
        return ModuleProxy(module, context.namespace(namespace)), Identical(module)
    if module.__name__ in RANDOM:  # its functions are methods of one object
        context.note(f"random numbers (`{module.__name__}`)")
    return LibraryProxy(module, context), Identical(module)
