"""Runs of a loop's body on all its paths, by answers to Python's truth tests.

The idea of P. Godefroid et al., DART: directed automated random testing, PLDI 2005.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT
from ...capture.sources.loop_rewriting import UNBOUND
from ...errors import FdiffError
from ...foreign_errors import not_foreign
from ...hooks import Args, Function, Named
from ...primitive import PRIMITIVES
from ...trace import Trace, TracedArray, apply
from ...trace.array_links import root_of
from ...trace.branching.guard_nodes import truth
from ...trace.exception_context import inside_try
from ...trace.handler_arguments import resolve
from ...trace.local_arrays import LocalArray
from ...trace.recorder import Loops
from .array_identities import ArrayNumbers
from .mixed_numbers import MixedNumbers
from .surroundings import Surroundings
from .trip_rows import TripRows
from .variables import Growth, ManyPathsError, PathRun, RefusedLoopError, Variable

if TYPE_CHECKING:
    from ...trace.user_calls import Conversion

_EQUAL, _UNEQUAL, _LESS_EQUAL, _ABSOLUTE, _CONVERT = (
    PRIMITIVES[name] for name in ("equal", "not_equal", "less_equal", "absolute", "convert")
)
_DIVIDING = {PRIMITIVES[name] for name in ("divide", "floor_divide", "remainder")}
LARGEST = 1 << 26  # int that a number is cut to
MOST_PATHS = 16  # through an iteration
QUESTIONS = 12  # on one path
INDICES = 600  # that the runs of a loop, and of loops in it, ask for
_DEPTH = 8  # of nested operations on ints whose values are computed
CALLS = 600  # on one path, of functions of NumPy outside of loops
# What a body may raise on a path that Python does not take.
_FAULTS = FdiffError, ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError
Cells = Sequence[Callable[[], object]]
Body = Callable[..., Cells]


class Splits(IntEnum):
    """The nodes in a body of many paths: its statements that branch, and its loops of few trips."""

    NOTHING = 0
    STATEMENTS = 1
    LOOPS = 2


class EnclosingLoop:
    """The loop whose body is run: its trace, its limits, and what all runs tell of its values.

    `outer` is the loop around it, in whose body it stands.
    """

    def __init__(
        self, trace: Trace, outer: EnclosingLoop | None, rows: TripRows, splits: Splits
    ) -> None:
        self.trace, self.outer = trace, outer
        self.level: int = 0 if outer is None else outer.level + 1
        self.most_trips = rows.most_inner_trips  # of a ``while`` in the body
        self.whole = rows.to_function_end  # such a body makes `CALLS` at most
        self.splits = splits  # which parts of the body are nodes
        self.outermost: TripRows = rows if outer is None else outer.outermost
        self.branches = False  # whether a loop in the body branches
        # Sizes of Python numbers that change, by their nodes; None of other values.
        self.sizes: dict[int, int | None] = {}
        # By nodes: ints that inner loops count or numbers are cut to, and sizes of quotients.
        self.counts: dict[int, Growth] = {}
        self.quotients: dict[int, int] = {}
        # Handles that stand for ints and truth values of Python, with their types.
        self.numbers: list[tuple[object, type]] = []
        # Handles of loose variables, with what tells whether they are new (`body_paths.py`).
        self.flags: list[tuple[object, TracedArray]] = []
        self.mixed = MixedNumbers(trace, None if outer is None else outer.mixed)
        self.tags = dict[int, int]()  # nodes of numbers of arrays, by places of inputs
        self.fresh: int | None = None

    def type_of(self, value: object) -> type | None:
        """The type of the Python number that a handle stands for, if it does."""
        return next((kind for handle, kind in self.numbers if handle is value), None)

    def flag_of(self, value: object) -> TracedArray | None:
        """What tells whether the value of a variable is new; None where that is not in doubt."""
        flag = next((flag for handle, flag in self.flags if handle is value), None)
        if flag is None and isinstance(value, TracedArray) and value.scalar:
            return self.mixed.flag(self.trace.lift(value))
        return flag


class Answers:
    """The log of one run of a body: it answers truth tests by a script, and by False after it."""

    frame = None  # no calls are compared

    def __init__(self, loop: EnclosingLoop, surroundings: Surroundings) -> None:
        self.loop, self.trace, self.surroundings = loop, loop.trace, surroundings
        self.depth = 0
        self.begin(())

    def begin(self, script: tuple[bool, ...], inputs: Sequence[object] = ()) -> None:
        """Begin a run on its own handles of the inputs."""
        loop = self.loop
        self.script, self.calls = script, 0
        self.asked: list[tuple[int, bool]] = []  # nodes of the tests, with the answers
        self.demands: list[int] = []  # nodes of whether inner loops ended
        self.last_index = -1  # the question that settled an index after others were denied
        self.indices = dict[int, np.ndarray]()  # by node: the value of an int on this path
        self.shared = -1  # the last node of an array that may be one that was there before
        self.arrays = ArrayNumbers(loop.trace, inputs, loop.tags, loop.fresh)

    def question(self, kind: object, handle: TracedArray) -> int:
        """The truth value, or the index, of a handle on this path."""
        if kind is bool:
            return self._truth(handle)
        loop, type_ = self.loop, handle.type
        bounded = loop.most_trips is not None and not loop.splits
        if kind is not int or type_.dtype != INT or type_.shape or not bounded:
            raise RefusedLoopError("it asks for a number")
        node = self.trace.lift(handle)
        if (value := self._value(node)) is not None:
            return int(value)
        loop.outermost.indices += 1
        if loop.outermost.indices > INDICES:
            raise RefusedLoopError("it asks for many indices")
        first = len(self.asked)
        for index in range(QUESTIONS):
            place = len(self.asked)
            if self._truth(apply(_EQUAL, handle, np.array(index, INT)), default=True):
                self.indices[node] = np.array(index, INT)
                self.last_index = place if first < place < len(self.asked) else -1
                return index
        raise ManyPathsError("an int has many values")

    def whole(self, handle: TracedArray) -> TracedArray | None:
        """A number cut to a Python int, which is demanded to be small; None of arrays."""
        dtype, loop = handle.dtype, self.loop
        if handle.type.shape or dtype.kind not in "fib":
            return None
        if handle.weak and dtype == INT:
            return handle
        number = apply(_CONVERT, handle, scalar=True, weak=True, dtype=INT)
        loop.numbers.append((number, int))
        loop.counts[number.id] = Growth(None, 0, 1 if dtype == BOOL else LARGEST)
        loop.branches = True
        if dtype != BOOL:
            self._demand_small(handle)
        return number

    def caught(self, refusal: Callable[[], TracedArray]) -> bool:
        """Whether an error is raised that a ``try`` catches, which has to be one in the body."""
        if not inside_try(_run.__code__):
            raise RefusedLoopError("it may raise an error that code around it catches")
        return self._truth(refusal())

    def _truth(self, handle: TracedArray, *, default: bool = False) -> bool:
        trace = self.trace
        node = truth(trace, trace.lift(handle))
        if (value := self._value(node)) is not None:
            return bool(value)
        if trace.builder.type(node).shape:
            raise RefusedLoopError("it asks for the truth of an array")
        primitive, args, *_ = trace.builder.nodes[node]
        if primitive in (_EQUAL, _UNEQUAL) and any(trace.builder.type(a).floating for a in args):
            self.demands.append(trace.add(_UNEQUAL, args))  # they may be equal at one point alone
            return primitive is _UNEQUAL
        for earlier, answer in self.asked:
            if earlier == node:
                return answer
        if len(self.asked) >= QUESTIONS:
            raise ManyPathsError("an iteration asks for many values")
        place = len(self.asked)
        answer = self.script[place] if place < len(self.script) else default
        self.asked.append((node, answer))
        return answer

    def _value(self, node: int, depth: int = 0) -> np.ndarray | None:
        """The value of a node, if it is computed from constants and indices of this path."""
        primitive, args, params, types = own = self.trace.builder.nodes[node]
        value = self.indices.get(node, own.value)
        whole = len(types) == 1 and not (types[0].shape or types[0].floating)
        if value is not None or not (whole and args and self.indices) or depth == _DEPTH:
            return value
        values = [self._value(a, depth + 1) for a in args]
        if any(v is None for v in values):
            return None
        return np.asarray(primitive.rules.evaluate(*values, **dict(params)))

    def call(self, fn: Function, args: Args, named: Named) -> object:
        self.depth += 1
        self.calls += 1
        if self.loop.whole and self.calls > CALLS:
            raise RefusedLoopError("it calls many functions outside of loops")
        try:
            out = fn(*args, **named)
        finally:
            self.depth -= 1
        for part in out if type(out) is tuple else (out,):
            if type(part) is TracedArray and part.weak and not self.depth:
                self._demand_divisor(part)
        return out

    def _demand_divisor(self, quotient: TracedArray) -> None:
        """Demand what keeps Python's division of numbers by a number that changes from an error."""
        nodes, own = self.trace.builder.nodes, quotient.id
        primitive, args, _, (type_, *_) = nodes[own]
        if primitive not in _DIVIDING or nodes[args[1]].value is not None:
            return
        divisor = TracedArray(self.trace, args[1], nodes[args[1]].type)
        self.demands.append(apply(_UNEQUAL, divisor, np.zeros((), divisor.dtype)).id)
        self.loop.quotients[own] = 0 if type_.floating else LARGEST
        if not type_.floating:
            self._demand_small(quotient)

    def _demand_small(self, number: TracedArray) -> None:
        size = apply(_ABSOLUTE, number)
        self.demands.append(apply(_LESS_EQUAL, size, np.array(LARGEST, size.dtype)).id)

    def converted(self, array: LocalArray, convert: Conversion) -> TracedArray:
        if self.surroundings.has(array):
            raise RefusedLoopError("it stores into an array that is no variable of its own")
        return convert(array)

    def stored(self, handle: TracedArray) -> None:
        """Leave stores to the variables, which compare nodes, but for arrays of several names."""
        if root_of(handle).made <= self.shared:
            raise RefusedLoopError("it stores into an array that may have another name")

    def look(self) -> None:
        """Listen to all calls."""

    def is_idle(self) -> bool:
        return False

    def listens(self) -> bool:
        return True

    def is_checked(self, handle: TracedArray) -> bool:
        return True

    def is_asked(self) -> bool:
        return True

    def loops(self) -> Loops:
        return ()

    def note(self, loops: Loops) -> None:
        """Leave loops to the log of the trace around."""

    def close(self) -> None:
        self.asked = []


