"""The names of variables that statements assign, store into, and read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...syntax_trees import children, walk


def is_read(tree: ast.AST, loop: ast.stmt, name: str) -> bool:
    """Whether a name is read outside of a loop, and of other loops whose variable it is."""
    for child in children(tree):
        inner = isinstance(child, ast.For) and name in assigned([child.target])
        read = isinstance(child, ast.Name) and child.id == name and isinstance(child.ctx, ast.Load)
        if read or (child is not loop and not inner and is_read(child, loop, name)):
            return True
    return False


def outside(tree: ast.AST, statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a function that are not in a statement, nor in the body of a loop."""
    for child in children(tree):
        yield child
        if child is not statement:
            yield from outside(child, statement)
        elif isinstance(child, (ast.For, ast.While)):
            yield from walk(child.iter if isinstance(child, ast.For) else child.test)


def assigned(statements: Sequence[ast.AST]) -> Iterator[str]:
    """The names that statements assign; comprehensions have names of their own."""
    waiting: list[ast.AST] = [*statements]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, ast.ListComp):
            waiting += children(node)


def stored(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """The names of what is stored into by key."""
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                assert isinstance(node.value, ast.Name)
                yield node.value.id


def unbound_reads(statements: Sequence[ast.stmt], bound: set[str]) -> tuple[set[str], set[str]]:
    """The names that are bound behind statements, and those that may be read before they are."""
    bound, read = {*bound}, set[str]()
    for s in statements:
        if isinstance(s, ast.If):
            read |= loaded(s.test) - bound
            parts = [unbound_reads(part, bound) for part in (s.body, s.orelse)]
            ways = zip(parts, (s.body, s.orelse), strict=True)
            ends = [end for (end, _), part in ways if not _skips(part)]
            read |= parts[0][1] | parts[1][1]
            bound = set.intersection(*ends) if ends else bound
        elif isinstance(s, (ast.For, ast.While)):
            each = {*assigned([s.target])} if isinstance(s, ast.For) else set[str]()
            read |= loaded(s.iter if isinstance(s, ast.For) else s.test) - bound
            read |= unbound_reads(s.body, bound | each)[1]
        elif not isinstance(s, ast.Raise):
            target = s.target if isinstance(s, ast.AugAssign) else s
            read |= (loaded(s) | ({*assigned([target])} if target is not s else set())) - bound
            bound |= {*assigned([s])}
    return bound, read


def _skips(statements: Sequence[ast.stmt]) -> bool:
    """Whether what comes behind statements is left out."""
    return bool(statements) and isinstance(statements[-1], (ast.Continue, ast.Break, ast.Raise))


def loaded(node: ast.AST) -> set[str]:
    """The names that a node reads."""
    return {n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
