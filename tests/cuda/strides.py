"""How far apart the entries lie that neighbouring threads access, read from PTX.

An abstract interpretation of PTX: the value of a register is how much it grows from a thread to the
next. Quotients are taken as constant, which they are for all threads but those at the end of a row,
and remainders grow as what is divided. `ROWS` stands for growth by a size, as that of threads which
have a row each, and `None` for what is not known, such as an index that was loaded.
"""

from __future__ import annotations

import re

_LINE = re.compile(r"^\s*(?:@!?%p\d+ )?([a-z][\w.]*)\s+(.*);$")
_ADDRESS = re.compile(r"\[(%\w+)(?:\+-?\d+)?\]")
_SHIFT = "shl"
_SAME = ("mov", "cvt", "cvta")
_NUMBER = re.compile(r"-?\d+")
_UNKNOWN = object()
ROWS = "rows"


def strides_of(ptx: str) -> list[object]:
    """For each access to global memory, the bytes from thread to thread; None if not known."""
    lines = [m.groups() for line in ptx.split("\n") if (m := _LINE.match(line))]
    known: dict[str, object] = {}
    changed = True
    while changed:
        changed = False
        for name, rest in lines:
            parts = [p.strip() for p in rest.split(",")]
            if not parts[0].startswith("%") or name.startswith(("st.", "setp", "bra", "bar")):
                continue
            for register in parts[0].split("|"):
                value = _grown(name, parts[1:], known)
                old = known.get(register, _UNKNOWN)
                if value is _UNKNOWN or old == value:
                    continue
                new = value if old is _UNKNOWN else None
                if old is not _UNKNOWN and old is None:
                    continue
                known[register], changed = new, True
    out = []
    for name, rest in lines:
        if name.startswith(("ld.global", "st.global")):
            register = _ADDRESS.search(rest)[1]
            out.append(known.get(register))
    return out


def _grown(name: str, parts: list[str], known: dict[str, object]) -> object:
    """How much the result of an instruction grows from thread to thread."""
    kind = name.split(".", maxsplit=1)[0]
    if kind == "ld":
        return 0 if name.startswith("ld.param") else None
    if kind == "selp":  # the test is one of positions: most neighbours take the same side
        parts = parts[:2]
    values = [_value(p, known) for p in parts]
    if _UNKNOWN in values:
        return _UNKNOWN
    if kind in _SAME:
        return values[0]
    if all(v == 0 for v in values):
        return 0
    if kind == "shr" or (kind == "and" and parts[1].startswith("-")):
        return 0  # a quotient by a power of two, or that times the power
    if None in values:
        return None
    if ROWS in values:
        return _by_rows(kind, values)
    if kind == "add":
        return values[0] + values[1]
    if kind == "sub":
        return values[0] - values[1]
    if kind == _SHIFT and _NUMBER.fullmatch(parts[1]):
        return values[0] << int(parts[1])
    if kind in ("mul", "mad"):
        product = _product(parts, values)
        return product if kind == "mul" or product is None else product + values[2]
    if kind == "div":
        return 0
    if kind == "rem":
        return values[0]
    if kind == "selp":
        return values[0] if values[0] == values[1] else None
    return None


def _by_rows(kind: str, values: list[object]) -> object:
    """What an instruction makes of growth by a size: growth by a size, but for quotients."""
    if kind == "div":
        return 0
    known = kind in ("add", "mul", "mad", "rem", _SHIFT) or (kind == "sub" and values[1] != ROWS)
    return ROWS if known else None


def _product(parts: list[str], values: list[object]) -> object:
    for k in (0, 1):
        if _NUMBER.fullmatch(parts[k]):
            return int(parts[k]) * values[1 - k]
    if values[0] == values[1] == 0:
        return 0
    return ROWS if 0 in values[:2] else None  # one factor is the same for all threads: a size


def _value(text: str, known: dict[str, object]) -> object:
    if text == "%tid.x":
        return 1
    if not text.startswith("%") or "." in text:
        return 0
    return known.get(text, _UNKNOWN)
