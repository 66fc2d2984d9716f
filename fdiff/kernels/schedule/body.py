"""The statements of one loop nest: values of nodes at an index, each computed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ..bones import Part
from ..loops import (
    FIRST,
    NUMPY,
    Access,
    Accumulator,
    Axis,
    Buffer,
    Dims,
    Index,
    Statement,
    proper,
    same_but_ones,
    through_broadcast,
    through_ones,
    through_slice,
    through_transpose,
)
from .plan import Key, Plan

_NOWHERE = Buffer("")
_EXACT = ("f8", "f4", "i8")  # dtypes whose arithmetic Numba does in the dtype itself


class Body:
    """Grows the statements of one nest; `names` numbers the locals of the whole kernel."""

    def __init__(self, plan: Plan, names: Iterator[int]) -> None:
        self.plan = plan
        self.statements: list[Statement] = []
        self.accumulators: list[Accumulator] = []
        self.memo: dict[Key, str] = {}
        self.reads: dict[Key, None] = {}
        self.computed: list[Key] = []
        self.dtypes: dict[str, str] = {}
        self._names = names
        self._wrapped: dict[tuple[str, str], str] = {}

    def fresh(self) -> str:
        return f"v{next(self._names)}"

    def let(self, text: str, *operands: str) -> str:
        """A new local for ``text`` of `operands`."""
        name = self.fresh()
        self.statements.append(Statement("let", name, text, operands))
        return name

    def key(self, node: int, index: Index, dims: Dims | None = None) -> Key:
        """Key of a node at an index; one of a single entry has a single key."""
        own = self.plan.parts[node].dims
        if not proper(own) and all(a.var < 0 for a in index):
            return Key(node, (), ())
        return Key(node, own if dims is None else dims, index)

    def value(self, key: Key, compute: int = -1) -> str:
        """Name or literal of the value; `compute` is a kept node to be computed, not read."""
        memo, parts = self.memo, self.plan.parts
        stack = [key]
        while stack:
            top = stack.pop()
            if top in memo:
                continue
            children = self.children(top, compute)
            operands = [memo.get(c) for c in children]
            if None in operands:
                stack.append(top)
                stack.extend(
                    c for c, name in zip(reversed(children), reversed(operands), strict=True)
                    if name is None
                )  # fmt: skip
                continue
            name = memo[top] = self._emit(top, cast("list[str]", operands), compute)
            self.dtypes[name] = parts[top.node].dtype
        return memo[key]

    def children(self, key: Key, compute: int) -> list[Key]:
        """What the value at `key` is computed from."""
        if key.node in self.plan.names and key.node != compute:
            return []
        found = self.plan.below.get(key)
        if found is None:
            found = self.plan.below[key] = self._below(key)
        return found

    def _below(self, key: Key) -> list[Key]:
        part = self.plan.parts[key.node]
        if part.op == "gather":
            parts = self.plan.parts
            lead = len(parts[part.args[1]].dims)
            index = key.index or (FIRST,) * len(part.dims)
            return [self.key(a, index[:lead]) for a in part.args[1:]]
        return [self._child(key, part, a) for a in part.args]

    def _child(self, key: Key, part: Part, arg: int) -> Key:
        source = self.plan.parts[arg].dims
        index = key.index or (FIRST,) * len(part.dims)
        dims = key.dims if key.index else part.dims
        if not proper(source):
            return self.key(arg, (FIRST,) * len(source))
        if part.op == "reshape" and same_but_ones(source, dims):
            return self.key(arg, through_ones(index, source, dims))
        if dims != part.dims or part.op == "reshape":
            return self.key(arg, index, dims)
        if part.op == "slice":
            return self.key(arg, through_slice(index, *_columns(part)))
        if part.op == "transpose":
            return self.key(arg, through_transpose(index, part.axes))
        return self.key(arg, through_broadcast(index, source, part.dims))

    def _emit(self, key: Key, operands: list[str], compute: int) -> str:
        plan = self.plan
        part = plan.parts[key.node]
        if key.node in plan.names and key.node != compute:
            return self._read(key)
        if part.op == "value":
            return literal(part)
        if part.op == "iota":
            return self._position(key)
        if part.op == "gather":
            return self._gather(key, part, operands)
        if not part.text:
            return operands[0]
        self.computed.append(key)
        narrow = part.dtype == "b1" and any(plan.parts[a].dtype == "b1" for a in part.args)
        return self.let(expression(part, narrow=narrow), *operands)

    def _read(self, key: Key) -> str:
        plan = self.plan
        self.reads[key] = None
        if plan.local(key.node):
            return plan.names[key.node]
        return self.load(Access(plan.buffer(key.node), *self._place(key)))

    def _place(self, key: Key) -> tuple[Dims, Index]:
        own = self.plan.parts[key.node].dims
        return (own, (FIRST,) * len(own)) if not key.index else (key.dims, key.index)

    def load(self, access: Access, operands: tuple[str, ...] = ()) -> str:
        """A new local for an entry of memory."""
        name = self.fresh()
        self.statements.append(Statement("load", name, "", operands, access))
        return name

    def _position(self, key: Key) -> str:
        """The row-major number of the entry itself."""
        name = self.fresh()
        self.statements.append(
            Statement("position", name, "", (), Access(_NOWHERE, key.dims, key.index))
        )
        return name

    def _gather(self, key: Key, part: Part, operands: list[str]) -> str:
        source = self.plan.parts[part.args[0]]
        index = key.index or (FIRST,) * len(part.dims)
        picked = self.wrap(operands, source.dims)
        rest = index[len(part.dims) - (len(source.dims) - len(picked)) :]
        self.computed.append(key)
        self.reads[Key(part.args[0], source.dims, ())] = None
        place = (*[Axis(-1, "1", name) for name in picked], *rest)
        return self.load(Access(self.plan.buffer(part.args[0]), source.dims, place), tuple(picked))

    def wrap(self, positions: list[str], dims: Dims) -> list[str]:
        """Positions counted from the front, after a check that they lie within `dims`."""
        out: list[str] = []
        for position, dim in zip(positions, dims, strict=False):
            if (position, dim) not in self._wrapped:
                name = self._wrapped[position, dim] = self.fresh()
                self.statements.append(Statement("wrap", name, dim, (position,)))
            out.append(self._wrapped[position, dim])
        return out


class Reads(Body):
    """What a nest reads, without the statements that compute anything."""

    def _emit(self, key: Key, operands: list[str], compute: int) -> str:
        part = self.plan.parts[key.node]
        if key.node in self.plan.names and key.node != compute:
            self.reads[key] = None
        elif part.op == "gather":
            self.reads[Key(part.args[0], self.plan.parts[part.args[0]].dims, ())] = None
        return ""


def _columns(part: Part) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(p[0] for p in part.slices), tuple(p[1] for p in part.slices)


def literal(part: Part) -> str:
    """A constant where it is used: a local read from a table, or a number in its dtype."""
    text = part.text
    if text[:1] in "mf" or part.dtype == "b1":
        return text
    if part.dtype in ("f8", "i8"):
        return f"({text})" if text.startswith("-") else text
    return f"{NUMPY[part.dtype]}({text})"


def expression(part: Part, *, narrow: bool) -> str:
    """Text of an elementwise op in ``{0}``, ``{1}``, ...; kept within the output's dtype.

    `narrow` tells of truth values that are made of others.
    """
    text = part.text.replace("{T}", NUMPY[part.dtype])
    narrow = part.dtype not in (*_EXACT, "b1") or (narrow and part.op != "where")
    return (
        f"{NUMPY[part.dtype]}({text})"
        if narrow and not text.startswith(NUMPY[part.dtype])
        else text
    )
