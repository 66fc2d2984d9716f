"""Proxies of the user's containers: copies that hold proxies of the items.

A dict has a proxy that reads items when they are looked up; all other containers are copied whole.
Items that the run stores are carried over to the user's own containers at its end (`writes.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Protocol, Self, cast

from ...foreign_errors import not_foreign
from ...primitive import LIBRARY_OBJECTS
from ..dependency_nodes import (
    ABSENT,
    Attributes,
    ComposedObject,
    Equal,
    Identical,
    MappingItems,
    SequenceItems,
    SetItems,
    attribute,
)
from ..non_numeric_data import Content, data_key
from ..proxy_context import BUDGET, Pair, ProxyContext, Refuse, Resolve, Where, label, opaque
from ..revalidation import Dependency
from ..value_kinds import (
    MISSING,
    SCALARS,
    field_names,
    item_key,
    leaf_key,
    library_class,
    traced_within,
)
from ..written.write_targets import attribute_of, item_of

Tuple = tuple[object, ...]


class DictContext(ProxyContext, Protocol):
    """The part of a run that proxies of dicts need: it copies stored items to the user's dicts."""

    def items(self, items: DictProxy, /) -> None: ...


class DictProxy(MutableMapping[object, object], dict[object, object]):  # type: ignore[misc] - a dict derives from it in the stubs alone
    """Proxy of a dict of the user: the program depends on the keys that are looked up, and on no
    others.

    The storage of the base class holds the proxies of the values read so far. Stores of the run go
    to the user's dict at once.

    The dict may be a cache in which `f` looks its argument up. In a run that asks what `f` does
    around its argument, a key made from a differentiated value is absent until `f` stores it.
    """

    __slots__ = (
        "_fdiff_context",
        "_fdiff_real",
        "_fdiff_table",
        "_fdiff_where",
        "_fdiff_written",
    )  # fmt: skip

    def __init__(self, context: ProxyContext, real: dict[object, object], where: Where) -> None:
        self._fdiff_context = context
        self._fdiff_real = real
        self._fdiff_table = MappingItems(type(real))
        self._fdiff_where = where
        self._fdiff_written: dict[object, object] = {}  # by the user's key, the value in the run

    _fdiff_kind = dict  # what a tree of arguments takes it for

    __getitem__ = dict.__getitem__
    __hash__ = None

    def __missing__(self, key: object) -> object:
        context, where, reads = self._fdiff_context, self._fdiff_where, self._fdiff_table.reads
        name = context.plain(key)
        if name in self._fdiff_real and context.depends(key) and context.denies():
            return self._fdiff_absent(key)
        if len(reads) >= BUDGET:
            context.note(f"more than {BUDGET} items of the dict `{label(where)}`")
            return context.wrap(self._fdiff_real[name], (where, name))[0]
        reads[name] = ABSENT
        if name not in self._fdiff_real:
            return self._fdiff_absent(key)
        place = item_of(self._fdiff_table, name)
        value, reads[name] = context.read(self._fdiff_real[name], (where, name), place)
        dict.__setitem__(self, key, value)
        return value

    def _fdiff_absent(self, key: object) -> object:
        """The result for a key that is absent."""
        raise KeyError(self._fdiff_context.plain(key))

    def _fdiff_item(self, key: object) -> object:
        """The value of a key, MISSING if there is none; `Mapping` drops any KeyError."""
        try:
            return self[key]
        except not_foreign(KeyError):
            return MISSING

    def __contains__(self, key: object) -> bool:
        return self._fdiff_item(key) is not MISSING

    def get(self, key: object, default: object = None) -> object:
        return default if (value := self._fdiff_item(key)) is MISSING else value

    def pop(self, key: object, *default: object) -> object:
        if (value := self._fdiff_item(key)) is MISSING:
            return default[0] if default else self[key]  # which raises
        del self[key]
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

    def _write(self, key: object, value: object) -> object:
        """Note that an item is written or deleted; its key in the user's dict."""
        context, name = self._fdiff_context, self._fdiff_context.plain(key)
        context.repeats.direct = True
        fresh = name not in self._fdiff_real
        if traced_within(key) or (
            fresh and (self._fdiff_table.keys or name in self._fdiff_written)
        ):
            context.note(self._fdiff_words())
        self._fdiff_written[name] = value
        return name

    def _fdiff_words(self) -> str:
        """The words for a write that later calls cannot repeat."""
        return f"a write to the dict `{label(self._fdiff_where)}`"

    def __setitem__(self, key: object, value: object) -> None:
        name = self._write(key, value)
        self._fdiff_context.state.remember(self._fdiff_real)
        self._fdiff_real[name] = self._fdiff_context.original(value)
        dict.__setitem__(self, key, value)

    def setdefault(self, key: object, default: object = None) -> object:
        """As `dict` does it. A container that is the default is no memoised result: it is read."""
        name = self._fdiff_context.plain(key)
        if traced_within(key):  # nothing compares the key at the next call
            self._fdiff_context.note(self._fdiff_words())
        if isinstance(default, list | dict | set) and name in self._fdiff_real:
            return self[name]
        if (value := self._fdiff_item(key)) is MISSING:
            self[key] = value = default
        return value

    def __delitem__(self, key: object) -> None:
        name = self._fdiff_context.plain(key)
        self._fdiff_context.state.remember(self._fdiff_real)
        del self._fdiff_real[name]
        self._write(key, MISSING)
        dict.pop(self, key, None)

    def _fdiff_carry_over(self, release: Resolve, refuse: Refuse) -> None:
        """Put plain values into the user's dict."""
        real, table = self._fdiff_real, self._fdiff_table
        for name, value in self._fdiff_written.items():
            where = self._fdiff_where, name
            repeats, before = self._fdiff_context.repeats, table.reads.get(name)
            repeats.wrote(self._fdiff_words(), where, item_of(table, name), value, before)
            if value is not MISSING:
                real[name] = MISSING
                with refuse(label(where)):
                    real[name] = release(value)
                if real[name] is MISSING:
                    del real[name]

    def _fdiff_forget(self, other: DictProxy) -> None:
        """Forget what was read of keys that another run has written: they are read again."""
        plain, written = self._fdiff_context.plain, other._fdiff_written
        for key in [key for key in dict.keys(self) if plain(key) in written]:
            dict.pop(self, key)

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

    _fdiff_copy = copy

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


