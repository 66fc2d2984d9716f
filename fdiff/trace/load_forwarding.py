"""Reads that see through stores, while a tape is recorded: what was stored is what is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..arraytype import disjoint
from ..tape import Builder, Params
from .provenance import TELLING, origin

Ids = tuple[int, ...]
Ints = tuple[int, ...]
Rule = Callable[[Builder, Ids, Params], tuple[int | None, Ids]]

_LOOKED_AT = TELLING | {"update"}


def _read(builder: Builder, args: Ids, given: Params) -> tuple[int | None, Ids]:
    """A slice: of the same entries as a store, what was stored; beside it, of what lay under it."""
    (source,) = args
    if builder.nodes[source].primitive.name not in _LOOKED_AT:
        return None, args
    params: dict[str, Ints] = dict(given)  # type: ignore[arg-type] - parameters are objects to the checker
    sizes, starts, steps = params["sizes"], params["starts"], params["steps"]
    while (node := builder.nodes[source]).primitive.name == "update":
        put = dict(node.params)
        shape = builder.type(node.args[1]).shape
        begins: Ints = put["starts"]  # type: ignore[assignment] - parameters are objects to the checker
        strides: Ints = put["steps"]  # type: ignore[assignment] - parameters are objects to the checker
        if (shape, begins, strides) == (sizes, starts, steps):
            return node.args[1], args
        if not any(map(disjoint, sizes, starts, steps, shape, begins, strides)):
            break
        source = node.args[0]
    return origin(builder, source, params), (source,)


def _store(builder: Builder, args: Ids, given: Params) -> tuple[int | None, Ids]:
    """A store over another of the same entries; a store of what is there already."""
    params = dict(given)
    base, part = args
    shape = builder.type(part).shape
    node = builder.nodes[base]
    if node.primitive.name == "update" and dict(node.params) == params:
        if node.args[1] == part:
            return base, args
        if builder.type(node.args[1]).shape == shape:
            base = node.args[0]
    node = builder.nodes[part]
    if node.primitive.name == "slice" and node.args[0] == base:
        read = dict(node.params)
        if (read["starts"], read["steps"]) == (params["starts"], params["steps"]):
            return base, args
    return None, (base, part)


def _reshaped(builder: Builder, args: Ids, given: Params) -> tuple[int | None, Ids]:
    """A reshape of a reshape; none where the shape is the same.

    One in between that may have copied stays: what comes of it lies in C order.
    """
    (source,) = args
    shape: Ints = given[0][1]  # type: ignore[assignment] - parameters are objects to the checker
    while (node := builder.nodes[source]).primitive.name == "reshape":
        before, between = builder.type(node.args[0]).shape, node.type.shape
        if min(len(before), len(shape)) > 1 and _long(before) != _long(between):
            break
        source = node.args[0]
    return (source if node.types[0].shape == shape else None), (source,)


def _long(shape: Ints) -> Ints:
    return tuple([n for n in shape if n != 1])


SHORTER: Final[dict[str, Rule]] = {"slice": _read, "update": _store, "reshape": _reshaped}
