"""Hand-written memoisation: the names that code stores into, and whether two values agree."""

from __future__ import annotations

import dis
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple, cast

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

_NOT_DATA = (type, ModuleType, FunctionType, MethodType)
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


class NamesInCode(NamedTuple):
    """Names that a piece of code stores into: of attributes, globals and outer variables.

    `rewritten` are those that it, or a function in it, loads as well, `appended` those of lists
    that it appends to or clears. `ITEM` is among them where it does so with items.
    """

    stored: frozenset[str]
    rewritten: frozenset[str]
    appended: frozenset[str]


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> NamesInCode:
    """What a piece of code does with names."""
    loads, stores, stored = set[str](), set[str](), set[str]()
    rewritten, appended = set[str](), set[str]()
    changed = False  # whether the value on the stack was made by an operator such as ``+=``
    last = ""  # the name of that value
    for step in dis.get_instructions(code):
        (kind, _, what), name = step.opname.partition("_"), step.argval
        if isinstance(name, CodeType):
            inner = names_in(name)
            rewritten |= inner.rewritten
            appended |= inner.appended
        elif step.opname in _STORES_ITEM:
            stored.add(ITEM)
            rewritten |= {ITEM} if changed and step.opname == "STORE_SUBSCR" else set()
        elif what in _OUTER and kind in {"LOAD", "STORE"}:
            (loads if kind == "LOAD" else stores).add(str(name))
        if step.opname in _LOADS:
            stored |= {ITEM} if name in _STORING else set()
            appended |= {last} if name in _APPENDING else set()
        if step.opname not in _MOVES:
            changed = step.opname == "BINARY_OP" and step.argrepr.endswith("=")
        if step.opname != "CACHE":
            last = ITEM if step.opname in _ITEMS else str(name)
        if step.opname in _STORES:
            stored.add(str(name))
    rewritten |= loads & stores
    return NamesInCode(frozenset(stored), frozenset(rewritten), frozenset(appended))


def stored_names(codes: Iterable[CodeType], spaces: Sequence[Mapping[str, object]]) -> set[str]:
    """Names that code stores into, or that functions do which it may call by a name in `spaces`."""
    names: set[str] = set()
    waiting, seen = [*codes], {*codes}
    while waiting:
        code = waiting.pop()
        if code.co_name in _MAKING:
            continue
        parts = [c for c in code.co_consts if isinstance(c, CodeType)]
        called = [code_of(space.get(name)) for name in code.co_names for space in spaces]
        names |= names_in(code).stored
        for other in (*parts, *called):
            if other is not None and other not in seen:
                seen.add(other)
                waiting.append(other)
    return names


def code_of(value: object) -> CodeType | None:
    """The code of a function, a method, or a property; None of anything else."""
    for name in ("__func__", "fget"):
        value = getattr(value, name, value)
    return value.__code__ if is_user_function(value) else None  # type: ignore[attr-defined] - a function has code


def fits_within(key: object, fits: Callable[[object], bool]) -> bool:
    """Whether a key, or an item of a tuple, `fits`."""
    if isinstance(key, tuple):
        return any(fits_within(item, fits) for item in cast("tuple[object, ...]", key))
    return fits(key)


def parts_of(value: object, depth: int = 4) -> Iterator[object]:
    """A value and what it holds, inside of one another too."""
    yield value
    if depth == 0:
        return
    items: Iterable[object]
    if isinstance(value, dict):
        items = dict.values(cast("dict[object, object]", value))
    elif isinstance(value, list | tuple | deque):
        items = cast("Sequence[object]", value)
    elif _is_object(value) and not isinstance(value, _NOT_DATA):
        items = vars(value).values()
    else:
        return
    for part in [*items]:
        yield from parts_of(part, depth - 1)


def stored_again(now: Callable[[], object], before: object) -> object:
    """What is there now, was not before, and agrees with what was; else what was."""
    parts = [part for part in parts_of(now()) if part is not before]
    return next((part for part in parts if agree(part, before)), before)


def _is_object(value: object) -> bool:
    return hasattr(value, "__dict__") and not isinstance(value, np.ndarray)


def agree(value: Any, other: Any) -> bool:
    """Whether two values are equal but for rounding: numbers, arrays, containers of them."""
    if value is other:
        return value is not MISSING
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        return value.keys() == other.keys() and all(agree(value[key], other[key]) for key in value)
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(agree, value, other))
    if _is_object(value) and _is_object(other):
        return type(value).__name__ == type(other).__name__ and agree(vars(value), vars(other))
    try:
        a, b = np.asarray(value), np.asarray(other)
        if a.dtype.kind in "fc" and b.dtype.kind in "biufc":
            scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
            close = np.isclose(a, b, RTOL, RTOL * float(scale), equal_nan=True)
            return a.shape == b.shape and bool(close.all())
        return a.shape == b.shape and bool(np.all(a == b))
    except (TypeError, ValueError):
        return False