def wrap_data(context: ProxyContext, value: object, where: Where) -> Pair:
    """A table, a sparse matrix, an array of texts, ...: itself, compared by its content."""
    node = Content(value, data_key(value))
    context.data(value, node, where)
    return value, node


def room_left(items: Collection[object], room: int) -> int:
    """`room` less the number of items, which includes items of lists and tuples inside.

    Negative if they are more; counting stops there.
    """
    for item in items:
        room -= 1
        if room < 0:
            break
        if type(item) in {list, tuple}:
            room = room_left(cast("Collection[object]", item), room)
    return room


def wrap_dict(context: DictContext, value: dict[object, object], where: Where) -> Pair:
    items = DictProxy(context, value, where)
    context.items(items)
    return items, items._fdiff_table


def has_code(value: object) -> bool:
    """Whether `value` may be a function or an object of the user, which needs a private copy."""
    return callable(value) or not library_class(type(value))


def wrap_list(context: ProxyContext, value: list[object], where: Where) -> Pair:
    if room_left(value, BUDGET) < 0:
        words = f"the list of {len(value)} items"
        if not any(map(has_code, value[:BUDGET])):
            return opaque(context, value, where, words)
        context.note(f"{words} `{label(where)}`")
    copy: list[object] = []
    node = SequenceItems(list, [])
    context.keep(value, copy, node)  # before its items: it may hold itself
    fill(context, value, where, copy, node)
    context.copied(copy, value, where)
    return copy, node


def fill(
    context: ProxyContext,
    value: list[object],
    where: Where,
    copy: list[object],
    node: SequenceItems,
) -> None:
    """Put proxies of the items of a list into its copy, and what they must be into the node."""
    for i, item in enumerate(value):
        proxy, part = context.wrap(item, (where, i))
        copy.append(proxy)
        node.nodes.append(part)


def wrap_tuple(context: ProxyContext, value: Tuple, where: Where) -> Pair:
    if leaf_key(value) is not None and SCALARS.issuperset(map(type, value)):
        return value, Equal(value)
    if room_left(value, BUDGET) < 0:
        words = f"the tuple of {len(value)} items"
        if not any(map(has_code, value[:BUDGET])):
            return opaque(context, value, where, words)
        context.note(f"{words} `{label(where)}`")
    return wrap_sequence(context, value, where)


