"""`vmap`: map a function over an axis of its arguments, without a loop.

The function is traced for one element, and the tape is batched. If elements take different
branches, each group of elements that take the same branches is traced and batched separately.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, cast, overload

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...capture.symbolic_numbers import SymbolicNumber
from ...dispatch.arguments import Function, argument, traceable
from ...dispatch.plans import PREPARING
from ...dispatch.program import Program, program_of
from ...errors import InputError, called, failure, shown
from ...hooks import hooks
from ...ops.shapes.shaping import traced as traced_of
from ...tape import Tape
from ...trace import (
    ArgumentSpec,
    Recorder,
    Recording,
    Trace,
    TracedArray,
    current,
    guarded_value,
    private,
    record,
    splice,
)
from ...tracebacks import public
from ...transforms.pipeline import VMAP, derive
from ...tree import Spec, flatten, unflatten
from ..annotations import AtPoint, Derivatives, Entries, P
from ..call.invocation import no_vectors, prepared_function
from ..call.prepared import Origin, Prepared
from ..options import check_callable, check_device, is_int
from .jit_programs import ValuePlan
from .mapped_axes import (
    Axis,
    axes_of_arguments,
    axis_moved_to,
    axis_of_each_leaf,
    common_size,
    mapped_axis_first,
)

if TYPE_CHECKING:
    from ..call.prepared import Blocks

ALIKE = "Return arrays of one shape and structure for all elements, with numpy.where for instance."


@overload
def vmap(
    f: AtPoint[P, Entries], in_axes: object = ..., out_axes: int = ..., *, device: str = ...
) -> Blocks[P]: ...
@overload
def vmap(
    f: Callable[P, object], in_axes: object = ..., out_axes: object = ..., *, device: str = ...
) -> Prepared[P, Derivatives]: ...
@public
def vmap(
    f: Callable[P, object], in_axes: object = 0, out_axes: object = 0, *, device: str = "cpu"
) -> Prepared[P, object]:
    """Map `f` over an axis of its arguments, without a Python loop.

    Parameters
    ----------
    f : callable
        Function of arrays, or of nested tuples, lists, dicts and dataclasses of them.
    in_axes : int, None, or tuple with one entry for each argument
        Which axis is mapped; None passes an argument whole. An entry may be a structure like the
        argument's, or the beginning of one: ``{"a": 0, "b": None}``. Arrays in keyword arguments
        are mapped over axis 0.
    out_axes : int, None, or structure of these
        The position of the mapped axis in the results; None for a result that is the same for all
        elements.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    callable
        Takes the arguments of `f` with one more axis where `in_axes` says so, and returns the
        results with one more axis. Costs the length of the axis times one evaluation, in one
        kernel.

    Raises
    ------
    InputError
        If the lengths of the mapped axes differ, nothing is mapped, or an axis does not exist.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.

    References
    ----------
    Blelloch, "Vector Models for Data-Parallel Computing", MIT Press 1990, chapter 10; ``jax.vmap``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> rows, weights = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0])
    >>> fdiff.vmap(np.dot, in_axes=(0, None))(rows, weights)
    array([3., 7.])
    """
    check_callable(f, "vmap")
    check_device(device, called("vmap", f))
    ins = tuple(in_axes) if isinstance(in_axes, list) else in_axes
    for axes, name in ((ins, "in_axes"), (out_axes, "out_axes")):
        bad = [leaf for leaf in flatten(axes)[0] if not is_int(leaf)]
        if bad:
            fact = f"{name} must hold ints and None, not {shown(bad[0])}."
            raise failure(InputError, "vmap", fact, "Write 0 for the first axis.")

    def body(g: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        return _mapped(g, args, kwargs, ins, out_axes)

    program = program_of(
        f,
        ("vmap", repr(ins), repr(out_axes), device),
        lambda: Program(
            "vmap", None, ValuePlan, body, eager=False, device=device, effort=PREPARING
        ),
    )
    program.plain = lambda g, args, kwargs: _one_by_one(g, args, kwargs, ins)
    origin = Origin(vmap, {"in_axes": in_axes, "out_axes": out_axes, "device": device})
    return prepared_function(program, f, no_vectors, origin, out=False)


def _one_by_one(
    f: Function, args: tuple[object, ...], kwargs: dict[str, object], in_axes: object
) -> None:
    """Run the calls for all elements in a loop of plain code, for NumPy's warnings."""
    leaves, spec = flatten((args, kwargs))
    axes = axes_of_arguments(in_axes, args, kwargs, "vmap")
    moved = [
        None if axis is None else np.moveaxis(np.asarray(leaf), axis, 0)
        for leaf, axis in zip(leaves, axes, strict=True)
    ]
    count = next((len(rows) for rows in moved if rows is not None), 0)
    for k in range(count):
        element = [x if rows is None else rows[k] for x, rows in zip(leaves, moved, strict=True)]
        own, named = unflatten(spec, element)
        f(*own, **named)


