"""ADBench's hand: the Jacobian of the distances, forward, from the bones that a joint moves.

Rigid motions are kept as 3 by 4 matrices: the fourth row of a product of them never changes.
"""

from __future__ import annotations

import math

import numpy as np

from .settings import kernel

Array = np.ndarray

GLOBAL, TURNS = 6, 4  # parameters of the whole hand, and of each finger
FINGERS, JOINTS = 5, 3
FIRST = 2  # the bone of the first finger's first joint; four bones to a finger


@kernel
def _product(a: Array, b: Array, affine: float, out: Array) -> None:
    """`out` = `a` @ `b`; `affine` is 1, or 0 where `a` is a derivative whose fourth row is 0."""
    for i in range(3):
        for j in range(4):
            out[i, j] = a[i, 0] * b[0, j] + a[i, 1] * b[1, j] + a[i, 2] * b[2, j]
        out[i, 3] += affine * a[i, 3]


@kernel
def _turn(x: float, z: float, about: int, out: Array) -> None:
    """Rz(z) Rx(x), or its derivative in x (`about` 0) or in z (`about` 1)."""
    cx, sx, cz, sz = math.cos(x), math.sin(x), math.cos(z), math.sin(z)
    one = 1.0
    if about == 0:
        cx, sx, one = -sx, cx, 0.0
    if about == 1:
        cz, sz = -sz, cz
    out[0, 0], out[0, 1], out[0, 2], out[0, 3] = cz * one, -sz * cx, sz * sx, 0.0
    out[1, 0], out[1, 1], out[1, 2], out[1, 3] = sz * one, cz * cx, -cz * sx, 0.0
    out[2, 0], out[2, 1], out[2, 2], out[2, 3] = 0.0, sx, cx, 0.0
    if about == 1:
        out[2, 1], out[2, 2] = 0.0, 0.0


@kernel
def _rotation(a: Array, out: Array) -> None:
    """The rotation about `a` by its length, and its derivatives: `out` is (4, 3, 3)."""
    n = math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])
    if n < 0.0001:
        for i in range(3):
            out[0, i, i] = 1.0
        return
    s, c = math.sin(n), math.cos(n)
    u = (a[0] / n, a[1] / n, a[2] / n)
    for k in range(4):
        # The value first; then along parameter k - 1 the angle moves by u[k-1], the axis by v.
        move = 1.0 if k == 0 else u[k - 1]
        for i in range(3):
            for j in range(3):
                sign = 0.0 if i == j else (1.0 if (j - i) % 3 == 2 else -1.0)
                other, same = 3 - i - j, 1.0 if i == j else 0.0
                if i == j:
                    other = i
                if k == 0:
                    out[k, i, j] = u[i] * u[j] * (1.0 - c) + same * c + sign * u[other] * s
                    continue
                vi = ((1.0 if i == k - 1 else 0.0) - u[i] * u[k - 1]) / n
                vj = ((1.0 if j == k - 1 else 0.0) - u[j] * u[k - 1]) / n
                vo = ((1.0 if other == k - 1 else 0.0) - u[other] * u[k - 1]) / n
                out[k, i, j] = (
                    (vi * u[j] + u[i] * vj) * (1.0 - c)
                    + sign * vo * s
                    + move * (u[i] * u[j] * s - same * s + sign * u[other] * c)
                )


@kernel
def _bones(theta: Array, parents: Array, rel: Array, inv: Array, out: Array, moved: Array) -> None:
    """Each bone's motion, `out[bone, 0]`, and along each turn of its finger, `out[bone, 1:]`.

    `moved[bone]` says which finger that is, or -1.
    """
    count = parents.size
    motion, turn = np.zeros((count, 1 + TURNS, 3, 4)), np.empty((3, 4))
    local = np.empty((3, 4))
    for b in range(count):
        finger, joint = (b - FIRST) // 4, (b - FIRST) % 4
        bends = b >= FIRST and joint < JOINTS
        moved[b] = finger if b >= FIRST else -1
        at = GLOBAL + TURNS * max(finger, 0)
        x = theta[at + (joint + 1 if joint else 0)] if bends else 0.0
        z = theta[at + 1] if bends and joint == 0 else 0.0
        for k in range(-1, 2):
            if k >= 0 and (not bends or (k == 1 and joint)):
                continue
            slot = 0 if k < 0 else (joint + 1 if joint else k) + 1
            _turn(x, z, k, turn)
            _product(rel[b], turn, 1.0 if k < 0 else 0.0, local)
            if parents[b] < 0:
                motion[b, slot] = local
            else:
                _product(motion[parents[b], 0], local, 1.0 if k < 0 else 0.0, motion[b, slot])
            if k < 0:
                for earlier in range(1, 1 + TURNS):
                    if parents[b] >= 0 and moved[parents[b]] == moved[b] and moved[b] >= 0:
                        _product(motion[parents[b], earlier], local, 1.0, motion[b, earlier])
        for slot in range(1 + TURNS):
            _product(motion[b, slot], inv[b], 1.0, out[b, slot])


@kernel
def _points(
    theta: Array,
    skin: tuple,
    motion: Array,
    moved: Array,
    rotation: Array,
    out: Array,
) -> None:
    """The rows of each correspondence: skinned, then rotated with the whole hand."""
    positions, weights, corr = skin
    count, slopes = out.shape[1], np.zeros((1 + FINGERS * TURNS, 3))
    for p in range(corr.size):
        v = corr[p]
        slopes[:] = 0.0
        q0, q1, q2 = positions[v, 0], positions[v, 1], positions[v, 2]
        for b in range(moved.size):
            w = weights[v, b]
            if w == 0.0:
                continue
            for slot in range(1 + TURNS if moved[b] >= 0 else 1):
                to = slopes[0 if slot == 0 else TURNS * moved[b] + slot]
                m = motion[b, slot]
                for i in range(3):
                    to[i] += w * (m[i, 0] * q0 + m[i, 1] * q1 + m[i, 2] * q2 + m[i, 3])
        rows, s = out[3 * p : 3 * p + 3], slopes[0]
        for i in range(3):
            for k in range(3):
                d = rotation[1 + k, i]
                rows[i, k] = -(d[0] * s[0] + d[1] * s[1] + d[2] * s[2])
                rows[i, 3 + k] = -1.0 if i == k else 0.0
            r0, r1, r2 = rotation[0, i, 0], rotation[0, i, 1], rotation[0, i, 2]
            for k in range(count - GLOBAL):
                f = slopes[1 + k]
                rows[i, GLOBAL + k] = -(r0 * f[0] + r1 * f[1] + r2 * f[2])


@kernel
def _jacobian(
    theta: Array, parents: Array, rel: Array, inv: Array, skin: tuple, out: Array
) -> None:
    motion, moved = np.zeros((parents.size, 1 + TURNS, 3, 4)), np.empty(parents.size, np.int64)
    rotation = np.zeros((4, 3, 3))
    _bones(theta, parents, rel, inv, motion, moved)
    _rotation(theta[:3], rotation)
    _points(theta, skin, motion, moved, rotation, out)


def hand_jacobian(
    theta: Array,
    parents: Array,
    rel: Array,
    inv: Array,
    positions: Array,
    weights: Array,
    corr: Array,
    points: Array,
) -> Array:
    out = np.empty((3 * corr.size, theta.size))
    _jacobian(theta, parents, rel, inv, (positions, weights, corr), out)
    return out
