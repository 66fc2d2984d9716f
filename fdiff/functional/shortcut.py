"""The shortest way from a call to its kernel: one Python function, written for what came before.

A prepared function that is called again with arrays of the types it had, and whose outside has not
changed, needs a few comparisons and one call of machine code. They are written out here without
loops or containers between them, and hand everything else back to the general way.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from inspect import CO_VARKEYWORDS
from types import CodeType
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..arguments import Function
from ..arraytype import F8, ArrayType
from ..capture.kinds import MISSING
from ..capture.reads import siblings
from ..tiers import COPY_BELOW, PLAIN, plain

if TYPE_CHECKING:
    from ..capture.reads import Pins
    from ..kernels.calling import Parts
    from ..program import Program

WRITEABLE = 0x400  # of ndarray.flags
Quick = Callable[..., object]


def never(*_: object) -> None:
    """The shortcut of a function that has none."""


class Shortcuts:
    """The short ways of one prepared function; the longer none is found, the rarer one is sought.

    `quick` takes the arguments, `into` what is given as ``out`` before them.
    """

    __slots__ = ("_calls", "_count", "_due", "_f", "_program", "into", "quick", "serves")

    def __init__(self, program: Program, f: Function, count: int = 0) -> None:
        self.quick = self.into = never
        self.serves = not _takes(f, "out")  # else what is given as ``out`` is for `f`
        self._program = program
        self._f = f
        self._count = count
        self._calls, self._due = 0, 2

    def look(self, args: tuple[object, ...], into: object = None) -> None:
        """Look for a short way for such arguments, after a call that went the general one."""
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = 2 * self._calls
        found = shortcut(self._program, self._f, args, self._count)
        self.quick = found or self.quick
        if into is not None and found is not None:
            made = shortcut(self._program, self._f, args, self._count, into=into)
            self.into = made or self.into


class Immediate:
    """The short way of calls that name the function each time, as ``jacobian(f, x)`` does.

    It serves whatever leads to the same objects as the function it was made for: ``lambda`` in a
    loop makes a new function at each turn.
    """

    __slots__ = ("_calls", "_count", "_due", "_program", "_way")

    def __init__(self, program: Program, count: int) -> None:
        self._program = program
        self._count = count
        self._calls, self._due = 0, 2
        self._way: tuple[object, Quick] = None, never

    def quick(self, f: Function, args: tuple[object, ...]) -> object:
        """The result; None where the general way must be gone."""
        known, quick = self._way
        return quick(*args) if siblings(f, known) else None

    def look(self, f: Function, args: tuple[object, ...]) -> None:
        """Look for a short way for such calls, after one that went the general way."""
        self._calls += 1
        if self._calls < self._due:
            return
        self._due = 2 * self._calls
        found = shortcut(self._program, f, args, self._count)
        if found is not None:
            self._way = f, found


def _takes(f: Function, name: str) -> bool:
    """Whether a Python function has a parameter of this name, or takes any."""
    code: CodeType | None = getattr(f, "__code__", None)
    if code is None:
        return False
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return name in named or bool(code.co_flags & CO_VARKEYWORDS)


def shortcut(
    program: Program, f: Function, args: tuple[object, ...], count: int = 0, *, into: object = None
) -> Quick | None:
    """A function of arguments like these: the result, or None where another way must be gone.

    The last `count` of the arguments are vectors the operator takes besides those of `f`. With
    `into`, arrays to write to, the function takes those first. None in place of the function if
    there is no shortcut: what was read or decided is compared in full, the program is interpreted,
    or arguments are neither plain arrays nor floats.
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
    short = None if into is not None else _native(plan, parts, pins, own, vectors)
    return short or _written(plan, parts, pins, own, vectors, into)


