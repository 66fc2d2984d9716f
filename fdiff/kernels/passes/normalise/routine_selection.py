"""Routine selection: matrix products and systems of equations become calls of routines.

A routine reads matrices whose rows are contiguous, or that are transposes of such; all else is
copied first.

Instruction selection by patterns, whose instructions are routines (A. V. Aho, M. S. Lam, R. Sethi,
J. D. Ullman, Compilers, 2nd ed., Addison-Wesley 2007, section 8.9).
"""

from __future__ import annotations

from collections.abc import Sequence

from ....kernel_rule import Kind, Routine
from ....named_tuples import NamedTuple
from ...ir.index_expressions import ONE, Axes, Dims, inverse, nonunit, same_nonunit, size, strides
from ...ir.kernel_graph import (
    Data,
    KernelGraph,
    Operation,
    is_masked,
    sizes_of_labels,
    subscripts_data,
    users_of,
)
from .graph_rewrite import GraphRewrite


class _WithRoutines(GraphRewrite):
    """The graph in the making; `copies` has the copies of operands, each made once."""

    def __init__(self, graph: KernelGraph) -> None:
        super().__init__(graph)
        self.copies: dict[int, int] = {}

    def contiguous(self, i: int) -> int:
        """Operation `i`, or a copy if it is a number, or an input that may be strided."""
        op = self.ops[i]
        is_input = op.kind is Kind.INPUT
        strided = is_input and op.data[1] == "A" and bool(nonunit(op.dims))
        number = op.kind is Kind.VALUE or (is_input and not op.dims)
        return self.copy_of(i) if strided or number else i

    def copy_of(self, i: int) -> int:
        """The copy of operation `i`, made once."""
        if i not in self.copies:
            self.copies[i] = self.copied(i)
        return self.copies[i]

    def in_order(self, i: int, dims: Dims) -> int:
        """Operation `i` as an operand of an elementwise operation of shape `dims`.

        A transposed input that is broadcast along another axis is copied first: so it is read once,
        not repeatedly, against the order of memory.
        """
        op = self.ops[i]
        if len(nonunit(op.dims)) >= len(nonunit(dims)):
            return i
        a = op.args[0] if op.kind is Kind.RESHAPE and op.args else i
        source = self.ops[a]
        kinds = (Kind.INPUT, Kind.ARRAY)
        if source.kind is not Kind.TRANSPOSE or self.ops[source.args[0]].kind not in kinds:
            return i
        wide = [k for k, d in zip(source.axes, source.dims, strict=True) if d != ONE]
        return i if wide == sorted(wide) else self.reshaped(self.copy_of(a), op.dims)


def select_routines(graph: KernelGraph) -> KernelGraph:
    """The graph with routines for matrix products and systems, and the copies they need."""
    new = _WithRoutines(graph)
    for i, op in enumerate(_transposes_in_contractions(graph)):
        args = tuple([new.place[a] for a in op.args])
        new.place[i] = _rewrite(new, op.reading(args))
    return new.finished()


def _transposes_in_contractions(graph: KernelGraph) -> tuple[Operation, ...]:
    """The operations of a graph, with transposes of contractions absorbed.

    A contraction that only one transpose reads has its result in the transposed order at once.
    """
    users = users_of(graph)
    ops = list(graph.ops)
    for i, op in enumerate(ops):
        if op.kind is not Kind.TRANSPOSE:
            continue
        (a,) = op.args
        if ops[a].kind is not Kind.CONTRACT or len(users[a]) > 1 or a in graph.outputs:
            continue
        left, right, out = ops[a].subscripts
        data = subscripts_data(left, right, "".join(out[k] for k in op.axes))
        ops[a] = ops[a]._replace(shapes=op.shapes, data=data)
        ops[i] = op._replace(data=(("axes", tuple(range(len(op.axes)))),))
    return tuple(ops)


