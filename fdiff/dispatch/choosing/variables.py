"""Variables of a loop, and types of their carries: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType, NoneType
from typing import TYPE_CHECKING, Protocol, TypeGuard, cast

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT, ArrayType
from ...capture.dependency_nodes import attribute
from ...capture.sources.loop_frames import LEFT, OWN
from ...capture.sources.loop_rewriting import UNBOUND, Unbound
from ...capture.sources.object_attributes import is_user_object
from ...capture.sources.returns import RESULT
from ...capture.sources.varying_ranges import BOUND
from ...capture.symbolic_numbers import SymbolicNumber, plain_number
from ...capture.value_kinds import MISSING
from ...named_tuples import NamedTuple
from ...trace import TracedArray
from ...trace.array_links import outside, root_of
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray, TracedLocalArray
from ...trace.looping.logged_calls import same

if TYPE_CHECKING:
    from .array_identities import ArrayNumbers

FLOAT, WHOLE, TRUTH = (ArrayType((), dtype) for dtype in (np.dtype(float), INT, BOOL))
SINGLE = ArrayType((), np.dtype("f4"))
_CONSTANTS = (int, float, str, bool, NoneType)
CONTAINERS = list, tuple, dict
_COUNTED: dict[type, ArrayType] = {int: WHOLE, bool: TRUTH}
_PLAIN = {
    TracedArray, LocalArray, TracedLocalArray, np.ndarray, complex, Unbound, *_CONSTANTS,
}  # fmt: skip


class Container(Protocol):
    """A list, a tuple or a dict; the tuple cannot change."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int | str]: ...
    def __getitem__(self, key: int | str, /) -> object: ...
    def __setitem__(self, key: int | str, value: object, /) -> None: ...
    def copy(self) -> Container: ...


class RefusedLoopError(Exception):
    """Why Python runs a loop."""


class TooFewTripsError(RefusedLoopError):
    """A ``while`` makes more trips than its node."""


class ManyPathsError(RefusedLoopError):
    """A body has more paths than are run."""


class PathRun(NamedTuple):
    """A run of a body: the questions of Python, and the variables after and before it.

    `numbers` stand for ints and Python truth values; all `demands` are to hold. The run met
    `arrays`.
    """

    asked: list[tuple[int, bool]]
    values: list[object]
    inputs: list[object]
    numbers: list[object]
    demands: list[int]
    arrays: ArrayNumbers

    @property
    def appended(self) -> list[object]:
        """What the run has appended to lists."""
        return self.values[len(self.inputs) :]


class Growth(NamedTuple):
    """The largest size of a count: `fixed`, or the size of the int `start` and `steps` more."""

    start: int | None
    steps: int
    fixed: int

    def on(self, nodes: Mapping[int, int]) -> Growth:
        """The growth with the node of `start` on another tape."""
        return self if self.start is None else self._replace(start=nodes[self.start])


