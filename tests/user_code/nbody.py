"""Gravitational N-body problem with Plummer softening, kick-drift-kick leapfrog."""
import numpy as np

G = 1.0


def accelerations(pos, mass, eps):
    n = len(mass)
    acc = np.zeros((n, 3))
    for i in range(n):
        for j in range(i + 1, n):
            d = pos[j] - pos[i]
            r2 = d[0]**2 + d[1]**2 + d[2]**2 + eps**2
            inv_r3 = r2**-1.5
            acc[i] += G * mass[j] * inv_r3 * d
            acc[j] -= G * mass[i] * inv_r3 * d
    return acc


def simulate(pos, vel, mass, eps, dt, steps):
    pos = pos.copy()
    vel = vel.copy()
    acc = accelerations(pos, mass, eps)
    for _ in range(steps):
        vel += 0.5 * dt * acc
        pos += dt * vel
        acc = accelerations(pos, mass, eps)
        vel += 0.5 * dt * acc
    return pos, vel


def energy(pos, vel, mass, eps):
    kinetic = 0.5 * np.sum(mass[:, None] * vel**2)
    potential = 0.0
    for i in range(len(mass)):
        for j in range(i):
            r = pos[i] - pos[j]
            potential -= G * mass[i] * mass[j] / np.sqrt(np.dot(r, r) + eps**2)
    return kinetic + potential


def closest_approach(mass, pos, vel, eps, dt, steps):
    """Smallest distance (squared) of bodies 0 and 1 over the run."""
    best = np.inf
    pos, vel = pos.copy(), vel.copy()
    for _ in range(steps):
        pos, vel = simulate(pos, vel, mass, eps, dt, 1)
        d2 = np.sum((pos[0] - pos[1])**2)
        if d2 < best:
            best = d2
    return best