def _rewrite(new: _WithRoutines, op: Operation) -> int:
    """The number of the new operation for `op`, whose operands are new operations."""
    if op.kind is Kind.CONTRACT and op.dtype[0] == "f":
        return _contract(new, op)
    if op.kind is Kind.TRANSPOSE:
        return new.transposed(op.args[0], op.axes)
    if op.kind is Kind.SOLVE:
        return _solve(new, op)
    if op.kind is Kind.TRIANGULAR_SYSTEM:
        return _substituted(new, op)
    if op.routine is not None and op.routine.broadcast:
        args = tuple([new.contiguous(new.broadcast(a, op.dims)) for a in op.args])
        return new.add(op.reading(args))
    if op.kind.is_routine or (
        op.kind is Kind.RESHAPE and not same_nonunit(op.dims, new.ops[op.args[0]].dims)
    ):
        return new.add(op.reading(tuple([new.contiguous(a) for a in op.args])))
    if op.kind is Kind.GATHER:
        x, *indices = op.args
        lead = op.dims[: len(op.dims) - (len(new.ops[x].dims) - len(indices))]
        source = new.contiguous(x) if new.ops[x].kind is Kind.VALUE else x
        return new.add(op.reading((source, *[new.broadcast(i, lead) for i in indices])))
    if op.kind is Kind.SCATTER_ADD:
        bar, *indices = op.args
        widest = max((new.ops[i].dims for i in indices), key=lambda d: (len(d), len(nonunit(d))))
        return new.add(op.reading((bar, *[new.broadcast(i, widest) for i in indices])))
    if op.text and op.args:
        return new.add(op.reading(tuple([new.in_order(a, op.dims) for a in op.args])))
    return new.add(op)


def _solve(new: _WithRoutines, op: Operation) -> int:
    """A system of linear equations; substitutions are enough where the matrix is a Cholesky factor.

    A Cholesky factor has a positive diagonal, so that it is never singular.
    """
    a = op.args[0]
    below = _matrix_below_transpose(new, a)
    low = a if below is None else below
    if new.ops[low].kind is Kind.CHOLESKY:
        return _system(new, _triangular(op, flip=below is not None), low)
    return _system(new, op, a)


def _substituted(new: _WithRoutines, op: Operation) -> int:
    """A triangular system, by the routine for lower matrices: an upper one is transposed."""
    low, flip = op.args[0], op.parameter("trans", bool)
    if not op.parameter("lower", bool):
        below, flip = _matrix_below_transpose(new, low), not flip
        low = new.transposed(low, _swapped(new.ops[low].dims)) if below is None else below
    kind = "unit" if op.parameter("unit", bool) else "checked"
    return _system(new, _triangular(op, flip=flip, kind=kind), low)


def _triangular(op: Operation, *, flip: bool, kind: str = "") -> Operation:
    """The call of the routine for triangular systems; `flip`: of the transposed matrix."""
    routine = Routine(f"triangular{int(flip)}{kind}", columns=True, inline=4)
    return op._replace(kind=Kind.ROUTINE, data=(), name="triangular", routine=routine)


def _system(new: _WithRoutines, op: Operation, a: int) -> int:
    """The call for a system with matrix `a`; both operands are broadcast over the whole stack."""
    square = (*op.dims[:-2], *new.ops[a].dims[-2:])
    args = (new.broadcast(a, square), new.broadcast(op.args[1], op.dims))
    return new.add(op.reading(tuple([new.contiguous(i) for i in args])))


def _matrix_below_transpose(new: _WithRoutines, a: int) -> int | None:
    """The operation whose matrix transpose is `a`; None if `a` is no such transpose."""
    op = new.ops[a]
    is_transpose = op.kind is Kind.TRANSPOSE and op.axes == _swapped(op.dims)
    return op.args[0] if is_transpose else None


def _swapped(dims: Dims) -> Axes:
    """The permutation that transposes matrices in a stack."""
    last = len(dims) - 1
    return (*range(last - 1), last, last - 1)


def _contract(new: _WithRoutines, op: Operation) -> int:
    """``[batch] m k, [batch] k n -> [batch] m n``: each a group of axes, in several orders.

    Rows may have any stride, so ``kij, nkj -> nki`` needs no copy. What a product of matrices
    cannot take is transposed; what has no columns, rows or sum stays a plain loop nest.
    """
    left, right, out = op.subscripts
    sizes = sizes_of_labels(new.ops, op)
    a, left = _untransposed(new, op.args[0], left)
    b, right = _untransposed(new, op.args[1], right)
    stack, m, n, k = _groups(left, right, out)
    if not k:
        return _multiplied(new, op, (a, left), (b, right), out)
    if out in (stack + n + m, n + stack + m):
        a, b, left, right, m, n = b, a, right, left, n, m
    if not all(any(sizes[x] != ONE for x in group) for group in (m, n, k)):
        return new.add(op._replace(args=(a, b), data=subscripts_data(left, right, out)))
    first = _arranged(new, a, left, stack, m, k)
    second = _arranged(new, b, right, stack, k, n)
    labels = out if out == m + stack + n else stack + m + n
    dims = tuple(sizes[x] for x in labels)
    places = (*first.steps, *second.steps, *_steps(labels, dims, stack, m))
    counts = tuple(size(tuple(sizes[x] for x in group)) for group in (stack, m, k, n))
    data: Data = (
        ("flips", f"{first.flip}{second.flip}"),
        ("sizes", (*counts, *places)),
    )
    args = (new.contiguous(first.op), new.contiguous(second.op))
    routine = Routine(f"matmul{_masked(new, a, b)}")
    product = Operation(Kind.MATMUL, "", args, op.dtypes, (dims,), data, op.name, routine)
    return new.transposed(new.add(product), tuple(labels.index(x) for x in out))


