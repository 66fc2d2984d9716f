"""Places outside of a run, and how code reaches them: texts of Python that load and store."""

from __future__ import annotations

from typing import NamedTuple

from .write_targets import WriteTarget


class WritePlace(NamedTuple):
    """A place outside of the run: how code reaches it from the object that `node` stands for.

    `load`, `store` and `delete` are texts with the places ``{t}`` for the object, ``{k}`` for the
    `key` and ``{v}`` for the value.
    """

    node: WriteTarget
    key: object
    load: str
    store: str
    delete: str


def item_of(node: WriteTarget, key: object) -> WritePlace:
    """An item of a mapping: a global, an attribute of an object with a ``__dict__``."""
    return WritePlace(node, key, "{t}.get({k}, MISSING)", "{t}[{k}] = {v}", "{t}.pop({k}, None)")


def list_item(node: WriteTarget, index: int) -> WritePlace:
    return WritePlace(node, index, "{t}[{k}]", "{t}[{k}] = {v}", "del {t}[{k}]")


def in_slot(node: WriteTarget, place: object) -> WritePlace:
    """An attribute that lies in a slot, by its descriptor."""
    store, delete = "{k}.__set__({t}, {v})", "{k}.__delete__({t})"
    return WritePlace(node, place, "{k}.__get__({t})", store, delete)


def attribute_of(node: WriteTarget, name: str) -> WritePlace:
    """An attribute of an object, which has no code of its own for it."""
    load, store = "getattr({t}, {k}, MISSING)", "object.__setattr__({t}, {k}, {v})"
    return WritePlace(node, name, load, store, "object.__delattr__({t}, {k})")


def in_cell(node: WriteTarget) -> WritePlace:
    """A variable of an enclosing function."""
    store, delete = "{t}.cell_contents = {v}", "del {t}.cell_contents"
    return WritePlace(node, None, "{t}.cell_contents", store, delete)


def of_class(node: WriteTarget, name: str) -> WritePlace:
    """An attribute of a class."""
    store, delete = "type.__setattr__({t}, {k}, {v})", "type.__delattr__({t}, {k})"
    return WritePlace(node, name, "vars({t}).get({k}, MISSING)", store, delete)
