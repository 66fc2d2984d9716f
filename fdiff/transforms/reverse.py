"""Reverse mode: a tape that pulls cotangents back from outputs to inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import message
from ..ops.contraction import parse
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
        outputs = replay_all(tape, trace, values)
        wanted = reached(tape, [tape.inputs[k] for k in wrt])
        bars: dict[int, Bar] = {}
        for o in [tape.outputs[k] for k in (range(len(tape.outputs)) if of is None else of)]:
            if tape.nodes[o].type.floating:
                seed = Bar(trace.input(tape.nodes[o].type))
                if o in wanted:
                    _accumulate(bars, o, seed)
        pull_all(tape, trace, values, outputs, wanted, bars)
        grads = [
            bars[i].value if i in bars else materialise(ZERO, values[i])
            for i in (tape.inputs[k] for k in wrt)
        ]
        return trace.builder.finish(
            [trace.lift(x) for x in (*(values[o] for o in tape.outputs), *grads)]
        )


def replay_all(
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


def reached(tape: Tape, inputs: Sequence[int]) -> set[int]:
    """Nodes with a floating output that depend on one of `inputs`."""
    reached = set(inputs)
    for i, node in enumerate(tape.nodes):
        if any(t.floating for t in node.types) and any(a in reached for a in node.args):
            reached.add(i)
    return reached


def pull_all(
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
        needed = [a in wanted for a in node.args]
        for a, bar in zip(node.args, pull(node, seeds, args, outputs[i], needed), strict=True):
            if bar is not None:
                _accumulate(bars, a, bar)


def pull(
    node: Node,
    seeds: Sequence[object],
    args: Sequence[TracedArray],
    outs: Sequence[TracedArray],
    needed: Sequence[bool],
) -> list[Bar | None]:
    """Cotangents of the `needed` arguments of one node; None where there is none.

    A rule may give a function in place of a cotangent: it is called only where that is needed.
    """
    primitive, params = node.primitive, dict(node.params)
    if primitive.vjp is None:
        raise NotImplementedError(message("vjp", f"{primitive.name} has no reverse rule."))
    first = seeds[0]
    mask = first.mask if isinstance(first, Bar) and len(seeds) == 1 else None
    plain = [s.value if isinstance(s, Bar) else ZERO for s in seeds]
    inner = mask is not None and primitive.family != "elementwise"
    masks = masks_of_arguments(node, mask, args, outs) if inner else [None] * len(args)  # type: ignore[arg-type]
    if primitive.name == "contract" and inner:
        # It sums over entries whose cotangent is zero, and 0 * NaN is NaN.
        args = [_inside(m, a) for m, a in zip(masks, args, strict=True)]  # type: ignore[misc]
    results = [
        (r() if callable(r) else r) if need else ZERO
        for r, need in zip(primitive.vjp(plain, args, outs, **params), needed, strict=True)
    ]
    if primitive.family == "elementwise":
        return [_elementwise_bar(k, primitive.name, r, mask, args) for k, r in enumerate(results)]
    if not primitive.structural and primitive.name != "contract":
        results = [_inside(m, r) for m, r in zip(masks, results, strict=True)]
    return [None if r is ZERO else Bar(r, m) for r, m in zip(results, masks, strict=True)]  # type: ignore[arg-type]


def _inside(mask: TracedArray | None, value: object) -> object:
    """`value` where `mask` is true, and zero elsewhere."""
    if mask is None or value is ZERO:
        return value
    return np.where(mask, value, np.zeros((), value.dtype))  # type: ignore[call-overload,attr-defined]


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
    return Bar(unbroadcast(bar, shape), None if mask is None else narrow_mask(mask, shape))


_SAFE = frozenset(
    {"add", "subtract", "negative", "where", "convert"}
)  # slopes are 1, -1 or a selection


def narrow_mask(mask: TracedArray, shape: tuple[int, ...]) -> TracedArray:
    """The mask of what was broadcast from `shape`: true where it is for any of the copies."""
    if mask.shape == shape:
        return mask
    lead = mask.ndim - len(shape)
    axes = (
        *range(lead),
        *(lead + i for i, n in enumerate(shape) if n == 1 and mask.shape[lead + i] != 1),
    )
    return np.reshape(np.any(mask, axis=axes), shape)  # type: ignore[return-value,arg-type]


def masks_of_arguments(
    node: Node, mask: TracedArray, args: Sequence[TracedArray], outs: Sequence[TracedArray]
) -> list[TracedArray | None]:
    """A mask of the output pulled back: true for each entry that a true one depends on.

    Exact for ops that move or add entries, reductions and products; for any other op all entries
    or none take part.
    """
    params = dict(node.params)
    if node.primitive.structural:
        weight = np.where(mask, np.ones((), outs[0].dtype), np.zeros((), outs[0].dtype))
        weight = np.broadcast_to(weight, outs[0].shape)  # type: ignore[arg-type]
        pulled = node.primitive.vjp([weight], args, outs, **params)  # type: ignore[misc]
        pulled = [p() if callable(p) else p for p in pulled]
        return [None if p is ZERO else p != 0 for p in pulled]  # type: ignore[misc]
    if node.primitive.name == "contract":
        return _contracted_masks(mask, args, str(params["subscripts"]))
    if node.primitive.family == "reduction" and "axes" in params:
        kept = np.expand_dims(mask, params["axes"])  # type: ignore[call-overload]
        return [np.broadcast_to(kept, a.shape) for a in args]  # type: ignore[misc,arg-type]
    some = np.any(mask)
    return [np.broadcast_to(some, a.shape) for a in args]  # type: ignore[misc,arg-type]


def _contracted_masks(
    mask: TracedArray, args: Sequence[TracedArray], subscripts: str
) -> list[TracedArray | None]:
    """An entry of an operand takes part if one of the products it is summed into does."""
    *operands, out = parse(subscripts)
    masks: list[TracedArray | None] = []
    for labels, arg in zip(operands, args, strict=True):
        away = tuple(k for k, label in enumerate(out) if label not in labels)
        some = np.any(mask, axis=away) if away else mask
        left = [label for label in out if label in labels]
        order = [left.index(label) for label in labels if label in left]
        shape = tuple(n if label in left else 1 for label, n in zip(labels, arg.shape, strict=True))
        there = np.reshape(np.transpose(some, order), shape)  # type: ignore[arg-type,call-overload]
        masks.append(np.broadcast_to(there, arg.shape))  # type: ignore[arg-type]
    return masks


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
