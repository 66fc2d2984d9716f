"""Whether code has no effect but on its own variables, as its source tells.

All that is not listed here counts as an effect. The NumPy functions are not taken from the registry
(`fdiff/primitive.py`): it has functions that store into arguments (`put`) or call other functions
(`piecewise`), lacks functions that make arrays (`zeros`), and grows as tables load (`solve`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType

import fdiff.intact_numpy as np

from ...intact_numpy import numpy_function
from ...syntax_trees import children, walk
from ..value_kinds import MISSING
from .definitions import definition
from .grown_lists import appended
from .name_scopes import Scope, is_constant, is_data
from .object_attributes import (
    OF_ARRAYS,
    OF_OTHERS,
    AttributeNames,
    ObjectAttributes,
    is_user_object,
    root_name,
)
from .stored_arguments import EffectError, note_call, note_stores, positional_or_named
from .variable_names import COMPREHENSIONS, assigned, elements_of_lists, root

_DEPTH = 3  # of functions that call each other
_SYNTAX = (
    ast.Assign, ast.AugAssign, ast.If, ast.For, ast.While, ast.Pass, ast.Break, ast.Continue,
    ast.Return, ast.Expr, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call,
    ast.keyword, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Constant, ast.Tuple,
    ast.List, ast.Dict, *COMPREHENSIONS, ast.comprehension, ast.expr_context, ast.operator,
    ast.unaryop, ast.boolop, ast.cmpop, ast.FunctionDef, ast.Lambda, ast.arguments, ast.arg,
    ast.Try, ast.ExceptHandler,
)  # fmt: skip
_METHODS = """
    all any argmax argmin argsort astype clip conj copy cumprod cumsum diagonal dot flatten item max
    mean min prod ravel repeat reshape round searchsorted squeeze std sum swapaxes take trace
    transpose var
"""
_FUNCTIONS = """
    all allclose amax amin angle any append arange argmax argmin argsort around array asarray
    atleast_1d atleast_2d average clip column_stack concatenate convolve copy correlate
    count_nonzero cov cross cumprod cumsum diag diagonal diff digitize dot dstack einsum empty
    empty_like expand_dims eye fix flip fliplr flipud float32 float64 full full_like gradient hstack
    identity inner interp isclose kron linspace logspace max mean median meshgrid min moveaxis
    nan_to_num nanmax nanmean nanmin nansum ndim ones ones_like outer pad percentile polyval prod
    ptp quantile ravel repeat reshape roll rot90 round searchsorted select shape sinc size sort
    squeeze stack std sum swapaxes take take_along_axis tensordot tile trace transpose trapezoid
    tril triu unravel_index vander var vdot vstack where zeros zeros_like
    cholesky cond det eigh eigvalsh inv lstsq matmul matrix_power multi_dot norm pinv qr slogdet
    solve svd
