"""Derivative rules of single numbers in eager traces, written out for values.

The functions that `eager_rules.py` makes of the ops' own rules do the same, but take a microsecond
more. Stores of single entries (`trace/eager_recorder.py: STORE`) have no other rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.elementwise import add, multiply, negative, subtract
from ...trace.operation_cache import READS_ENTRY, Op
from .cotangents import Cotangents


def _add_to(sweep: Cotangents, a: int, bar: Any) -> None:
    """Add to a cotangent, which is then masked no longer."""
    known = sweep.bars[a]
    sweep.bars[a] = bar if known is None else known + bar
    if sweep.masks:
        sweep.masks.pop(a, None)


def _pull_add(sweep: Cotangents, op: Op, args: tuple[int, ...], bar: Any) -> None:
    active = sweep.active
    for a in args:
        if active[a]:
            _add_to(sweep, a, bar)


def _pull_subtract(sweep: Cotangents, op: Op, args: tuple[int, ...], bar: Any) -> None:
    a, b = args
    if sweep.active[a]:
        _add_to(sweep, a, bar)
    if sweep.active[b]:
        _add_to(sweep, b, -bar)


def _pull_multiply(sweep: Cotangents, op: Op, args: tuple[int, ...], bar: Any) -> None:
    a, b = args
    values = sweep.values
    if sweep.active[a]:
        _add_to(sweep, a, bar * values[b])
    if sweep.active[b]:
        _add_to(sweep, b, bar * values[a])


def _pull_negative(sweep: Cotangents, op: Op, args: tuple[int, ...], bar: Any) -> None:
    if sweep.active[args[0]]:
        _add_to(sweep, args[0], -bar)


def _pull_entry(sweep: Cotangents, op: Op, args: tuple[int, ...], bar: Any) -> None:
    source = args[0]
    if not sweep.active[source]:
        return
    spot: tuple[Any, ...] = tuple([sweep.values[k] for k in args[1:]])
    sweep.writable(source)[spot if sweep.size is None else (slice(None), *spot)] += bar


SCALAR_RULES: dict[str, Callable[[Cotangents, Op, tuple[int, ...], Any], None]] = {
    add.eager.scalar_rule: _pull_add,
    subtract.eager.scalar_rule: _pull_subtract,
    multiply.eager.scalar_rule: _pull_multiply,
    negative.eager.scalar_rule: _pull_negative,
    READS_ENTRY: _pull_entry,
}

# ------------------------------------------------------------------------------------------ stores


def _flat(array: Any, size: int | None) -> Any:
    """The entries in one axis, the last."""
    return array.reshape(-1) if size is None else array.reshape(size, -1)


def places_of(op: Op) -> tuple[int, ...]:
    """Where a store puts its entries."""
    return op.params[0][1]


def _without(array: Any, places: Sequence[int], size: int | None) -> np.ndarray:
    """A copy with zeros at these places."""
    out = np.array(array, order="C")
    _flat(out, size)[..., list(places)] = 0
    return out


def pull_store(sweep: Cotangents, i: int, op: Op, args: tuple[int, ...]) -> None:
    """Entries that were stored get their cotangents, the array below gets the others."""
    places, size, active = places_of(op), sweep.size, sweep.active
    bar, mask = sweep.bars[i], sweep.masks.pop(i, None)
    if active[args[0]]:
        kept = None if mask is None else _without(mask, places, size)
        sweep.accumulate(args[0], _without(bar, places, size), kept)
    bars = _flat(np.asarray(bar), size)
    masks = None if mask is None else _flat(np.asarray(mask), size)
    for k, a in zip(places, args[1:], strict=True):
        if not active[a]:
            continue
        if size is not None:
            sweep.accumulate(a, bars[:, k], None if masks is None else masks[:, k])
        elif masks is None or masks[k]:
            _add_to(sweep, a, bars[k])


def push_store(op: Op, given: Sequence[Any], size: int | None) -> np.ndarray:
    """The tangent of an array with entries stored over it; None stands for zero."""
    type_ = op.types[0]
    shape = type_.shape if size is None else (size, *type_.shape)
    base, *entries = given
    out = np.zeros(shape, type_.dtype)
    if base is not None:
        out[...] = base
    flat = _flat(out, size)
    for k, dot in zip(places_of(op), entries, strict=True):
        flat[..., k] = 0 if dot is None else dot
    return out


def enter_pull_store(sweep: Cotangents, i: int, op: Op, args: tuple[int, ...]) -> None:
    """The same as `pull_store` for cotangents that are nodes of the trace."""
    trace, places, active = sweep.trace, places_of(op), sweep.active
    bar, mask = sweep.bars[i], sweep.masks.pop(i, None)
    if active[args[0]]:
        kept = None if mask is None else trace.cleared(mask, places)
        sweep.accumulate(args[0], trace.cleared(bar, places), kept)
    for k, a in zip(places, args[1:], strict=True):
        if active[a]:
            sweep.accumulate(a, trace.read(bar, k), None if mask is None else trace.read(mask, k))
