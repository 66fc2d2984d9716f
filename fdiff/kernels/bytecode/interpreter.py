"""The bytecode interpreter as text: a loop over instructions with a branch for each opcode.

The comparisons of one integer with 0, 1, 2, ... become a jump table in machine code: dispatch by a
switch, an idea of many interpreters (M. A. Ertl and D. Gregg, The structure and performance of
efficient interpreters, Journal of Instruction-Level Parallelism 5, 2003).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

ROW = 8  # integers of an instruction
FIELDS = ("count", "target", "a", "b", "c", "steps", "row")
PARAMETERS = {
    "code": "i4*", "first": "i8", "last": "i8", "floats": "f8*", "ints": "i8*", "extra": "i8*",
}  # fmt: skip
INDENT = "    "
_LOCAL = re.compile(r"^ *(?:for )?(\w+) (?:=|in) ", re.MULTILINE)


def interpreter_text(branches: Sequence[tuple[str, ...]]) -> str:
    """``evaluate(code, first, last, floats, ints, extra)``: 0, or the status of what failed.

    It runs the instructions from row `first` up to row `last` of `code` (32-bit integers). `floats`
    and `ints` are the same memory.
    """
    lines = [
        f"def evaluate({', '.join(f'{n}: {kind!r}' for n, kind in PARAMETERS.items())}):",
        f"    p = {ROW} * first",
        f"    while p < {ROW} * last:",
        "        op = np.int64(code[p])",
        *(f"        {name} = np.int64(code[p + {k}])" for k, name in enumerate(FIELDS, 1)),
        f"        p = p + {ROW}",
    ]
    for number, body in enumerate(branches):
        lines.append(f"        {'elif' if number else 'if'} op == {number}:")
        lines += [3 * INDENT + line for line in _renamed(number, body)]
    return "\n".join([*lines, "    return 0"]) + "\n"


def _renamed(number: int, body: tuple[str, ...]) -> list[str]:
    """Lines whose locals no other branch has: compilers take longer over names that are shared."""
    text = "\n".join(body)
    names = "|".join(dict.fromkeys(_LOCAL.findall(text)))
    if not names:
        return list(body)
    return re.sub(rf"\b({names})\b", lambda name: f"{name[0]}_{number}", text).splitlines()
