"""Gray-Scott reaction-diffusion on a periodic square with ghost cells, updated in place."""
import numpy as np


def periodic(Z):
    Z[0, :] = Z[-2, :]
    Z[-1, :] = Z[1, :]
    Z[:, 0] = Z[:, -2]
    Z[:, -1] = Z[:, 1]


def laplacian(Z, out):
    np.add(Z[:-2, 1:-1], Z[2:, 1:-1], out=out)
    out += Z[1:-1, :-2]
    out += Z[1:-1, 2:]
    out -= 4 * Z[1:-1, 1:-1]
    return out


def simulate(U0, V0, Du, Dv, F, k, steps):
    n, m = U0.shape
    U = np.zeros((n + 2, m + 2))
    V = np.zeros((n + 2, m + 2))
    U[1:-1, 1:-1] = U0
    V[1:-1, 1:-1] = V0
    u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
    Lu, Lv, uvv = np.empty_like(u), np.empty_like(v), np.empty_like(u)
    for _ in range(steps):
        periodic(U)
        periodic(V)
        laplacian(U, Lu)
        laplacian(V, Lv)
        np.multiply(u, v, out=uvv)
        uvv *= v
        u += Du * Lu - uvv + F * (1 - u)
        v += Dv * Lv + uvv - (F + k) * v
    return U[1:-1, 1:-1], V[1:-1, 1:-1]


def mismatch(rates, U0, V0, target, steps):
    Du, Dv, F, k = rates
    u, v = simulate(U0, V0, Du, Dv, F, k, steps)
    return 0.5 * np.sum((v - target)**2)
