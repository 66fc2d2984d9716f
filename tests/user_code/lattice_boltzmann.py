"""D2Q9 lattice Boltzmann, BGK collision, full-way bounce back at an obstacle."""
import numpy as np

cxs = np.array([0, 1, 0, -1, 0, 1, -1, -1, 1])
cys = np.array([0, 0, 1, 0, -1, 1, 1, -1, -1])
weights = np.array([4/9, 1/9, 1/9, 1/9, 1/9, 1/36, 1/36, 1/36, 1/36])
opposite = [0, 3, 4, 1, 2, 7, 8, 5, 6]


def equilibrium(rho, ux, uy):
    feq = np.zeros((9,) + rho.shape)
    usq = ux**2 + uy**2
    for i, cx, cy, w in zip(range(9), cxs, cys, weights):
        cu = cx * ux + cy * uy
        feq[i, :, :] = w * rho * (1 + 3 * cu + 4.5 * cu**2 - 1.5 * usq)
    return feq


def run(rho, ux, tau, obstacle, steps):
    F = equilibrium(rho, ux, np.zeros_like(ux))
    for it in range(steps):
        # drift
        for i, cx, cy in zip(range(9), cxs, cys):
            F[i] = np.roll(F[i], cx, axis=0)
            F[i] = np.roll(F[i], cy, axis=1)
        # reflective boundary
        bndry = F[:, obstacle]
        bndry = bndry[opposite, :]
        # fluid variables
        rho = np.sum(F, 0)
        ux = np.sum(F * cxs[:, None, None], 0) / rho
        uy = np.sum(F * cys[:, None, None], 0) / rho
        ux[obstacle] = 0
        uy[obstacle] = 0
        # collision
        Feq = equilibrium(rho, ux, uy)
        F += -(1.0 / tau) * (F - Feq)
        F[:, obstacle] = bndry
    return rho, ux, uy


def enstrophy(tau, rho, ux, obstacle, steps):
    rho, ux, uy = run(rho, ux, tau, obstacle, steps)
    vorticity = (np.roll(ux, -1, axis=1) - np.roll(ux, 1, axis=1)) - (np.roll(uy, -1, axis=0) - np.roll(uy, 1, axis=0))
    vorticity[obstacle] = 0.0
    return np.mean(vorticity**2)
