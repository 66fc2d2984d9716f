"""Formulas of complex numbers on their real and imaginary parts, for bytecode and for loops in kernels.

They are the formulas of NumPy's loops (numpy/_core/src/umath/loops.c.src).
"""

from __future__ import annotations

from ...kernel_rule import COMPLEX, ComplexFormula

_TWO = (COMPLEX, COMPLEX)
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

ADD = ComplexFormula(_TWO, ("u0 + u1", "v0 + v1"))
SUBTRACT = ComplexFormula(_TWO, ("u0 - u1", "v0 - v1"))
MULTIPLY = ComplexFormula(_TWO, ("u0 * u1 - v0 * v1", "u0 * v1 + v0 * u1"))
DIVIDE = ComplexFormula(_TWO, _DIVIDED, _SMITH)
NEGATIVE = ComplexFormula((COMPLEX,), ("-u0", "-v0"))
SQUARE = ComplexFormula((COMPLEX,), ("u0 * u0 - v0 * v0", "u0 * v0 + v0 * u0"))
EXP = ComplexFormula((COMPLEX,), _EXPONENTIAL, _EXP)
CONJUGATE = ComplexFormula((COMPLEX,), ("u0", "-v0"))
REAL = ComplexFormula((COMPLEX,), ("u0",))
IMAG = ComplexFormula((COMPLEX,), ("v0",))
PAIR = ComplexFormula(("f8", "f8"), ("f0", "f1"))
ABSOLUTE = ComplexFormula((COMPLEX,), ("rt.hypot(u0, v0)",))
SQUARED_MODULUS = ComplexFormula((COMPLEX,), ("size * size",), ("size = rt.hypot(u0, v0)",))
WHERE = ComplexFormula(("b1", COMPLEX, COMPLEX), ("u1 if t0 else u2", "v1 if t0 else v2"))
CONVERT = (
    ComplexFormula(("f8",), ("f0", "0.0")),
    ComplexFormula(("i8",), ("np.float64(n0)", "0.0")),
    ComplexFormula(("b1",), ("1.0 if t0 else 0.0", "0.0")),
)
