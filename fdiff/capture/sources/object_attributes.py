"""Names of attributes of objects, as code reads, stores and calls them.

Which objects these are is told when the code runs (`dispatch/choosing/reached_objects.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from types import FunctionType, MethodType, ModuleType, SimpleNamespace

import fdiff.intact_numpy as np

from ...named_tuples import NamedTuple
from ..proxies.class_proxies import can_be_proxied, state_of
from ..value_kinds import is_named_tuple, is_record

OF_ARRAYS = frozenset(("T", "shape", "size", "ndim", "dtype", "real", "imag"))
_KINDS = np.ndarray, np.float64, list, dict, tuple, set, str, int, complex, FunctionType, ModuleType
# Attributes of other values than objects of the user, which may change these or look at memory.
OF_OTHERS = frozenset(name for kind in _KINDS for name in dir(kind)) - OF_ARRAYS


class ObjectAttributes(NamedTuple):
    """Names of attributes that are read, stored (by key, too), and called.

    The variables `owners` hold objects, `listed` ones lists of objects. Variables from around the
    function, which hold objects, functions or modules, are `outer`; variables of the function that
    have attributes are `roots`. Attributes of objects in `targets` are stored. Functions `storing`
    into their arguments are called by name. Arrays of the variables `changed` are stored into.
    """

    read: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    called: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset()
    outer: frozenset[str] = frozenset()
    roots: frozenset[str] = frozenset()
    targets: frozenset[str] = frozenset()
    storing: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    listed: frozenset[str] = frozenset()


class AttributeNames:
    """The sets of `ObjectAttributes`; a function in the code `around` has the same attributes."""

    def __init__(self, around: AttributeNames | None = None) -> None:
        self.read: set[str] = set() if around is None else around.read
        self.stored: set[str] = set() if around is None else around.stored
        self.called: set[str] = set() if around is None else around.called
        self.owners, self.outer, self.roots = set[str](), set[str](), set[str]()
        self.targets, self.storing, self.changed = set[str](), set[str](), set[str]()

    def whole(self, lists: Mapping[str, str]) -> ObjectAttributes:
        """The names so far; variables of loops over `lists` hold what these have."""
        owners, listed = self.owners - {*lists}, {lists[n] for n in self.owners & {*lists}}
        each = self.read, self.stored, self.called, owners, self.outer, self.roots
        more = self.targets, self.storing, self.changed, listed
        return ObjectAttributes(*map(frozenset, (*each, *more)))


def root_name(node: ast.expr) -> str:
    """The variable by which a value is found through attributes and keys, if there is one."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_user_object(value: object) -> bool:
    """Whether a value is an object of the user's, or holds some, and a method of one counts."""
    if type(value) is list or type(value) is tuple:
        return any(map(is_user_object, value))
    if isinstance(value, (MethodType, type)):
        return isinstance(value, MethodType) and is_user_object(value.__self__)
    kind = type(value)
    own = can_be_proxied(kind) or state_of(kind) is not None or kind is SimpleNamespace
    return own or is_record(value) or is_named_tuple(value)
