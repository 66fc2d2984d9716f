"""The shortest way from a call to its kernel: one Python function, written for what came before.

A prepared function that is called again with arrays of the types it had, and whose outside has not
changed, needs a few comparisons and one call of machine code. They are written out here without
loops or containers between them, and hand everything else back to the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_VARKEYWORDS
from types import BuiltinFunctionType, CodeType, FunctionType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..arguments import Function
from ..arraytype import F8, ArrayType
from ..capture.reads import siblings
from ..forking import no_fork
from ..tiers import COPY_BELOW
from ..trace.traced import occupied
from .marks import Mark, postfix
from .written import Found, written

if TYPE_CHECKING:
    from ..program import Program

Quick = Callable[..., object]


def never(*_: object) -> None:
    """The shortcut of a function that has none."""


class Shortcuts:
    """The short ways of one prepared function; the longer none is found, the rarer one is sought.

    `quick` takes the arguments, `into` what is given as ``out`` before them. A way that needs no
    Python at all takes the place of `general`, which it calls where it leads nowhere.
    """

    __slots__ = (
        "_calls", "_count", "_due", "_f", "_program", "general", "gone", "into", "quick", "serves",
        "way",
    )  # fmt: skip
    general: Quick
    way: Callable[[Quick], None]

    def __init__(self, program: Program, f: Function, count: int = 0) -> None:
        self.quick = self.into = never
        self.serves = not _takes(f, "out")  # else what is given as ``out`` is for `f`
        self._program = program
        self._f = f
        self._count = count
        self._calls, self._due = 0, 2
        self.gone: list[Quick] = []  # another thread may be on its way there still

    def look(self, args: tuple[object, ...], into: object = None) -> None:
        """Look for a short way for such arguments, after a call that went the general one."""
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = 2 * self._calls
        general = getattr(self, "general", None)
        found = shortcut(self._program, self._f, args, self._count, general=general)
        if general is not None and isinstance(found, BuiltinFunctionType):
            self.gone.append(found)
            self.quick = never
            self.way(found)
        else:
            self.quick = found or self.quick
        if into is not None and found is not None:
            made = shortcut(self._program, self._f, args, self._count, into=into)
            self.into = made or self.into


class Immediate:
    """The short way of calls that name the function each time, as ``jacobian(f, x)`` does.

    It serves whatever leads to the same objects as the function it was made for: ``lambda`` in a
    loop makes a new function at each turn.
    """

    __slots__ = ("_calls", "_count", "_due", "_program", "quick")

    def __init__(self, program: Program, count: int) -> None:
        self._program = program
        self._count = count
        self._calls, self._due = 0, 2
        self.quick = never  # of the function and its arguments

    def look(self, f: Function, args: tuple[object, ...]) -> None:
        """Look for a short way for such calls, after one that went the general way."""
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = 2 * self._calls
        found = shortcut(self._program, f, args, self._count, named=True)
        if found is not None:
            self.quick = found


def _takes(f: Function, name: str) -> bool:
    """Whether a Python function has a parameter of this name, or takes any."""
    code: CodeType | None = getattr(f, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name in named or bool(code.co_flags & CO_VARKEYWORDS)


def shortcut(
    program: Program,
    f: Function,
    args: tuple[object, ...],
    count: int = 0,
    *,
    into: object = None,
    general: Quick | None = None,
    named: bool = False,
) -> Quick | None:
    """A function of arguments like these: the result, or None where another way must be gone.

    The last `count` of the arguments are vectors the operator takes besides those of `f`. With
    `into`, arrays to write to, the function takes those first. None in place of the function if
    there is no shortcut: what was read or decided is compared in full, the program is interpreted,
    or arguments are neither plain arrays nor floats. A builtin calls `general` instead of giving
    None, and takes the vectors where that does: after the first argument. `named`: the function to
    differentiate comes before all arguments, and may be a sibling of `f`.
    """
    own, vectors = args[: len(args) - count], args[len(args) - count :]
    found = program.latest(own)
    if found is None:
        return None
    plan: Any = found.plan
    step, pins = plan.step_of_all(), found.inner[0][1].pins(f)
    parts = None if step is None else step.runner.parts()
    if step is None or parts is None or pins is None:
        return None
    inputs, types = (*own, *pins[-1], *vectors), step.tape.input_types
    if len(inputs) != len(types) or not all(map(_fits, inputs, types)):
        return None
    marks = [Mark(k) for k in range(len(parts.made))]
    try:
        result = plan.call((*own, *pins[-1]), vectors, lambda _step, _given: marks)
    except (AttributeError, TypeError):  # it is computed from what the kernel gives
        result = None
    call = Found(result, parts, pins, own, vectors)
    short = None if into is not None else _native(call, f if named else None, general)
    if short is not None:
        return short
    short = written(plan, call, into)
    if not named:
        return short
    return lambda g, *args: short(*args) if siblings(g, f) else None


def _fits(given: object, type_: ArrayType) -> bool:
    """Whether a kernel takes what was given as it is."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0 and given.dtype == type_.dtype and given.shape == type_.shape
    return given.__class__ is float and type_ == ArrayType((), F8)


def _native(found: Found, f: Function | None, general: Quick | None) -> Quick | None:
    """The shortcut as a builtin; None where there is more to do than it can.

    With `f`, that or a sibling comes before the arguments.
    """
    with no_fork:
        from ..kernels.native.caller import Output, caller  # noqa: PLC0415 - loaded by now
        from .outside import outside, sibling  # noqa: PLC0415 - it imports the former

    result, parts, pins, own, vectors = found
    marked = postfix(result)
    before = sibling(f) if type(f) is FunctionType else ()
    if marked is None or before is None or (f is not None and not before):
        return None
    order, scalars = marked
    captured = pins[-1]
    count = bool(before) + len(own) + len(vectors)
    at = list(range(bool(before), count))
    if general is not None and vectors:
        at = [0, *at[1 + len(vectors) :], *at[1 : 1 + len(vectors)]]
    sources = [*at[: len(own)], *[-1] * len(captured), *at[len(own) :]]
    values = (*own, *captured, *vectors)
    inputs = [
        one._replace(
            source=source,
            exact=True,
            array=cast("np.ndarray", value) if source < 0 else None,
            copied=isinstance(value, np.ndarray) and value.nbytes <= COPY_BELOW,
        )
        for one, source, value in zip(parts.inputs, sources, values, strict=True)
    ]
    outputs = [Output(*made, scalar=k in scalars) for k, made in enumerate(parts.made)]
    look = outside(pins)
    look = look._replace(reads=(*before, *look.reads))
    if general is not None:
        look = look._replace(occupied=occupied, general=general)
    return caller(parts.call, parts.machinery, count, inputs, outputs, order, look)
