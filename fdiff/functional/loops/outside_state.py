"""State outside of a loop body, compared after the body's one run: side effects would be lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import CellType, FunctionType, MethodType

import fdiff.intact_numpy as np

from ...foreign_errors import not_foreign
from ...trace import TracedArray, root_trace
from ...trace.local_arrays import LocalArray

DEPTH = 4  # of containers in containers that are compared


class OutsideState:
    """The variables that a function closes over, and the stores recorded so far."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._variables = {id(cell): (name, cell) for name, cell in _cells(function, [])}
        self._before = {key: _state_key(cell, DEPTH) for key, (_, cell) in self._variables.items()}
        self._stores = _stores()
        self._unknowns = _unknowns()

    def changed(self) -> str:
        """The first variable that is not as it was; empty if all are."""
        for key, (name, cell) in self._variables.items():
            if _state_key(cell, DEPTH) != self._before[key]:
                return f"`{name}`"
        now, before = _stores(), self._stores
        same = len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
        return "" if same else "a variable or an object"

    def read(self) -> str:
        """A read that may differ from trip to trip, in words; empty if there is none."""
        return next(iter(_unknowns().keys() - self._unknowns), "")


def _unknowns() -> Mapping[str, object]:
    session = root_trace().session
    return {} if session is None else session.unknowns()


def _stores() -> list[object]:
    """Stores of the traced function into the user's variables and objects."""
    session = root_trace().session
    return [] if session is None else session.stores()


def _cells(function: object, visited: list[object]) -> Iterator[tuple[str, object]]:
    """The cells of a function, and of the functions in them; and the object of a method."""
    if any(function is x for x in visited):
        return
    visited.append(function)
    if isinstance(function, MethodType):
        yield "self", function.__self__
        yield from _cells(function.__func__, visited)
    if isinstance(function, FunctionType):
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            yield name, cell
            if isinstance(inner := _content(cell), (FunctionType, MethodType)):
                yield from _cells(inner, visited)


def _content(cell: object) -> object:
    try:
        return cell.cell_contents if isinstance(cell, CellType) else cell
    except not_foreign(ValueError):  # an empty cell
        return cell


def _state_key(value: object, depth: int) -> object:
    """A key that differs once the value was changed in place."""
    value = _content(value)
    if isinstance(value, TracedArray):
        return id(value), value.id if value.home.alive else -1
    if isinstance(value, np.ndarray):
        own = type(value) is LocalArray
        return id(value), type(value), np.asarray(value).tobytes() if own else None
    session = root_trace().session
    if not depth or (session is not None and session.original(value) is not value):
        return id(value)  # `stores` has what is written to the user's own objects
    if type(value) is list or type(value) is tuple:
        return id(value), [_state_key(x, depth - 1) for x in value]
    if type(value) is dict:
        return id(value), [(id(k), _state_key(x, depth - 1)) for k, x in value.items()]
    if type(value) is set:
        return id(value), {id(x) for x in value}
    held = getattr(value, "__dict__", None)
    if type(held) is dict and not isinstance(value, (type, FunctionType)):
        return id(value), [(k, _state_key(x, depth - 1)) for k, x in held.items()]
    return id(value)
