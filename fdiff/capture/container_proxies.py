"""Copies of the user's containers, with stand-ins for what they hold; writes to them find home."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection
from types import CellType, SimpleNamespace
from typing import cast

from ..primitive import LIBRARY_OBJECTS
from .data import Content, data_key
from .dependency_nodes import Bag, Composed, Leaf, Parts, Same, Sequence, Table, attribute
from .proxies import BUDGET, Copy, Items, Reader, Where, label
from .revalidation import Node
from .value_kinds import MISSING, SCALARS, field_names, item_key, leaf_key, library_class

Pair = tuple[object, Node]
Tuple = tuple[object, ...]


def opaque(reader: Reader, value: object, where: Where, words: str) -> Pair:
    """The value as it is; the program cannot be used again."""
    reader.note(f"{words} `{label(where)}`")
    reader.shared(value, where)
    return value, Same(value)


def wrap_data(reader: Reader, value: object, where: Where) -> Pair:
    """Ordinary data as it is, compared by its content."""
    node = Content(value, data_key(value))
    reader.data(value, node, where)
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


def wrap_dict(reader: Reader, value: dict[object, object], where: Where) -> Pair:
    items = Items(reader, value, where)
    reader.items(items)
    return items, items._fdiff_table


def has_code(value: object) -> bool:
    """Whether `value` may be a function or an object of the user, which runs as a private copy."""
    return callable(value) or not library_class(type(value))


def wrap_list(reader: Reader, value: list[object], where: Where) -> Pair:
    if room_left(value, BUDGET) < 0:
        words = f"the list of {len(value)} items"
        if not any(map(has_code, value[:BUDGET])):
            return opaque(reader, value, where, words)
        reader.note(f"{words} `{label(where)}`")
    copy: list[object] = []
    node = Sequence(list, [])
    reader.keep(value, copy, node)  # before its items: it may hold itself
    for i, item in enumerate(value):
        stand_in, part = reader.wrap(item, (where, i))
        copy.append(stand_in)
        node.nodes.append(part)
    reader.copied(copy, value, where)
    return copy, node


def wrap_tuple(reader: Reader, value: Tuple, where: Where) -> Pair:
    if leaf_key(value) is not None and SCALARS.issuperset(map(type, value)):
        return value, Leaf(value)
    if room_left(value, BUDGET) < 0:
        words = f"the tuple of {len(value)} items"
        if not any(map(has_code, value[:BUDGET])):
            return opaque(reader, value, where, words)
        reader.note(f"{words} `{label(where)}`")
    return wrap_sequence(reader, value, where)


def wrap_sequence(reader: Reader, value: Tuple, where: Where) -> tuple[Tuple, Node]:
    """A tuple or named tuple, item by item; itself where nothing stands in for any of them."""
    pairs = [reader.wrap(item, (where, i)) for i, item in enumerate(value)]
    stand_ins = [stand_in for stand_in, _ in pairs]
    node = Sequence(type(value), [part for _, part in pairs])
    if all(map(operator.is_, value, stand_ins)):
        return value, node
    return tuple.__new__(type(value), stand_ins), node


def wrap_set(reader: Reader, value: set[object] | frozenset[object], where: Where) -> Pair:
    if type(value) is frozenset and leaf_key(value) is not None:
        for item in value:
            reader.meet(item)
        return value, Leaf(value)
    if len(value) > BUDGET:
        return opaque(reader, value, where, f"the set of {len(value)} items")
    pairs = [(item, *reader.wrap(item, where)) for item in value]
    copy = type(value)([stand_in for _, stand_in, _ in pairs])
    if isinstance(copy, set):
        reader.copied(copy, cast("set[object]", value), where)
    return copy, Bag(value, [(item, node) for item, _, node in pairs if leaf_key(item) is None])


def wrap_mapping(
    reader: Reader, value: dict[str, object], prefix: str
) -> tuple[dict[str, object], Table]:
    """A copy of a small mapping that Python reads behind our back: all of it counts."""
    table = Table()
    table.keys = tuple(map(item_key, value))
    copy: dict[str, object] = {}
    for key, item in value.items():
        copy[key], table.reads[key] = reader.wrap(item, f"{prefix}{key}")
    return copy, table


def wrap_namespace(reader: Reader, value: SimpleNamespace, where: Where) -> Pair:
    copy, node = SimpleNamespace(), Parts(SimpleNamespace)
    reader.keep(value, copy, node)
    attributes, table = wrap_mapping(reader, vars(value), f"{label(where)}.")
    vars(copy).update(attributes)
    reader.copied(vars(copy), vars(value), where)
    node.parts.append(("__dict__", table))
    return copy, node


def wrap_record(reader: Reader, value: object, where: Where) -> Pair:
    """An instance of a dataclass, field by field."""
    kind = type(value)
    try:
        copy, node = object.__new__(kind), Parts(kind)
    except TypeError:  # a dataclass that is a dict, an array, ... as well
        return opaque(reader, value, where, f"the {kind.__name__} object")
    reader.keep(value, copy, node)
    for name in field_names(kind):
        found, part = attribute(value, name), Same(MISSING)
        if found is not MISSING:
            stand_in, part = reader.wrap(found, f"{label(where)}.{name}")
            object.__setattr__(copy, name, stand_in)
        node.parts.append((name, part))
    if hasattr(value, "__dict__"):
        reader.copied(vars(copy), vars(value), where)
    return copy, node


def is_composed(value: object) -> bool:
    """Whether an object of a library is told by some of its attributes, all of which it has."""
    entry = LIBRARY_OBJECTS.get(type(value))
    return entry is not None and all(attribute(value, name) is not MISSING for name in entry[0])


def wrap_composed(reader: Reader, value: object, where: Where) -> Pair:
    """A stand-in that a table makes of the attributes of the object."""
    names, make = LIBRARY_OBJECTS[type(value)]
    if not names:  # nothing about it can change
        return make(value), Same(value)
    node, found = Composed(type(value)), []
    for name in names:
        stand_in, part = reader.wrap(attribute(value, name), f"{label(where)}.{name}")
        found.append(stand_in)
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
