"""Reads, ufuncs and stores by a traced mask that become a `where` of whole arrays.

``x[mask] = 0.5 * x[mask] + c`` does not depend on how many entries the mask picks: its pattern is
data, and no guard. Entries that the mask leaves out are computed with, and take part in no result.
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from ...arraytype import BOOL, loop_dtypes
from ...foreign_errors import not_foreign
from ...hooks import hooks
from ...named_tuples import NamedTuple
from ...trace import TracedArray, constant_value, current
from ...trace.handler_arguments import resolved
from ...trace.masked_parts import DEPTH, MaskedLink, MaskedPart, MaskedType, link_of, masked_part
from ..entrywise.families import kind_of
from .basic_indexing import basic, expanded, is_mask, is_simple

# Ufuncs that raise no flags of the processor where a mask leaves entries out, but for infinities.
QUIET = frozenset((np.add, np.subtract, np.multiply, np.negative, np.positive))


class MaskedTarget(NamedTuple):
    """The target of ``x[key]``: entries of a view, by a mask of some of its axes."""

    view: TracedArray
    mask: TracedArray
    type: MaskedType


def masked_target(x: TracedArray, key: object) -> MaskedTarget | None:
    """The target of a key with one traced mask beside slices and integers; None of any other."""
    parts = key if isinstance(key, tuple) else (key,)
    if not any(isinstance(part, TracedArray) and part.dtype == BOOL for part in parts):
        return None
    trace = current(x)
    if trace.eager or x.scalar or x.weak:
        return None
    items = expanded(parts, x.ndim)
    places = [k for k, i in enumerate(items) if not is_simple(i)]
    spots = [k for k, i in enumerate(items) if not (i is None or isinstance(i, slice))]
    if any(i is Ellipsis for i in items):  # it stands for no axes, and sets arrays apart
        return None
    if len(places) > 1 or spots[-1] - spots[0] + 1 > len(spots):
        return None
    mask = items[places[0]]
    if not isinstance(mask, TracedArray) or not is_mask(mask) or not mask.ndim:
        return None
    before, after = items[: places[0]], items[places[0] + 1 :]
    axis = sum(i is None or isinstance(i, slice) for i in before)
    start = sum(i is not None for i in before)
    if x.shape[start : start + mask.ndim] != mask.shape or constant_value(mask) is not None:
        return None
    ends = [(i.start, i.stop, i.step) if isinstance(i, slice) else (0,) for i in (*before, *after)]
    if any(isinstance(end, TracedArray) for part in ends for end in part):
        return None
    slices = [slice(None)] * mask.ndim
    plain = all(part == (None, None, None) for part in ends)
    view = x if plain else basic(x, [*before, *slices, *after])
    return MaskedTarget(view, _now(mask), MaskedType(view.type, axis, mask.ndim))


def read_part(x: TracedArray, key: object) -> TracedArray | None:
    """``x[key]`` by a traced mask, whose entries are not counted; None for other keys and types."""
    target = masked_target(x, key)
    if target is None or not target.view.type.floating:
        return None
    trace = current(x)
    if trace.guards.is_pinned(target.mask.id):
        return None
    link = MaskedLink(target.mask, target.type, (_now(target.view),))
    return masked_part(trace, link)


def _now(x: TracedArray) -> TracedArray:
    """The array as it is now, which no store changes."""
    trace = current(x)
    return TracedArray(trace, trace.own(x), x.type, scalar=x.scalar, weak=x.weak)


def computed_part(ufunc: np.ufunc, operands: tuple[object, ...]) -> TracedArray | None:
    """What a ufunc makes of parts by one mask, and of numbers beside them; None where that is more."""
    operands = resolved(operands)
    trace, links = current(), [link_of(x) for x in operands]
    if ufunc not in QUIET and (ufunc is not np.divide or links[1] is not None):
        return None
    first = next((link for link in links if link is not None), None)
    if first is None:
        return None
    parts = [x for x, link in zip(operands, links, strict=True) if link is not None]
    if any(part.home is not trace for part in parts):
        return None
    taken: list[object] = []
    kinds: list[np.dtype | type] = []
    for x, link in zip(operands, links, strict=True):
        if link is None:
            number = _number(x, first.type)
            if number is None:
                return None
            taken.append(number)
            kinds.append(kind_of(number))
        elif link.used or link.depth >= DEPTH or not link.is_by(first.mask, first.type):
            return None
        else:
            taken.append(link)
            kinds.append(link.type.whole.dtype)
    try:
        dtype = loop_dtypes(ufunc, tuple(kinds))[-1]
    except not_foreign(TypeError):
        return None
    for link in links:
        if link is not None:
            link.used = True
    type_ = first.type._replace(whole=first.type.whole._replace(dtype=dtype))
    return masked_part(trace, MaskedLink(first.mask, type_, tuple(taken), ufunc))


def _number(x: object, type_: MaskedType) -> object:
    """A number beside a part, or an array that lies along the axes that follow the mask's."""
    if type(x) in (int, float, complex) or isinstance(x, np.number):
        return x
    if isinstance(x, MaskedPart) or not isinstance(x, (TracedArray, np.ndarray)):
        return None
    shape, whole = x.shape, type_.whole.shape
    behind = whole[len(whole) - type_.behind :]
    if len(shape) > len(behind):
        return None
    array = _now(x) if isinstance(x, TracedArray) else np.array(x)
    return array if all(n in (1, m) for n, m in zip(shape[::-1], behind[::-1], strict=False)) else None


def put_part(part: TracedArray, value: object) -> bool:
    """``part[...] = value`` in place, for what a ufunc made of the part; whether that was done."""
    link, new = link_of(part), link_of(value)
    if link is None or new is None or new.type != link.type or part.home is not current():
        return False
    if (log := part.home.calls) is not None:
        log.stored(part)
    part.link = new
    return True


def stored_value(target: MaskedTarget, value: object) -> TracedArray | None:
    """The whole array to store by a mask where it picks; None where it is to be looked at."""
    link = link_of(value)
    if not isinstance(value, MaskedPart) or link is None or link.used or value.home is not current():
        return None
    if not link.is_by(target.mask, target.type):
        return None
    if not np.can_cast(link.type.whole.dtype, target.type.whole.dtype, "same_kind"):
        return None
    link.used = True
    return link.whole()


hooks.computed_part = computed_part
