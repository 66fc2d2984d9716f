"""``else`` of loops, as an ``if`` after a loop that asks whether it was left by ``break``.

Source: Python's Language Reference, section "The for statement".
"""

from __future__ import annotations

import ast

from ...syntax_trees import GenericVisit, walk
from .loop_frames import OWN

BROKEN = f"{OWN}broken_"  # prefix of the flags that say whether a loop ended by ``break``


def without_else(function: ast.FunctionDef) -> ast.FunctionDef:
    """A function, changed in place, whose loops have no ``else``."""
    if any(isinstance(n, (ast.For, ast.While)) and n.orelse for n in walk(function)):
        _WithoutElse().generic_visit(function)
    return function


class _WithoutElse(GenericVisit, ast.NodeTransformer):
    """Puts an ``if`` in place of the ``else`` of loops, the inner ones first."""

    def _loop(self, loop: ast.For | ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(loop)
        if not loop.orelse:
            return loop
        behind, loop.orelse = loop.orelse, []
        noting = _NotingBreaks(f"{BROKEN}{loop.lineno}_{loop.col_offset}")
        loop.body = noting.block(loop.body)
        if not noting.breaks:
            return [loop, *behind]
        test = ast.UnaryOp(ast.Not(), ast.Name(noting.name, ast.Load()))
        choice = ast.If(test, behind, [])
        return [noting.noted(loop, value=False), loop, _located(choice, behind[0])]

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        return self._loop(node)


class _NotingBreaks(GenericVisit, ast.NodeTransformer):
    """Sets a variable before each ``break`` that leaves a loop."""

    def __init__(self, name: str) -> None:
        self.name, self.breaks = name, False

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """The body of the loop."""
        module = self.generic_visit(ast.Module(statements, []))
        assert isinstance(module, ast.Module)
        return module.body

    def noted(self, place: ast.stmt, *, value: bool) -> ast.stmt:
        """The statement that says whether the loop was left."""
        return _located(ast.Assign([ast.Name(self.name, ast.Store())], ast.Constant(value)), place)

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        self.breaks = True
        return [self.noted(node, value=True), node]

    def visit_For(self, node: ast.For) -> ast.AST:
        return node

    def visit_While(self, node: ast.While) -> ast.AST:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return node


def _located(new: ast.stmt, place: ast.stmt) -> ast.stmt:
    for node in walk(new):
        if "lineno" in node._attributes and not hasattr(node, "lineno"):
            ast.copy_location(node, place)
    return new
