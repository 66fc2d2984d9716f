"""The energy of a Lennard-Jones cluster: each pair once, forces on both of its atoms."""

from __future__ import annotations

import numpy as np

from .settings import kernel

Array = np.ndarray


@kernel
def _pushes(x0: Array, x1: Array, x2: Array, a: tuple, out: Array) -> float:
    """Of the atoms at `x` on the one at `a`: the energy, and force by distance into `out`."""
    total = 0.0
    for j in range(x0.size):
        d0, d1, d2 = a[0] - x0[j], a[1] - x1[j], a[2] - x2[j]
        inverse = 1.0 / (d0 * d0 + d1 * d1 + d2 * d2)
        sixth = inverse * inverse * inverse
        total += sixth * sixth - sixth
        out[j] = (sixth - 2.0 * sixth * sixth) * inverse
    return total


@kernel
def _pull(x: Array, a: float, push: Array, slope: Array) -> float:
    """One coordinate of the forces: their sum for the atom at `a`, the others' into `slope`."""
    total = 0.0
    for j in range(x.size):
        force = push[j] * (a - x[j])
        total += force
        slope[j] -= force
    return total


@kernel
def _value_and_grad(x: Array, slope: Array) -> float:
    """`x` and `slope` by coordinates, (3, n), so that the inner loops run along memory.

    Over views, as in a loop from i + 1 LLVM sees indices that may be negative; and each writes to
    one array, as with more of them it gives up proving that they do not overlap.
    """
    n, total = x.shape[1], 0.0
    push = np.empty(n)
    for i in range(n - 1):
        rest, a = slice(i + 1, n), (x[0, i], x[1, i], x[2, i])
        total += _pushes(x[0, rest], x[1, rest], x[2, rest], a, push)
        for k in range(3):
            slope[k, i] += _pull(x[k, rest], x[k, i], push, slope[k, rest])
    return 4.0 * total


def cluster_value_and_grad(x: Array, i: Array, j: Array) -> tuple[float, Array]:
    """The pairs are all there are, so that the index arrays say nothing new."""
    slope = np.zeros((3, x.shape[0]))
    value = _value_and_grad(np.ascontiguousarray(x.T), slope)
    return value, np.ascontiguousarray(24.0 * slope.T)


@kernel
def _hessian(x: Array, out: Array) -> None:
    """With e(q) of the squared distance q, a pair's block is 4 e'' d d' + 2 e' I."""
    n = x.shape[0]
    for i in range(n - 1):
        for j in range(i + 1, n):
            d0, d1, d2 = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            inverse = 1.0 / (d0 * d0 + d1 * d1 + d2 * d2)
            sixth = inverse * inverse * inverse
            first = 4.0 * (3.0 * sixth - 6.0 * sixth * sixth) * inverse
            second = 4.0 * (42.0 * sixth * sixth - 12.0 * sixth) * inverse * inverse
            d = (d0, d1, d2)
            for a in range(3):
                for b in range(3):
                    entry = 4.0 * second * d[a] * d[b] + (2.0 * first if a == b else 0.0)
                    out[i, a, i, b] += entry
                    out[j, a, j, b] += entry
                    out[i, a, j, b] = -entry
                    out[j, a, i, b] = -entry


def cluster_hessian(x: Array, i: Array, j: Array) -> Array:
    out = np.zeros((*x.shape, *x.shape))
    _hessian(x, out)
    return out
