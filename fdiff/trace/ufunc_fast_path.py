"""The fast path of ufuncs on traced arrays: one cache lookup, one node.

A ufunc whose operands need no conversion adds one node, whose type depends on their types alone.
What its handler did for operands of some types is remembered, and repeated without the handler.
"""

from __future__ import annotations

from typing import Any

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, loop_dtypes, python_type
from ..bounded_cache import keep
from ..named_tuples import NamedTuple
from ..primitive import UFUNCS, Primitive
from ..tape import CONSTANT
from ..user_lines import user_line
from .operation_cache import MOST
from .trace_stack import stack
from .traced_array import TracedArray, handle


class Entry(NamedTuple):
    """The node that a ufunc enters for operands of some types, and the form of its result.

    `numbers` are the positions of Python numbers, with the dtypes they take; `alone` tells that
    the handler of the ufunc only enters this node.
    """

    primitive: Primitive
    types: tuple[ArrayType, ...]
    type: ArrayType
    scalar: bool
    numbers: tuple[tuple[int, np.dtype], ...]
    alone: bool


_entries: dict[object, Entry | None] = {}


def enter(
    ufunc: np.ufunc, operands: tuple[Any, ...], learn: Primitive | None = None
) -> TracedArray | None:
    """``ufunc(*operands)``; None where an operand has to be converted, or is of another kind.

    The operands are traced arrays of the trace under way, or Python numbers. The handler of the
    ufunc gives its op to `learn`; other callers get None where the handler may do more.
    """
    if not (traces := stack.traces) or (trace := traces[-1]).eager:
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
    if entry is None:
        if learn is None or whole in _entries:
            return None
        if (entry := _learn(whole, learn, ufunc, operands)) is None:
            return None
    elif learn is None and not entry.alone:
        return None
    primitive, types, type_, scalar, numbers, _ = entry
    for k, dtype in numbers:
        ids[k] = trace.number(operands[k], dtype)
    builder = trace.builder
    nodes = builder.nodes
    if nodes[ids[0]].primitive is CONSTANT and nodes[ids[-1]].primitive is CONSTANT:
        node = trace.add(primitive, tuple(ids))  # it is folded
    else:
        line = user_line(3) if trace.lines else trace.line
        node = builder.add(primitive, tuple(ids), (), line, types)
    return handle(trace, node, type_, scalar)


def _learn(
    key: object, primitive: Primitive, ufunc: np.ufunc, operands: tuple[object, ...]
) -> Entry | None:
    """Make and keep the entry for operands of such kinds; None if one has to be converted."""
    kinds: list[np.dtype | type] = []
    for x in operands:
        if not isinstance(x, TracedArray):
            kinds.append(type(x))
        elif x.weak:
            kinds.append(python_type(x.dtype))
        else:
            kinds.append(x.dtype)
    loop = loop_dtypes(ufunc, tuple(kinds))[: len(operands)]
    operand_types = [
        x.type if isinstance(x, TracedArray) else ArrayType((), dtype)
        for x, dtype in zip(operands, loop, strict=True)
    ]
    entry = None
    if all(t.dtype == dtype for t, dtype in zip(operand_types, loop, strict=True)):
        types = primitive.rules.infer(*operand_types)
        numbers = [(k, d) for k, d in enumerate(loop) if not isinstance(operands[k], TracedArray)]
        alone = getattr(UFUNCS.get(ufunc), "alone", False)
        scalar = not types[0].shape
        entry = Entry(primitive, types, types[0], scalar, tuple(numbers), alone)
    return keep(_entries, key, entry, MOST)
