"""Implicit heat equation with variable conductivity: Thomas algorithm, all in place."""
import numpy as np


def thomas(a, b, c, d):
    """Solves a tridiagonal system; overwrites b and d, the solution is in d."""
    n = len(d)
    for i in range(1, n):
        w = a[i] / b[i - 1]
        b[i] -= w * c[i - 1]
        d[i] -= w * d[i - 1]
    d[-1] /= b[-1]
    for i in range(n - 2, -1, -1):
        d[i] = (d[i] - c[i] * d[i + 1]) / b[i]
    return d


def crank_nicolson(T, kappa, dx, dt, steps):
    n = len(T)
    face = 2 * kappa[1:] * kappa[:-1] / (kappa[1:] + kappa[:-1])     # harmonic means
    r = 0.5 * dt / dx**2
    for _ in range(steps):
        a, b, c, d = np.zeros(n), np.ones(n), np.zeros(n), T.copy()
        a[1:] = -r * face
        c[:-1] = -r * face
        b[:-1] += r * face
        b[1:] += r * face
        d[:-1] += r * face * (T[1:] - T[:-1])
        d[1:] -= r * face * (T[1:] - T[:-1])
        b[0], c[0], d[0] = 1.0, 0.0, T[0]        # fixed temperature at the left end
        T = thomas(a, b, c, d)
    return T


def misfit(kappa, T, measured, dx, dt, steps):
    final = crank_nicolson(T, kappa, dx, dt, steps)
    return 0.5 * np.sum((final - measured)**2)