class Variable:
    """A variable of a loop: its first value, and the type of its carry, if it is carried."""

    stored_into = False  # trips store into the array that it holds
    keeps_binding = False  # after each path it holds the same object as before
    owned = False  # nothing else held, before the loop, what it held
    ended = False  # nothing after the paths reads it
    is_counted = False  # it holds ints or truth values of Python, which paths change
    narrow = False  # a Python float at first, then single precision (`narrow_variables`)
    unsure = False  # after some paths it may hold another kind of number
    option = False  # it is None at first, and read where it has a value alone
    has_new_flag = False  # one more carry tells whether it is new
    has_array_number = False  # one more carry is the number of its array (`array_identities`)

    def __init__(self, name: str, start: object, python: type | None = None) -> None:
        self.name, self.own = name, start
        self.start = h = resolve(plain_number(start))
        self.type: ArrayType | None = None
        self.scalar = False
        if isinstance(h, np.ndarray):
            if type(start) is not LocalArray:
                raise RefusedLoopError(f"{name} is an array from outside")
            self.type = ArrayType(h.shape, h.dtype)
        elif isinstance(h, TracedArray):
            self.type, self.scalar = h.type, h.scalar
        elif is_number_of_numpy(h):
            self.type, self.scalar = ArrayType((), h.dtype), True
        elif not (type(h) in _CONSTANTS or h is UNBOUND or is_user_object(h)):
            raise RefusedLoopError(f"{name} is no number and no array")
        weak = isinstance(h, TracedArray) and h.weak
        self.weak = weak and self.type == FLOAT  # it holds Python floats
        self.may_be_python_float = type(h) is float or self.weak
        self.python = type(h) if type(h) in _COUNTED else python  # the type that it counts in
        self.constant: object = None
        self.result = name.startswith(RESULT)  # of the function: read where it has a value alone
        self.local = name.isidentifier() and not name.startswith(OWN)  # the user's
        self.growth: Growth | None = None
        self.limit: int | None = None  # the size of an int that changes by more than a constant
        self.offset: SymbolicNumber | None = None  # what is counted from zero is added to it

    @classmethod
    def of_offset(cls, name: str, offset: SymbolicNumber) -> Variable:
        """A variable that counts from zero, beside an int that the trace does not rely on."""
        own = cls(name, 0)
        own.offset, own.is_counted, own.scalar, own.type = offset, True, True, WHOLE
        return own

    @property
    def of_python(self) -> bool:
        """Whether the carry holds floats or Python ints."""
        return self.weak or (self.python is int and self.type == WHOLE)

    def settle(self, runs: Sequence[PathRun], k: int) -> bool:
        """Look at what all paths give; whether the variable is carried as it was."""
        values = [run.values[k] for run in runs]
        if is_user_object(self.start):
            if any(v is not self.start for v in values):
                raise RefusedLoopError(f"{self.name} becomes another object")
            return True
        nothing = self.option and all(value is UNBOUND for value in values)
        if nothing or (self.ended and self.start is UNBOUND):
            return True
        if self.start is UNBOUND and self.python is None:
            self.python = _kind_of_results(runs, k)
        traced = isinstance(self.start, TracedArray)
        # What has changed in an earlier pass is carried, though nothing changes it in this one.
        changes = traced or self.is_counted or not all(same(v, self.start) for v in values)
        if self.python is not None and changes:
            return self._settle_count(self.python, runs, k)
        if self.weak or type(self.start) is float:
            weak = self.weak
            self.weak = changes and all(map(_is_weak, values))
            if self.weak or weak:  # or it turned out that it holds others, too
                self.scalar, self.type = self.weak, FLOAT if self.weak else None
                return weak and self.weak
        if self.narrow:  # what is left alone is of no type
            values = [run.values[k] for run in runs if run.values[k] is not run.inputs[k]]
        kinds = {kind for v in values if (kind := kind_of(v)) is not None}
        numbers = [v for v in values if kind_of(v) is None and v is not UNBOUND]
        several = self.option and any(not same(n, numbers[0]) for n in numbers)
        if not (kinds or several) and self.type is None:
            self._settle_constant(values)
            return True
        kind = kinds.pop() if kinds else (FLOAT, True)
        before = (self.type, self.scalar)
        if kinds or (self.type is not None and kind != before) or (self.option and not kind[1]):
            raise RefusedLoopError(f"{self.name} is of several types")
        if numbers or (self.type is None and self.start is not UNBOUND):
            self._settle_numbers(numbers, kind)
        self.type, self.scalar = kind
        self._note_stores(runs, k)
        return kind == before

    def _settle_count(self, python: type, runs: Sequence[PathRun], k: int) -> bool:
        """Carry an int or a truth value that paths change; whether that was so before."""
        type_ = _COUNTED[python]
        for run in runs:
            v = run.values[k]
            unread = self.result and v is UNBOUND
            if not unread and _number_kind(v, run) is not python:
                raise RefusedLoopError(f"{self.name} is of several types")
        settled, self.is_counted, self.scalar, self.type = self.is_counted, True, True, type_
        return settled

    def _settle_constant(self, values: Sequence[object]) -> None:
        if self.result:  # which is read where it has a value
            values = [v for v in values if v is not UNBOUND] or values
        first = values[0] if self.start is UNBOUND else self.start
        if is_user_object(first) and all(v is first for v in values):
            self.constant = first
            return
        if type(first) not in _CONSTANTS or not all(same(v, first) for v in values):
            raise RefusedLoopError(f"{self.name} changes, and is no traced value")
        self.constant = first

    def _settle_numbers(
        self, numbers: Sequence[object], kind: tuple[ArrayType | None, bool]
    ) -> None:
        """Refuse Python numbers that are no floats, or beside other types than floats."""
        own = type(self.start) is float and all(same(n, self.start) for n in numbers)
        self.narrow = kind == (SINGLE, True) and own
        several = kind != (FLOAT, True) or not (numbers or self.may_be_python_float)
        if any(type(n) is not float for n in numbers) or (several and not self.narrow):
            raise RefusedLoopError(f"{self.name} is of several types")

    def end(self, runs: Sequence[PathRun], k: int) -> None:
        """Hold the value from before the body, because nothing reads the variable after the body.

        Where a path stores into its array, the results stay.
        """
        pairs = [(run.inputs[k], run.values) for run in runs]
        self.ended = not any(isinstance(h, TracedArray) and h.id != h.made for h, _ in pairs)
        for h, values in pairs if self.ended else ():
            values[k] = h

    def _note_stores(self, runs: Sequence[PathRun], k: int) -> None:
        """Note whether the array that the variable holds is stored into."""
        pairs = [(run.inputs[k], run.values[k]) for run in runs]
        stores = [isinstance(h, TracedArray) and h.id != h.made for h, _ in pairs]
        self.stored_into, self.keeps_binding = any(stores), all(v is h for h, v in pairs)
        left = not any(store and v is h for store, (h, v) in zip(stores, pairs, strict=True))
        if self.stored_into and not self.keeps_binding and not (left and self.owned):
            raise RefusedLoopError(f"{self.name} is stored into, and another array elsewhere")


