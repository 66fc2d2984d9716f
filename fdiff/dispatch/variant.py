"""Variants: one trace of a function, the conditions under which it is used again, and its plan.

A variant serves one signature of arguments (types of float arrays, values of all other leaves), as
long as the values that the function read from outside compare equal and its guards hold. Arrays
that the function captured are inputs of the tape, so that a change of their entries is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..capture import Dependencies
from ..device_arrays import CPU
from ..foreign_errors import not_foreign
from ..named_tuples import NamedTuple
from ..process.float_flags import Doubts
from ..process.forking import late
from ..tape import Tape
from ..trace import memory_layout
from ..tree import Spec, flatten
from ..user_lines import Line
from .plans import OperatorPlan, PlanStep
from .tiers.runner_choice import runner_on

if TYPE_CHECKING:
    from ..capture.merged_dependencies import MergedDependencies
    from ..capture.written.write_programs import After
    from ..trace.eager.eager_trace import EagerTrace

to_ordinary_tape = late("eager.eager_trace", "fdiff.trace", "to_ordinary_tape")
NO_PLAN = OperatorPlan()  # before the operator has made one, and after an eager call


class Traced(NamedTuple):
    """The results of a trace: tapes and the structure of a call. Plans are made of it.

    The inputs of `tape` are the traced leaves of the arguments (at `positions` among all leaves),
    then the captured arrays; its outputs are the numeric leaves of the result. `check` is the tape
    of the guards, `written` the tape of the values that `f` writes to the outside: both have the
    same inputs. An `eager` trace is for one call. The tapes run on `device`.

    `wrt` are the positions of the differentiated inputs, `in_spec` is their structure, `out_spec`
    the structure of the result. `outs` holds None for each leaf of the result that varies, and the
    object itself for each leaf that is the same at every call; `numbers` are the Python numbers
    among the numeric leaves, or their types where the tape computes them; `scalars` and
    `input_scalars` say which are NumPy scalars. With `direct`, the arguments are the inputs as they
    stand. `call` is the public call, `loops` are the user's loops.
    """

    call: str
    tape: Tape
    wrt: tuple[int, ...]
    in_spec: Spec
    out_spec: Spec
    outs: tuple[tuple[object] | None, ...]
    numbers: tuple[object, ...]
    scalars: tuple[bool, ...]
    input_scalars: tuple[bool, ...]
    positions: tuple[int, ...]
    direct: bool
    check: Tape | None = None
    written: Tape | None = None
    eager: EagerTrace | None = None
    device: str = CPU
    loops: tuple[tuple[Line, int, int, int, str], ...] = ()

    @property
    def wrt_types(self) -> tuple[ArrayType, ...]:
        """The types of the differentiated inputs."""
        return tuple([self.tape.input_types[k] for k in self.wrt])

    @property
    def rolled(self) -> bool:
        """Whether a loop of the user's became a node."""
        return any(times for _, times, _, _, _ in self.loops)

    def leaves(self, args: tuple[object, ...], kwargs: dict[str, object]) -> list[object]:
        """The leaves of arguments that are inputs of the tape."""
        every = flatten((args, kwargs))[0]
        return [every[k] for k in self.positions]

    def step(self, tape: Tape) -> PlanStep:
        """A derivative tape made ready to run, which checks the guards of this trace as well."""
        return PlanStep(tape, self.check, self.call, self.device, self.written)

    def ordinary(self) -> Traced:
        """The trace with an ordinary tape in place of an eager one."""
        if self.eager is None:
            return self
        return self._replace(tape=to_ordinary_tape(self.eager, self.tape.outputs), eager=None)

    def plan_key(self) -> tuple[object, ...]:
        """The key of an operator's plan; equal traces share a plan."""
        numbers = [(type(n), repr(n)) for n in self.numbers]
        tapes, specs = (self.tape, self.check, self.written), (self.in_spec, self.out_spec)
        return (*tapes, self.wrt, *specs, self.scalars, self.input_scalars, *numbers)


