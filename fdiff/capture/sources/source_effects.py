"""Whether code has no effect but on its own variables, as its source tells.

All that is not listed here counts as an effect.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CellType, FunctionType, ModuleType

import fdiff.intact_numpy as np

from ...syntax_trees import children
from ..dependency_nodes import attribute
from ..proxies.module_proxies import GlobalsProxy
from ..value_kinds import MISSING
from .definitions import definition

_DEPTH = 3  # of functions that call each other
_SYNTAX = (
    ast.Assign, ast.AugAssign, ast.If, ast.For, ast.While, ast.Pass, ast.Break, ast.Continue,
    ast.Return, ast.Expr, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call,
    ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Constant, ast.Tuple,
    ast.List, ast.ListComp, ast.comprehension, ast.expr_context, ast.operator, ast.unaryop,
    ast.boolop, ast.cmpop,
)  # fmt: skip
_ATTRIBUTES = frozenset(("T", "shape", "size", "ndim", "dtype", "real", "imag"))
_METHODS = """
    all any argmax argmin astype clip conj copy cumsum diagonal dot flatten max mean min prod
    ravel reshape round squeeze std sum swapaxes trace transpose var
"""
_FUNCTIONS = """
    all allclose amax amin any append arange argmax argmin array asarray atleast_1d clip
    concatenate convolve copy cross cumsum diag diagonal diff dot einsum expand_dims eye float64
    full full_like hstack identity inner interp isclose kron linspace max mean median min
    nan_to_num ones ones_like outer prod ravel reshape roll round sort squeeze stack std sum
    swapaxes tensordot tile trace transpose tril triu var vdot vstack where zeros zeros_like
    norm solve inv det slogdet cholesky matrix_power
"""
METHODS, FUNCTIONS = (frozenset(names.split()) for names in (_METHODS, _FUNCTIONS))
_MODULES = frozenset(("numpy", "numpy.linalg", "math"))
_BUILTINS = (
    abs, bool, enumerate, float, int, len, list, max, min, pow, range, round, sum, tuple, zip,
)  # fmt: skip
_DATA = (np.ndarray, np.generic, float, int, complex, str, bool, type(None), ModuleType)


class EffectError(Exception):
    """Code may have an effect on something else than its own variables."""


class Scope:
    """The values of a function's names outside of it."""

    def __init__(self, fn: FunctionType) -> None:
        self.code = fn.__code__
        space = fn.__globals__
        self.globals = space.real if isinstance(space, GlobalsProxy) else space
        self.cells: dict[str, CellType] = dict(
            zip(self.code.co_freevars, fn.__closure__ or (), strict=True)
        )

    def value(self, name: str) -> object:
        """The value of a name; MISSING if it is a variable of the function."""
        if name in (*self.code.co_varnames, *self.code.co_cellvars):
            return MISSING
        if name in self.cells:
            return attribute(self.cells[name], "cell_contents")
        return self.globals.get(name, getattr(builtins, name, MISSING))


def check(statements: Iterable[ast.AST], scope: Scope, depth: int = 0) -> None:
    """EffectError unless statements of a function change its own variables alone.

    At depth 0 they may store into arrays that variables hold, and raise errors outside of loops.
    """
    for statement in statements:
        nodes = [*_nodes(statement, raises=not depth)]
        called = [n.func for n in nodes if isinstance(n, ast.Call)]
        for node in nodes:
            if not isinstance(node, _SYNTAX):
                raise EffectError(type(node).__name__)
            _check_node(node, scope, depth, called)


def _nodes(node: ast.AST, *, raises: bool) -> Iterator[ast.AST]:
    """The nodes of a statement but for errors, if it `raises` them outside of its loops."""
    if raises and isinstance(node, ast.Raise):
        return
    yield node
    raises = raises and not isinstance(node, (ast.For, ast.While))
    for child in children(node):
        yield from _nodes(child, raises=raises)