def _mapped(
    f: Function,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    in_axes: object,
    out_axes: object,
) -> object:
    """Trace `f` for one element, batch the tape, and replay it in the trace under way."""
    trace = current()
    leaves, spec = flatten((args, kwargs))
    axes = axes_of_arguments(in_axes, args, kwargs, trace.call)
    mapped = [k for k, axis in enumerate(axes) if axis is not None]
    arrays = [
        mapped_axis_first(leaves[k], cast("int", axes[k]), argument(spec, k), trace.call)
        for k in mapped
    ]
    size = common_size(arrays, trace.call)
    parts: list[tuple[np.ndarray, list[object], Spec]] = []
    rest = np.arange(size)
    while (
        True
    ):  # each iteration serves the elements that take the same branches as the first one left
        some = arrays if len(rest) == size else [x[rest] for x in arrays]
        element, outs, out_spec = _record_one(f, leaves, spec, mapped, some, trace.call)
        holds, rows = _same_branches(element, some, trace), rest
        if holds is None:
            rest = rest[:0]
        else:
            some, rows, rest = [x[holds] for x in some], rest[holds], rest[~holds]
        placed = _results_with_axis(element, outs, some, (out_axes, out_spec), size, trace)
        if len(rows) == size:
            return unflatten(out_spec, placed)
        parts.append((rows, placed, out_spec))
        if not rest.size:
            return unflatten(out_spec, _results_in_order(parts, out_axes, trace.call))


def _same_branches(
    element: Recording, arrays: Sequence[TracedArray], trace: Recorder
) -> np.ndarray | None:
    """Which elements take the branches of the first one, as a mask; None if all do."""
    if element.check is None or not len(arrays[0].shape) or not arrays[0].shape[0]:
        return None
    holds = _batched(element.check, element, arrays, trace)[0]
    seen = np.array(guarded_value(holds, "decided branches element by element"))
    seen[0] = True  # traced for the first element; a batch may round sums in another order
    return None if seen.all() else seen


def _batched(
    tape: Tape,
    element: Recording,
    arrays: Sequence[TracedArray],
    trace: Recorder,
    spread: Sequence[bool] | None = None,
) -> Sequence[TracedArray]:
    """The outputs, for all entries of `arrays`, of a tape that was recorded for one entry."""
    mapped = [*(True for _ in arrays), *(False for _ in element.extra)]
    values = [*arrays, *(traced_of(x) for x in element.extra)]
    size = arrays[0].shape[0]
    if (rules := hooks.batching_rules) is not None:  # there once a function with rules is
        tape, values, mapped = rules(tape, values, mapped, size, trace)
    whole = derive(VMAP, tape, mapped=mapped, size=size, spread=spread)
    return splice(whole, values, trace)