class Conditions(NamedTuple):
    """Conditions, beside guards, under which later calls use a trace.

    `inner` are the functions that ran, each with its reads from outside (for the called function,
    only its code is held, because calls pass the function); `order` says which of them captured
    each array. `pinned` inputs must have these values, inputs in `layouts` these strides. Captured
    arrays `swapped` are in another byte order than the machine's. `guards` is the number of guards;
    `path` is the hash of the decisions in an eager trace. The trace may rely on `lengths` of lists
    that a short loop appends to. If `cacheable` is false, the trace is for one call.
    """

    inner: tuple[tuple[object, Dependencies], ...]
    order: tuple[tuple[int, int], ...]
    pinned: tuple[tuple[int, bytes], ...] = ()
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    swapped: tuple[int, ...] = ()
    guards: int = 0
    path: int = 0
    lengths: bool = False
    cacheable: bool = True

    def refresh(self, f: Callable[..., object]) -> list[np.ndarray] | None:
        """The captured arrays as they are now; None if anything else read has changed."""
        parts: list[Sequence[np.ndarray]] = []
        for k, (g, reads) in enumerate(self.inner):
            if (part := reads.refresh(g if k else f)) is None:
                return None
            parts.append(part)
        return [parts[p][j] for p, j in self.order]

    def after(self, f: Callable[..., object]) -> After | None:
        """The function that writes the values of `written` after a call of `f`."""
        pins = self.inner[0][1].pins(f)
        return None if pins is None or pins.writes is None else pins.writes.after

    def fills_argument(self, arrays: Sequence[object], captured: Sequence[np.ndarray]) -> bool:
        """Whether an argument may share memory with an array that `f` writes to."""
        effects = self.inner[0][1].effects
        return effects is not None and effects.overlap(arrays, captured)

    def hold(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether the inputs have the values and the layouts that the trace relies on."""
        for k, seen in self.pinned:
            if np.asarray(arrays[k]).tobytes() != seen:
                return False
        return not self.layouts or all(memory_layout(arrays[k]) == to for k, to in self.layouts)


class Variant:
    """A trace, the conditions of its use, and what has been made of it.

    `plan` is what the operator made of the trace. A variant that was merged from others has these
    as `paths`. `doubts` count the hints at NumPy warnings.
    """

    def __init__(
        self, traced: Traced, conditions: Conditions, paths: tuple[Variant, ...] = ()
    ) -> None:
        self.traced, self.conditions, self.paths = traced, conditions, paths
        self.plan, self.doubts = NO_PLAN, Doubts()
        inner = conditions.inner
        self.refresh = inner[0][1].refresh if len(inner) == 1 else conditions.refresh
        # Whether something is done around each later call: numbers are read, values are written.
        self.repeats = bool(inner) and inner[0][1].effects is not None
        # The positions of the inputs among the leaves; None if all leaves are inputs.
        self.places = None if traced.direct else traced.positions
        self.conditional = bool(conditions.pinned or conditions.layouts or traced.check)
        self.plain = not (traced.check or traced.eager or conditions.swapped)  # used directly
        self._checks = None if traced.check is None else runner_on(traced.device, traced.check)
        self._writer: Callable[..., Sequence[object]] | None = None

    def written_values(self, arrays: Sequence[object]) -> Sequence[object]:
        """The outputs of `written`, for a plan whose steps do not have them."""
        if self.traced.written is None:
            return ()
        if self._writer is None:
            self._writer = runner_on(self.traced.device, self.traced.written)
        return self._writer(arrays)  # type: ignore[arg-type] - concrete arrays, of the types of the variant

    def taken(self, arrays: Sequence[np.ndarray]) -> tuple[Variant, Sequence[np.ndarray]]:
        """The path that plain code takes at these inputs, and the inputs of this path."""
        count = len(self.traced.positions)
        for k, path in enumerate(self.paths):
            reads: MergedDependencies = self.conditions.inner[0][1]  # type: ignore[assignment] - merged ones
            begin = count + reads.first[k]
            end = begin + len(path.traced.tape.inputs) - count
            own = [*arrays[:count], *arrays[begin:end]]
            if path.guards_hold(own):
                return path, own
        return self, arrays

    def release(self) -> None:
        """Let go of an eager trace, so that no cycle of references outlives the call."""
        if self.traced.eager is not None:
            self.traced.eager.release()
            self.plan = NO_PLAN

    def holds(self, arrays: Sequence[np.ndarray], *, sure: bool) -> bool:
        """Whether Python would read and decide the same at these inputs as during the trace.

        Guards are left to a plan that checks them, unless they have to be checked now (`sure`).
        """
        if not self.conditions.hold(arrays):
            return False
        return (not sure and self.plan.guards) or self.guards_hold(arrays)

    def guards_hold(self, arrays: Sequence[np.ndarray]) -> bool:
        """Whether every guard holds."""
        if self._checks is None:
            return True
        try:
            return bool(self._checks(arrays)[0])
        except not_foreign(
            ArithmeticError, IndexError, ValueError, again=partial(self._checks, arrays)
        ):  # raised in a case that an earlier guard excludes
            return False
