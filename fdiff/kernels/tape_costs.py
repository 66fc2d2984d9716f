"""Counted costs of running a tape: operations, bytes, and the memory that NumPy holds.

Operations are counted in additions, as passes count them (`ir/operation_costs.py`): a product
counts 2, a division 4, an elementary function 20. Matrix factorisations count as in G. H. Golub and
C. F. Van Loan, Matrix Computations, 4th ed., 2013, chapters 3 to 5 and 8.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from ..arraytype import ArrayType
from ..kernel_rule import Category, KernelRule, Kind
from ..named_tuples import NamedTuple
from ..tape import CONSTANT, INPUT, ITEM, Node, Tape
from .ir.control_parameters import bodies_of
from .ir.operation_costs import SLOW, flops_of
from .passes.parallel.cost_model import matrix_work, ns_in_long_program, ns_of_product

# Seconds of NumPy for an operation whatever its size, for a byte read or written, and for an
# elementary function; fitted to values and gradients of chains of functions and of Rosenbrock's
# function of 1,000 to 1,000,000 variables on one core (EPYC Turin, NumPy 2.4): 0.7 to 1.2 of what
# was measured. ``python -m benchmarks.explain`` compares them for all cases of the benchmarks.
_OPERATION, _BYTE, _FUNCTION = 1.5e-6, 0.025e-9, 3e-9

CALL_SECONDS = 0.2e-6  # of a hot call, whatever the kernel does: docs/architecture.md

_FREE = {
    Category.LEAF, Category.VIEW, Category.NUMBERING, Category.LOOKUP, Category.STORE,
    Category.JOIN, Category.RESULT,
}  # fmt: skip
# Of each entry of the operand, or of the result.
_ONE_EACH = {Category.REDUCTION, Category.EXTREMUM, Category.SCAN, Category.SCATTER}


class TapeCosts(NamedTuple):
    """Counts of one run of a tape.

    `operations` are the nodes besides inputs and constants, `flops` their operations on numbers,
    without the ops named in `uncounted`. `moved` are bytes that NumPy reads and writes, operation
    by operation; `peak` is the most that it holds at once besides inputs and constants; `outputs`
    are bytes of the results; `numpy_seconds` what NumPy is predicted to take, `kernel_seconds` what
    a kernel is predicted to, where its text is not generated for that.
    """

    nodes: int
    operations: int
    flops: int
    uncounted: tuple[str, ...]
    moved: int
    peak: int
    outputs: int
    numpy_seconds: float
    kernel_seconds: float


def costs_of_tape(tape: Tape) -> TapeCosts:
    """The counts of a tape."""
    flops, uncounted, moved, operations, seconds = 0, dict[str, None](), 0, 0, 0.0
    kernel = 0.0
    for node in tape.nodes:
        if node.primitive in (INPUT, CONSTANT, ITEM):
            continue
        operations += 1
        operands = [tape.nodes[a] for a in node.args]
        node_flops = flops_of_node(node, operands)
        flops += node_flops or 0
        if node_flops is None:
            uncounted[node.primitive.name] = None
        if not node.primitive.structure.view:
            moved += sum(t.nbytes for t in node.types) + sum(a.type.nbytes for a in operands)
            seconds += _arithmetic_seconds(node, node_flops or 0)
            kernel += _kernel_seconds(node, operands, node_flops or 0)
    outputs = sum(tape.nodes[o].type.nbytes for o in dict.fromkeys(tape.outputs))
    return TapeCosts(
        len(tape), operations, flops, tuple(uncounted), moved, _peak(tape), outputs,
        _OPERATION * operations + _BYTE * moved + seconds, CALL_SECONDS + kernel,
    )  # fmt: skip


_costs_of_body = lru_cache(maxsize=256)(costs_of_tape)  # which several counts ask for


def _arithmetic_seconds(node: Node, flops: int) -> float:
    """Seconds of NumPy's arithmetic for a node where it exceeds the movement of data."""
    rule = node.primitive.lowering.kernel
    if rule is not None and rule.kind is Kind.CONTRACT:
        return 1e-9 * ns_of_product(flops // 2)
    if bodies := bodies_of(node):
        return _trips(node) * sum(_costs_of_body(b).numpy_seconds for b in bodies)
    size = max(node.type.size, 1)
    return _FUNCTION * size if flops // size >= SLOW else 0.0


def _kernel_seconds(node: Node, operands: Sequence[Node], flops: int) -> float:
    """Seconds of a kernel for a node, by the cost model; NaN for an unknown routine."""
    rule = node.primitive.lowering.kernel
    types = [a.type for a in operands]
    size = max(t.size for t in (*types, node.type))
    if rule is not None and rule.kind is Kind.CONTRACT:
        return 1e-9 * (ns_in_long_program(0, 2) + ns_of_product(flops // 2))
    if bodies := bodies_of(node):
        return _trips(node) * sum(_costs_of_body(b).kernel_seconds - CALL_SECONDS for b in bodies)
    name = "triangular" if rule is not None and rule.kind is Kind.TRIANGULAR_SYSTEM else ""
    if rule is not None and rule.routine is not None:
        name = rule.routine.name
    if name:
        n = types[0].shape[-1]
        stack = types[0].size // max(n * n, 1)
        columns = types[1].size // max(n * stack, 1) if len(types) > 1 else 0
        works = matrix_work(name, [str(stack), str(n), str(columns)])
        return 1e-9 * sum(work.nanoseconds(()) for work in works) if works else math.nan
    return 1e-9 * ns_in_long_program(flops // max(size, 1), size)


def flops_of_node(node: Node, operands: Sequence[Node]) -> int | None:
    """The operations of a node that reads `operands`; None where they cannot be counted."""
    rule = node.primitive.lowering.kernel
    if rule is None:
        return 0 if node.primitive.structure.view or node.primitive.structure.moves else None
    category, types = rule.kind.category, [a.type for a in operands]
    if category in _FREE:
        return 0
    if bodies := bodies_of(node):
        return _trips(node) * sum(_costs_of_body(b).flops for b in bodies)
    if category is Category.ELEMENTWISE:
        return sum(map(flops_of, _texts(rule, operands))) * node.type.size
    if category in _ONE_EACH:
        return max(t.size for t in (*types, node.type))
    if rule.kind is Kind.CONTRACT:
        return 2 * _terms(node, types)
    return _of_matrices(rule.kind, types)


def _trips(node: Node) -> int:
    """How often a node runs its bodies, at most."""
    return int(dict(node.params).get("length", 1))


def _texts(rule: KernelRule, operands: Sequence[Node]) -> tuple[str, ...]:
    """The expressions of an entry: a shorter one where the second operand is a certain number."""
    value = operands[1].value if len(operands) == 2 else None
    if value is None or value.size != 1 or not rule.constants:
        return rule.texts
    return (dict(rule.constants).get(float(value.reshape(-1)[0].real), rule.text),)


def _terms(node: Node, types: Sequence[ArrayType]) -> int:
    """How many products a contraction adds up."""
    operands = str(node.param("subscripts")).split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for labels, type_ in zip(operands, types, strict=True):
        sizes.update(zip(labels, type_.shape, strict=True))
    total = 1
    for n in sizes.values():
        total *= n
    return total


def _of_matrices(kind: Kind, types: Sequence[ArrayType]) -> int | None:
    """The operations of a factorisation, or of the solution of a system, for all matrices."""
    n = types[0].shape[-1]
    matrices = types[0].size // max(n * n, 1)
    columns = types[1].size // max(n * matrices, 1) if len(types) > 1 else 0
    if kind is Kind.CHOLESKY:
        return matrices * n**3 // 3
    if kind is Kind.SOLVE:
        return matrices * (2 * n**3 // 3 + 2 * n * n * columns)
    if kind is Kind.TRIANGULAR_SYSTEM:
        return matrices * n * n * columns
    return None


def _peak(tape: Tape) -> int:
    """The most bytes that NumPy holds at once: what no later operation reads is given back.

    A view holds the memory of what it views, and takes none of its own.
    """
    last: dict[int, int] = {}
    owner: list[int] = []
    for i, node in enumerate(tape.nodes):
        viewing = bool(node.args) and (node.primitive.structure.view or node.primitive is ITEM)
        owner.append(owner[node.args[0]] if viewing else i)
        for a in node.args:
            last[owner[a]] = i
    for o in tape.outputs:
        last[owner[o]] = len(tape.nodes)
    dies: dict[int, list[int]] = {}
    for a, i in last.items():
        dies.setdefault(i, []).append(a)
    held = peak = 0
    for i, node in enumerate(tape.nodes):
        if owner[i] == i and node.primitive not in (INPUT, CONSTANT):
            held += sum(t.nbytes for t in node.types)
        peak = max(peak, held)
        for a in dies.get(i, ()):
            if tape.nodes[a].primitive not in (INPUT, CONSTANT):
                held -= sum(t.nbytes for t in tape.nodes[a].types)
    return peak
