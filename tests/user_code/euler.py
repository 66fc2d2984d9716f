"""1-D Euler equations: MUSCL with minmod, HLL fluxes, two-stage Runge-Kutta, CFL time step."""
import numpy as np

GAMMA = 1.4


def minmod(a, b):
    return np.where(a * b > 0, np.where(np.abs(a) < np.abs(b), a, b), 0.0)


def to_primitive(U):
    W = np.empty_like(U)
    W[0] = U[0]
    W[1] = U[1] / U[0]
    W[2] = (GAMMA - 1) * (U[2] - 0.5 * U[1]**2 / U[0])
    return W


def to_conserved(W):
    U = np.empty_like(W)
    U[0] = W[0]
    U[1] = W[0] * W[1]
    U[2] = W[2] / (GAMMA - 1) + 0.5 * W[0] * W[1]**2
    return U


def physical_flux(W):
    rho, u, p = W
    E = p / (GAMMA - 1) + 0.5 * rho * u**2
    return np.array([rho * u, rho * u**2 + p, u * (E + p)])


def hll(WL, WR):
    cL = np.sqrt(GAMMA * WL[2] / WL[0])
    cR = np.sqrt(GAMMA * WR[2] / WR[0])
    SL = min(WL[1] - cL, WR[1] - cR)
    SR = max(WL[1] + cL, WR[1] + cR)
    if SL >= 0:
        return physical_flux(WL)
    if SR <= 0:
        return physical_flux(WR)
    UL, UR = to_conserved(WL), to_conserved(WR)
    return (SR * physical_flux(WL) - SL * physical_flux(WR) + SL * SR * (UR - UL)) / (SR - SL)


def fill_ghosts(U):
    U[:, 0] = U[:, 3]
    U[:, 1] = U[:, 2]
    U[:, -1] = U[:, -4]
    U[:, -2] = U[:, -3]
    U[1, :2] *= -1      # reflecting wall on the left, open on the right


def residual(U, dx):
    fill_ghosts(U)
    W = to_primitive(U)
    slope = np.zeros_like(W)
    slope[:, 1:-1] = minmod(W[:, 1:-1] - W[:, :-2], W[:, 2:] - W[:, 1:-1])
    n = U.shape[1] - 4
    F = np.zeros((3, n + 1))
    for i in range(n + 1):
        left = W[:, i + 1] + 0.5 * slope[:, i + 1]
        right = W[:, i + 2] - 0.5 * slope[:, i + 2]
        F[:, i] = hll(left, right)
    dU = np.zeros_like(U)
    dU[:, 2:-2] -= (F[:, 1:] - F[:, :-1]) / dx
    return dU


def advance(rho, u, p, dx, tend, cfl=0.4):
    n = len(rho)
    U = np.zeros((3, n + 4))
    U[:, 2:-2] = to_conserved(np.array([rho, u, p]))
    t = 0.0
    while t < tend:
        fill_ghosts(U)
        W = to_primitive(U)
        dt = cfl * dx / np.max(np.abs(W[1]) + np.sqrt(GAMMA * W[2] / W[0]))
        if t + dt > tend:
            dt = tend - t
        U1 = U + dt * residual(U, dx)
        U2 = U1 + dt * residual(U1, dx)
        U = 0.5 * (U + U2)
        t += dt
    return to_primitive(U[:, 2:-2])


def rusanov_upwind(rho, u, p, dx, dt, steps):
    """First order, Rusanov fluxes, vectorised."""
    n = len(rho)
    U = to_conserved(np.stack([rho, u, p]))
    for _ in range(steps):
        Ug = np.zeros((3, n + 2))
        Ug[:, 1:-1] = U
        Ug[:, 0] = U[:, -1]
        Ug[:, -1] = U[:, 0]
        W = to_primitive(Ug)
        F = physical_flux(W)
        a = np.abs(W[1]) + np.sqrt(GAMMA * W[2] / W[0])
        amax = np.maximum(a[1:], a[:-1])
        flux = 0.5 * (F[:, 1:] + F[:, :-1]) - 0.5 * amax * (Ug[:, 1:] - Ug[:, :-1])
        U = U.copy()
        U -= dt / dx * (flux[:, 1:] - flux[:, :-1])
    return np.sum(U[0]**2) + U[2, 0] * U[1, 1]
