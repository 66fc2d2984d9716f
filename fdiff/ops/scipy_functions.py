"""Functions of SciPy: how a table replaces one, and how one without a derivative rule is refused.

A function without a rule runs on concrete values as long as nothing in its arguments depends on an argument of
the differentiated function; otherwise it raises `UnsupportedError`.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType

import fdiff.intact_numpy as np

from ..foreign_errors import hiding, wraps
from ..tape import CONSTANT
from ..trace import Trace, TracedArray, current, guarded_value, replaces, unsupported
from ..trace.apply_primitive import Handler
from ..trace.handler_arguments import resolve
from ..trace.local_arrays import holds_traced, localised
from ..trace.static_arguments import looking, settled

_FUNCTIONS = (FunctionType, BuiltinFunctionType)
_concrete_only: dict[int, tuple[object, object]] = {}


# How a traced counterpart becomes the library's own object, by the counterpart's class.
TO_LIBRARY: dict[type, Callable[..., object]] = {}


def involves_traced(value: object) -> bool:
    """Whether `value` is a traced array, the traced counterpart of a library's object, or a sequence that holds one."""
    if type(value) is list or type(value) is tuple:
        return any(map(involves_traced, value))
    return type(value) in TO_LIBRARY or holds_traced(value)


def replaces_if_traced(*functions: Callable[..., object]) -> Callable[[Handler], Handler]:
    """Decorator: this handler computes the functions if an argument is traced; otherwise they run themselves."""

    def enter(handler: Handler) -> Handler:
        for function in functions:
            replaces(function)(_either(function, looking(handler, settled)))
        return handler

    return enter


def _either(function: Callable[..., object], handler: Callable[..., object]) -> Callable[..., object]:
    @wraps(function)
    def run(*args: object, **keywords: object) -> object:
        if involves_traced(args) or any(map(involves_traced, keywords.values())):
            return handler(*map(resolve, args), **{k: resolve(v) for k, v in keywords.items()})
        return localised(function(*args, **keywords))

    return run


def patch_method(kind: type, name: str, handler: Callable[..., object]) -> None:
    """Let ``handler(self, *args, **keywords)`` compute a method of a library's class if an argument is traced.

    For objects that were made outside of the function, whose methods no replacement can reach. All other
    calls find the method as it was.
    """
    original = getattr(kind, name)

    @wraps(original)
    def method(self: object, *args: object, **keywords: object) -> object:
        arguments, named = [resolve(a) for a in args], {k: resolve(v) for k, v in keywords.items()}
        if involves_traced([*arguments, *named.values()]):
            return handler(self, *arguments, **named)
        return original(self, *args, **keywords)

    replaces(method)(method)  # for recorded arrays: see `scipy_entry_points.py`
    setattr(kind, name, method)


class _ReplacedClass(type):
    """A class of a library as private copies find it: with traced arguments it makes the traced counterpart."""

    def __call__(cls, *args: object, **keywords: object) -> object:
        arguments, named = [resolve(a) for a in args], {k: resolve(v) for k, v in keywords.items()}
        make = vars(cls)["make"] if involves_traced([*arguments, *named.values()]) else vars(cls)["real"]
        return make(*arguments, **named)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (vars(cls)["real"], vars(cls)["counterpart"]))

    @hiding
    def __getattr__(cls, name: str) -> object:
        return getattr(vars(cls)["real"], name)


def replace_class(real: type, make: Callable[..., object], counterpart: type) -> Callable[..., object]:
    """Let `make` construct the traced `counterpart` of a library's class where an argument is traced."""
    replacement = _ReplacedClass(real.__name__, (), {"real": real, "make": make, "counterpart": counterpart})
    replaces(real)(replacement)
    return replacement


def is_scipy_function(value: object) -> bool:
    """Whether `value` is a function or a class of SciPy."""
    kind = type(value)
    if not (isinstance(value, (*_FUNCTIONS, type)) or kind.__name__ in {"cython_function_or_method", "fused_cython_function"}):
        return False
    if isinstance(value, FunctionType):  # what wraps a function of SciPy has copied its `__module__`
        return str(value.__globals__.get("__name__")).startswith("scipy.")
    return str(value.__module__).startswith("scipy.")