def wrap_sequence(context: ProxyContext, value: Tuple, where: Where) -> tuple[Tuple, Dependency]:
    """A tuple or named tuple of the proxies of the items; itself where every item is its proxy."""
    pairs = [context.wrap(item, (where, i)) for i, item in enumerate(value)]
    proxies = [proxy for proxy, _ in pairs]
    node = SequenceItems(type(value), [part for _, part in pairs])
    if all(map(operator.is_, value, proxies)):
        return value, node
    return tuple.__new__(type(value), proxies), node


def wrap_set(context: ProxyContext, value: set[object] | frozenset[object], where: Where) -> Pair:
    if type(value) is frozenset and leaf_key(value) is not None:
        for item in value:
            context.meet(item)
        return value, Equal(value)
    if len(value) > BUDGET:
        return opaque(context, value, where, f"the set of {len(value)} items")
    pairs = [(item, *context.wrap(item, where)) for item in value]
    copy = type(value)([proxy for _, proxy, _ in pairs])
    if isinstance(copy, set):
        context.copied(copy, cast("set[object]", value), where)
    return copy, SetItems(
        value, [(item, node) for item, _, node in pairs if leaf_key(item) is None]
    )


def wrap_mapping(
    context: ProxyContext, value: dict[str, object], prefix: str
) -> tuple[dict[str, object], MappingItems]:
    """A copy of a small mapping that Python reads without our notice; compared as a whole."""
    table = MappingItems()
    table.keys = tuple(map(item_key, value))
    copy: dict[str, object] = {}
    for key, item in value.items():
        place = item_of(table, key)
        copy[key], table.reads[key] = context.read(item, f"{prefix}{key}", place)
    return copy, table


def wrap_namespace(context: ProxyContext, value: SimpleNamespace, where: Where) -> Pair:
    copy, node = SimpleNamespace(), Attributes(SimpleNamespace)
    context.keep(value, copy, node)
    attributes, table = wrap_mapping(context, vars(value), f"{label(where)}.")
    vars(copy).update(attributes)
    context.copied(vars(copy), vars(value), where, table)
    node.parts.append(("__dict__", table))
    return copy, node


def wrap_record(context: ProxyContext, value: object, where: Where) -> Pair:
    """A copy of an instance of a dataclass, field by field."""
    kind = type(value)
    try:
        copy, node = object.__new__(kind), Attributes(kind)
    except not_foreign(TypeError):  # a dataclass that is a dict, an array, ... as well
        return opaque(context, value, where, f"the {kind.__name__} object")
    context.keep(value, copy, node)
    for name in field_names(kind):
        item, part = attribute(value, name), Identical(MISSING)
        if item is not MISSING:
            place = attribute_of(node, name)
            proxy, part = context.read(item, f"{label(where)}.{name}", place)
            object.__setattr__(copy, name, proxy)
        node.parts.append((name, part))
    if hasattr(value, "__dict__"):
        context.copied(vars(copy), vars(value), where, node)
    return copy, node


def is_composed(value: object) -> bool:
    """Whether `LIBRARY_OBJECTS` tells which attributes define an object, and it has them all."""
    entry = LIBRARY_OBJECTS.get(type(value))
    return entry is not None and all(
        name.endswith("?") or attribute(value, name.removeprefix("type:")) is not MISSING
        for name in entry[0]
    )


def wrap_composed(context: ProxyContext, value: object, where: Where) -> Pair:
    """A copy of a library's object, made from its defining attributes by `LIBRARY_OBJECTS`."""
    names, make = LIBRARY_OBJECTS[type(value)]
    if not names:  # nothing about it can change
        return make(value), Identical(value)
    node, proxies = ComposedObject(type(value)), []
    for spelled in names:
        name = spelled.removeprefix("type:").rstrip("?")
        held, proxy, part = attribute(value, name), None, Identical(MISSING)
        if spelled.startswith("type:"):
            proxy, part = type(held), Attributes(type(held))
        elif held is not MISSING:
            proxy, part = context.wrap(held, f"{label(where)}.{name}")
        proxies.append(proxy)
        node.parts.append((name, part))
    return make(value, *proxies), node
