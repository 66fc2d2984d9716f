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
from .value import Formula, Pair, Value, copysign, fma, quotient, total, where

# exp(-2 |x|) from which on it is told by how far it is below 1: no digits are lost either way
_NEAR = 0.5


class Parts(NamedTuple):
    """A function of doubles as one that is called, and what is made of its result and `x`."""

    called: Formula
    rest: Callable[[Value, Value], Value]


def falling(x: Value) -> Value:
    """``e = exp(-2 |x|)`` up to 1/2, beyond ``e - 1``, which is negative."""
    twice = Twice.of(x)
    below = twice.minus_one().high
    e = fma(twice.r + twice.rest, twice.factor, twice.factor)
    return where(below > _NEAR - 1.0, copysign(below, -1.0), e)


def _near(w: Value) -> Value:
    """Whether `falling` gave ``e - 1``: the zero of large numbers has no sign."""
    return copysign(w.like(1.0), w) < 0.0


def _plus_one(w: Value) -> Pair:
    """``e + 1``, and what it lost to rounding."""
    return total(where(_near(w), w.like(2.0), 1.0), w)


def _tanh(w: Value, x: Value) -> Value:
    """``(1 - e) / (1 + e)``."""
    over = where(_near(w), w.like(0.0), 1.0) - w
    return copysign(quotient(Pair(over, w.like(0.0)), _plus_one(w)), x)


def _sech_squared(w: Value, x: Value) -> Value:
    """``4 e / (1 + e)**2``."""
    del x
    under = _plus_one(w)
    inverse = 1.0 / under.high
    inverse = fma(fma(-inverse, under.low, fma(-inverse, under.high, 1.0)), inverse, inverse)
    e = w + where(_near(w), w.like(1.0), 0.0)
    return (inverse * inverse) * (e * 4.0)


PARTS: dict[str, Parts] = {
    tanh.__name__: Parts(falling, _tanh),
    sech_squared.__name__: Parts(falling, _sech_squared),
}