def _check_node(node: ast.AST, scope: Scope, depth: int, called: list[ast.expr]) -> None:
    if isinstance(node, ast.Call):
        _check_call(node, scope, depth)
    elif isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
        raise EffectError("a call whose result is dropped")
    elif isinstance(node, ast.Return) and not depth:
        raise EffectError("return")
    elif isinstance(node, (ast.Assign, ast.Return)):
        _check_lists(node.value, scope)
    elif isinstance(node, (ast.For, ast.While)) and node.orelse:
        raise EffectError("else of a loop")
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        if depth or not isinstance(node.value, ast.Name) or isinstance(node.ctx, ast.Del):
            raise EffectError("a store")
    elif isinstance(node, ast.Attribute) and node not in called:
        constant = isinstance(_resolved(node.value, scope), ModuleType)
        if not isinstance(node.ctx, ast.Load) or not (constant or node.attr in _ATTRIBUTES):
            raise EffectError("an attribute")
    elif isinstance(node, ast.Compare):
        identity = any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
        if identity and any(getattr(c, "value", c) is not None for c in node.comparators):
            raise EffectError("is")
    elif isinstance(node, ast.Name) and node not in called:
        value = scope.value(node.id)
        if value is not MISSING and not is_data(value):
            raise EffectError(node.id)


def _check_lists(node: ast.AST | None, scope: Scope) -> None:
    """EffectError where a list from outside gets another name, by which it can be changed."""
    if isinstance(node, ast.Name) and isinstance(scope.value(node.id), list):
        raise EffectError("a list from outside gets another name")
    if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Tuple, ast.List)):
        for part in children(node):
            _check_lists(part, scope)


def is_data(value: object) -> bool:
    """Whether reading and computing with a value runs no code of the user."""
    if type(value) is tuple or type(value) is list:  # of no other lists
        return all(is_data(part) and type(part) is not list for part in value)
    return isinstance(value, _DATA) and type(value).__module__ in ("numpy", "builtins")


def _resolved(node: ast.expr, scope: Scope) -> object:
    """The value of a dotted name, through modules alone."""
    if isinstance(node, ast.Name):
        return scope.value(node.id)
    if isinstance(node, ast.Attribute):
        base = _resolved(node.value, scope)
        if isinstance(base, ModuleType) and base.__name__ in _MODULES:
            return getattr(base, node.attr, MISSING)
    return MISSING


def _check_call(call: ast.Call, scope: Scope, depth: int) -> None:
    """EffectError unless a function that is called has no effect."""
    if any(k.arg in (None, "out", "where") for k in call.keywords):
        raise EffectError("out")
    value = _resolved(call.func, scope)
    if value is MISSING and isinstance(call.func, ast.Attribute):
        if isinstance(call.func.value, ast.Name) and scope.value(call.func.value.id) is not MISSING:
            raise EffectError("a method")
        if call.func.attr not in METHODS:
            raise EffectError(call.func.attr)
    elif isinstance(value, np.ufunc):
        if len(call.args) > value.nin:
            raise EffectError("out")
    elif isinstance(value, FunctionType) and not _is_library(value):
        for part in (*call.args, *[k.value for k in call.keywords]):
            _check_lists(part, scope)
        _check_function(value, depth)
    elif value is MISSING or not (_is_function(value) or _is_builtin(value)):
        raise EffectError("a call")


def _is_library(fn: object) -> bool:
    return str(getattr(fn, "__module__", "")).partition(".")[0] == "numpy"


def _is_function(value: object) -> bool:
    name = getattr(value, "__name__", "")
    if isinstance(value, BuiltinFunctionType) and value.__module__ == "math":
        return True
    own = getattr(np, name, None) is value or getattr(np.linalg, name, None) is value
    return name in FUNCTIONS and own


def _is_builtin(value: object) -> bool:
    return any(value is b for b in _BUILTINS)


def _check_function(fn: FunctionType, depth: int) -> None:
    """EffectError unless a function of the user has no effect."""
    whole = None if depth >= _DEPTH or fn.__defaults__ or fn.__dict__ else definition(fn.__code__)
    if whole is None or whole.function.decorator_list:
        raise EffectError(fn.__name__)
    check(whole.function.body, Scope(fn), depth + 1)
