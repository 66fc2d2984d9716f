"""What the texts of operations cost, in additions."""

from __future__ import annotations

import re

_CHEAP = (
    "math.sqrt",
    "math.copysign",
    "rt.floor",
    "rt.ceil",
    "rt.trunc",
    "rt.maximum",
    "rt.minimum",
    "rt.sign",
    "rt.isnan",
    "rt.isfinite",
    "rt.isinf",
)
# Up to so many calls of elementary functions in a kernel are inlined, which takes 5 to 9 ms of
# compile time each. More are calls of vector functions, at 2 ms each and 20 ms a function, and as
# fast where loops are long.
INLINED = 16
SLOW = 20  # cost of a transcendental function, in additions
# Functions of kernel texts that have most of their instructions in common with one: in one loop
# they cost little more than it (`kernels/runtime/maths/slopes.py`).
_ALIKE = (
    ("tanh", "sech_squared"),
    ("expit", "logistic_slope"),
    ("exp", "expm1"),
    ("logaddexp", "first_share", "second_share"),
    ("logaddexp2", "first_share2", "second_share2"),
    ("hypot", "first_direction", "second_direction"),
)
ALIKE = {f"rt.{name}": f"rt.{functions[0]}" for functions in _ALIKE for name in functions}
_CALL = re.compile(r"(rt\.\w+)\([{}0-9, ]*\)")  # of a function on operands alone


def instructions_of(text: str) -> str:
    """The function that has most of the instructions of a text that calls one like it; else ""."""
    call = _CALL.fullmatch(text)
    return ALIKE.get(call[1], "") if call is not None else ""


def flops_of(text: str) -> int:
    """Rough cost of an expression, in additions."""
    if "{" not in text or text == "{0}":
        return 0
    if ("math." in text or "rt." in text) and not text.startswith(_CHEAP):
        return SLOW
    return 4 if "/" in text else 1 + text.count("*")
