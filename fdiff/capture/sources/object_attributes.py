"""Attributes of objects that variables of a function hold, as statements read and store them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ...named_tuples import NamedTuple
from ...syntax_trees import walk
from ..value_kinds import MISSING
from .name_scopes import Scope
from .variable_names import root

OF_ARRAYS = frozenset(("T", "shape", "size", "ndim", "dtype", "real", "imag"))


class ObjectAttributes(NamedTuple):
    """The attributes that are read, and stored, each with the variable that the object is in."""

    read: frozenset[tuple[str, str]] = frozenset()
    stored: frozenset[tuple[str, str]] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """The variables."""
        return frozenset([name for name, _ in self.read | self.stored])


def owner(node: ast.Attribute, scope: Scope) -> str | None:
    """The variable of the function by which an attribute of an object is found, if there is one."""
    base: ast.expr = node
    while isinstance(base, (ast.Attribute, ast.Subscript)):
        base = base.value
    if node.attr in OF_ARRAYS or not isinstance(base, ast.Name):
        return None
    return base.id if scope.value(base.id) is MISSING else None


def object_attributes(statements: Sequence[ast.AST], scope: Scope) -> ObjectAttributes:
    """The attributes that statements read or store."""
    nodes = [node for statement in statements for node in walk(statement)]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    read, stored = set[tuple[str, str]](), {*_stored_into(nodes, scope)}
    for node in nodes:
        if not isinstance(node, ast.Attribute) or node in called:
            continue
        if (name := owner(node, scope)) is not None:
            (stored if isinstance(node.ctx, ast.Store) else read).add((name, node.attr))
    return ObjectAttributes(frozenset(read), frozenset(stored))


def _stored_into(nodes: Iterable[ast.AST], scope: Scope) -> Iterable[tuple[str, str]]:
    """The attributes whose values are stored into by key."""
    for node in nodes:
        store = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
        base = root(node) if isinstance(node, ast.Subscript) and store else None
        name = owner(base, scope) if isinstance(base, ast.Attribute) else None
        if isinstance(base, ast.Attribute) and name is not None:
            yield name, base.attr
