"""A function and its slope from one call, in kernels that call functions instead of inlining them.

LLVM merges equal instructions of a function and its slope only if both are inlined. Here both are
computed from the result of one call; the rest is inlined, and equal calls are merged
(docs/decisions/elementary-functions.md).
"""

from __future__ import annotations

from collections.abc import Callable

from ....named_tuples import NamedTuple
from .exponential import Twice, tanh
from .slopes import sech_squared
from .value import Formula, Value, copysign, fabs, fma, where

# where tanh is 1/2: up to it the function is kept, beyond it what it lacks of 1
_MIDDLE = 0.5493061443340549


class SplitFunction(NamedTuple):
    """A function of doubles: a formula to call, and one of its result and `x` to inline."""

    called: Formula
    rest: Callable[[Value, Value], Value]


def nearer(x: Value) -> Value:
    """``-|tanh(x)|`` or ``|tanh(x)| - 1``, whichever is nearer to 0: no digits are lost.

    By ``(e - 1) / (e + 1)`` and ``-2 e / (e + 1)`` with ``e = exp(-2 |x|)``, as `tanh` has it.
    """
    near, e = _near(x), Twice.of(x)
    t, under = e.minus_one(), e.plus_one()
    over = where(near, t.high, e.whole(-2.0))
    inverse = 1.0 / under
    out = over * inverse
    return fma(fma(-out, under, over) + where(near, t.low, 0.0), inverse, out)


def _near(x: Value) -> Value:
    return fabs(x) < _MIDDLE


def _tanh(w: Value, x: Value) -> Value:
    return copysign(where(_near(x), w, w + 1.0), x)


def _sech_squared(w: Value, x: Value) -> Value:
    """``1 - w**2``, and with ``w + 1`` for `w` ``-2 w - w**2``; 0 is positive."""
    return fma(-w, w, where(_near(x), w.like(1.0), fma(w, -2.0, 0.0)))


SPLIT: dict[str, SplitFunction] = {
    tanh.__name__: SplitFunction(nearer, _tanh),
    sech_squared.__name__: SplitFunction(nearer, _sech_squared),
}
