"""From a run of plain Python to a finished tape, and a tape replayed in a trace under way.

Tapes by overloading: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from types import FunctionType, ModuleType

import fdiff.intact_numpy as np

from ..arraytype import ArrayType
from ..device_arrays import CPU, DeviceArray
from ..errors import InputError, failure
from ..foreign_errors import environment_value
from ..named_tuples import NamedTuple
from ..process.forking import imported
from ..process.observed_spans import TRACE
from ..process.progress import Stage
from ..tape import INPUT, Tape
from .branching.guard_nodes import check_tape
from .ordinary_trace import Trace
from .recorder import NEVER, Loops, Recorder
from .session import Session
from .trace_stack import root_trace, stack
from .traced_array import TracedArray


class ArgumentSpec(NamedTuple):
    """How an argument is traced.

    `value` is its value, for when Python asks: an array, a traced array of an enclosing trace, or a
    function that gives an array. `active` tells that a derivative is taken for it. For one entry
    of a batch, `batch` is the traced array of an enclosing trace that holds the whole batch.
    """

    type: ArrayType
    scalar: bool = False
    weak: bool = False
    value: object = None
    active: bool = False
    batch: TracedArray | None = None


class Recording(NamedTuple):
    """A finished trace: the tape, the arrays of its extra inputs, and its conditions.

    The first inputs of the tape are the arguments, the others stand for `extra`, in order.
    `pinned` are positions among the inputs whose values the tape relies on; `check`, where there is
    one, has the same inputs and tells whether what Python decided by values it would decide again.
    `scalars` tells which outputs NumPy would give as scalars, `layouts` the layouts of inputs
    that decided what is a view. `shown` tells that text was made of a value,
    which no check compares. `guards` counts what the check compares. The outputs of `written`,
    which has the same inputs, are what later calls are to write to the outside. `loops` tells which
    Python loops became nodes.
    """

    tape: Tape
    extra: tuple[np.ndarray | DeviceArray | TracedArray, ...]
    pinned: tuple[int, ...]
    scalars: tuple[bool, ...]
    session: Session | None = None
    check: Tape | None = None
    layouts: tuple[tuple[int, tuple[int, ...]], ...] = ()
    shown: bool = False
    guards: int = 0
    written: Tape | None = None
    loops: Loops = ()


def record(
    run: Callable[[Trace, list[TracedArray]], Sequence[object]],
    inputs: Sequence[ArgumentSpec],
    call: str,
    trace: Trace | None = None,
) -> Recording:
    """Run `run` on traced arguments; its results are the outputs of the tape."""
    trace = trace or Trace(call)
    try:
        return _record(run, inputs, trace)
    finally:
        trace.close()  # where an exception came as `__exit__` began, it is still open
        _end_log(trace)
        trace.refused = None  # its traceback leads to the frames that hold this trace


def _record(
    run: Callable[[Trace, list[TracedArray]], Sequence[object]],
    inputs: Sequence[ArgumentSpec],
    trace: Trace,
) -> Recording:
    guards, layouts = trace.guards, trace.layouts.of_inputs
    with trace, _stage(trace):
        arguments = [trace.input(i.type, scalar=i.scalar, weak=i.weak) for i in inputs]
        for traced, spec in zip(arguments, inputs, strict=True):
            if spec.value is not None:
                guards.given[traced.node] = spec.value
            if spec.active:
                guards.active.add(traced.node)
            if spec.batch is not None:
                guards.batch_of[traced.node] = spec.batch
        trace.arguments = arguments
        trace.begin()
        _log_calls(trace)
        outputs = run(trace, arguments)
        if trace.refused is not None:
            raise trace.refused
        ids = [trace.lift(out) for out in outputs]
        loops = () if trace.calls is None else trace.calls.loops()
        if trace.only_here:
            _note_results(trace, ids)
        check, count = check_tape(trace), len(guards.expected)
        written = trace.builder.finish(trace.written) if trace.written else None
        if loops and stack.traces[0] is not trace:
            _looping().note(stack.traces[0], loops)
        _end_log(trace)
    scalars = tuple(
        out.scalar if isinstance(out, TracedArray) else not isinstance(out, np.ndarray)
        for out in outputs
    )
    places = tuple(enumerate(trace.builder.inputs))
    pinned = tuple(k for k, i in places if i in guards.pinned)
    decisive = tuple((k, layouts[i]) for k, i in places if i in layouts)
    tape = trace.builder.finish(ids)
    extra = tuple(trace.extra)
    return Recording(
        tape, extra, pinned, scalars, trace.session, check, decisive, trace.shown, count, written,
        loops,
    )  # fmt: skip


def _log_calls(trace: Trace) -> None:
    """Look for loops in the run that begins, unless the environment says that they are unrolled.

    GPUs run loops of independent entries alone, so loops of functions for them are unrolled, too.
    """
    way = environment_value("FDIFF_LOOPS") or ""
    if way not in {"", "unroll", "check"}:
        cure = "Set it to unroll or check, or leave it unset."
        raise failure(InputError, "FDIFF_LOOPS", f"{way!r} is not a way to trace loops.", cure)
    if way == "check" or (not way and stack.device in {CPU, None}):
        _looping().begin(trace)


def _end_log(trace: Trace) -> None:
    log, trace.calls, trace.listener, trace.milestone = trace.calls, None, None, NEVER
    if log is not None:
        log.close()


@cache
def _looping() -> ModuleType:
    return imported(".looping", __package__)


def _note_results(trace: Trace, ids: Sequence[int]) -> None:
    """Tell the session the results of a run whose branch holds at this point alone."""
    session = root_trace().session
    if session is not None and all(map(trace.guards.is_known, ids)):
        session.ended(trace.call, [trace.guards.value(i, "returned a value") for i in ids])


def _stage(trace: Trace) -> AbstractContextManager[None]:
    if trace.eager:  # its time is the time of the user's code
        return nullcontext()
    nodes = trace.builder.nodes
    return Stage("tracing", trace.call, nodes=nodes, shows_line=True, category=TRACE)


def private(f: Callable[..., object]) -> Callable[..., object]:
    """The private, watched copy of `f` that runs inside the current trace."""
    if isinstance(f, FunctionType) and type(f.__globals__) is not dict:
        return f  # a private copy already: made by the trace around this one
    session = root_trace().session
    return f if session is None else session.private(f)


def splice(tape: Tape, inputs: Sequence[TracedArray], trace: Recorder) -> list[TracedArray]:
    """Enter `tape` in `trace` with `inputs` in place of its own; its outputs there."""
    ids = splice_all(tape, inputs, trace)
    return [TracedArray(trace, ids[o], trace.builder.type(ids[o])) for o in tape.outputs]


def splice_all(tape: Tape, inputs: Sequence[TracedArray], trace: Recorder) -> dict[int, int]:
    """Enter `tape` in `trace`; for each node of the tape, its id there."""
    ids: dict[int, int] = {i: trace.own(x) for i, x in zip(tape.inputs, inputs, strict=True)}
    same = all(x.type == t for x, t in zip(inputs, tape.input_types, strict=True))
    add, lines, here = trace.builder.add, tape.lines, trace.where()
    for i, (primitive, args, params, types) in enumerate(tape.nodes):
        if primitive is INPUT:
            continue
        line = lines[i][0] if i in lines else here
        operands = tuple([ids[a] for a in args])
        ids[i] = add(primitive, operands, params, line, types if same else None)
    return ids