"""
METHODS, FUNCTIONS = (frozenset(names.split()) for names in (_METHODS, _FUNCTIONS))
_MODULES = frozenset(("numpy", "numpy.linalg", "math"))
_EAGER = all, any, list, max, min, sum, tuple  # they use up what they are given
_BUILTINS = (
    *_EAGER, abs, bool, divmod, enumerate, float, int, isinstance, len, pow, range, reversed, round,
    sorted, zip,
)  # fmt: skip
_DATA = (np.ndarray, np.generic, float, int, complex, str, bool, type(None), ModuleType)


_CAUGHT = np.linalg.LinAlgError, ZeroDivisionError  # traced code raises them as plain code does


def check(
    statements: Sequence[ast.AST], scope: Scope, loops: Sequence[ast.AST] = ()
) -> ObjectAttributes:
    """The attributes of objects that statements use, which change no more than variables else.

    EffectError of other statements. At depth 0 they may store into arrays that variables hold,
    append to lists, and raise errors. They may stand in `loops`.
    """
    if not scope.depth:
        scope = scope.hiding(())
        scope.attributes = AttributeNames()
    for statement in statements:
        nodes = [*_nodes(statement, scope, raises=not scope.depth)]
        calls = [(n, around) for n, around in nodes if isinstance(n, ast.Call)]
        called = {id(n.func) for n, _ in calls}
        called |= {id(part) for n, around in calls for part in _used_up(n, around)}
        bases = {id(n.value) for n, _ in nodes if isinstance(n, ast.Attribute)}
        for node, around in nodes:
            if not isinstance(node, _SYNTAX):
                raise EffectError(type(node).__name__)
            if id(node) not in called:
                _check_node(node, around, is_base=id(node) in bases)
    return scope.attributes.whole(elements_of_lists([*loops, *statements]))


def _used_up(call: ast.Call, scope: Scope) -> list[ast.expr]:
    """The generator expressions that a builtin function is given, which uses them up."""
    eager = any(scope.resolved(call.func) is own for own in _EAGER)
    return [a for a in call.args if isinstance(a, ast.GeneratorExp)] if eager else []


def _nodes(node: ast.AST, scope: Scope, *, raises: bool) -> Iterator[tuple[ast.AST, Scope]]:
    """The nodes of a statement but for errors, if it `raises` them.

    Of what appends to a list at depth 0, the nodes of what is appended.
    """
    if raises and isinstance(node, ast.Raise):
        return
    more = None if scope.depth else appended(node)
    if more is None:
        yield node, scope
    raises = raises and not isinstance(node, ast.FunctionDef)
    inner = scope
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        inner = scope.inside(node)
    elif isinstance(node, COMPREHENSIONS):
        inner = scope.hiding(assigned([g.target for g in node.generators]))
        inner.repeated = True
    for child in children(node) if more is None else more[1:]:
        own = scope if isinstance(child, ast.arguments) else inner
        if child not in _annotations(node):
            yield from _nodes(child, own, raises=raises)


def _annotations(node: ast.AST) -> list[ast.expr]:
    """The annotations of a function or a parameter that run no code."""
    each = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    return [n for n in each if isinstance(n, (ast.Name, ast.Constant, ast.Attribute))]


def _check_node(node: ast.AST, scope: Scope, *, is_base: bool) -> None:
    if isinstance(node, ast.Call):
        _check_call(node, scope)
    elif isinstance(node, ast.Try):
        if node.finalbody or any(isinstance(n, ast.Raise) for s in node.body for n in walk(s)):
            raise EffectError("a `try` that raises, or has a `finally`")
    elif isinstance(node, ast.ExceptHandler):
        kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        caught = [k is not None and scope.resolved(k) for k in kinds]
        if node.name or not all(any(k is own for own in _CAUGHT) for k in caught):
            raise EffectError("an error that is caught")
    elif isinstance(node, ast.GeneratorExp):
        raise EffectError("a generator")
    elif isinstance(node, ast.FunctionDef) and node.decorator_list:
        raise EffectError("a decorator")
    elif isinstance(node, ast.Expr) and not isinstance(node.value, (ast.Constant, ast.Call)):
        raise EffectError("an expression whose result is dropped")
    elif isinstance(node, (ast.Assign, ast.Return)):
        _check_lists(node.value, scope)
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        base = root(node)
        name = base.id if isinstance(base, ast.Name) else ""
        if isinstance(base, ast.Attribute):
            _check_attribute(base, scope, ast.Store())
        elif not name or isinstance(node.ctx, ast.Del):
            raise EffectError("a store")
        else:
            note_stores(name, scope)
    elif isinstance(node, ast.Attribute):
        value = scope.resolved(node)
        constant = value is not MISSING and (is_data(value) or _computes(value))
        if not (constant and isinstance(node.ctx, ast.Load)):
            _check_attribute(node, scope, node.ctx)
    elif isinstance(node, ast.Compare):
        identity = any(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
        if identity and any(getattr(c, "value", c) is not None for c in node.comparators):
            raise EffectError("is")
    elif isinstance(node, ast.Name):
        _check_name(node, scope, is_base=is_base)


def _check_name(node: ast.Name, scope: Scope, *, is_base: bool) -> None:
    value = scope.value(node.id)
    if value is MISSING or _computes(value):
        return
    if isinstance(value, ModuleType):
        scope.attributes.outer.add(node.id)
        if not is_base:  # functions would not be looked up as they are here
            raise EffectError("a module in a variable")
    elif _is_of_user(value) or is_user_object(value):
        _check_outer(node.id, value, scope)
    elif not scope.data(value):
        raise EffectError(node.id)


def _check_outer(name: str, value: object, scope: Scope) -> None:
    """Note an object or a function from around the function; EffectError if it has effects."""
    scope.attributes.outer.add(name)
    if is_user_object(value):
        if scope.depth and not scope.data(value):
            raise EffectError(name)
    else:
        check_function(value, scope.data, scope.depth, scope.attributes if scope.depth else None)


def _check_attribute(node: ast.Attribute, scope: Scope, context: ast.expr_context) -> None:
    """Note an attribute that is read or stored; EffectError unless it is one of an object's.

    What has an attribute that other values have, too, is a variable that holds an object.
    """
    names, name, stores = scope.attributes, root_name(node), not isinstance(context, ast.Load)
    value = scope.value(name) if name else MISSING
    outside = value is not MISSING and not is_user_object(value)
    of_array = node.attr in OF_ARRAYS and not stores
    own = scope.mangled(node.attr)
    if own.startswith("__") or isinstance(context, ast.Del) or (outside and not of_array):
        raise EffectError("an attribute")
    if (node.attr in OF_OTHERS or node.attr in OF_ARRAYS) and not of_array:
        if not isinstance(node.value, ast.Name) or (scope.depth and name not in scope.owners):
            raise EffectError("an attribute of what may be no object")
        names.owners.add(name)
    _note_root(name, value, scope)
    if stores:
        names.targets.add(name)
    (names.stored if stores else names.read).add(own)


def _note_root(name: str, value: object, scope: Scope) -> None:
    """Note the variable by which an attribute is found, if there is one."""
    if value is MISSING and name:
        scope.attributes.roots.add(name)
    elif is_user_object(value):
        _check_outer(name, value, scope)


def _check_lists(node: ast.AST | None, scope: Scope) -> None:
    """EffectError where a list from outside gets another name, by which it can be changed."""
    if isinstance(node, ast.Name) and isinstance(scope.value(node.id), list):
        raise EffectError("a list from outside gets another name")
    if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Tuple, ast.List)):
        for part in children(node):
            _check_lists(part, scope)


def _check_call(call: ast.Call, scope: Scope) -> None:
    """EffectError unless a function that is called has no effect.

    A variable may hold functions and objects that are looked at where they are read or defined.
    """
    if any(k.arg in (None, "out", "where") for k in call.keywords):
        raise EffectError("out")
    value = scope.resolved(call.func)
    own = isinstance(call.func, ast.Name) and (_is_of_user(value) or is_user_object(value))
    if value is MISSING and isinstance(call.func, (ast.Attribute, ast.Subscript)):
        _check_method(call.func, scope)
        _check_arguments(call, scope)
    elif isinstance(value, np.ufunc):
        if len(call.args) > value.nin:
            raise EffectError("out")
    elif isinstance(call.func, ast.Name) and (value is MISSING or own):
        _check_arguments(call, scope)
        if type(value) is FunctionType:
            scope.attributes.outer.add(call.func.id)
            around = scope.attributes if scope.depth else None
            stored = stored_parameters(value, scope.data, scope.depth, around)
            if stored:
                note_call(call, value, stored, scope)
        elif own:
            _check_outer(call.func.id, value, scope)
    elif not (_is_function(value) or _is_builtin(value) or (value is super and not call.args)):
        raise EffectError("a call")


def _check_arguments(call: ast.Call, scope: Scope) -> None:
    for part in (*call.args, *[k.value for k in call.keywords]):
        _check_lists(part, scope)


def _check_method(node: ast.Attribute | ast.Subscript, scope: Scope) -> None:
    """Note a method that is called; EffectError unless it computes, or is one of an object's."""
    name, names = root_name(node), scope.attributes
    value = scope.value(name) if name else MISSING
    method = scope.mangled(node.attr) if isinstance(node, ast.Attribute) else ""
    direct = isinstance(node.value, ast.Name)
    if method == "fill" and not (direct and (name in scope.owners or is_user_object(value))):
        _note_fill(node.value, name, scope)
        return
    above = isinstance(node.value, ast.Call) and scope.resolved(node.value.func) is super
    if value is not MISSING and not is_user_object(value) and (direct or method not in METHODS):
        raise EffectError("a method")
    if method.startswith("__"):
        raise EffectError(method)
    if method in OF_OTHERS and method not in METHODS and not above:
        if not direct or (scope.depth and name not in scope.owners):
            raise EffectError(method)
        names.owners.add(name)
    _note_root(name, value, scope)
    names.called.add(method)


