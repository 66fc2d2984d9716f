"""Derivatives of a function of one number from its values alone, at a point and on each side of it.

Polynomials through Chebyshev points (L. N. Trefethen, "Approximation Theory and Approximation
Practice", 2013) on intervals of several lengths: a derivative is known where two lengths agree.
Where none do on one side, because the point is a branch point, the derivative nearby is followed
to it: it has a limit, or grows without bound.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

LENGTHS = ((0.8, 25), (0.4, 21), (0.2, 17), (0.1, 13), (0.05, 11), (0.02, 9))  # and points
NEARBY = (0.02, 0.004, 0.0008, 0.00016)  # distances from a branch point
ORDERS = 4  # from 0 to 3
AGREED = 1e-5
KINK, UNBOUNDED, UNKNOWN = "kink", "unbounded", "unknown"


class Known(NamedTuple):
    """What is known of a derivative: its value, or why there is none."""

    value: float
    lacking: str = ""
    sign: float = 0.0  # of what grows without bound, where that is known
    error: float = 0.0  # of what is extrapolated
    sides: tuple[float, ...] = ()  # of a kink: the derivatives that there are on one side

    @property
    def after(self) -> Known:
        """What is known of the next order, if this one is lacking."""
        return Known(np.nan, self.lacking)


@cache
def _weights(at: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes on [-1, 1], and the weights of the derivatives at `at` of a polynomial through them."""
    nodes = np.cos(np.pi * (np.arange(n) + 0.5) / n)
    inverse = np.linalg.inv(chebyshev.chebvander(nodes, n - 1))
    rows = []
    for k in range(ORDERS):
        derivative = chebyshev.chebder(np.eye(n), k) if k else np.eye(n)
        rows.append(chebyshev.chebval(at, derivative) @ inverse)
    return nodes, np.array(rows)


def _plans() -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The side, the offsets and the weights of each fit."""
    plans = []
    for h, n in LENGTHS:
        for side, at, low in (("both", 0.0, -h), ("right", -1.0, 0.0), ("left", 1.0, -h)):
            nodes, rows = _weights(at, n)
            half = 0.5 * (h - low) if side != "left" else 0.5 * h
            scale = half ** -np.arange(ORDERS)[:, None]
            plans.append((side, low + half * (nodes + 1.0), rows * scale))
    for s in NEARBY:
        nodes, rows = _weights(0.0, 13)
        scale = (0.5 * s) ** -np.arange(ORDERS)[:, None]
        plans.append(("right of", s + 0.5 * s * nodes, rows * scale))
        plans.append(("left of", -s + 0.5 * s * nodes, rows * scale))
    return plans


_PLANS = _plans()
OFFSETS = np.concatenate([offsets for _, offsets, _ in _PLANS])


def _agreed(fits: list[np.ndarray]) -> np.ndarray:
    """The derivatives in which two fits agree best; nan for the others."""
    best, least = np.full(ORDERS, np.nan), np.full(ORDERS, AGREED)
    for i, a in enumerate(fits):
        for b in fits[:i]:
            error = np.abs(a - b) / (1e-2 + np.abs(a) + np.abs(b))
            closer = error < least
            best, least = np.where(closer, a, best), np.where(closer, error, least)
    return best


def _followed(nearby: list[np.ndarray], k: int) -> Known:
    """The limit of the derivative of order `k`, met from farther to nearer."""
    v = np.array([fit[k] for fit in nearby])
    if len(v) < len(NEARBY) or not np.all(np.isfinite(v)):
        return Known(np.nan, UNKNOWN)
    steps = np.diff(v)
    if np.all(np.abs(steps) <= 1e-6 * (1e-3 + np.abs(v[1:]))):
        return Known(v[-1])
    ratios = steps[1:] / steps[:-1]
    grows = np.all((ratios > 0.95) & (ratios < 5.0**4))
    if grows and abs(steps[-1]) > 1e-3 * (1.0 + abs(v[0])):  # more than rounding errors do
        return Known(np.nan, UNBOUNDED, float(np.sign(steps[-1])))
    if np.all((ratios > 0.0) & (ratios < 0.7)):
        more = steps[-1] * ratios[-1] / (1.0 - ratios[-1])
        return Known(v[-1] + more, error=abs(more))
    return Known(np.nan, UNKNOWN)


def derivatives(at: float, values: np.ndarray) -> list[Known]:
    """Of the orders 1 to 3, from the value at the point and those at `OFFSETS`."""
    found: dict[str, list[np.ndarray]] = {}
    place = 0
    for side, offsets, weights in _PLANS:
        some = values[place : place + offsets.size]
        place += offsets.size
        if np.all(np.isfinite(some)):
            found.setdefault(side, []).append(weights @ some)
    agreed = {side: _agreed(found.get(side, [])) for side in ("both", "right", "left")}
    lengths = {side: len(found.get(f"{side} of", [])) == len(NEARBY) for side in ("right", "left")}
    sides = [side for side, there in lengths.items() if there]
    for side in sides:  # a jump
        if abs(agreed[side][0] - at) > 1e-3 * (1.0 + abs(at)):
            return [Known(np.nan, KINK)] * (ORDERS - 1)
    known = []
    for k in range(1, ORDERS):
        known.append(
            _of_order(k, agreed, sides, found)
            if not known or not known[-1].lacking
            else known[-1].after
        )
    return known


def _of_order(
    k: int, agreed: dict[str, np.ndarray], sides: list[str], found: dict[str, list[np.ndarray]]
) -> Known:
    centre = agreed["both"][k]
    values = [agreed[side][k] for side in sides]
    if np.isfinite(centre) and all(_same(v, centre) for v in values if np.isfinite(v)):
        return Known(centre)
    each = [
        Known(v) if np.isfinite(v) else _followed(found[f"{side} of"], k)
        for side, v in zip(sides, values, strict=True)
    ]
    if not each:
        return Known(np.nan, UNKNOWN)
    if any(e.lacking == UNKNOWN for e in each):
        return Known(np.nan, UNKNOWN)
    if len(each) == 2:
        sides = tuple(e.value for e in each if not e.lacking)
        return each[0] if len(sides) == 2 and _same(*sides) else Known(np.nan, KINK, sides=sides)
    return each[0]


def _same(a: float, b: float) -> bool:
    return bool(abs(a - b) <= 1e-3 * (1e-2 + abs(b)))