def _number_kind(value: object, run: PathRun) -> type | None:
    """Whether a value is an int or a Python truth value, or stands for such a number."""
    if not isinstance(value, TracedArray):
        return type(value) if type(value) in _COUNTED else None
    if not value.scalar or not (value.weak or any(value is h for h in run.numbers)):
        return None  # NumPy's
    return next((kind for kind, type_ in _COUNTED.items() if value.type == type_), None)


def _kind_of_results(runs: Sequence[PathRun], k: int) -> type | None:
    """The type of the Python numbers that all results are, if these differ."""
    results = [(run.values[k], run) for run in runs if run.values[k] is not UNBOUND]
    kinds = {_number_kind(value, run) for value, run in results}
    traced = any(isinstance(value, TracedArray) for value, _ in results)
    differ = traced or not all(same(value, results[0][0]) for value, _ in results)
    return kinds.pop() if len(kinds) == 1 and differ else None


def is_number_of_numpy(value: object) -> TypeGuard[np.floating | np.complexfloating]:
    """Whether a value is a constant float or complex NumPy number."""
    return isinstance(value, (np.floating, np.complexfloating))


def is_new(value: object) -> bool:
    """Whether a value is a NumPy number, or a traced array that is not weakly typed."""
    return is_number_of_numpy(value) or (isinstance(value, TracedArray) and not value.weak)


def kind_of(value: object) -> tuple[ArrayType, bool] | None:
    """The type of an array or a NumPy number, and whether it is a number; None of others."""
    if isinstance(value, TracedArray):
        return value.type, value.scalar
    return (ArrayType((), value.dtype), True) if is_number_of_numpy(value) else None


def _is_weak(value: object) -> bool:
    """Whether a value is, or stands for, a Python float."""
    if isinstance(value, TracedArray):
        return value.weak and value.type == FLOAT
    return type(value) is float


