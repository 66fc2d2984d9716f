"""The table of rewrites: what may stand in the place of a node.

A rewrite must give the same values for every input, NaN and infinities included: ``0 * x`` is kept,
`ZERO` never reaches a tape.
"""

from __future__ import annotations

from collections.abc import Callable

from ..arraytype import broadcast
from ..primitive import PRIMITIVES, Primitive
from ..tape import CONSTANT, Builder, Node, Params

Ids = tuple[int, ...]
Rule = Callable[[Builder, Ids, dict[str, object]], int | None]

# What a rule looks for among the arguments, by `kind`: it is not asked where there is none of it. A
# rule that is not named here is always asked.
_SOUGHT: dict[Rule, frozenset[str]] = {}


def seeks(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: the rule applies only where an argument is of one of these kinds."""

    def enter(rule: Rule) -> Rule:
        _SOUGHT[rule] = frozenset(names)
        return rule

    return enter


def kind(node: Node) -> str:
    """What rules look for a node as: its op, or "unit" for a constant with the one entry ±1."""
    if node.primitive is CONSTANT:
        value = node.value
        if value is not None and value.size == 1 and abs(value.item()) == 1:
            return "unit"
    return node.primitive.name


def _number(builder: Builder, i: int) -> object:
    """The number that node `i` repeats, seen through broadcasting; None if it is not constant."""
    node = builder.nodes[i]
    while node.primitive.name in ("broadcast_to", "reshape"):
        node = builder.nodes[node.args[0]]
    value = node.value
    return value.item() if value is not None and value.size == 1 else None


def _of(builder: Builder, i: int, name: str) -> Node | None:
    node = builder.nodes[i]
    return node if node.primitive.name == name else None


def _new(builder: Builder, name: str, args: Ids, **params: object) -> int:
    primitive: Primitive = PRIMITIVES[name]
    ordered: Params = tuple(sorted(params.items()))
    return Builder.add(builder, primitive, args, ordered)  # as it stands, not rewritten again


# --- the rules: each gives the id that may stand in for the node, or None ------------------------


@seeks("unit", "broadcast_to", "reshape")
def _times_one(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """``x * 1 -> x`` and ``x * -1 -> -x``; also through a broadcast one.

    Not of complex numbers: ``(1 + 0j) * (inf + 0j)`` is ``inf + nanj``.
    """
    if b.type(args[0]).dtype.kind == "c":
        return None
    for here, other in ((0, 1), (1, 0)):
        number = _number(b, args[here])
        if number == 1 and not isinstance(number, bool):
            return args[other]
        if number == -1:
            return _new(b, "negative", (args[other],))
    return None


@seeks("unit", "broadcast_to", "reshape")
def _over_one(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    return args[0] if _number(b, args[1]) == 1 and b.type(args[0]).dtype.kind != "c" else None


@seeks("negative")
def _double_negative(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    inner = _of(b, args[0], "negative")
    return inner.args[0] if inner else None


@seeks("negative")
def _minus_negative(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """``x + (-y) -> x - y``, ``(-x) + y -> y - x``."""
    if right := _of(b, args[1], "negative"):
        return _new(b, "subtract", (args[0], right.args[0]))
    if left := _of(b, args[0], "negative"):
        return _new(b, "subtract", (args[1], left.args[0]))
    return None


@seeks("negative")
def _plus_negative(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """``x - (-y) -> x + y``."""
    right = _of(b, args[1], "negative")
    return _new(b, "add", (args[0], right.args[0])) if right else None


@seeks("negative")
def _pull_negative(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """(-x) * (-y) -> x * y; the sign of one factor stays where it is."""
    left, right = _of(b, args[0], "negative"), _of(b, args[1], "negative")
    return _new(b, "multiply", (left.args[0], right.args[0])) if left and right else None


def _drop_broadcast(name: str) -> Rule:
    """op(broadcast(x), y) -> op(x, y) where y alone gives the shape."""

    @seeks("broadcast_to")
    def rule(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
        shapes = [b.type(a).shape for a in args]
        full = broadcast(*shapes)
        for k, a in enumerate(args):
            inner = _of(b, a, "broadcast_to")
            rest = [s for j, s in enumerate(shapes) if j != k]
            if inner and broadcast(*rest, b.type(inner.args[0]).shape) == full:
                return _new(b, name, (*args[:k], inner.args[0], *args[k + 1 :]), **params)
        return None

    return rule


def _broadcast(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """A broadcast of leading ones needs no reshape; of a broadcast, one is enough."""
    if b.type(args[0]).shape == params["shape"]:
        return args[0]
    inner = _of(b, args[0], "broadcast_to")
    if inner:
        return _new(b, "broadcast_to", inner.args, **params)
    inner = _of(b, args[0], "reshape")
    if inner:
        source = b.type(inner.args[0]).shape
        target = b.type(args[0]).shape
        if target[len(target) - len(source) :] == source and all(
            n == 1 for n in target[: len(target) - len(source)]
        ):
            return _new(b, "broadcast_to", inner.args, **params)
    return None


def _reshape(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    if b.type(args[0]).shape == params["shape"]:
        return args[0]
    inner = _of(b, args[0], "reshape")
    return _reshape_of(b, inner.args[0], params["shape"]) if inner else None


def _reshape_of(b: Builder, x: int, shape: object) -> int:
    """Node `x` in another shape: no node where it has that shape, one reshape in any case else."""
    inner = _of(b, x, "reshape")
    source = inner.args[0] if inner else x
    return source if b.type(source).shape == shape else _new(b, "reshape", (source,), shape=shape)


def _transpose(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    axes: Ids = params["axes"]  # type: ignore[assignment]
    if axes == tuple(range(len(axes))):
        return args[0]
    inner = _of(b, args[0], "transpose")
    if inner is None:
        return None
    first = dict(inner.params)["axes"]
    return _transpose_of(b, inner.args[0], tuple(first[a] for a in axes))  # type: ignore[index]


def _transpose_of(b: Builder, x: int, axes: Ids) -> int:
    return x if axes == tuple(range(len(axes))) else _new(b, "transpose", (x,), axes=axes)


def _same(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """A conversion to the dtype the value has already."""
    return args[0]


def _where(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """where(c, x, x) -> x, and nested choices by the same condition."""
    if args[1] == args[2]:
        return args[1]
    for k in (1, 2):
        inner = _of(b, args[k], "where")
        if inner and inner.args[0] == args[0]:
            kept = list(args)
            kept[k] = inner.args[k]
            return _new(b, "where", tuple(kept))
    return None


def _sum_nothing(b: Builder, args: Ids, params: dict[str, object]) -> int | None:
    """A sum over axes of length one is a reshape; over no axes, the value."""
    source = b.type(args[0])
    axes: Ids = params["axes"]  # type: ignore[assignment]
    if all(source.shape[a] == 1 for a in axes):
        shape = tuple(n for k, n in enumerate(source.shape) if k not in axes)
        return _reshape_of(b, args[0], shape)
    return None


RULES: dict[str, tuple[Rule, ...]] = {
    "multiply": (_times_one, _pull_negative, _drop_broadcast("multiply")),
    "divide": (_over_one, _drop_broadcast("divide")),
    "add": (_minus_negative, _drop_broadcast("add")),
    "subtract": (_plus_negative, _drop_broadcast("subtract")),
    "negative": (_double_negative,),
    "where": (_where, _drop_broadcast("where")),
    "maximum": (_drop_broadcast("maximum"),),
    "minimum": (_drop_broadcast("minimum"),),
    "power": (_drop_broadcast("power"),),
    "broadcast_to": (_broadcast,),
    "reshape": (_reshape,),
    "transpose": (_transpose,),
    "convert": (_same,),
    "copy": (_same,),
    "sum": (_sum_nothing,),
}

# By op: its rules, each with the kinds it looks for among the arguments, None where it is asked
# always; all kinds that are looked for.
SEEKING = {name: [(rule, _SOUGHT.get(rule)) for rule in rules] for name, rules in RULES.items()}
NOTABLE = frozenset[str]().union(*_SOUGHT.values())

# What is done about nodes of an op: its rules are asked always, or only where an argument is
# notable; the node is looked for itself.
ASKED, SEEKS, NOTED = 1, 2, 4


def _mode(name: str) -> int:
    rules = SEEKING.get(name, ())
    mode = ASKED if any(sought is None for _, sought in rules) else SEEKS if rules else 0
    return mode | (NOTED if name in NOTABLE or name == CONSTANT.name else 0)


MODES = {PRIMITIVES[name]: _mode(name) for name in (*RULES, *(NOTABLE - {"unit"}), CONSTANT.name)}
