"""Bundle adjustment
=================

Where were the cameras, and where are the points that their pictures show? Run it with

.. code-block:: sh

    python examples/bundle_adjustment.py [POINTS]

Each observation depends on one camera and one point, so the Jacobian is sparse. The data are made
here: cameras on a circle around a cloud of points, with errors of half a pixel. See B. Triggs,
P. McLauchlan, R. Hartley and A. Fitzgibbon, "Bundle Adjustment: A Modern Synthesis", 2000.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from fdiff.optimize import Fit, least_squares

Vector = np.ndarray

FOCAL, PIXEL = 800.0, 0.5  # pixels; the deviation of an observation
CAMERAS = 6


class Scene(NamedTuple):
    """Cameras are rows of a rotation vector and a shift, points are rows of coordinates."""

    cameras: Vector
    points: Vector
    seen: Vector  # pixels, of shape (observations, 2)
    camera_of: Vector
    point_of: Vector


def rotated(points: Vector, turns: Vector) -> Vector:
    """Each point turned by a rotation vector (formula of Rodrigues)."""
    angle = np.sqrt(np.sum(turns**2, axis=1))[:, None]
    axis = turns / angle
    along = np.sum(axis * points, axis=1)[:, None] * axis
    return along + np.cos(angle) * (points - along) + np.sin(angle) * np.cross(axis, points)


def projected(cameras: Vector, points: Vector) -> Vector:
    """The pixels of points, each in the picture of its camera."""
    there = rotated(points, cameras[:, :3]) + cameras[:, 3:]
    return FOCAL * there[:, :2] / there[:, 2:]


def scene(points: int, seed: int = 0) -> Scene:
    """Cameras that look at the middle of a cloud, and what they see."""
    rng = np.random.default_rng(seed)
    turns = np.stack([0.1 * rng.normal(size=CAMERAS), np.linspace(0.2, 1.6, CAMERAS),
                      0.1 * rng.normal(size=CAMERAS)], axis=1)  # fmt: skip
    cameras = np.concatenate([turns, np.tile([0.0, 0.0, 8.0], (CAMERAS, 1))], axis=1)
    cloud = rng.uniform(-1.0, 1.0, (points, 3))
    camera_of, point_of = np.divmod(np.arange(CAMERAS * points), points)
    seen = projected(cameras[camera_of], cloud[point_of])
    seen = seen + PIXEL * rng.normal(size=seen.shape)
    return Scene(cameras, cloud, seen, camera_of, point_of)


def residuals(x: Vector, scene: Scene) -> Vector:
    """Errors in pixels. Two cameras are held: without them the scene could turn, move and grow."""
    free = 6 * (CAMERAS - 2)
    cameras = np.concatenate([scene.cameras[:2], x[:free].reshape(-1, 6)])
    points = x[free:].reshape(-1, 3)
    return (projected(cameras[scene.camera_of], points[scene.point_of]) - scene.seen).ravel()


def adjusted(scene: Scene, seed: int = 1) -> Fit:
    """The scene that fits best, from a start that is a few percent off."""
    x = np.concatenate([scene.cameras[2:].ravel(), scene.points.ravel()])
    start = x + 0.05 * np.random.default_rng(seed).normal(size=x.size)
    return least_squares(residuals, start, args=(scene,), x_scale="jac", sigma=PIXEL)


def draw(truth: Scene, fit: Fit) -> None:
    """The Jacobian of the first points, and how far off points are, by their standard errors."""
    free = 6 * (CAMERAS - 2)
    figure = plt.figure(figsize=(9, 4), layout="constrained")
    left, right = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2, projection="3d")
    count = len(truth.points)
    rows = np.concatenate([2 * count * k + np.arange(40) for k in range(CAMERAS)])
    left.spy(fit.jac.tocsr()[rows][:, : free + 60], markersize=2, color="tab:blue", aspect="auto")
    left.set_xlabel("cameras, then 20 points", labelpad=10)
    errors = np.linalg.norm(fit.stderr[free:].reshape(-1, 3), axis=1)
    least = np.min(errors) - 0.4 * np.ptp(errors)  # no point is as dark as a dark page
    right.scatter(*fit.x[free:].reshape(-1, 3).T, c=errors, s=12, cmap="plasma", vmin=least)
    right.set_title("points, by standard error")
    right.set_axis_off()
    plt.show()


def main() -> None:
    points = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    truth = scene(points)
    fit = adjusted(truth)
    rows, columns = fit.jac.shape
    print(f"{rows} residuals, {columns} parameters, {fit.jac.nnz} entries of the Jacobian")
    left = np.sqrt(2 * fit.cost / (rows - columns))
    print(f"residuals are {left:.3f} of the deviation after {fit.scipy.nfev} evaluations")
    errors, free = fit.stderr, 6 * (CAMERAS - 2)
    for k in range(CAMERAS - 2):
        turn, bar = fit.x[6 * k : 6 * k + 3].round(4), errors[6 * k : 6 * k + 3].round(4)
        print(f"camera {k + 2}: turned by {turn}, standard errors {bar}")
    print(f"points: standard errors {np.median(errors[free:]):.4f} in the middle")
    assert abs(left - 1.0) < 0.05  # what is left is the noise that was added
    draw(truth, fit)


if __name__ == "__main__":
    main()
