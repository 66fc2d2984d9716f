"""Formulas of complex numbers on their real and imaginary parts, by op, for bytecode and for loops in kernels.

They are the formulas of NumPy's loops (numpy/_core/src/umath/loops.c.src).
"""

from __future__ import annotations

from collections.abc import Mapping

from ...kernel_rule import COMPLEX, ComplexFormula

_ONE, _TWO = (COMPLEX,), (COMPLEX, COMPLEX)
# Smith's division (Communications of the ACM 5, 1962, algorithm 116).
_SMITH = (
    "wide = abs(u1) >= abs(v1)",
    "zero = abs(u1) == 0.0 and abs(v1) == 0.0",
    "great = u1 if wide else v1",
    "small = v1 if wide else u1",
    "ratio = small / great",
    "scale = 1.0 / (great + small * ratio)",
    "first = u0 + v0 * ratio if wide else u0 * ratio + v0",
    "last = v0 - u0 * ratio if wide else v0 * ratio - u0",
)
_DIVIDED = ("u0 / abs(u1) if zero else first * scale", "v0 / abs(u1) if zero else last * scale")

# As C99 has it: parts of infinite arguments by their limits, an imaginary part of 0 as it is. From
# 709 on the exponential is taken in two factors, for a cosine may make up for the second.
_EXP = (
    "large = u0 > 709.0",
    "size = rt.exp(u0 - 700.0 if large else u0)",
    "more = 1.0142320547350045e304 if large else 1.0",
    "along = v0 == 0.0",
    "lost = v0 - v0 != 0.0",
    "first = more * rt.cos(v0) * size",
    "last = more * rt.sin(v0) * size",
)
_EXPONENTIAL = (
    "size * more if along else size if lost and abs(u0) == math.inf else first",
    "v0 if along else size if lost and u0 == -math.inf else last",
)

COMPLEX_FORMULAS: Mapping[str, tuple[ComplexFormula, ...]] = {
    "add": (ComplexFormula(_TWO, ("u0 + u1", "v0 + v1")),),
    "subtract": (ComplexFormula(_TWO, ("u0 - u1", "v0 - v1")),),
    "multiply": (ComplexFormula(_TWO, ("u0 * u1 - v0 * v1", "u0 * v1 + v0 * u1")),),
    "divide": (ComplexFormula(_TWO, _DIVIDED, _SMITH),),
    "negative": (ComplexFormula(_ONE, ("-u0", "-v0")),),
    "square": (ComplexFormula(_ONE, ("u0 * u0 - v0 * v0", "u0 * v0 + v0 * u0")),),
    "exp": (ComplexFormula(_ONE, _EXPONENTIAL, _EXP),),
    "conjugate": (ComplexFormula(_ONE, ("u0", "-v0")),),
    "real": (ComplexFormula(_ONE, ("u0",)),),
    "imag": (ComplexFormula(_ONE, ("v0",)),),
    "complex": (ComplexFormula(("f8", "f8"), ("f0", "f1")),),
    "absolute": (ComplexFormula(_ONE, ("rt.hypot(u0, v0)",)),),
    "squared_modulus": (ComplexFormula(_ONE, ("size * size",), ("size = rt.hypot(u0, v0)",)),),
    "where": (ComplexFormula(("b1", *_TWO), ("u1 if t0 else u2", "v1 if t0 else v2")),),
    "convert": (
        ComplexFormula(("f8",), ("f0", "0.0")),
        ComplexFormula(("i8",), ("np.float64(n0)", "0.0")),
        ComplexFormula(("b1",), ("1.0 if t0 else 0.0", "0.0")),
    ),
}
