"""A stiff reaction that diffuses
==============================

Implicit integrators with a sparse Jacobian. Run it with

.. code-block:: sh

    python examples/brusselator.py [POINTS]

The Brusselator on a line (E. Hairer and G. Wanner, "Solving Ordinary Differential Equations II",
2nd ed., Springer 1996, section IV.10, problem BRUSS) is stiff: the more points, the stiffer.
SciPy's Radau solves it, and CVODE of SUNDIALS where scikit-sundae is installed.
"""

from __future__ import annotations

import sys
import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import fdiff

try:
    from sksundae.cvode import CVODE
except ImportError:
    CVODE = None

# It says that it takes only the places from the pattern, which is all that they are passed for.
warnings.filterwarnings("ignore", "Custom sparse Jacobian")

Vector = np.ndarray
END, ACCURACY = 10.0, {"rtol": 1e-6, "atol": 1e-8}


def slope(t: float, y: Vector) -> Vector:
    """Two substances that react with each other and diffuse; the ends are held."""
    u, v = y.reshape(-1, 2).T
    left, right = np.array([1.0]), np.array([3.0])
    u_all, v_all = np.concatenate([left, u, left]), np.concatenate([right, v, right])
    spread = 0.02 * (u.size + 1) ** 2
    du = 1.0 + u**2 * v - 4.0 * u + spread * np.diff(u_all, 2)
    dv = 3.0 * u - u**2 * v + spread * np.diff(v_all, 2)
    return np.stack([du, dv], axis=1).ravel()


def start(points: int) -> Vector:
    """The state at time 0; neighbours in space are neighbours in the vector."""
    place = np.arange(1, points + 1) / (points + 1)
    return np.stack([1.0 + np.sin(2.0 * np.pi * place), np.full(points, 3.0)], axis=1).ravel()


def by_radau(y: Vector) -> tuple[Vector, int]:
    """The state at the end, and the number of right-hand sides."""
    jacobian = fdiff.jacobian(slope, argnums=1, sparse="csc")
    found = solve_ivp(slope, (0.0, END), y, method="Radau", jac=jacobian, **ACCURACY)
    return found.y[:, -1], found.nfev


def by_cvode(y: Vector, *, exact: bool = True) -> tuple[Vector, int]:
    """The same by CVODE, with the exact Jacobian or with its own differences."""
    jacobian, calls = fdiff.jacobian(slope, argnums=1, sparse="csc"), [0]

    def right_hand_side(t: float, y: Vector, out: Vector) -> None:
        calls[0] += 1
        out[:] = slope(t, y)

    def fill(t: float, y: Vector, _: Vector, entries: Vector) -> None:
        jacobian.data(t, y, out=entries)

    options = {"linsolver": "sparse", "sparsity": jacobian.pattern(0.0, y), **ACCURACY}
    options |= {"jacfn": fill} if exact else {}
    found = CVODE(right_hand_side, **options).solve(np.array([0.0, END]), y)
    return found.y[-1], calls[0]


def draw(points: int) -> None:
    """How the first substance spreads, and where the Jacobian has entries."""
    y, times = start(points), np.linspace(0.0, END, 200)
    jacobian = fdiff.jacobian(slope, argnums=1, sparse="csc")
    found = solve_ivp(slope, (0.0, END), y, "Radau", times, jac=jacobian, **ACCURACY)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    picture = left.imshow(found.y[::2], aspect="auto", extent=(0, END, 1, 0), cmap="viridis")
    figure.colorbar(picture, label="u")
    left.set(xlabel="time", ylabel="place")
    few = start(12)
    right.spy(jacobian.pattern(0.0, few), markersize=5, color="tab:blue")
    right.set_xlabel("Jacobian of 12 points", labelpad=10)
    plt.show()


def main() -> None:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    y = start(points)
    entries = len(fdiff.jacobian(slope, argnums=1, sparse="csc").coordinates(0.0, y)[0])
    print(f"{y.size} unknowns, {entries} entries of the Jacobian")
    ways = {"Radau": by_radau}
    if CVODE is not None:
        ways |= {"CVODE": by_cvode, "CVODE, differences": lambda y: by_cvode(y, exact=False)}
    for name, way in ways.items():
        begin = time.process_time()
        last, calls = way(y)
        seconds = time.process_time() - begin
        middle = last.reshape(-1, 2)[points // 2]
        print(f"{name:20}{middle.round(4)} in the middle, {calls} calls of slope, {seconds:.2f} s")
    band = {"lband": 2, "uband": 2, "rtol": 1e-9, "atol": 1e-11}
    reference = solve_ivp(slope, (0.0, END), y, method="LSODA", **band).y[:, -1]
    assert np.max(np.abs(by_radau(y)[0] - reference)) < 5e-4
    draw(points)


if __name__ == "__main__":
    main()
