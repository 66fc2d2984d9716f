"""Loops over ranges that vary from trip to trip of the loop around them, as ``while`` loops.

``for j in range(k):`` in a loop over `k` makes another number of trips each time. On the tape, an
inner loop has a constant number of trips, or waits for a condition.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ...syntax_trees import walk
from .loop_frames import OWN
from .variable_names import assigned, loaded

BOUND = f"{OWN}bound_"  # how names of starts and stops begin


def with_waiting_loops(
    statements: Sequence[ast.stmt], moving: set[str], builtin: Callable[[str], object]
) -> list[ast.stmt]:
    """Statements in which loops over ranges of `moving` names are ``while`` loops.

    Such names change in a loop around.
    """
    new: list[ast.stmt] = []
    for statement in statements:
        if isinstance(statement, ast.For):
            bounds = _bounds(statement, builtin)
            inner = moving | {*assigned([statement])}
            statement.body = with_waiting_loops(statement.body, inner, builtin)
            if bounds is not None and not moving.isdisjoint(loaded(statement.iter)):
                new += _waiting(statement, *bounds)
                continue
        elif isinstance(statement, (ast.If, ast.While)):
            statement.body = with_waiting_loops(statement.body, moving, builtin)
            statement.orelse = with_waiting_loops(statement.orelse, moving, builtin)
        new.append(statement)
    return new


def _bounds(
    loop: ast.For, builtin: Callable[[str], object]
) -> tuple[ast.expr, ast.expr, int] | None:
    """Start, stop and step of a loop over a range; None of other loops."""
    call = loop.iter
    if loop.orelse or not isinstance(loop.target, ast.Name) or not isinstance(call, ast.Call):
        return None
    name, arguments = call.func, call.args
    if not isinstance(name, ast.Name) or builtin(name.id) is not range or call.keywords:
        return None
    if not 1 <= len(arguments) <= 3 or any(isinstance(a, ast.Starred) for a in arguments):
        return None
    step = _whole(arguments[2]) if len(arguments) == 3 else 1
    start = arguments[0] if len(arguments) > 1 else ast.Constant(0)
    return None if not step else (start, arguments[min(len(arguments), 2) - 1], step)


def _whole(node: ast.expr) -> int:
    """The value of an integer literal; 0 of others."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        sign, node = -1, node.operand
    return sign * node.value if isinstance(node, ast.Constant) and type(node.value) is int else 0


def _waiting(loop: ast.For, start: ast.expr, stop: ast.expr, step: int) -> list[ast.stmt]:
    """The statements in place of a loop: a ``while`` that sets the variable before each trip.

    Trips are counted from 0, so that the counter begins at one number in all trips around the loop.
    """
    place = f"{loop.lineno}_{loop.col_offset}"
    count, begin, end = f"{OWN}count{place}", f"{BOUND}start{place}", f"{BOUND}stop{place}"
    compared, sign = ("<", "+") if step > 0 else (">", "-")
    steps = count if abs(step) == 1 else f"{abs(step)} * {count}"
    assert isinstance(loop.target, ast.Name)
    text = f"""
{begin} = {ast.unparse(start)}
{end} = {ast.unparse(stop)}
{count} = 0
while {begin} {sign} {steps} {compared} {end}:
    {loop.target.id} = {begin} {sign} {steps}
    {count} = {count} + 1
"""
    new = ast.parse(text).body
    for statement in new:
        for node in walk(statement):
            if "lineno" in node._attributes:
                ast.copy_location(node, loop)
    waiting = new[-1]
    assert isinstance(waiting, ast.While)
    waiting.body += loop.body
    return new
