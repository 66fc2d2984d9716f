"""Copies of the user's containers, with proxies for what they hold; writes to them find home."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from types import CellType, SimpleNamespace
from typing import cast

from ..primitive import LIBRARY_OBJECTS
from .data import Content, data_key
from .dependency_nodes import (
    Attributes,
    ComposedObject,
    Equal,
    Identical,
    MappingItems,
    SequenceItems,
    SetItems,
    attribute,
)
from .proxies import BUDGET, Copy, DictProxy, ProxyContext, Where, label
from .revalidation import Dependency
from .value_kinds import MISSING, SCALARS, field_names, item_key, leaf_key, library_class

Pair = tuple[object, Dependency]
Tuple = tuple[object, ...]


def opaque(context: ProxyContext, value: object, where: Where, words: str) -> Pair:
    """The value as it is; the program cannot be used again."""
    context.note(f"{words} `{label(where)}`")
    context.shared(value, where)
    return value, Identical(value)


def wrap_data(context: ProxyContext, value: object, where: Where) -> Pair:
    """Ordinary data as it is, compared by its content."""
    node = Content(value, data_key(value))
    context.data(value, node, where)
    return value, node


def room_left(items: Collection[object], room: int) -> int:
    """What a budget of `room` leaves after the leaves of `items`; negative if overdrawn."""
    for item in items:
        room -= 1
        if room < 0:
            break
        if type(item) in {list, tuple}:
            room = room_left(cast("Collection[object]", item), room)
    return room


def wrap_dict(context: ProxyContext, value: dict[object, object], where: Where) -> Pair:
    items = DictProxy(context, value, where)
    context.items(items)
    return items, items._fdiff_table


def has_code(value: object) -> bool:
    """Whether `value` may be a function or an object of the user, which runs as a private copy."""
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
    for i, item in enumerate(value):
        proxy, part = context.wrap(item, (where, i))
        copy.append(proxy)
        node.nodes.append(part)
    context.copied(copy, value, where)
    return copy, node


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
    """A tuple or named tuple, item by item; itself where nothing is the proxy of any of them."""
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
    """A copy of a small mapping that Python reads behind our back: all of it counts."""
    table = MappingItems()
    table.keys = tuple(map(item_key, value))
    copy: dict[str, object] = {}
    for key, item in value.items():
        copy[key], table.reads[key] = context.wrap(item, f"{prefix}{key}")
    return copy, table


def wrap_namespace(context: ProxyContext, value: SimpleNamespace, where: Where) -> Pair:
    copy, node = SimpleNamespace(), Attributes(SimpleNamespace)
    context.keep(value, copy, node)
    attributes, table = wrap_mapping(context, vars(value), f"{label(where)}.")
    vars(copy).update(attributes)
    context.copied(vars(copy), vars(value), where)
    node.parts.append(("__dict__", table))
    return copy, node


def wrap_record(context: ProxyContext, value: object, where: Where) -> Pair:
    """An instance of a dataclass, field by field."""
    kind = type(value)
    try:
        copy, node = object.__new__(kind), Attributes(kind)
    except TypeError:  # a dataclass that is a dict, an array, ... as well
        return opaque(context, value, where, f"the {kind.__name__} object")
    context.keep(value, copy, node)
    for name in field_names(kind):
        found, part = attribute(value, name), Identical(MISSING)
        if found is not MISSING:
            proxy, part = context.wrap(found, f"{label(where)}.{name}")
            object.__setattr__(copy, name, proxy)
        node.parts.append((name, part))
    if hasattr(value, "__dict__"):
        context.copied(vars(copy), vars(value), where)
    return copy, node


def is_composed(value: object) -> bool:
    """Whether an object of a library is told by some of its attributes, all of which it has."""
    entry = LIBRARY_OBJECTS.get(type(value))
    return entry is not None and all(attribute(value, name) is not MISSING for name in entry[0])


def wrap_composed(context: ProxyContext, value: object, where: Where) -> Pair:
    """A proxy that a table makes of the attributes of the object."""
    names, make = LIBRARY_OBJECTS[type(value)]
    if not names:  # nothing about it can change
        return make(value), Identical(value)
    node, found = ComposedObject(type(value)), []
    for name in names:
        proxy, part = context.wrap(attribute(value, name), f"{label(where)}.{name}")
        found.append(proxy)
        node.parts.append((name, part))
    return make(value, *found), node


# ------------------------------------------------------------------------------------------- writes


def changed(copy: Copy, put: Copy) -> bool:
    """Whether `copy` no longer holds the objects that were put into it."""
    if len(copy) != len(put):
        return True
    if isinstance(copy, set):
        return copy != put
    if isinstance(copy, dict):
        values = cast("dict[str, object]", put)
        return any(values.get(key, MISSING) is not value for key, value in copy.items())
    return any(map(operator.is_not, copy, put))


def write_back(copy: Copy, real: Copy, original: Callable[[object], object]) -> None:
    """Make the user's container `real` what the run has made of its copy."""
    if isinstance(copy, list):
        cast("list[object]", real)[:] = [original(item) for item in copy]
    elif isinstance(copy, set):
        own, found = [original(item) for item in copy], cast("set[object]", real)
        found.clear()
        found.update(own)
    else:
        for name in real.keys() - copy.keys():  # type: ignore[union-attr] - both are dicts here
            store(cast("dict[str, object]", real), name, MISSING)
        for name, value in copy.items():
            store(cast("dict[str, object]", real), name, original(value))


def store(namespace: dict[str, object], name: str, value: object) -> None:
    if value is MISSING:
        namespace.pop(name, None)
    else:
        namespace[name] = value


def set_cell(cell: CellType, value: object) -> None:
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value
