"""Programs: all traces of one function under one operator, and the look-up of the matching trace.

The input is the arguments of a call; the outputs are the variant (a trace of the function with the
operator's plan) and the inputs of its tape. All functions with the same code share a program, so
that a lambda that is made again finds its earlier traces.

A variant for each kind of call, looked up by its guards, is a polymorphic inline cache; U. Hoelzle,
C. Chambers and D. Ungar, ECOOP 1991, section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from time import perf_counter
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ..bounded_cache import WeakKeys, WeakValues, drop_oldest, keep_recent
from ..capture.dependencies import Held
from ..capture.sources.loop_drivers import driven
from ..device_arrays import CPU
from ..errors import called
from ..foreign_errors import not_foreign
from ..process.forking import late
from ..process.garbage_collection import collector_paused
from ..process.memory_reserve import budget
from ..trace import TracedArray, derived_lines
from ..trace.trace_stack import stack
from ..tree import flatten
from .arguments import Argnums, Body, Function, differentiated, flat_key, leaf_key, native
from .branch_stability import ALTERNATIVES, FEW, SHARE, BranchStability
from .call_tracing import CallToTrace
from .capture_session import call_private
from .memo_derivatives import trace_checking_memos
from .plans import DERIVING, Effort, OperatorPlan
from .run_errors import ManyQuestionsError
from .variant import Traced, Variant

if TYPE_CHECKING:
    from ..capture.written.write_programs import After


class FoundInputs(list[Any]):
    """The inputs of a matching variant, and the function that repeats the writes of its run."""

    __slots__ = ("after",)

    def __init__(self, arrays: Sequence[object], after: After | None) -> None:
        super().__init__(arrays)
        self.after = after


MakePlan = Callable[[Traced], OperatorPlan]  # what an operator makes of a traced function

HELD = 2048  # passes that are held, of the functions whose traces were used last
VARIANTS = 128  # signatures remembered for one function, the oldest dropped first
MOST_VARIANTS, NODES = 1024, 1 << 15  # and more, as long as their tapes are short together


# Few programs branch on values.
merge = late("merged_variants", __package__, "merge")
without_merged = late("merged_variants", __package__, "without_merged")
loop_driver = late("choosing.loop_driver", __package__, "Driver")


def _key(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[Sequence[object], object]:
    """The leaves of arguments, and their signature, by which variants are kept."""
    key = None if kwargs else flat_key(args)
    if key is not None:
        return args, key
    leaves, spec = flatten((args, kwargs))
    return leaves, (spec, *[leaf_key(leaf) for leaf in leaves])


class Program:
    """Every variant of one function under one operator, by the signature of the arguments.

    `name` is the public call, `argnums` says which arguments are differentiated (None: none), and
    `make_plan` turns a new variant into the operator's plan. `body` is the function that runs on
    traced arguments (None: the function itself); if an operator has a body, a list of numbers
    counts as an array if it is differentiated (`lists`). With `eager`, calls may be differentiated
    eagerly, but only on the CPU (`device`). With `merges`, traces of several branches may become
    one tape: merged traces, or loops that choose their branches. `effort` is the expected effort of
    a plan.
    """

    __slots__ = (
        "__weakref__", "argnums", "body", "device", "eager", "effort", "held", "lists", "make_plan",
        "merges", "name", "plain", "plans", "ratios", "seconds", "stability", "steady",
        "told_of_integers", "variants",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        argnums: Argnums,
        make_plan: MakePlan,
        body: Body | None = None,
        *,
        eager: bool = True,
        merges: bool = True,
        device: str = CPU,
        effort: Effort = DERIVING,
    ) -> None:
        self.name, self.effort = name, effort
        self.eager, self.merges = eager and device == CPU, merges
        self.device = device
        self.lists = body is not None
        self.body = body or call_private
        self.argnums = argnums
        self.make_plan = make_plan
        self.plain: Body | None = None  # what plain code would run in place of `f`
        self.reset()
        self.held = Held(HELD)  # by the latest calls, and taken by prepared functions
        self.ratios: list[float] = []  # times of eager calls by their operations' times
        self.seconds = 0.0  # spent in eager calls since the last warning
        self.steady = False  # whether the last two calls took the same path
        self.told_of_integers = False  # that they are taken as floats
        _every[id(self)] = self

    def reset(self) -> None:
        """Forget every trace."""
        self.variants: dict[object, list[Variant]] = {}
        self.plans: dict[object, OperatorPlan] = {}
        self.stability: dict[object, BranchStability] = {}

    def find(
        self,
        f: Function,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        sure: bool = False,
    ) -> tuple[Variant, list[np.ndarray]]:
        """The variant that holds for these arguments, and the inputs of its tape.

        The guards of the latest variant are left to its plan where the plan checks them, unless
        they have to be checked here (`sure`).
        """
        leaves, key = _key(args, kwargs)
        candidates = self.variants.get(key) or []
        stability = self.stability.get(key) if self.stability else None
        if stability is not None and self.eager and candidates and stability.unstable():
            begin = perf_counter()
            variant, inputs = self.trace(f, args, kwargs, eager=True)
            stability.took(variant.conditions.path, perf_counter() - begin)
            return variant, inputs  # type: ignore[return-value] - no trace is under way: they are arrays
        for variant in candidates:
            captured = variant.refresh(f)
            if captured is None:
                continue
            places = variant.places
            arrays: list[np.ndarray]
            arrays = list(leaves) if places is None else [native(leaves[k]) for k in places]  # type: ignore[arg-type] - leaves of a direct variant are arrays
            arrays += captured
            if variant.repeats:
                if variant.conditions.fills_argument(arrays, captured):
                    continue
                arrays = FoundInputs(arrays, variant.conditions.after(f))
            if not variant.conditional:
                return variant, arrays
            if self._is_valid(candidates, variant, arrays, sure=sure):
                if stability is not None:
                    stability.hit()
                    if not self.steady and stability.switched():
                        self._merge(candidates, f, stability, at_once=True)
                return variant, arrays
        self.steady = False
        many = any(v.conditions.guards > FEW or v.traced.rolled for v in candidates)
        branches = many or len(candidates) > 1
        variant, inputs = self.trace(f, args, kwargs, choosing=branches and self.merges)
        if variant.conditions.cacheable:
            self._keep(key, variant, f)
        return variant, inputs  # type: ignore[return-value] - no trace is under way: they are arrays

    def _keep(self, key: object, variant: Variant, f: Function) -> None:
        conditions = variant.conditions
        for _, reads in conditions.inner:
            reads.hold_in(self.held)
        kept = self.variants.setdefault(key, [])
        kept.insert(0, variant)
        if variant.traced.check is not None:
            stability = self.stability.setdefault(key, BranchStability())
            rolled = variant.traced.rolled and not conditions.lengths
            stability.miss(conditions.guards, rolled=rolled)
            self._merge(kept, f, stability)
        del kept[ALTERNATIVES + max(len(v.paths) // SHARE for v in kept) :]
        if len(self.variants) > VARIANTS and self._is_full():
            self.stability.pop(drop_oldest(self.variants), None)

    def trace_anew(
        self, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[Variant, list[object]]:
        """Trace `f` in a fresh program, without kept variants."""
        program = Program(
            self.name, self.argnums, self.make_plan, self.body, merges=self.merges,
            effort=self.effort,
        )  # fmt: skip
        return program.trace(f, args, kwargs)

    def _is_full(self) -> bool:
        """Whether to drop the oldest signature; calls of alternating lengths should drop none."""
        nodes = sum(len(variants[0].traced.tape.nodes) for variants in [*self.variants.values()])
        return len(self.variants) > MOST_VARIANTS or nodes > NODES

    def _merge(
        self, kept: list[Variant], f: Function, stability: BranchStability, *, at_once: bool = False
    ) -> None:
        """Put traces that take different branches together, if that is due."""
        if self.device != CPU or len(kept) < 2 or not self.merges:
            return
        merged = merge(kept, f, at_once=at_once)
        if merged is not None:
            merged.conditions.inner[0][1].hold_in(self.held)
            with self.effort.stage(merged.traced.call):
                merged.plan = self._plan(merged.traced)
            for step in merged.plan.steps():
                step.runner.account.spent += stability.seconds
            stability.seconds = 0.0
            kept[:] = without_merged(kept, merged)

    def latest(
        self, f: Function, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Variant | None:
        """The variant that a call with these arguments tries first.

        None if it relies on values or layouts of arrays, which a fast path does not compare.
        """
        for variant in self.variants.get(_key(args, kwargs)[1], ()):
            if variant.refresh(f) is not None:
                held = variant.conditions
                matters = held.pinned or held.swapped or any(layout for _, layout in held.layouts)
                return None if matters else variant
        return None

    def _is_valid(
        self, variants: list[Variant], variant: Variant, arrays: Sequence[np.ndarray], *, sure: bool
    ) -> bool:
        """Whether a variant that relies on values holds; if so, it is tried first next time."""
        first = variant is variants[0]
        if not variant.holds(arrays, sure=sure or not first or not self.steady):
            return False
        if not first:
            variants[:] = [variant, *(other for other in variants if other is not variant)]
        self.steady = first
        return True

    def trace(
        self,
        f: Function,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        *,
        eager: bool = False,
        choosing: bool = False,
    ) -> tuple[Variant, list[object]]:
        """A new variant, with loops that choose branches (`choosing`); the inputs of its tape.

        If the function asks for many values, loops choose branches in any case.
        """
        call = called(self.name, f)
        with collector_paused(), nullcontext() if eager else self.effort.stage(call):
            leaves, spec = flatten((args, kwargs))
            order, in_spec = differentiated(args, self.argnums, call)
            body = lambda *a, **k: self.body(f, a, k)  # noqa: E731 - its function bound
            restarts = self.merges and not (eager or choosing or stack.traces)
            request = CallToTrace(
                body, f, call, leaves, spec, order, in_spec, device=self.device, eager=eager,
                restarts=restarts,
            )  # fmt: skip
            traced = None
            try:
                traced = _traced(request, choosing=choosing)
            except ManyQuestionsError:
                if not restarts:  # the run of a trace around this one is left
                    raise
            # No error of the second run has the first run as its context.
            variant, extra = traced or _traced(request._replace(restarts=False), choosing=True)
            if eager:
                variant.plan = self.make_plan(variant.traced)
            else:
                with self.effort.stage(call, len(variant.traced.tape)):
                    variant.plan = self._plan(variant.traced)
        inputs = [
            leaves[k] if isinstance(leaves[k], TracedArray) else native(leaves[k])
            for k in variant.traced.positions
        ]
        return variant, [*inputs, *extra]

    def _plan(self, traced: Traced) -> OperatorPlan:
        """A new plan, or the plan of an equal trace: deriving a plan costs more than tracing."""
        if any(traced.outs) or derived_lines.wanted.on:
            return self.make_plan(traced)
        key = traced.plan_key()
        plan = self.plans.get(key)
        if plan is None:
            plan = self.make_plan(traced)
            if not traced.tape.transient:
                keep_recent(self.plans, key, plan, VARIANTS)
        return plan


def _traced(request: CallToTrace, *, choosing: bool) -> tuple[Variant, tuple[object, ...]]:
    """A variant of a call, without a plan, and the inputs of its tape beyond the arguments."""
    with driven(driver := loop_driver() if choosing else None):
        variant, extra = trace_checking_memos(request)
    if driver is not None:
        loops = driver.reasoned(variant.traced.loops)
        variant.traced = variant.traced._replace(loops=loops)
        variant.conditions = variant.conditions._replace(lengths=driver.lengths)
    return variant, extra


_every: WeakValues[int, Program] = WeakValues()
_Programs = dict[tuple[object, ...], "Program"]
MOST_PROGRAMS = 2 * VARIANTS  # programs remembered, the oldest dropped first
_programs: _Programs = {}  # by code
_of_objects: WeakKeys[object, _Programs] = WeakKeys(
    MOST_PROGRAMS
)  # of other callables, and of methods


def program_of(f: Function, operator: object, make: Callable[[], Program]) -> Program:
    """The program of `f` under one operator: shared by all functions of the same code.

    `operator` identifies the operator, its settings and `argnums`; `make` gives a new program.
    """
    programs, name = (_programs, f.__code__) if type(f) is FunctionType else _kept_by(f)
    key = name, operator, budget.get()
    try:
        program = programs.get(key)
    except not_foreign(TypeError, again=lambda: hash(key)):  # an unhashable callable has its own
        return make()
    return keep_recent(programs, key, make(), MOST_PROGRAMS) if program is None else program


class OwnsPrograms:
    """A callable of fdiff's own: its programs are freed together with it."""

    programs: dict[tuple[object, ...], Program]


def _kept_by(f: Function) -> tuple[_Programs, object]:
    """The mapping that holds the programs of a callable, and the key of the callable.

    The mapping does not keep it alive. The key of a method is its object and its code: a method is
    new at each look-up, and its function may be a private copy, which refers to a run's arguments.
    """
    if isinstance(f, OwnsPrograms):
        return f.programs, None
    if type(f).__hash__ is None:  # its program, which holds it, serves one prepared function
        return {}, None
    owner, name = f, None
    if isinstance(f, MethodType):
        owner, name = f.__self__, getattr(f.__func__, "__code__", f.__func__)
    programs = _of_objects.get(owner)
    if programs is None:
        programs = {}
        try:
            _of_objects[owner] = programs
        except not_foreign(TypeError):  # some classes have no weak references
            return _programs, f
    return programs, name


def forget_programs() -> None:
    """Drop every traced program, and the traces of programs that somebody holds."""
    _programs.clear()
    _of_objects.clear()
    for program in _every.values():
        program.reset()
        program.held.clear()
