"""Kepler's equation by masked Newton iterations, and the radial velocity of a star."""
import numpy as np


def eccentric_anomaly(M, e, tol=1e-13):
    M = M - 2 * np.pi * np.floor(M / (2 * np.pi))
    E = M + e * np.sin(M)
    active = np.ones(M.shape, dtype=bool)
    iterations = 0
    while np.any(active):
        Ea = E[active]
        dE = (Ea - e * np.sin(Ea) - M[active]) / (1 - e * np.cos(Ea))
        E[active] -= dE
        active[active] = np.abs(dE) > tol
        iterations += 1
        if iterations > 50:
            raise RuntimeError("Kepler's equation did not converge")
    return E


def radial_velocity(params, t):
    period, K, e, omega, t0, gamma = params
    M = 2 * np.pi * (t - t0) / period
    E = eccentric_anomaly(M, e)
    f = 2 * np.arctan2(np.sqrt(1 + e) * np.sin(E / 2), np.sqrt(1 - e) * np.cos(E / 2))
    return gamma + K * (np.cos(f + omega) + e * np.cos(omega))


def chi2(params, t, v, sigma):
    r = (v - radial_velocity(params, t)) / sigma
    return np.sum(r**2)
