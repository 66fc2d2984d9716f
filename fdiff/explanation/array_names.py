"""Names of the arrays of a traced function in the user's code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence

import fdiff.intact_numpy as np

from ..dispatch.arguments import Function
from ..dispatch.variant import Traced, Variant
from ..foreign_errors import not_foreign
from ..tree import flatten, paths
from .explained_facts import InputFact


def input_facts(
    f: Function,
    variant: Variant,
    arrays: Sequence[object],
    call: tuple[tuple[object, ...], dict[str, object]],
) -> tuple[InputFact, ...]:
    """The inputs of a trace: the arguments that are arrays or floats, then what `f` reads."""
    traced, conditions = variant.traced, variant.conditions
    argument_names = _argument_names(f, *call)
    names = [argument_names[k] for k in traced.positions]
    captured = _captured_names(f)
    for number, array in enumerate(arrays[len(names) :]):
        names.append(captured.get(id(array), f"captured{number}"))
    pinned, layouts = dict(conditions.pinned), dict(conditions.layouts)
    return tuple(
        InputFact(
            name,
            type_,
            _role(k, traced),
            "values" if k in pinned else "memory layout" if k in layouts else "",
        )
        for k, (name, type_) in enumerate(zip(names, traced.tape.input_types, strict=True))
    )


def _role(k: int, traced: Traced) -> str:
    if k >= len(traced.positions):
        return "captured"
    return "differentiated" if k in traced.wrt else "argument"


def _argument_names(f: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> list[str]:
    """How each leaf of the arguments is written inside `f`: ``x``, ``p['rate']``."""
    positional = _parameters(f, len(args))
    names: list[str] = []
    for name, value in (*zip(positional, args, strict=True), *kwargs.items()):
        names += paths(flatten(value)[1], name)
    return names


def _parameters(f: Function, count: int) -> list[str]:
    """The names of the first `count` positional parameters, numbered where they have none."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except not_foreign(TypeError, ValueError):  # a builtin: NumPy's ufuncs have no signature
        parameters = []
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}[{k}]" for k in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    names += [f"argument {k}" for k in range(len(names), count)]
    return names[:count]


def _captured_names(f: Function) -> dict[int, str]:
    """By the ids of arrays, what `f` itself calls them: closure cells, globals, attributes."""
    names: dict[int, str] = {}
    for name, value in _read_by(f):
        if isinstance(value, np.ndarray):
            names.setdefault(id(value), name)
            continue
        for inner, attribute in getattr(value, "__dict__", {}).items():
            if isinstance(attribute, np.ndarray):
                names.setdefault(id(attribute), f"{name}.{inner}")
    return names


def _read_by(f: Function) -> Iterator[tuple[str, object]]:
    """The names that the code of `f` looks up outside of it, and what they stand for."""
    function = getattr(f, "__func__", f)
    if (owner := getattr(f, "__self__", None)) is not None:
        yield "self", owner
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except not_foreign(ValueError):  # an empty cell
            continue
    for name in code.co_names:
        if name in function.__globals__:
            yield name, function.__globals__[name]
