"""Calls as one kernel: for callers in machine code, which compare no Python objects.

The input is a function's program and the arguments of a call. The output is the kernel of the
variant that holds for them, the leaf of the call behind each of its inputs, and the construction of
the result from its outputs. A plan of several kernels becomes a sequence that is called like one
kernel. A plan that needs Python is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ... import kernels
from ...errors import FdiffError, InputError, UnsupportedError, failure
from ...foreign_errors import is_foreign
from ...kernels import BareKernel
from ...named_tuples import NamedTuple
from ...tree import flatten
from ..arguments import Function
from ..plans import PlanStep
from ..program import Program
from ..tiers.compiler_defects import Defect
from ..variant import Variant
from .recorded_plans import PlannedRun, RecordedCall, Source, Split

CALL_FROM_PYTHON = "Call it from Python."


class SingleKernel(NamedTuple):
    """A call as one kernel.

    `sources` names for each input the leaf of the call that it is, or is the array; `result` is the
    result with placeholders for outputs. `guard` is the output that tells whether the variant
    holds; `pins` are inputs with the bytes that they must have. With `c_order`, the variant holds
    for contiguous arrays alone.
    """

    variant: Variant
    kernel: BareKernel
    sources: tuple[Source, ...]
    result: object
    guard: int | None
    pins: tuple[tuple[int, bytes], ...]
    c_order: bool


def single_kernel(
    program: Program,
    f: Function,
    call: str,
    arguments: tuple[tuple[object, ...], dict[str, object]],
    split: Split,
    variant: Variant | None = None,
) -> SingleKernel:
    """The kernel of a call with these arguments, and with this variant if one is given."""
    leaves, spec = flatten(arguments)
    if variant is None:
        variant = variant_of(program, f, arguments, split)
    captured = variant.refresh(f)
    conditions = variant.conditions
    if captured is None or not conditions.cacheable or variant.repeats:
        reads = next(
            (array for _, reads in conditions.inner for array in reads.opaque), "what it writes"
        )
        fact = f"the function has to run at each call, because of {reads}."
        way = "Take that out of the function, or pass it as an argument."
        raise failure(UnsupportedError, call, fact, way)
    recorded = RecordedCall(variant, leaves, spec, split, captured)
    if isinstance(recorded.error, FdiffError):
        raise recorded.error
    if recorded.error is not None:
        fact = "its result is built by code of Python that computes with outputs of the kernel."
        raise failure(UnsupportedError, call, fact, CALL_FROM_PYTHON)
    sources = [*recorded.sources[: recorded.traced], *[_captured(x, call) for x in captured]]
    if conditions.swapped:
        fact = "it reads an array of another byte order than the machine's."
        raise failure(UnsupportedError, call, fact, "Convert the array once, outside.")
    if any(layout for k, layout in conditions.layouts if k < recorded.traced):
        raise not_in_order(call)
    whole = _only_run(recorded)
    if whole is None:
        kernel, result, guard = _sequence(recorded, sources, call)
    else:
        sources += _vectors(recorded, whole.inputs[len(sources) :])
        kernel = _kernel(whole.step, sources, call)
        numbers = [array.number for array in whole.outputs]
        result = recorded.recording.placed(recorded.result, numbers)
        guard = list(whole.step.runner.slots())[-1] if whole.step.guarded else None
    c_order = any(k < recorded.traced for k, _ in conditions.layouts)
    return SingleKernel(variant, kernel, tuple(sources), result, guard, conditions.pinned, c_order)


def not_in_order(call: str) -> UnsupportedError:
    """The error for a function that looks at how arrays lie in memory."""
    fact = "it looks at how an array lies in memory, which is not in C order."
    return failure(UnsupportedError, call, fact, "Pass numpy.ascontiguousarray(x).")


def variant_of(
    program: Program,
    f: Function,
    arguments: tuple[tuple[object, ...], dict[str, object]],
    split: Split,
) -> Variant:
    """The variant that holds for these arguments; of unstable branches a new one."""
    args, named = split(arguments[0])[0], arguments[1]
    variant, _ = program.find(f, args, named, sure=True)
    if variant.traced.eager is None:
        return variant
    variant.release()
    return program.trace(f, args, named)[0]


def _only_run(recorded: RecordedCall) -> PlannedRun | None:
    """The run that does everything, and checks the guards if there are any; else None."""
    single, *more = recorded.recording.runs
    unchecked = recorded.variant.traced.check is not None and not single.step.guarded
    return None if more or unchecked else single


def _sequence(
    recorded: RecordedCall, sources: Sequence[Source], call: str
) -> tuple[BareKernel, object, int | None]:
    """The kernels of a plan as one, the result of placeholders, and the output of the guards."""
    recording, check = recorded.recording, recorded.variant.traced.check
    numbers = recording.numbers(recorded.result)
    guard = None
    if check is not None:
        guard = len(numbers)
        (holds,) = recording.run(PlanStep(check), recording.arrays)
        numbers.append(holds.number)
    kernel = recording.sequence(lambda step, n: _kernel(step, sources[:n], call), numbers)
    return kernel, recording.placed(recorded.result, numbers), guard


def _vectors(recorded: RecordedCall, inputs: list[object]) -> list[Source]:
    """The leaves that are the last inputs: the vector of a product, in their order.

    Entries of integer outputs are no inputs. A vector that is left out is an array of a one.
    """
    if not inputs:
        return []
    leaves = flatten(recorded.vectors[0])[0]
    if not leaves:
        return [np.array(source) for source in inputs]
    types = recorded.variant.plan.types  # type: ignore[attr-defined] - every plan of a product has them
    return [recorded.leaf_of(leaf) for leaf, t in zip(leaves, types, strict=True) if t.floating]


def _captured(array: np.ndarray, call: str) -> np.ndarray:
    """A captured array, which a kernel reads in place."""
    odd = not array.flags.aligned or any(step % array.itemsize for step in array.strides)
    if odd:
        fact = "it reads an array whose entries are not aligned in memory."
        raise failure(UnsupportedError, call, fact, "Copy the array once, outside.")
    return array


def _kernel(step: PlanStep, sources: Sequence[Source], call: str) -> BareKernel:
    """The kernel of one thread."""
    missing = step.runner.missing_kernels()
    if missing:
        several = " as a whole: it is run in parts" * step.runner.is_in_parts()
        fact = f"there is no kernel for {missing}{several}."
        raise failure(UnsupportedError, call, fact, CALL_FROM_PYTHON)
    layouts = tuple([
        "A" if isinstance(source, np.ndarray) and not source.flags.c_contiguous else "C"
        for source in sources
    ])  # fmt: skip
    layouts += ("C",) * (len(step.runner.tape.inputs) - len(layouts))
    try:
        runner = step.runner
        return kernels.compile(runner.tape, layouts, runner.compiler, serial=True).bare()
    except InputError:
        raise
    except Exception as error:
        if is_foreign(error):
            raise
        raise Defect("kernel", step.runner.tape, error).error(call) from None