def check_bounds(body: Callable[..., object]) -> None:
    """Refuse bounds of a range that are no ints, for which `range` raises a TypeError."""
    function = cast("FunctionType", body)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    bounds = [
        cell.cell_contents for name, cell in cells if BOUND in name
    ]  # in a class, its name stands before
    for bound in bounds:
        weak = isinstance(bound, TracedArray) and bound.weak and bound.type == WHOLE
        if not (weak or isinstance(bound, (int, np.integer))):
            raise RefusedLoopError("a bound of a range is no int")


def cells_of(body: Callable[..., object]) -> Iterator[object]:
    """The values of the variables that a function closes over, and functions in these."""
    seen, waiting = set[int](), [body]
    while waiting:
        for value in _closure(waiting.pop()):
            yield value
            if callable(value) and id(value) not in seen:
                seen.add(id(value))
                waiting.append(value)


def _closure(function: object) -> Iterator[object]:
    """The values of the variables that a function closes over, and the defaults of others."""
    if type(function) is partial:
        yield from (function.func, *function.args, *function.keywords.values())
    for cell in getattr(function, "__closure__", None) or ():
        value = attribute(cell, "cell_contents")
        if value is not MISSING:
            yield value
    yield from getattr(function, "__defaults__", None) or ()
    yield from (getattr(function, "__kwdefaults__", None) or {}).values()


def is_plain(value: object) -> bool:
    if type(value) in CONTAINERS:
        return all(map(is_plain, elements_of(value)))
    return type(value) in _PLAIN or isinstance(value, np.generic)


def elements_of(value: object) -> Sequence[object]:
    """The elements of a list, a tuple or a dict, and the keys of the dict."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    return cast("Sequence[object]", value)


def same_elements(container: object, other: object) -> bool:
    """Whether two containers of one kind hold the same objects."""
    pair = elements_of(container), elements_of(other)
    return len(pair[0]) == len(pair[1]) and all(a is b for a, b in zip(*pair, strict=True))


def containers_in(values: Sequence[object]) -> set[int]:
    """The lists, tuples and dicts in values, by identity."""
    seen, waiting = set[int](), [*values]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        if type(value) in CONTAINERS:
            waiting += elements_of(value)
            seen.add(id(value))
    return seen


def check_bound(variables: Sequence[Variable], run: PathRun) -> None:
    """Refuse a path that gives no value to a variable that may have one of a trip around."""
    flags = zip(variables, run.inputs, strict=False)
    left = [h for v, h in flags if v.name.startswith(LEFT)]
    over = any(isinstance(h, TracedArray) and (h.node, True) in run.asked for h in left)
    for v, value in zip(variables, run.values, strict=False):
        if value is UNBOUND and not (over or v.result or v.ended):
            raise RefusedLoopError(f"{v.name} may have no value in the loop around")


def check_memory(variables: Sequence[Variable], others: Sequence[object]) -> None:
    """Refuse arrays that are stored into while others look at the same memory."""
    for v in variables:
        start = v.start
        traced = isinstance(start, TracedArray)
        if traced and (root_of(start) is not start or outside(start) is not None):
            raise RefusedLoopError(f"{v.name} is a view, or an array from outside")
        if sum(o is start for o in others) > 1:
            raise RefusedLoopError(f"{v.name} is stored into, and has two names")
        for other in others:
            if other is not start and other is not v.own and _share(start, other):
                raise RefusedLoopError(f"{v.name} is stored into, and shares memory")


def arrays_in(value: object) -> list[object]:
    """The arrays in a value, those in lists, tuples and dicts among them."""
    if type(value) in CONTAINERS:
        return [a for part in elements_of(value) for a in arrays_in(part)]
    value = resolve(value)
    return [value] if isinstance(value, (np.ndarray, TracedArray)) else []


def _share(a: object, b: object) -> bool:
    """Whether two values may share memory."""
    if isinstance(a, TracedArray) and isinstance(b, TracedArray):
        return root_of(a) is root_of(b)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.may_share_memory(a, b))
    return False