def _fits(given: object, type_: ArrayType) -> bool:
    """Whether a kernel takes what was given as it is."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0 and given.dtype == type_.dtype and given.shape == type_.shape
    return given.__class__ is float and type_ == ArrayType((), F8)


def _native(
    plan: Any, parts: Parts, pins: Pins, own: tuple[object, ...], vectors: tuple[object, ...]
) -> Quick | None:
    """The shortcut as a builtin; None where there is more to do than it can."""
    from ..kernels.native.caller import Output, caller  # noqa: PLC0415 - loaded by now
    from .outside import outside  # noqa: PLC0415 - it imports the former

    names = [f"o{k}" for k in range(len(parts.made))]
    text = plan.result_of(*names)
    result = None if text is None else _postfix(ast.parse(text, mode="eval").body, names)
    if result is None:
        return None
    order, scalars = result
    captured = pins[-1]
    sources = [*range(len(own)), *[-1] * len(captured)]
    sources += range(len(own), len(own) + len(vectors))
    values = (*own, *captured, *vectors)
    inputs = [
        one._replace(
            source=source,
            array=cast("np.ndarray", value) if source < 0 else None,
            copied=isinstance(value, np.ndarray) and value.nbytes <= COPY_BELOW,
        )
        for one, source, value in zip(parts.inputs, sources, values, strict=True)
    ]
    outputs = [Output(*made, scalar=k in scalars) for k, made in enumerate(parts.made)]
    count = len(own) + len(vectors)
    call, machinery = parts.call, parts.machinery
    return caller(call, machinery, count, inputs, outputs, order, outside(pins))


def _postfix(node: ast.expr, names: list[str]) -> tuple[list[int], set[int]] | None:
    """The expression of a result for `caller`, and which outputs are scalars in it."""
    if isinstance(node, ast.Tuple):
        parts = [_postfix(part, names) for part in node.elts]
        if any(part is None for part in parts):
            return None
        order = [k for part in parts for k in part[0]]  # type: ignore[index] - none is None here
        scalars = {k for part in parts for k in part[1]}  # type: ignore[index] - none is None here
        return [*order, -1 - len(parts)], scalars
    scalar = isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "()"
    name = node.value if isinstance(node, ast.Subscript) and scalar else node
    if not isinstance(name, ast.Name) or name.id not in names:
        return None
    k = names.index(name.id)
    return [k], {k} if scalar else set()


def _written(
    plan: Any,
    parts: Parts,
    pins: Pins,
    own: tuple[object, ...],
    vectors: tuple[object, ...],
    into: object,
) -> Quick | None:
    """The text of the shortcut, compiled."""
    names: dict[str, Any] = {"ndarray": np.ndarray, "empty": np.empty, "MISSING": MISSING}
    names |= {"plain": plain, "entry": parts.entry, "plan": plan.call}
    given = [f"x{k}" for k in range(len(own) + len(vectors))]
    captured = {f"a{k}": array for k, array in enumerate(pins[-1])}
    values = {**dict(zip(given, (*own, *vectors), strict=True)), **captured}
    tests = ["rest"]
    for name in given:
        tests += _other_type(name, values[name], names)
    tests += _other_outside(pins, names)
    large, lines, copied = _laid_plainly(values)
    tests += large
    outs = [f"o{k}" for k in range(len(parts.made))]
    names |= {f"{out}_dtype": made[1] for out, made in zip(outs, parts.made, strict=True)}
    result = plan.result_of(*outs)
    where = {} if into is None else _where(result, outs, into)
    if where is None:
        return None
    shapes = dict(zip(outs, [shape for shape, _ in parts.made], strict=True))
    rooms = [where.get(out, f"empty({shapes[out]}, {out}_dtype)") for out in outs]
    sources = [*given[: len(own)], *captured, *given[len(own) :]]
    inputs = [copied.get(name, name) for name in sources]
    tests += _taken(where, shapes, [*given, *captured], into)
    if result is None:
        passed = "".join(f"{x}, " for x in given[len(own) :])
        result = f"plan((), ({passed}), lambda _step, _arrays: [{', '.join(outs)}])"
    first = "" if into is None else "out, "
    text = f"""
