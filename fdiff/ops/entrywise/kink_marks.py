"""Marks at points without a derivative, for functions that are composed of other ops.

A primitive states its own kinks (`Rules.kink`). The kinks of a composed function such as `numpy.clip` or
`numpy.linalg.norm` are not the kinks of the ops it is made of. While kinks are searched for (docs/kinks.md), such a
function marks its result; otherwise the mark costs the test of one attribute.

Points without a derivative: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
chapter 14.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...arraytype import BOOL, broadcast
from ...facets import Kink, LayoutRule, Structure
from ...primitive import ZERO, Sample
from ...trace import Array, TracedArray, apply
from ..shapes.axis_maps import entrywise
from .broadcasting import align, stretch
from .families import elementwise_type, opaque_op
from .sample_domains import real, truth


class KinkSearch(threading.local):
    """Whether this thread traces functions in search of kinks."""

    on: bool = False


kink_search = KinkSearch()


def _marked_dtype(x: np.dtype, condition: np.dtype, **_: object) -> np.dtype:
    if condition != BOOL:
        raise TypeError(f"a mark takes (T, bool), not ({x}, {condition})")
    return x


def _jvp(dots: Sequence[object], args: object, outs: Sequence[TracedArray], **_: object) -> list[object]:
    return [stretch(dots[0], outs[0].shape)]


def _vjp(bars: Sequence[object], args: object, outs: object, **_: object) -> list[object]:
    return [bars[0], ZERO]


def _spread(x: Array, condition: Array, **_: object) -> object:
    return np.array(np.broadcast_to(x, broadcast(np.shape(x), np.shape(condition))))[()]


def _batch(args: Sequence[TracedArray], mapped: Sequence[bool], size: int, **params: object) -> Sequence[object]:
    return [apply(mark, *align(args, mapped), **params)]


# The identity op on the result of `function`, which has no derivative where the condition holds: at `point`. With
# `always` even the use of the value there is reported.
_MARKED = Kink("a marked point", lambda x, condition, **_: (condition, None))
_FIELDS = {"family": "elementwise", "kink": _MARKED, "structure": Structure(axis_map=entrywise, layout=LayoutRule("operands"))}
_SAMPLE = Sample(lambda rng: (real(rng, (2, 3)), truth(rng, (2, 3))), {"always": False, "function": "f", "point": "0"})
mark = opaque_op("mark", elementwise_type(_marked_dtype), _spread, _jvp, _vjp, _SAMPLE, batch=_batch, **_FIELDS)


def marked(out: Array, condition: Callable[[], object], function: str, point: str) -> Array:
    """The result of `function`, which has no derivative where the condition holds: at `point`."""
    return mark_now(out, condition(), function, point) if kink_search.on else out


def mark_now(out: TracedArray, condition: object, function: str, point: str, *, always: bool = False) -> TracedArray:
    """`out` marked, whether kinks are looked for or not."""
    marked_array = apply(mark, out, np.broadcast_to(condition, out.shape), function=function, point=point, always=always)
    return TracedArray(marked_array.home, marked_array.id, marked_array.type, scalar=out.scalar, weak=out.weak)