def _note_fill(node: ast.expr, name: str, scope: Scope) -> None:
    """Note that ``fill`` stores into the array of a variable or attribute.

    An attribute may be an object of the user with a method of this name.
    """
    scope.attributes.called.add("fill")
    base = root(node) if isinstance(node, ast.Subscript) else node
    if isinstance(base, ast.Attribute):
        _check_attribute(base, scope, ast.Store())
    elif not isinstance(base, ast.Name) or scope.value(name) is not MISSING or scope.repeated:
        raise EffectError("fill")
    else:
        note_stores(name, scope)


def _is_library(fn: object) -> bool:
    return str(getattr(fn, "__module__", "")).partition(".")[0] == "numpy"


def _is_function(value: object) -> bool:
    name = getattr(value, "__name__", "")
    if isinstance(value, BuiltinFunctionType) and value.__module__ == "math":
        return True
    if name not in FUNCTIONS:
        return False
    each = getattr(np, name, None), getattr(np.linalg, name, None)
    return any(callable(f) and value is numpy_function(f) for f in each)


def _computes(value: object) -> bool:
    """Whether a value is a function of NumPy or of `math` that only computes."""
    number = any(value is kind for kind in (float, int, bool, complex, *_CAUGHT))  # as a dtype
    return isinstance(value, np.ufunc) or number or _is_function(value)


