"""Elementwise results that are read transposed are computed in that order to begin with.

Where what they are computed from was itself transposed, or has fewer axes, nothing is left that
walks through memory the wrong way, and loops that differed in their order become one: a batch of
tangents of what was gathered, added up again at places, needs no array between the two.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from ...ir.graph import Part, Skeleton
from ...ir.loops import ONE, Dims, proper, same_but_ones
from ..materialise.operation_kinds import (
    LEAVES,
    REDUCTIONS,
    ROUTINES,
    SCANS,
    SCATTERS,
    STORES,
    VIEWS,
    users_of,
)
from .library_calls import takes
from .scalarise import pruned

Axes = tuple[int, ...]
_PASS = (
    2  # what a transpose is that writes and reads an array, where one read in another order is 1
)
_NO = REDUCTIONS | SCANS | SCATTERS | STORES | ROUTINES | VIEWS | LEAVES


def turned(bones: Skeleton) -> Skeleton:
    """The same structure with such transposes at the operands."""
    if not any(part.op == "transpose" for part in bones.parts):
        return bones
    users = users_of(bones)
    wanted = _worth(bones, users, _wanted(bones, users))
    if not wanted:
        return bones
    new = _Rewrite(bones.parts, wanted)
    for i, part in enumerate(bones.parts):
        new.enter(i, part)
    return pruned(replace(
        bones, parts=tuple(new.parts), inputs=tuple(new.place[i] for i in bones.inputs),
        outputs=tuple(new.place[o] for o in bones.outputs),
    ))  # fmt: skip


def _wanted(bones: Skeleton, users: list[list[int]]) -> dict[int, Axes]:
    """The elementwise parts that are read in one other order only, and that order.

    Those that only products of matrices read, which take them in either, are in the order of what
    they are computed from.
    """
    parts = bones.parts
    out: dict[int, Axes] = {}
    for i in range(len(parts) - 1, -1, -1):
        if not _elementwise(parts[i]) or i in bones.outputs:
            continue
        orders = {_order(parts, users, i, u, out) for u in users[i]}
        if orders == {None}:
            order = _order_below(parts, i)
            orders = {order if all(takes(parts, u, i, order) for u in users[i]) else ()}
        order = orders.pop() if len(orders) == 1 else ()
        if order and order != tuple(range(len(order))):
            out[i] = order
    return out


def _elementwise(part: Part) -> bool:
    return part.op not in _NO and "{0}" in part.text and len(part.shapes) == 1


def _order(
    parts: tuple[Part, ...], users: list[list[int]], i: int, u: int, out: Mapping[int, Axes]
) -> Axes | None:
    """The order in which part `u` reads part `i`; None if it is a product that takes others."""
    part = parts[u]
    if part.op == "contract":
        return None if takes(parts, u, i, tuple(range(len(parts[i].dims)))) else ()
    if part.op == "transpose":
        undone = all(r in out and _undone(part.axes, out[r]) for r in users[u])
        return () if undone and users[u] else part.axes
    return out.get(u, ()) if part.dims == parts[i].dims else ()


def _order_below(parts: tuple[Part, ...], i: int) -> Axes:
    """The order that undoes the first transpose that elementwise parts below `i` read."""
    dims = parts[i].dims
    stack, seen = [i], {i}
    while stack:
        for a in parts[stack.pop()].args:
            if parts[a].op == "transpose" and parts[a].dims == dims:
                axes = parts[a].axes
                return tuple(axes.index(k) for k in range(len(axes)))
            if a not in seen and _elementwise(parts[a]) and parts[a].dims == dims:
                seen.add(a)
                stack.append(a)
    return ()


def _worth(bones: Skeleton, users: list[list[int]], wanted: dict[int, Axes]) -> dict[int, Axes]:
    """Of these, the ones that read no more in another order than transposes fall away.

    Parts that read each other are turned together or not at all.
    """
    parts = bones.parts
    leader: dict[int, int] = {}

    def group(i: int) -> int:
        while leader.setdefault(i, i) != i:
            i = leader[i]
        return i

    gains: list[tuple[int, int]] = []
    for i, axes in wanted.items():
        gains.append((i, _PASS * any(_read_turned(bones, users, u) for u in users[i])))
        for a in dict.fromkeys(parts[i].args):
            if a in wanted:
                leader[group(a)] = group(i)
            elif not _made_in_any_order(parts, users, a):
                gains.append((i, _gain(parts, a, axes, wanted)))
    total: dict[int, int] = {}
    for i, gain in gains:
        total[group(i)] = total.get(group(i), 0) + gain
    return {i: axes for i, axes in wanted.items() if total[group(i)] > 0}


def _made_in_any_order(parts: tuple[Part, ...], users: list[list[int]], i: int) -> bool:
    """Whether `i` is a product of matrices, perhaps with axes of one entry, that is read once."""
    while parts[i].op == "reshape" and len(users[i]) == 1:
        (a,) = parts[i].args
        if not same_but_ones(parts[i].dims, parts[a].dims):
            return False
        i = a
    return parts[i].op == "contract" and len(users[i]) == 1


def _read_turned(bones: Skeleton, users: list[list[int]], u: int) -> bool:
    """Whether `u` is a transpose that is a pass over memory in another order.

    A product of matrices takes most transposes as they are.
    """
    part = bones.parts[u]
    if part.op != "transpose":
        return False
    order = tuple(part.axes.index(k) for k in range(len(part.axes)))
    return u in bones.outputs or not all(takes(bones.parts, r, u, order) for r in users[u])


def _gain(parts: tuple[Part, ...], i: int, axes: Axes, wanted: Collection[int]) -> int:
    """1 for a transpose that is undone, -1 for an array that is read in another order.

    What is turned itself is there in the new order alone.
    """
    part = parts[i]
    if part.op == "transpose" and _undone(part.axes, axes) and part.args[0] not in wanted:
        return 1
    lead = len(axes) - len(part.dims)
    wide = [a for a in axes if a >= lead and part.dims[a - lead] != ONE]
    return -int(wide != sorted(wide) and part.op not in ("broadcast_to", "value"))


def _undone(first: Axes, then: Axes) -> bool:
    return len(first) == len(then) and all(first[a] == k for k, a in enumerate(then))


@dataclass
class _Rewrite:
    old: tuple[Part, ...]
    wanted: dict[int, Axes]
    parts: list[Part] = field(default_factory=list)
    place: dict[int, int] = field(default_factory=dict)
    made: dict[tuple[int, Axes], int] = field(default_factory=dict)

    def add(self, part: Part) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def enter(self, i: int, part: Part) -> None:
        axes = self.wanted.get(i)
        if axes is not None:
            args = tuple([self.operand(a, axes) for a in part.args])
            dims = tuple(part.dims[a] for a in axes)
            self.made[i, axes] = self.add(part._replace(args=args, shapes=(dims,)))
        elif part.op == "transpose" and part.args[0] in self.wanted:
            self.place[i] = self.made[part.args[0], part.axes]
        else:
            args = tuple([self._in_order(a) for a in part.args])
            self.place[i] = self.add(part.reading(args))

    def _in_order(self, i: int) -> int:
        """Old part `i` as it was; of a turned one, a view, which products look through."""
        if i not in self.place:
            axes = self.wanted[i]
            back = tuple(axes.index(k) for k in range(len(axes)))
            part, turned = self.old[i], self.made[i, axes]
            self.place[i] = self.add(
                Part("transpose", "", (turned,), part.dtypes, part.shapes, (("axes", back),))
            )
        return self.place[i]

    def operand(self, i: int, axes: Axes) -> int:
        """Old part `i` as an operand of a result whose axes are in the order `axes`."""
        if (i, axes) not in self.made:
            self.made[i, axes] = self._operand(i, axes)
        return self.made[i, axes]

    def _operand(self, i: int, axes: Axes) -> int:
        part = self.old[i]
        if not proper(part.dims):
            return self.place[i]
        undone = part.op == "transpose" and _undone(part.axes, axes)
        if undone and part.args[0] not in self.wanted:
            return self.place[part.args[0]]
        dims = (*(ONE for _ in range(len(axes) - len(part.dims))), *part.dims)
        out = tuple(dims[a] for a in axes)
        wide = [a for a in axes if dims[a] != ONE]
        if wide == sorted(wide):  # axes of one entry move alone
            return self._shaped(self.place[i], out)
        first = self._shaped(self.place[i], proper(dims))
        order = tuple(sorted(wide).index(a) for a in wide)
        inner = tuple(dims[a] for a in wide)
        data = (("axes", order),)
        turned = self.add(Part("transpose", "", (first,), part.dtypes, (inner,), data))
        return self._shaped(turned, out)

    def _shaped(self, i: int, dims: Dims) -> int:
        part = self.parts[i]
        if part.dims == dims:
            return i
        if part.op == "reshape" and self.parts[part.args[0]].dims == dims:
            return part.args[0]
        return self.add(Part("reshape", "", (i,), part.dtypes, (dims,)))
