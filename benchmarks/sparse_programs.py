"""Programs for `benchmarks.sparse`, some with the fills an expert would write.

A fill knows where each of its terms is stored: `slots` finds these places once, by the structure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

MU, LAMBDA = 1.0, 1.5  # of the neo-Hookean solid
GRAVITY, DAMPING, STEP = 9.81, 0.1, 0.02  # of the pendulum, and of its collocation

Fill = Callable[[np.ndarray], np.ndarray]


def slots(matrix: sp.csr_array) -> Callable[[Any, Any], np.ndarray]:
    """The function that gives the positions of entries in ``matrix.data``, by row and column."""
    numbers = np.arange(1, matrix.nnz + 1)
    numbered = sp.csr_array((numbers, matrix.indices, matrix.indptr), shape=matrix.shape)

    def positions(rows: Any, columns: Any) -> np.ndarray:
        listed = numbered[np.ravel(rows), np.ravel(columns)]
        return np.ravel(listed).reshape(np.shape(rows)) - 1

    return positions


# --- bands and grids ---------------------------------------------------------------------------


def chain(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def band(x: Any) -> Any:
    return chain(x) + np.sum(np.sin(x[:-2] * x[2:]))


def brusselator(w: Any) -> Any:
    """Two species that react and diffuse on a torus."""
    n = math.isqrt(w.size // 2)
    u, v = w.reshape(2, n, n)

    def flow(a: Any) -> Any:
        return np.roll(a, 1, 0) + np.roll(a, -1, 0) + np.roll(a, 1, 1) + np.roll(a, -1, 1) - 4 * a

    reaction = u * u * v
    return np.stack(
        [1 + reaction - 4.4 * u + 0.1 * flow(u), 3.4 * u - reaction + 0.1 * flow(v)]
    ).ravel()


# --- a sheet of triangles ---------------------------------------------------------------------


def sheet(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Triangles of a square of n by n cells, gradients of their hat functions, and their areas."""
    node = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = (
        part.ravel() for part in (node[:-1, :-1], node[1:, :-1], node[1:, 1:], node[:-1, 1:])
    )
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    grid = np.linspace(0.0, 1.0, n + 1)
    corners = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)[triangles]
    edges = np.stack([corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]], -1)
    inverse = np.linalg.inv(edges)
    hats = np.stack([-(inverse[:, 0] + inverse[:, 1]), inverse[:, 0], inverse[:, 1]], 1)
    return triangles, hats, np.abs(np.linalg.det(edges)) / 2


def energy(u: Any, triangles: Any, hats: Any, areas: Any) -> Any:
    """The energy of a neo-Hookean sheet by the displacements of its nodes."""
    f = np.eye(2) + np.einsum("eia,eib->eab", u.reshape(-1, 2)[triangles], hats)
    volume = f[:, 0, 0] * f[:, 1, 1] - f[:, 0, 1] * f[:, 1, 0]
    log = np.log(volume)
    shear = np.sum(f * f, axis=(1, 2)) - 2 - 2 * log
    return np.sum(areas * (0.5 * MU * shear + 0.5 * LAMBDA * log**2))


