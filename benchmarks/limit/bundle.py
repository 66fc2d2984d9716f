"""ADBench's bundle adjustment: the residuals, and a vector pulled back to the unknowns.

A block of observations at a time: what they need is gathered, field by field, computed in one
vectorised loop, and added to where it belongs.
"""

from __future__ import annotations

import math

import numpy as np

from .maths import sincos
from .settings import kernel

Array = np.ndarray

BLOCK = 64
# Where each field lies in a block's memory, of what is gathered and of what is computed.
CAM, POINT, WEIGHT, FEAT, V = (BLOCK * k for k in (0, 11, 14, 15, 17))
GATHERED = 19 * BLOCK
CAM_BAR, POINT_BAR, SHARE, OUT = (BLOCK * k for k in (0, 11, 14, 15))
COMPUTED = 17 * BLOCK


@kernel
def _gather(
    z: Array, v: Array, n: int, m: int, obs: Array, feats: Array, start: int, put: Array
) -> None:
    for k in range(min(BLOCK, feats.shape[0] - start)):
        p = start + k
        cam, point = 11 * obs[p, 0], 11 * n + 3 * obs[p, 1]
        for field in range(11):
            put[CAM + field * BLOCK + k] = z[cam + field]
        for field in range(3):
            put[POINT + field * BLOCK + k] = z[point + field]
        put[WEIGHT + k] = z[11 * n + 3 * m + p]
        for field in range(2):
            put[FEAT + field * BLOCK + k] = feats[p, field]
            put[V + field * BLOCK + k] = v[2 * p + field]


@kernel
def _compute(got: Array, put: Array) -> None:
    """Each observation forward and back."""
    for k in range(BLOCK):
        a0, a1, a2 = got[k], got[BLOCK + k], got[2 * BLOCK + k]
        theta = math.sqrt(a0 * a0 + a1 * a1 + a2 * a2)
        inverse = 1.0 / theta
        a0, a1, a2 = a0 * inverse, a1 * inverse, a2 * inverse
        s, c = sincos(theta)
        x0 = got[POINT + k] - got[3 * BLOCK + k]
        x1 = got[POINT + BLOCK + k] - got[4 * BLOCK + k]
        x2 = got[POINT + 2 * BLOCK + k] - got[5 * BLOCK + k]
        n0, n1, n2 = a1 * x2 - a2 * x1, a2 * x0 - a0 * x2, a0 * x1 - a1 * x0
        dot, rest = a0 * x0 + a1 * x1 + a2 * x2, 1.0 - c
        y0 = x0 * c + n0 * s + a0 * dot * rest
        y1 = x1 * c + n1 * s + a1 * dot * rest
        depth = 1.0 / (x2 * c + n2 * s + a2 * dot * rest)
        p0, p1 = y0 * depth, y1 * depth
        r2 = p0 * p0 + p1 * p1
        focal, k1, k2 = got[6 * BLOCK + k], got[9 * BLOCK + k], got[10 * BLOCK + k]
        warp = 1.0 + k1 * r2 + k2 * r2 * r2
        e0 = p0 * warp * focal + got[7 * BLOCK + k] - got[FEAT + k]
        e1 = p1 * warp * focal + got[8 * BLOCK + k] - got[FEAT + BLOCK + k]
        weight, v0, v1 = got[WEIGHT + k], got[V + k], got[V + BLOCK + k]
        put[OUT + k], put[OUT + BLOCK + k] = weight * e0, weight * e1
        put[SHARE + k] = v0 * e0 + v1 * e1

        q0, q1 = weight * v0, weight * v1
        along = q0 * p0 + q1 * p1
        warp_bar = focal * along
        put[6 * BLOCK + k] = along * warp
        put[7 * BLOCK + k], put[8 * BLOCK + k] = q0, q1
        put[9 * BLOCK + k], put[10 * BLOCK + k] = warp_bar * r2, warp_bar * r2 * r2
        scale, radial = focal * warp, 2.0 * warp_bar * (k1 + 2.0 * k2 * r2)
        q0, q1 = scale * q0 + radial * p0, scale * q1 + radial * p1
        b0, b1, b2 = q0 * depth, q1 * depth, -(q0 * p0 + q1 * p1) * depth

        # The rotation back: `b` belongs to the rotated point, `n` is a × x.
        ab, xb = a0 * b0 + a1 * b1 + a2 * b2, x0 * b0 + x1 * b1 + x2 * b2
        nb = n0 * b0 + n1 * b1 + n2 * b2
        turn = c * nb - s * xb + s * ab * dot
        w0 = s * (x1 * b2 - x2 * b1) + rest * (b0 * dot + x0 * ab)
        w1 = s * (x2 * b0 - x0 * b2) + rest * (b1 * dot + x1 * ab)
        w2 = s * (x0 * b1 - x1 * b0) + rest * (b2 * dot + x2 * ab)
        turn -= (a0 * w0 + a1 * w1 + a2 * w2) * inverse
        put[k] = w0 * inverse + turn * a0
        put[BLOCK + k] = w1 * inverse + turn * a1
        put[2 * BLOCK + k] = w2 * inverse + turn * a2
        put[POINT_BAR + k] = c * b0 + s * (b1 * a2 - b2 * a1) + rest * ab * a0
        put[POINT_BAR + BLOCK + k] = c * b1 + s * (b2 * a0 - b0 * a2) + rest * ab * a1
        put[POINT_BAR + 2 * BLOCK + k] = c * b2 + s * (b0 * a1 - b1 * a0) + rest * ab * a2


@kernel
def _scatter(
    got: Array, z: Array, v: Array, n: int, m: int, obs: Array, start: int, out: Array, z_bar: Array
) -> None:
    count = obs.shape[0]
    for k in range(min(BLOCK, count - start)):
        p = start + k
        cam, point, weight = 11 * obs[p, 0], 11 * n + 3 * obs[p, 1], 11 * n + 3 * m + p
        for field in range(3):
            z_bar[cam + field] += got[CAM_BAR + field * BLOCK + k]
            z_bar[cam + 3 + field] -= got[POINT_BAR + field * BLOCK + k]
            z_bar[point + field] += got[POINT_BAR + field * BLOCK + k]
        for field in range(6, 11):
            z_bar[cam + field] += got[CAM_BAR + field * BLOCK + k]
        out[2 * p], out[2 * p + 1] = got[OUT + k], got[OUT + BLOCK + k]
        out[2 * count + p] = 1.0 - z[weight] * z[weight]
        z_bar[weight] = got[SHARE + k] - 2.0 * z[weight] * v[2 * count + p]


@kernel
def _all(
    z: Array, v: Array, n: int, m: int, obs: Array, feats: Array, out: Array, z_bar: Array
) -> None:
    gathered, computed = np.ones(GATHERED), np.empty(COMPUTED)
    for start in range(0, obs.shape[0], BLOCK):
        _gather(z, v, n, m, obs, feats, start, gathered)
        _compute(gathered, computed)
        _scatter(computed, z, v, n, m, obs, start, out, z_bar)


def bundle_vjp(
    z: Array, v: Array, n: int, m: int, p: int, obs: Array, feats: Array
) -> tuple[Array, Array]:
    out, z_bar = np.empty(3 * p), np.zeros_like(z)
    _all(z, v, n, m, obs, feats, out, z_bar)
    return out, z_bar
