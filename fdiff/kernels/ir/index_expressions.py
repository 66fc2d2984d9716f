"""Sizes and positions of loop programs as text: arithmetic on them, and how views move positions.

No size and no value of a program is known here: ``n0 * n1`` is the text of a product.
"""

from __future__ import annotations

import re
from functools import lru_cache

from ...named_tuples import NamedTuple

Dims = tuple[str, ...]
Axes = tuple[int, ...]  # axes of an array by number; of a permutation, all of them
Slices = tuple[tuple[str, str], ...]  # the start and step along each axis
ONE = "1"
WHOLE = ("0", "1")  # the start and step of an axis that is taken whole
_BEGIN = "00"  # the start of a slice that begins at 0 and is not the whole axis
_ZEROS = ("0", _BEGIN)


class Axis(NamedTuple):
    """An affine position along one axis: ``start + step * i{var}``, or `start` if `var` is -1."""

    var: int = -1
    step: str = "1"
    start: str = "0"


Index = tuple[Axis, ...]
FIRST = Axis()


# --- arithmetic on text -----------------------------------------------------------------------


def times(a: str, b: str) -> str:
    """``a * b``, with the trivial cases folded."""
    if "0" in (a, b):
        return "0"
    if a == "1" or b == "1":
        return b if a == "1" else a
    if _WHOLE.fullmatch(a) and _WHOLE.fullmatch(b):
        return str(int(a) * int(b))
    if a == "-1" or b == "-1":
        other = b if a == "-1" else a
        return "1" if other == "-1" else f"-{atom(other)}"
    return f"{atom(a)} * {atom(b)}"


def plus(a: str, b: str) -> str:
    """``a + b``, with the trivial cases folded."""
    if a in _ZEROS or b in _ZEROS:
        return ("0" if b == _BEGIN else b) if a in _ZEROS else a
    if b == f"-{a}":
        return "0"
    if _WHOLE.fullmatch(b) and (last := _LAST.search(a)):
        total = int(last[0].replace(" ", "")) + int(b)
        rest = a[: last.start()]
        return plus(rest, str(total)) if rest else str(total)
    return f"{a} - {b[1:]}" if b.startswith("-") else f"{a} + {b}"


_WHOLE = re.compile(r"-?\d+")
_LAST = re.compile(r"^-?\d+$|(?<=[\w)]) [+-] \d+$")  # the number that a sum is, or ends with


def other_factors(product: str, first: str) -> str:
    """What a product has besides its first factor; empty if it begins with another."""
    if product == first:
        return ONE
    return product.removeprefix(f"{first} * ") if product.startswith(f"{first} * ") else ""


def atom(text: str) -> str:
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def size(dims: Dims) -> str:
    """Number of entries, as text."""
    total = "1"
    for dim in dims:
        total = times(total, dim)
    return total


def strides(dims: Dims) -> tuple[str, ...]:
    """Row-major strides in entries, as text."""
    out: list[str] = []
    total = "1"
    for dim in reversed(dims):
        out.append(total)
        total = times(total, dim)
    return tuple(reversed(out))


@lru_cache(maxsize=4096)
def nonunit(dims: Dims) -> Dims:
    """The axes that need a loop: axes with more than one entry."""
    return tuple(d for d in dims if d != ONE)


@lru_cache(maxsize=4096)
def identity(dims: Dims) -> Index:
    """The index that reads an array in loop order; axes of size one stay at their first entry."""
    out: list[Axis] = []
    var = 0
    for dim in dims:
        out.append(FIRST if dim == ONE else Axis(var))
        var += dim != ONE
    return tuple(out)


# --- how a view reads its source --------------------------------------------------------------


def part(start: str, step: str) -> tuple[str, str]:
    """The start and step of a slice that is not the whole axis, also where it begins at 0."""
    return (_BEGIN if start == "0" else start), step


def _moved(axis: Axis, start: str, step: str) -> Axis:
    """An axis of the slice as one of its source."""
    stride = times(step, axis.step) if axis.var >= 0 else "1"
    return Axis(axis.var, stride, plus(start, times(step, axis.start)))


def through_slice(index: Index, slices: Slices) -> Index:
    """Entry `index` of a slice, as an entry of its source."""
    return tuple(
        a if pair == WHOLE else _moved(a, *pair) for a, pair in zip(index, slices, strict=True)
    )


def inverse(axes: Axes) -> Axes:
    """The permutation that undoes another one."""
    return tuple(axes.index(k) for k in range(len(axes)))


def is_identity(axes: Axes) -> bool:
    """Whether a permutation leaves every axis in its place."""
    return axes == tuple(range(len(axes)))


def through_transpose(index: Index, axes: Axes) -> Index:
    """Entry `index` of a transposed array, as an entry of its source."""
    out = [FIRST] * len(axes)
    for axis, position in zip(axes, index, strict=True):
        out[axis] = position
    return tuple(out)


def through_broadcast(index: Index, source: Dims, dims: Dims) -> Index:
    """Entry `index` of an array of shape `dims`, as an entry of what was broadcast to it."""
    lead = len(dims) - len(source)
    return tuple(FIRST if d == ONE else index[lead + i] for i, d in enumerate(source))


def same_nonunit(a: Dims, b: Dims) -> bool:
    """Whether two shapes differ by axes of size one only."""
    return nonunit(a) == nonunit(b)


def through_ones(index: Index, source: Dims, dims: Dims) -> Index:
    """Entry `index` of a reshaped array whose shape differs by axes of size one only."""
    positions = iter([a for a, d in zip(index, dims, strict=True) if d != ONE])
    return tuple(FIRST if d == ONE else next(positions) for d in source)
