"""What exact derivatives buy
==========================

Error bars that are right, and fits that take no time. Run it with

.. code-block:: sh

    python examples/demo.py [--picture FILE]

First the thermal expansion of copper, a regression of NIST's whose answer is certified
(https://www.itl.nist.gov/div898/strd/nls/data/hahn1.shtml), then a cluster of atoms that comes to
rest. SciPy solves both twice: with its own finite differences, and with the derivatives that fdiff
takes of the functions, which are plain NumPy.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

# Before NumPy is loaded: threads that wait for work on 144 numbers would count as work themselves.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import fit_nist
import numpy as np
from scipy.optimize import minimize

import fdiff

ATOMS = 48
FIRST, SECOND = np.triu_indices(ATOMS, 1)
Vector = np.ndarray


class Relaxation(NamedTuple):
    """The way to a minimum: seconds and energy at each step, and the largest force left."""

    seconds: Vector
    energies: Vector
    steps: int
    force: float


def say(text: str = "", *, end: str = "\n") -> None:
    """A line of the story, at once."""
    print(text, end=end, flush=True)


WAYS = ("finite differences", "exact, by fdiff")


# --- the first problem: error bars ----------------------------------------------------------------


def error_bars() -> tuple[fit_nist.Problem, fit_nist.Fit, fit_nist.Fit]:
    """Fit copper's expansion by both Jacobians."""
    p = fit_nist.problem("Hahn1")
    say("Fitting the thermal expansion of copper: finite differences ... ", end="")
    rough = fit_nist.fit(p, "start1", "2-point")
    say("fdiff ... ", end="")
    exact = fit_nist.fit(p, "start1", p.exact)
    say("done.")
    return p, rough, exact


def tell_error_bars(p: fit_nist.Problem, *fits: fit_nist.Fit) -> None:
    """Compare error bars with the certified ones."""
    certified = p.data["sd"]
    say("\n1. How sure are you? The thermal expansion of copper: 236 measurements, 7 parameters.")
    say("   NIST certifies the best fit and the standard error of each parameter.\n")
    for way, fit in zip(WAYS, fits, strict=True):
        say(f"   Error bars, {way}: {quality(fit.errors, certified)}.")
    b = np.abs(fits[0].errors / certified - 1.0).argmax()
    say(f"   That of b{b + 1}: {fits[0].errors[b]:.3e} by finite differences,")
    say(f"   {fits[1].errors[b]:.3e} by fdiff, {certified[b]:.3e} certified by NIST.")


def quality(errors: Vector, certified: Vector) -> str:
    """How good error bars are, in words."""
    off = np.max(np.abs(errors / certified - 1.0))
    return (
        f"off by {off:.0%}"
        if off > 1e-3
        else f"right to {fit_nist.digits(errors, certified):.0f} digits"
    )


# --- the second problem: speed ----------------------------------------------------------------


def energy(x: Vector) -> float:
    """Energy of atoms that attract and repel each other (Lennard-Jones): plain NumPy."""
    atoms = x.reshape(-1, 3)
    squared = np.sum((atoms[FIRST] - atoms[SECOND]) ** 2, axis=1)
    attraction = 1.0 / squared**3
    return 4.0 * np.sum(attraction**2 - attraction)


def relax(start: Vector, gradient: Callable[[Vector], Vector] | None) -> Relaxation:
    """Let the atoms come to rest; tracing and compiling are included in the time."""
    seconds, energies = [0.0], [energy(start)]
    begin = time.process_time()  # not the clock: other programs may be at work

    def note(x: Vector) -> None:
        nonlocal begin
        now = time.process_time()
        seconds.append(now - begin)
        energies.append(energy(x))
        begin += time.process_time() - now  # what is noted here is no part of the work

    options = {"maxiter": 5_000, "maxfun": 10_000_000, "ftol": 1e-15, "gtol": 1e-6}
    found = minimize(energy, start, jac=gradient, method="L-BFGS-B", callback=note, options=options)
    return Relaxation(
        np.array(seconds), np.array(energies), found.nit, np.abs(EXACT(found.x)).max()
    )


