"""Operations of eager traces: nodes without their arguments, one for all nodes of a kind.

An operation depends on types alone, so it is kept from one eager trace to the next. It carries the
function that computes it and, once somebody has asked for them, its derivative rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..bounded_cache import keep
from ..node import is_transient
from ..primitive import Primitive
from ..tape import CONSTANT, Constant, Node, Params, Types, infer

# What handlers ask of the nodes that their operands come from: a part of a template's key, and
# further nodes that the template may name (`eager/operation_templates.py`).
LookBack = Callable[[Sequence[Node], Sequence[int]], tuple[object, tuple[int, ...]]]
LOOKING_BACK: dict[object, LookBack] = {}  # by ufunc
MOST = 1 << 13  # ops and templates remembered, of all functions
SMALL = 64  # entries up to which a constant is part of what an op is

# Scalar rules (`EagerRule.scalar_rule`): arithmetic on numbers, whose function is made of the op's
# own rule; then the rules of ops on arrays and single entries.
ARITHMETIC, READS_ENTRY, STORES_ENTRIES = "arithmetic", "entry", "store_entries"


class Op:
    """A node without its arguments: one for all nodes of a kind.

    `given` are the types of the outputs of its arguments, `constants` the small constants among
    them by position: a rule may read those. `rules` serves derivatives, `scalar_rule` names a rule
    for single numbers.
    """

    __slots__ = (
        "call", "constants", "floating", "given", "params", "primitive", "rules", "scalar_rule",
        "types",
    )  # fmt: skip

    def __init__(
        self,
        primitive: Primitive,
        params: Params,
        operand_types: tuple[Types, ...],
        constants: tuple[tuple[int, Constant], ...] = (),
        types: Types | None = None,
    ) -> None:
        self.primitive = primitive
        self.params = params
        self.given = operand_types
        self.constants = constants
        self.types = types or infer(primitive, params, operand_types)
        self.floating = any(t.floating for t in self.types)
        self.call = caller(primitive, params, operand_types, self.types)
        self.rules: dict[object, Any] = {}
        self.scalar_rule = _scalar_rule(primitive, operand_types, self.types)


def constants_among(nodes: Sequence[Node], args: Sequence[int]) -> tuple[tuple[int, Constant], ...]:
    """The constants among the arguments of a node, by position."""
    pairs = [(k, nodes[a]) for k, a in enumerate(args)]
    return tuple([(k, node.params[0][1]) for k, node in pairs if node.primitive is CONSTANT])


def _scalar_rule(primitive: Primitive, operand_types: tuple[Types, ...], types: Types) -> str:
    """The name of the derivative rule for single real numbers that an op has; empty for none."""
    rule = primitive.lowering.eager.scalar_rule
    if not rule or types[0].dtype.kind != "f" or any(t[0].dtype.kind == "c" for t in operand_types):
        return ""
    if rule == STORES_ENTRIES:
        return rule
    single = not types[0].shape and not any(t[0].shape for t in operand_types[1:])
    if rule == READS_ENTRY:
        return rule if single and operand_types[0][0].ndim == len(operand_types) - 1 else ""
    return rule if not types[0].shape else ""


def caller(
    primitive: Primitive, params: Params, operand_types: tuple[Types, ...], types: Types
) -> Callable[..., object]:
    """A function that computes the node from the values of its arguments."""
    if primitive is CONSTANT:
        value = primitive.rules.evaluate(**dict(params))
        return lambda: value
    if primitive.lowering.eager.specialise is not None:
        special = primitive.lowering.eager.specialise(params, operand_types, types)
        if special is not None:
            return special
    call = primitive.lowering.eager.operator or primitive.rules.evaluate
    return partial(call, **dict(params)) if params else call


_ops: dict[object, Op] = {}


def op_of(
    primitive: Primitive,
    params: Params,
    operand_types: tuple[Types, ...],
    constants: tuple[tuple[int, Constant], ...] = (),
) -> Op:
    """The one op of this kind."""
    key = (primitive, params, operand_types, constants)
    op = _ops.get(key)
    if op is None:
        op = Op(primitive, params, operand_types, constants)
        if not is_transient(primitive, params):
            keep(_ops, key, op, MOST)
    return op
