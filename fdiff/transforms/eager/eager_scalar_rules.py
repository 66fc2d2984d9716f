"""Derivative rules of single numbers in eager traces, for values.

The functions that `eager_rules.py` makes of the ops' own rules do the same, but take a microsecond
more: here the rule of an arithmetic op becomes one function that also adds the cotangents up.
Stores of single entries (`trace/eager/eager_recorder.py: STORE`) have no other rules. Why values
have rules of their own: docs/decisions/two-sweeps.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...generated_text import defined
from ...ops.tape_to_python import Expressions
from ...tape import CONSTANT, INPUT
from ...trace.operation_cache import READS_ENTRY, Op
from ..rule_templates import pulls
from .cotangents import Cotangents

# Adds to the cotangents of a node's arguments what the node's cotangent contributes.
ScalarPull = Callable[[Cotangents, int, tuple[int, ...], object], None]


def _add_to(sweep: Cotangents, a: int, bar: object) -> None:
    """Add to a cotangent, which is then masked no longer."""
    before = sweep.bars[a]
    sweep.bars[a] = bar if before is None else before + bar
    if sweep.masks:
        sweep.masks.pop(a, None)


def _pull_entry(sweep: Cotangents, i: int, args: tuple[int, ...], bar: object) -> None:
    source = args[0]
    if not sweep.active[source]:
        return
    spot: tuple[object, ...] = tuple([sweep.values[k] for k in args[1:]])
    sweep.add_entries(source, spot if sweep.size is None else (slice(None), *spot), bar)


def scalar_pull(op: Op) -> ScalarPull:
    """The reverse rule of an op on single numbers, or of one that reads an entry of an array."""
    return _pull_entry if op.scalar_rule == READS_ENTRY else _arithmetic_pull(op)


def _arithmetic_pull(op: Op) -> ScalarPull:
    """The rule of an arithmetic op as a Python function, which also adds the cotangents up.

    Values are numbers. Cotangents may have a leading axis of seeds, over which they broadcast.
    """
    body: list[str] = []
    scope: dict[str, object] = {"add_to": _add_to}
    inputs = ["bar", *(f"values[a{n}]" for n in range(len(op.given))), "out"]
    for k in range(len(op.given)):
        needed = tuple([k == other for other in range(len(op.given))])
        tape, _, _ = pulls.rule.trace(op, ((False,), needed))
        text = Expressions(tape, scope)
        text.names.update(zip(tape.inputs, inputs, strict=True))
        for i, node in enumerate(tape.nodes):
            if node.primitive not in (INPUT, CONSTANT):
                text.names[i] = f"({text.expression(i)})"
        cotangent = text.name(tape.outputs[0])
        body += [f"    if active[a{k}]:", f"        add_to(sweep, a{k}, {cotangent})"]
    reads_out = any("out" in line for line in body)
    head = [
        "def pull(sweep, i, args, bar):",
        f"    {''.join(f'a{n}, ' for n in range(len(op.given)))}= args",
        "    active, values = sweep.active, sweep.values",
        *(["    out = values[i]"] if reads_out else []),
    ]
    return defined("pull", [*head, *body], scope)


# ------------------------------------------------------------------------------------------ stores


def _flat(array: np.ndarray, size: int | None) -> np.ndarray:
    """The entries in one axis, the last."""
    return array.reshape(-1) if size is None else array.reshape(size, -1)


def places_of(op: Op) -> tuple[int, ...]:
    """Where a store puts its entries."""
    return op.params[0][1]


def _zeroed(array: object, places: Sequence[int], size: int | None) -> np.ndarray:
    """A copy with zeros at these places."""
    out = np.array(array, order="C")
    _flat(out, size)[..., list(places)] = 0
    return out


def pull_store(sweep: Cotangents, i: int, op: Op, args: tuple[int, ...]) -> None:
    """Entries that were stored get their cotangents, the array below gets the others."""
    places, size, active = places_of(op), sweep.size, sweep.active
    bar, mask = sweep.bars[i], sweep.mask_of(i, args)
    if active[args[0]]:
        kept = None if mask is None else _zeroed(mask, places, size)
        sweep.accumulate(args[0], _zeroed(bar, places, size), kept)
    bars = _flat(np.asarray(bar), size)
    masks = None if mask is None else _flat(np.asarray(mask), size)
    for k, a in zip(places, args[1:], strict=True):
        if not active[a]:
            continue
        if size is not None:
            sweep.accumulate(a, bars[:, k], None if masks is None else masks[:, k])
        elif masks is None or masks[k]:
            _add_to(sweep, a, bars[k])


def push_store(op: Op, operands: Sequence[object], size: int | None) -> np.ndarray:
    """The tangent of an array with entries stored over it; None stands for zero."""
    type_ = op.types[0]
    shape = type_.shape if size is None else (size, *type_.shape)
    base, *entries = operands
    out = np.zeros(shape, type_.dtype)
    if base is not None:
        out[...] = base
    flat = _flat(out, size)
    for k, dot in zip(places_of(op), entries, strict=True):
        flat[..., k] = 0 if dot is None else dot
    return out


def enter_pull_store(sweep: Cotangents, i: int, op: Op, args: tuple[int, ...]) -> None:
    """Pull back a store as `pull_store` does, for cotangents that are nodes of the trace."""
    trace, places, active = sweep.trace, places_of(op), sweep.active
    bar, mask = sweep.bars[i], sweep.mask_of(i, args)
    if active[args[0]]:
        kept = None if mask is None else trace.cleared(mask, places)
        sweep.accumulate(args[0], trace.cleared(bar, places), kept)
    for k, a in zip(places, args[1:], strict=True):
        if active[a]:
            sweep.accumulate(a, trace.read(bar, k), None if mask is None else trace.read(mask, k))
