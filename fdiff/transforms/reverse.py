"""Reverse mode: a tape that pulls cotangents back from outputs to inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import message
from ..ops.families import unbroadcast
from ..primitive import ZERO
from ..tape import INPUT, ITEM, Node, Tape
from ..trace import Trace, TracedArray
from .forward import materialise, replay


class Bar(NamedTuple):
    """A cotangent; where `mask` is given it is zero outside, and known to be.

    A cotangent that comes out of a `where` carries the mask of its branch, so that a slope that
    is infinite or NaN where the branch was not taken is never multiplied in.
    """

    value: TracedArray
    mask: TracedArray | None = None


def vjp(tape: Tape, wrt: Sequence[int], of: Sequence[int] | None = None) -> Tape:
    """Tape of ``(*inputs, *bars) -> (*outputs, *input_bars)``.

    There is one cotangent for each floating output (or for those at the positions `of`), and one
    result for each input in `wrt`.
    Walks the nodes once, backwards: the work is at most a small multiple of the tape's, whatever
    the number of inputs (Griewank and Walther, Evaluating Derivatives, 2nd ed., SIAM 2008,
    section 3.3).
    """
    with Trace("vjp", lines=False) as trace:
        values = {i: trace.input(tape.nodes[i].type) for i in tape.inputs}
        outputs = _values(tape, trace, values)
        wanted = _reached(tape, [tape.inputs[k] for k in wrt])
        bars: dict[int, Bar] = {}
        for o in [tape.outputs[k] for k in (range(len(tape.outputs)) if of is None else of)]:
            if tape.nodes[o].type.floating:
                seed = Bar(trace.input(tape.nodes[o].type))
                if o in wanted:
                    _accumulate(bars, o, seed)
        _pull_all(tape, trace, values, outputs, wanted, bars)
        grads = [
            bars[i].value if i in bars else materialise(ZERO, values[i])
            for i in (tape.inputs[k] for k in wrt)
        ]
        return trace.builder.finish(
            [trace.lift(x) for x in (*(values[o] for o in tape.outputs), *grads)]
        )


def _values(
    tape: Tape, trace: Trace, values: dict[int, TracedArray]
) -> dict[int, tuple[TracedArray, ...]]:
    """Replay the tape; fills `values` and gives every node's outputs."""
    outputs: dict[int, tuple[TracedArray, ...]] = {}
    for i, node in enumerate(tape.nodes):
        if node.primitive is INPUT:
            continue
        trace.line = tape.lines.get(i, (None,))[0]
        if node.primitive is ITEM:
            values[i] = outputs[node.args[0]][node.k]
        else:
            outputs[i] = replay(trace, node, values)
            values[i] = outputs[i][0]
    return outputs


def _reached(tape: Tape, inputs: Sequence[int]) -> set[int]:
    """Nodes with a floating output that depend on one of `inputs`."""
    reached = set(inputs)
    for i, node in enumerate(tape.nodes):
        if any(t.floating for t in node.types) and any(a in reached for a in node.args):
            reached.add(i)
    return reached


def _pull_all(
    tape: Tape,
    trace: Trace,
    values: dict[int, TracedArray],
    outputs: dict[int, tuple[TracedArray, ...]],
    wanted: set[int],
    bars: dict[int, Bar],
) -> None:
    """Walk the nodes backwards, leaving cotangents of the inputs in `bars`."""
    parts: dict[int, dict[int, Bar]] = {}
    for i in range(len(tape.nodes) - 1, -1, -1):
        node = tape.nodes[i]
        if node.primitive is INPUT or i not in wanted:
            continue
        if node.primitive is ITEM:
            if i in bars:
                parts.setdefault(node.args[0], {})[node.k] = bars.pop(i)
            continue
        seeds: list[Bar | object] = (
            [bars.pop(i, ZERO)]
            if len(node.types) == 1
            else [parts.get(i, {}).get(k, ZERO) for k in range(len(node.types))]
        )
        if all(s is ZERO for s in seeds):
            continue
        trace.line = tape.lines.get(i, (None,))[0]
        args = [values[a] for a in node.args]
        for a, bar in zip(node.args, _pull(node, seeds, args, outputs[i]), strict=True):
            if bar is not None and a in wanted:
                _accumulate(bars, a, bar)


