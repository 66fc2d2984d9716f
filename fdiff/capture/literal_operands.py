"""Literals of the user's code among the numbers in an operation, recognised by the bytecode.

``if x == 0`` compares with a literal, ``if x == self.last`` with a number that may change. If
the bytecode does not tell, the answer is "no".
"""

from __future__ import annotations

import builtins
import dis
from collections.abc import Sequence
from functools import lru_cache
from types import CodeType

import fdiff.intact_numpy as np

from ..user_lines import Line

_PASSED_OVER = frozenset(("CACHE", "PRECALL", "NOP", "EXTENDED_ARG", "RESUME"))
_LITERALS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
_OPERATORS = frozenset(("COMPARE_OP", "BINARY_OP", "CONTAINS_OP"))
_NAMES = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"))
_CALLS = frozenset(("CALL", "CALL_KW", "CALL_FUNCTION_KW", "KW_NAMES", "PUSH_NULL"))
_MODULES = frozenset(("np", "numpy"))


def is_literal(lines: Sequence[Line], value: np.ndarray) -> bool:
    """Whether all operations that were recorded by these `lines` took a number from a literal."""
    return bool(lines) and all(_takes_literal(line, value) for line in lines)


def asks_for_literal(line: Line) -> bool:
    """Whether a line asks for the truth of a comparison with a literal that it has just made."""
    code, at = line
    if isinstance(code, str):  # a file
        return False
    steps = _steps(code)
    k = _instruction_position(steps, at)
    return k > 0 and steps[k - 1].opname == "COMPARE_OP" and _is_operand(code, steps[k - 1].offset)


def _takes_literal(line: Line, value: np.ndarray) -> bool:
    code, at = line
    if isinstance(code, str):  # a file
        return False
    return _is_operand(code, at) or (value.size == 1 and _is_in_call(code, at, value.item()))


@lru_cache(maxsize=256)
def _steps(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(step for step in dis.get_instructions(code) if step.opname not in _PASSED_OVER)


def _instruction_position(steps: Sequence[dis.Instruction], at: int) -> int:
    return next((k for k, step in enumerate(steps) if step.offset == at), 0)


@lru_cache(maxsize=1024)
def _is_operand(code: CodeType, at: int) -> bool:
    """Whether one operand of the operator at an offset is a literal: the other one is traced."""
    steps = _steps(code)
    k = _instruction_position(steps, at)
    if steps[k].opname not in _OPERATORS or steps[k].is_jump_target or k == 0:
        return False
    if steps[k - 1].opname in _LITERALS:
        return True
    depth = 0
    while k > 1 and depth < 1 and not steps[k].is_jump_target:  # back over the right operand
        k -= 1
        depth += dis.stack_effect(steps[k].opcode, steps[k].arg, jump=False)
    return depth == 1 and steps[k - 1].opname in _LITERALS


@lru_cache(maxsize=1024)
def _is_in_call(code: CodeType, at: int, value: object) -> bool:
    """Whether a call is a NumPy call with one variable and literals, `value` among them."""
    steps = _steps(code)
    whole = steps[_instruction_position(steps, at)]
    if whole.opname not in _CALLS or not whole.positions:
        return False
    within = [s for s in steps if s.offset <= at and _lies_in(s, whole)]
    variables = [s for s in within if s.opname in _NAMES and not _is_of_numpy(str(s.argval))]
    variables += [s for s in within if "LOAD_FAST" in s.opname or "LOAD_DEREF" in s.opname]
    rest = [s for s in within if s.opname not in _NAMES | _CALLS | _LITERALS and s not in variables]
    literals = [s.argval for s in within if s.opname in _LITERALS]
    callee = within[0].opname in _NAMES
    return callee and len(variables) == 1 and not rest and value in literals


def _is_of_numpy(name: str) -> bool:
    return name in _MODULES or any(hasattr(space, name) for space in (np, np.ndarray, builtins))


def _lies_in(step: dis.Instruction, whole: dis.Instruction) -> bool:
    a, b = step.positions, whole.positions
    if a is None or b is None or None in (*a, *b):
        return False
    begins = (a.lineno, a.col_offset) >= (b.lineno, b.col_offset)
    return begins and (a.end_lineno, a.end_col_offset) <= (b.end_lineno, b.end_col_offset)
