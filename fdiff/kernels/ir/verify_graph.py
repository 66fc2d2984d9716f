"""Verification of kernel graphs, after each pass over them.

Operands come before their readers; every operation has a type for each result, of sizes that the
graph has; inputs and outputs exist; and of each kind, shapes and dtypes of operands and result
agree. Checked where ``FDIFF_VERIFY`` is set, as it is in all tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from ...errors import TapeError
from ...kernel_rule import Category, Kind
from .expression_names import names_in, table_entry
from .index_expressions import ONE, Dims, nonunit
from .kernel_graph import KernelGraph, Operation
from .operation_costs import formula_facts
from .printing import operation_text

_Operands = Sequence[Operation]


def verify_graph(graph: KernelGraph, place: str = "") -> KernelGraph:
    """Check every law; return the graph, or raise `TapeError` that names the operation.

    `place` tells where in the compiler that is.
    """
    where = f" {place}" if place else ""
    for i, op in enumerate(graph.ops):
        if fault := _fault(graph, i, op):
            text = operation_text(i, op)
            raise TapeError(f"a kernel graph breaks a law{where}: {fault} ({text})")
    count = len(graph.ops)
    for k, i in enumerate(graph.inputs):
        if not (i < count and graph.ops[i].kind is Kind.INPUT and graph.ops[i].data[0] == k):
            raise TapeError(f"a kernel graph breaks a law{where}: input {k} is not %{i}")
    if missing := [o for o in graph.outputs if not 0 <= o < count]:
        raise TapeError(f"a kernel graph breaks a law{where}: there is no output %{missing[0]}")
    return graph


def _fault(graph: KernelGraph, i: int, op: Operation) -> str:
    """The fault of an operation, in words; empty if there is none."""
    for a in op.args:
        if not 0 <= a < i:
            return f"%{a} is read before it is computed"
    if not op.dtypes or len(op.dtypes) != len(op.shapes):
        return f"{len(op.dtypes)} dtypes for {len(op.shapes)} shapes"
    for dims in op.shapes:
        for dim in dims:
            if _last_size(dim) >= graph.sizes:
                return f"{dim} is no size of the graph"
    operands = [graph.ops[a] for a in op.args]
    if op.kind is not Kind.ITEM:
        for p in operands:
            if len(p.shapes) != 1:
                return "an operand has several results"
    check = _BY_KIND.get(op.kind) or _BY_CATEGORY.get(op.kind.category)
    return check(op, operands) if check is not None else ""


@lru_cache(maxsize=4096)
def _last_size(dim: str) -> int:
    """The largest number of a size in an expression; -1 if there is none."""
    entries = [entry for name in names_in(dim) if (entry := table_entry(name))]
    return max((number for letter, number in entries if letter == "n"), default=-1)


# --- laws of kinds: each gives the fault, or nothing ---------------------------------------------


def _leaf(op: Operation, operands: _Operands) -> str:
    return "a leaf with operands" if operands else ""


def _elementwise(op: Operation, operands: _Operands) -> str:
    last = formula_facts(op.text).operands - 1
    if last >= len(operands):
        return f"its text reads operand {last} of {len(operands)}"
    for p in operands:
        if not _broadcasts(p.dims, op.dims):
            return f"an operand of shape {_shape(p.dims)} does not broadcast to {_shape(op.dims)}"
    return ""


def _broadcasts(source: Dims, dims: Dims) -> bool:
    """Whether an array of shape `source` can be read as one of shape `dims`."""
    lead = len(dims) - len(source)
    if lead < 0:
        return not nonunit(source[:-lead]) and _broadcasts(source[-lead:], dims)
    return source == dims or all(d in (ONE, n) for d, n in zip(source, dims[lead:], strict=True))


def _shape(dims: Dims) -> str:
    return f"[{', '.join(dims)}]"


def _same_dtype(op: Operation, source: Operation) -> str:
    return "" if op.dtype == source.dtype else f"{op.dtype} of an operand that is {source.dtype}"


def _transpose(op: Operation, operands: _Operands) -> str:
    (source,) = operands
    if sorted(op.axes) != list(range(len(source.dims))):
        return f"axes of an operand with {len(source.dims)} axes"
    if op.dims != tuple(source.dims[a] for a in op.axes):
        return f"another shape than {_shape(source.dims)} transposed"
    return _same_dtype(op, source)


def _view(op: Operation, operands: _Operands) -> str:
    (source,) = operands
    return _same_dtype(op, source)


def _broadcast(op: Operation, operands: _Operands) -> str:
    (source,) = operands
    if not _broadcasts(source.dims, op.dims):
        return f"{_shape(source.dims)} does not broadcast to {_shape(op.dims)}"
    return _same_dtype(op, source)


def _slice(op: Operation, operands: _Operands) -> str:
    """A slice, its transpose, or a store into one: as many axes here as there."""
    if any(len(p.dims) != len(op.dims) for p in operands):
        return f"operands with other axes than {_shape(op.dims)}"
    if len(op.slices) != len(op.dims):
        return f"{len(op.slices)} starts on {len(op.dims)} axes"
    return next(filter(None, (_same_dtype(op, p) for p in operands)), "")


def _update(op: Operation, operands: _Operands) -> str:
    if operands[0].dims != op.dims:
        return f"a store into an array of another shape, {_shape(operands[0].dims)}"
    return _slice(op, operands)


def _reduction(op: Operation, operands: _Operands) -> str:
    (source,) = operands
    axes = set(op.axes)
    left = tuple(d for a, d in enumerate(source.dims) if a not in axes)
    return "" if op.dims == left else f"{_shape(source.dims)} without its axes is {_shape(left)}"


def _scan(op: Operation, operands: _Operands) -> str:
    if any(not _broadcasts(p.dims, op.dims) for p in operands):
        return f"operands of other shapes than {_shape(op.dims)}"
    within = 0 <= op.parameter("axis", int) < len(op.dims)
    return "" if within else "an axis that there is not"


def _contraction(op: Operation, operands: _Operands) -> str:
    sizes: dict[str, str] = {}
    for labels, p in zip(op.subscripts, (*operands, op), strict=True):
        if len(labels) != len(p.dims):
            return f"subscripts {labels} of the shape {_shape(p.dims)}"
        for label, dim in zip(labels, p.dims, strict=True):
            if sizes.setdefault(label, dim) != dim:
                return f"the subscript {label} is both {sizes[label]} and {dim}"
    return ""


def _concatenation(op: Operation, operands: _Operands) -> str:
    axis = op.parameter("axis", int)

    def others(dims: Dims) -> Dims:
        return (*dims[:axis], *dims[axis + 1 :])

    if any(others(p.dims) != others(op.dims) for p in operands):
        return "operands that differ on other axes"
    return next(filter(None, (_same_dtype(op, p) for p in operands)), "")


def _item(op: Operation, operands: _Operands) -> str:
    (source,) = operands
    k = op.parameter("k", int)
    if not 0 <= k < len(source.shapes):
        return f"result {k} of {len(source.shapes)}"
    agrees = (op.dtype, op.dims) == (source.dtypes[k], source.shapes[k])
    return "" if agrees else "another type than the result it stands for"


def _control(op: Operation, operands: _Operands) -> str:
    """A loop or a switch: what its bodies carry keeps its type, and they give all results."""
    counts = {len(body.outputs) for body in op.bodies}
    if op.kind is Kind.WHILE:
        counts = {len(op.bodies[0].outputs) + 1}
    if counts != {len(op.shapes)}:
        return f"{len(op.shapes)} results of bodies that give {sorted(counts)}"
    for body in op.bodies:
        pairs = zip(body.inputs[: body.carries], body.outputs, strict=False)
        for k, (i, o) in enumerate(pairs):
            before, after = body.ops[i], body.ops[o]
            if (before.dtype, before.dims) != (after.dtype, after.dims):
                return f"carry {k} is another type after a trip"
    return ""


_Law = Callable[[Operation, _Operands], str]
_BY_KIND: dict[Kind, _Law] = {
    Kind.TRANSPOSE: _transpose,
    Kind.RESHAPE: _view,
    Kind.BROADCAST: _broadcast,
    Kind.SLICE: _slice,
    Kind.UNSLICE: _slice,
    Kind.UPDATE: _update,
    Kind.CONTRACT: _contraction,
    Kind.CONCATENATE: _concatenation,
    Kind.ITEM: _item,
}
_BY_CATEGORY: dict[Category, _Law] = {
    Category.LEAF: _leaf,
    Category.NUMBERING: _leaf,
    Category.ELEMENTWISE: _elementwise,
    Category.REDUCTION: _reduction,
    Category.SCAN: _scan,
    Category.CONTROL: _control,
}
