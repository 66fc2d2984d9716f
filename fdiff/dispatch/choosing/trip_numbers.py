"""Uses of the number of a trip in a loop's body: docs/decisions/loops-that-choose-branches.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import fdiff.intact_numpy as np

from ...arraytype import BOOL, INT
from ...node import Node
from ...primitive import PRIMITIVES, Primitive
from ...tape import Builder, Tape
from .variables import RefusedLoopError

_SINGLE = np.dtype("f4"), np.dtype("c8")
_TYPES = (np.dtype(float), np.dtype(complex), *_SINGLE, INT, BOOL)
_ADD, _SUBTRACT, _MULTIPLY, _NEGATIVE, _ABSOLUTE, _CONVERT, _NOT, _POWER, _DIVIDE, _FLOOR, _MOD = (
    PRIMITIVES[name]
    for name in ("add", "subtract", "multiply", "negative", "absolute", "convert", "logical_not",
                 "power", "divide", "floor_divide", "remainder")
)  # fmt: skip
DIVIDING = {_POWER, _DIVIDE, _FLOOR, _MOD}
_EQUAL = {PRIMITIVES[name] for name in ("equal", "not_equal")}
_COMPARING = _EQUAL | {
    PRIMITIVES[name] for name in ("less", "less_equal", "greater", "greater_equal")
}
_OF_TRUTH = _COMPARING | {PRIMITIVES[name] for name in ("logical_and", "logical_or")}
_AND, _RIGHT, *_OR = (
    PRIMITIVES[name] for name in ("bitwise_and", "right_shift", "bitwise_or", "bitwise_xor")
)
OF_PYTHON = {
    _ADD,
    _SUBTRACT,
    _MULTIPLY,
    _NEGATIVE,
    _ABSOLUTE,
    _CONVERT,
    *DIVIDING,
    *_COMPARING,
    _AND,
    _RIGHT,
    *_OR,
}
_LIMIT = 1 << 53  # up to which floats are integers, too
_FARTHEST = 700.0  # logarithm of a float that does not overflow


def check_numbers(
    tape: Tape, largest: Mapping[int, int], outs: Iterable[int], divided: Mapping[int, int]
) -> set[int]:
    """The nodes that depend on traced values; RefusedLoopError if NumPy may differ from Python.

    Numbers that depend on the number of the trip and on counters alone are Python's; `largest` are
    the sizes of these by their nodes. Sums and products of them must not be larger than floats tell
    apart, and `outs`, what other variables hold after a trip, are none of them. Numbers of
    Python's adapt to other types than their own, which are refused. So are sums of truth values.
    """
    moving, own, python = {*tape.inputs} - {*largest}, {*largest}, {*largest}
    sizes = {**largest}
    if max(largest.values(), default=0) >= _LIMIT:
        raise RefusedLoopError("it counts further than floats tell numbers apart")
    for i, node in enumerate(tape.nodes):
        primitive, args, _, types = node
        _check_types(node)
        if i in largest:
            continue
        if not moving.isdisjoint(args):
            moving.add(i)
        elif not own.isdisjoint(args):
            own.add(i)
            sizes[i] = divided[i] if i in divided else _size(tape, node, sizes)
            fixed = [a for a in args if a not in own]
            single = [*types, *[tape.nodes[a].type for a in fixed]]
            if primitive in OF_PYTHON and python.issuperset({*args} - {*fixed}):
                python |= {i} if not any(t.shape for t in single) else set()
    if not python.isdisjoint(outs):
        raise RefusedLoopError("a variable holds a Python number that changes")
    return moving


def size_of_number(nodes: Builder, node: int, own: Mapping[int, int]) -> int | None:
    """The largest size of a number computed from the Python numbers `own`; None of others."""
    primitive, args, _, types = nodes.nodes[node]
    single = [*types, *[nodes.nodes[a].type for a in args]]
    fixed = all(a in own or nodes.nodes[a].value is not None for a in args)
    if not fixed or primitive not in OF_PYTHON or any(t.shape for t in single):
        return None
    return _size(nodes, nodes.nodes[node], own)


def check_precision(tape: Tape) -> None:
    """Refuse single precision, to which NumPy floats of 64 bits do not adapt."""
    if any(t.dtype in _SINGLE for node in tape.nodes for t in node.types):
        raise RefusedLoopError(
            "it computes in single precision, and a Python number becomes a NumPy number"
        )


def _check_types(node: Node) -> None:
    """Refuse what Python numbers adapt to, and sums of truth values, which Python counts."""
    if any(t.dtype not in _TYPES for t in node.types):
        raise RefusedLoopError("it computes in other types than floats of 32 and 64 bits and int64")
    single = node.primitive in (_ADD, _MULTIPLY, _NOT) and not node.types[0].shape
    if single and node.types[0].dtype == BOOL:
        raise RefusedLoopError("it computes with truth values")


def _size(tape: Tape | Builder, node: Node, sizes: Mapping[int, int]) -> int:
    """The largest size of the Python numbers that a node may be; 0 of floats."""
    primitive, args, _, types = node
    if _is_exponential(tape, node, sizes):
        return 0
    if primitive in DIVIDING:
        divisor = tape.nodes[args[1]].value
        whole = types[0].floating and divisor is not None and np.all(divisor == np.floor(divisor))
        power = primitive is _POWER and types[0].floating and not whole
        if power or divisor is None or not np.all(divisor > 0):
            raise _refused(primitive)
    if types[0].floating or primitive in _OF_TRUTH:
        return 0 if types[0].floating else 1
    parts = [sizes[a] if a in sizes else _size_of(tape.nodes[a].value) for a in args]
    if primitive in (_ADD, _SUBTRACT):
        size = sum(parts)
    elif primitive is _MULTIPLY:
        size = parts[0] * parts[1]
    elif primitive is _POWER:
        size = parts[0] ** min(parts[1], 64)
    elif primitive in (_NEGATIVE, _ABSOLUTE, _FLOOR, _CONVERT):
        if tape.nodes[args[0]].types[0].floating:
            raise _refused(primitive)
        size = parts[0]
    elif primitive is _MOD:
        size = parts[1]
    elif primitive in (_AND, *_OR):
        size = 1 << max(parts).bit_length()
    elif (
        primitive is _RIGHT and (shift := tape.nodes[args[1]].value) is not None and 0 <= shift < 63
    ):
        size = parts[0]
    else:
        raise _refused(primitive)
    if size >= _LIMIT:
        raise _refused(primitive)
    return size


def _is_exponential(tape: Tape | Builder, node: Node, sizes: Mapping[int, int]) -> bool:
    """Whether a node is a power of a positive float that cannot overflow, as Python's would."""
    if node.primitive is not _POWER or not node.type.floating:
        return False
    (base, exponent), nodes = node.args, tape.nodes
    if nodes[exponent].primitive is _CONVERT:
        (exponent,) = nodes[exponent].args
    value, most = nodes[base].value, sizes.get(exponent)
    if value is None or not most or not np.all((value > 0) & np.isfinite(value)):
        return False
    return bool(np.all(np.abs(np.log(value)) * most < _FARTHEST))


def _size_of(value: object) -> int:
    """The largest size of integers, or of truth values."""
    numbers = np.asarray(value)
    return max(map(abs, map(int, (numbers.min(), numbers.max())))) if numbers.size else 0


def _refused(primitive: Primitive) -> RefusedLoopError:
    return RefusedLoopError(f"it computes {primitive.name} of the number of a trip")


def check_condition(tape: Tape, node: int) -> None:
    """Refuse a condition that may hold at one point alone: that numbers are equal."""
    waiting, seen = [node], {node}
    while waiting:
        primitive, args, *_ = tape.nodes[waiting.pop()]
        numbers = any(tape.nodes[a].type.floating for a in args)
        if numbers and primitive in _EQUAL:
            raise RefusedLoopError("a condition may hold at one point alone")
        more = [a for a in args if tape.nodes[a].type.dtype == BOOL and a not in seen]
        seen.update(more)
        waiting += more
