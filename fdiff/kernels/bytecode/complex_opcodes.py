"""Opcodes of complex numbers, in two slots each: docs/decisions/bytecode-interpreter.md.

The formulas stand on the records of ops. What has none is left to NumPy, which sees the pairs as
complex numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ...kernel_rule import COMPLEX, ComplexFormula

_FAR = 2147483648.0  # angles that are for libm


def forms(formula: ComplexFormula) -> Iterator[tuple[str, list[str]]]:
    """The lines for operands that are single (``S``) or many (``V``): `count` entries in a loop."""
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
    return ["for i in range(count):", *("    " + line for line in lines)]


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
    if dtype == "f8":
        return [f"f{k} = floats[{place}]"]
    return [f"n{k} = ints[{place}]"] if dtype == "i8" else [f"t{k} = ints[{place}] != 0"]


def _stores(parts: tuple[str, ...], *, many: bool) -> list[str]:
    if len(parts) == 1:
        return [f"floats[target{' + i' * many}] = {parts[0]}"]
    place = f"target{' + 2 * i' * many}"
    return [f"u9 = {parts[0]}", f"floats[{place} + 1] = {parts[1]}", f"floats[{place}] = u9"]
