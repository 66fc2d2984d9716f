"""The shortest way from a call to its kernel: one Python function, written for what came before.

A prepared function that is called again with arrays of the types it had, and whose outside has not
changed, needs a few comparisons and one call of machine code. They are written out here without
loops or containers between them, and hand everything else back to the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import Function
from ..arraytype import F8, ArrayType
from ..capture.kinds import MISSING
from ..tiers import PLAIN

if TYPE_CHECKING:
    from ..capture.reads import Pins
    from ..kernels import Parts
    from ..program import Program

Quick = Callable[..., object]


def never(*_: object) -> None:
    """The shortcut of a function that has none."""


def shortcut(
    program: Program, f: Function, args: tuple[object, ...], count: int = 0
) -> Quick | None:
    """A function of arguments like these: the result, or None where another way must be gone.

    The last `count` of the arguments are vectors the operator takes besides those of `f`. None in
    place of the function if there is no shortcut: what was read or decided is compared in full, the
    program is interpreted, or arguments are neither plain arrays nor floats.
    """
    own, vectors = args[: len(args) - count], args[len(args) - count :]
    found = program.latest(own)
    if found is None:
        return None
    plan: Any = found.plan
    step, pins = plan.step_of_all(), found.inner[0][1].pins(f)
    parts = None if step is None else step.runner.parts()
    if parts is None or pins is None:
        return None
    inputs, types = (*own, *pins[-1], *vectors), step.tape.input_types
    if len(inputs) != len(types) or not all(map(_fits, inputs, types)):
        return None
    return _written(plan, parts, pins, own, vectors)


def _fits(given: object, type_: ArrayType) -> bool:
    """Whether a kernel takes what was given as it is."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0 and given.dtype == type_.dtype and given.shape == type_.shape
    return given.__class__ is float and type_ == ArrayType((), F8)


def _written(
    plan: Any, parts: Parts, pins: Pins, own: tuple[object, ...], vectors: tuple[object, ...]
) -> Quick:
    """The text of the shortcut, compiled."""
    names: dict[str, Any] = {"ndarray": np.ndarray, "empty": np.empty, "MISSING": MISSING}
    given = [f"x{k}" for k in range(len(own) + len(vectors))]
    tests = ["rest"]
    for name, arg in zip(given, (*own, *vectors), strict=True):
        tests += _other_type(name, arg, names)
    tests += _other_outside(pins, names)
    outs = [f"o{k}" for k in range(len(parts.made))]
    rooms = [
        f"empty({shape}, {out}_dtype)" for out, (shape, _) in zip(outs, parts.made, strict=True)
    ]
    names |= {f"{out}_dtype": made[1] for out, made in zip(outs, parts.made, strict=True)}
    fixed = [f"fixed{k}" for k in range(len(parts.fixed))]
    names |= dict(zip(fixed, parts.fixed, strict=True))
    names |= {"entry": parts.entry, "plan": plan.call}
    captured = [f"a{k}" for k in range(len(pins[-1]))]
    inputs = [*given[: len(own)], *captured, *given[len(own) :]]
    result = plan.result_of(*outs)
    if result is None:
        passed = "".join(f"{x}, " for x in given[len(own) :])
        result = f"plan((), ({passed}), lambda _step, _arrays: [{', '.join(outs)}])"
    text = f"""
def shortcut({", ".join(f"{x}=None" for x in given)}, *rest):
    if {" or ".join(tests)}:
        return None
    {", ".join(outs)} = {", ".join(rooms)}
    if entry({", ".join([*inputs, *fixed, *outs])}):
        return None
    return {result}"""
    exec(text, names)  # noqa: S102 - our own text
    return names["shortcut"]


def _other_type(name: str, arg: object, names: dict[str, Any]) -> list[str]:
    """Tests for an argument that is not of the type `arg` has."""
    if not isinstance(arg, np.ndarray):
        return [f"{name}.__class__ is not float"]
    names[f"{name}_dtype"] = arg.dtype
    return [
        f"{name}.__class__ is not ndarray",
        f"{name}.dtype is not {name}_dtype",
        f"{name}.shape != {arg.shape}",
        f"{name}.flags.num & {PLAIN} != {PLAIN}",
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
        tests.append(f"a{k}.flags.num & {PLAIN} != {PLAIN}")
    return tests
