"""Functions that store into their arguments, and the variables whose arrays these are.

An array that is passed to such a function is stored into by the code that calls the function, which
has to call it by its name. See docs/decisions/stores-into-arguments.md.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from types import FunctionType

from ..value_kinds import MISSING
from .name_scopes import Scope
from .variable_names import parameters


class EffectError(Exception):
    """Code may have an effect on something else than its own variables."""


def positional_or_named(function: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The parameters of a function that hold one argument each."""
    kinds = function.args
    packed = {a.arg for a in (kinds.vararg, kinds.kwarg) if a is not None}
    return frozenset(parameters(function) - packed)


def note_stores(name: str, scope: Scope) -> None:
    """Note a store into what a variable of a function holds; EffectError if others may hold it."""
    if not scope.depth:
        scope.attributes.changed.add(name)
    elif name in scope.parameters:
        scope.stored.add(name)
    elif name not in scope.fresh:
        raise EffectError("a store")


def note_call(call: ast.Call, function: FunctionType, stored: Iterable[str], scope: Scope) -> None:
    """Note a call by name of a function that stores into the arrays of some of its parameters."""
    assert isinstance(call.func, ast.Name), "the function is called by its name"
    if scope.repeated or any(isinstance(a, ast.Starred) for a in call.args):
        raise EffectError(f"{call.func.id} stores into its arguments")
    code = function.__code__
    arguments = dict(zip(code.co_varnames[: code.co_argcount], call.args, strict=False))
    arguments |= {k.arg: k.value for k in call.keywords if k.arg is not None}
    for name in stored:
        if name not in arguments:
            continue  # it has its default, which is no array
        variable = _variable(arguments[name])
        if not variable or scope.value(variable) is not MISSING:
            raise EffectError(f"{call.func.id} stores into its arguments")
        note_stores(variable, scope)
    scope.attributes.storing.add(call.func.id)


def _variable(node: ast.expr) -> str:
    """The variable that holds an array, or an array of which a view is taken by keys."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
