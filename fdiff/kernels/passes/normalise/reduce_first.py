"""Sums of products are products of sums: what is summed over is summed before it is multiplied.

``sum(y @ a, axis=0)`` is ``sum(y, axis=0) @ a``: a product of matrices less, and one array less. A
sum goes through signs, sums and factors that are the same all along it to the product it is of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ...ir.graph import Part, Skeleton
from ...ir.loops import ONE, Dims
from ..materialise.operation_kinds import is_masked, users_of
from .scalarise import pruned

Axes = tuple[int, ...]


def summed_first(bones: Skeleton) -> Skeleton:
    """The same structure with sums before the products they are of."""
    new = _Rewrite(bones, users_of(bones))
    for part in bones.parts:
        if part.op == "sum" and part.dtype[0] == "f" and new.reaches(part.args[0], part.axes):
            new.place.append(new.total(part.args[0], part.axes, part))
        else:
            args = tuple([new.place[a] for a in part.args])
            new.place.append(new.add(part.reading(args)))
    if not new.totals:
        return bones
    return pruned(replace(
        bones, parts=tuple(new.parts), inputs=tuple(new.place[i] for i in bones.inputs),
        outputs=tuple(new.place[o] for o in bones.outputs),
    ))  # fmt: skip


@dataclass
class _Rewrite:
    old: Skeleton
    users: list[list[int]]
    parts: list[Part] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    totals: dict[tuple[int, Axes], int] = field(default_factory=dict)

    def add(self, part: Part) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def reaches(self, i: int, axes: Axes) -> bool:
        """Whether the sum of old part `i` over `axes` is of a product that nothing else reads."""
        part = self.old.parts[i]
        if len(self.users[i]) > 1 or i in self.old.outputs:
            return False
        if part.op == "contract":
            if any(is_masked(self.old.parts, a) for a in part.args):
                return False
            left, right, out = _labels(part)
            return part.dtype[0] == "f" and all((out[a] in left) != (out[a] in right) for a in axes)
        return any(self.reaches(a, own) for a, own in self._through(i, axes))

    def _through(self, i: int, axes: Axes) -> list[tuple[int, Axes]]:
        """What of part `i` is summed in its place, over which axes; nothing if it cannot be."""
        part = self.old.parts[i]
        if part.op == "negative":
            return [(part.args[0], axes)]
        if part.op == "transpose":
            return [(part.args[0], tuple(sorted(part.axes[a] for a in axes)))]
        if part.op in ("add", "subtract"):
            whole = all(self.old.parts[a].dims == part.dims for a in part.args)
            return [(a, axes) for a in part.args] if whole else []
        if part.op == "multiply" and (k := self._factor(part, axes)) is not None:
            return [(part.args[1 - k], axes)]
        return []

    def _factor(self, part: Part, axes: Axes) -> int | None:
        """Which operand of a multiplication is the same all along `axes`, the other being whole."""
        for k, (a, other) in enumerate(zip(part.args, reversed(part.args), strict=True)):
            own = self.old.parts[a].dims
            lead = len(part.dims) - len(own)
            same = all(x < lead or own[x - lead] == ONE != part.dims[x] for x in axes)
            if same and self.old.parts[other].dims == part.dims:
                return k
        return None

    def total(self, i: int, axes: Axes, like: Part) -> int:
        """The sum of old part `i` over `axes`, made once."""
        if (i, axes) not in self.totals:
            self.totals[i, axes] = self._total(i, axes, like)
        return self.totals[i, axes]

    def _total(self, i: int, axes: Axes, like: Part) -> int:
        part = self.old.parts[i]
        dims = _without(part.dims, axes)
        if part.op == "contract" and self.reaches(i, axes):
            return self._product(part, axes, like)
        inner = self._through(i, axes)
        if not inner or part.dtype != like.dtype:
            data = (("axes", axes),)
            return self.add(like._replace(args=(self.place[i],), shapes=(dims,), data=data))
        args = [self.total(a, own, like) for a, own in inner]
        if part.op == "transpose":
            stays = sorted(x for x in part.axes if x not in inner[0][1])
            order = tuple(stays.index(part.axes[a]) for a in range(len(part.axes)) if a not in axes)
            return self.add(part._replace(args=(args[0],), shapes=(dims,), data=(("axes", order),)))
        if part.op == "multiply":
            k = self._factor(part, axes)
            assert k is not None
            args.insert(k, self._narrowed(part.args[k], axes, len(part.dims)))
        return self.add(part._replace(args=tuple(args), shapes=(dims,)))

    def _narrowed(self, i: int, axes: Axes, rank: int) -> int:
        """Old part `i` without those of its axes, all of size one, that `axes` of a result are."""
        part = self.old.parts[i]
        lead = rank - len(part.dims)
        dims = _without(part.dims, tuple(x - lead for x in axes if x >= lead))
        if dims == part.dims:
            return self.place[i]
        return self.add(Part("reshape", "", (self.place[i],), part.dtypes, (dims,)))

    def _product(self, part: Part, axes: Axes, like: Part) -> int:
        left, right, out = _labels(part)
        gone = {out[a] for a in axes}
        sides = []
        for a, side in zip(part.args, (left, right), strict=True):
            own = tuple(k for k, x in enumerate(side) if x in gone)
            sides.append(self.total(a, own, like) if own else self.place[a])
        left, right, out = ("".join(x for x in t if x not in gone) for t in (left, right, out))
        data = (("subscripts", f"{left},{right}->{out}"),)
        dims = _without(part.dims, axes)
        return self.add(part._replace(args=tuple(sides), shapes=(dims,), data=data))


def _labels(part: Part) -> tuple[str, str, str]:
    inputs, out = part.parameter("subscripts", str).split("->")
    left, right = inputs.split(",")
    return left, right, out


def _without(dims: Dims, axes: Axes) -> Dims:
    return tuple(d for k, d in enumerate(dims) if k not in axes)
