"""How many trips a ``for`` of the user's has, where its iterator tells: of ranges, lists, arrays.

Nothing depends on it but when calls are logged, and what progress shows.
"""

from __future__ import annotations

import ast
import linecache
import sys
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

import fdiff.intact_numpy as np

from ...bounded_cache import keep
from ...user_lines import numbered
from ..traced_array import TracedArray

_MOST_LOOPS = 1 << 10  # whose iterators are remembered
_LINES = 8  # of the head of a loop
_SIZED = list, tuple, range, np.ndarray, TracedArray
# Code that asks for its own variables, which looking at them would enter anew.
_LOOKS = frozenset(("locals", "vars", "eval", "exec", "dir"))
_heads: dict[tuple[int, int], tuple[CodeType, ast.expr | None]] = {}


def trips_of(frame: FrameType, start: int) -> int | None:
    """The number of trips of the loop of a frame that begins at an instruction, if it is known."""
    code = frame.f_code
    entry = _heads.get((id(code), start))
    if entry is None or entry[0] is not code:
        entry = keep(_heads, (id(code), start), (code, _iterator(code, start)), _MOST_LOOPS)
    if entry[1] is None:
        return None
    with suppress(UnknownError, ArithmeticError, TypeError, ValueError):
        return len(_value(entry[1], frame))
    return None


class UnknownError(Exception):
    """What an expression gives is not known without running it."""


def _iterator(code: CodeType, start: int) -> ast.expr | None:
    """What the loop runs over, by its source, if that is there."""
    if sys.gettrace() is not None or not _LOOKS.isdisjoint(code.co_names):
        return None
    name, number = numbered((code, start))
    text = linecache.getline(name, number).lstrip()
    if not text.startswith("for "):
        return None
    for more in range(1, _LINES):
        at = text.find(":")
        while at >= 0:
            with suppress(SyntaxError):
                loop = ast.parse(text[: at + 1] + " pass").body[0]
                return loop.iter if isinstance(loop, ast.For) else None
            at = text.find(":", at + 1)
        text += linecache.getline(name, number + more)
    return None


def _local(name: str, frame: FrameType) -> object:
    """A variable of a function under way, whose frame keeps no copy of it."""
    here: Any = frame.f_locals
    value = here.get(name, UnknownError)
    if isinstance(here, dict) and frame.f_code.co_flags & 1:  # of a module they are its own
        here.clear()
    if value is UnknownError:
        value = frame.f_globals.get(name)
    if value.__class__ is int or value.__class__ in _SIZED:
        return value
    raise UnknownError


def _value(node: ast.expr, frame: FrameType) -> Any:
    """What an expression of integers, sizes and ranges gives."""
    match node:
        case ast.Constant(value=int()):
            return node.value
        case ast.Name():
            return _local(node.id, frame)
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, frame)
        case ast.BinOp():
            return _combined(node.op, _number(node.left, frame), _number(node.right, frame))
        case ast.Attribute(attr="shape"):
            return np.shape(_value(node.value, frame))
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return _value(node.value, frame)[_number(node.slice, frame)]
        case ast.Call(func=ast.Name(id=name)) if not node.keywords:
            return _called(name, node.args, frame)
        case _:
            raise UnknownError


def _number(node: ast.expr, frame: FrameType) -> int:
    value = _value(node, frame)
    if value.__class__ is not int:
        raise UnknownError
    return value


def _combined(op: ast.operator, left: int, right: int) -> int:
    match op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv():
            return left // right
        case _:
            raise UnknownError


def _called(name: str, args: list[ast.expr], frame: FrameType) -> Any:
    """What a call of a built-in function gives; where only its length counts, a range of it."""
    if name == "range":
        return range(*[_number(a, frame) for a in args])
    if name == "len" and len(args) == 1:
        return len(_value(args[0], frame))
    if name in ("enumerate", "reversed", "zip") and args:
        return range(min([len(_value(a, frame)) for a in (args if name == "zip" else args[:1])]))
    raise UnknownError
