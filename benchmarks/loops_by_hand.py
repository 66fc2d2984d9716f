"""Loops written by hand for Numba and CasADi, beside which `benchmarks.loops` stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

H = 1e-3  # a step of time
CLOSE = 1e-12  # where Newton's method ends
Adjoint = Callable[[np.ndarray], tuple[float, np.ndarray]]


def lorenz_adjoint(trips: int) -> Adjoint:
    """The value and gradient of Lorenz' equations, with an adjoint that is written by hand."""

    @numba.njit
    def rhs(a: float, b: float, c: float, s: float, r: float, t: float) -> Any:
        return s * (b - a), a * (r - c) - b, a * b - t * c

    @numba.njit
    def pull(a, b, c, s, r, t, u, v, w, g):  # type: ignore[no-untyped-def] - Numba infers types
        g[0] += u * (b - a)
        g[1] += v * a
        g[2] -= w * c
        return -s * u + (r - c) * v + b * w, s * u - v + a * w, -a * v - t * w

    @numba.njit
    def value_and_grad(x: np.ndarray) -> Any:
        s, r, t = x[3], x[4], x[5]
        path = np.empty((trips, 12))
        a, b, c = x[0], x[1], x[2]
        for n in range(trips):
            k1 = rhs(a, b, c, s, r, t)
            p2 = (a + 0.5 * H * k1[0], b + 0.5 * H * k1[1], c + 0.5 * H * k1[2])
            k2 = rhs(p2[0], p2[1], p2[2], s, r, t)
            p3 = (a + 0.5 * H * k2[0], b + 0.5 * H * k2[1], c + 0.5 * H * k2[2])
            k3 = rhs(p3[0], p3[1], p3[2], s, r, t)
            p4 = (a + H * k3[0], b + H * k3[1], c + H * k3[2])
            k4 = rhs(p4[0], p4[1], p4[2], s, r, t)
            row = path[n]
            row[0], row[1], row[2] = a, b, c
            for j in range(3):
                row[3 + j], row[6 + j], row[9 + j] = p2[j], p3[j], p4[j]
            a += H / 6 * (k1[0] + 2.0 * k2[0] + 2.0 * k3[0] + k4[0])
            b += H / 6 * (k1[1] + 2.0 * k2[1] + 2.0 * k3[1] + k4[1])
            c += H / 6 * (k1[2] + 2.0 * k2[2] + 2.0 * k3[2] + k4[2])
        value, g = 0.5 * (a * a + b * b + c * c), np.zeros(3)
        for n in range(trips - 1, -1, -1):
            row, w, d = path[n], H / 6, 2.0 * H / 6
            q4 = pull(row[9], row[10], row[11], s, r, t, w * a, w * b, w * c, g)
            u, v, z = d * a + H * q4[0], d * b + H * q4[1], d * c + H * q4[2]
            q3 = pull(row[6], row[7], row[8], s, r, t, u, v, z, g)
            u, v, z = d * a + 0.5 * H * q3[0], d * b + 0.5 * H * q3[1], d * c + 0.5 * H * q3[2]
            q2 = pull(row[3], row[4], row[5], s, r, t, u, v, z, g)
            u, v, z = w * a + 0.5 * H * q2[0], w * b + 0.5 * H * q2[1], w * c + 0.5 * H * q2[2]
            q1 = pull(row[0], row[1], row[2], s, r, t, u, v, z, g)
            a += q1[0] + q2[0] + q3[0] + q4[0]
            b += q1[1] + q2[1] + q3[1] + q4[1]
            c += q1[2] + q2[2] + q3[2] + q4[2]
        return value, np.array([a, b, c, g[0], g[1], g[2]])

    return value_and_grad


