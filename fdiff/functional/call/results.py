"""Results in the structure that the caller expects."""

from __future__ import annotations

from collections.abc import Sequence

from ...device_arrays import DeviceArray
from ...dispatch.variant import Traced
from ...process.forking import late
from ...trace import TracedArray
from ...tree import unflatten

number_of = late("choosing.counters", "fdiff.dispatch", "number_of")


def deliver(out: object, scalar: bool) -> object:  # noqa: FBT001 - called for each result
    """A result as NumPy would give it: a scalar, or an array the caller owns."""
    if isinstance(out, TracedArray):
        return TracedArray(out.home, out.id, out.type, scalar=scalar and not out.shape)
    return out[()] if scalar else out  # type: ignore[index] - an array, if not a traced one


def results(traced: Traced, outs: Sequence[object]) -> object:
    """The function's result: numeric leaves from `outs`; Python numbers and others unchanged."""
    numeric = iter(zip(outs, traced.scalars, traced.numbers, strict=True))
    leaves: list[object] = []
    for fixed in traced.outs:
        if fixed:
            leaves.append(fixed[0])
            continue
        out, scalar, number = next(numeric)
        if isinstance(number, type):
            leaves.append(_number(out, number))
        else:
            leaves.append(deliver(out, scalar) if number is None else number)
    return unflatten(traced.out_spec, leaves)


def _number(out: object, kind: type) -> object:
    """A result as a Python number."""
    if isinstance(out, TracedArray):
        return number_of(out, kind)
    return out.as_number(kind) if isinstance(out, DeviceArray) else kind(out)


def tangents(traced: Traced, outs: Sequence[object]) -> object:
    """One array for each output, in the structure of the outputs."""
    leaves = [deliver(out, scalar) for out, scalar in zip(outs, traced.scalars, strict=True)]
    return unflatten(traced.out_spec, leaves)


def gradients(traced: Traced, outs: Sequence[object]) -> object:
    """One array for each differentiated leaf, in the structure of the arguments."""
    scalars = traced.input_scalars
    leaves = [deliver(out, scalars[k]) for out, k in zip(outs, traced.wrt, strict=True)]
    return leaves[0] if traced.in_spec.kind is None else unflatten(traced.in_spec, leaves)
