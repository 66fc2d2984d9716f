"""`explain`: the function is traced, plans are made of the trace, and nothing of them is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from types import MethodType

from .. import kernels
from ..device_arrays import CPU
from ..dispatch.arguments import WAY_OUT, Argnums, Function
from ..dispatch.plans import PlanStep
from ..dispatch.program import Program
from ..dispatch.tiers.tier_forecast import tier_forecast
from ..dispatch.variant import Traced, Variant
from ..errors import DtypeError, InputError, called, failure
from ..functional.call.device_calls import tracing_for
from ..functional.call.point_conversion import body_of_operator, floating
from ..functional.call.prepared import Prepared, example_arguments
from ..functional.operators.jit_programs import ValuePlan
from ..functional.options import check_argnums, check_callable, check_device
from ..named_tuples import NamedTuple
from ..tape import Tape
from ..tracebacks import public
from ..transforms.linearity import Dependence
from ..transforms.pipeline import RUN, derive
from ..user_lines import show_line
from .array_names import input_facts
from .costs import all_costs, kernel_of
from .explained_facts import InputFact, StepFact
from .explanation import Explanation
from .wording import counted

Call = tuple[tuple[object, ...], dict[str, object]]


@public
def explain(
    f: Function,
    *args: object,
    argnums: int | tuple[int, ...] | None = None,
    device: str | None = None,
    **kwargs: object,
) -> Explanation:
    """Predict what a function and its derivatives cost, and how they would run.

    The function is traced at these arguments. Derivative tapes are made from the trace, and kernels
    are planned. No derivative is evaluated, and no kernel is compiled.

    Parameters
    ----------
    f : callable
        Pure function of arrays; or a prepared function such as ``fdiff.grad(f)``, whose own call
        is explained as well: its tier, its kernel, its cache.
    *args, **kwargs
        Its arguments. A text may give the type of an array: ``"f8[1000,3]"``.
    argnums : int or tuple of int, optional
        The differentiated arguments, by default the first, or, where `f` is a prepared function,
        the function's own.
    device : {"cpu", "cuda"}, optional
        Where it would run, by default the device of the prepared function if `f` is one.

    Returns
    -------
    Explanation
        Prints as text and shows as tables in Jupyter. Its parts are `inputs`, `outputs`, `guards`,
        `loops`, `steps` (tier, compiler, cache, loop nests), `costs` (value, gradient, Jacobian,
        Hessian in each mode: operations, bytes, memory, predicted time; which mode is picked, and
        why) and `dependence` (``dependence["out0", "x"]`` is "none", "steps", "linear",
        "quadratic", "nonlinear" or "unknown"). Times are predictions by the compiler's cost model;
        ``python -m benchmarks.explain`` compares them with measured ones. Costs tracing, and on
        first use of `costs` (or printing) the transforms of each derivative.

    Raises
    ------
    TraceError
        If `f` takes a traced value out of NumPy.
    InputError
        If `argnums` or `device` is given together with a prepared function, which has its own.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 4, for the cost of
    each mode.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> def loss(w, x):
    ...     return np.sum(np.tanh(x @ w))
    >>> explained = fdiff.explain(fdiff.grad(loss), "f8[3]", "f8[100,3]")
    >>> explained.cost("Jacobian").mode, explained.dependence["out0", "w"].value
    ('reverse', 'nonlinear')
    >>> [step.tier.tier for step in explained.steps]
    ['NumPy']
    """
    check_callable(f, "explain")
    call = called("explain", f)
    for a in (*args, *kwargs.values()):
        if hasattr(type(a), WAY_OUT):
            fact = f"it takes no argument of type {type(a).__name__}."
            raise failure(InputError, call, fact, getattr(type(a), WAY_OUT))
    with example_arguments(call, args, kwargs) as (examples, named):
        operands = examples
        if isinstance(f, MethodType) and isinstance(f.__func__, Prepared):  # a decorated method
            f, operands = f.__func__, (f.__self__, *examples)
        if isinstance(f, Prepared):
            subject = _of_prepared(f, operands, named, argnums, device)
        else:
            subject = _of_function(f, operands, named, argnums, check_device(device or CPU, call))
    return _explained(subject)


class _Subject(NamedTuple):
    """A function that was traced, and the steps that the call to be explained would run."""

    name: str
    f: Function
    call: Call
    variant: Variant
    arrays: Sequence[object]
    argnums: Argnums
    steps: Sequence[PlanStep]
    asked: bool  # whether the call compiles a kernel at once
    notes: tuple[str, ...]


def _of_function(
    f: Function, args: tuple[object, ...], kwargs: dict[str, object], argnums: object, device: str
) -> _Subject:
    """A plain function, as `jit` would run it."""
    name = str(getattr(f, "__name__", type(f).__name__))
    wanted = None if argnums is None else check_argnums(argnums, f, "explain")
    nums, notes = wanted, ()
    if wanted is None and args:
        nums = 0
    try:
        variant, arrays = _trace(f, args, kwargs, nums, device)
    except (DtypeError, InputError) as error:
        if wanted is not None or nums is None:
            raise
        nums = None  # by default the first argument is differentiated, if it can be
        variant, arrays = _trace(f, args, kwargs, nums, device)
        fact = str(error).split("\n")[0].partition(": ")[2]
        notes = (f"no derivative by the first argument: {fact} Another can be named by argnums.",)
    step = variant.plan.only_step()
    steps = [] if step is None else [step]
    notes = (*notes, *_notes_on_calls(variant))
    return _Subject(name, f, (args, kwargs), variant, arrays, nums, steps, True, notes)


def _trace(
    f: Function, args: tuple[object, ...], kwargs: dict[str, object], nums: Argnums, device: str
) -> tuple[Variant, list[object]]:
    body = body_of_operator("jacobian", nums)
    program = Program("explain", nums, ValuePlan, body, device=device)
    with tracing_for(device):
        return program.trace(f, floating(args, program, f), kwargs)


def _of_prepared(
    f: Prepared[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    argnums: object,
    device: object,
) -> _Subject:
    """A prepared function: its own variant, which the next call then finds, and its steps."""
    program, base = f.program, f.__wrapped__
    name = called(program.name, base)
    if argnums is not None or device is not None:
        which = "argnums" if argnums is not None else "device"
        fact = f"{which} is given, but {name} has its own."
        way = f"Give it to fdiff.{program.name}, or explain the function itself."
        raise failure(InputError, called("explain", f), fact, way)
    own, _ = f.split(args)
    point = floating(own, program, base)
    with tracing_for(program.device):
        variant, arrays = program.find(base, point, kwargs, sure=True)
    if variant.traced.eager is not None:
        variant.release()
        subject = _of_function(base, own, kwargs, program.argnums, program.device)
        note = "it takes other branches at every call: it is differentiated as it runs, by NumPy"
        return subject._replace(name=name, steps=[], asked=False, notes=(*subject.notes, note))
    notes = tuple(variant.plan.derived_at(arrays))
    steps = variant.plan.steps()
    nums = program.argnums
    if nums is None:  # jit and vmap: derivatives of what they return
        subject = _of_function(
            base if program.name == "jit" else f, own, kwargs, None, program.device
        )
        nums, notes = subject.argnums, (*notes, *subject.notes)
        variant, arrays = subject.variant, list(subject.arrays)
    notes = tuple(dict.fromkeys((*notes, *_notes_on_calls(variant))))
    return _Subject(name, base, (own, kwargs), variant, arrays, nums, steps, False, notes)


def _notes_on_calls(variant: Variant) -> Iterator[str]:
    """Notes on work that is done again at every call, with the user's lines."""
    if not variant.conditions.cacheable:
        yield f"it is traced again at every call: {_uncomparable_read(variant)}"
    elif variant.repeats:
        yield "what it writes to the outside is written again after every call"


