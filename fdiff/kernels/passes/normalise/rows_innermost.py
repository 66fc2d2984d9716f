"""Arrays of many short rows are laid out with the rows innermost.

Of 10,000 points with 25 distances each, a loop over the distances of one point is too short for
vectors, and its sum would wait for each addition. With the axis of the points last, every loop is
over points: what was a sum along a row adds up vectors, entry by entry. Which axis has the rows is
a fact of the skeleton (`kernels/small.py: many_rows`); here the axis goes behind the others in all
that is computed. Inputs are copied in that order, products of matrices read them as they are, and
outputs are put back. Where an op knows no other order of axes, nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

from ...ir.graph import Data, Part, Skeleton
from ...ir.loops import ONE, Dims, proper, same_but_ones
from ..materialise.operation_kinds import LEAVES, REDUCTIONS
from .component_graph import Slices
from .scalarise import pruned

Axes = tuple[int, ...]


def rows_last(bones: Skeleton) -> Skeleton:
    """The same structure with the row axis moved to the innermost position."""
    if not bones.rows:
        return bones
    new = _Rewrite(bones)
    for i, part in enumerate(bones.parts):
        if not new.enter(i, part):
            return bones
    inputs = tuple(new.plain[i] for i in bones.inputs)
    outputs = tuple(new.whole(o) for o in bones.outputs)
    return pruned(replace(bones, parts=tuple(new.parts), inputs=inputs, outputs=outputs))


class _Rewrite:
    """Old parts in their own order (`plain`), or with the rows last (`moved`)."""

    def __init__(self, bones: Skeleton) -> None:
        self.old, self.axis = bones.parts, bones.rows
        self.parts: list[Part] = []
        self.plain: dict[int, int] = {}
        self.moved: dict[int, int] = {}

    def add(self, part: Part) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def enter(self, i: int, part: Part) -> bool:
        """Enter what replaces `part`; False if it has no form with the rows last."""
        own = self.place(part.dims)
        read = [a for a in part.args if self.place(self.old[a].dims) is not None]
        rule = _RULES.get(part.op) or (_elementwise if part.text else None)
        if part.op in LEAVES or len(part.shapes) > 1 or (own is None and not read):
            rule = None
        made = rule(self, part) if rule is not None else None
        if made is not None and own is not None:
            self.moved[i] = self.add(made)
        elif made is not None:
            self.plain[i] = self.add(made)
        elif part.op in LEAVES or self.rows_innermost(
            (*part.shapes, *(self.old[a].dims for a in read))
        ):
            self.plain[i] = self.add(part.reading(tuple([self.whole(a) for a in part.args])))
        else:
            return False
        return True

    def place(self, dims: Dims) -> int | None:
        """The position of the row axis in a shape; None if the shape has no row axis."""
        return dims.index(self.axis) if dims.count(self.axis) == 1 else None

    def rows_innermost(self, shapes: Iterable[Dims]) -> bool:
        """Whether the row axis is the last axis of every shape that has it."""
        return all(self.axis not in d or d.index(self.axis) == len(d) - 1 for d in shapes)

    def whole(self, i: int) -> int:
        """Old part `i` with its axes in their own order."""
        if i not in self.plain:
            dims = self.old[i].dims
            at, rank = self.place(dims), len(dims)
            assert at is not None
            back = (*range(at), rank - 1, *range(at, rank - 1))
            self.plain[i] = self.turned(self.moved[i], back)
        return self.plain[i]

    def last(self, i: int) -> int:
        """Old part `i` with its rows last: an input is copied in that order."""
        if i not in self.moved:
            dims = self.old[i].dims
            at = self.place(dims)
            if at is None:
                return self.plain[i]
            turned = self.turned(self.plain[i], _order(len(dims), at))
            part = self.parts[turned]
            if part.op == "transpose":
                turned = self.add(Part("copy", "{0}", (turned,), part.dtypes, part.shapes))
            self.moved[i] = turned
        return self.moved[i]

    def turned(self, i: int, axes: Axes) -> int:
        """New part `i` with its axes in another order."""
        part = self.parts[i]
        dims = tuple(part.dims[a] for a in axes)
        wide = [a for a in axes if part.dims[a] != ONE]
        if wide == sorted(wide):  # axes of one entry move alone
            return self.shaped(i, dims)
        return self.add(Part("transpose", "", (i,), part.dtypes, (dims,), (("axes", axes),)))

    def shaped(self, i: int, dims: Dims) -> int:
        """New part `i` in another shape."""
        part = self.parts[i]
        if part.dims == dims:
            return i
        return self.add(Part("reshape", "", (i,), part.dtypes, (dims,)))

    def beside(self, i: int, dims: Dims) -> int | None:
        """Old part `i`, rows last, shaped to broadcast against a result of shape `dims`."""
        own = self.old[i].dims
        at, lead = self.place(dims), len(dims) - len(own)
        if at is None:
            return None if self.axis in own else self.plain[i]
        if self.axis in own:
            return self.last(i) if self.place(own) == at - lead else None
        if not proper(own):
            return self.plain[i]
        spread = (*(ONE for _ in range(lead)), *own)
        return self.shaped(self.plain[i], tuple(spread[k] for k in _order(len(dims), at)))


def _order(rank: int, at: int) -> Axes:
    """The permutation of `rank` axes that moves axis `at` to the end."""
    return (*(k for k in range(rank) if k != at), at)


def _behind(dims: Dims, at: int | None) -> Dims:
    return dims if at is None else tuple(dims[k] for k in _order(len(dims), at))


def _made(
    new: _Rewrite, part: Part, args: list[int | None], data: Data | None = None
) -> Part | None:
    """The part with its rows last; None if one of its operands has no form with the rows last."""
    known = [a for a in args if a is not None]
    if len(known) < len(args):
        return None
    dims = _behind(part.dims, new.place(part.dims))
    return part._replace(
        args=tuple(known), shapes=(dims,), data=part.data if data is None else data
    )


def _elementwise(new: _Rewrite, part: Part) -> Part | None:
    return _made(new, part, [new.beside(a, part.dims) for a in part.args])


def _reduced(new: _Rewrite, part: Part) -> Part | None:
    """A reduction, over the row axis or over other axes."""
    (a,) = part.args
    dims = new.old[a].dims
    at = new.place(dims)
    if at is None:
        return None
    order = _order(len(dims), at)
    axes = tuple(sorted(order.index(k) for k in part.axes))
    others = tuple((k, v) for k, v in part.data if k != "axes")  # type: ignore[misc] - pairs
    return _made(new, part, [new.last(a)], (*others, ("axes", axes)))


def _contracted(new: _Rewrite, part: Part) -> Part | None:
    """A product; matrix products read inputs in either order of axes, without a copy."""
    subscripts = part.parameter("subscripts", str)
    inputs, out = subscripts.split("->")
    sides = inputs.split(",")
    matrices = _matrices(new, part, sides, out)
    args: list[int | None] = []
    for k, a in enumerate(part.args):
        at = new.place(new.old[a].dims)
        if at is None or (matrices and new.old[a].op in LEAVES):
            args.append(new.whole(a))
        else:
            args.append(new.last(a))
            sides[k] = "".join(sides[k][x] for x in _order(len(sides[k]), at))
    at = new.place(part.dims)
    result = out if at is None else "".join(out[x] for x in _order(len(out), at))
    return _made(new, part, args, (("subscripts", f"{','.join(sides)}->{result}"),))


def _matrices(new: _Rewrite, part: Part, sides: list[str], out: str) -> bool:
    """Whether it is a matrix product: both operands have free axes, and they share summed ones."""
    wide = [
        {x for x, d in zip(side, new.old[a].dims, strict=True) if d != ONE}
        for side, a in zip(sides, part.args, strict=True)
    ]
    return bool(wide[0] - wide[1] and wide[1] - wide[0] and (wide[0] & wide[1]) - set(out))


def _transposed(new: _Rewrite, part: Part) -> Part | None:
    (a,) = part.args
    before, after = (new.place(dims) for dims in (new.old[a].dims, part.dims))
    if before is None or after is None:
        return None
    first, then = (_order(len(part.dims), at) for at in (before, after))
    axes = tuple(first.index(part.axes[k]) for k in then)
    return _made(new, part, [new.last(a)], (("axes", axes),))


def _reshaped(new: _Rewrite, part: Part) -> Part | None:
    """A reshape that keeps the row axis: as the first axis, or between unchanged axes."""
    (a,) = part.args
    dims = new.old[a].dims
    if new.place(dims) is None or new.place(part.dims) is None:
        return None
    first = proper(dims)[0] == proper(part.dims)[0] == new.axis
    if not (first or same_but_ones(dims, part.dims)):
        return None
    return _made(new, part, [new.last(a)])


def _sliced(new: _Rewrite, part: Part) -> Part | None:
    """A slice that keeps all rows, or its adjoint."""
    (a,) = part.args
    pairs = _turned_slices(new, part.slices, new.old[a].dims, part.dims)
    if pairs is None:
        return None
    return _made(new, part, [new.last(a)], (*pairs, *part.data[len(part.dims) :]))


def _placed(new: _Rewrite, part: Part) -> Part | None:
    """Arrays joined along an axis that is not the row axis."""
    data = [
        _turned_slices(new, cast("Slices", pairs), new.old[a].dims, part.dims)
        for a, pairs in zip(part.args, part.data, strict=True)
    ]
    if None in data:
        return None
    return _made(new, part, [new.last(a) for a in part.args], tuple(data))


def _turned_slices(new: _Rewrite, pairs: Slices, dims: Dims, other: Dims) -> Slices | None:
    """Starts and steps with the row axis last; None if the slice takes only some of the rows."""
    at = new.place(dims)
    if at is None or new.place(other) != at or pairs[at] != ("0", "1"):
        return None
    return tuple(pairs[k] for k in _order(len(dims), at))


def _joined(new: _Rewrite, part: Part) -> Part | None:
    """Concatenation along an axis that is not the row axis."""
    at, axis = new.place(part.dims), part.parameter("axis", int)
    if at is None or axis == at or any(new.place(new.old[a].dims) != at for a in part.args):
        return None
    data = (("axis", axis - (axis > at)),)
    return _made(new, part, [new.last(a) for a in part.args], data)


_RULES: dict[str, Callable[[_Rewrite, Part], Part | None]] = {
    "broadcast_to": _elementwise,
    **dict.fromkeys(REDUCTIONS, _reduced),
    "contract": _contracted,
    "transpose": _transposed,
    "reshape": _reshaped,
    "slice": _sliced,
    "unslice": _sliced,
    "concatenate": _joined,
    "place": _placed,
}
