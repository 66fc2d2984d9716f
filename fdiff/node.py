"""A node: one operation of a tape. What its types are, and the laws that all nodes keep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fdiff.intact_numpy as np

from .arraytype import MOST_AXES, ArrayType, type_of
from .bounded_cache import keep
from .errors import TapeError
from .facets import Lowering, Rules
from .kernel_rule import KernelRule, Kind
from .named_tuples import NamedTuple
from .primitive import Primitive, register

Params = tuple[tuple[str, Any], ...]  # hashable; which names and types there are, the op decides
Types = tuple[ArrayType, ...]  # of the outputs of a node


class Constant:
    """An array held by the tape, compared by dtype, shape and bytes; never written to."""

    __slots__ = ("_hash", "array")

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self._hash: int | None = None

    def _key(self) -> tuple[object, ...]:
        return self.array.dtype, self.array.shape, self.array.tobytes()

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Constant) and self._key() == other._key())

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.array.tobytes())
        return self._hash

    def __repr__(self) -> str:
        if self.array.size > 6:
            return f"<{type_of(self.array)}>"
        return np.array2string(self.array, separator=", ").replace("\n", "")


INPUT = register(
    Primitive(
        "input",
        "leaf",
        Rules(lambda *, type_, **_: (type_,), lambda **_: None),
        lowering=Lowering(KernelRule(Kind.INPUT)),
    )
)
CONSTANT = register(
    Primitive(
        "constant",
        "leaf",
        Rules(lambda *, value: (type_of(value.array),), lambda *, value: value.array[()]),
        lowering=Lowering(KernelRule(Kind.VALUE)),
    )
)


class Node(NamedTuple):
    """One operation: primitive, ids of its arguments, static parameters, types of its outputs.

    A node with several outputs is read through ``item`` nodes only.
    """

    primitive: Primitive
    args: tuple[int, ...]
    params: Params
    types: Types

    @property
    def type(self) -> ArrayType:
        return self.types[0]

    @property
    def value(self) -> np.ndarray | None:
        """The array of a constant; None for any other node."""
        return self.params[0][1].array if self.primitive is CONSTANT else None

    def param(self, name: str) -> Any:
        """A static parameter of the op."""
        return dict(self.params)[name]

    @property
    def k(self) -> int:
        """Which output an `item` node projects."""
        return self.params[0][1]


new_node = tuple.__new__  # ``new_node(Node, (...))``: half the time of ``Node(...)``


def _infer_item(source: tuple[ArrayType, ...], *, k: int) -> tuple[ArrayType, ...]:
    return (source[k],)


ITEM = register(
    Primitive(
        "item",
        "leaf",
        Rules(_infer_item, lambda outs, *, k: outs[k]),
        lowering=Lowering(KernelRule(Kind.ITEM)),
    )
)


def operation_text(node: Node) -> str:
    """A node as it is shown: ``sum(%2, axes=(0,))``."""
    shown = [(k, repr(v) if hasattr(v, "outputs") else v) for k, v in node.params]  # no long tapes
    params = [f"{k}={v}" for k, v in shown if k != "type_"]
    return f"{node.primitive.name}({', '.join([*(f'%{a}' for a in node.args), *params])})"


def is_transient(primitive: Primitive, params: Params) -> bool:
    """Whether a node has to do with an operation that the user may drop, and that is freed then."""
    return primitive.transient or any(
        value.transient for _, value in params if hasattr(type(value), "transient")
    )


_MOST = 1 << 13  # type rules whose answers are remembered
_inferred: dict[tuple[object, ...], Types] = {}


def infer(primitive: Primitive, params: Params, operand_types: Sequence[Types]) -> Types:
    """Types of the outputs of a node, from the types of the outputs of each argument."""
    if primitive is CONSTANT:  # not remembered: the answer would keep the array
        return primitive.rules.infer(**dict(params))
    key = (primitive, params, *operand_types)
    types = _inferred.get(key)
    if types is None:
        args = operand_types if primitive is ITEM else [outs[0] for outs in operand_types]
        types = primitive.rules.infer(*args, **dict(params))
        if (axes := max([len(t.shape) for t in types], default=0)) > MOST_AXES:
            words = f"maximum supported dimension for an ndarray is currently {MOST_AXES}"
            raise ValueError(f"{words}, found {axes}")  # as NumPy says it
        if not is_transient(primitive, params):
            keep(_inferred, key, types, _MOST)
    return types


# --- laws -----------------------------------------------------------------------------------------


def check_laws(nodes: Sequence[Node], inputs: Sequence[int], outputs: Sequence[int]) -> None:
    """Check every law of a tape; `TapeError` names the node that breaks one."""
    seen: set[tuple[object, ...]] = set()
    for i, node in enumerate(nodes):
        seen.add(node[:3])
        fault = "is entered twice" if len(seen) == i else _fault(nodes, i, node)
        if fault:
            raise TapeError(f"node %{i} = {operation_text(node)} {fault}")
    there = [i for i, node in enumerate(nodes) if node.primitive is INPUT]
    if sorted(inputs) != there:
        raise TapeError(f"inputs {tuple(inputs)} are not the input nodes {there}")
    if not all(0 <= o < len(nodes) and len(nodes[o].types) == 1 for o in outputs):
        raise TapeError(f"outputs {tuple(outputs)} are not single-output nodes")


def _fault(nodes: Sequence[Node], i: int, node: Node) -> str:
    """Which law node `i` breaks, given the nodes before it; empty if it is sound."""
    primitive, args, params, types = node
    for a in args:
        if not 0 <= a < i:
            return "reads a later node"
    operand_types = [nodes[a][3] for a in args]
    if primitive is ITEM:
        if len(operand_types[0]) == 1:
            return "projects a single output"
    else:
        for outs in operand_types:
            if len(outs) != 1:
                return "reads several outputs without `item`"
    inferred = infer(primitive, params, operand_types)
    return "" if inferred == types else f"has types {types}, inferred {inferred}"
