"""ADBench's bundle adjustment: the residuals, and a vector pulled back to the unknowns."""

from __future__ import annotations

import math

import numpy as np

from .settings import kernel

Array = np.ndarray


@kernel
def _observation(
    cam: Array,
    x: Array,
    weight: float,
    feat: Array,
    v: Array,
    out: Array,
    cam_bar: Array,
    x_bar: Array,
) -> float:
    """One observation, forward and back; the weight's share is returned, the others are added."""
    a0, a1, a2 = cam[0], cam[1], cam[2]
    theta = math.sqrt(a0 * a0 + a1 * a1 + a2 * a2)
    inverse = 1.0 / theta
    a0, a1, a2 = a0 * inverse, a1 * inverse, a2 * inverse
    c, s = math.cos(theta), math.sin(theta)
    x0, x1, x2 = x[0] - cam[3], x[1] - cam[4], x[2] - cam[5]
    n0, n1, n2 = a1 * x2 - a2 * x1, a2 * x0 - a0 * x2, a0 * x1 - a1 * x0
    dot, rest = a0 * x0 + a1 * x1 + a2 * x2, 1.0 - c
    y0 = x0 * c + n0 * s + a0 * dot * rest
    y1 = x1 * c + n1 * s + a1 * dot * rest
    depth = 1.0 / (x2 * c + n2 * s + a2 * dot * rest)
    p0, p1 = y0 * depth, y1 * depth
    r2 = p0 * p0 + p1 * p1
    warp = 1.0 + cam[9] * r2 + cam[10] * r2 * r2
    e0 = p0 * warp * cam[6] + cam[7] - feat[0]
    e1 = p1 * warp * cam[6] + cam[8] - feat[1]
    out[0], out[1] = weight * e0, weight * e1

    q0, q1 = weight * v[0], weight * v[1]
    along = q0 * p0 + q1 * p1
    warp_bar = cam[6] * along
    cam_bar[6] += along * warp
    cam_bar[7] += q0
    cam_bar[8] += q1
    cam_bar[9] += warp_bar * r2
    cam_bar[10] += warp_bar * r2 * r2
    scale, radial = cam[6] * warp, 2.0 * warp_bar * (cam[9] + 2.0 * cam[10] * r2)
    q0, q1 = scale * q0 + radial * p0, scale * q1 + radial * p1
    b0, b1, b2 = q0 * depth, q1 * depth, -(q0 * p0 + q1 * p1) * depth
    _rotate_back(
        (a0, a1, a2), (x0, x1, x2), (n0, n1, n2), (b0, b1, b2), (c, s, dot, inverse), cam_bar, x_bar
    )
    return v[0] * e0 + v[1] * e1


@kernel
def _rotate_back(
    a: tuple, x: tuple, n: tuple, b: tuple, known: tuple, cam_bar: Array, x_bar: Array
) -> None:
    """The rotation about the axis `a` back: `b` belongs to the rotated point, `n` is a × x."""
    c, s, dot, inverse = known
    ab = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    xb = x[0] * b[0] + x[1] * b[1] + x[2] * b[2]
    nb = n[0] * b[0] + n[1] * b[1] + n[2] * b[2]
    rest = 1.0 - c
    turn = c * nb - s * xb + s * ab * dot
    w0 = s * (x[1] * b[2] - x[2] * b[1]) + rest * (b[0] * dot + x[0] * ab)
    w1 = s * (x[2] * b[0] - x[0] * b[2]) + rest * (b[1] * dot + x[1] * ab)
    w2 = s * (x[0] * b[1] - x[1] * b[0]) + rest * (b[2] * dot + x[2] * ab)
    turn -= (a[0] * w0 + a[1] * w1 + a[2] * w2) * inverse
    cam_bar[0] += w0 * inverse + turn * a[0]
    cam_bar[1] += w1 * inverse + turn * a[1]
    cam_bar[2] += w2 * inverse + turn * a[2]
    z0 = c * b[0] + s * (b[1] * a[2] - b[2] * a[1]) + rest * ab * a[0]
    z1 = c * b[1] + s * (b[2] * a[0] - b[0] * a[2]) + rest * ab * a[1]
    z2 = c * b[2] + s * (b[0] * a[1] - b[1] * a[0]) + rest * ab * a[2]
    cam_bar[3] -= z0
    cam_bar[4] -= z1
    cam_bar[5] -= z2
    x_bar[0] += z0
    x_bar[1] += z1
    x_bar[2] += z2


@kernel
def _all(
    z: Array, v: Array, n: int, m: int, obs: Array, feats: Array, out: Array, z_bar: Array
) -> None:
    cams, cams_bar = z[: 11 * n].reshape(n, 11), z_bar[: 11 * n].reshape(n, 11)
    points = z[11 * n : 11 * n + 3 * m].reshape(m, 3)
    points_bar = z_bar[11 * n : 11 * n + 3 * m].reshape(m, 3)
    weights, weights_bar = z[11 * n + 3 * m :], z_bar[11 * n + 3 * m :]
    p = weights.size
    for k in range(p):
        i, j = obs[k, 0], obs[k, 1]
        slot = slice(2 * k, 2 * k + 2)
        share = _observation(
            cams[i], points[j], weights[k], feats[k], v[slot], out[slot], cams_bar[i], points_bar[j]
        )
        out[2 * p + k] = 1.0 - weights[k] * weights[k]
        weights_bar[k] = share - 2.0 * weights[k] * v[2 * p + k]


def bundle_vjp(
    z: Array, v: Array, n: int, m: int, p: int, obs: Array, feats: Array
) -> tuple[Array, Array]:
    out, z_bar = np.empty(3 * p), np.zeros_like(z)
    _all(z, v, n, m, obs, feats, out, z_bar)
    return out, z_bar
