"""Jacobians compared by their products with random vectors, as torch's ``fast_mode`` does it.

A measurement along one random direction `u` gives ``J u``. Forward mode gives the same vector,
entry by entry; reverse mode gives ``v^T J`` for a random `v`, and both give the number ``v^T J u``.
What is wrong in one entry changes these by the entry's error times two random numbers, which here
are of random sign and between 1/2 and 3/2 before they are normalised: none is next to nothing, and
two errors do not cancel.

A product that differs by more than measuring explains is only a suspicion. Then whole Jacobians are
compared, and those decide: an error too small for them is none, and none that they see is missed
because many right entries outweigh it in a product. Source: torch's note "Gradcheck mechanics",
sections "Fast backward mode gradcheck" and "Fast forward mode gradcheck".
"""

from __future__ import annotations

import fdiff.intact_numpy as np

from .check_settings import CheckSettings, broken, mismatch
from .checked_functions import FunctionUnderCheck
from .jacobian_comparison import first_difference
from .numerical_derivatives import Measurement
from .real_coordinates import dimension, from_real, in_double, only, to_real

# How far products may be apart by rounding, relative to the sizes of their terms: where complex
# steps measured them, where differences did, where derivatives are in single precision.
EXACT, DIFFERENCES, SINGLE = 1e-10, 1e-6, 1e-3
ROUNDING = 1e-8  # of differences, relative to the values that are subtracted, for eps = 1e-6

EXPLANATION = """
The above quantities relating the numerical and analytical jacobians are computed
in fast mode: they are products with random vectors. Below, numerical and analytical
jacobians are recomputed in slow mode:
"""


def compare_projections(function: FunctionUnderCheck, settings: CheckSettings) -> None:
    """Raise `GradcheckError` if a product differs, and the whole Jacobians do as well."""
    rng = np.random.default_rng(20170117)
    bars = [_direction(out, rng) for out in function.outputs]
    for i, x in enumerate(function.inputs):
        u = _direction(x, rng)
        measurement = Measurement(function, settings.eps)
        moved = measurement.along(only(i, in_double(u), measurement.points))
        for mode in settings.modes:
            pushed = _pushed(function, i, u) if mode == "forward" else None
            for o, out in enumerate(function.outputs):
                v = to_real(bars[o])
                if pushed is None:
                    bar = function.pull(only(o, bars[o], function.outputs))[i]
                    ours, theirs = to_real(bar) @ to_real(u), v @ moved[o]
                else:
                    ours, theirs = pushed[o], moved[o]
                bound = _bound(measurement, function, moved[o], out, v if pushed is None else None)
                _compare_whole_jacobians(
                    function, settings, (mode, o, i), np.asarray(ours), np.asarray(theirs), bound
                )


def _direction(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random vector of length 1; zeros for integers, which no derivative moves along."""
    if like.dtype.kind not in "fc":
        return np.zeros(like.shape, like.dtype)
    size = dimension(like)
    coordinates = rng.uniform(0.5, 1.5, size) * rng.choice([-1.0, 1.0], size)
    return from_real(coordinates / max(float(np.linalg.norm(coordinates)), 1.0), like)


def _pushed(function: FunctionUnderCheck, i: int, u: np.ndarray) -> list[np.ndarray]:
    return [to_real(dot) for dot in function.push(only(i, u, function.inputs))]


def _bound(
    measurement: Measurement,
    function: FunctionUnderCheck,
    moved: np.ndarray,
    out: np.ndarray,
    v: np.ndarray | None,
) -> float | np.ndarray:
    """How far a product (or with `v` None, each entry of ``J u``) may be from the one measured."""
    single = any(x.dtype.name not in ("float64", "complex128") for x in (*function.inputs, out))
    relative = SINGLE if single else EXACT if measurement.exact else DIFFERENCES
    size = float(np.max(np.abs(out), initial=0.0))
    floor = (EXACT if measurement.exact else ROUNDING * 1e-6 / measurement.eps) * size
    weight = np.ones_like(moved) if v is None else np.abs(v)
    terms = weight * (relative * np.abs(moved) + floor + 1e-14)
    return terms if v is None else float(terms.sum())


def _compare_whole_jacobians(
    function: FunctionUnderCheck,
    settings: CheckSettings,
    place: tuple[str, int, int],
    ours: np.ndarray,
    theirs: np.ndarray,
    bound: float | np.ndarray,
) -> None:
    """Let whole Jacobians decide where a product is further off than measuring explains."""
    if ours.shape == theirs.shape and np.all(np.abs(ours - theirs) <= bound):
        return
    if (difference := first_difference(function, settings)) is not None:
        text, picture = difference
        words = f"{mismatch(*place, theirs, ours)}\n{EXPLANATION}\n{text}"
        raise broken(function, words, picture)
