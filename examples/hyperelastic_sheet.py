"""A sheet of rubber that is pulled
================================

Finite elements, with the sparse Hessian of an energy. Run it with

.. code-block:: sh

    python examples/hyperelastic_sheet.py [SQUARES]

A square sheet of triangles is held at its left side and pulled at its right one. The energy is
plain NumPy. Newton's method gets its sparse Hessian; the pull at the right side is its gradient.
The material is compressible neo-Hookean (J. Bonet and R. Wood, "Nonlinear Continuum Mechanics for
Finite Element Analysis", 2nd ed., Cambridge 2008, section 6.4), in plane strain.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import splu

import fdiff

Vector = np.ndarray

SHEAR, VOLUME = 1.0, 4.0  # Lamé's constants


class Mesh(NamedTuple):
    """Nodes of a unit square, its triangles, the inverse edges of these, and their areas."""

    nodes: Vector
    triangles: Vector
    inverse: Vector
    areas: Vector


def mesh(squares: int) -> Mesh:
    """Each square of a grid is cut into two triangles."""
    sides = np.linspace(0.0, 1.0, squares + 1)
    nodes = np.stack(np.meshgrid(sides, sides, indexing="ij"), axis=-1).reshape(-1, 2)
    index = np.arange(len(nodes)).reshape(squares + 1, squares + 1)
    a, b, c, d = index[:-1, :-1], index[1:, :-1], index[:-1, 1:], index[1:, 1:]
    corners = [(a, b, d), (a, d, c)]
    triangles = np.concatenate([np.stack(t, axis=-1).reshape(-1, 3) for t in corners])
    edges = sides_of(nodes, triangles)
    return Mesh(nodes, triangles, np.linalg.inv(edges), np.linalg.det(edges) / 2)


def sides_of(nodes: Vector, triangles: Vector) -> Vector:
    """Two edges of each triangle, as the columns of a matrix."""
    first, second, third = (nodes[triangles[:, k]] for k in range(3))
    return np.stack([second - first, third - first], axis=-1)


def energy(places: Vector, mesh: Mesh) -> float:
    """The elastic energy, if the nodes are at these places."""
    gradient = sides_of(places.reshape(-1, 2), mesh.triangles) @ mesh.inverse
    stretch = np.sum(gradient**2, axis=(1, 2))
    area = gradient[:, 0, 0] * gradient[:, 1, 1] - gradient[:, 0, 1] * gradient[:, 1, 0]
    logarithm = np.log(area)
    density = SHEAR / 2 * (stretch - 2.0) - SHEAR * logarithm + VOLUME / 2 * logarithm**2
    return np.sum(mesh.areas * density)


def pulled(mesh: Mesh, length: float, steps: int = 4) -> tuple[Vector, float, list[float]]:
    """The places of the nodes, the pull, and what Newton's steps of the last part left."""
    held = (mesh.nodes[:, 0] == 0.0) | (mesh.nodes[:, 0] == 1.0)
    free = np.flatnonzero(np.repeat(~held, 2))
    slope, curvature = fdiff.grad(energy), fdiff.hessian(energy, sparse="csc")
    places, left = mesh.nodes.ravel().copy(), []
    for k in range(steps):  # a part of the way at a time
        places[::2] *= 1.0 + (length - 1.0) / (steps + k * (length - 1.0))
        left = []
        for _ in range(30):
            force = slope(places, mesh)[free]
            left.append(float(np.max(np.abs(force))))
            if left[-1] < 1e-11:
                break
            stiffness = curvature(places, mesh)[free][:, free]
            places[free] -= splu(stiffness.tocsc()).solve(force)
    right = np.flatnonzero(mesh.nodes[:, 0] == 1.0)
    return places, float(np.sum(slope(places, mesh)[2 * right])), left


def draw(sheet: Mesh, shapes: dict[float, Vector]) -> None:
    """The sheet at each length, coloured by how much triangles grow."""
    figure, panels = plt.subplots(1, len(shapes), figsize=(10, 3.4), layout="constrained")
    for panel, (length, places) in zip(np.atleast_1d(panels), shapes.items(), strict=True):
        nodes = places.reshape(-1, 2)
        growth = np.linalg.det(sides_of(nodes, sheet.triangles)) / 2 / sheet.areas
        picture = panel.tripcolor(*nodes.T, sheet.triangles, growth, vmin=1.0, vmax=1.6)
        panel.triplot(*nodes.T, sheet.triangles, color="tab:gray", linewidth=0.3)
        panel.set(title=f"length {length}", aspect="equal", xlim=(-0.05, 2.05), ylim=(-0.05, 1.05))
    figure.colorbar(picture, ax=panels, label="area", shrink=0.6)
    plt.show()


def main() -> None:
    squares = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    sheet = mesh(squares)
    entries = fdiff.hessian(energy, sparse=True)(sheet.nodes.ravel(), sheet).nnz
    print(f"{len(sheet.triangles)} triangles, {sheet.nodes.size} coordinates, ", end="")
    print(f"{entries} entries of the Hessian")
    shapes = {}
    for length in (1.25, 1.5, 2.0):
        places, pull, left = pulled(sheet, length)
        middle = places.reshape(squares + 1, squares + 1, 2)[squares // 2, [0, -1], 1]
        print(
            f"length {length}: pull {pull:.5f}, height {np.ptp(middle):.4f} in the middle", end=""
        )
        print(", forces left by Newton " + " ".join(f"{force:.0e}" for force in left))
        shapes[length] = places
        assert left[-1] < 1e-11  # in equilibrium; Newton's steps square what is left
        assert len(left) <= 8
    draw(sheet, shapes)


if __name__ == "__main__":
    main()
