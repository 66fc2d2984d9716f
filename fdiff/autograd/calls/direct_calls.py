"""Recorded calls written out: one Python function for each way a call is entered in the graph.

The recipe tells which operands need an edge and which values are saved. The loops over operands of
`node_construction.py` are therefore unrolled into the text of a function, one for all recipes with
the same pattern. Calls that are not recorded have short functions of their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from sys import _getframe
from types import CodeType

import fdiff.intact_numpy as np

from ...generated_text import defined
from ...user_lines import Line, is_internal, user_line
from ..arrays.array_kinds import ArrayKind, array_kind_of
from ..arrays.recorded_array import RecordedArray, Version
from ..arrays.recorded_views import link_to
from ..backward_passes.nodes import GraphNode, next_number
from ..backward_passes.saved_values import FIXED
from .recipes import Recipe

RECORDED, ARRAY, NUMBER, STATIC = "recorded", "array", "number", "static"  # what an input may be


def direct_ufunc(
    recipe: Recipe,
    kind: ArrayKind,
    ufunc: np.ufunc,
    inputs: Sequence[str],
    dtypes: Iterable[np.dtype],
) -> Callable[..., RecordedArray]:
    """``call(*inputs)``: the result of a ufunc on inputs of these sorts, recorded by its recipe.

    `dtypes` are the dtypes of the operands.
    """
    wide = _WIDE.issuperset(dtypes)
    maker = _maker(tuple(inputs), recipe.needed, recipe.saved, is_ufunc=True, wide=wide)
    return maker(recipe, kind, _quickest(ufunc, inputs))


def direct_call(
    recipe: Recipe, kind: ArrayKind, what: Callable[..., object]
) -> Callable[..., RecordedArray]:
    """``call(x, args, kwargs, key)``: the same for ``what(x, *args, **kwargs)``, maybe a view."""
    return _maker((RECORDED,), recipe.needed, recipe.saved, is_ufunc=False, wide=False)(
        recipe, kind, what
    )


def unrecorded_ufunc(
    kind: ArrayKind, ufunc: np.ufunc, inputs: Sequence[str]
) -> Callable[..., RecordedArray]:
    """``call(*inputs)``: the result of a ufunc, of this kind, without a graph."""
    return _unrecorded_maker(tuple(inputs))(kind, _quickest(ufunc, inputs))


def unrecorded_call(what: Callable[..., object]) -> Callable[..., RecordedArray | None]:
    """``call(x, args, kwargs, key)``: ``what(x, *args, **kwargs)`` without a graph.

    None if that is no array.
    """

    def call(
        x: RecordedArray, args: tuple[object, ...], kwargs: dict[str, object], key: object
    ) -> RecordedArray | None:
        source = x.value
        value = what(source, *args, **kwargs)
        if not isinstance(value, (np.ndarray, np.generic)):
            return None
        if value is source and value.__class__ is np.ndarray:
            value = value.view()
        out = _bare(value, array_kind_of(value))
        if value.base is not None:
            link_to(out, x, what, args, kwargs, key)
        return out

    return call


_users: set[str] = set()  # files that are not internal


def _user_line_of(code: CodeType) -> Line | None:
    """The user's line, where `code` runs in a file that was not met before, or is internal."""
    if not is_internal(code.co_filename):
        _users.add(code.co_filename)
    return user_line(3)  # above this function, the text that called it, and what called that


def _quickest(ufunc: np.ufunc, inputs: Sequence[str]) -> Callable[..., object]:
    """The quickest function for a ufunc: `operator.pow` has short cuts for some exponents."""
    return operator.pow if ufunc is np.power and tuple(inputs) == (RECORDED, STATIC) else ufunc


def _bare(value: object, kind: ArrayKind) -> RecordedArray:
    """As `recorded_array.new_array`, of an array without a graph, outside of inference mode."""
    out = object.__new__(RecordedArray)
    out.value, out.kind, out.version = value, kind, Version()
    out.edge = out.viewing = out._grad = out._extra = None
    return out


# Numbers that were operands, as arrays: NumPy reads those faster, and a backward pass needs arrays.
# Zero is not among them, because -0.0 would be found there too.
_numbers: dict[float, np.ndarray] = {}
_MOST_NUMBERS = 1 << 12
# An array of these dtypes and a number give what the array and a float64 give.
_WIDE = frozenset((np.dtype(np.float64), np.dtype(np.complex128)))


def _number(x: float) -> np.ndarray:
    """A number as an array, which is kept."""
    array = np.array(x, np.float64)
    array.flags.writeable = False
    if x and x == x:  # noqa: PLR0124 - not so for NaN
        if len(_numbers) >= _MOST_NUMBERS:
            _numbers.clear()
        _numbers[x] = array
    return array


