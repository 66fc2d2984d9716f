"""Operators, and the record of one call of an operator, which goes through `stages`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import fdiff.intact_numpy as np

from ...device_arrays import CPU
from ...dispatch.arguments import Argnums, Function
from ...dispatch.plans import DERIVING, Effort, OperatorPlan
from ...dispatch.program import MakePlan, Program, program_of
from ...dispatch.variant import Traced, Variant
from ...tree import map_leaves
from .device_calls import on_host
from .point_conversion import body_of_operator
from .prepared import Origin

Check = Callable[[Traced, str], object]
# The condition under which a stage applies (None: to every call), and its function.
CallStage = tuple[Callable[["OperatorCall"], object] | None, Callable[["OperatorCall"], object]]


class Operator:
    """A public operator with its settings checked; all calls with equal settings share one object.

    `function` is the public function, `settings` are its arguments other than `argnums`. `plan`
    makes the plan of a traced function, after ``check(traced, name)`` has refused functions
    without a derivative. Programs and fast paths are cached by operator.
    """

    __slots__ = ("check", "device", "effort", "function", "name", "plan", "settings")
    eager = True  # whether functions may be differentiated eagerly
    merges = True  # whether traces of several branches may become one tape

    def __init__(
        self,
        function: Function,
        settings: dict[str, object],
        plan: MakePlan,
        check: Check | None = None,
        effort: Effort = DERIVING,
    ) -> None:
        self.device = str(settings.get("device", CPU))
        self.function = function
        self.name = function.__name__
        self.settings = settings
        self.plan = plan
        self.check, self.effort = check, effort

    def make_plan(self, traced: Traced) -> OperatorPlan:
        """The plan of a traced function; an error if the function has no such derivative."""
        if self.check is not None:
            self.check(traced, self.name)
        return self.plan(traced)

    def program(self, f: Function, argnums: Argnums) -> Program:
        """The program of `f` under this operator."""

        def program() -> Program:
            body, device = body_of_operator(self.name, argnums), self.device
            return Program(
                self.name, argnums, self.make_plan, body, eager=self.eager,
                merges=self.merges, device=device, effort=self.effort,
            )  # fmt: skip

        return program_of(f, (self, argnums), program)

    def origin(self, argnums: Argnums) -> Origin:
        """The record from which the prepared function of this operator is made again."""
        settings = self.settings if argnums is None else {"argnums": argnums, **self.settings}
        return Origin(self.function, settings)


class OperatorCall:
    """A call of an operator on its way through the stages.

    `f` is the user's function, `args` and `kwargs` are its arguments, `vectors` come with products.
    ``again(*original_args, **kwargs)`` repeats the call; with `writes_out`, the keyword ``out`` is
    fdiff's. `program` holds the traces of `f`. If the call passes `f` and the point together, the
    program is found from the point and `argnums`. `variant` is the trace that holds for the
    arguments, and `arrays` are the inputs of its tape. With `sure`, the guards of the variant are
    evaluated before its plan runs. If `eager` is false, eager traces are not used.
    """

    ahead: Iterator[CallStage]
    program: Program
    arrays: list[np.ndarray]
    variant: Variant | None = None
    operator: Operator | None = None
    argnums: object = None
    sure, eager = False, True

    def __init__(
        self,
        asked: Program | Operator,
        f: Function,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        vectors: Sequence[object] = (),
        again: Function | None = None,
        original_args: tuple[object, ...] = (),
        writes_out: bool = False,  # noqa: FBT001, FBT002 - called for each call
    ) -> None:
        self.name, self.device = asked.name, asked.device
        self.f, self.args, self.kwargs, self.vectors = f, args, kwargs, vectors
        self.again, self.original_args = again, original_args
        self.writes_out = writes_out
        if type(asked) is Program:
            self.program = asked
        else:
            self.operator = asked  # type: ignore[assignment] - what is no program is an operator

    def go_through(self, stages: Sequence[CallStage]) -> object:
        """The result of these stages."""
        self.ahead = iter(stages)
        return self.go_on()

    def go_on(self) -> object:
        """The result of the remaining stages."""
        for applies, run in self.ahead:
            if applies is None or applies(self):
                result = run(self)
                if result is not self:
                    return result
        raise AssertionError(self.name)  # the last stage gives the result

    def traced_anew(self) -> tuple[Variant, list[object], tuple[object, ...]]:
        """A new trace of the function by itself, its inputs, and the vectors, all on the host."""
        args, kwargs, vectors = map_leaves(on_host, (self.args, self.kwargs, tuple(self.vectors)))
        return *self.program.trace_anew(self.f, args, kwargs), vectors