def shortcut({first}{", ".join(f"{x}=None" for x in given)}, *rest):
    try:
        if {" or ".join(tests)}:
            return None
    except (ValueError, RuntimeError):  # an empty cell, a container that another thread changes
        return None
    {"; ".join(lines) or "pass"}
    {", ".join(outs)} = {", ".join(rooms)}
    if entry({", ".join([*inputs, *outs])}) != 0:
        return None
    return {result}"""
    exec(text, names)  # noqa: S102 - our own text
    return names["shortcut"]


def _laid_plainly(
    values: dict[str, object],
) -> tuple[list[str], list[str], dict[str, str]]:
    """Tests for large arrays that are strided; statements that copy small ones, and their names."""
    tests: list[str] = []
    lines: list[str] = []
    copied: dict[str, str] = {}
    for name, array in values.items():
        if not isinstance(array, np.ndarray):
            continue
        odd = f"{name}.flags.num & {PLAIN} != {PLAIN}"
        if array.nbytes > COPY_BELOW:  # a kernel of its own
            tests.append(odd)
        else:
            copied[name] = f"in_{name}"
            lines.append(f"in_{name} = plain({name}) if {odd} else {name}")
    return tests, lines, copied


def _other_type(name: str, arg: object, names: dict[str, Any]) -> list[str]:
    """Tests for an argument that is not of the type `arg` has."""
    if not isinstance(arg, np.ndarray):
        return [f"{name}.__class__ is not float"]
    names[f"{name}_dtype"] = arg.dtype
    return [
        f"{name}.__class__ is not ndarray",
        f"{name}.dtype is not {name}_dtype",
        f"{name}.shape != {arg.shape}",
    ]


def _other_outside(pins: Pins, names: dict[str, Any]) -> list[str]:
    """Tests for anything that was read and is not what it was (`Reads.refresh`, written out)."""
    tests: list[str] = []
    _, codes, items, places, captured = pins
    for k, (function, code) in enumerate(codes):
        names |= {f"function{k}": function, f"code{k}": code}
        tests.append(f"function{k}.__code__ is not code{k}")
    for k, (mapping, key, value) in enumerate(items):
        names |= {f"get{k}": mapping.get, f"key{k}": key, f"value{k}": value}
        tests.append(f"get{k}(key{k}, MISSING) is not value{k}")
    for k, (check, found) in enumerate(places):
        names |= {f"check{k}": check, f"found{k}": found}
        tests.append(f"not check{k}(found{k})")
    for k, array in enumerate(captured):
        names[f"a{k}"] = array
    return tests


# --- results in the caller's arrays -----------------------------------------------------------


class _Mark:
    """Stands for an output in the expression of the result; a scalar made of it is no place."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, key: object) -> None:
        return None


def _where(result: str | None, outs: list[str], into: object) -> dict[str, str] | None:
    """Where in ``out`` each output is to be put; None if that is not plain to see."""
    if result is None:
        return None
    found = eval(result, {out: _Mark(out) for out in outs})  # noqa: S307 - our own text
    if isinstance(found, _Mark):
        return {found.name: "out"} if isinstance(into, np.ndarray) else None
    if type(found) is not tuple or type(into) is not tuple or len(found) != len(into):
        return None
    pairs = [(k, a, b) for k, (a, b) in enumerate(zip(found, into, strict=True)) if b is not None]
    if not all(isinstance(a, _Mark) and isinstance(b, np.ndarray) for _, a, b in pairs):
        return None
    return {a.name: f"out[{k}]" for k, a, _ in pairs}


def _taken(
    where: dict[str, str], shapes: dict[str, tuple[int, ...]], inputs: list[str], into: object
) -> list[str]:
    """Tests for anything in ``out`` that a kernel cannot write to at once."""
    tests = []
    if isinstance(into, tuple):
        tests = ["out.__class__ is not tuple", f"len(out) != {len(into)}"]
        tests += [f"out[{k}] is not None" for k, one in enumerate(into) if one is None]
    for name, path in where.items():
        tests += [
            f"{path}.__class__ is not ndarray",
            f"{path}.dtype is not {name}_dtype",
            f"{path}.shape != {shapes[name]}",
            f"{path}.flags.num & {PLAIN | WRITEABLE} != {PLAIN | WRITEABLE}",
            f"{path}.base is not None",  # or it might share memory with an argument
        ]
        tests += [f"{path} is {other}" for other in inputs]
    if where:
        tests += [f"({x}.__class__ is ndarray and {x}.base is not None)" for x in inputs]
    paths = list(where.values())
    tests += [f"{a} is {b}" for k, a in enumerate(paths) for b in paths[:k]]
    return tests
