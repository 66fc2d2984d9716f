"""Rules of scalarisation for contractions: sums of products, or of smaller contractions.

Sums over small axes are written out, which is complete loop unrolling (S. S. Muchnick, Advanced
Compiler Design and Implementation, Morgan Kaufmann 1997, section 17.4.3).
"""

from __future__ import annotations

from itertools import product
from math import prod

from ....kernel_rule import Kind
from ....named_tuples import NamedTuple
from ...ir.index_expressions import ONE
from ...ir.kernel_graph import Operation, sizes_of_labels, subscripts_data
from .component_graph import Components, Ids, is_small, places

_MOST_PRODUCTS = 64  # of a contraction


class _Labels(NamedTuple):
    """The labels of a contraction's operands and result, and the size of the axis of each."""

    sides: tuple[str, str]
    result: str
    sizes: dict[str, str]

    @property
    def few(self) -> list[str]:
        return [x for x, d in self.sizes.items() if is_small(d)]

    @property
    def many(self) -> list[str]:
        """The labels of axes that loops run over: those that are not small."""
        return [x for x, d in self.sizes.items() if d != ONE and not is_small(d)]

    @property
    def sums(self) -> bool:
        """Whether the contraction has a sum over an axis that is not small."""
        return any(x not in self.result for x in self.many)

    @property
    def matrices(self) -> bool:
        """Whether it is a product of large matrices, or of one and a vector: work for a routine."""
        free = [x for x in self.many if (x in self.sides[0]) != (x in self.sides[1])]
        return self.sums and any(x in self.result for x in free)


def contracted(new: Components, i: int, op: Operation) -> Ids | None:
    """For each component, the sum over small axes of products of the operands' components."""
    left, right, result = op.subscripts
    labels = _Labels((left, right), result, sizes_of_labels(new.old, op))
    count = prod(int(labels.sizes[x]) for x in labels.few)
    if count > _MOST_PRODUCTS or labels.matrices or op.dtype not in ("f8", "f4", "i8"):
        return None
    inner = [x for x in labels.few if x not in labels.result]
    out: list[int] = []
    for place in places(op.dims):
        at = {labels.result[k]: n for k, n in place.items()}
        spots = product(*(range(int(labels.sizes[x])) for x in inner))
        terms = [
            _product(new, op, labels, at | dict(zip(inner, spot, strict=True))) for spot in spots
        ]
        out.append(new.combined(Kind.ADD, "{0} + {1}", terms))
    return tuple(out)


def _product(new: Components, op: Operation, labels: _Labels, at: dict[str, int]) -> int:
    """One term of such a sum: the operands where the labels of small axes have the values `at`."""
    args = [
        new.at(a, {k: at[x] for k, x in enumerate(side) if x in at})
        for a, side in zip(op.args, labels.sides, strict=True)
    ]
    texts = (*labels.sides, labels.result)
    left, right, result = ("".join(x for x in text if x not in at) for text in texts)
    dims = tuple(labels.sizes[x] for x in result)
    if labels.sums:
        if left == right:
            args.sort()  # so that a product with itself, which is symmetric, has half of the terms
        data = subscripts_data(left, right, result)
        return new.add(op._replace(args=tuple(args), shapes=(dims,), data=data))
    lined = (_lined_up(new, args[0], left, result), _lined_up(new, args[1], right, result))
    return new.add(Operation(Kind.MULTIPLY, "{0} * {1}", lined, op.dtypes, (dims,), name=op.name))


def _lined_up(new: Components, i: int, side: str, labels: str) -> int:
    """An operand with its axes in the order of `labels`, and of size one where it has none."""
    own = dict(zip(side, new.ops[i].dims, strict=True))
    inside = [x for x in side if x in labels]  # others are of one entry
    i = new.reshaped(i, tuple(own[x] for x in inside))
    i = new.transposed(i, tuple(inside.index(x) for x in labels if x in inside))
    return new.reshaped(i, tuple(own.get(x, ONE) for x in labels))
