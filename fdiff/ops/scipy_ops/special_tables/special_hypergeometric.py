"""Hypergeometric functions, in their argument; parameters are constants (DLMF 13.3, 15.5)."""

from __future__ import annotations

import fdiff.intact_numpy as np
from fdiff.intact_scipy import special as sc

from ....trace import TracedArray, apply
from ...entrywise.sample_domains import positive, real, unit
from .special_family import LACKING, order, special
from .special_gamma import pole

special("hyp0f1", lambda v, z, out: sc.hyp0f1(v + 1, z) / v, order, real)


def _hyp1f1(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """SciPy's function, and 1 for a = 0, where SciPy's is infinite if b is no positive number."""
    value, constant = sc.hyp1f1(a, b, x), np.asarray(a) == 0
    return np.where(constant & np.isfinite(x), 1.0, value) if np.any(constant) else value


def _of_hyp1f1(a: TracedArray, b: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (LACKING, LACKING, np.where(a == 0, 0.0, 1.0 * a / b * apply(hyp1f1, a + 1, b + 1, x)))


hyp1f1 = special("hyp1f1_also_of_0", _of_hyp1f1, order, order, real, evaluate=_hyp1f1)
special("hyp1f1", _of_hyp1f1, order, order, real)


def _hyp2f1(a: np.ndarray, b: np.ndarray, c: np.ndarray, z: np.ndarray) -> np.ndarray:
    """SciPy's function, which divides by the sum of a polynomial where c is no positive number: nan for 0."""
    value = sc.hyp2f1(a, b, c, z)
    lost = np.isnan(value)
    return np.where(lost & pole(c) & (pole(a) | pole(b)) & np.isfinite(z), 0.0, value) if np.any(lost) else value


def _of_hyp2f1(a: TracedArray, b: TracedArray, c: TracedArray, z: TracedArray, out: TracedArray) -> tuple[object, ...]:
    """As SciPy has it, the function is ``(1 - z)**-b`` where a = c = 0; it is 1 where a or b is 0 otherwise."""
    factor = np.where((a == 0) & (c == 0), b, 1.0 * a * b / c)
    slope = np.where((b == 0) | (a == 0) & (c != 0), 0.0, factor * apply(hyp2f1, a + 1, b + 1, c + 1, z))
    return (LACKING, LACKING, LACKING, slope)


hyp2f1 = special("hyp2f1_also_at_zeros", _of_hyp2f1, order, order, order, unit, evaluate=_hyp2f1)
special("hyp2f1", _of_hyp2f1, order, order, order, unit)


def _hyperu(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> np.ndarray:
    """SciPy's function; at 0 the value of a polynomial also where b > 1 (DLMF 13.2.7)."""
    wide, zero = np.asarray(a, float), np.asarray(x) == 0
    value = sc.hyperu(wide, b, x)
    return np.where(zero & pole(wide), sc.poch(wide - b + 1.0, -wide), value) if np.any(zero) else value


def _of_hyperu(a: TracedArray, b: TracedArray, x: TracedArray, out: TracedArray) -> tuple[object, ...]:
    return (LACKING, LACKING, np.where(a == 0, 0.0, -a * apply(hyperu, a + 1, b + 1, x)))


hyperu = special("hyperu_also_at_0", _of_hyperu, order, order, positive, evaluate=_hyperu)
special("hyperu", _of_hyperu, order, order, positive)
