"""Products of matrices over some of the rows of an axis."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..loops import (
    BEGIN,
    BLOCK,
    END,
    NUMPY,
    Access,
    Buffer,
    Call,
    Dims,
    Nest,
    Statement,
    Temporary,
    identity,
    proper,
)

_COUNTS = 4  # the stack, rows, summed and columns; then steps


def operands_of(call: Call) -> list[tuple[str, str]]:
    """The memory of a call, and whether it is read or written: perhaps both for most routines."""
    if not call.routine.startswith("matmul"):
        return [(b, kind) for b in call.buffers for kind in ("load", "store")]
    a, b, out = call.buffers
    return [(a, "load"), (b, "load"), (out, "store")]


def role_of(call: Call, axis: str, shapes: Mapping[str, Dims]) -> str | None:
    """What the axis is to a product in own memory: "each", "sum"; None if it is not as simple."""
    if not call.routine.startswith("matmul"):
        return None
    times = [shapes.get(b, ()).count(axis) for b in call.buffers]  # inputs have no place in blocks
    if not any(times):
        return None
    own = re.compile(rf"\b{axis}\b")
    inside = [k for k, text in enumerate(call.sizes[:_COUNTS]) if own.search(text)]
    if len(inside) != 1 or len(own.findall(call.sizes[inside[0]])) != 1:
        return None
    (k,) = inside
    if call.sizes[k] != axis and not call.sizes[k].startswith(f"{axis} * "):
        return None
    expected = ([1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1])[k]
    if times != expected:
        return None
    return "sum" if k == 2 else "each"


def of_rows(call: Call, axis: str) -> Call:
    """The product for the rows of a block."""
    own = re.compile(rf"\b{axis}\b")
    counts = [own.sub(f"({END} - {BEGIN})", text) for text in call.sizes[:_COUNTS]]
    steps = [own.sub(BLOCK, text) for text in call.sizes[_COUNTS:]]
    return Call(call.routine, call.buffers, (*counts, *steps), call.comment)


def added_up(call: Call, like: Temporary) -> tuple[Call, Nest, Nest]:
    """A product of some rows in memory of its own, its addition to the whole, zeros for it."""
    some = f"{like.name}_some"
    part = Call(call.routine, (*call.buffers[:2], some), call.sizes, f"{some} = matmul")
    index, domain = identity(like.dims), proper(like.dims)
    value = f"v_{like.name}"
    load = Statement("load", value, "", (), Access(Buffer(some), like.dims, index))
    place = Access(Buffer(like.name), like.dims, index)
    add = Statement("update", f"v_at_{like.name}", "rt.add({0}, {1})", (value,), place)
    zero = Statement("store", "", "", (f"{NUMPY[like.dtype]}(0)",), place)
    return (
        part,
        Nest(domain, (load, add), (), f"{like.name} += {some}"),
        Nest(domain, (zero,), (), f"{like.name} = zeros"),
    )