def _masked(new: _WithRoutines, a: int, b: int) -> str:
    """A suffix of the routine: which operand has -0.0 where terms are to be left out."""
    return next((f"_{k}" for k, i in zip("ab", (a, b), strict=True) if is_masked(new.ops, i)), "")


def _multiplied(
    new: _WithRoutines, op: Operation, first: tuple[int, str], second: tuple[int, str], out: str
) -> int:
    """A contraction without a sum as an elementwise product, which fuses with its readers."""
    args: list[int] = []
    for i, labels in (first, second):
        order = tuple(labels.index(x) for x in out if x in labels)
        ordered = new.transposed(i, order)
        sizes = dict(zip((x for x in out if x in labels), new.ops[ordered].dims, strict=True))
        args.append(new.reshaped(ordered, tuple(sizes.get(x, ONE) for x in out)))
    text, types = "{0} * {1}", (op.dtypes, op.shapes)
    return new.add(Operation(Kind.MULTIPLY, text, tuple(args), *types, name=op.name))


def _untransposed(new: _WithRoutines, i: int, labels: str) -> tuple[int, str]:
    """The operation below transposes of an operand, and the labels of its axes."""
    while new.ops[i].kind is Kind.TRANSPOSE:
        labels = "".join(labels[k] for k in inverse(new.ops[i].axes))
        i = new.ops[i].args[0]
    return i, labels


def reads_without_copy(ops: Sequence[Operation], i: int, operand: int, order: Axes) -> bool:
    """Whether operation `i` is a matrix product that reads an operand without copying it.

    `order` is the order in memory of the operand's axes.
    """
    if ops[i].kind is not Kind.CONTRACT or ops[i].dtype[0] != "f":
        return False
    left, right, out = ops[i].subscripts
    sizes = sizes_of_labels(ops, ops[i])
    stack, m, n, k = _groups(left, right, out)
    if not all(any(sizes[x] != ONE for x in group) for group in (m, n, k)):
        return False
    sides = zip(ops[i].args, (left, right), (m, n), strict=True)
    return all(
        _is_transposed_in_memory("".join(own[a] for a in order), stack, rows, k) is not None
        for a, own, rows in sides
        if a == operand
    )


def _is_transposed_in_memory(labels: str, stack: str, rows: str, columns: str) -> int | None:
    """0 for matrices with rows first, 1 for transposed ones, None if the operand must be copied."""
    if labels in (stack + rows + columns, rows + stack + columns):
        return 0
    return 1 if labels in (stack + columns + rows, columns + stack + rows) else None


def _groups(left: str, right: str, out: str) -> tuple[str, str, str, str]:
    """The labels of the stack, of rows, of columns and of the sum, as `_contract` needs them."""
    return (
        "".join(x for x in out if x in left and x in right),
        "".join(x for x in out if x not in right),
        "".join(x for x in out if x not in left),
        "".join(x for x in left if x not in out),
    )


class _Operand(NamedTuple):
    """An operand of a matrix product: whether it is transposed, strides of matrices and rows."""

    op: int
    flip: int
    steps: tuple[str, str]


def _arranged(
    new: _WithRoutines, i: int, labels: str, stack: str, rows: str, columns: str
) -> _Operand:
    """The operand as it lies in memory if the routine can read that; else its transpose."""
    flip = _is_transposed_in_memory(labels, stack, rows, columns)
    if flip is not None:
        outer = columns if flip else rows
        return _Operand(i, flip, _steps(labels, new.ops[i].dims, stack, outer))
    wanted = stack + rows + columns
    i = new.transposed(i, tuple(labels.index(x) for x in wanted))
    return _Operand(i, 0, _steps(wanted, new.ops[i].dims, stack, rows))


def _steps(labels: str, dims: Dims, stack: str, outer: str) -> tuple[str, str]:
    """The strides from one matrix of the stack to the next, and from one row to the next."""
    step = dict(zip(labels, strides(dims), strict=True))
    return step[stack[-1]] if stack else "0", step[outer[-1]]
