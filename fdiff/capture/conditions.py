"""Hand-written memoisation: from where the number comes that a condition compares with.

Python has no record of that, so it is taken from the bytecode of the condition: the names that it
loads, also by way of local variables and arguments of functions.
"""

from __future__ import annotations

import builtins
import dis
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import NamedTuple, cast

import fdiff.intact_numpy as np

from .value_kinds import SCALARS, is_traced

_PACKAGE = str(Path(__file__).parents[1])
_PASSED_OVER = (_PACKAGE, str(Path(np.__file__).parent), "<__array_function__")
# Steps that ask for the truth value of what was computed before, or store it.
_ASKS = re.compile(".*JUMP|TO_BOOL|UNARY_NOT|STORE_(FAST|DEREF|GLOBAL|NAME)")
_PLAIN = frozenset(("CACHE", "PRECALL", "NOP", "COPY", "EXTENDED_ARG"))
_NUMBERS = frozenset(("LOAD_CONST", "LOAD_SMALL_INT"))
_INDEXED = {"BINARY_SUBSCR": 1, "BINARY_SLICE": 2, "BUILD_SLICE": 3}  # by so many numbers
_BY_NAME = frozenset(("eval", "exec", "getattr", "globals", "locals", "vars", "__import__"))
_CONTAINERS = (list, tuple, dict, deque, np.ndarray)
_READ_IN_CODE = ("__get__", "__getitem__", "__iter__", "__float__", "__array__")
_IDENTIFIER = re.compile(r"([^\W\d]\w*)(\[.*\])?$", re.DOTALL)


class Origins(NamedTuple):
    """What a condition, and what it is made of, loads: names, those from outside, and numbers."""

    names: frozenset[str]
    outside: frozenset[str]
    numbers: frozenset[object]


def identifier(place: str) -> str:
    """The variable or attribute that a place lies in: ``b`` of ``f.b['low']``."""
    match = _IDENTIFIER.search(place)
    return match[1] if match else place


def is_data(value: object) -> bool:
    """Whether what is read of a value is there as data: no code of the user computes it."""
    return not _reads_in_code(value) and (is_traced(value) or not callable(value))


def _reads_in_code(value: object) -> bool:
    """Whether the items or the number of an object come from methods of its class."""
    if type(value) in SCALARS or isinstance(value, (*_CONTAINERS, ModuleType)) or is_traced(value):
        return False
    return any(hasattr(type(value), name) for name in _READ_IN_CODE)


def is_of_numpy(name: str) -> bool:
    """Whether a name is one of NumPy or of Python, which compute with what they are given."""
    spaces = (np, np.ndarray, builtins)
    return name not in _BY_NAME and any(hasattr(space, name) for space in spaces)


def origins(frame: FrameType | None, root: str) -> Origins:
    """What the condition under way loads, also by way of arguments of functions.

    `root` is the name of the function of this package that has called the user's.
    """
    frames: list[FrameType] = []
    last = 0  # so many of the frames lie within the user's function
    while frame is not None:
        frames.append(frame)
        if frame.f_code.co_name == root and frame.f_code.co_filename.startswith(_PACKAGE):
            last = len(frames)
        frame = frame.f_back
    names, outside, numbers = set[str](), set[str](), set[object]()
    for frame in frames[:last]:
        code = frame.f_code
        if code.co_filename.startswith(_PASSED_OVER):
            continue
        loaded = _loaded(code, frame.f_lasti)
        names |= loaded.names
        outside |= {n for n in loaded.outside if not is_traced(frame.f_locals.get(n))}
        numbers |= loaded.numbers
        local = {name: frame.f_locals.get(name) for name in loaded.names}
        outside |= {f"{name}[]" for name, value in local.items() if _reads_in_code(value)}
        arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + 2]
        if not any(_computed(local[name]) for name in loaded.names & {*arguments}):
            break
    return Origins(frozenset(names), frozenset(outside), frozenset(numbers))


def _computed(value: object) -> bool:
    """Whether an argument may hold what the caller has read elsewhere."""
    return not is_traced(value) and not hasattr(value, "__dict__")


@lru_cache(maxsize=256)
def _steps(code: CodeType) -> tuple[dis.Instruction, ...]:
    return tuple(step for step in dis.get_instructions(code) if step.opname not in _PLAIN)


def with_functions(of: Origins, functions: Mapping[str, CodeType]) -> Origins:
    """As `of`, with what the functions among its names load as well."""
    waiting, seen = [*of.outside], {*of.outside}
    while waiting:
        if (code := functions.get(waiting.pop())) is not None:
            more = _loads(_steps(code), _steps(code))
            waiting += more.outside - seen
            seen |= more.outside
            names, outside = of.names | more.names, of.outside | more.outside
            of = Origins(names, outside, of.numbers | more.numbers)
    return of


@lru_cache(maxsize=256)
def _loaded(code: CodeType, at: int) -> Origins:
    """What the expression under way loads."""
    steps = _steps(code)
    place = max((k for k, step in enumerate(steps) if step.offset <= at), default=0)
    while place and _ASKS.match(steps[place].opname):
        place -= 1
    within = [step for step in steps[: place + 1] if _lies_in(step, steps[place])]
    return _loads(steps, within)


def _loads(steps: Sequence[dis.Instruction], within: Sequence[dis.Instruction]) -> Origins:
    """What some steps of a function load, and what was assigned to the variables in them."""
    names, outside, numbers, waiting = set[str](), set[str](), set[object](), [*within]
    indices = _indices(steps)
    while waiting:
        step = waiting.pop()
        if step.opname in _NUMBERS and step.offset not in indices:
            numbers |= {*_numbers(step.argval)}
        elif "LOAD_" in step.opname and isinstance(step.argval, str | tuple):
            for name in {step.argval} if isinstance(step.argval, str) else {*step.argval}:
                if name not in names:
                    names.add(name)
                    lines = {s.positions.lineno for s in steps if s.positions and _stores(s, name)}
                    waiting += [s for s in steps if s.positions and s.positions.lineno in lines]
                    if not lines and "FAST" not in step.opname:
                        outside.add(name)
    return Origins(frozenset(names), frozenset(outside), frozenset(numbers))


def _indices(steps: Sequence[dis.Instruction]) -> set[int]:
    """Where numbers are loaded that are indices of containers."""
    indices = set[int]()
    for k, step in enumerate(steps):
        most = _INDEXED.get(step.opname, int(step.argrepr == "[]"))
        before = takewhile(lambda b: b.opname in _NUMBERS, steps[max(k - most, 0) : k][::-1])
        indices |= {step.offset for step in before}
    return indices


def _lies_in(step: dis.Instruction, whole: dis.Instruction) -> bool:
    a, b = step.positions, whole.positions
    if a is None or b is None or None in {*a, *b}:
        return a is None or b is None or a.lineno == b.lineno
    begins = (a.lineno, a.col_offset) >= (b.lineno, b.col_offset)
    ends = (a.end_lineno, a.end_col_offset) <= (b.end_lineno, b.end_col_offset)
    return begins and ends


def _stores(step: dis.Instruction, name: str) -> bool:
    stored = step.argval if isinstance(step.argval, tuple) else (step.argval,)
    return step.opname.startswith(("STORE_FAST", "STORE_DEREF")) and name in stored


def _numbers(value: object) -> Iterator[object]:
    if isinstance(value, tuple | frozenset):
        for part in cast("tuple[object, ...]", value):
            yield from _numbers(part)
    elif isinstance(value, int | float | complex) and not isinstance(value, bool):
        yield value
