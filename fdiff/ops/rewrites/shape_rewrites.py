"""Rewrites of ops that move entries, and of sums of single ones: one node in the place of several.

Source: S. S. Muchnick, Advanced Compiler Design and Implementation, Morgan Kaufmann 1997, section
12.3.
"""

from __future__ import annotations

from ...facets import Rewrite
from ...tape import Builder
from .rewrite_context import (
    SCALED,
    Ids,
    Parameters,
    axes_of,
    new,
    node_if,
    repeated_number,
    reshape_of,
    seeks,
    transpose_of,
)


@Rewrite
def one_broadcast(b: Builder, args: Ids, params: Parameters) -> int | None:
    """A broadcast needs no reshape that adds or drops leading ones; one broadcast is enough."""
    shape = axes_of(params, "shape")
    reshaped = b.type(args[0]).shape
    if reshaped == shape:
        return args[0]
    inner = node_if(b, args[0], "broadcast_to")
    if inner:
        return new(b, "broadcast_to", inner.args, **params)
    inner = node_if(b, args[0], "reshape")
    if inner:
        source = b.type(inner.args[0]).shape
        if source == shape:
            return inner.args[0]
        if len(source) <= len(shape) and _ends(source) == _ends(reshaped):
            return new(b, "broadcast_to", inner.args, **params)
    return None


def _ends(shape: Ids) -> Ids:
    """A shape without its leading ones."""
    first = next((k for k, n in enumerate(shape) if n != 1), len(shape))
    return shape[first:]


@Rewrite
def one_reshape(b: Builder, args: Ids, params: Parameters) -> int | None:
    """A reshape to the shape the value has already, or of a reshape."""
    if b.type(args[0]).shape == params["shape"]:
        return args[0]
    inner = node_if(b, args[0], "reshape")
    return reshape_of(b, inner.args[0], params["shape"]) if inner else None


@Rewrite
def one_transpose(b: Builder, args: Ids, params: Parameters) -> int | None:
    """A transpose to the order the axes have already, or of a transpose."""
    axes = axes_of(params)
    if axes == tuple(range(len(axes))):
        return args[0]
    inner = node_if(b, args[0], "transpose")
    if inner is None:
        return None
    first = inner.param("axes")
    return transpose_of(b, inner.args[0], tuple(first[a] for a in axes))


def _joined_axes(source: Ids, target: Ids) -> list[list[int]] | None:
    """The axes of `source` that a reshape to `target` joins to each axis; None if it splits one."""
    groups: list[list[int]] = []
    taken = 0
    for n in target:
        group: list[int] = []
        joined = 1
        while joined < n and taken < len(source):
            group.append(taken)
            joined *= source[taken]
            taken += 1
        if joined != n:
            return None
        groups.append(group)
    if groups and all(source[a] == 1 for a in range(taken, len(source))):
        groups[-1] += range(taken, len(source))
        return groups
    return None


@seeks("reshape")
def transpose_before_reshape(b: Builder, args: Ids, params: Parameters) -> int | None:
    """Axes that a reshape joins are put in order before: its result may then be the memory itself.

    Columns of a Jacobian, ``(n, a * b)`` to ``(a * b, n)``, are written where they belong.
    """
    inner = node_if(b, args[0], "reshape")
    if inner is None:
        return None
    axes = axes_of(params)
    target = b.type(args[0]).shape
    groups = _joined_axes(b.type(inner.args[0]).shape, target)
    if groups is None or not any(len(group) > 1 for group in groups):
        return None
    order = tuple(a for axis in axes for a in groups[axis])
    before = dict(params, axes=order)
    x = one_transpose.rule(b, inner.args, before)
    if x is None:
        x = transpose_of(b, inner.args[0], order)
    return reshape_of(b, x, tuple(target[axis] for axis in axes))


@Rewrite
def sum_of_single_entries(b: Builder, args: Ids, params: Parameters) -> int | None:
    """A sum over axes of length one is a reshape; over no axes, the value."""
    source = b.type(args[0])
    axes = axes_of(params)
    if all(source.shape[a] == 1 for a in axes):
        shape = tuple(n for k, n in enumerate(source.shape) if k not in axes)
        return reshape_of(b, args[0], shape)
    return None


@seeks("iota", "add", "subtract", "multiply", SCALED)
def gather_of_counters(b: Builder, args: Ids, params: Parameters) -> int | None:
    """Entries at 0, 1, 2, ... along the first axis, or at ``start + step * k``, are a slice.

    Whether all of them are there is known; where one is not, the gather raises the error.
    """
    counted = _counted(b, args[1]) if len(args) == 2 else None
    if counted is None:
        return None
    start, step, count = counted
    sizes = b.type(args[0]).shape
    if step < 1 or start < 0 or not count or start + step * (count - 1) >= sizes[0]:
        return None
    if count == sizes[0]:
        return args[0]
    rest = len(sizes) - 1
    starts, steps = (start, *[0] * rest), (step, *[1] * rest)
    return new(b, "slice", args[:1], starts=starts, sizes=(count, *sizes[1:]), steps=steps)


def _counted(b: Builder, i: int) -> tuple[int, int, int] | None:
    """Start, step and number of integers that are equally spaced; None if they are not known to be."""
    node = b.nodes[i]
    name, args = node.primitive.name, node.args
    if name == "iota":
        return 0, 1, node.param("size")
    if name not in ("add", "subtract", "multiply"):
        return None
    for here, other in ((0, 1), (1, 0)):
        number = repeated_number(b, args[other])
        if type(number) is int and (name != "subtract" or not here):
            counted = _counted(b, args[here])
            if counted is None:
                return None
            start, step, count = counted
            if name == "multiply":
                return start * number, step * number, count
            return start + (number if name == "add" else -number), step, count
    return None
