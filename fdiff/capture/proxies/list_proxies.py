"""A list of the user that the run appends to: the appends are recorded, and nothing is read.

A run that reads single numbers of such a list gets inputs for them; a run that reads more gets a
copy of the whole list, as for every other container.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, MutableSequence
from typing import Any, Protocol, SupportsIndex, cast

from ...foreign_errors import not_foreign
from ..dependency_nodes import SequenceItems
from ..proxy_context import Pair, ProxyContext, Refuse, Resolve, Where, label
from ..revalidation import Dependency, Revalidation
from ..value_kinds import MISSING
from ..written.write_targets import WriteTarget, list_item
from .container_proxies import fill

Items = list[object]


class ListContext(ProxyContext, Protocol):
    """The part of a run that proxies of lists need: it carries stored items over to the user's
    lists.
    """

    def list(self, items: object, /) -> None: ...


class ListItems(WriteTarget):
    """A list of which the run knows single items, or all of them (`whole`)."""

    __slots__ = ("reads", "whole")

    def __init__(self) -> None:
        self.written = False
        self.reads: list[tuple[int, Dependency]] = []
        self.whole: SequenceItems | None = None

    def holds(self, value: object, walk: Revalidation) -> bool:
        if type(value) is not list:
            return False
        if self.whole is not None:
            return self.whole.holds(value, walk)
        if walk.met(self, value):
            return True
        items = cast("list[object]", value)
        try:
            return self.stands_for(value, walk) and all(
                node.holds(items[index], walk) for index, node in self.reads
            )
        except not_foreign(IndexError):
            return False


class CalledContainer:
    """Proxy of a container of the user. `calls` are the methods that the run has called on it."""

    __slots__ = ("calls", "context", "node", "real", "where")

    def __init__(self, context: ProxyContext, real: Any, where: Where, node: Any) -> None:
        self.context, self.real, self.where, self.node = context, real, where, node
        self.calls: list[tuple[str, tuple[object, ...]]] = []

    def written(self) -> bool:
        """Whether the run has stored anything in it."""
        return bool(self.calls)

    def write(self, original: Callable[[object], object]) -> None:
        """Do the same to the user's container."""
        for method, args in self.calls:
            getattr(self.real, method)(*map(original, args))

    def carry_over(self, release: Resolve, refuse: Refuse) -> None:
        """Do the same to the user's container, and note it for later calls."""
        if self.written():
            self.context.repeats.called(self.where, self.node, self.calls)
            with refuse(label(self.where)):
                self.write(release)


class ListProxy(CalledContainer, MutableSequence[object]):
    """Proxy of a list of the user.

    Where the run has read the whole list, `items` is a copy, and `put` the original contents of
    that copy.
    """

    _fdiff_kind = list
    __slots__ = ("items", "put", "read")
    __hash__ = None  # type: ignore[assignment] - as of a list

    def __init__(self, context: ProxyContext, real: Items, where: Where) -> None:
        super().__init__(context, real, where, ListItems())
        self.items: Items | None = None
        self.put: Items = []
        self.read: dict[int, object] = {}

    # ---------------------------------------------------------------------- what reads nothing

    def _call(self, method: str, *args: object) -> None:
        if self.items is None:
            self.calls.append((method, args))
        else:
            getattr(self.items, method)(*args)

    def append(self, value: object) -> None:
        self._call("append", value)

    def extend(self, values: Iterable[object]) -> None:
        for value in [*values]:
            self._call("append", value)

    def __iadd__(self, values: Iterable[object]) -> MutableSequence[object]:
        self.extend(values)
        return self

    def insert(self, index: SupportsIndex, value: object) -> None:
        self._call("insert", operator.index(index), value)

    def clear(self) -> None:
        self._call("clear")

    def reverse(self) -> None:
        self._call("reverse")

    # -------------------------------------------------------------------------- what reads all

    def whole(self) -> Items:
        """The items as they are now, all of which the trace depends on."""
        if self.items is None:
            self.items, self.node.whole = [], SequenceItems(list, [])
            fill(self.context, self.real, self.where, self.items, self.node.whole)
            self.put = [*self.items]
            calls, self.calls = self.calls, []
            for method, args in calls:
                getattr(self.items, method)(*args)
        return self.items

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        appended = len(self.calls)
        if type(index) is int and index < 0 and all(m == "append" for m, _ in self.calls):
            if -appended <= index:
                return self.calls[index][1][0]
            if (number := self._number(index + appended)) is not MISSING:
                return number
        return self.whole()[index]

    def _number(self, index: int) -> object:
        """The input that stands for a number in the list, counted from its end; else MISSING."""
        if self.items is not None or -index > len(self.real):
            return MISSING
        if index not in self.read:
            place = list_item(self.node, index)
            pair = self.context.repeats.number(self.real[index], self.where, place, sure=True)
            if pair is None:
                return MISSING
            self.read[index] = pair[0]
            self.node.reads.append((index, pair[1]))
        return self.read[index]

    def __setitem__(self, index: Any, value: object) -> None:
        self.whole()[index] = value

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        del self.whole()[index]

    def __iter__(self) -> Iterator[object]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def sort(self, **options: Any) -> None:
        self.whole().sort(**options)

    def __radd__(self, other: Items) -> Items:
        return other + self.whole()

    def copy(self) -> Items:
        return [*self.whole()]

    _fdiff_copy = copy

    def __reduce__(self) -> tuple[object, ...]:
        return list, (self.copy(),)

    # ------------------------------------------------------------------------------ the writes

    def written(self) -> bool:
        if self.items is None:
            return super().written()
        return len(self.items) != len(self.put) or any(map(operator.is_not, self.items, self.put))

    def write(self, original: Callable[[object], object]) -> None:
        if self.items is not None:
            self.real[:] = [original(item) for item in self.items]
        super().write(original)

    def carry_over(self, release: Resolve, refuse: Refuse) -> None:
        if self.items is None:
            super().carry_over(release, refuse)
        elif self.written():  # it is written to the user's already
            words = f"a write to `{label(self.where)}`"
            self.context.repeats.unrepeatable(words, self.where, again=False)

    def see(self, other: ListProxy) -> None:
        """Find from now on what another run has written."""
        self.whole()[:] = other.whole()


def _of_list(name: str) -> Callable[..., object]:
    method = cast("Callable[..., object]", getattr(list, name))

    def call(self: ListProxy, *args: object) -> object:
        plain = [arg.whole() if isinstance(arg, ListProxy) else arg for arg in args]
        return method(self.whole(), *plain)

    return call


for _name in ("add", "mul", "rmul", "eq", "ne", "lt", "le", "gt", "ge", "repr", "contains"):
    setattr(ListProxy, f"__{_name}__", _of_list(f"__{_name}__"))
ListProxy.index = _of_list("index")  # type: ignore[method-assign] - that of `Sequence` drops any IndexError


def wrap_logged_list(context: ListContext, value: Items, where: Where) -> Pair:
    proxy = ListProxy(context, value, where)
    context.repeats.speculates = True
    context.list(proxy)
    return proxy, proxy.node
