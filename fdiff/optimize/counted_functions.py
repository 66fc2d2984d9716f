"""Functions that solvers call: evaluated once at each point, counted and timed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from operator import is_
from time import perf_counter
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ..errors import InputError, StructureError, UnsupportedError, failure
from ..functional.call.prepared import AnyPrepared
from ..functional.operators.jacobians import jacobian
from ..functional.operators.sparse_plans import SparsePlan
from ..hooks import Function

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PLACES = ("indptr", "indices")
SHARE = 0.1  # of the entries, up to which a Jacobian is passed as sparse


class Evaluation:
    """A function of vectors. A point is compared with the last one by its bytes.

    Solvers reuse their buffers, so the function gets copies. After each evaluation, `shown` is
    called with the number of evaluations and the value.
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.count, self.seconds = 0, 0.0
        self.shown: Callable[[int, Any], object] | None = None
        self._point: object = None
        self._value: object = None

    def __call__(self, *point: np.ndarray) -> Any:
        key = [part.tobytes() for part in point]
        if key != self._point:
            begin = perf_counter()
            self._point = None  # an exception leaves no value behind
            self._value = self.evaluate([part.copy() for part in point])
            self._point = key
            self.count += 1
            self.seconds += perf_counter() - begin
            if self.shown is not None:
                self.shown(self.count, self._value)
        return self._value

    def evaluate(self, point: list[np.ndarray]) -> object:
        return self.function(*point)

    def fresh(self, *point: np.ndarray) -> object:
        """Evaluate even at the last point: what the function reads may have changed."""
        self.restart()
        return self(*point)

    @property
    def latest(self) -> object:
        """The value at the last point; None if there is none."""
        return self._value if self._point is not None else None

    def restart(self) -> None:
        """Forget point, count and seconds, and who is shown them."""
        self.count, self.seconds, self._point, self.shown = 0, 0.0, None, None


class SparseEvaluation(Evaluation):
    """The entries of a sparse derivative, whose places are those at `example`.

    Another branch of the function, or other index arrays that it reads, may have other places. So
    they are compared at each point if the function has branches, and once in a solve if there have
    been several structures.
    """

    def __init__(self, derivative: AnyPrepared, example: tuple[np.ndarray, ...], call: str) -> None:
        super().__init__(derivative.data)
        self._derivative, self._program, self._call = derivative, derivative.data.program, call
        for prepared in (derivative.data, derivative):
            compile_or_call(prepared, *example)
        self._array = derivative(*example)
        self.rows, self.cols = self._array.tocoo().coords
        self._signature = tuple([(part.dtype, part.shape) for part in example])
        self._buffer = self.function(*example)
        self._compared = self._state()

    def evaluate(self, point: list[np.ndarray]) -> np.ndarray:
        if self._compared:
            try:
                self.function(*point, out=self._buffer)
            except InputError:  # of the buffer, if a branch met here has another number of entries
                if self._is_as_compared():
                    raise
            else:
                if self._is_as_compared():
                    return self._buffer
        array, expected = self._derivative(*point), self._array
        if not all(np.array_equal(getattr(array, k), getattr(expected, k)) for k in PLACES):
            fact = "the derivative has other entries than at the start."
            anew = f"For other index arrays, call {self._call} anew."
            way = f"Write np.where for branches on values. {anew}"
            raise failure(StructureError, self._call, fact, way)
        self._compared = self._state()
        return array.data

    def _is_as_compared(self) -> bool:
        state, compared = self._state(), self._compared
        return len(state) == len(compared) and all(map(is_, state, compared))

    def _state(self) -> tuple[object, ...]:
        """The trace of the function for this size and its structures; of several traces none."""
        variant, *others = [*self._program.variants.get(self._signature, ())] or [None]
        if variant is None or others or not isinstance(variant.plan, SparsePlan):
            return ()
        return variant, *variant.plan.structured.structures.kept

    @property
    def branches(self) -> bool:
        """Whether the function decides by values: one trace does not tell what another has."""
        traces = chain.from_iterable([*self._program.variants.values()])
        return any(variant.traced.check is not None or variant.paths for variant in traces)

    def restart(self) -> None:
        super().restart()
        if len(self._compared) != 2:  # beside one structure alone, any other would be new
            self._compared = ()

    def matrix(self, *point: np.ndarray) -> csr_array:
        """The derivative as a sparse array of the caller's own."""
        values = self(*point)
        array = self._array.copy()
        array.data[:] = values
        return array


def compile_or_call(prepared: AnyPrepared, *point: object) -> None:
    """Trace a function now, and compile it if it has a kernel."""
    try:
        prepared.compile(*point)
    except UnsupportedError:
        prepared(*point)


def sparse_jacobian(
    f: Callable[..., object],
    entries: int,
    *point: object,
    format: str,  # noqa: A002 - as SciPy says
) -> AnyPrepared | None:
    """The Jacobian as a sparse array; None without structure, or with a tenth of its `entries`."""
    prepared: object = jacobian(f, sparse=format)
    with suppress(StructureError):
        if prepared.pattern(*point).nnz < SHARE * entries:
            return prepared
    return None


class SolveReport:
    """Counts and seconds of each function in the last solve, and of the solver.

    Attributes
    ----------
    counts, seconds : dict
        By the name of the function. ``seconds["solver"]`` is what the solver itself took.

    Examples
    --------
    >>> from fdiff.optimize import Problem
    >>> problem = Problem(lambda x: x @ x)
    >>> result = problem.minimize([1.0, 2.0], "BFGS")
    >>> problem.report.counts
    {'value_and_grad': 3}
    """

    def __init__(self, evaluations: dict[str, Evaluation], total: float) -> None:
        asked = {name: e for name, e in evaluations.items() if e.count}
        self.counts = {name: e.count for name, e in asked.items()}
        self.seconds = {name: e.seconds for name, e in asked.items()}
        self.seconds["solver"] = total - sum(self.seconds.values())

    def __repr__(self) -> str:
        rows = [f"{name:16}{self.counts.get(name, 1):8}" for name in self.seconds]
        times = [f"{seconds:12.6f} s" for seconds in self.seconds.values()]
        return "\n".join(map(str.__add__, rows, times))
