"""If-conversion: arms of ``if`` statements that only store one entry, found in the bytecode.

``if a > v[i]: v[i] = a`` does the same as ``v[i] = np.where(a > v[i], a, v[i])``, which needs no
branch (R. Allen and K. Kennedy, Optimizing Compilers for Modern Architectures, Morgan Kaufmann
2001, section 7.2). When Python asks for the truth of the condition, the bytecode of the user's
function tells what the arm does. The names of instructions differ between versions of Python (3.11
to 3.14); an arm with an unknown instruction is left a branch.
"""

from __future__ import annotations

import dis
from collections.abc import Sequence
from types import CodeType
from typing import Any

from ...bounded_cache import keep
from ...named_tuples import NamedTuple

MOST = 60  # steps of an arm
_LOADS = frozenset(("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW", "LOAD_DEREF"))
_PAIRS = frozenset(("LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"))
_CONSTANTS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
_NOTHING = frozenset(("NOP", "NOT_TAKEN", "CACHE", "EXTENDED_ARG"))
_JUMPS = frozenset(("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"))
_ASKING = frozenset(("COMPARE_OP", "TO_BOOL"))  # from 3.13, these ask for the truth, not the jump
_WHEN_FALSE = frozenset((
    "POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE",
))  # fmt: skip
_WHEN_TRUE = frozenset((
    "POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE",
))  # fmt: skip
_OPERATORS = frozenset(("+", "-", "*", "/", "**"))

# A step of a stack machine: "load" and a name, "binary" and an operator, ... (see `_EFFECTS`).
Step = tuple[str, object]


class Arm(NamedTuple):
    """An arm of a branch as steps of a stack machine; it runs where the condition is `when`."""

    steps: tuple[Step, ...]
    when: bool


# By id of a code, and offset.
_MOST = 1 << 12  # arms that are remembered
_arms: dict[tuple[int, int], tuple[CodeType, Arm | None]] = {}


def arm_at(code: CodeType, at: int) -> Arm | None:
    """The arm of the ``if`` whose condition is tested at an offset of the code.

    None if there is no ``if``, or if its arm does anything but store one entry.
    """
    key = id(code), at  # a code is slow to hash
    entry = _arms.get(key)
    if entry is None or entry[0] is not code:
        entry = keep(_arms, key, (code, _arm_in_bytecode(code, at)), _MOST)
    return entry[1]


def _arm_in_bytecode(code: CodeType, at: int) -> Arm | None:
    """The arm as `arm_at` gives it, found in the bytecode."""
    every = [i for i in dis.get_instructions(code) if i.opname not in _NOTHING]
    here = next((k for k, i in enumerate(every) if i.offset == at), None)
    if here is None:
        return None
    if every[here].opname in _ASKING:
        here += 1
    jump = every[here].opname
    if jump not in _WHEN_FALSE and jump not in _WHEN_TRUE:
        return None
    target, behind = _jump_target(every, every[here].argval), here + 1
    paths = {True: behind, False: target} if jump in _WHEN_FALSE else {True: target, False: behind}
    for when in (True, False):
        steps = _steps(every, paths[when], _end_of_jumps(every, paths[not when]))
        if steps is not None:
            return Arm(steps, when)
    return None


def _jump_target(every: Sequence[dis.Instruction], offset: int) -> int:
    """The position among the instructions that a jump to an offset goes to."""
    return next((k for k, i in enumerate(every) if i.offset >= offset), len(every) - 1)


def _end_of_jumps(every: Sequence[dis.Instruction], k: int) -> object:
    """Where unconditional jumps from an instruction end.

    The position of an instruction, or, if that returns a constant, which constant: there may be
    several such returns in place of one after both arms.
    """
    for _ in range(len(every)):
        i = every[k]
        if i.opname in _JUMPS:
            k = _jump_target(every, i.argval)
        elif i.opname == "RETURN_CONST":
            return "LOAD_CONST", i.arg
        elif i.opname in _CONSTANTS and every[k + 1].opname == "RETURN_VALUE":
            return i.opname, i.arg
        else:
            break
    return k


def _steps(every: Sequence[dis.Instruction], k: int, end: object) -> tuple[Step, ...] | None:
    """The steps from an instruction to `end`, if they store exactly one entry and do no more."""
    steps: list[Step] = []
    depth = stores = 0
    while _end_of_jumps(every, k) != end:
        i = every[k]
        if i.opname in _JUMPS:
            k = _jump_target(every, i.argval)
            continue
        more = _step(i)
        if more is None or stores or len(steps) > MOST:
            return None
        for step in more:
            need, change = _effect(*step)
            if depth < need:
                return None
            depth += change
            stores += step[0] == "store"
        steps += more
        k += 1
    return tuple(steps) if stores and not depth else None


# By step: how many values it needs on the stack, and how many more there are afterwards.
_EFFECTS = {
    "load": (0, 1), "global": (0, 1), "constant": (0, 1), "entry": (2, -1), "binary": (2, -1),
    "negative": (1, 0), "store": (3, -3),
}  # fmt: skip


def _effect(name: str, n: Any) -> tuple[int, int]:
    """How many values a step needs on the stack, and how many more there are afterwards.

    `n` is the argument of the step.
    """
    if name in _EFFECTS:
        return _EFFECTS[name]
    return n, 1 - n if name == "tuple" else int(name == "copy")


def _step(i: dis.Instruction) -> list[Step] | None:
    """An instruction as steps; None if it is not among those that an arm may have."""
    name = i.opname
    if name in _LOADS:
        return [("load", i.argval)]
    if name in _PAIRS:
        return [("load", variable) for variable in i.argval]
    if name in _CONSTANTS:
        return [("constant", i.argval)]
    if name == "LOAD_GLOBAL":
        return None if i.arg is None or i.arg & 1 else [("global", i.argval)]
    if name == "BINARY_SUBSCR" or (name == "BINARY_OP" and i.argrepr == "[]"):
        return [("entry", None)]
    if name == "BINARY_OP":
        sign = i.argrepr.removesuffix("=")  # numbers are not changed in place
        return [("binary", sign)] if sign in _OPERATORS else None
    if name == "UNARY_NEGATIVE":
        return [("negative", None)]
    if name == "BUILD_TUPLE":
        return [("tuple", i.arg)]
    if name in ("COPY", "SWAP"):
        return [(name.lower(), i.arg)]
    return [("store", None)] if name == "STORE_SUBSCR" else None