def _uncomparable_read(variant: Variant) -> str:
    """A read that calls cannot compare, with its line, in words."""
    for _, reads in variant.conditions.inner:
        for what, line in zip(reads.opaque, reads.lines, strict=True):
            return f"{what} cannot be compared; {show_line(line).strip()}".rstrip("; ")
    return "what it takes or returns cannot be compared"


def _explained(subject: _Subject) -> Explanation:
    variant, traced, f = subject.variant, subject.variant.traced, subject.f
    inputs = input_facts(f, variant, subject.arrays, subject.call)
    names = [f"out{k}" for k in range(len(traced.tape.outputs))]
    compiler = subject.steps[0].runner.compiler if subject.steps else ""
    steps = tuple(_step_fact(step, traced.device, asked=subject.asked) for step in subject.steps)
    cost_rows = partial(all_costs, f, traced, subject.arrays, subject.argnums, compiler)
    return Explanation(
        subject.name,
        traced.device,
        traced.tape,
        inputs,
        tuple(zip(names, traced.tape.output_types, strict=True)),
        tuple(_guard_lines(traced.check)),
        tuple(_loop_rows(traced)),
        steps,
        _dependence(traced.tape, inputs, names),
        (*subject.notes, *_device_notes(traced.device, subject.steps)),
        cost_rows,
    )


