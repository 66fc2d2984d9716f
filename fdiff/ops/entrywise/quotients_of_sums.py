"""Quotients whose numerator is a term of the denominator, such as `x / (1 + x)`, as one op each.

The rule of a quotient gives ``1 / d - x / d / d`` for ``x / d`` with d = x + y: a difference of equal numbers
for x much larger than y (cancellation: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM
2002, section 1.7). The op's own rule gives ``y / d / d``.
"""

from __future__ import annotations

from collections.abc import Sequence

import fdiff.intact_numpy as np

from ...primitive import Primitive
from ...tape import Node
from ...trace import TracedArray, apply
from ...trace.operation_cache import LOOKING_BACK
from .accurate_partials import slope_op
from .sample_domains import positive, real

_MOST = 64  # nodes compared before two values count as different


def _term_slopes(
    x: TracedArray, y: TracedArray, out: TracedArray, under: TracedArray, sign: int
) -> tuple[object, object]:
    """The slopes of ``x / under`` where `under` is ``x`` or ``-x`` plus ``sign * y``."""
    by_x, by_y = (y / under) / under, out / under
    return (by_x, -by_y) if sign == 1 else (-by_x, by_y)


def _slopes_over_sum(x: TracedArray, y: TracedArray, out: TracedArray) -> object:
    return _term_slopes(x, y, out, x + y, 1)


def _slopes_over_difference(x: TracedArray, y: TracedArray, out: TracedArray) -> object:
    return _term_slopes(x, y, out, x - y, -1)


def _slopes_under(x: TracedArray, y: TracedArray, out: TracedArray) -> object:
    return _term_slopes(x, y, out, y - x, 1)


over_sum = slope_op("over_sum", _slopes_over_sum, lambda x, y: x / (x + y), positive, positive, text="{0} / ({0} + {1})")
over_difference = slope_op("over_difference", _slopes_over_difference, lambda x, y: x / (x - y), real, positive, text="{0} / ({0} - {1})")
over_difference_from = slope_op("over_difference_from", _slopes_under, lambda x, y: x / (y - x), real, positive, text="{0} / ({1} - {0})")


def _same(nodes: Sequence[Node], left: int, right: int) -> bool:
    """Whether two nodes compute the same value; eager traces do not share equal nodes."""
    pairs = [(left, right)]
    for _ in range(_MOST):
        if not pairs:
            return True
        a, b = pairs.pop()
        if a == b:
            continue
        x, y = nodes[a], nodes[b]
        if not x.args and (x.value is None or y.value is None):  # inputs, or numbers of eager traces
            return False
        if x.primitive is not y.primitive or x.types != y.types or x.params != y.params:
            return False
        pairs += zip(x.args, y.args, strict=True)
    return False


def _term(nodes: Sequence[Node], x: int, d: int) -> tuple[Primitive, int] | None:
    """The op for ``x / d`` and the other term of the sum `d`; None where `x` is not a term of `d`."""
    node, numerator = nodes[d], nodes[x]
    name = node.primitive.name
    if name not in ("add", "subtract") or numerator.value is not None:
        return None
    if node.type.shape and not numerator.type.shape:  # may be a constant, which templates of rules do not know
        return None
    first, second = node.args
    dtypes = {nodes[i].types[0].dtype for i in (x, d, first, second)}
    if first == second or len(dtypes) > 1 or dtypes.pop().kind != "f":
        return None
    if _same(nodes, x, first):
        return (over_sum if name == "add" else over_difference), second
    if _same(nodes, x, second):
        return (over_sum if name == "add" else over_difference_from), first
    return None


def over_a_sum(x: TracedArray, d: TracedArray) -> TracedArray | None:
    """``x / d`` as one op where `d` is a sum or difference of `x` and something else; None where it is not."""
    nodes = x.home.builder.nodes
    term = _term(nodes, x.id, d.id)
    if term is None:
        return None
    op, other = term
    return apply(op, x, TracedArray(x.home, other, nodes[other].types[0]))


def _other_term(nodes: Sequence[Node], ids: Sequence[int]) -> tuple[object, tuple[int, ...]]:
    term = _term(nodes, *ids) if len(ids) == 2 else None
    return (None, ()) if term is None else ((term[0].name, nodes[term[1]].types), (term[1],))


LOOKING_BACK[np.divide] = _other_term