def cluster() -> tuple[Relaxation, Relaxation]:
    """Relax a cluster of argon by both gradients."""
    grid = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)[:ATOMS]
    start = (1.2 * grid + 0.1 * np.random.default_rng(1).normal(size=grid.shape)).ravel()
    say(f"Relaxing {ATOMS} atoms of argon: finite differences ... ", end="")
    rough = relax(start, None)
    say("fdiff ... ", end="")
    exact = relax(start, EXACT)
    say("done.")
    return rough, exact


def tell_cluster(*relaxed: Relaxation) -> None:
    """What the two ways took, and where they ended."""
    say(f"\n2. What does it take? {ATOMS} atoms of argon come to rest: {3 * ATOMS} numbers.")
    say(f"   One gradient by finite differences takes {3 * ATOMS} evaluations of the energy.\n")
    for way, found in zip(WAYS, relaxed, strict=True):
        say(f"   With {way}: {found.seconds[-1]:.2f} s of processor time, {found.steps} steps,")
        say(f"      energy {found.energies[-1]:.9f}, the largest force left {found.force:.0e}.")
    say("   Nothing was rewritten: jac=fdiff.grad(energy).")


EXACT = fdiff.grad(energy)


# --- the picture ----------------------------------------------------------------------------------


def draw(
    path: Path,
    copper: tuple[fit_nist.Problem, fit_nist.Fit, fit_nist.Fit],
    argon: tuple[Relaxation, Relaxation],
) -> None:
    """Both acts side by side, as a picture."""
    import matplotlib as mpl  # noqa: PLC0415 - the story has begun by the time it is imported

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the backend is chosen

    p, *fits = copper
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    places = np.arange(1, len(p.data["sd"]) + 1)
    lowest = min(way.energies[-1] for way in argon)
    for k, title in enumerate(WAYS):
        left.bar(places - 0.15 + 0.3 * k, fits[k].errors / p.data["sd"], 0.3, label=title)
        above = argon[k].energies - lowest + 1e-12
        right.loglog(argon[k].seconds[1:], above[1:], label=title)
    left.axhline(1.0, color="tab:gray", linewidth=1, label="certified by NIST")
    left.set(title="Copper: standard errors (certified = 1)", xlabel="parameter", xticks=places)
    left.set_ylim(0.0, 1.5)
    right.set(
        title=f"{ATOMS} atoms of argon",
        xlabel="seconds of processor time",
        ylabel="energy above the minimum",
    )
    left.legend(loc="upper left")
    right.legend()
    figure.savefig(path, dpi=120)


def headline(
    copper: tuple[fit_nist.Problem, fit_nist.Fit, fit_nist.Fit],
    argon: tuple[Relaxation, Relaxation],
) -> None:
    """What a user gains."""
    p, *fits = copper
    rough, exact = (quality(fit.errors, p.data["sd"]) for fit in fits)
    times = argon[0].seconds[-1] / argon[1].seconds[-1]
    say(f"\n{times:.0f} times less work than with finite differences, and error bars {exact}")
    say(f"where those of finite differences are {rough}.")


def main() -> None:
    """Solve both problems, and tell what was gained."""
    parser = argparse.ArgumentParser(description="What exact derivatives buy, in ten seconds.")
    parser.add_argument("--picture", type=Path, default=Path("demo.png"), help="where to draw it")
    options = parser.parse_args()
    say("Two problems, each solved by SciPy twice: with its finite differences, and with fdiff.")
    copper, argon = error_bars(), cluster()
    headline(copper, argon)
    tell_error_bars(*copper)
    tell_cluster(*argon)
    draw(options.picture, copper, argon)
    say(f"\n   The picture: {options.picture}")


if __name__ == "__main__":
    main()