def _dependence(tape: Tape, inputs: Sequence[InputFact], names: Sequence[str]) -> Dependence:
    """The dependence on all inputs that are no integers."""
    wrt = [k for k, fact in enumerate(inputs) if fact.type.dtype.kind in "fc"]
    return Dependence(tape, wrt, names, [inputs[k].name for k in wrt])


def _step_fact(step: PlanStep, device: str, *, asked: bool) -> StepFact:
    """How a step would run."""
    runner = step.runner
    kernel = kernel_of(runner.tape, device, runner.compiler)  # first: the tier asks for the text
    tier = tier_forecast(runner, asked=asked)
    fusion = kernels.fusion_of(runner.tape) if kernel is not None else None
    compiler = "numba.cuda" if device != CPU else kernels.compiler_of(runner.compiler)
    return StepFact(runner.tape, tier, compiler, kernel, fusion)


def _device_notes(device: str, steps: Sequence[PlanStep]) -> Iterator[str]:
    """Notes on the use of a GPU, and on whether there is one."""
    if device == CPU:
        return
    fault = kernels.cuda_fault()
    here = (
        "Numba's simulator runs it" if kernels.cuda_simulated() else "there is a GPU that runs it"
    )
    yield f"no GPU here: {fault}" if fault else here
    for step in steps:
        tape = derive(RUN, step.tape)
        lacking = kernels.missing_on_cuda(tape)
        if lacking:
            yield f"there is no CUDA kernel for {', '.join(lacking)}: the call would be refused"
        else:
            yield f"one run would launch {kernels.cuda_launches(tape)} kernels or routines"


def _loop_rows(traced: Traced) -> Iterator[tuple[str, str]]:
    """The user's loops by line, and what became of each."""
    for line, times, trips, calls, reason in traced.loops:
        what = f"{counted(trips, 'trip')} of {counted(calls, 'call')}"
        nodes = f"one node for {what}" if times == 1 else f"{times} nodes for up to {what}"
        nodes += f", {reason}" if reason else ""
        yield show_line(line).strip(), nodes if times else f"unrolled: {reason}"


def _guard_lines(check: Tape | None) -> list[str]:
    """The user's lines whose branches the trace relies on.

    A check negates comparisons that were false, and joins all of them: only what is made of no
    truth values is the user's.
    """
    if check is None:
        return []
    waiting, texts = [check.outputs[0]], dict[str, None]()
    while waiting:
        i = waiting.pop()
        parts = [a for a in check.nodes[i].args if check.nodes[a].type.dtype.kind == "b"]
        waiting += reversed(parts)
        if not parts:
            lines = check.lines.get(i, ())
            texts.update(dict.fromkeys(show_line(line).strip() for line in lines))
    return list(texts)