def _pull(
    node: Node, seeds: Sequence[object], args: Sequence[TracedArray], outs: Sequence[TracedArray]
) -> list[Bar | None]:
    """Cotangents of the arguments of one node; None where there is none."""
    primitive, params = node.primitive, dict(node.params)
    if primitive.vjp is None:
        raise NotImplementedError(message("vjp", f"{primitive.name} has no reverse rule."))
    first = seeds[0]
    mask = first.mask if isinstance(first, Bar) and len(seeds) == 1 else None
    plain = [s.value if isinstance(s, Bar) else ZERO for s in seeds]
    if primitive.family == "elementwise":
        results = primitive.vjp(plain, args, outs, **params)
        return [_elementwise_bar(k, primitive.name, r, mask, args) for k, r in enumerate(results)]
    results = primitive.vjp(plain, args, outs, **params)
    masks = _masks(node, mask, args, outs)
    return [None if r is ZERO else Bar(r, m) for r, m in zip(results, masks, strict=True)]  # type: ignore[arg-type]


def _elementwise_bar(
    k: int, name: str, result: object, mask: TracedArray | None, args: Sequence[TracedArray]
) -> Bar | None:
    """Cotangent of argument `k` of an elementwise op: the mask kept, broadcasting undone."""
    if result is ZERO:
        return None
    bar: TracedArray = result  # type: ignore[assignment]
    if mask is not None and name not in _SAFE:
        bar = np.where(mask, bar, 0.0)  # type: ignore[assignment]
    if name == "where":
        chosen = args[0] if k == 1 else np.logical_not(args[0])
        mask = chosen if mask is None else np.logical_and(mask, chosen)  # type: ignore[assignment]
        mask = np.broadcast_to(mask, bar.shape)  # type: ignore[assignment,arg-type]
    shape = args[k].shape
    return Bar(unbroadcast(bar, shape), None if mask is None else _unbroadcast_mask(mask, shape))


_SAFE = frozenset(
    {"add", "subtract", "negative", "where", "convert"}
)  # slopes are 1, -1 or a selection


def _unbroadcast_mask(mask: TracedArray, shape: tuple[int, ...]) -> TracedArray:
    if mask.shape == shape:
        return mask
    lead = mask.ndim - len(shape)
    axes = (
        *range(lead),
        *(lead + i for i, n in enumerate(shape) if n == 1 and mask.shape[lead + i] != 1),
    )
    return np.reshape(np.any(mask, axis=axes), shape)  # type: ignore[return-value,arg-type]


def _masks(
    node: Node, mask: TracedArray | None, args: Sequence[TracedArray], outs: Sequence[TracedArray]
) -> list[TracedArray | None]:
    """Masks pulled back through an op that only moves or adds entries; dropped by any other."""
    if mask is None or not node.primitive.structural:
        return [None] * len(args)
    weight = np.where(mask, np.ones((), outs[0].dtype), np.zeros((), outs[0].dtype))
    pulled = node.primitive.vjp(
        [np.broadcast_to(weight, outs[0].shape)], args, outs, **dict(node.params)
    )  # type: ignore[misc,arg-type]
    return [None if p is ZERO else p != 0 for p in pulled]  # type: ignore[misc]


def _accumulate(bars: dict[int, Bar], i: int, bar: Bar) -> None:
    """Add `bar` to the cotangent of node `i`; the sum is known zero outside both masks."""
    known = bars.get(i)
    if known is None:
        bars[i] = bar
        return
    mask = None
    if known.mask is not None and bar.mask is not None:
        mask = known.mask if known.mask.id == bar.mask.id else np.logical_or(known.mask, bar.mask)
    bars[i] = Bar(known.value + bar.value, mask)  # type: ignore[operator,arg-type]
