"""Gates: each entry from the user's code to traced arrays asks whether the calls are logged.

Operators, ``x[key]`` and NumPy's protocols ask themselves (`asks`). Other methods and properties of
traced arrays get gates when the first trace is logged, what private copies find in place of
functions as it is registered. Where nothing is logged, a gate is one test. Where gates stand, and
what they cost: docs/decisions/plain-loops.md.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ...foreign_errors import hiding, wraps
from ...generated_text import Namespace
from ...hooks import hooks
from ...primitive import REPLACEMENTS
from ...process.interrupt_safe_locks import TurnLock
from ..local_arrays import LocalArray, holds_traced, make_traced
from ..trace_stack import ASKS, stack
from ..traced_array import TracedArray

if TYPE_CHECKING:
    from ..user_calls import UserCalls

# What makes no node or asks for a value, which ends what is checked by itself.
_UNGATED = frozenset(
    f"__{name}__"
    for name in (
        "init", "len", "contains", "iter", "str", "repr", "format", "array", "reduce", "getattr",
        "bool", "int", "index", "float", "complex", "hash", "round", "floor", "ceil", "trunc",
        "copy", "deepcopy",
    )
) | {"_fixed", "_shown", "printed", "_text", "_one", "tobytes"}  # fmt: skip
_PROPERTIES = ("T", "mT", "real", "imag")
_methods: dict[tuple[np.ufunc, str], Callable[..., object]] = {}
entries: list[Callable[..., object]] = []  # the functions of ``x[key]`` and ``x[key] = value``
gate_codes: set[CodeType] = set()  # of what asks itself
# Functions that are given positions, which may leave an array, and who knows whether they do.
by_position: dict[object, Callable[..., object]] = {}


_installing = TurnLock()
_installed: list[bool] = []
_properties: dict[str, property] = {}  # as they were


def install() -> None:
    """Put a gate at every entry, once; other threads wait for all of them."""
    if not _installed:
        with _installing:
            if not _installed:
                _install()
                _installed.append(True)


def _install() -> None:
    """Put a gate at every entry that has none; an exception may have ended an earlier run."""
    for name, hook in (("gate", gated), ("method_gate", gated_method), ("log_ufunc", _log_ufunc)):
        if name not in vars(hooks):
            setattr(hooks, name, hook)
    gates = [make(_install).__code__ for make in (gated_method, gated)]  # the same for all
    entries[:] = [vars(TracedArray)["__getitem__"], vars(TracedArray)["__setitem__"]]
    members = vars(TracedArray).copy()
    taking = [n for n in ("take", "item", "choose") if n in members]
    by_position.update({members[n]: getattr(np.ndarray, n) for n in taking})
    for name, member in members.items():
        if name in _PROPERTIES:
            plain = _properties.setdefault(name, member)
            store: Any = plain.fset and gated_method(plain.fset)
            assert plain.fget is not None
            setattr(TracedArray, name, property(hiding(gated_method(plain.fget)), store))
        elif isinstance(member, FunctionType) and ASKS in vars(member):
            gate_codes.add(member.__code__)
        elif name in _UNGATED or getattr(member, "__code__", None) in gates:
            continue
        elif callable(member) and not isinstance(member, type):
            setattr(TracedArray, name, gated_method(member))
    functions = map(np.numpy_function, (np.take, np.choose, np.take_along_axis))
    by_position.update({f: f for f in functions})
    for key, (function, stand_in) in REPLACEMENTS.copy().items():
        if getattr(stand_in, "__code__", None) not in gates:
            REPLACEMENTS[key] = function, gated(stand_in)


def gated_method(method: Callable[..., object]) -> Callable[..., object]:
    """A method of traced arrays with a gate."""

    @wraps(method)
    def gate(self: TracedArray, *args: object, **named: object) -> object:
        traces = stack.traces
        log = traces[-1].listener if traces else None
        if log is None or log.depth or log.is_idle():
            return method(self, *args, **named)
        return log.call(method, (self, *args), named)

    return gate


def gated(stand_in: object) -> Any:
    """The gated function that private copies call; classes stay as they are."""
    if not isinstance(stand_in, FunctionType):
        return stand_in
    call: Callable[..., object] = stand_in
    original: object = call
    while original is not None and original not in by_position:
        original = getattr(original, "__wrapped__", None)
    if original is not None:
        by_position[call] = by_position[original]

    @wraps(call)
    def gate(*args: object, **named: object) -> object:
        traces = stack.traces
        log = traces[-1].listener if traces else None
        if (
            log is None
            or log.depth
            or log.is_idle()
            or not (holds_traced(args) or holds_traced([*named.values()]))
        ):
            return call(*args, **named)
        return log.call(call, args, named)

    return gate


def _log_ufunc(
    log: UserCalls, ufunc: np.ufunc, way: str, inputs: tuple[object, ...], named: Namespace
) -> object:
    """Make a call of a ufunc on traced arrays that is logged."""
    for out in named.get("out") or ():
        if type(out) is LocalArray:
            make_traced(out)  # here, as a call of its own
    return log.call(_ufunc_method(ufunc, way), inputs, named)


def _ufunc_method(ufunc: np.ufunc, way: str) -> Callable[..., object]:
    """``ufunc.reduce`` and its like, the same object each time."""
    if way == "__call__":
        return ufunc
    method = _methods.setdefault((ufunc, way), getattr(ufunc, way))
    if way == "at":
        by_position[method] = _picked
    return method


def _picked(array: np.ndarray, indices: Any, *_: object) -> object:
    return array[indices]
