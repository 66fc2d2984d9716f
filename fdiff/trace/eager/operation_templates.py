"""Templates of eager traces: the nodes that a handler added for operands of given types.

The handler of a ufunc chooses dtypes, conversions and broadcasting by the types of its operands.
Eager traces ask for the same again and again, so the nodes are kept by types and added again
without the handler. What depends on values as well (a tainted trace) has no template.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...bounded_cache import keep
from ...primitive import UFUNCS
from ..array_links import CapturedLink
from ..operation_cache import LOOKING_BACK, MOST, Op, op_of
from ..template import Places, Template, fragment
from ..traced_array import TracedArray, handle, ufunc_handler
from .eager_recorder import EagerRecorder
from .eager_scalars import class_of, of_class

_CONSTANTS = frozenset((np.float64, np.float32, np.int64, np.bool_))
_UNREAD = frozenset((np.add, np.subtract, np.multiply, np.divide))  # their rules read no constants

# Steps are ops with places; the result is what a handle is made of: its type, `scalar`, `weak`, and
# its class if that is one of `eager_scalars.py`. None: what is entered depends on more than types.
_templates: dict[object, Template | None] = {}


def replay(trace: EagerRecorder, template: Template, ids: list[int]) -> TracedArray:
    """The nodes of a template, entered for the operands `ids`."""
    trace.builder.splice(template.steps, ids)
    (out,), (type_, scalar, weak, kind) = template.outputs, template.result
    if kind is None:
        return handle(trace, ids[out], type_, scalar, weak)
    result = object.__new__(kind)  # as `of_class`, without another call
    result.home, result.node = trace, ids[out]
    return result


def of_ufunc(trace: EagerRecorder, ufunc: np.ufunc, operands: tuple[Any, ...]) -> object:
    """``ufunc(*operands)`` in an eager trace, by its template where there is one."""
    handler = UFUNCS.get(ufunc) or ufunc_handler(ufunc)
    key: list[object] = [ufunc]
    ids: list[int] = []
    arguments: list[object] = []
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
        arguments.append(x)
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
    return _record(trace, whole, ids, lambda: handler(*arguments))


def of_entry(
    trace: EagerRecorder, x: TracedArray, key: Any, getitem: Callable[..., object]
) -> object:
    """``x[key]`` for integers, by its template where there is one."""
    single = key.__class__ is int
    if not single and (key.__class__ is not tuple or any(k.__class__ is not int for k in key)):
        return getitem(x, key)
    if x.home is not trace or (x.link is not None and x.link.__class__ is not CapturedLink):
        return getitem(x, key)
    whole = (key, x.type)
    template = _templates.get(whole)
    if template is not None:
        return replay(trace, template, [x.node])
    return _record(trace, whole, [x.node], lambda: getitem(x, key))


def _record(
    trace: EagerRecorder, key: object, ids: list[int], call: Callable[[], object]
) -> object:
    """Call a handler; the first time keep what it entered, if that depends on types alone."""
    if key in _templates:
        return call()
    start = len(trace.builder.nodes)
    before, trace.tainted = trace.tainted, False
    out = call()
    clean = not trace.tainted
    trace.tainted = before or trace.tainted
    if not isinstance(out, TracedArray) or out.link is not None or out.home is not trace:
        keep(_templates, key, None, MOST)
        return out
    kind = class_of(out.type, weak=out.weak) if out.scalar else None
    result = (out.type, out.scalar, out.weak, kind)
    keep(_templates, key, _template(trace, ids, start, out.node, result) if clean else None, MOST)
    return out if kind is None else of_class(kind, trace, out.node)


def _template(
    trace: EagerRecorder, ids: list[int], start: int, out: int, result: object
) -> Template | None:
    """The nodes from `start` on in terms of the operands; None where they need anything else."""
    nodes, ops, count = trace.builder.nodes, trace.builder.ops, len(ids)

    def step(i: int, places: Places) -> tuple[Op, Places]:
        op = ops[i]
        if any(places[k] < count for k, _ in op.constants):  # operands, which change
            constants = tuple((k, c) for k, c in op.constants if places[k] >= count)
            op = op_of(op.primitive, op.params, op.given, constants)
        return op, places

    parts = fragment(nodes, range(start, len(nodes)), ids, (out,), step)
    return None if parts is None else Template(*parts, result)
