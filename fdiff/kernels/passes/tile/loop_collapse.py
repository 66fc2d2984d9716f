"""Loop collapsing: two adjacent loops become one if every access runs through both contiguously.

D. F. Bacon, S. L. Graham and O. J. Sharp, Compiler transformations for high-performance computing,
ACM Computing Surveys 26(4), 1994, section "Loop collapsing".
"""

from __future__ import annotations

from dataclasses import replace

from ...ir.accesses import Access
from ...ir.index_expressions import ONE, Axis, times
from ...ir.loops import Nest, Statement, StatementKind


def collapse(nest: Nest) -> Nest:
    """Merge adjacent loops, innermost first, as far as all accesses allow it."""
    nest = nest.map_accesses(_without_ones)
    k = len(nest.domain) - 2
    while k >= 0:
        if _mergeable(nest, k):
            nest = _merge(nest, k)
        k -= 1
    return nest


def _without_ones(access: Access) -> Access:
    """The access without axes of size one."""
    if access.buffer.strides is not None:
        return access
    pairs = [(d, a) for d, a in zip(access.dims, access.index, strict=True) if d != ONE]
    return Access(access.buffer, tuple(d for d, _ in pairs), tuple(a for _, a in pairs))


def _mergeable(nest: Nest, k: int) -> bool:
    """Whether loops `k` and `k + 1` may become one."""
    if any(a.depth == k + 1 for a in nest.accumulators):
        return False
    if any(nest.ranges[k : k + 2]):
        return False
    for statement in nest.all_statements:
        if statement.kind is StatementKind.CARRY and statement.operands[0] in (str(k), str(k + 1)):
            return False
        if statement.access is not None and not _walks(statement.access, nest, k):
            return False
    return True


def _walks(access: Access, nest: Nest, k: int) -> bool:
    """Whether an access uses neither loop, or runs through both as through one contiguous axis."""
    at = [p for p, axis in enumerate(access.index) if axis.var in (k, k + 1)]
    if not at:
        return True
    return (
        access.buffer.strides is None
        and len(at) == 2
        and at[1] == at[0] + 1
        and access.index[at[0]] == Axis(k)
        and access.index[at[1]] == Axis(k + 1)
        and access.dims[at[1]] == nest.domain[k + 1]
    )


def _merge(nest: Nest, k: int) -> Nest:
    """The nest with loops `k` and `k + 1` merged."""
    domain = (*nest.domain[:k], times(nest.domain[k], nest.domain[k + 1]), *nest.domain[k + 2 :])
    ranges = (*nest.ranges[:k], *nest.ranges[k + 1 :])
    merged = replace(nest, domain=domain, ranges=ranges).map_accesses(lambda a: _merged(a, k))
    down = tuple(replace(a, depth=a.depth - (a.depth > k)) for a in merged.accumulators)
    return replace(
        merged, accumulators=down, statements=tuple(_renumber(s, k) for s in merged.statements)
    )


def _merged(access: Access, k: int) -> Access:
    """An access in the nest with merged loops."""
    dims: list[str] = []
    index: list[Axis] = []
    for dim, axis in zip(access.dims, access.index, strict=True):
        if axis.var == k + 1:
            dims[-1] = times(dims[-1], dim)
            continue
        dims.append(dim)
        index.append(axis._replace(var=axis.var - 1) if axis.var > k else axis)
    return Access(access.buffer, tuple(dims), tuple(index))


def _renumber(statement: Statement, k: int) -> Statement:
    if statement.kind is not StatementKind.CARRY:
        return statement
    var = int(statement.operands[0])
    return statement._replace(operands=(str(var - (var > k)),))
