"""Templates of eager traces: the nodes that a handler added for operands of given types.

The handler of a ufunc chooses dtypes, conversions and broadcasting by the types of its operands.
Eager traces ask for the same again and again, so the nodes are kept by types and added again
without the handler. What depends on values as well (a tainted trace) has no template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arraytype import ArrayType
from ..primitive import UFUNCS
from ..tape import Node
from .eager_recorder import EagerRecorder
from .eager_scalars import class_of, of_class
from .operation_cache import MOST, Op, op_of
from .traced_array import TracedArray, handle, ufunc_handler
from .views import CapturedLink

_CONSTANTS = frozenset((np.float64, np.float32, np.int64, np.bool_))
_UNREAD = frozenset((np.add, np.subtract, np.multiply, np.divide))  # their rules read no constants

# What handlers ask of the nodes that their operands come from: a part of the template's key, and
# further nodes that the template may name.
LookBack = Callable[[Sequence[Node], Sequence[int]], tuple[object, tuple[int, ...]]]
LOOKING_BACK: dict[np.ufunc, LookBack] = {}

Step = tuple[Op, tuple[int, ...]]


class OperationTemplate:
    """Ops with their operands: places among the operands given, then among the steps before.

    `out` is the place of the result, `type`, `scalar` and `weak` are those of its handle, `kind` is
    its class if that is one of `trace/eager_scalars.py`.
    """

    __slots__ = ("kind", "out", "scalar", "steps", "type", "weak")

    def __init__(self, steps: tuple[Step, ...], out: int, result: TracedArray) -> None:
        self.steps = steps
        self.out = out
        self.type = result.type
        self.scalar = result.scalar
        self.weak = result.weak
        self.kind = class_of(result.type, weak=result.weak) if result.scalar else None

    def handle(self, trace: EagerRecorder, node_id: int) -> TracedArray:
        """The traced array that stands for the result."""
        return handle(trace, node_id, self.type, self.scalar, self.weak)


_templates: dict[object, OperationTemplate | None] = {}


def _keep(key: object, template: OperationTemplate | None) -> None:
    if len(_templates) >= MOST:
        _templates.clear()
    _templates[key] = template


def replay(trace: EagerRecorder, template: OperationTemplate, ids: list[int]) -> TracedArray:
    """The nodes of a template, entered for the operands `ids`."""
    enter = trace.builder.enter
    for op, refs in template.steps:
        ids.append(enter(op, tuple([ids[r] for r in refs])))
    node = ids[template.out]
    kind = template.kind
    return template.handle(trace, node) if kind is None else of_class(kind, trace, node)


def of_ufunc(trace: EagerRecorder, ufunc: np.ufunc, operands: tuple[Any, ...]) -> object:
    """``ufunc(*operands)`` in an eager trace, by its template where there is one."""
    handler = UFUNCS.get(ufunc) or ufunc_handler(ufunc)
    key: list[object] = [ufunc]
    ids: list[int] = []
    given: list[object] = []
    for x in operands:
        kind = x.__class__
        if isinstance(x, TracedArray):
            if x.home is not trace:
                return handler(*operands)
            ids.append(x.node if x.link is None else x.id)
            key += (x.type, x.weak)
        elif kind is float or kind is int:
            key += (kind, x or str(x))  # -0.0 is not 0.0
        elif kind in _CONSTANTS:
            plain = ufunc in _UNREAD and x.dtype.kind == "f"
            node = trace.builder.number(x, x.dtype) if plain else trace.lift(x)
            x = TracedArray(trace, node, ArrayType((), x.dtype))  # noqa: PLW2901 - the same number, traced
            ids.append(x.node)
            key += (x.type, None)
        else:
            return handler(*operands)
        given.append(x)
    if len(ids) > 1 and len(set(ids)) < len(ids):
        key.append(tuple([ids.index(i) for i in ids]))
    look_back = LOOKING_BACK.get(ufunc)
    if look_back is not None:
        more, others = look_back(trace.builder.nodes, ids)
        key.append(more)
        ids += others
    whole = tuple(key)
    template = _templates.get(whole)
    if template is not None:
        return replay(trace, template, ids)
    if whole in _templates:  # what it does depends on more than types
        return handler(*given)
    return _record(trace, whole, ids, lambda: handler(*given))


def of_entry(
    trace: EagerRecorder, x: TracedArray, key: Any, getitem: Callable[..., object]
) -> object:
    """``x[key]`` for integers, by its template where there is one."""
    one = key.__class__ is int
    if not one and (key.__class__ is not tuple or any(k.__class__ is not int for k in key)):
        return getitem(x, key)
    if x.home is not trace or (x.link is not None and x.link.__class__ is not CapturedLink):
        return getitem(x, key)
    whole = (key, x.type)
    template = _templates.get(whole)
    if template is not None:
        return replay(trace, template, [x.node])
    if whole in _templates:
        return getitem(x, key)
    return _record(trace, whole, [x.node], lambda: getitem(x, key))


def _record(trace: EagerRecorder, key: object, ids: list[int], call: Callable[[], Any]) -> object:
    """Call a handler, and keep what it entered if that depends on types alone."""
    start = len(trace.builder.nodes)
    before, trace.tainted = trace.tainted, False
    out = call()
    clean = not trace.tainted
    trace.tainted = before or trace.tainted
    plain = isinstance(out, TracedArray) and out.link is None and out.home is trace
    _keep(key, _template(trace, ids, start, out) if clean and plain else None)
    kind = class_of(out.type, weak=out.weak) if plain and out.scalar else None
    return out if kind is None else of_class(kind, trace, out.node)


def _template(
    trace: EagerRecorder, ids: list[int], start: int, out: TracedArray
) -> OperationTemplate | None:
    """The nodes from `start` on in terms of the operands; None where they need anything else."""
    builder = trace.builder
    places = {node_id: k for k, node_id in reversed([*enumerate(ids)])}
    steps: list[Step] = []
    for i in range(start, len(builder.nodes)):
        args = builder.nodes[i].args
        if any(a not in places for a in args):
            return None
        op = builder.ops[i]
        if any(places[args[k]] < len(ids) for k, _ in op.constants):  # constants that are operands
            op = _unfixed(op, tuple(places[a] < len(ids) for a in args))
        steps.append((op, tuple([places[a] for a in args])))
        places[i] = len(ids) + len(steps) - 1
    if out.node not in places:
        return None
    return OperationTemplate(tuple(steps), places[out.node], out)


def _unfixed(op: Op, operands: tuple[bool, ...]) -> Op:
    """The op that does not know the constants among the operands, which change."""
    constants = tuple((k, c) for k, c in op.constants if not operands[k])
    return op_of(op.primitive, op.params, op.given, constants)
