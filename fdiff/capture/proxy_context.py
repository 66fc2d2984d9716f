"""The interface between proxies and their run, and the names of values in messages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, cast

from .dependency_nodes import Identical, MappingItems
from .non_numeric_data import Content
from .revalidation import Dependency
from .written.state_rollback import KeptState
from .written.write_targets import WritePlace, WriteTarget

BUDGET = 256  # leaves of a container that are compared at each call; beyond, `f` is traced again

Where = str | tuple["Where", object]  # how the user would name a value: a name, or (where, key)
Pair = tuple[
    object, Dependency
]  # the proxy of a value, and the condition on the value at the next call
Resolve = Callable[[object], object]
Call = tuple[str, Sequence[object]]  # a method, and its arguments
Copy = list[object] | dict[str, object] | set[object]
# A context for a store in the user's variable of this name: a value without a number is not stored.
Refuse = Callable[[str], AbstractContextManager[None]]


class Repeats(Protocol):
    """The recorder of a run's writes: see `RepeatedWrites`, which implements it."""

    direct: bool
    speculates: bool

    def number(
        self, value: object, where: Where, place: WritePlace, /, *, sure: bool = False
    ) -> Pair | None: ...
    def wrote(
        self, words: str, where: Where, place: WritePlace | None, value: object, before: object, /
    ) -> None: ...
    def called(self, where: Where, node: WriteTarget, calls: Sequence[Call], /) -> None: ...
    def unrepeatable(self, words: str, where: Where, /, *, again: bool) -> None: ...


class ProxyContext(Protocol):
    """The part of a run that proxies need: see `Capture`, which implements it."""

    @property
    def running(self) -> bool: ...
    @property
    def state(self) -> KeptState: ...
    @property
    def depends(self) -> Callable[[object], bool]: ...
    @property
    def denies(self) -> Callable[[], bool]: ...
    @property
    def answer(self) -> Resolve: ...
    @property
    def settle(self) -> Resolve: ...
    @property
    def plainly(self) -> Resolve: ...
    @property
    def note(self) -> Callable[[str], None]: ...
    @property
    def meet(self) -> Callable[[object], bool]: ...
    @property
    def import_(self) -> Callable[..., object]: ...
    def wrap(self, value: object, where: Where, /) -> Pair: ...
    def keep(self, value: object, proxy: object, node: Dependency, /) -> None: ...
    def original(self, value: object, /) -> object: ...
    def made(self, value: object, /) -> bool: ...
    def read(self, value: object, where: Where, place: WritePlace, /) -> Pair: ...
    @property
    def repeats(self) -> Repeats: ...
    def plain(self, value: object, /) -> object: ...
    def table(self, real: Mapping[str, object], /) -> MappingItems: ...
    def copied(
        self, copy: Copy, real: Copy, where: Where, node: WriteTarget | None = None, /
    ) -> None: ...
    def shared(self, value: object, where: Where, /) -> None: ...
    def data(self, value: object, node: Content, where: Where, /) -> None: ...
    def cached(self, instance: object, member: CachedProperty, /) -> object: ...


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


def itself(value: object) -> object:
    """The answer where there is no replacement."""
    return value


def plain(call: object) -> object:
    """The result of a call that need not be hidden from the trace."""
    return cast("Callable[[], object]", call)()


def label(where: Where) -> str:
    """The name of a value as the user would write it: ``cfg['model'][0]``."""
    return where if isinstance(where, str) else f"{label(where[0])}[{where[1]!r}]"


def opaque(context: ProxyContext, value: object, where: Where, words: str) -> Pair:
    """The value itself, without a proxy: it cannot be compared, so the program holds for one run.

    `words` say what cannot be compared.
    """
    context.note(f"{words} `{label(where)}`")
    context.shared(value, where)
    return value, Identical(value)
