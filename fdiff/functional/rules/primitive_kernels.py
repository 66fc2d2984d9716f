"""Kernels of the user's primitives: from a text, or from the address of a C function."""

from __future__ import annotations

import ast
import ctypes
import linecache
import re
from collections.abc import Sequence
from inspect import Parameter, signature
from textwrap import dedent
from types import CodeType
from typing import Any

from ... import kernels
from ...dispatch.arguments import Function
from ...errors import InputError, failure, message
from ...kernel_rule import CAddress, KernelRule, KernelStep, Kind
from ...named_tuples import NamedTuple
from ...source_lines import source_lines
from ...syntax_trees import walk
from ...user_lines import Line

_TEXT = "<kernel text>"
_C_FUNCTION = ctypes.CFUNCTYPE(None).__bases__[0]  # the class of all functions of ctypes
_AS_TEXT = "Give it as a text: kernel='lambda x: rt.exp(-x)', or with def."
_DOUBLES = re.compile(
    r"double *\((?:const )?(double\b[^,]*(?:, *double\b[^,]*)*)(, *int __pyx_skip_dispatch)?\)"
)
_ADDRESSES = (
    "Give an object of numba.cfunc, a ctypes function with argtypes and restype, a capsule of"
    " Cython or a scipy.LowLevelCallable, or an integer."
)


class UserKernel(NamedTuple):
    """The kernel rule of a primitive, and its number of operands."""

    rule: KernelRule
    operands: int


# --- texts ----------------------------------------------------------------------------------------


def kernel_of_text(source: object, call: str) -> UserKernel:
    """The kernel of a text or Python function in the kernel language."""
    function, name = _parsed(source, call)
    try:
        rule = kernels.rule_of_text(function)
    except kernels.UserTextError as error:
        raise _wrong_text(call, error.fact, error.way, (name, error.line)) from None
    return UserKernel(rule, len(function.args.args))


def _wrong_text(call: str, fact: str, way: str, line: Line) -> InputError:
    return InputError(message(call, fact, way, line))


def _parsed(source: object, call: str) -> tuple[ast.FunctionDef | ast.Lambda, str]:
    """The function as a syntax tree, and the name of the file that its lines are of."""
    if not isinstance(source, str):
        return _function_of_code(source, call)
    text = dedent(source).strip("\n")
    linecache.cache[_TEXT] = len(text), None, text.splitlines(keepends=True), _TEXT
    try:
        body = ast.parse(text).body
    except SyntaxError as error:
        line = (_TEXT, error.lineno or 1)
        raise _wrong_text(
            call, f"the kernel text is no Python: {error.msg}.", _AS_TEXT, line
        ) from None
    node = body[0] if len(body) == 1 else None
    function = node.value if isinstance(node, ast.Expr) else node
    if not isinstance(function, ast.FunctionDef | ast.Lambda):
        fact = "the kernel text is not one function."
        raise _wrong_text(call, fact, _AS_TEXT, (_TEXT, 1))
    return function, _TEXT


def _function_of_code(source: object, call: str) -> tuple[ast.FunctionDef | ast.Lambda, str]:
    """The source of a Python function, or of the Python function that Numba compiled."""
    function = getattr(source, "py_func", source)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        fact = f"kernel must be a text or a Python function, not {type(source).__name__}."
        raise failure(InputError, call, fact, _AS_TEXT)
    lines = source_lines(code.co_filename, getattr(function, "__globals__", None))
    tree = ast.parse("".join(lines)) if lines else ast.Module([], [])
    marks = [(*p,) for p in code.co_positions() if all(p[1:])]  # not those before the first
    functions = [n for n in walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda)]
    around = [n for n in functions if all(_encloses(n, mark) for mark in marks)]
    if not around or not marks:
        fact = "the source of the kernel's function is not known."
        raise failure(InputError, call, fact, _AS_TEXT)
    return max(around, key=lambda n: (n.lineno, n.col_offset)), code.co_filename


def _encloses(node: Any, mark: tuple[object, ...]) -> bool:
    """Whether a piece of source lies in a function."""
    line, end_line, column, end_column = mark
    begin, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
    return begin <= (line, column) and (end_line, end_column) <= end


# --- addresses ------------------------------------------------------------------------------------


def kernel_of_address(source: object, call: str, partials: Function) -> UserKernel:
    """The kernel that calls a C function of doubles, which gives a double."""
    address, parameters = _address(source, call)
    doubles, ints = parameters or _Doubles(_count(partials, call))
    operands = ", ".join(f"np.float64({{{k}}})" for k in range(doubles)) + ", 0" * ints
    text = f"{{T}}(rt.double{doubles + ints}({{{doubles}}}, {operands}))"
    step = KernelStep(text, tuple(range(doubles + 1)))
    rule = KernelRule(Kind.ELEMENTWISE, steps=(step,), address=CAddress(address, source))
    return UserKernel(rule, doubles)


class _Doubles(NamedTuple):
    """The number of doubles that a C function takes, and of the zero integers after them."""

    doubles: int
    ints: int = 0


def _address(source: Any, call: str) -> tuple[int, _Doubles | None]:
    """The address of a C function, and its parameters if the object tells them."""
    if type(source).__name__ == "PyCapsule":
        return _of_capsule(source, call)
    if type(source).__name__ == "LowLevelCallable":
        if source.user_data is not None:
            raise failure(InputError, call, "the LowLevelCallable has user_data.", _ADDRESSES)
        return _address(source.function, call)
    function: Any = source if isinstance(source, _C_FUNCTION) else getattr(source, "ctypes", None)
    if isinstance(function, _C_FUNCTION):
        types: Sequence[object] = function.argtypes or ()
        if not types or {function.restype, *types} != {ctypes.c_double}:
            fact = "argtypes and restype do not say that the C function takes and returns doubles."
            raise failure(InputError, call, fact, "Set them, or write a C function that does.")
        return ctypes.cast(function, ctypes.c_void_p).value or 0, _Doubles(len(types))
    number = getattr(source, "address", source)
    if isinstance(number, int) and not isinstance(number, bool) and number > 0:
        return number, None
    fact = f"address must be the address of a C function, not {type(source).__name__}."
    raise failure(InputError, call, fact, _ADDRESSES)


def _of_capsule(capsule: object, call: str) -> tuple[int, _Doubles]:
    """The address in a capsule of Cython, and its signature, which is the capsule's name."""
    api = ctypes.pythonapi
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", api)
    )
    name = name_of(capsule) or b""
    match = _DOUBLES.fullmatch(name.decode())
    if match is None:
        fact = f"the capsule holds a function {name.decode()!r}, not one of doubles."
        raise failure(
            InputError, call, fact, "Take the one whose signature is double (double, ...)."
        )
    return pointer_of(capsule, name) or 0, _Doubles(match[1].count("double"), int(bool(match[2])))


def _count(partials: Function, call: str) -> int:
    """How many arguments an operation has, of which its partial derivatives are given them all."""
    kinds = [p.kind for p in signature(partials).parameters.values()]
    if Parameter.VAR_POSITIONAL in kinds or len(kinds) < 2:
        fact = "the address does not tell how many arguments the C function takes."
        raise failure(InputError, call, fact, "Write partials(x, y, out) with a name for each.")
    return len(kinds) - 1