def _results_with_axis(
    element: Recording,
    outs: Sequence[object],
    arrays: Sequence[TracedArray],
    placing: tuple[object, Spec],
    total: int,
    trace: Recorder,
) -> list[object]:
    """Leaves of the result for some elements, with the mapped axis where `out_axes` says.

    If these are fewer than all `total` elements, the axis stays in front, so that groups can be
    joined.
    """
    size = arrays[0].shape[0]
    spread = [size != total] * len(element.tape.outputs)
    numeric = iter(_batched(element.tape, element, arrays, trace, spread))
    if size != total:
        return [next(numeric) if traceable(out) else out for out in outs]
    places = axis_of_each_leaf(placing[0], placing[1], "out_axes", trace.call)
    types = iter(element.tape.output_types)
    return [
        axis_moved_to(next(numeric), next(types), axis, size, trace.call) if traceable(out) else out
        for out, axis in zip(outs, places, strict=True)
    ]


def _results_in_order(
    parts: Sequence[tuple[np.ndarray, list[object], Spec]], out_axes: object, call: str
) -> list[object]:
    """The results of all parts in the order of the elements."""
    order = np.argsort(np.concatenate([rows for rows, _, _ in parts]))
    spec = parts[0][2]
    if any(other != spec for _, _, other in parts):
        fact = "the function returns different structures for different elements."
        raise failure(InputError, call, fact, ALIKE)
    places = axis_of_each_leaf(out_axes, spec, "out_axes", call)
    columns = zip(*(leaves for _, leaves, _ in parts), strict=True)
    return [
        _joined_leaf(leaves, order, axis, call)
        for axis, leaves in zip(places, columns, strict=True)
    ]


def _joined_leaf(leaves: Sequence[object], order: np.ndarray, axis: Axis, call: str) -> object:
    """One leaf of the results of all parts."""
    traced = [leaf for leaf in leaves if isinstance(leaf, TracedArray)]
    if not traced and all(leaf is leaves[0] or _same_structure(leaf, leaves[0]) for leaf in leaves):
        return leaves[0]
    if len(traced) < len(leaves):
        fact = "the function returns different objects that are not numbers for different elements."
        raise failure(InputError, call, fact, ALIKE)
    if len({leaf.shape[1:] for leaf in traced}) > 1:
        fact = "the function returns arrays of different shapes for different elements."
        raise failure(InputError, call, fact, ALIKE)
    whole = cast("TracedArray", np.concatenate(traced))[order]
    element = ArrayType(whole.shape[1:], whole.dtype)
    return axis_moved_to(whole, element, axis, whole.shape[0], call)


def _same_structure(first: object, other: object) -> bool:
    return type(first) is type(other) and bool(np.all(first == other))


def _record_one(
    f: Function,
    leaves: Sequence[object],
    spec: Spec,
    mapped: Sequence[int],
    arrays: Sequence[TracedArray],
    call: str,
) -> tuple[Recording, list[object], Spec]:
    """The tape of `f` for one element, the leaves it returned and their spec.

    Arguments that are not mapped are values of the outer trace, so that Python may read them if it
    may read them there.
    """
    outs: list[object] = []
    out_spec: list[Spec] = []

    def run(_: Trace, arguments: list[TracedArray]) -> list[object]:
        values = list(leaves)
        for k, traced in zip(mapped, arguments, strict=True):
            values[k] = traced
        args, kwargs = unflatten(spec, values)
        results, result_spec = flatten(private(f)(*args, **kwargs))
        outs.extend(x.result() if type(x) is SymbolicNumber else x for x in results)
        out_spec.append(result_spec)
        return [out for out in outs if traceable(out)]

    inputs = [_element(x) for x in arrays]
    return record(run, inputs, call), outs, out_spec[0]


def _element(x: TracedArray) -> ArgumentSpec:
    """How one element of `x` is traced: with the value of the first, if `x` has a value."""
    type_ = ArrayType(x.shape[1:], x.dtype)
    if not x.shape[0]:
        return ArgumentSpec(type_, scalar=x.ndim == 1)
    action = "looked at an element of a mapped array"
    value = lambda: np.asarray(x.home.guards.value(x.id, action))[0]  # noqa: E731 - taken if it is asked for
    return ArgumentSpec(type_, scalar=x.ndim == 1, value=value, batch=x)
