"""Rewrites of the structure before scheduling: matrix products, and copies that routines need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...ir.graph import Data, Part, Skeleton
from ...ir.loops import ONE, Dims, proper, same_but_ones, size, strides
from ..materialise.operation_kinds import ROUTINES, is_masked, users_of


@dataclass
class _Rewrite:
    parts: list[Part] = field(default_factory=list)
    place: list[int] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)

    def add(self, part: Part) -> int:
        self.parts.append(part)
        return len(self.parts) - 1

    def transposed(self, i: int, axes: tuple[int, ...]) -> int:
        """Part `i` with its axes in another order; itself where they are in order."""
        part = self.parts[i]
        if axes == tuple(range(len(axes))):
            return i
        dims = tuple(part.dims[a] for a in axes)
        return self.add(Part("transpose", "", (i,), part.dtypes, (dims,), (("axes", axes),)))

    def contiguous(self, i: int) -> int:
        """Part `i` where it lies in memory in order: a copy of a strided input or of a number."""
        part = self.parts[i]
        strided = part.op == "input" and part.data[1] == "A" and bool(proper(part.dims))
        if not strided and part.op != "value":
            return i
        if i not in self.copies:
            self.copies[i] = self.add(Part("copy", "{0}", (i,), part.dtypes, part.shapes))
        return self.copies[i]

    def in_order(self, i: int, dims: Dims) -> int:
        """Part `i`, read entry by entry by a part of this shape.

        A transposed input that is read again for each entry of another axis is copied, so that it
        is read in the wrong order only once.
        """
        part = self.parts[i]
        if len(proper(part.dims)) >= len(proper(dims)):
            return i
        a = part.args[0] if part.op == "reshape" and part.args else i
        source = self.parts[a]
        if source.op != "transpose" or self.parts[source.args[0]].op not in ("input", "array"):
            return i
        wide = [k for k in source.axes if source.dims[source.axes.index(k)] != ONE]
        if wide == sorted(wide):
            return i
        if a not in self.copies:
            self.copies[a] = self.add(Part("copy", "{0}", (a,), source.dtypes, source.shapes))
        return self.shaped(self.copies[a], part.dims)

    def shaped(self, i: int, dims: Dims) -> int:
        """Part `i` with other axes of one entry."""
        part = self.parts[i]
        if part.dims == dims:
            return i
        return self.add(Part("reshape", "", (i,), part.dtypes, (dims,)))

    def spread(self, i: int, dims: Dims) -> int:
        part = self.parts[i]
        return (
            i
            if part.dims == dims
            else self.add(Part("broadcast_to", "", (i,), part.dtypes, (dims,)))
        )


def lower(bones: Skeleton) -> Skeleton:
    """The same structure with `contract` as `matmul` where its labels allow it, and copies made."""
    new = _Rewrite()
    for part in _turned(bones):
        args = tuple([new.place[a] for a in part.args])
        new.place.append(_rewrite(new, part.reading(args)))
    return replace(
        bones, parts=tuple(new.parts), inputs=tuple(new.place[i] for i in bones.inputs),
        outputs=tuple(new.place[o] for o in bones.outputs),
    )  # fmt: skip


def _turned(bones: Skeleton) -> tuple[Part, ...]:
    """Parts where a product read only through one transpose is made in that order at once."""
    users = users_of(bones)
    parts = list(bones.parts)
    for i, part in enumerate(parts):
        if part.op != "transpose":
            continue
        (a,) = part.args
        if parts[a].op != "contract" or len(users[a]) > 1 or a in bones.outputs:
            continue
        axes = part.axes
        subscripts = parts[a].parameter("subscripts", str)
        inputs, out = subscripts.split("->")
        turned = f"{inputs}->{''.join(out[k] for k in axes)}"
        parts[a] = parts[a]._replace(shapes=part.shapes, data=(("subscripts", turned),))
        parts[i] = part._replace(data=(("axes", tuple(range(len(axes)))),))
    return tuple(parts)


def _rewrite(new: _Rewrite, part: Part) -> int:
    if part.op == "contract" and part.dtype[0] == "f":
        return _contract(new, part)
    if part.op == "transpose":
        return new.transposed(part.args[0], part.axes)
    if part.op == "solve":
        return _solve(new, part)
    if part.op == "solve_triangular":
        return _substituted(new, part)
    if part.op == "cholesky_bar":
        args = tuple([new.contiguous(new.spread(a, part.dims)) for a in part.args])
        return new.add(part.reading(args))
    if part.op in ROUTINES or (
        part.op == "reshape" and not same_but_ones(part.dims, new.parts[part.args[0]].dims)
    ):
        return new.add(part.reading(tuple([new.contiguous(a) for a in part.args])))
    if part.op == "gather":
        x, *indices = part.args
        lead = part.dims[: len(part.dims) - (len(new.parts[x].dims) - len(indices))]
        source = new.contiguous(x) if new.parts[x].op == "value" else x
        return new.add(part.reading((source, *[new.spread(i, lead) for i in indices])))
    if part.op == "scatter_add":
        bar, *indices = part.args
        widest = max((new.parts[i].dims for i in indices), key=lambda d: (len(d), len(proper(d))))
        return new.add(part.reading((bar, *[new.spread(i, widest) for i in indices])))
    if part.text and part.args:
        return new.add(part.reading(tuple([new.in_order(a, part.dims) for a in part.args])))
    return new.add(part)


def _solve(new: _Rewrite, part: Part) -> int:
    """A system of equations; substitutions are enough where the matrix is a Cholesky factor.

    Its diagonal is positive, or there is none, so that no such system is singular.
    """
    a = part.args[0]
    below = _turned_back(new, a)
    low = a if below is None else below
    if new.parts[low].op == "cholesky":
        return _system(new, _triangular(part, flip=below is not None), low)
    return _system(new, part, a)


def _substituted(new: _Rewrite, part: Part) -> int:
    """A triangular system, by the routine for lower ones: an upper one is the transpose of such."""
    low, flip = part.args[0], part.parameter("trans", bool)
    if not part.parameter("lower", bool):
        below, flip = _turned_back(new, low), not flip
        low = new.transposed(low, _swapped(new.parts[low].dims)) if below is None else below
    kind = "unit" if part.parameter("unit", bool) else "checked"
    return _system(new, _triangular(part, flip=flip, kind=kind), low)


def _triangular(part: Part, *, flip: bool, kind: str = "") -> Part:
    return part._replace(op="triangular", data=(("flip", f"{int(flip)}{kind}"),))


def _system(new: _Rewrite, part: Part, a: int) -> int:
    """The system `part` with matrix `a`, a matrix and right-hand sides for each of the stack."""
    square = (*part.dims[:-2], *new.parts[a].dims[-2:])
    args = (new.spread(a, square), new.spread(part.args[1], part.dims))
    return new.add(part.reading(tuple([new.contiguous(i) for i in args])))


def _turned_back(new: _Rewrite, a: int) -> int | None:
    """What `a` is the transpose of, as a stack of matrices."""
    part = new.parts[a]
    turned = part.op == "transpose" and part.axes == _swapped(part.dims)
    return part.args[0] if turned else None


def _swapped(dims: Dims) -> tuple[int, ...]:
    last = len(dims) - 1
    return (*range(last - 1), last, last - 1)


def _contract(new: _Rewrite, part: Part) -> int:
    """``[batch] m k, [batch] k n -> [batch] m n``: each a group of axes, in several orders.

    Rows may lie apart in memory, so ``kij, nkj -> nki`` needs no copy. What a product of matrices
    cannot take is transposed; what has no columns, rows or sum stays a plain loop nest.
    """
    subscripts = part.parameter("subscripts", str)
    inputs, out = subscripts.split("->")
    left, right = inputs.split(",")
    a, left = _untransposed(new, part.args[0], left)
    b, right = _untransposed(new, part.args[1], right)
    sizes = {
        **dict(zip(left, new.parts[a].dims, strict=True)),
        **dict(zip(right, new.parts[b].dims, strict=True)),
    }
    stack, m, n, k = _groups(left, right, out)
    if not k:
        return _multiplied(new, part, (a, left), (b, right), out)
    if out in (stack + n + m, n + stack + m):
        a, b, left, right, m, n = b, a, right, left, n, m
    if not all(any(sizes[x] != ONE for x in group) for group in (m, n, k)):
        data = (("subscripts", f"{left},{right}->{out}"),)
        return new.add(part._replace(args=(a, b), data=data))
    first = _arranged(new, a, left, stack, m, k)
    second = _arranged(new, b, right, stack, k, n)
    labels = out if out == m + stack + n else stack + m + n
    dims = tuple(sizes[x] for x in labels)
    places = (*first.steps, *second.steps, *_steps(labels, dims, stack, m))
    counts = tuple(size(tuple(sizes[x] for x in group)) for group in (stack, m, k, n))
    data: Data = (
        ("flips", f"{first.flip}{second.flip}"),
        ("masked", _masked(new, a, b)),
        ("sizes", (*counts, *places)),
    )
    args = (new.contiguous(first.part), new.contiguous(second.part))
    product = new.add(Part("matmul", "", args, part.dtypes, (dims,), data))
    return new.transposed(product, tuple(labels.index(x) for x in out))


def _masked(new: _Rewrite, a: int, b: int) -> str:
    """Which operand has -0.0 where terms are to be left out if the other one is not finite."""
    return next((f"_{k}" for k, i in zip("ab", (a, b), strict=True) if is_masked(new.parts, i)), "")


def _multiplied(
    new: _Rewrite, part: Part, first: tuple[int, str], second: tuple[int, str], out: str
) -> int:
    """A product that sums nothing: entry by entry, and so computed where it is used."""
    args: list[int] = []
    for i, labels in (first, second):
        order = tuple(labels.index(x) for x in out if x in labels)
        turned = new.transposed(i, order)
        sizes = dict(zip((x for x in out if x in labels), new.parts[turned].dims, strict=True))
        args.append(new.shaped(turned, tuple(sizes.get(x, ONE) for x in out)))
    return new.add(Part("multiply", "{0} * {1}", tuple(args), part.dtypes, part.shapes))


def _untransposed(new: _Rewrite, i: int, labels: str) -> tuple[int, str]:
    """What a transposed operand is a view of, with its labels in that order."""
    while new.parts[i].op == "transpose":
        axes = new.parts[i].axes
        labels = "".join(labels[axes.index(a)] for a in range(len(axes)))
        i = new.parts[i].args[0]
    return i, labels


def takes(parts: Sequence[Part], i: int, operand: int, order: tuple[int, ...]) -> bool:
    """Whether part `i` is a product of matrices that needs no copy of an operand to read it.

    `order` says which axis of the operand each axis in memory is.
    """
    if parts[i].op != "contract" or parts[i].dtype[0] != "f":
        return False
    inputs, out = parts[i].parameter("subscripts", str).split("->")
    left, right = inputs.split(",")
    sizes = dict(zip(left, parts[parts[i].args[0]].dims, strict=True))
    sizes |= zip(right, parts[parts[i].args[1]].dims, strict=True)
    stack, m, n, k = _groups(left, right, out)
    if not all(any(sizes[x] != ONE for x in group) for group in (m, n, k)):
        return False
    sides = zip(parts[i].args, (left, right), (m, n), strict=True)
    return all(
        _lies("".join(own[a] for a in order), stack, rows, k) is not None
        for a, own, rows in sides
        if a == operand
    )


def _lies(labels: str, stack: str, rows: str, columns: str) -> int | None:
    """Whether an operand with its axes in this order is flipped; None if it takes a transpose."""
    if labels in (stack + rows + columns, rows + stack + columns):
        return 0
    return 1 if labels in (stack + columns + rows, columns + stack + rows) else None


def _groups(left: str, right: str, out: str) -> tuple[str, str, str, str]:
    """Labels of the stack, of rows, of columns (in the order of the result) and those summed."""
    return (
        "".join(x for x in out if x in left and x in right),
        "".join(x for x in out if x not in right),
        "".join(x for x in out if x not in left),
        "".join(x for x in left if x not in out),
    )


class _Operand(NamedTuple):
    """A part as a stack of matrices: whether it is flipped, how far matrices and rows lie apart."""

    part: int
    flip: int
    steps: tuple[str, str]


def _arranged(new: _Rewrite, i: int, labels: str, stack: str, rows: str, columns: str) -> _Operand:
    """The operand as it lies, if its axes are in an order that a product takes; else transposed."""
    flip = _lies(labels, stack, rows, columns)
    if flip is not None:
        outer = columns if flip else rows
        return _Operand(i, flip, _steps(labels, new.parts[i].dims, stack, outer))
    wanted = stack + rows + columns
    i = new.transposed(i, tuple(labels.index(x) for x in wanted))
    return _Operand(i, 0, _steps(wanted, new.parts[i].dims, stack, rows))


def _steps(labels: str, dims: Dims, stack: str, outer: str) -> tuple[str, str]:
    """How far one matrix lies from the next, and one of its rows from the next."""
    step = dict(zip(labels, strides(dims), strict=True))
    return step[stack[-1]] if stack else "0", step[outer[-1]]
