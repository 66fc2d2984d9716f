"""Variables that the body of a loop shares with functions that are defined around the loop.

Such a function reads what the variable holds when it is called. So the body assigns the variable
itself, and none of its own: `body(t_)` begins by `nonlocal t; t = t_`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from ...syntax_trees import walk
from .loop_frames import OWN
from .variable_names import free_names, outside


def shared_names(tree: ast.AST, statement: ast.stmt) -> set[str]:
    """The names that functions read from around them, but for functions in a statement."""
    nodes = outside(tree, statement)
    functions = [n for n in nodes if isinstance(n, (ast.FunctionDef, ast.Lambda))]
    return set[str]().union(*map(free_names, functions))


def share(statements: Sequence[ast.stmt], number: int, names: Iterable[str]) -> list[ast.stmt]:
    """The statements in place of a loop, whose body shares variables."""
    shared = sorted(names)
    body = next(s for s in statements if getattr(s, "name", "") == f"{OWN}body{number}")
    assert isinstance(body, ast.FunctionDef)
    parameters = {a.arg: a for a in body.args.args}
    begin = list[ast.stmt]()
    for name in shared:
        if name in parameters:
            parameters[name].arg = own = f"{OWN}before_{name}"
            begin += ast.parse(f"{name} = {own}").body
    if shared:
        body.body[:0] = [ast.Nonlocal(shared), *begin]
    for statement in begin:
        for part in walk(statement):
            ast.copy_location(part, body)
    return [*statements]
