"""Relaxation of a molecule
========================

Thirteen atoms of argon come to rest, and then vibrate. The lowest energy is the icosahedron,
-44.326801 (D. Wales and J. Doye, "Global optimization by basin-hopping", Journal of Physical
Chemistry A 101, 1997; the Cambridge Cluster Database).
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import fdiff

ATOMS = 13
first, second = np.triu_indices(ATOMS, 1)


def energy(x: np.ndarray) -> float:
    """Energy of Lennard-Jones, in units of the well."""
    atoms = x.reshape(-1, 3)
    squared = np.sum((atoms[first] - atoms[second]) ** 2, axis=1)
    attraction = 1.0 / squared**3
    return 4.0 * np.sum(attraction**2 - attraction)


# %%
# From random places most ways end in another valley, so several are tried. A relaxation takes a
# few milliseconds.

rng = np.random.default_rng(0)
slope, tries = fdiff.value_and_grad(energy), []
for _ in range(12):
    start = rng.uniform(-1.7, 1.7, 3 * ATOMS)
    tries.append(minimize(slope, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15}))
best = min(tries, key=lambda found: found.fun)
print(f"{best.fun:.6f} is the lowest of {len(tries)} energies")
assert abs(best.fun + 44.326801) < 1e-6

# %%
# The Hessian at the minimum gives the frequencies of the vibrations. Six of them are zero: moving
# and turning the whole costs nothing.

modes = np.linalg.eigvalsh(fdiff.hessian(energy, best.x))
assert np.all(np.abs(modes[:6]) < 1e-2)
assert modes[6] > 1.0

figure = plt.figure(figsize=(9, 4), layout="constrained")
space = figure.add_subplot(1, 2, 1, projection="3d")
atoms = best.x.reshape(-1, 3)
for a, b in zip(first, second, strict=True):
    if np.linalg.norm(atoms[a] - atoms[b]) < 1.25:
        space.plot(*atoms[[a, b]].T, color="tab:gray", linewidth=1)
radii = np.linalg.norm(atoms - atoms.mean(axis=0), axis=1)
space.scatter(*atoms.T, s=300, c=radii, cmap="plasma", vmin=-0.6, vmax=1.3, alpha=1.0)
space.set_axis_off()
below = figure.add_subplot(2, 2, 2)
below.hist([found.fun for found in tries], bins=30)
below.set(xlabel="energy where a try ends", ylabel="tries")
sound = figure.add_subplot(2, 2, 4)
sound.stem(np.sqrt(np.abs(modes)), basefmt=" ")
sound.set(xlabel="mode", ylabel="frequency")
plt.show()
