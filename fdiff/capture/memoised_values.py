"""Hand-written memoisation: the names that code stores into, and whether two values agree."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple, cast

import fdiff.intact_numpy as np

from .value_kinds import MISSING, is_user_function

ITEM = "[]"  # among the names that code stores into: an item of something
_STORES = frozenset(("STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF"))
_STORES_ITEM = frozenset(("STORE_SUBSCR", "STORE_SLICE"))
_LOADS = frozenset(("LOAD_METHOD", "LOAD_ATTR"))
_STORING = frozenset(("__setitem__", "setdefault", "update"))  # methods that store items
_OUTER = frozenset(("ATTR", "GLOBAL", "DEREF", "NAME"))
_MOVES = frozenset(("SWAP", "COPY", "CACHE", "ROT_TWO", "ROT_THREE"))
_ITEMS = frozenset(("BINARY_SUBSCR", "BINARY_OP"))
_APPENDING = frozenset(("append", "appendleft", "clear", "extend", "extendleft", "insert"))
_MAKING = frozenset(("__init__", "__new__", "__post_init__", "__setstate__"))  # of new objects

RTOL = 1e-9  # between two computations of a value: tiers and NumPy add in different orders


class MemoisedValue(NamedTuple):
    """A value in a place that outlives the run and that code of the run stores into.

    `name` is how the user would name the place. `put` is what the run found there, `before` the
    user's own object behind it, `value` its value then; `now` gives what is there now.
    """

    name: str
    put: object
    before: object
    value: object
    now: Callable[[], object]


@lru_cache(maxsize=4096)
def stores_in(code: CodeType) -> frozenset[str]:
    """Names of attributes, globals and outer variables that a piece of code stores into."""
    found: set[str] = set()
    for step in dis.get_instructions(code):
        if step.opname in _STORES:
            found.add(str(step.argval))
        elif step.opname in _STORES_ITEM or (step.opname in _LOADS and step.argval in _STORING):
            found.add(ITEM)
    return frozenset(found)


@lru_cache(maxsize=4096)
def rewritten_in(code: CodeType) -> frozenset[str]:
    """Names that a piece of code, or a function in it, both loads and stores.

    `ITEM` is among them if it changes items in place: ``counts[k] += 1``.
    """
    loads, stores, found = set[str](), set[str](), set[str]()
    changed = False  # whether the value on the stack was made by an operator such as ``+=``
    for step in dis.get_instructions(code):
        kind, _, what = step.opname.partition("_")
        if kind == "LOAD" and what in _OUTER:
            loads.add(str(step.argval))
        elif kind == "STORE" and what in _OUTER:
            stores.add(str(step.argval))
        elif step.opname == "STORE_SUBSCR" and changed:
            found.add(ITEM)
        elif isinstance(step.argval, CodeType):
            found |= rewritten_in(step.argval)
        if step.opname not in _MOVES:
            changed = step.opname == "BINARY_OP" and step.argrepr.endswith("=")
    return frozenset(found | (loads & stores))


@lru_cache(maxsize=4096)
def appended_in(code: CodeType) -> frozenset[str]:
    """Names of lists that a piece of code, or a function in it, appends to or clears."""
    found, last = set[str](), ""
    for step in dis.get_instructions(code):
        if step.argval in _APPENDING and step.opname in _LOADS:
            found.add(last)
        elif isinstance(step.argval, CodeType):
            found |= appended_in(step.argval)
        if step.opname != "CACHE":
            last = ITEM if step.opname in _ITEMS else str(step.argval)
    return frozenset(found)


def stored_names(codes: Iterable[CodeType], spaces: Sequence[Mapping[str, object]]) -> set[str]:
    """Names that code stores into, or that functions do which it may call by a name in `spaces`."""
    found: set[str] = set()
    waiting, seen = [*codes], {*codes}
    while waiting:
        code = waiting.pop()
        if code.co_name in _MAKING:
            continue
        parts = [c for c in code.co_consts if isinstance(c, CodeType)]
        called = [_code(space.get(name)) for name in code.co_names for space in spaces]
        found |= stores_in(code)
        for other in (*parts, *called):
            if other is not None and other not in seen:
                seen.add(other)
                waiting.append(other)
    return found


def _code(value: object) -> CodeType | None:
    """The code of a function, a method, or a property; None of anything else."""
    for name in ("__func__", "fget"):
        value = getattr(value, name, value)
    return value.__code__ if is_user_function(value) else None  # type: ignore[attr-defined] - a function has code


def fits_within(key: object, fits: Callable[[object], bool]) -> bool:
    """Whether a key, or an item of a tuple, `fits`."""
    if isinstance(key, tuple):
        return any(fits_within(item, fits) for item in cast("tuple[object, ...]", key))
    return fits(key)


def _is_object(value: object) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, np.ndarray)


def agree(one: object, other: object) -> bool:
    """Whether two values are equal but for rounding: numbers, arrays, containers of them."""
    if one is other:
        return one is not MISSING
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        mine, found = cast("Mapping[object, object]", one), cast("Mapping[object, object]", other)
        return mine.keys() == found.keys() and all(agree(mine[key], found[key]) for key in mine)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        items, others = cast("Sequence[object]", one), cast("Sequence[object]", other)
        return len(items) == len(others) and all(map(agree, items, others))
    if _is_object(one) and _is_object(other):
        return type(one).__name__ == type(other).__name__ and agree(vars(one), vars(other))
    try:
        a, b = np.asarray(one), np.asarray(other)
        if a.dtype.kind in "fc" and b.dtype.kind in "biufc":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            close = np.isclose(a, b, RTOL, RTOL * float(scale), equal_nan=True)
            return a.shape == b.shape and bool(close.all())
        return a.shape == b.shape and bool(np.all(a == b))
    except (TypeError, ValueError):
        return False