def _is_builtin(value: object) -> bool:
    return any(value is b for b in _BUILTINS)


def _is_of_user(value: object) -> bool:
    return isinstance(value, (FunctionType, partial)) and not _is_library(value)


def check_function(
    value: object, data: Callable[[object], bool] = is_constant, depth: int = 0,
    attributes: AttributeNames | None = None, member: type | None = None,
) -> None:  # fmt: skip
    """EffectError unless calls of a function of the user have no effect.

    A `member` of a class is a plain function, which is a method, a classmethod or a staticmethod.
    """
    if type(value) is partial:
        _check_constants("partial", [*value.args, *value.keywords.values()], data)
        check_function(value.func, data, depth, attributes)
        return
    if isinstance(value, MethodType):
        if not data(value.__self__):
            raise EffectError("a method")
        check_function(value.__func__, data, depth, attributes, FunctionType)
        return
    if _computes(value):
        return
    if not isinstance(value, FunctionType):
        raise EffectError("a call")
    if stored_parameters(value, data, depth, attributes, member):
        raise EffectError("it stores into its arguments")


def stored_parameters(
    value: FunctionType, data: Callable[[object], bool] = is_constant, depth: int = 0,
    attributes: AttributeNames | None = None, member: type | None = None,
) -> set[str]:  # fmt: skip
    """The parameters into whose arrays a function stores, which has no other effect.

    EffectError of other functions.
    """
    name = value.__name__
    whole = None if depth >= _DEPTH or value.__dict__ else definition(value.__code__)
    decorated = getattr(whole and whole.function, "decorator_list", None)
    if whole is None or (decorated and member is None):
        raise EffectError(name)
    defaults = *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()
    _check_constants(name, defaults, data)
    body = whole.function.body
    scope = Scope(value, data, depth + 1)
    scope.attributes = AttributeNames(attributes)
    scope = scope.inside(whole.function)
    statements = body if isinstance(body, list) else [ast.Return(body)]
    first = [a.arg for a in (*whole.function.args.posonlyargs, *whole.function.args.args)][:1]
    if member is FunctionType:
        scope.owners = frozenset(first) - {*assigned(statements)}
    elif member is classmethod and first:
        nodes = [n for s in statements for n in walk(s)]
        bases = {id(n.value) for n in nodes if isinstance(n, ast.Attribute)}
        if any(isinstance(n, ast.Name) and n.id == first[0] and id(n) not in bases for n in nodes):
            raise EffectError("a class in a variable")
    scope.parameters = positional_or_named(whole.function) - {*assigned(statements)}
    check(statements, scope)
    return scope.stored


def _check_constants(name: str, values: Iterable[object], data: Callable[[object], bool]) -> None:
    """EffectError unless the values that a function is always called with cannot change."""
    if any(isinstance(v, (list, np.ndarray)) or not data(v) for v in values):
        raise EffectError(name)
