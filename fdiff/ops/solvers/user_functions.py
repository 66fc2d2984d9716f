"""Functions that a user gives to a solver, as tapes with all branches that the solver meets.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import fdiff.intact_numpy as np

from ...arraytype import F8, ArrayType
from ...foreign_errors import not_foreign
from ...named_tuples import NamedTuple
from ...trace import ArgumentSpec, Recording, Trace, TracedArray, current, private, record, splice
from ...trace.handler_arguments import resolve
from ..shapes.creation import array as array_call
from ..shapes.shaping import traced
from .solver_arguments import value_of
from .traced_function import TracedFunction, UntracedBranch

MOST_PATHS = 32  # paths through a function (its branches) that are traced for one solver call
Values = Sequence[np.ndarray]


class UserFunction(NamedTuple):
    """A function of the user, and a point at which it is traced.

    Coordinates of the point without axes are Python floats to the function. `results` is the number of values that
    it returns; several are returned as a tuple.
    """

    function: Callable[..., object]
    point: Callable[[], Sequence[object]]
    types: tuple[ArrayType, ...]
    results: int = 1
    numbers: bool = True  # arguments without axes are Python floats


def _recorded(function: UserFunction, point: Sequence[object] | None) -> Recording:
    """Trace the function once; at its own point, or at the given one."""
    run = private(function.function)
    values: list[object] = []

    def at(k: int) -> Callable[[], np.ndarray]:
        def value() -> np.ndarray:
            if not values:
                values.extend(function.point() if point is None else point)
            return np.asarray(values[k], F8)

        return value

    def body(_: Trace, arguments: list[TracedArray]) -> list[object]:
        out = run(*arguments)
        results = list(out) if function.results > 1 else [out]
        arrays = [traced(array_call(resolve(x))) for x in results]
        if any(a.dtype.kind == "c" for a in arrays):
            raise current().fail("a solver of SciPy was given a function with complex values.", "Solve for real and imaginary parts.")
        return [a if a.dtype == F8 else a.astype(F8) for a in arrays]

    inputs = [
        ArgumentSpec(t, scalar=not t.shape and function.numbers, weak=not t.shape and function.numbers, value=at(k), active=True)
        for k, t in enumerate(function.types)
    ]
    return record(body, inputs, current().call)


class UserFunctions:
    """The functions of one solver call: their recordings, and the traced values that they capture."""

    def __init__(self, functions: Sequence[UserFunction]) -> None:
        self.given = functions
        self.recordings = [[_recorded(g, None)] for g in functions]

    @property
    def extras(self) -> list[TracedArray]:
        """The traced values that the functions capture."""
        extras_by_id: dict[tuple[int, int], TracedArray] = {}
        for recording in [r for runs in self.recordings for r in runs]:
            for x in recording.extra:
                assert isinstance(x, TracedArray)  # captured arrays belong to the outermost trace
                extras_by_id.setdefault((id(x.home), x.id), x)
        return list(extras_by_id.values())

    def bodies(self) -> list[TracedFunction]:
        extras = self.extras
        return [_united(g, runs, extras) for g, runs in zip(self.given, self.recordings, strict=True)]

    def explore(self, run: Callable[[Sequence[TracedFunction], Values], object]) -> list[TracedFunction]:
        """The traced functions, with all branches that ``run(functions, extras)`` takes at the current arguments."""
        bodies = self.bodies()
        while any(body.has_branches for body in bodies):
            again = partial(run, bodies, [value_of(x) for x in self.extras])
            try:
                again()
            except UntracedBranch as miss:
                self._add(bodies.index(miss.body), miss.point)
                bodies = self.bodies()
            except not_foreign(ArithmeticError, ValueError, RuntimeError, again=again):
                break  # an error of SciPy, which comes again when the tape is run
            else:
                break
        return bodies

    def _add(self, k: int, point: Sequence[np.ndarray]) -> None:
        runs = self.recordings[k]
        if len(runs) >= MOST_PATHS:
            fact = (
                f"the function that is given to SciPy's solver takes more than {MOST_PATHS} different paths through its branches and loops."
            )
            raise current().fail(fact, "Use numpy.where, numpy.minimum or numpy.maximum, or loops of fixed length.")
        new = _recorded(self.given[k], point)
        if new.tape.output_types != runs[0].tape.output_types:
            raise current().fail("the function that is given to SciPy's solver returns arrays of different shapes.", "Return one shape.")
        runs.append(new)


def _united(function: UserFunction, runs: Sequence[Recording], extras: Sequence[TracedArray]) -> TracedFunction:
    """One tape for all recorded paths through a function: their results, selected by the guards."""
    with Trace("solver", lines=False) as trace:
        own = [trace.input(t) for t in function.types]
        place = {(id(x.home), x.id): trace.input(x.type) for x in extras}
        outs: Sequence[object] = []
        holds: object = None
        for recording in runs:
            inputs = [*own, *(place[id(x.home), x.id] for x in recording.extra)]
            own_results = splice(recording.tape, inputs, trace)
            here = splice(recording.check, inputs, trace)[0] if recording.check is not None else traced(np.array(True))
            outs = own_results if holds is None else [np.where(here, new, old) for new, old in zip(own_results, outs, strict=True)]
            holds = here if holds is None else np.logical_or(holds, here)
        tape = trace.builder.finish([trace.lift(holds), *map(trace.lift, outs)])
    return TracedFunction(tape, len(function.types))
