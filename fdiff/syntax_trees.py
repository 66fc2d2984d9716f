"""Walks over syntax trees that let exceptions of signal handlers out.

`ast.iter_fields` has a clause for a missing field around each field that it gives, and takes an
AttributeError that arrives there for one. `ast.walk`, `ast.iter_child_nodes`,
`ast.fix_missing_locations` and the visitors of `ast` read fields by it; `copy.deepcopy` takes a
KeyError for the first object that it keeps. The functions of this module stand in their place.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

# Functions that read variables of their callers. Code that has these names is left as it is.
READS_VARIABLES = frozenset(("locals", "vars", "eval", "exec", "dir"))
_Node = TypeVar("_Node", bound=ast.AST)
_Module = TypeVar("_Module", bound=ast.Module)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes right below a node, in the order of its fields."""
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, ast.AST))


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all nodes below it, level by level."""
    waiting = deque([node])
    while waiting:
        node = waiting.popleft()
        waiting.extend(children(node))
        yield node


def copied(node: _Node) -> _Node:
    """A copy of a node and of all nodes below it."""
    names = [n for n in (*node._fields, *node._attributes) if hasattr(node, n)]
    return type(node)(**{name: _copied_value(getattr(node, name)) for name in names})


def _copied_value(value: object) -> object:
    if isinstance(value, list):
        return [_copied_value(item) for item in value]
    return copied(value) if isinstance(value, ast.AST) else value


def with_locations(module: _Module) -> _Module:
    """The module, whose nodes without a place have the place of the node above them."""
    _fill(module, (1, 0, 1, 0))
    return module


def _fill(node: ast.AST, above: tuple[int, int, int, int]) -> None:
    names = ("lineno", "col_offset", "end_lineno", "end_col_offset")
    if "lineno" in node._attributes:
        own = [getattr(node, name, None) for name in names]
        line, column, end, end_column = (
            a if value is None else value for a, value in zip(above, own, strict=True)
        )
        above = line, column, end, end_column
        for name, value in zip(names, above, strict=True):
            setattr(node, name, value)
    for child in children(node):
        _fill(child, above)


class GenericVisit(ast.NodeTransformer):
    """The `generic_visit` of transformers, which reads fields without a clause."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                value[:] = self._visited(value)
            elif isinstance(value, ast.AST):
                new = self.visit(value)
                if new is None:
                    delattr(node, name)
                else:
                    setattr(node, name, new)
        return node

    def _visited(self, items: list[object]) -> Iterator[object]:
        for item in [*items]:
            new = self.visit(item) if isinstance(item, ast.AST) else [item]
            if isinstance(new, list):
                yield from new
            elif new is not None:
                yield new

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return node  # `ast.NodeVisitor` asks for methods of older versions, with a clause
