"""Jacobians of some of NIST's models with respect to their parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .maths import exp, sincos
from .settings import kernel

Array = np.ndarray

TURN = 2.0 * np.pi


def _allocating(fill: Callable[[Array, Array, Array], None]) -> Callable[[Array, Array], Array]:
    """The Jacobian that `fill` writes, one row an observation, in a new array."""

    def jacobian(b: Array, x: Array) -> Array:
        out = np.empty((x.size, b.size))
        fill(b, x, out)
        return out

    return jacobian


@kernel
def _mgh10(b: Array, x: Array, out: Array) -> None:
    """b0 exp(b1 / (x + b2))."""
    for i in range(x.size):
        inverse = 1.0 / (x[i] + b[2])
        rise = exp(b[1] * inverse)
        out[i, 0] = rise
        out[i, 1] = b[0] * rise * inverse
        out[i, 2] = -b[0] * rise * b[1] * inverse * inverse


@kernel
def _hahn(b: Array, x: Array, out: Array) -> None:
    """(b0 + b1 x + b2 x² + b3 x³) / (1 + b4 x + b5 x² + b6 x³)."""
    for i in range(x.size):
        v = x[i]
        square = v * v
        cube = square * v
        inverse = 1.0 / (1.0 + b[4] * v + b[5] * square + b[6] * cube)
        scale = -(b[0] + b[1] * v + b[2] * square + b[3] * cube) * inverse * inverse
        out[i, 0] = inverse
        out[i, 1] = v * inverse
        out[i, 2] = square * inverse
        out[i, 3] = cube * inverse
        out[i, 4] = v * scale
        out[i, 5] = square * scale
        out[i, 6] = cube * scale


@kernel
def _gauss(b: Array, x: Array, out: Array) -> None:
    """b0 exp(-b1 x) and two bells, b2 exp(-(x - b3)²/b4²) and b5 exp(-(x - b6)²/b7²)."""
    for i in range(x.size):
        decay = exp(-b[1] * x[i])
        out[i, 0] = decay
        out[i, 1] = -b[0] * x[i] * decay
        for k in range(2, 8, 3):
            u = (x[i] - b[k + 1]) / b[k + 2]
            bell = exp(-u * u)
            slope = 2.0 * b[k] * bell * u / b[k + 2]
            out[i, k] = bell
            out[i, k + 1] = slope
            out[i, k + 2] = slope * u


@kernel
def _enso(b: Array, x: Array, out: Array) -> None:
    """A constant and three cycles, of 12 months and of the periods b3 and b6."""
    for i in range(x.size):
        w = TURN * x[i]
        out[i, 0] = 1.0
        s, c = sincos(w / 12.0)
        out[i, 1], out[i, 2] = c, s
        for k in range(3, 9, 3):
            s, c = sincos(w / b[k])
            out[i, k] = (b[k + 1] * s - b[k + 2] * c) * w / (b[k] * b[k])
            out[i, k + 1], out[i, k + 2] = c, s


mgh10_jacobian = _allocating(_mgh10)
hahn_jacobian = _allocating(_hahn)
gauss_jacobian = _allocating(_gauss)
enso_jacobian = _allocating(_enso)
