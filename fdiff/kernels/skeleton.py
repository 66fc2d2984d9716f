"""The structure of a tape without its sizes and values: what a kernel is made from and keyed by.

Each distinct size other than 1 becomes a symbol ``n0, n1, ...`` in order of first appearance;
slice starts and constants become entries ``m0, m1, ...`` of an integer table and ``f0, f1, ...`` of
a float table. Only a few factors and exponents (`STRUCTURAL`) stay, for the code they allow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..arraytype import Shape
from ..primitive import Lower
from ..tape import CONSTANT, INPUT, Constant, Node, Tape

STRUCTURAL = (0, 1, -1, 2, 3, 0.5)
_LITERAL_USERS = ("power", "float_power", "multiply", "broadcast_to")
SPECIAL = frozenset(
    ["input", "constant", "item", "reshape", "transpose", "broadcast_to", "slice", "unslice", "concatenate", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "cumsum", "cumprod", "cummax", "recurrence", "gather", "scatter_add", "contract", "iota", "solve", "inv", "det", "slogdet", "cholesky", "cofactor"]
)
_DTYPES = frozenset(["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
Data = tuple[object, ...]


class Part(NamedTuple):
    """A node without sizes and values; `data` holds structural parameters and names of run-time ones."""

    op: str
    text: str
    args: tuple[int, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[tuple[str, ...], ...]
    data: Data = ()

    @property
    def dtype(self) -> str:
        return self.dtypes[0]

    @property
    def dims(self) -> tuple[str, ...]:
        return self.shapes[0]


@dataclass(frozen=True)
class Skeleton:
    """Parts in canonical order, inputs first; how many sizes, integers, floats and constant arrays."""

    parts: tuple[Part, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    sizes: int
    ints: int
    floats: int
    arrays: int

    @property
    def key(self) -> tuple[object, ...]:
        return self.parts, self.inputs, self.outputs


class Values(NamedTuple):
    """What a skeleton left out: the tables and arrays a kernel is called with."""

    ints: tuple[int, ...]
    floats: tuple[float, ...]
    arrays: tuple[np.ndarray, ...]


@dataclass
class _Draft:
    tape: Tape
    layouts: tuple[str, ...]
    users: dict[int, list[tuple[int, int]]]
    symbols: dict[int, str] = field(default_factory=dict)
    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)

    def dim(self, n: int) -> str:
        return "1" if n == 1 else self.symbols.setdefault(n, f"n{len(self.symbols)}")

    def dims(self, shape: Shape) -> tuple[str, ...]:
        return tuple([self.dim(n) for n in shape])

    def integer(self, value: int) -> str:
        self.ints.append(value)
        return f"m{len(self.ints) - 1}"

    def real(self, value: float) -> str:
        self.floats.append(value)
        return f"f{len(self.floats) - 1}"


def supported(tape: Tape) -> bool:
    """Whether a kernel can be made of `tape`."""
    return all(
        (node.primitive.name in SPECIAL or _is_scalar(node.primitive.lower))
        and all(t.dtype.str[1:] in _DTYPES for t in node.types)
        for node in tape.nodes
    )


def skeleton(tape: Tape, layouts: tuple[str, ...]) -> tuple[Skeleton, Values]:
    """Split `tape` into its structure and its values; layouts are ``"C"`` or ``"A"`` an input."""
    users: dict[int, list[tuple[int, int]]] = {}
    for i, node in enumerate(tape.nodes):
        for slot, a in enumerate(node.args):
            users.setdefault(a, []).append((i, slot))
    draft = _Draft(tape, layouts, users)
    for i in _canonical_order(tape):
        part = _part(draft, i, tape.nodes[i])
        draft.place[i] = len(draft.parts)
        draft.parts.append(part)
    place = draft.place
    bones = Skeleton(
        tuple(draft.parts), tuple(place[i] for i in tape.inputs), tuple(place[o] for o in tape.outputs),
        len(draft.symbols), len(draft.ints), len(draft.floats), len(draft.arrays),
    )  # fmt: skip
    return bones, Values((*draft.symbols, *draft.ints), tuple(draft.floats), tuple(draft.arrays))


def _canonical_order(tape: Tape) -> list[int]:
    """Inputs, then nodes as the outputs call for them: the same for tapes built in another order."""
    order = list(tape.inputs)
    seen = set(order)
    stack = [(o, False) for o in reversed(tape.outputs)]
    while stack:
        i, ready = stack.pop()
        if ready:
            order.append(i)
        elif i not in seen:
            seen.add(i)
            stack.append((i, True))
            stack.extend((a, False) for a in reversed(tape.nodes[i].args) if a not in seen)
    return order


def _is_scalar(lower: Lower | None) -> bool:
    return lower is not None and lower.kind == "scalar"


def _part(draft: _Draft, i: int, node: Node) -> Part:
    name = node.primitive.name
    shapes = tuple([draft.dims(t.shape) for t in node.types])
    dtypes = tuple([t.dtype.str[1:] for t in node.types])
    args = tuple([draft.place[a] for a in node.args])
    if node.primitive is CONSTANT:
        return _constant(draft, i, node, dtypes, shapes)
    if node.primitive is INPUT:
        k = draft.tape.inputs.index(i)
        return Part(
            "input", "", (), dtypes, shapes, (k, draft.layouts[k] if len(shapes[0]) else "C")
        )
    if _is_scalar(node.primitive.lower) and name not in SPECIAL:
        text, used = _expression(draft, node)
        return Part(name, text, args[:used], dtypes, shapes)
    return Part(name, "", args, dtypes, shapes, _data(draft, node, dict(node.params)))


def _constant(
    draft: _Draft, i: int, node: Node, dtypes: tuple[str, ...], shapes: tuple[tuple[str, ...], ...]
) -> Part:
    """A scalar is structural text or the name of a table entry; an array is one more argument."""
    value: Constant = dict(node.params)["value"]  # type: ignore[assignment]
    array = value.array
    if array.size != 1:
        draft.arrays.append(np.ascontiguousarray(array).reshape(-1))
        return Part("array", "", (), dtypes, shapes, (len(draft.arrays) - 1,))
    item = array.reshape(-1)[0]
    if array.dtype.kind == "b" or _is_structural(draft, i, item):
        return Part("value", repr(item.item()), (), dtypes, shapes)
    if array.dtype.kind == "f":
        return Part("value", draft.real(float(item)), (), dtypes, shapes)
    wrapped = int(item) - (1 << 64) if int(item) >= 1 << 63 else int(item)
    return Part("value", draft.integer(wrapped), (), dtypes, shapes)


def _is_structural(draft: _Draft, i: int, item: np.generic) -> bool:
    nodes = draft.tape.nodes
    if np.signbit(item) and item == 0:
        return False
    for user, slot in draft.users.get(i, ()):
        primitive = nodes[user].primitive
        if item in STRUCTURAL and primitive.name in _LITERAL_USERS:
            return True
        if (
            slot == 1
            and primitive.lower is not None
            and float(item) in _alternatives(primitive.lower.fast)
        ):
            return True
    return False


def _alternatives(fast: str) -> dict[float, str]:
    pairs = (entry.split(":", 1) for entry in fast.split(";") if entry)
    return {float(value): text for value, text in pairs}


def _expression(draft: _Draft, node: Node) -> tuple[str, int]:
    """Text of an elementwise op and how many of its operands it reads."""
    lower = node.primitive.lower
    assert lower is not None
    if lower.fast and len(node.args) == 2:
        exponent = draft.parts[draft.place[node.args[1]]]
        alternatives = _alternatives(lower.fast)
        if exponent.op == "value" and exponent.text[:1] not in "mf":
            text = alternatives.get(float(exponent.text))
            if text is not None:
                return text, 1
    return lower.text, len(node.args)


def _data(draft: _Draft, node: Node, params: dict[str, object]) -> Data:
    """Structural parameters; slice starts and odd steps by the name of their table entry."""
    name = node.primitive.name
    if name == "slice":
        return _slices(draft, node, params["starts"], params["steps"], node.type.shape, 0)  # type: ignore[arg-type]
    if name == "unslice":
        inner = draft.tape.nodes[node.args[0]].type.shape
        return _slices(draft, node, params["starts"], params["steps"], inner, 1)  # type: ignore[arg-type]
    if name in ("reshape", "broadcast_to", "iota", "scatter_add"):
        return ()
    return tuple(
        sorted(
            (k, repr(v) if not isinstance(v, (int, tuple, str)) else v) for k, v in params.items()
        )
    )


def _slices(
    draft: _Draft, node: Node, starts: Shape, steps: Shape, inner: Shape, which: int
) -> Data:
    """Per axis ``(start, step)`` as text; ``("0", "1")`` for an axis that is taken whole."""
    outer = node.type.shape if which else draft.tape.nodes[node.args[0]].type.shape
    out: list[tuple[str, str]] = []
    for start, step, n, full in zip(starts, steps, inner, outer, strict=True):
        if n == full and (n <= 1 or (start == 0 and step == 1)):
            out.append(("0", "1"))
            continue
        text = "1" if step == 1 or n == 1 else "-1" if step == -1 else draft.integer(int(step))
        out.append((draft.integer(int(start)), text))
    return tuple(out)
