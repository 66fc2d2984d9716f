"""Opcodes of complex numbers, each of which lies in two slots: the real part, then the other.

Formulas are those of NumPy's loops (numpy/_core/src/umath/loops.c.src). What has none is left to
NumPy, which sees the pairs as complex numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

REAL, COMPLEX = "f8", "c16"


class Formula(NamedTuple):
    """Lines before, then the parts of the result (one if it is real).

    Operand `k` is ``f<k>`` if real, ``u<k>`` and ``v<k>`` if complex, ``t<k>`` if a truth value and
    ``n<k>`` if whole.
    """

    reads: tuple[str, ...]
    parts: tuple[str, ...]
    before: tuple[str, ...] = ()

    @property
    def gives(self) -> str:
        """Dtype of the result."""
        return COMPLEX if len(self.parts) == 2 else REAL


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
_FAR = 2147483648.0  # angles that are for libm

FORMULAS: dict[str, tuple[Formula, ...]] = {
    "add": (Formula(_TWO, ("u0 + u1", "v0 + v1")),),
    "subtract": (Formula(_TWO, ("u0 - u1", "v0 - v1")),),
    "multiply": (Formula(_TWO, ("u0 * u1 - v0 * v1", "u0 * v1 + v0 * u1")),),
    "divide": (Formula(_TWO, _DIVIDED, _SMITH),),
    "negative": (Formula((COMPLEX,), ("-u0", "-v0")),),
    "square": (Formula((COMPLEX,), ("u0 * u0 - v0 * v0", "u0 * v0 + v0 * u0")),),
    "exp": (Formula((COMPLEX,), _EXPONENTIAL, _EXP),),
    "conjugate": (Formula((COMPLEX,), ("u0", "-v0")),),
    "real": (Formula((COMPLEX,), ("u0",)),),
    "imag": (Formula((COMPLEX,), ("v0",)),),
    "complex": (Formula((REAL, REAL), ("f0", "f1")),),
    "absolute": (Formula((COMPLEX,), ("rt.hypot(u0, v0)",)),),
    "squared_modulus": (Formula((COMPLEX,), ("size * size",), ("size = rt.hypot(u0, v0)",)),),
    "where": (Formula(("b1", COMPLEX, COMPLEX), ("u1 if t0 else u2", "v1 if t0 else v2")),),
    "convert": (
        Formula((REAL,), ("f0", "0.0")),
        Formula(("i8",), ("np.float64(n0)", "0.0")),
        Formula(("b1",), ("1.0 if t0 else 0.0", "0.0")),
    ),
}


def forms(formula: Formula) -> Iterator[tuple[str, list[str]]]:
    """The lines for operands that are single (``S``) or many (``V``): `m` entries in a loop."""
    for kinds in product("VS", repeat=len(formula.reads)):
        before: list[str] = []
        inside: list[str] = []
        for k, (dtype, kind) in enumerate(zip(formula.reads, kinds, strict=True)):
            (before if kind == "S" else inside).extend(_loads(k, dtype, kind))
        inside += [*formula.before, *_stores(formula.parts, many="V" in kinds)]
        if "V" not in kinds:
            yield "S", [*before, *map(_by_libm, inside)]
        elif inside == [_by_libm(line) for line in inside]:
            yield "".join(kinds), [*before, *_loop(inside)]
        else:
            yield "".join(kinds), [*before, *_looked(inside)]


def _loop(lines: list[str]) -> list[str]:
    return ["for i in range(m):", *("    " + line for line in lines)]


def _looked(lines: list[str]) -> list[str]:
    """Angles are looked at before: if one is far, libm takes them all."""
    look = _loop([f"far = 1 if abs(floats[a + 2 * i + 1]) > {_FAR} else far"])
    near, far = _loop(lines), _loop([_by_libm(line) for line in lines])
    return [
        "far = 0",
        *look,
        "if far == 0:",
        *("    " + line for line in near),
        "else:",
        *("    " + line for line in far),
    ]


def _by_libm(line: str) -> str:
    return line.replace("rt.sin(", "math.sin(").replace("rt.cos(", "math.cos(")


def _loads(k: int, dtype: str, kind: str) -> list[str]:
    place = "abc"[k]
    if dtype == COMPLEX:
        place += " + 2 * i" if kind == "V" else ""
        return [f"u{k} = floats[{place}]", f"v{k} = floats[{place} + 1]"]
    place += " + i" if kind == "V" else ""
    if dtype == REAL:
        return [f"f{k} = floats[{place}]"]
    return [f"n{k} = ints[{place}]"] if dtype == "i8" else [f"t{k} = ints[{place}] != 0"]


def _stores(parts: tuple[str, ...], *, many: bool) -> list[str]:
    if len(parts) == 1:
        return [f"floats[d{' + i' * many}] = {parts[0]}"]
    place = f"d{' + 2 * i' * many}"
    return [f"u9 = {parts[0]}", f"floats[{place} + 1] = {parts[1]}", f"floats[{place}] = u9"]
