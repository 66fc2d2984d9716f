"""A shortcut as a function of Python text: for results and ``out=`` beyond what a builtin makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..capture.kinds import MISSING
from ..tiers import COPY_BELOW, PLAIN, plain
from .marks import Mark, spelled

if TYPE_CHECKING:
    from ..capture.reads import Pins
    from ..kernels.calling import Parts

WRITEABLE = 0x400  # of ndarray.flags


class Found(NamedTuple):
    """What a call comes to: a kernel, what was read outside, arguments and vectors.

    `result` is the result with marks for what the kernel gives, where it is no more than that.
    """

    result: object
    parts: Parts
    pins: Pins
    own: tuple[object, ...]
    vectors: tuple[object, ...]


def written(plan: Any, found: Found, into: object) -> Any:
    """The text of the shortcut, compiled; None where ``out`` is more than it can fill."""
    built, parts, pins, own, vectors = found
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
    result = spelled(built, outs)
    where = {} if into is None else _where(built, outs, into)
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


def _where(built: object, outs: list[str], into: object) -> dict[str, str] | None:
    """Where in ``out`` each output is to be put; None if that is not plain to see."""
    if isinstance(built, Mark) and not built.scalar:
        return {outs[built.output]: "out"} if isinstance(into, np.ndarray) else None
    if type(built) is not tuple or type(into) is not tuple or len(built) != len(into):
        return None
    pairs = [(k, a, b) for k, (a, b) in enumerate(zip(built, into, strict=True)) if b is not None]
    if not all(
        isinstance(a, Mark) and not a.scalar and isinstance(b, np.ndarray) for _, a, b in pairs
    ):
        return None
    return {outs[a.output]: f"out[{k}]" for k, a, _ in pairs}


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