def concrete_only(value: object) -> object:
    """The replacement of a SciPy function that has no rule (it refuses traced arguments); classes stay as they are."""
    if isinstance(value, type):
        return value
    entry = _concrete_only.get(id(value))
    if entry is None:
        entry = _concrete_only[id(value)] = value, _checking(value)
    return entry[1]


def _checking(function: Callable[..., object]) -> Callable[..., object]:
    """`function` on concrete arguments; it raises `UnsupportedError` if an argument depends on what is differentiated."""
    name = public_name(function)

    @wraps(function)
    def run(*args: object, **keywords: object) -> object:
        arguments, named = [concrete(a, name) for a in args], {k: concrete(v, name) for k, v in keywords.items()}
        if name.startswith(SOLVERS):
            arguments, named = [_numeric(a, name) for a in arguments], {k: _numeric(v, name) for k, v in named.items()}
        try:
            return localised(function(*arguments, **named))
        except Exception:
            # Compiled code that calls the user's function may put an error of its own over ours.
            if (refused := current().refused) is not None:
                raise refused from None
            raise

    return run


# Iterative solvers: on traced values their steps would be recorded, and differentiated whether they converged or not.
SOLVERS = ("scipy.optimize.", "scipy.integrate.")


def _numeric(value: object, name: str) -> object:
    """A user's function that a solver without a rule may call: it must return numbers, no traced values."""
    if not isinstance(value, (FunctionType, functools.partial, MethodType)):
        return value

    def call(*args: object, **keywords: object) -> object:
        return concrete(value(*args, **keywords), name)

    return call


def public_name(function: Callable[..., object]) -> str:
    """The public name of a function: the outermost package that exports it, and its name."""
    parts = function.__module__.split(".")
    packages = (".".join(parts[:k]) for k in range(2, len(parts) + 1))
    home = next((p for p in packages if getattr(sys.modules.get(p), function.__name__, None) is function), function.__module__)
    return f"{home}.{function.__name__}"


def concrete(value: object, name: str, usable: Callable[[TracedArray], bool] | None = None) -> object:
    """`value` with numbers in place of traced arrays; the error that `name` has no rule where one depends on an argument.

    `usable` tells which real numbers may be looked at: by default numbers in captured arrays.
    """
    value = resolve(value)
    if isinstance(value, TracedArray):
        if value.type.floating and not (usable or only_captured)(value):
            raise unsupported(name)
        array = guarded_value(value, f"called {name}")
        return array[()] if value.scalar else array
    if (convert := TO_LIBRARY.get(type(value))) is not None:
        return convert(value, name)
    if type(value) is list or type(value) is tuple:
        return type(value)([concrete(v, name, usable) for v in value])
    if type(value) is dict:
        return {k: concrete(v, name, usable) for k, v in value.items()}
    if isinstance(value, np.ndarray) and holds_traced(value):
        raise unsupported(name)
    return value


def undifferentiated(traced: TracedArray) -> bool:
    """Whether `traced` depends on nothing that is differentiated, so that a look at it drops no derivative."""
    trace = current(traced)
    return not trace.guards.is_active(trace.own(traced))


def only_captured(traced: TracedArray) -> bool:
    """Whether `traced` depends on captured arrays alone, and not on an argument of the differentiated function."""
    return _only_captured(current(traced), traced)


def _only_captured(trace: Trace, traced: TracedArray) -> bool:
    node_id = trace.own(traced)
    nodes, inputs = trace.builder.nodes, trace.builder.inputs
    if nodes[node_id].primitive is CONSTANT:
        return True
    part = trace.builder.finish([node_id])
    read = {a for node in part.nodes for a in node.args} | set(part.outputs)
    count = len(inputs) - len(trace.extra)
    for k, new in enumerate(part.inputs):
        if new not in read:
            continue
        outer = trace.extra[k - count] if k >= count else None
        if outer is None or (isinstance(outer, TracedArray) and not _only_captured(outer.home, outer)):
            return False
    return True
