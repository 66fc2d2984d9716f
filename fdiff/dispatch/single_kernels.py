"""Calls as one kernel: for callers that are machine code, and compare nothing of Python's.

In come a function's program and the arguments of a call, out comes the kernel of the variant that
holds for them, which leaf of the call each of its inputs is, and how the result is built of its
outputs. What cannot be one kernel is refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import kernels
from ..errors import FdiffError, InputError, UnsupportedError, failure
from ..kernels import BareKernel
from ..tree import flatten, unflatten
from .arguments import Function, is_static
from .compiler_defects import Defect
from .fast_path_builder import Split
from .plans import Arrays, PlanStep, Step
from .program import Program
from .result_template import Placeholder
from .variant import Variant

CALL_FROM_PYTHON = "Call it from Python."


class SingleKernel(NamedTuple):
    """A call as one kernel.

    `sources` says for each input which leaf of the call it is, or is the array; `result` is the
    result with placeholders for outputs. `guard` is the output that tells whether the variant
    holds; `pins` are inputs with the bytes that they must have. With `c_order`, the variant holds
    for contiguous arrays alone.
    """

    variant: Variant
    kernel: BareKernel
    sources: tuple[int | np.ndarray, ...]
    result: object
    guard: int | None
    pins: tuple[tuple[int, bytes], ...]
    c_order: bool


def single_kernel(
    program: Program,
    f: Function,
    call: str,
    given: tuple[tuple[object, ...], dict[str, object]],
    split: Split,
    variant: Variant | None = None,
) -> SingleKernel:
    """The kernel of a call with these arguments, and with this variant if one is given."""
    leaves, spec = flatten(given)
    own, named = _arguments(spec, leaves, split)[0]
    if variant is None:
        variant = _variant(program, f, own, named)
    captured = variant.refresh(f)
    if captured is None or not variant.cacheable:
        reads = next((one for _, reads in variant.inner for one in reads.opaque), "what it reads")
        fact = f"the function has to run at each call, because of {reads}."
        way = "Take that out of the function, or pass it as an argument."
        raise failure(UnsupportedError, call, fact, way)
    markers = [_marker(leaf) for leaf in leaves]
    (own, named), vectors = _arguments(spec, markers, split)
    arrays = [*variant.leaves(own, named), *captured]
    step, inputs, result = _run(variant, call, arrays, vectors)
    at = {id(marker): k for k, marker in enumerate(markers) if not is_static(marker)}
    traced = len(arrays) - len(captured)
    sources: list[int | np.ndarray] = [at[id(one)] for one in arrays[:traced]]
    sources += [_captured(one, call) for one in captured]
    sources += _vectors(variant, vectors, inputs[len(arrays) :], at)
    if variant.swapped:
        fact = "it reads an array of another byte order than the machine's."
        raise failure(UnsupportedError, call, fact, "Convert the array once, outside.")
    if any(layout for k, layout in variant.layouts if k < traced):
        raise not_in_order(call)
    kernel = _kernel(step, sources, call)
    guard = list(step.runner.slots())[-1] if step.guarded else None
    if variant.check is not None and guard is None:
        fact = "it branches on values, and takes more than one kernel."
        raise failure(UnsupportedError, call, fact, CALL_FROM_PYTHON)
    c_order = any(k < traced for k, _ in variant.layouts)
    return SingleKernel(variant, kernel, tuple(sources), result, guard, variant.pinned, c_order)


def not_in_order(call: str) -> UnsupportedError:
    """The error for a function that looks at how arrays lie in memory."""
    fact = "it looks at how an array lies in memory, which is not in C order."
    return failure(UnsupportedError, call, fact, "Pass numpy.ascontiguousarray(x).")


def _arguments(
    spec: Any, leaves: Sequence[object], split: Split
) -> tuple[tuple[tuple[object, ...], dict[str, object]], tuple[object, ...]]:
    """The arguments of `f`, its keywords, and the vectors, with these leaves."""
    args, named = unflatten(spec, leaves)  # type: ignore[misc] - the tree of a call
    own, vectors = split(args)
    return (own, named), vectors


def _variant(
    program: Program, f: Function, args: tuple[object, ...], named: dict[str, object]
) -> Variant:
    """The variant that holds for these arguments; of unstable branches a new one."""
    variant, _ = program.find(f, args, named, sure=True)
    if variant.eager is None:
        return variant
    variant.release()
    return program.trace(f, args, named)[0]


def _marker(leaf: object) -> object:
    """An object of its own that stands for a leaf: zeros in place of an array."""
    if isinstance(leaf, np.ndarray):
        return np.zeros(leaf.shape, leaf.dtype)
    if is_static(leaf):
        return leaf
    return type(leaf)(leaf) if isinstance(leaf, np.generic) else leaf * 1.0  # type: ignore[operator] - a number


def _run(
    variant: Variant, call: str, arrays: list[object], vectors: tuple[object, ...]
) -> tuple[PlanStep, list[object], object]:
    """The only step of a plan with its inputs, and the result built of placeholders."""
    found: list[tuple[PlanStep, list[object]]] = []

    def run(step: Step, inputs: Arrays) -> list[Placeholder]:
        assert isinstance(step, PlanStep), "no kernel is made of an eager trace"
        found.append((step, list(inputs)))
        slots = list(step.runner.slots())
        return [Placeholder(k) for k in (slots[:-1] if step.guarded else slots)]

    try:
        result = variant.plan.call(arrays, vectors, run)
    except FdiffError:
        raise
    except Exception:  # noqa: BLE001 - the plan, or a class of the user's, computes with outputs
        found.clear()
        result = None
    if len(found) != 1 or any(
        a is not b for a, b in zip(found[0][1][: len(arrays)], arrays, strict=True)
    ):
        fact = "its result takes more than one kernel: it is too large, or built by other code."
        raise failure(UnsupportedError, call, fact, CALL_FROM_PYTHON)
    return *found[0], result


def _vectors(
    variant: Variant, vectors: tuple[object, ...], inputs: list[object], at: dict[int, int]
) -> list[int | np.ndarray]:
    """The leaves that are the last inputs: those of the vector of a product, in their order.

    Entries of integer outputs are no inputs. A vector that is left out is an array of a one.
    """
    if not inputs:
        return []
    leaves = flatten(vectors[0])[0]
    if not leaves:
        return [np.array(one) for one in inputs]
    types = variant.plan.types  # type: ignore[attr-defined] - every plan of a product has them
    return [at[id(leaf)] for leaf, t in zip(leaves, types, strict=True) if t.floating]


def _captured(array: np.ndarray, call: str) -> np.ndarray:
    """A captured array, which a kernel reads where it is."""
    odd = not array.flags.aligned or any(step % array.itemsize for step in array.strides)
    if odd:
        fact = "it reads an array whose entries are not aligned in memory."
        raise failure(UnsupportedError, call, fact, "Copy the array once, outside.")
    return array


def _kernel(step: PlanStep, sources: Sequence[int | np.ndarray], call: str) -> BareKernel:
    """The kernel of one thread."""
    lacking = step.runner.lacking()
    if lacking:
        raise failure(
            UnsupportedError, call, f"there is no kernel for {lacking}.", CALL_FROM_PYTHON
        )
    layouts = tuple([
        "A" if isinstance(one, np.ndarray) and not one.flags.c_contiguous else "C"
        for one in sources
    ])  # fmt: skip
    try:
        runner = step.runner
        return kernels.compile(runner.tape, layouts, runner.compiler, serial=True).bare()
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, a user cannot have caused it
        raise Defect("kernel", step.runner.tape, error).error(call) from None