@lru_cache(maxsize=512)
def _maker(
    inputs: tuple[str, ...],
    needed: tuple[bool, ...],
    saved: tuple[int, ...],
    *,
    is_ufunc: bool,
    wide: bool,
) -> Callable[..., Callable[..., RecordedArray]]:
    """A function of a recipe, a kind of result and a NumPy function; it makes the recorded call.

    With `wide`, NumPy is given numbers as arrays of float64.
    """
    names = [f"x{k}" for k in range(len(inputs))]
    operands = [(x, sort) for x, sort in zip(names, inputs, strict=True) if sort != STATIC]
    edges = [
        f"{x}.edge or {x}.edge_now()" if need else "None"
        for (x, _), need in zip(operands, needed, strict=True)
    ]
    arrays = [*operands, ("out", RECORDED)]
    kept, counts = _saved_texts([arrays[min(place, len(operands))] for place in saved])
    before = [
        _AS_ARRAY.format(name=x)
        for x, sort in operands
        if sort == NUMBER and (wide or f"{x}_array" in kept)
    ]
    values = [_input_value(x, sort, wide=wide) for x, sort in zip(names, inputs, strict=True)]
    text = (_OF_UFUNC if is_ufunc else _OF_CALL).format(
        signature=", ".join(names),
        given=", ".join(values),
        numbers_as_arrays="".join(before),
        edges=_tuple(edges),
        saved=_tuple(kept),
        counts=_tuple(counts),
    )
    return defined("make", text, dict(_NAMES))


def _tuple(texts: Iterable[str]) -> str:
    """The text of a tuple of these."""
    return f"({''.join([f'{text}, ' for text in texts])})"


def _saved_texts(saved: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Texts of the saved values, and of their version counters."""
    kept, counts = [], []
    for name, sort in saved:
        if sort == RECORDED:
            kept.append("value" if name == "out" else f"{name}.value")
            version = "version" if name == "out" else f"{name}.version"
            counts.append(f"({version}, {version}.count)")
        else:
            kept.append(f"array({name})" if sort == ARRAY else f"{name}_array")
            counts.append("FIXED")
    return kept, counts


@lru_cache(maxsize=64)
def _unrecorded_maker(inputs: tuple[str, ...]) -> Callable[..., Callable[..., RecordedArray]]:
    """A function of a kind of result and a NumPy function; it makes the call without recording."""
    names = [f"x{k}" for k in range(len(inputs))]
    values = [_input_value(x, sort, wide=False) for x, sort in zip(names, inputs, strict=True)]
    text = f"""
def make(kind, what):
    def call({", ".join(names)}):
        out = new(RecordedArray)
        out.value = what({", ".join(values)})
        out.kind = kind
        out.version = Version()
        out.edge = out.viewing = out._grad = out._extra = None
        return out
    return call
"""
    return defined("make", text, dict(_NAMES))


def _input_value(name: str, sort: str, *, wide: bool) -> str:
    """The text of the value of an input that NumPy takes."""
    if sort == RECORDED:
        return f"{name}.value"
    return f"{name}_array" if sort == NUMBER and wide else name


_AS_ARRAY = """\
        try:
            {name}_array = numbers[{name}]
        except KeyError:
            {name}_array = number({name})
"""
_NEW_NODE = """\
        out = new(RecordedArray)
        node = GraphNode()
        out.value = value
        out.kind = kind
        out.edge = node, 0
        out.version = version = Version()
        out.viewing = out._grad = out._extra = None
        node.recipe = recipe
        node.edges = {edges}
        node.saved = {saved}
        node.counts = {counts}
        node.number = next_number()
        node.hooks = None
        frame = getframe(2)
"""
_LINE = """\
        code = frame.f_code
        node.line = (code, frame.f_lasti) if code.co_filename in users else user_line_of(code)
"""
_OF_UFUNC = f"""
def make(recipe, kind, what):
    def call({{signature}}):
{{numbers_as_arrays}}        value = what({{given}})
{_NEW_NODE}{_LINE}        return out
    return call
"""
_OF_CALL = f"""
def make(recipe, kind, what):
    def call(x0, args, kwargs, key):
        value = what(x0.value, *args, **kwargs)
        if value is x0.value and value.__class__ is ndarray:
            value = value.view()
{_NEW_NODE}        if frame.f_code.co_filename not in users and frame.f_back is not None:
            frame = frame.f_back  # a method called this one, or what its call goes through
{_LINE}        if value.base is not None:
            link_to(out, x0, what, args, kwargs, key)
        return out
    return call
"""
_NAMES: dict[str, object] = {
    "FIXED": FIXED,
    "GraphNode": GraphNode,
    "RecordedArray": RecordedArray,
    "Version": Version,
    "array": np.array,
    "getframe": _getframe,
    "link_to": link_to,
    "ndarray": np.ndarray,
    "new": object.__new__,
    "next_number": next_number,
    "number": _number,
    "numbers": _numbers,
    "user_line_of": _user_line_of,
    "users": _users,
}
