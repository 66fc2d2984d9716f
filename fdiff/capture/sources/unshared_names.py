"""Variables whose arrays have no other name, as the source of a function tells.

Alias analysis: S. S. Muchnick, Advanced Compiler Design and Implementation, Morgan Kaufmann 1997,
chapter 10.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import zip_longest

from ...syntax_trees import children, walk
from .variable_names import assigned, own_names, parameters

_COMPUTE = (ast.BinOp, ast.UnaryOp, ast.Compare, ast.AugAssign)
_VIEWS = """
    asarray asanyarray ascontiguousarray atleast_1d atleast_2d atleast_3d broadcast_to diag diagonal
    expand_dims imag moveaxis ravel real reshape split squeeze swapaxes transpose trace
"""
VIEWS = frozenset(_VIEWS.split())  # NumPy functions that may give their argument, or a view


def unshared_names(function: ast.FunctionDef) -> frozenset[str]:
    """The variables that hold only results of operations, and are used only as operands.

    None of them in a function with inner functions, whose variables may have the same names.
    """
    functions = ast.FunctionDef, ast.Lambda
    if any(isinstance(n, functions) for s in function.body for n in walk(s)):
        return frozenset()
    names = own_names(function) - parameters(function)
    return frozenset(names) - {*_shared(function, computed=False)} - {*_uncomputed(function)}


def _uncomputed(node: ast.AST) -> Iterator[str]:
    """The names that get another value than the result of an operation."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = [*zip_longest(target.elts, node.value.elts, fillvalue=node.value)]
            for part, value in pairs:
                if not (isinstance(value, (ast.BinOp, ast.UnaryOp)) or _is_of_numpy(value)):
                    yield from assigned([part])
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif not isinstance(node, ast.AugAssign):
        for child in children(node):
            yield from _uncomputed(child)


def _shared(node: ast.AST, *, computed: bool) -> Iterator[str]:
    """The names whose arrays may get another name in a node; none of an operand (`computed`)."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and not computed:
            yield node.id
        return
    for child in children(node):
        if isinstance(node, ast.Subscript) and child is node.value:
            own = computed or isinstance(node.ctx, ast.Store)
        else:
            own = isinstance(node, _COMPUTE) or _is_of_numpy(node)
        yield from _shared(child, computed=own)


def _is_of_numpy(node: ast.AST) -> bool:
    """Whether a node calls a function ``np.name`` that gives a new array or a number."""
    function = node.func if isinstance(node, ast.Call) else None
    base = function.value if isinstance(function, ast.Attribute) else None
    plain = isinstance(base, ast.Name) and base.id in ("np", "numpy")
    return plain and isinstance(function, ast.Attribute) and function.attr not in VIEWS
