"""What the texts of operations cost, in additions."""

from __future__ import annotations

import re

from .word_table import WORDS, called_word

# Up to so many calls of elementary functions in a kernel are inlined, which takes 5 to 9 ms of
# compile time each. More are calls of vector functions, at 2 ms each and 20 ms a function, and as
# fast where loops are long.
INLINED = 16
SLOW = 20  # cost of a transcendental function, in additions
# The function that a word has most of its instructions in common with, of that function too: in one
# loop both cost little more than one of them (`kernels/runtime/maths/slopes.py`).
ALIKE = {name: word.like for word in WORDS.values() if word.like for name in (word.name, word.like)}
_CALL = re.compile(r"(rt\.\w+)\([{}0-9, ]*\)")  # of a function on operands alone


def instructions_of(text: str) -> str:
    """The function that has most of the instructions of a text that calls one like it; else ""."""
    call = _CALL.fullmatch(text)
    return ALIKE.get(call[1], "") if call is not None else ""


def flops_of(text: str) -> int:
    """Rough cost of an expression, in additions."""
    if "{" not in text or text == "{0}":
        return 0
    word = called_word(text)
    if ("math." in text or "rt." in text) and not (word is not None and word.cheap):
        return SLOW
    return 4 if "/" in text else 1 + text.count("*")
