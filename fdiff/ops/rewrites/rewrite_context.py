"""The vocabulary of rewrite rules: how a rule looks at nodes, and enters others."""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...facets import Rewrite
from ...primitive import PRIMITIVES
from ...tape import CONSTANT, Builder, Node, Params

Ids = tuple[int, ...]
Parameters = dict[str, object]  # of a node, by name
Rule = Callable[[Builder, Ids, Parameters], int | None]

UNIT, SCALED = "unit", "scaled"  # kinds: a constant with the one entry ±1; a product with a number
REPEATS = ("broadcast_to", "reshape")  # what repeats a number, or shapes it


def axes_of(params: Parameters, name: str = "axes") -> Ids:
    """The axes, or a shape, among the parameters of a node."""
    axes = params[name]
    assert isinstance(axes, tuple)
    return axes


def seeks(*kinds: str) -> Callable[[Rule], Rewrite]:
    """Decorator: the rule applies only where an argument is of one of these kinds."""
    return lambda rule: Rewrite(rule, frozenset(kinds))


def kind(node: Node) -> str:
    """The name by which rules look for a node: its op, or a kind such as `SCALED`.

    Of products with a number this tells ``x + x``; the builder knows the others.
    """
    primitive, args = node[0], node[1]
    if primitive.name == "add":
        return SCALED if args[0] == args[1] else "add"
    if primitive is CONSTANT:
        value: np.ndarray = node.params[0][1].array
        if value.size == 1 and abs(value.item()) == 1:
            return UNIT
    return primitive.name


def repeated_number(builder: Builder, i: int) -> object:
    """The number that node `i` repeats, seen through broadcasting; None if it is not constant."""
    value = builder.nodes[repeated_node(builder, i)].value
    return value.item() if value is not None and value.size == 1 else None


def repeated_node(builder: Builder, i: int) -> int:
    """The node that node `i` repeats; itself where it is no broadcast and no reshape."""
    while builder.nodes[i].primitive.name in REPEATS:
        (i,) = builder.nodes[i].args
    return i


def node_if(builder: Builder, i: int, name: str) -> Node | None:
    """Node `i`, if it is of the op of this name."""
    node = builder.nodes[i]
    return node if node.primitive.name == name else None


def new(builder: Builder, name: str, args: Ids, **params: object) -> int:
    """Enter a node as it stands: it is not rewritten again."""
    ordered: Params = tuple(sorted(params.items()))
    return Builder.add(builder, PRIMITIVES[name], args, ordered)


def reshape_of(b: Builder, x: int, shape: object) -> int:
    """Node `x` in another shape: no node where it has that shape, one reshape in any case else."""
    inner = node_if(b, x, "reshape")
    source = inner.args[0] if inner else x
    return source if b.type(source).shape == shape else new(b, "reshape", (source,), shape=shape)


def transpose_of(b: Builder, x: int, axes: Ids) -> int:
    return x if axes == tuple(range(len(axes))) else new(b, "transpose", (x,), axes=axes)