def lorenz96_adjoint(trips: int) -> Adjoint:
    """The value and gradient of Lorenz-96; the adjoint is written by hand."""

    @numba.njit
    def rhs(y: np.ndarray, force: float, out: np.ndarray) -> None:
        n = len(y)
        for i in range(n):
            out[i] = (y[(i + 1) % n] - y[i - 2]) * y[i - 1] - y[i] + force

    @numba.njit
    def pull(y: np.ndarray, bar: np.ndarray, out: np.ndarray) -> float:
        """Add to `out` what the cotangent of the slopes at `y` gives; the force's is returned."""
        n, force = len(y), 0.0
        for i in range(n):
            out[(i + 1) % n] += bar[i] * y[i - 1]
            out[i - 2] -= bar[i] * y[i - 1]
            out[i - 1] += bar[i] * (y[(i + 1) % n] - y[i - 2])
            out[i] -= bar[i]
            force += bar[i]
        return force

    @numba.njit
    def value_and_grad(x: np.ndarray) -> Any:
        n, force = len(x) - 1, x[-1]
        path, k = np.empty((trips, 4, n)), np.empty((4, n))
        y = x[:-1].copy()
        for t in range(trips):
            path[t, 0] = y
            for stage in range(4):
                rhs(path[t, stage], force, k[stage])
                if stage < 3:
                    scale = H if stage == 2 else 0.5 * H
                    for i in range(n):
                        path[t, stage + 1, i] = y[i] + scale * k[stage, i]
            for i in range(n):
                y[i] += H / 6 * (k[0, i] + 2.0 * k[1, i] + 2.0 * k[2, i] + k[3, i])
        value, g, gradient = 0.5 * np.sum(y * y), 0.0, np.empty(n + 1)
        bar, before, slope = y.copy(), np.empty(n), np.empty(n)
        for t in range(trips - 1, -1, -1):
            total = bar.copy()
            before[:] = 0.0
            for stage in range(3, -1, -1):
                weight = H / 6 if stage in (0, 3) else H / 3
                scale = H if stage == 2 else 0.5 * H
                for i in range(n):
                    slope[i] = weight * bar[i] + (scale * before[i] if stage < 3 else 0.0)
                before[:] = 0.0
                g += pull(path[t, stage], slope, before)
                total += before
            bar[:] = total
        gradient[:n], gradient[n] = bar, g
        return value, gradient

    return value_and_grad


def anomalies() -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Solutions of Kepler's equation by Newton's method, values alone."""

    @numba.njit
    def roots(mean: np.ndarray, ecc: np.ndarray) -> np.ndarray:
        out = np.empty(len(mean))
        for i in range(len(mean)):
            m, e = mean[i], ecc[i]
            z, step = m + e * np.sin(m), 1.0
            while abs(step) > CLOSE:
                step = (z - e * np.sin(z) - m) / (1.0 - e * np.cos(z))
                z -= step
            out[i] = z
        return out

    return roots


def casadi_steps(states: int, trips: int) -> Callable[[np.ndarray], Any] | None:
    """Value and gradient of Lorenz' equations by CasADi; None where it is not installed."""
    try:
        import casadi as ca
    except ImportError:
        return None
    y, p = ca.SX.sym("y", states), ca.SX.sym("p", 3 if states == 3 else 1)

    def rhs(y: Any) -> Any:
        if states == 3:
            a, b, c = y[0], y[1], y[2]
            return ca.vertcat(p[0] * (b - a), a * (p[1] - c) - b, a * b - p[2] * c)
        at = [y[i % states] for i in range(-2, states + 1)]  # the first is y[-2]
        rows = [
            (d - a) * b - c + p[0] for a, b, c, d in zip(at, at[1:], at[2:], at[3:], strict=False)
        ]
        return ca.vertcat(*rows)

    k1 = rhs(y)
    k2 = rhs(y + 0.5 * H * k1)
    k3 = rhs(y + 0.5 * H * k2)
    new = y + H / 6 * (k1 + 2 * k2 + 2 * k3 + rhs(y + H * k3))
    many = ca.Function("step", [y, p], [new]).mapaccum(trips)
    x = ca.MX.sym("x", states + p.numel())
    last = many(x[:states], ca.repmat(x[states:], 1, trips))[:, -1]
    value = 0.5 * ca.sumsqr(last)
    return ca.Function("f", [x], [value, ca.gradient(value, x)])
