"""Linearity of ops in operands that move, by forward rules: docs/decisions/terms-and-cuts.md."""

from __future__ import annotations

from ...arraytype import ArrayType
from ...bounded_cache import keep
from ...foreign_errors import not_signalled
from ...node import is_transient
from ...tape import Node, Types
from ...trace.operation_cache import Op
from ..resized_templates import Sizes
from ..rule_templates import pushes

_MOST = 4096
_known: dict[object, bool] = {}


def is_linear(node: Node, moving: tuple[bool, ...], types: Types) -> bool:
    """Whether the tangents of a node depend neither on the arguments that move nor on its outputs.

    `types` are the types of the arguments. An op that is linear only where its operands are (a norm
    that scales what it is given) reads them in its rule, and is not.
    """
    if (
        not all(t.floating for t in node.types)
        or node.primitive.rules.flat
        or node.primitive.rules.stops
    ):
        return False
    if any(m and not t.floating for m, t in zip(moving, types, strict=True)):
        return False
    if is_transient(node.primitive, node.params):
        return _is_linear_by_rule(node, moving, types)
    primitive, params = node.primitive, node.params
    if primitive.family == "elementwise":  # shapes change nothing: they are left out
        types = tuple([ArrayType((), t.dtype) for t in types])
        key: tuple[object, ...] = (primitive, params, moving, types)
    elif primitive.structure.sizeless:
        sizes = Sizes()
        key = (primitive, moving, *sizes.types(types), sizes.params(params))
    else:
        key = (primitive, params, moving, types)
    answer = _known.get(key)
    if answer is None:
        answer = keep(_known, key, _is_linear_by_rule(node, moving, types), _MOST)
    return answer


def _is_linear_by_rule(node: Node, moving: tuple[bool, ...], types: Types) -> bool:
    """Whether the op is linear in the moving operands, by its rule for these types."""
    if node.primitive.rules.jvp is None:
        return False
    outs = node.types
    if node.primitive.family == "elementwise":
        outs = tuple([ArrayType((), t.dtype) for t in outs])
    op = Op(node.primitive, node.params, tuple([(t,) for t in types]), (), outs)
    try:
        tape, places, _ = pushes.rule.trace(op, moving)
    except not_signalled(NotImplementedError):  # a call whose one rule has no transpose
        return False
    if any(place is None for place in places):  # by decree: `stop_gradient` hides a slope
        return False
    read = {a for n in tape.nodes for a in n.args} | {*tape.outputs}
    first = sum(moving)
    stands = [i for i, m in zip(tape.inputs[first : first + len(types)], moving, strict=True) if m]
    return read.isdisjoint([*stands, *tape.inputs[first + len(types) :]])
