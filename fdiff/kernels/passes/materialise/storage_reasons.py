"""Why a plan stores a value, in words: the conditions of `materialisation`, asked one by one."""

from __future__ import annotations

from ....kernel_rule import Category, Kind
from ...ir.index_expressions import nonunit
from .graph_analysis import ALWAYS, MOVED, REPEATED
from .materialisation import Plan

_BY_CATEGORY = {
    Category.REDUCTION: "a reduction: it is complete only after its loops",
    Category.EXTREMUM: "a search along an axis: it is complete only after its loops",
    Category.SCAN: "a running total: each entry needs the one before",
    Category.PRODUCT: "a sum of products: it is complete only after its loops",
    Category.STORE: "an array in which some entries are replaced",
    Category.JOIN: "arrays side by side: each part has loops of its own",
    Category.SCATTER: "terms are added to it one after another",
    Category.ROUTINE: "the result of a routine, which writes to memory",
    Category.RESULT: "the result of a routine, which writes to memory",
}


def reason_to_store(plan: Plan, i: int) -> str:
    """Why node `i`, which is stored, is not computed where it is read."""
    analysis, op = plan.analysis, plan.ops[i]
    if i in analysis.outputs:
        return "an output"
    if i in plan.accumulated:
        return _BY_CATEGORY[Category.SCATTER]
    if op.kind.is_routine or op.kind.in_memory:
        return _BY_CATEGORY[Category.ROUTINE if op.kind.is_routine else op.kind.category]
    if op.kind is Kind.COPY or i in analysis.read_in_memory:
        return "a routine or a gather reads it in memory"
    if not nonunit(op.dims):
        return "one number, computed once"
    return _by_cost(plan, i)


def _by_cost(plan: Plan, i: int) -> str:
    """The reason for a value that could be computed where it is read."""
    analysis = plan.analysis
    limit = analysis.limits[i]
    if limit == ALWAYS:
        return "a function of each row, read all along the row"
    if any(u in analysis.reordering_reshapes for u in analysis.readers[i]):
        return "its entries are read in the order of another shape"
    if limit == REPEATED:
        return "it is repeated along an axis: each entry would be computed many times"
    if limit == MOVED:
        return "several read it, one of them in another order"
    return "it costs much, and would be computed more than once"
