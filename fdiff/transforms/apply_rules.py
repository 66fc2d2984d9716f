"""Derivative rules of one node, asked of traced arrays: cotangents, tangents, batching.

Tangents and cotangents as in A. Griewank and A. Walther, Evaluating Derivatives, SIAM 2008,
chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import message
from ..primitive import ZERO
from ..tape import Node
from ..trace import Array
from .cotangent_masks import Bar, elementwise_bar, inside, mask_of_seeds, masks_of_arguments


def pull(
    node: Node,
    seeds: Sequence[object],
    args: Sequence[Array],
    outs: Sequence[Array],
    needed: Sequence[bool],
) -> list[Bar | None]:
    """Cotangents of the `needed` arguments of one node; None where there is none.

    A rule may give a function in place of a cotangent: it is called only where that is needed.
    """
    primitive, params = node.primitive, dict(node.params)
    if primitive.rules.vjp is None:
        raise NotImplementedError(message("vjp", f"{primitive.name} has no reverse rule."))
    if primitive.rules.told_needs:
        params["needed"] = needed
    if primitive.rules.pulls_masks:
        pulled = primitive.rules.vjp(seeds, args, outs, **params)
        return [
            bar if n and isinstance(bar, Bar) else None
            for bar, n in zip(pulled, needed, strict=True)
        ]
    mask = mask_of_seeds(primitive, seeds)
    plain = [s.value if isinstance(s, Bar) else ZERO for s in seeds]
    masks: list[Array | None] = [None] * len(args)
    if mask is not None and primitive.family != "elementwise":
        masks = masks_of_arguments(node, mask, args, outs)
        if primitive.structure.masks is not None:
            # The rule sums over entries whose cotangent is zero, and 0 * NaN is NaN.
            args = [inside(m, a) for m, a in zip(masks, args, strict=True)]
    results: list[Any] = [
        (r() if callable(r) else r) if need else ZERO
        for r, need in zip(primitive.rules.vjp(plain, args, outs, **params), needed, strict=True)
    ]
    if primitive.family == "elementwise":
        return [elementwise_bar(k, primitive, r, mask, args) for k, r in enumerate(results)]
    if not primitive.structure.structural and primitive.structure.masks is None:
        results = [inside(m, r) for m, r in zip(masks, results, strict=True)]
    return [None if r is ZERO else Bar(r, m) for r, m in zip(results, masks, strict=True)]


def push(
    node: Node, dots: Sequence[object], args: Sequence[Array], outs: Sequence[Array]
) -> Sequence[object]:
    """Tangents of the outputs of one node; `ZERO` where there is none."""
    if not any(t.floating for t in node.types):
        return [ZERO] * len(outs)
    if node.primitive.rules.jvp is None:
        raise NotImplementedError(message("jvp", f"{node.primitive.name} has no forward rule."))
    return node.primitive.rules.jvp(dots, args, outs, **dict(node.params))


def widen(node: Node, args: Sequence[Array], mapped: Sequence[bool], size: int) -> Sequence[object]:
    """Outputs of one node with a leading axis of `size`, which the `mapped` arguments carry."""
    if node.primitive.rules.batch is None:
        fact = f"{node.primitive.name} has no batching rule."
        raise NotImplementedError(message("vmap", fact))
    return node.primitive.rules.batch(args, mapped, size, **dict(node.params))
