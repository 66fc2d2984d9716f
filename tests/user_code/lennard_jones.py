"""Lennard-Jones fluid: cutoff, minimum image, velocity Verlet, forces accumulated pair by pair."""
import numpy as np


def forces(pos, box, rc, epsilon, sigma):
    n = len(pos)
    f = np.zeros_like(pos)
    energy = 0.0
    virial = 0.0
    rc2 = rc * rc
    shift = 4 * epsilon * ((sigma / rc)**12 - (sigma / rc)**6)
    for i in range(n - 1):
        for j in range(i + 1, n):
            rij = pos[i] - pos[j]
            rij -= box * np.rint(rij / box)
            r2 = rij @ rij
            if r2 > rc2:
                continue
            s6 = (sigma * sigma / r2)**3
            energy += 4 * epsilon * (s6 * s6 - s6) - shift
            fij = 24 * epsilon * (2 * s6 * s6 - s6) / r2
            f[i] += fij * rij
            f[j] -= fij * rij
            virial += fij * r2
    return f, energy, virial


def verlet(pos, vel, box, rc, epsilon, sigma, dt, steps):
    pos, vel = np.copy(pos), np.copy(vel)
    f, energy, virial = forces(pos, box, rc, epsilon, sigma)
    energies = np.zeros(steps)
    for step in range(steps):
        vel += 0.5 * dt * f
        pos += dt * vel
        for d in range(pos.shape[1]):            # back into the box
            outside = pos[:, d] > box
            pos[outside, d] -= box
            outside = pos[:, d] < 0
            pos[outside, d] += box
        f, energy, virial = forces(pos, box, rc, epsilon, sigma)
        vel += 0.5 * dt * f
        energies[step] = energy + 0.5 * np.sum(vel**2)
    return pos, vel, energies


def pressure(potential, pos, box, rc):
    f, energy, virial = forces(pos, box, rc, potential[0], potential[1])
    return virial / (3 * box**3) + np.mean(f**2)
