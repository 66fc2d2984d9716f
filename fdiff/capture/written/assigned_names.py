"""The names whose values a piece of code changes, found in its bytecode.

Source: Python's library reference, page ``dis``, section "Python Bytecode Instructions".
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType
from typing import cast

from ...named_tuples import NamedTuple

ITEM = "[]"  # among the names that code changes: an item of something
_STORES_ITEM = frozenset(("STORE_SUBSCR", "STORE_SLICE"))
_LOADS = frozenset(("LOAD_METHOD", "LOAD_ATTR"))
_OUTER = frozenset(("ATTR", "GLOBAL", "DEREF", "NAME"))
_MOVES = frozenset(("SWAP", "COPY", "CACHE", "ROT_TWO", "ROT_THREE"))
_ITEMS = frozenset(("BINARY_SUBSCR", "BINARY_OP"))
_APPENDING = frozenset(("append", "appendleft", "clear", "extend", "extendleft", "insert"))
_STORING = frozenset(("__setitem__", "add", "setdefault", "update")) | _APPENDING


class NamesInCode(NamedTuple):
    """Names of attributes, globals and outer variables that a piece of code changes.

    `rewritten` are the names that it, or a function in it, both loads and stores; `appended` the
    names of lists that it appends to or clears. `ITEM` is among them where it does so with items.
    `stored` are all names that it stores, and the methods by which it may store items.
    """

    rewritten: frozenset[str]
    appended: frozenset[str]
    stored: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> NamesInCode:
    """Names that a code object loads, stores and changes."""
    loads, stores = set[str](), set[str]()
    rewritten, appended, methods = set[str](), set[str](), set[str]()
    changed = False  # whether the value on the stack was made by an operator such as ``+=``
    last = ""  # the name of that value
    for step in dis.get_instructions(code):
        (kind, _, what), name = step.opname.partition("_"), cast("object", step.argval)
        if isinstance(name, CodeType):
            inner = names_in(name)
            rewritten |= inner.rewritten
            appended |= inner.appended
            methods |= inner.stored
        elif step.opname in _STORES_ITEM:
            stores.add(ITEM)
            rewritten |= {ITEM} if changed and step.opname == "STORE_SUBSCR" else set()
        elif what in _OUTER and kind in {"LOAD", "STORE"}:
            (loads if kind == "LOAD" else stores).add(str(name))
        if step.opname in _LOADS:
            appended |= {last} if name in _APPENDING else set()
            methods |= {str(name)} & _STORING
        if step.opname not in _MOVES:
            changed = step.opname == "BINARY_OP" and step.argrepr.endswith("=")
        if step.opname != "CACHE":
            last = ITEM if step.opname in _ITEMS else str(name)
    rewritten |= loads & stores
    return NamesInCode(frozenset(rewritten), frozenset(appended), frozenset(stores | methods))
