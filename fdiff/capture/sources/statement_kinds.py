"""What statements may do: branch, leave a loop, number its trips."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...syntax_trees import walk
from .variable_names import assigned, without_functions


def is_decision(statement: ast.stmt) -> bool:
    """Whether a statement without loops may choose what it assigns."""
    kinds = ast.IfExp, ast.BoolOp
    nodes = [*without_functions(statement)]
    if any(isinstance(node, (ast.For, ast.While, ast.FunctionDef)) for node in nodes):
        return False
    assigns = isinstance(statement, (ast.Assign, ast.AugAssign))
    return isinstance(statement, ast.If) or (assigns and any(isinstance(n, kinds) for n in nodes))


def first_uneven(statements: Sequence[ast.stmt]) -> int | None:
    """The place after all loops of the first statement that leaves a variable alone in an arm."""
    place = None
    for k, statement in enumerate(statements):
        if any(isinstance(n, (ast.For, ast.While)) for n in without_functions(statement)):
            place = None
        elif place is None and _is_uneven(statement):
            place = k
    return place


def _is_uneven(statement: ast.stmt) -> bool:
    """Whether a decision may leave a variable alone, or give it a Python number."""
    if not is_decision(statement):
        return False
    if isinstance(statement, ast.If):
        arms = statement.body, statement.orelse
        if len({frozenset(assigned(arm)) for arm in arms}) > 1:
            return True
    values = [n.value for n in walk(statement) if isinstance(n, ast.Assign)]
    choices = [n for n in walk(statement) if isinstance(n, ast.IfExp)]
    values += [arm for n in choices for arm in (n.body, n.orelse)]
    return any(isinstance(value, ast.Constant) for value in values)


def ends_trip(statement: ast.stmt) -> bool:
    """Whether a statement may end the trip or the loop that it stands in."""
    kinds = ast.Break, ast.Continue, ast.Raise, ast.Return
    return any(isinstance(node, kinds) for node in walk(statement))


def head_of(loop: ast.For | ast.While) -> ast.expr:
    """The iterable of a ``for``, or the condition of a ``while``."""
    return loop.iter if isinstance(loop, ast.For) else loop.test


def may_branch(loop: ast.For | ast.While) -> bool:
    """Whether something in a loop may branch."""
    kinds = ast.If, ast.IfExp, ast.While, ast.BoolOp, ast.Call
    return isinstance(loop, ast.While) or any(
        isinstance(node, kinds) for s in loop.body for node in walk(s)
    )


def leaves_by(statements: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    """Whether statements of a kind leave the loop around."""
    return any(
        isinstance(s, kind)
        or (isinstance(s, (ast.If, ast.Try)) and leaves_by([*s.body, *s.orelse], kind))
        or (isinstance(s, ast.Try) and any(leaves_by(h.body, kind) for h in s.handlers))
        for s in statements
    )


def counter_of(loop: ast.For | ast.While) -> str:
    """The variable that numbers the trips of a ``for``; an empty text if there is none."""
    assert isinstance(loop, ast.For), "no ``while`` numbers its trips"
    target = loop.target
    function = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    kind = function.id if isinstance(function, ast.Name) else ""
    if kind == "enumerate" and isinstance(target, ast.Tuple):
        target = target.elts[0]
    elif kind != "range":
        return ""
    return target.id if isinstance(target, ast.Name) else ""
