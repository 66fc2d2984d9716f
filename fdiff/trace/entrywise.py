"""Entrywise ops on traced arrays of known types: the shortest way onto the tape.

A ufunc whose operands need no conversion enters one node, whose type depends on theirs alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arraytype import ArrayType, loop_dtypes
from ..primitive import Primitive
from ..tape import CONSTANT
from .opkinds import MOST
from .traced import TracedArray, stack


class Entry(NamedTuple):
    """What a ufunc enters for operands of some types: the types of the node, how it is given.

    `numbers` are the positions of Python numbers, with the dtypes they take.
    """

    types: tuple[ArrayType, ...]
    type: ArrayType
    scalar: bool
    numbers: tuple[tuple[int, np.dtype], ...]


_entries: dict[object, Entry | None] = {}


def enter(primitive: Primitive, ufunc: np.ufunc, operands: tuple[Any, ...]) -> TracedArray | None:
    """``ufunc(*operands)``; None where an operand has to be converted, or is of another kind.

    The operands are traced arrays of the trace under way, or Python numbers.
    """
    if not stack.traces or (trace := stack.traces[-1]).eager:
        return None
    key: list[object] = [ufunc]
    ids: list[int] = []
    for x in operands:
        kind = x.__class__
        if kind is TracedArray:
            if x.home is not trace:
                return None
            key.append((x.type,) if x.weak else x.type)
            ids.append(x.node if x.link is None else x.id)
        elif kind is float or kind is int:
            key.append(kind)
            ids.append(-1)
        else:
            return None
    whole = tuple(key)
    entry = _entries.get(whole)
    if entry is None and whole not in _entries:
        entry = _learn(whole, primitive, ufunc, operands)
    if entry is None:
        return None
    for k, dtype in entry.numbers:
        ids[k] = trace.number(operands[k], dtype)
    builder = trace.builder
    nodes = builder.nodes
    if nodes[ids[0]].primitive is CONSTANT and nodes[ids[-1]].primitive is CONSTANT:
        node = trace.add(primitive, tuple(ids))  # it is folded
    else:
        node = builder.add(primitive, tuple(ids), (), trace.where(3), entry.types)
    made = TracedArray.__new__(TracedArray)
    made.home = made.born = trace
    made.node = made.made = node
    made.type, made.scalar, made.weak, made.link = entry.type, entry.scalar, False, None
    return made


def _learn(
    key: object, primitive: Primitive, ufunc: np.ufunc, operands: tuple[Any, ...]
) -> Entry | None:
    """The entry for operands of a kind, from now on."""
    kinds: list[np.dtype | type] = []
    for x in operands:
        if not isinstance(x, TracedArray):
            kinds.append(type(x))
        elif x.weak:
            kinds.append(complex if x.dtype.kind == "c" else float)
        else:
            kinds.append(x.dtype)
    loop = loop_dtypes(ufunc, tuple(kinds))[: len(operands)]
    given = [
        x.type if isinstance(x, TracedArray) else ArrayType((), dtype)
        for x, dtype in zip(operands, loop, strict=True)
    ]
    entry = None
    if all(t.dtype == dtype for t, dtype in zip(given, loop, strict=True)):
        types = primitive.infer(*given)
        numbers = [(k, d) for k, d in enumerate(loop) if not isinstance(operands[k], TracedArray)]
        entry = Entry(types, types[0], not types[0].shape, tuple(numbers))
    if len(_entries) >= MOST:
        _entries.clear()
    _entries[key] = entry
    return entry