def energy_by_hand(
    triangles: np.ndarray, hats: np.ndarray, areas: np.ndarray, hessian: Any
) -> Fill:
    """The Hessian of the energy, element by element."""
    unknowns = np.stack([2 * triangles, 2 * triangles + 1], -1).reshape(len(triangles), 6)
    rows = np.broadcast_to(unknowns[:, :, None], (len(triangles), 6, 6))
    at, size = slots(hessian)(rows, rows.transpose(0, 2, 1)), hessian.nnz

    @numba.njit
    def fill(u: Any) -> Any:
        out = np.zeros(size)
        for e in range(len(triangles)):
            f = np.eye(2)
            for i in range(3):
                for a in range(2):
                    for b in range(2):
                        f[a, b] += u[2 * triangles[e, i] + a] * hats[e, i, b]
            volume = f[0, 0] * f[1, 1] - f[0, 1] * f[1, 0]
            pull = areas[e] * (MU - LAMBDA * math.log(volume)) / volume
            push = pull / volume + areas[e] * LAMBDA / volume**2
            for i in range(3):
                gx, gy = hats[e, i, 0], hats[e, i, 1]
                pi = (f[1, 1] * gx - f[1, 0] * gy, f[0, 0] * gy - f[0, 1] * gx)
                for j in range(3):
                    hx, hy = hats[e, j, 0], hats[e, j, 1]
                    pj = (f[1, 1] * hx - f[1, 0] * hy, f[0, 0] * hy - f[0, 1] * hx)
                    same = areas[e] * MU * (gx * hx + gy * hy)
                    turned = pull * (gx * hy - gy * hx)
                    out[at[e, 2 * i, 2 * j]] += same + push * pi[0] * pj[0]
                    out[at[e, 2 * i, 2 * j + 1]] += push * pi[0] * pj[1] - turned
                    out[at[e, 2 * i + 1, 2 * j]] += push * pi[1] * pj[0] + turned
                    out[at[e, 2 * i + 1, 2 * j + 1]] += same + push * pi[1] * pj[1]
        return out

    return fill


def averaged_energy(u: Any, triangles: Any, hats: Any, areas: Any) -> Any:
    """The same with pressures from volumes averaged at nodes, against locking of volumes."""
    f = np.eye(2) + np.einsum("eia,eib->eab", u.reshape(-1, 2)[triangles], hats)
    volume = f[:, 0, 0] * f[:, 1, 1] - f[:, 0, 1] * f[:, 1, 0]
    now, before = np.zeros(len(u) // 2), np.zeros(len(u) // 2)
    np.add.at(now, triangles, (areas * volume / 3)[:, None] * np.ones(3))
    np.add.at(before, triangles, (areas / 3)[:, None] * np.ones(3))
    averages = np.mean((now / before)[triangles], axis=1)
    shear = np.sum(f * f, axis=(1, 2)) - 2 - 2 * np.log(volume)
    return np.sum(areas * (0.5 * MU * shear + 0.5 * LAMBDA * (averages - 1) ** 2))


# --- a pendulum that is driven ----------------------------------------------------------------


def defects(z: Any) -> Any:
    """What the trapezoidal rule leaves of a pendulum's equation: states, then torques."""
    n = len(z) // 3
    states, torques = z[: 2 * n].reshape(n, 2), z[2 * n :]
    slopes = np.empty_like(states)
    slopes[:, 0] = states[:, 1]
    slopes[:, 1] = torques - GRAVITY * np.sin(states[:, 0]) - DAMPING * states[:, 1]
    left = np.zeros(2 * n)
    left[: 2 * n - 2] = (states[1:] - states[:-1] - STEP / 2 * (slopes[1:] + slopes[:-1])).ravel()
    left[2 * n - 2 :] = states[0]
    return left


def defects_by_hand(n: int, jacobian: Any) -> Fill:
    """The Jacobian of the defects, of which only the slopes of the sine change."""
    positions, k = slots(jacobian), np.arange(n - 1)
    changing = positions(np.stack([2 * k + 1] * 2), np.stack([2 * k, 2 * k + 2]))
    constant = np.zeros(jacobian.nnz)
    half = STEP / 2
    for column, on_angle, on_speed in (
        (2 * k, -1.0, None),
        (2 * k + 2, 1.0, None),
        (2 * k + 1, -half, -1.0 + half * DAMPING),
        (2 * k + 3, -half, 1.0 + half * DAMPING),
    ):
        constant[positions(2 * k, column)] = on_angle
        if on_speed is not None:
            constant[positions(2 * k + 1, column)] = on_speed
    for torque in (2 * n + k, 2 * n + k + 1):
        constant[positions(2 * k + 1, torque)] = -half
    constant[positions([2 * n - 2, 2 * n - 1], [0, 1])] = 1.0

    @numba.njit
    def fill(z: Any) -> Any:
        out = constant.copy()
        for i in range(n - 1):
            out[changing[0, i]] = half * GRAVITY * math.cos(z[2 * i])
            out[changing[1, i]] = half * GRAVITY * math.cos(z[2 * i + 2])
        return out

    return fill
