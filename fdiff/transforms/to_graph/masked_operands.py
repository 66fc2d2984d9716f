"""Products of matrices of which one operand is masked by axes that it does not have itself.

The cotangent of a batch carries a mask (`transforms/cotangent_masks.py`). Rules mask the weights
with it, since an infinite weight of a unit that is off would make a NaN: that copies the weights
for each row of the batch. Here the other operand, which has the mask's axes, is masked, and the
weights stay as they are. Terms behind the mask are then zero, or NaN where a weight is not finite;
the routine leaves those terms out where a sum is not finite. It knows them by the sign: the masked
operand is -0.0 there, and a zero that is not behind the mask is +0.0.

Our own: docs/decisions/where-protects-branches.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...facets import Lowering, Rules
from ...kernel_rule import KernelRule, Kind
from ...named_tuples import NamedTuple
from ...ops.shapes.view_ops import reshape, transpose
from ...primitive import Primitive
from ...tape import INPUT, Builder, Node, Tape


def _like_second(mask: ArrayType, x: ArrayType, zero: ArrayType) -> tuple[ArrayType, ...]:
    return (x,)


# NaN and infinities behind the mask become NaN, as the products with the zeros there would be. It
# is entered into no tape but those that kernels are made of, so that it needs no rules.
_MASKED = Primitive(
    "masked",
    "elementwise",
    Rules(_like_second, lambda mask, x, zero: np.where(mask, x + zero, -(x - x))),
    lowering=Lowering(KernelRule(Kind.MASKED, "({1} + {2}) if {0} else -({1} - {1})")),
)


class Operand(NamedTuple):
    """An operand of a product that is `value` where `mask` is true and zero elsewhere.

    The labels name the axes that each has, without axes of one entry.
    """

    mask: int
    value: int
    mask_labels: str
    value_labels: str


def masks_to_operands(tape: Tape, small_sizes: Callable[[Tape], Collection[int]]) -> Tape:
    """The program with masks moved to operands of products that have the axes of the masks.

    Not where a product has an axis of one of the `small_sizes`, which is written out.
    """
    products = {
        i: hit for i, node in enumerate(tape.nodes) if (hit := _side(tape, node)) is not None
    }
    if not products:
        return tape
    b, places = Builder(), [-1] * len(tape.nodes)
    for i in tape.inputs:
        places[i] = b.input(tape.nodes[i].type)
    for i, node in enumerate(tape.nodes):
        if node.primitive is INPUT:
            continue
        if i in products:
            places[i] = _product(b, tape, node, *products[i], places)
        else:
            args = tuple([places[a] for a in node.args])
            places[i] = b.add(node.primitive, args, node.params, None, node.types)
    rewritten = b.finish([places[o] for o in tape.outputs])
    few = small_sizes(rewritten)
    sizes = [n for i in products for a in tape.nodes[i].args for n in tape.nodes[a].type.shape]
    return tape if any(n in few for n in sizes) else rewritten


def _side(tape: Tape, node: Node) -> tuple[int, Operand] | None:
    """Which operand of a product is masked in such a way, and by what."""
    if node.primitive.kind is not Kind.CONTRACT or node.type.dtype.kind != "f":
        return None
    inputs, out = str(dict(node.params)["subscripts"]).split("->")
    sides = inputs.split(",")
    for k in (0, 1):
        operand = _masked(tape, node.args[k], sides[k])
        if operand is None:
            continue
        other = tape.nodes[node.args[1 - k]].type
        wide = {x for x, n in zip(sides[1 - k], other.shape, strict=True) if n != 1}
        own = set(operand.value_labels)
        summed = {x for x in wide if x not in out}
        free, rest = wide - own, own - wide
        mask_only = set(operand.mask_labels) - own
        whole = other.size <= tape.nodes[node.args[k]].type.size
        if (
            wide >= set(operand.mask_labels)
            and summed
            and summed <= own
            and free
            and rest
            and mask_only
            and whole
        ):
            return k, operand
    return None


def _masked(tape: Tape, i: int, labels: str) -> Operand | None:
    """Node `i`, whose axes have these labels, as a masked operand."""
    node = tape.nodes[i]
    while node.primitive.kind is Kind.TRANSPOSE:
        axes: tuple[int, ...] = dict(node.params)["axes"]
        labels = "".join(labels[axes.index(k)] for k in range(len(axes)))
        node = tape.nodes[node.args[0]]
    if node.primitive.kind is not Kind.SELECT:
        return None
    mask, value, zero = node.args
    number = tape.nodes[zero].value
    if number is None or number.size != 1 or number.item() != 0:
        return None
    return Operand(mask, value, _widened(tape, mask, labels), _widened(tape, value, labels))


def _widened(tape: Tape, i: int, labels: str) -> str:
    """The labels of a node that is broadcast to all of them, without axes of one entry."""
    shape = tape.nodes[i].type.shape
    last = labels[len(labels) - len(shape) :]
    return "".join(x for x, n in zip(last, shape, strict=True) if n != 1)


def _product(
    b: Builder, tape: Tape, node: Node, k: int, operand: Operand, places: list[int]
) -> int:
    """The product with the mask on the operand that is not number `k`."""
    inputs, out = str(dict(node.params)["subscripts"]).split("->")
    sides, args = inputs.split(","), [places[a] for a in node.args]
    other = b.type(args[1 - k])
    size = dict(zip(sides[1 - k], other.shape, strict=True))
    mask = _mask(b, places[operand.mask], operand.mask_labels, size, sides[1 - k])
    zero = b.constant(np.zeros((), other.dtype))
    args[1 - k] = b.add(_MASKED, (mask, args[1 - k], zero))
    shape = tuple(n for n in b.type(places[operand.value]).shape if n != 1)
    args[k], sides[k] = _reshaped(b, places[operand.value], shape), operand.value_labels
    return b.add(node.primitive, (args[0], args[1]), (("subscripts", f"{','.join(sides)}->{out}"),))


def _mask(b: Builder, mask: int, labels: str, size: dict[str, int], wanted: str) -> int:
    """The mask with its axes as `wanted`, of one entry where it has none."""
    order = [labels.index(x) for x in wanted if x in labels]
    mask = _reshaped(b, mask, tuple(size[x] for x in labels))
    if order != sorted(order):
        mask = b.add(transpose, (mask,), (("axes", tuple(order)),))
    return _reshaped(b, mask, tuple(size[x] if x in labels else 1 for x in wanted))


def _reshaped(b: Builder, x: int, shape: tuple[int, ...]) -> int:
    if b.type(x).shape == shape:
        return x
    return b.add(reshape, (x,), (("shape", shape),))
