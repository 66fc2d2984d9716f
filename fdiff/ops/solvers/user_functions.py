"""How the functions of the user that a solver is given become tapes, branches included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arraytype import F8, ArrayType
from ...errors import show_line
from ...trace import Input, Recording, Trace, TracedArray, current, private, record, splice, tracing
from ...trace.exception_context import inside_try
from ...trace.local_arrays import resolve
from ..creation import array as array_call
from ..shaping import traced
from ..third_party_functions import concrete, only_captured
from .traced_function import TracedFunction, UntracedBranch

MOST = 32  # ways through a function that are traced for one solver
Values = Sequence[np.ndarray]


class UserFunction(NamedTuple):
    """A function of the user and a point at which it is traced.

    The numbers of the point are Python floats to the function. `results` is how many values it
    returns, as a tuple if there are several.
    """

    function: Callable[..., object]
    point: Callable[[], Sequence[object]]
    types: tuple[ArrayType, ...]
    results: int = 1
    numbers: bool = True  # arguments without axes are Python floats


def number_types(count: int) -> tuple[ArrayType, ...]:
    return (ArrayType((), F8),) * count


def value_of(x: object) -> np.ndarray:
    """The value of an argument of a solver at the arguments at hand."""
    given = resolve(x)
    if not isinstance(given, TracedArray):
        return np.asarray(given)
    trace = current(given)
    return np.asarray(trace.looks.value(trace.own(given), "called a solver of SciPy"))


def _recorded(given: UserFunction, point: Sequence[object] | None) -> Recording:
    """One run of the function on traced arguments."""
    run = private(given.function)
    values: list[object] = []

    def at(k: int) -> Callable[[], np.ndarray]:
        def value() -> np.ndarray:
            if not values:
                values.extend(given.point() if point is None else point)
            return np.asarray(values[k], F8)

        return value

    def body(_: Trace, arguments: list[TracedArray]) -> list[object]:
        out = run(*arguments)
        found = list(out) if given.results > 1 else [out]
        arrays = [traced(array_call(resolve(x))) for x in found]
        if any(a.dtype.kind == "c" for a in arrays):
            raise current().fail("a solver of SciPy was given a function with complex values.", "Solve for real and imaginary parts.")
        return [a if a.dtype == F8 else a.astype(F8) for a in arrays]

    inputs = [Input(t, scalar=not t.shape and given.numbers, weak=not t.shape and given.numbers, value=at(k), moving=True) for k, t in enumerate(given.types)]
    return record(body, inputs, current().call)


class UserFunctions:
    """The functions of one call of a solver: their recordings, and what they read around them."""

    def __init__(self, given: Sequence[UserFunction]) -> None:
        self.given = given
        self.recordings = [[_recorded(g, None)] for g in given]

    @property
    def extras(self) -> list[TracedArray]:
        """The traced values around the functions that they read."""
        found: dict[tuple[int, int], TracedArray] = {}
        for recording in [r for runs in self.recordings for r in runs]:
            for x in recording.extra:
                assert isinstance(x, TracedArray)  # captured arrays belong to the outermost trace
                found.setdefault((id(x.home), x.id), x)
        return list(found.values())

    def bodies(self) -> list[TracedFunction]:
        extras = self.extras
        return [_united(g, runs, extras) for g, runs in zip(self.given, self.recordings, strict=True)]

    def explore(self, run: Callable[[Sequence[TracedFunction], Values], object]) -> list[TracedFunction]:
        """The bodies, after tracing all branches that ``run(bodies, extras)`` takes at this call."""
        bodies = self.bodies()
        while any(body.has_branches for body in bodies):
            try:
                run(bodies, [value_of(x) for x in self.extras])
            except UntracedBranch as miss:
                self._add(bodies.index(miss.body), miss.point)
                bodies = self.bodies()
            except (ArithmeticError, ValueError, RuntimeError):
                break  # an error of SciPy, which comes again when the tape is run
            else:
                break
        return bodies

    def _add(self, k: int, point: Sequence[np.ndarray]) -> None:
        runs = self.recordings[k]
        if len(runs) >= MOST:
            fact = f"the function that is given to SciPy's solver takes more than {MOST} different ways through its branches and loops."
            raise current().fail(fact, "Use numpy.where, numpy.minimum or numpy.maximum, or loops of fixed length.")
        new = _recorded(self.given[k], point)
        if new.tape.output_types != runs[0].tape.output_types:
            raise current().fail("the function that is given to SciPy's solver returns arrays of different shapes.", "Return one shape.")
        runs.append(new)


def _united(given: UserFunction, runs: Sequence[Recording], extras: Sequence[TracedArray]) -> TracedFunction:
    """One tape for all recorded ways through a function."""
    with Trace("solver", lines=False) as trace:
        own = [trace.input(t) for t in given.types]
        place = {(id(x.home), x.id): trace.input(x.type) for x in extras}
        outs: list[object] = []
        holds: object = None
        for recording in runs:
            inputs = [*own, *(place[id(x.home), x.id] for x in recording.extra)]
            found = splice(recording.tape, inputs, trace)
            here = splice(recording.check, inputs, trace)[0] if recording.check is not None else traced(np.array(True))
            outs = found if holds is None else [np.where(here, new, old) for new, old in zip(found, outs, strict=True)]
            holds = here if holds is None else np.logical_or(holds, here)
        tape = trace.builder.finish([trace.lift(holds), *map(trace.lift, outs)])
    return TracedFunction(tape, len(given.types))


# ------------------------------------------------------------------------------ arguments of calls


def plainly(function: Callable[..., object], args: Sequence[object], keywords: dict[str, object]) -> bool:
    """Whether a call is none of ours: no trace is under way."""
    return not tracing()


def concrete_options(options: dict[str, object], name: str) -> tuple[tuple[str, object], ...]:
    """Options of a solver as a static parameter: numbers, words, and sequences of them."""
    return tuple(sorted((k, _frozen(v, f"{k}= of {name}")) for k, v in options.items()))


def _frozen(value: object, name: str) -> object:
    value = concrete(value, name)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return FrozenOption("array", _frozen(value.tolist(), name))
    if isinstance(value, (list, tuple)):
        return FrozenOption(type(value).__name__, tuple(_frozen(v, name) for v in value))
    if isinstance(value, dict):
        return FrozenOption("dict", tuple((k, _frozen(v, name)) for k, v in value.items()))
    raise current().fail(f"{name} holds a value of type {type(value).__name__}, which fdiff does not hand to the solver.", "Leave it out.")


class FrozenOption(NamedTuple):
    """A sequence or a dict among options, hashable."""

    kind: str
    items: object


def unfrozen(value: object) -> object:
    """The option as it was given."""
    if not isinstance(value, FrozenOption):
        return value
    held: Any = value.items
    if value.kind == "dict":
        return {k: unfrozen(v) for k, v in held}
    if value.kind == "array":
        return np.asarray(unfrozen(held))
    items = [unfrozen(v) for v in held]
    return items if value.kind == "list" else tuple(items)


class CallSite(NamedTuple):
    """Where a solver is called, for messages of errors that come when the tape is run."""

    call: str
    line: str

    def words(self, fact: str, way_out: str) -> str:
        return f"{self.call}: {fact}{self.line}\n{way_out}"


def site() -> CallSite:
    trace = current()
    return CallSite(trace.call, show_line(trace.where()))


def bound(args: object) -> tuple[object, ...]:
    """``args=`` of a solver, of which a single value is one, too."""
    return args if isinstance(args, tuple) else (args,)


def number(x: object) -> TracedArray:
    """A limit or a start as a float64 number."""
    given = resolve(x)
    out = traced(array_call(given) if isinstance(given, (list, tuple)) else given)
    if out.size != 1:
        raise ValueError("a number is expected where an array was given")
    return out.reshape(()).astype(F8)


def vector(x: object) -> TracedArray:
    """A start as an array of float64."""
    out = traced(array_call(resolve(x)))
    return out if out.dtype == F8 else out.astype(F8)


def all_captured(values: Sequence[object]) -> bool:
    """Whether nothing among the arguments depends on an argument of the differentiated function."""
    return all(not isinstance(v, TracedArray) or only_captured(v) for v in map(resolve, values))


def python_float(x: TracedArray) -> TracedArray:
    """A traced number that is a Python float to the user."""
    return TracedArray(x.home, x.id, x.type, scalar=True, weak=True)


def numpy_scalar(x: TracedArray) -> TracedArray:
    return TracedArray(x.home, x.id, x.type, scalar=True)


def inside_user_try() -> bool:
    """Whether the user's code would catch an error of the solver here."""
    return current().mutable and inside_try(record.__code__)
