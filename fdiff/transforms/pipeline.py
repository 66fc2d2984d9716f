"""The pipelines of transforms: the steps on a tape, in order, for every operator.

A pipeline is a tuple of steps, and `derive` applies them in turn to the tape of a function. Every
step takes a tape and the operator's request and gives a tape. The steps themselves are written in
the modules imported here.

From a trace to a kernel, these pipelines follow one another:

- `PREPARE`, once for each trace;
- the pipeline of the operator, such as `GRADIENT`;
- `GUARD`, where the trace has guards, or `f` writes to the outside (`dispatch/plans.py`);
- `RUN`, where the tape gets its runner (`dispatch/tiers/runner_choice.py`);
- `TO_GRAPH`, where a kernel is made of it (`kernels/ir/graph_of_tape.py`). What is done to the
  graph is the list of `kernels/passes/pipeline.py`.

Sweeps take steps of their own, which open calls and loops, and close them (`IN_SWEEPS`).
``FDIFF_DUMP=tapes`` prints the tape to stderr after each step of all these. Where ``FDIFF_VERIFY``
is set, as in all tests, every tape is verified when it is made (`Tape`), and a fault names the
step. Calls for one point only (`Variant.eager`) use no tape: docs/decisions/two-sweeps.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from ..arraytype import ArrayType
from ..bounded_cache import WeakValues
from ..errors import TapeError
from ..hooks import hooks
from ..named_tuples import NamedTuple
from ..ops.entrywise.elementwise import add, exp
from ..ops.entrywise.kink_marks import kink_search
from ..ops.linear_algebra.contraction import contract
from ..ops.shapes.gather_scatter import gather
from ..ops.shapes.joining_and_splitting import concatenate
from ..ops.shapes.view_ops import update
from ..process.forking import imported
from ..process.observed_spans import TRANSFORM, span
from ..tape import Tape
from ..trace import derived_lines
from .batch import batch
from .custom_calls import batching_calls_shown, checkpoints_inlined, inlined
from .derivative_tapes import (
    choose,
    converted,
    gradient,
    pullback,
    real_cotangents,
    real_tangents,
    seeds_first,
    seeds_last,
    symmetric,
    with_check,
)
from .forward import jvp
from .late_steps import announce, late_step, report, step_where
from .reverse import vjp
from .simplify import simplify


def no_sizes(_: Tape) -> Collection[int]:
    """Of a tape of which no kernel is made, no size is written out."""
    return ()


class Request(NamedTuple):
    """The request of an operator. Inputs and outputs are numbered as in `function`.

    The seeds of a Jacobian are the rows of an identity matrix. All of them are swept at once, or
    `size` of them in each call of a `chunked` tape, which has one more input: the row to begin at.
    """

    function: Tape
    wrt: Sequence[int] = ()  # the inputs that are differentiated
    of: Sequence[int] | None = None  # the outputs that are; None for all
    keep: Sequence[int] = ()  # the outputs of the derived tape that are wanted
    size: int = 0  # seeds swept at a time, or the length of the new axis of `vmap`
    chunked: bool = False
    mapped: Sequence[bool] = ()  # of `vmap`: whether each input has the new axis
    spread: Sequence[bool] | None = None  # and whether each output gets it; None for all
    types: Sequence[ArrayType] = ()  # what the results are converted to
    check: Tape | None = None  # says whether the guards of the function hold
    budget: int | None = None  # bytes that loops may keep; None for the budget in force
    small_sizes: Callable[[Tape], Collection[int]] = no_sizes  # that a kernel writes out

    @property
    def outputs(self) -> Sequence[int]:
        """The outputs that are differentiated."""
        return range(len(self.function.outputs)) if self.of is None else self.of


class Transform(NamedTuple):
    """One step: its name and function, its preconditions and postconditions.

    Where it does not apply, it gives the tape that it takes.
    """

    name: str
    run: Callable[[Tape, Request], Tape]
    needs: str
    leaves: str


Pipeline = tuple[Transform, ...]


def derive(pipeline: Pipeline, tape: Tape, **fields: Any) -> Tape:
    """The tape after all steps, for a request with these fields."""
    announce([step.name for step in pipeline], tape)
    return _run_steps(pipeline, tape, Request(tape, **fields))


def _run_steps(pipeline: Pipeline, tape: Tape, request: Request) -> Tape:
    for step in pipeline:
        with span(step.name, TRANSFORM):
            try:
                before, tape = tape, step.run(tape, request)
            except TapeError as error:
                raise TapeError(f"{error} after the step {step.name!r}") from None
        report(step.name, tape, step.leaves, changed=tape is not before)
    return tape


def shared(name: str, pipeline: Pipeline, leaves: str) -> Transform:
    """A pipeline as one step, whose result is cached while the tape lives."""
    tapes: WeakValues[object, Tape] = WeakValues()

    def run(tape: Tape, request: Request) -> Tape:
        key = (tape, *request.wrt, None, *request.outputs)
        marked = derived_lines.wanted.on or kink_search.on
        if marked or (derived := tapes.get(key)) is None:
            derived = _run_steps(pipeline, tape, request)
            if not marked:
                tapes[key] = derived
        return derived

    return Transform(name, run, "", leaves)


def _enter_body_rules() -> None:
    """Import the transforms of bodies of loops and branches (`ops/control/loop.py: body_op`)."""
    for name in ("loops.branch_rules", "loops.loops_within_budget"):
        imported(f".{name}", __package__)


hooks.enter_body_rules = _enter_body_rules
_within_budget = late_step("loops.loops_within_budget", "within_budget")
_split_complex_loops = late_step("loops.complex_loops", "split_complex_loops")
_hoist_and_prune = late_step("loops.loop_invariants", "hoist_and_prune")


def lean_loops(tape: Tape) -> Tape:
    """The tape with loop invariants hoisted, and outputs pruned that nobody reads."""
    return _hoist_and_prune(tape) if has_loops(tape) else tape


def has_loops(tape: Tape) -> bool:
    return any(node.primitive.family == "loop" for node in tape.nodes)


_batch_loops = late_step("prepare.loop_batches", "batch_loops")


def batch_loops(tape: Tape) -> Tape:
    """`prepare.loop_batches.batch_loops`, for programs that hold loops."""
    return tape if next(tape.bodies(), None) is None else _batch_loops(tape)


stop_cancelling_shifts = step_where((exp,), "prepare.cancelling_shifts", "stop_cancelling_shifts")
split_concatenations = step_where(
    (concatenate,), "prepare.split_concatenations", "split_concatenations"
)
reroll_loops = step_where(  # eight parts at least (`prepare/loop_rerolling.py: FEWEST`)
    (concatenate, update, add), "prepare.loop_rerolling", "reroll_loops", 8
)
recognise_matrix_functions = late_step("prepare.spectral_functions", "recognise_matrix_functions")
rows_read = step_where((gather,), "sparsity.row_selection", "rows_read")


def _matrix_functions(tape: Tape) -> Tape:
    """Recognise functions of symmetric matrices, once the table that has ``eigh`` is loaded."""
    loaded = "fdiff.ops.linear_algebra.eigenvalues" in sys.modules
    return recognise_matrix_functions(tape) if loaded else tape


def join_sums(tape: Tape) -> Tape:
    """`fdiff.distributed.traced_sums.joined`, once that is imported."""
    join = hooks.joined_sums
    return tape if join is None or not tape.transient else join(tape)


def split_complex_loops(tape: Tape) -> Tape:
    """`loops.complex_loops.split_complex_loops`, for programs with complex numbers in bodies."""
    types = (t for _, _, body in tape.bodies() for node in body.nodes for t in node.types)
    split = has_loops(tape) and any(t.dtype.kind == "c" for t in types)
    return _split_complex_loops(tape) if split else tape


def cut_loops(tape: Tape, budget: int | None) -> Tape:
    """`loops.loops_within_budget.within_budget`, for programs with loops."""
    return _within_budget(tape, budget) if has_loops(tape) else tape


spell_operations = late_step("to_graph.spelled_operations", "spell_operations")
masks_to_operands = step_where((contract,), "to_graph.masked_operands", "masks_to_operands")


# --- steps: name, what it does; what it needs; what it leaves true -------------------------------
# fmt: off
STOP_SHIFTS = Transform(
    "stop shifts", lambda t, r: stop_cancelling_shifts(t), "a traced tape",
    "the shift in log(sum(exp(x - shift))) + shift and its like stands behind stop_gradient")
SPECTRAL = Transform(
    "matrix functions", lambda t, r: _matrix_functions(t), "a traced tape",
    "products of eigenvectors and functions of eigenvalues are functions of the matrix")
REROLL = Transform(
    "reroll", lambda t, r: reroll_loops(t), "loops as they were traced, unrolled",
    "equal computations whose results are joined are one batch")
BATCH_LOOPS = Transform(
    "batch loops", lambda t, r: batch_loops(t), "",
    "loops whose trips do not wait for each other are batches")
HOIST = Transform(
    "hoist", lambda t, r: lean_loops(t), "",
    "what is the same in all trips of a loop, and takes longer than to read it, is outside of it")
SPLIT = Transform(
    "split", lambda t, r: split_concatenations(t), "",
    "reductions and slices of concatenations become reductions and slices of the parts")
SIMPLIFY = Transform(
    "simplify", lambda t, r: lean_loops(simplify(t)), "",
    "every node has been offered to the rewrite rules; there are no dead nodes, in loops neither")
KEEP = Transform(
    "keep", lambda t, r: lean_loops(choose(t, r.keep)), "",
    "the outputs `keep`, and what they need")
CHECK = Transform(
    "check", lambda t, r: with_check(t, r.check), "the inputs of the function come first",
    "the last output says whether the guards of the function hold")
BATCH = Transform(
    "batch", lambda t, r: batch(t, r.mapped, r.size, spread=r.spread), "",
    "the program for `size` elements at once, without a loop")

GRADIENT_OF_ONE = Transform(
    "pull back 1", lambda t, r: gradient(t, r.wrt), "output 0 has one element",
    "outputs, then the gradient of output 0 for each of `wrt`")
PULL_BACK = Transform(
    "pull back", lambda t, r: pullback(t, r.wrt), "",
    "further inputs are cotangents of the outputs; outputs, then a cotangent of each of `wrt`")
PUSH_FORWARD = Transform(
    "push forward", lambda t, r: jvp(t, r.wrt), "",
    "further inputs are tangents of `wrt`; outputs, then a tangent of each")
KEEP_TANGENTS = Transform(
    "keep tangents", lambda t, r: choose(t, [len(r.function.outputs) + o for o in r.outputs]),
    "push forward", "the tangents of the outputs `of`, no values")
PULL_OUTPUT = Transform(
    "pull back one output", lambda t, r: vjp(t, r.wrt, r.of), "",
    "the last input is the cotangent of the output `of`; outputs, then cotangents of `wrt`")
KEEP_COTANGENTS = Transform(
    "keep cotangents", lambda t, r: choose(t, range(len(r.function.outputs), len(t.outputs))),
    "pull back", "the cotangents of `wrt`, no values")

REAL_TANGENTS = Transform(
    "real tangents", lambda t, r: real_tangents(t, r.function, r.wrt[0]), "keep tangents",
    "the last input, the seed, is real, also where the function's input is complex")
REAL_COTANGENTS = Transform(
    "real cotangents", lambda t, r: real_cotangents(t, r.function, r.wrt, r.outputs[0]),
    "keep cotangents", "the last input, the seed, is real, also where the output is complex")
BATCH_SEEDS = Transform(
    "batch seeds", lambda t, r: batch(t, [*(False for _ in r.function.inputs), True], r.size),
    "the seed is the last input", "`size` seeds at once; what depends on none is computed once")
UNIT_TANGENTS = Transform(
    "unit tangents",
    lambda t, r: seeds_last(t, r.function, r.wrt[0], r.size, chunked=r.chunked), "tangents of one",
    "seeds are rows of the identity, `size` at once; outputs are columns of the Jacobian")
UNIT_COTANGENTS = Transform(
    "unit cotangents",
    lambda t, r: seeds_first(t, r.function, r.outputs[0], r.size, chunked=r.chunked),
    "cotangents of one",
    "seeds are rows of the identity, `size` at once; outputs are rows of the Jacobian")

INLINE_CHECKPOINTS = Transform(
    "inline checkpoints", lambda t, r: checkpoints_inlined(t), "",
    "checkpoints are what they compute: tangents keep nothing")
SHOW_CALLS = Transform(
    "show mapped calls", lambda t, r: batching_calls_shown(t), "",
    "no call with a batching rule of the user's is inside a checkpoint")
SELECT_ROWS = Transform(
    "select rows", lambda t, r: rows_read(t), "", "rows that no gather picks are not computed")
SYMMETRISE = Transform(
    "symmetrise", lambda t, r: symmetric(t, [r.function.input_types[k] for k in r.wrt]),
    "all blocks of a Hessian", "the blocks are exactly symmetric")
CONVERT = Transform(
    "convert types", lambda t, r: converted(t, r.types), "", "outputs have the dtypes of `types`")

JOIN_SUMS = Transform(
    "join sums", lambda t, r: join_sums(t), "sums over partitions (`fdiff.distributed`)",
    "sums over the same partitions are one, as far as none waits for another")
INLINE_CALLS = Transform(
    "inline calls", lambda t, r: inlined(t), "calls with rules of the user's, or checkpoints",
    "such calls are what they compute, in bodies too")
SPLIT_COMPLEX = Transform(
    "split complex loops", lambda t, r: split_complex_loops(t), "complex numbers in a loop",
    "bodies that a kernel can run compute with real and imaginary parts")
CUT_LOOPS = Transform(
    "cut loops", lambda t, r: cut_loops(t, r.budget), "loops, and no calls with rules",
    "loops keep no more bytes than the budget for other loops; those side by side are one")
SPELL = Transform(
    "spell operations", lambda t, r: spell_operations(t), "operations that have a `spelled`",
    "operations without a kernel are spelled in others")
MOVE_MASKS = Transform(
    "move masks", lambda t, r: masks_to_operands(t, r.small_sizes),
    "products whose weights are masked by axes that they do not have",
    "the operand that has these axes is masked instead, and no weights are copied")
# fmt: on

hooks.within_budget = lambda tape, budget: derive((CUT_LOOPS,), tape, budget=budget)

# --- pipelines ------------------------------------------------------------------------------------
PREPARE = (SPECTRAL, STOP_SHIFTS, REROLL, BATCH_LOOPS, HOIST, SPLIT)  # once for each trace
VALUE = (SIMPLIFY,)  # jit, source
GUARD = (CHECK, SIMPLIFY)  # last, where a kernel is to check the guards as well
VMAP = (BATCH,)
RUN = (JOIN_SUMS, INLINE_CALLS, SPLIT_COMPLEX, CUT_LOOPS)  # what is about to run
TO_GRAPH = (SPELL, MOVE_MASKS)  # a kernel, of what RUN gives, and bodies of loops in it
INSPECT = (INLINE_CALLS,)  # what runs node by node, in search of a fault

GRADIENT = (GRADIENT_OF_ONE, KEEP)  # grad, value_and_grad
VJP = (PULL_BACK, SIMPLIFY)
JVP = (PUSH_FORWARD, SIMPLIFY)
LINEAR = (INLINE_CHECKPOINTS, *JVP)  # linearize, which splits it (`linear_part`)
HVP = (GRADIENT_OF_ONE, PUSH_FORWARD, KEEP, SIMPLIFY)  # hvp, vhp: forward over reverse

TANGENTS = (PUSH_FORWARD, KEEP_TANGENTS)
COTANGENTS = (PULL_OUTPUT, KEEP_COTANGENTS)
TANGENTS_OF_ONE = shared(
    "tangents of one",
    (*TANGENTS, REAL_TANGENTS),
    "the last input is a real tangent of one input; outputs are the tangents of the outputs `of`",
)
COTANGENTS_OF_ONE = shared(
    "cotangents of one",
    (*COTANGENTS, REAL_COTANGENTS),
    "the last input is a real cotangent of one output; outputs are the cotangents of `wrt`",
)
FORWARD, REVERSE = (SELECT_ROWS, TANGENTS_OF_ONE), (SELECT_ROWS, COTANGENTS_OF_ONE)  # of terms
TANGENT_SWEEPS = (TANGENTS_OF_ONE, BATCH_SEEDS)  # hessian_diagonal

# jacobian: terms, where they pay (`terms/dense_tapes.py`). If not: COLUMNS for each input, or ROWS
# for each output, which are put together (`derivative_tapes.assembled`), and JACOBIAN.
COLUMNS = (TANGENTS_OF_ONE, UNIT_TANGENTS)
ROWS = (COTANGENTS_OF_ONE, UNIT_COTANGENTS)
JACOBIAN = (CONVERT,)
SPARSE = (INLINE_CHECKPOINTS, SIMPLIFY, CONVERT)  # blocks of sparse results, put together

# hessian: the Jacobian of the tape that GRADIENT gives, made symmetric.
HESSIAN = (SYMMETRISE, CONVERT)
