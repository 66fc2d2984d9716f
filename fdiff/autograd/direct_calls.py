"""Recorded calls written out: one Python function for each way a call is entered in the graph.

Which operands need an edge and what is saved is known from the recipe. So the loops over operands
that `entering.py` has are unrolled into the text of a function, one for all recipes of a shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import _getframe
from typing import Any

import numpy as np

from ..errors import is_internal, user_line
from .nodes import GraphNode, next_number
from .recipes import ArrayKind, Recipe
from .recorded_array import RecordedArray, Version
from .saved_values import FIXED
from .views import NumpyCall, link

RECORDED, ARRAY, NUMBER, STATIC = "recorded", "array", "number", "static"  # what an input may be


def direct_ufunc(
    made: Recipe, kind: ArrayKind, ufunc: np.ufunc, inputs: Sequence[str]
) -> Callable[..., RecordedArray]:
    """``call(*inputs)``: the result of a ufunc on inputs of these sorts, recorded by its recipe."""
    maker = _maker(tuple(inputs), made.needed, made.saved, is_ufunc=True)
    return maker(made, kind, ufunc)


def direct_call(
    made: Recipe, kind: ArrayKind, what: Callable[..., Any]
) -> Callable[..., RecordedArray]:
    """``call(x, args, kwargs, key)``: the same for ``what(x, *args, **kwargs)``, maybe a view."""
    return _maker((RECORDED,), made.needed, made.saved, is_ufunc=False)(made, kind, what)


@lru_cache(maxsize=512)
def _maker(
    inputs: tuple[str, ...], needed: tuple[bool, ...], saved: tuple[int, ...], *, is_ufunc: bool
) -> Callable[..., Any]:
    """What makes the function for a recipe, its kind and what NumPy is to compute."""
    names = [f"x{k}" for k in range(len(inputs))]
    values = [f"{x}.value" if s == RECORDED else x for x, s in zip(names, inputs, strict=True)]
    operands = [k for k, sort in enumerate(inputs) if sort != STATIC]
    edges = [
        f"{names[k]}.edge or {names[k]}.edge_now()" if need else "None"
        for k, need in zip(operands, needed, strict=True)
    ]
    kept, counts = [], []
    for place in saved:
        sort = inputs[operands[place]] if place < len(operands) else RECORDED
        name = names[operands[place]] if place < len(operands) else "out"
        if sort == RECORDED:
            kept.append("value" if name == "out" else f"{name}.value")
            counts.append(f"({name}.version, {name}.version.count)")
        else:
            kept.append(f"array({name})" if sort == ARRAY else f"float64({name})")
            counts.append("FIXED")
    signature = ", ".join(names) if is_ufunc else "x0, args, kwargs, key"
    given = ", ".join(values) if is_ufunc else "x0.value, *args, **kwargs"
    text = f"""
def make(recipe, kind, what):
    def call({signature}):
        value = what({given})
{"" if is_ufunc else _OWN_HANDLE}        out = new(RecordedArray)
        node = new(GraphNode)
        out.value = value
        out.kind = kind
        out.edge = node, 0
        out.version = new(Version)
        out.viewing = out._grad = out._extra = None
        node.recipe = recipe
        node.edges = ({"".join(f"{e}, " for e in edges)})
        node.saved = ({"".join(f"{v}, " for v in kept)})
        node.counts = ({"".join(f"{c}, " for c in counts)})
        node.number = next_number()
        node.hooks = None
        frame = getframe(3)
        code = frame.f_code
        internal = is_internal(code.co_filename)
        node.line = user_line() if internal else (code, frame.f_lasti)
{"" if is_ufunc else _LINK}        return out
    return call
"""
    exec(text, found := dict(_NAMES))  # noqa: S102 - our own text
    return found["make"]


_OWN_HANDLE = """
        if value is x0.value and value.__class__ is ndarray:
            value = value.view()
"""
_LINK = """
        if value.base is not None:
            rebuild = lambda given: ((given[0], *args), kwargs)
            link(out, 0, NumpyCall(what, key, rebuild, (x0,), (x0.value,)))
"""
_NAMES: dict[str, Any] = {
    "NumpyCall": NumpyCall,
    "FIXED": FIXED,
    "GraphNode": GraphNode,
    "RecordedArray": RecordedArray,
    "Version": Version,
    "array": np.array,
    "float64": np.float64,
    "getframe": _getframe,
    "is_internal": is_internal,
    "link": link,
    "ndarray": np.ndarray,
    "new": object.__new__,
    "next_number": next_number,
    "user_line": user_line,
}
