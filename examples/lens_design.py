"""Lens design
===========

Rays through a lens: which curvature and which conic constant of its second face bring all of them
to one point? R. Descartes knew the answer in 1637: a hyperbola, of conic constant -n².
"""

import matplotlib.pyplot as plt
import numpy as np

from fdiff.optimize import least_squares

GLASS, FOCUS, THICK = 1.5168, 100.0, 12.0  # index of BK7; millimetres
heights = np.linspace(1.0, 25.0, 25)  # of the rays, which come in along the axis


def traced(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where rays leave the lens, and at which height they reach the focus.

    The first face is flat, so rays stay parallel until the second one, a conic.
    """
    curvature, conic = p[0] / 100.0, p[1]
    root = np.sqrt(1.0 - (1.0 + conic) * (curvature * heights) ** 2)
    sag = THICK + curvature * heights**2 / (1.0 + root)
    tilt = np.arctan(curvature * heights / root)  # of the face
    bent = np.arcsin(GLASS * np.sin(tilt)) - tilt  # refraction (Snell)
    return sag, bent, heights + (FOCUS + THICK - sag) * np.tan(bent)


# %%
# The sizes of the spot are the residuals; the Jacobian runs through all of Snell's law.

sphere = least_squares(lambda c: traced(np.array([c[0], 0.0]))[2], [-1.5])
conic = least_squares(lambda p: traced(p)[2], [-1.5, 0.0], ftol=1e-15, xtol=1e-15, gtol=1e-15)
blur = [np.sqrt(np.mean(traced(p)[2] ** 2)) for p in (np.array([sphere.x[0], 0.0]), conic.x)]
print(f"sphere: spot of {1e3 * blur[0]:.0f} µm; conic {conic.x[1]:.6f}: {1e3 * blur[1]:.1e} µm")
assert np.isclose(conic.x[1], -(GLASS**2), rtol=1e-6)
assert np.isclose(conic.x[0] / 100.0, -1.0 / (FOCUS * (GLASS - 1.0)), rtol=1e-6)

# %%
figure, axes = plt.subplots(2, 1, figsize=(9, 5), layout="constrained", sharex=True)
for panel, p, name in zip(
    axes, ([sphere.x[0], 0.0], conic.x), ("sphere", "hyperbola"), strict=True
):
    sag, bent, _ = traced(np.asarray(p))
    face = np.append(sag[::-1], sag), np.append(-heights[::-1], heights)
    panel.fill(np.append(face[0], [0.0, 0.0]), np.append(face[1], [25.0, -25.0]), alpha=0.3)
    far = FOCUS + THICK + 25.0
    for k in range(1, heights.size, 3):
        end = heights[k] + (far - sag[k]) * np.tan(bent[k])
        for sign in (-1, 1):
            path = [-15.0, sag[k], far], sign * np.array([heights[k], heights[k], end])
            panel.plot(*path, color="tab:orange", linewidth=0.8)
    panel.set(title=name, ylabel="mm", ylim=(-30, 30))
plt.show()
