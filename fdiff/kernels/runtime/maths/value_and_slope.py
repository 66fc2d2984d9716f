"""A function and its slope from one call, in kernels that call functions instead of inlining them.

A function that is not inlined has no instructions in common with its slope. Both are made here
from one number, which is what is called for; the rest is inlined, and calls that are equal are
merged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .exponential import Twice, tanh
from .slopes import sech_squared
from .value import Formula, Value, copysign, fabs, fma, where

# where tanh is 1/2: up to it the function is kept, beyond it what it lacks of 1
_MIDDLE = 0.5493061443340549


class Parts(NamedTuple):
    """A function of doubles as one that is called, and what is made of its result and `x`."""

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


PARTS: dict[str, Parts] = {
    tanh.__name__: Parts(nearer, _tanh),
    sech_squared.__name__: Parts(nearer, _sech_squared),
}
