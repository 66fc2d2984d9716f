"""The vocabulary of rewrite rules: how a rule looks at nodes, and enters others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ops.elementwise import add
from ...ops.view_ops import reshape, spread, transpose
from ...primitive import Primitive
from ...tape import CONSTANT, Builder, Node, Params

Ids = tuple[int, ...]
Rule = Callable[[Builder, Ids, dict[str, Any]], int | None]

Kind = Primitive | str  # of a node: its op, or what it is
UNIT, SCALED = "unit", "scaled"  # a constant with the one entry ±1; a product with a number

# What a rule looks for among the arguments, by `kind`: it is not asked where there is none of it. A
# rule that is not named here is always asked.
SOUGHT: dict[Rule, frozenset[Kind]] = {}


def seeks(*kinds: Kind) -> Callable[[Rule], Rule]:
    """Decorator: the rule applies only where an argument is of one of these kinds."""

    def enter(rule: Rule) -> Rule:
        SOUGHT[rule] = frozenset(kinds)
        return rule

    return enter


def kind(node: Node) -> Kind:
    """What rules look for a node as: its op, or what it is.

    Of products with a number this tells ``x + x``; the builder knows the others.
    """
    primitive, args = node[0], node[1]
    if primitive is add:
        return SCALED if args[0] == args[1] else add
    if primitive is CONSTANT:
        value: np.ndarray = node.params[0][1].array
        if value.size == 1 and abs(value.item()) == 1:
            return UNIT
    return primitive


def repeated_number(builder: Builder, i: int) -> object:
    """The number that node `i` repeats, seen through broadcasting; None if it is not constant."""
    node = builder.nodes[i]
    while node.primitive in (spread, reshape):
        node = builder.nodes[node.args[0]]
    value = node.value
    return value.item() if value is not None and value.size == 1 else None


def node_if(builder: Builder, i: int, primitive: Primitive) -> Node | None:
    """Node `i`, if it is of this op."""
    node = builder.nodes[i]
    return node if node.primitive is primitive else None


def new(builder: Builder, primitive: Primitive, args: Ids, **params: object) -> int:
    """Enter a node as it stands: it is not rewritten again."""
    ordered: Params = tuple(sorted(params.items()))
    return Builder.add(builder, primitive, args, ordered)


def reshape_of(b: Builder, x: int, shape: object) -> int:
    """Node `x` in another shape: no node where it has that shape, one reshape in any case else."""
    inner = node_if(b, x, reshape)
    source = inner.args[0] if inner else x
    return source if b.type(source).shape == shape else new(b, reshape, (source,), shape=shape)


def transpose_of(b: Builder, x: int, axes: Ids) -> int:
    return x if axes == tuple(range(len(axes))) else new(b, transpose, (x,), axes=axes)