def runs_of(
    answers: Answers,
    entries: Callable[[], object],
    inputs: Sequence[object],
    variables: Sequence[Variable],
    flags: Mapping[int, TracedArray],
    body: Body,
) -> list[PathRun]:
    """The runs of the body on all paths, each on handles of its own.

    An int that serves as an index is asked whether it is 0, 1, and so on, until the body raises an
    IndexError: the index before is the last one of the list.
    """
    trace = answers.trace
    scripts: list[tuple[bool, ...]] = [()]
    questions = dict[tuple[bool, ...], int | None]()  # by the answers before; None at an end
    runs = list[PathRun]()
    last = set[tuple[bool, ...]]()  # answers before questions for the last index of a list
    for _ in range(MOST_PATHS):
        script = scripts.pop()
        run = partial(_run, answers, script, (entries, inputs, body), (variables, flags))
        try:
            own, values = run()
        except RefusedLoopError:
            raise
        except not_foreign(*_FAULTS, again=run) as error:
            if not isinstance(error, IndexError) or answers.last_index < 0:
                raise RefusedLoopError(str(error).partition("\n")[0]) from None
            last.add(tuple([answer for _, answer in answers.asked[: answers.last_index - 1]]))
            if scripts:
                continue
            break
        if trace.refused or trace.shown or trace.only_here:
            raise RefusedLoopError("an iteration looks at a value")
        if trace.guards.expected or trace.guards.pinned:
            raise RefusedLoopError("an iteration looks at a value from outside")
        replies = tuple([answer for _, answer in answers.asked])
        for k, node in enumerate([*[node for node, _ in answers.asked], None]):
            if questions.setdefault(replies[:k], node) != node:
                raise RefusedLoopError("it asks for other values when it is run again")
        scripts += [(*replies[:k], not replies[k]) for k in range(len(script), len(replies))]
        numbers = [h for h, _ in answers.loop.numbers]
        runs.append(PathRun(answers.asked, values, own, numbers, answers.demands, answers.arrays))
        if not scripts:
            break
    else:
        raise ManyPathsError(f"there are more than {MOST_PATHS} paths through an iteration")
    for run in runs:
        _demand_last(run, last)
    return runs


