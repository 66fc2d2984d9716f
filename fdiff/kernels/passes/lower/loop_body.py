"""The statements of one loop nest, in which each value is computed once (value numbering).

S. S. Muchnick, Advanced Compiler Design and Implementation, Morgan Kaufmann 1997, section 12.4.1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from ....kernel_rule import Kind
from ...ir.accesses import Access, Buffer
from ...ir.index_expressions import FIRST, Axis, Dims, Index
from ...ir.kernel_graph import Operation
from ...ir.loops import Accumulator, Statement, StatementKind
from ...ir.operation_text import expression, literal
from ..materialise.materialisation import Plan
from ..materialise.value_numbering import Key

_NOWHERE = Buffer("")


class Body:
    """The statements of a nest so far; `names` numbers the locals of the whole kernel."""

    def __init__(self, plan: Plan, names: Iterator[int]) -> None:
        self.plan = plan
        self.statements: list[Statement] = []
        self.accumulators: list[Accumulator] = []
        self.memo: dict[Key, str] = {}
        self.dtypes: dict[str, str] = {}
        self._names = names
        self._temporary: set[str] = set()  # names of values that only one nest uses
        self._keys: dict[str, list[Key]] = {}  # the keys of the values that each local holds
        self._wrapped: dict[tuple[str, str], str] = {}
        self._below: dict[str, tuple[object, ...]] = {}  # of constant positions, lengths above them

    def fresh(self) -> str:
        name = f"v{next(self._names)}"
        self._temporary.add(name)
        return name

    def let(self, text: str, *operands: str) -> str:
        """A new local for ``text`` of `operands`."""
        name = self.fresh()
        self.statements.append(Statement.let(name, text, operands))
        return name

    def value(self, key: Key, compute: int = -1) -> str:
        """The local or literal that holds a value, which is computed first if none does yet.

        `compute` is a stored node that is to be computed here, and not read.
        """
        memo, names, below = self.memo, self.plan.names, self.plan.keys.below
        stack = [key]
        while stack:
            top = stack.pop()
            if top in memo:
                continue
            read = top.node in names and top.node != compute
            children = () if read else top.below or below(top)
            if len(children) > 1 and self.plan.ops[top.node].kind is Kind.BARRIER:
                children = children[:1]  # nothing is read of what it waits for
            operands = [memo.get(c) for c in children]
            if None in operands:
                stack.append(top)
                stack += [c for c in reversed(children) if c not in memo]
                continue
            texts = cast("list[str]", operands)
            name = self._read(top) if read else self._emit(top, texts)
            self.know(top, name)
            self.dtypes[name] = self.plan.ops[top.node].dtype
        return memo[key]

    def know(self, key: Key, name: str) -> None:
        """Note that a local holds a value; one local may hold the values of several views."""
        self.memo[key] = name
        self._keys.setdefault(name, []).append(key)

    def assign(self, local: str, name: str) -> None:
        """Give a local of the kernel the value called `name`.

        If the last statement has computed the value, it assigns the local itself, which holds the
        value from then on. The value of another local of the kernel is copied.
        """
        last = self.statements[-1] if self.statements else None
        own = last is not None and last.target == name and last.kind.gives_value
        if last is None or not own or name not in self._temporary:
            self.statements.append(Statement.let(local, "{0}", (name,)))
            return
        self.statements[-1] = last._replace(target=local)
        self.dtypes[local] = self.dtypes[name]
        for key in self._keys.pop(name):
            self.know(key, local)

    def _emit(self, key: Key, operands: list[str]) -> str:
        """Compute a value of these operands, and give the local or literal that holds it."""
        ops = self.plan.ops
        op = ops[key.node]
        if op.kind is Kind.VALUE:
            return literal(op)
        if op.kind is Kind.IOTA:
            return self._position(key)
        if op.kind is Kind.GATHER:
            return self._gather(key, op, operands)
        if not op.text:
            return operands[0]
        narrow = op.dtype == "b1" and any(ops[a].dtype == "b1" for a in op.args)
        return self.let(expression(op, narrow=narrow), *operands)

    def _read(self, key: Key) -> str:
        """Read a stored value: a local of the kernel, or an entry of memory."""
        plan = self.plan
        if plan.is_local(key.node):
            return plan.names[key.node]
        name = self.load(Access(plan.buffer(key.node), *self._place(key)))
        if plan.ops[key.node].kind is Kind.ARRAY:
            self._below[name] = plan.ops[key.node].data[1:]
        return name

    def _place(self, key: Key) -> tuple[Dims, Index]:
        own = self.plan.ops[key.node].dims
        return (own, (FIRST,) * len(own)) if not key.index else (key.dims, key.index)

    def load(self, access: Access, operands: tuple[str, ...] = ()) -> str:
        """Emit a load of an entry of memory, and give the new local."""
        name = self.fresh()
        self.statements.append(Statement.load(name, access, operands))
        return name

    def _position(self, key: Key) -> str:
        """The row-major number of the entry, as a value."""
        name = self.fresh()
        self.statements.append(
            Statement(StatementKind.POSITION, name, "", (), Access(_NOWHERE, key.dims, key.index))
        )
        return name

    def _gather(self, key: Key, op: Operation, operands: list[str]) -> str:
        """Read an entry at positions from index arrays, which are checked first."""
        source = self.plan.ops[op.args[0]]
        index = key.index or (FIRST,) * len(op.dims)
        positions = self.wrap(operands, source.dims)
        rest = index[len(op.dims) - (len(source.dims) - len(positions)) :]
        place = (*[Axis(-1, "1", name) for name in positions], *rest)
        return self.load(Access(self.plan.buffer(op.args[0]), source.dims, place), tuple(positions))

    def wrap(self, positions: list[str], dims: Dims) -> list[str]:
        """Positions counted from the front, where negative ones count from the end, checked.

        Constants that are known to be below the length are not.
        """
        out: list[str] = []
        for position, dim in zip(positions, dims, strict=False):
            if (position, dim) not in self._wrapped:
                name = self._wrapped[position, dim] = self.fresh()
                text = "" if dim in self._below.get(position, ()) else dim
                self.statements.append(Statement(StatementKind.WRAP, name, text, (position,)))
            out.append(self._wrapped[position, dim])
        return out
