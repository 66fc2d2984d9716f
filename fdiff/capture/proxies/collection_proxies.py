"""Proxies of Python collections that the run writes to: counters, dicts with defaults, deques."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import cast

from ...foreign_errors import hiding
from ..proxy_context import Pair, ProxyContext, Where, label
from ..revalidation import Revalidation
from ..written.write_targets import WriteTarget
from .container_proxies import DictContext, DictProxy
from .list_proxies import CalledContainer, ListContext, wrap_logged_list


class CounterProxy(DictProxy):
    """Proxy of a `Counter`: absent keys count zero times."""

    __slots__ = ()
    _fdiff_kind = Counter

    def _fdiff_absent(self, key: object) -> object:
        return 0

    def update(self, elements: object = (), /, **named: int) -> None:
        """Add counts."""
        self._fdiff_count(elements, named, 1)

    def subtract(self, elements: object = (), /, **named: int) -> None:
        """Subtract counts."""
        self._fdiff_count(elements, named, -1)

    def _fdiff_count(self, elements: object, named: dict[str, int], sign: int) -> None:
        counted = isinstance(elements, Mapping)
        counts = elements if counted else Counter(cast("Iterable[object]", elements))
        for key, count in (*cast("Mapping[object, int]", counts).items(), *named.items()):
            self[key] = cast("int", self[key]) + sign * count

    @hiding
    def __getattr__(self, name: str) -> object:
        return getattr(Counter(dict(self)), name)


class DefaultDictProxy(DictProxy):
    """Proxy of a `defaultdict`, which stores a default when an absent key is looked up."""

    __slots__ = ()
    _fdiff_kind = defaultdict

    def _fdiff_absent(self, key: object) -> object:
        factory = cast("defaultdict[object, object]", self._fdiff_real).default_factory
        if factory is None:
            raise KeyError(key)
        self[key] = value = factory()
        return value


def _plainly(name: str) -> Callable[..., object]:
    """An operator of counters, which gives a new one."""

    def operate(self: CounterProxy, other: object) -> object:
        counts = Counter(dict(other)) if isinstance(other, CounterProxy) else other
        return getattr(Counter(dict(self)), name)(counts)

    return operate


for _name in ("__add__", "__sub__", "__or__", "__and__"):
    setattr(CounterProxy, _name, _plainly(_name))

KINDS: dict[type, type[DictProxy]] = {Counter: CounterProxy, defaultdict: DefaultDictProxy}


def wrap_counting(context: DictContext, value: dict[object, object], where: Where) -> Pair:
    """The proxy of a counter or of a dict with defaults."""
    items = KINDS[type(value)](context, value, where)
    context.items(items)
    return items, items._fdiff_table


class DequeItems(WriteTarget):
    """A deque that the run has not read."""

    __slots__ = ()

    def __init__(self) -> None:
        self.written = False

    def holds(self, value: object, walk: Revalidation) -> bool:
        return type(value) is deque and (walk.met(self, value) or self.stands_for(value, walk))


class DequeProxy(CalledContainer):
    """Proxy of a deque; the first read fills the proxy itself."""

    _fdiff_kind = deque
    items = None  # a copy there is never

    def __init__(self, context: ProxyContext, real: deque[object], where: Where) -> None:
        super().__init__(context, real, where, DequeItems())
        self.used = False

    @hiding
    def __getattr__(self, name: str) -> object:
        if name in _NOTED and not self.used:
            return partial(self._call, name)
        return getattr(self.whole(), name)

    def _call(self, method: str, *args: object) -> None:
        if method.startswith("extend"):
            append = "append" + method.removeprefix("extend")
            self.calls += [(append, (value,)) for value in cast("Iterable[object]", args[0])]
        else:
            self.calls.append((method, args))

    def whole(self) -> deque[object]:
        """The deque itself, which the trace cannot compare."""
        if not self.used:
            self.used = True
            self.context.note(f"attributes of the deque object `{label(self.where)}`")
            self.context.shared(self.real, self.where)
            self.write(self.context.original)
            self.calls.clear()
        return self.real

    _fdiff_copy = whole

    def see(self, other: DequeProxy) -> None:
        """Find from now on what another run has written."""
        self.whole()


_NOTED = frozenset(("append", "appendleft", "extend", "extendleft", "clear"))


def _special(name: str) -> Callable[..., object]:
    return lambda self, *args: getattr(self.whole(), name)(*args)


for _name in (
    "__len__", "__iter__", "__getitem__", "__setitem__", "__delitem__", "__contains__",
    "__reversed__", "__add__", "__mul__", "__iadd__", "__imul__", "__eq__", "__lt__", "__repr__",
    "__copy__", "__reduce__",
):  # fmt: skip
    setattr(DequeProxy, _name, _special(_name))


def wrap_deque(context: ListContext, value: deque[object], where: Where) -> Pair:
    """The proxy of a deque that the run appends to."""
    proxy = DequeProxy(context, value, where)
    context.list(proxy)
    return proxy, proxy.node


def wrap_written(context: object, value: object, where: Where) -> Pair:
    """The proxy of a list, deque, counter or dict with defaults that the run may write to."""
    rules: dict[type, Callable[..., Pair]] = {list: wrap_logged_list, deque: wrap_deque}
    return rules.get(type(value), wrap_counting)(context, value, where)