def _demand_last(run: PathRun, last: Collection[tuple[bool, ...]]) -> None:
    """Turn questions for the last index of a list into demands, which the loop guards.

    `last` holds the answers that come before such a question.
    """
    replies = tuple([answer for _, answer in run.asked])
    places = [k for k in range(len(replies)) if replies[:k] in last]
    run.demands.extend(run.asked[k][0] for k in places)
    for k in reversed(places):
        del run.asked[k]


def _run(
    answers: Answers,
    script: tuple[bool, ...],
    call: tuple[Callable[[], object], Sequence[object], Body],
    kinds: tuple[Sequence[Variable], Mapping[int, TracedArray]],
) -> tuple[list[object], list[object]]:
    """The inputs and results of the body when truth tests are answered by a script."""
    entries, inputs, body = call
    loop, (variables, flags) = answers.loop, kinds
    own = [_again(answers.trace, x) for x in inputs]
    answers.begin(script, own)
    loop.flags += [(own[k], flag) for k, flag in flags.items() if own[k] is not UNBOUND]
    pairs = zip(own, variables, strict=True)
    loop.numbers += [
        (h, v.python) for h, v in pairs if v.python is not None and isinstance(h, TracedArray)
    ]
    return own, [resolve(value_of(cell)) for cell in body(entries(), *own)[1:]]


def enclosing_loop(trace: Trace) -> EnclosingLoop | None:
    """The loop whose body is traced; None outside of bodies."""
    return trace.calls.loop if isinstance(trace.calls, Answers) else None


def _again(trace: Trace, x: object) -> object:
    """A handle of its own for the node of an input; other values as they are."""
    if not isinstance(x, TracedArray):
        return x
    return TracedArray(trace, x.node, x.type, scalar=x.scalar, weak=x.weak)


def value_of(cell: Callable[[], object]) -> object:
    """The value of a variable."""
    try:
        return cell()
    except not_foreign(NameError, again=cell):
        return UNBOUND
