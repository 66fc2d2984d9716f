"""A sum over partitions inside of a function that is traced: one operation, with derivatives.

Each derivative and each batch of such an operation is one again: the sum of what an operator makes
of the function of a partition. So each costs one pass over the data, and those that do not wait for
each other are joined in one. Source: C.-T. Chu et al., "Map-Reduce for Machine Learning on
Multicore", NIPS 2006, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, type_of
from ..errors import UNNAMED, InputError, failure
from ..facets import Lowering, Rules
from ..functional.rules.ruled_call import is_active
from ..hooks import hooks
from ..node import ITEM, Node
from ..ops.shapes.shaping import scalar_if_0d, traced
from ..primitive import ZERO, Primitive
from ..tape import Tape
from ..trace import TracedArray, apply_many
from ..trace.handler_arguments import resolve
from ..trace.trace_stack import suspended
from ..transforms.simplify import Simplifier
from ..tree import flatten, unflatten
from .summands import Flat, JointTerm, Term, Total

if TYPE_CHECKING:
    from ..trace import Array, TracedArrays

    Arrays = Sequence[Array]


def _evaluate(*args: np.ndarray, term: Term) -> object:
    with suspended():  # a branch may need the value while a trace is under way
        totals = term.total.total([np.asarray(a)[()] for a in args], {})
    outs = [np.asarray(x) for x in totals]
    types = tuple([type_of(x) for x in outs])
    if types != term.types:
        was, now = (", ".join(map(str, each)) for each in (term.types, types))
        fact = (
            f"the sum gave results of types {now}; they were {was} for the first partition alone."
        )
        raise failure(InputError, UNNAMED, fact, "Return results of the same types always.")
    return outs[0][()] if len(outs) == 1 else tuple([x[()] for x in outs])


def _jvp(
    dots: Sequence[object], args: Sequence[object], outs: Arrays, *, term: Term
) -> list[object]:
    """One pass for all tangents; none for the tangent of a value whose gradient is known."""
    pushed = _pushed(dots, args, term)
    if term.slopes and all(dots[k] is ZERO or k in term.slopes for k in range(len(dots))):
        pairs = zip(term.slopes, outs[1:], strict=True)
        terms = [np.sum(slope * dots[k]) for k, slope in pairs if dots[k] is not ZERO]
        pushed[0] = sum(terms[1:], terms[0])
    return pushed


def _pushed(dots: Sequence[object], args: Sequence[object], term: Term) -> list[object]:
    moving = tuple([k for k, dot in enumerate(dots) if dot is not ZERO])
    results = tuple([k for k, t in enumerate(term.types) if t.floating])
    types = [term.types[k] for k in results]
    pushed = term.derived("jvp", moving, results, types, len(moving))
    tangents = iter(_entered(pushed, [*args, *[dots[k] for k in moving]]))
    return [next(tangents) if k in results else ZERO for k in range(len(term.types))]


def _vjp(bars: Sequence[object], args: TracedArrays, outs: Arrays, *, term: Term) -> list[object]:
    """One pass for all cotangents; none for the cotangent of a value whose gradient is known."""
    if term.slopes:
        return _second(bars, args, outs, term)
    results = tuple([k for k, bar in enumerate(bars) if bar is not ZERO])
    moving = tuple([k for k, x in enumerate(args) if x.type.floating])
    types = [args[k].type for k in moving]
    pulled = term.derived("vjp", moving, results, types, len(results))
    cotangents = iter(_entered(pulled, [*args, *[bars[k] for k in results]]))
    return [next(cotangents) if k in moving else ZERO for k in range(len(args))]


def _second(
    bars: Sequence[object], args: Sequence[object], outs: Arrays, term: Term
) -> list[object]:
    """Cotangents of a value and its gradient: the Hessian, which is symmetric, times theirs."""
    places = term.slopes
    cotangents: list[Any] = [ZERO] * len(args)
    if bars[0] is not ZERO:
        for k, slope in zip(places, outs[1:], strict=True):
            cotangents[k] = bars[0] * slope
    if any(bar is not ZERO for bar in bars[1:]):
        dots: list[object] = [ZERO] * len(args)
        for k, bar in zip(places, bars[1:], strict=True):
            dots[k] = bar
        for k, part in zip(places, _pushed(dots, args, term)[1:], strict=True):
            cotangents[k] = part if cotangents[k] is ZERO else cotangents[k] + part
    return cotangents


def _batch(
    args: Sequence[object], mapped: Sequence[bool], size: int, *, term: Term
) -> list[object]:
    """One pass for all elements."""
    places = tuple([k for k, is_mapped in enumerate(mapped) if is_mapped])
    types = [ArrayType((size, *t.shape), t.dtype) for t in term.types]
    return list(_entered(term.derived("vmap", places, (), types, 0), args))


SUM = Primitive(
    "sum_over", "opaque", Rules(lambda *_, term: term.types, _evaluate, _jvp, _vjp, _batch),
    lowering=Lowering(folds=False),
)  # fmt: skip


def _entered(term: Term, args: Sequence[object]) -> tuple[TracedArray, ...]:
    return apply_many(SUM, *map(traced, args), term=term)


def enter(total: Total, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """A call of a sum in the trace under way: a node, of whose results the user's are made."""
    leaves, spec = flatten((args, kwargs))
    leaves = [*map(resolve, leaves)]
    places = tuple([k for k, leaf in enumerate(leaves) if _is_numeric(leaf)])
    handles = [traced(leaves[k]) for k in places]
    fixed = [None if k in places else leaf for k, leaf in enumerate(leaves)]
    function = Flat(total.f, spec, fixed, places)
    values = iter([h.home.guards.value(h.id, "sums over partitions") for h in handles])
    numbers = [np.asarray(next(values))[()] if k in places else x for k, x in enumerate(leaves)]
    parameters = unflatten(spec, numbers)
    with suspended():
        first = total.total(*parameters, first=True)
    outs, out_spec = flatten(first)
    types = tuple([type_of(np.asarray(x)) for x in outs])
    term = function.over(total, types)
    active = tuple([k for k, h in enumerate(handles) if is_active(h)])
    if active and len(types) == 1 and not types[0].shape and types[0].dtype.kind == "f":
        slopes = [handles[k].type for k in active]
        term = term.derived("value_and_grad", active, (), [*types, *slopes], 0)
    sums = _entered(term, handles)[: len(types)]
    return unflatten(out_spec, [scalar_if_0d(x) for x in sums])


def _is_numeric(leaf: object) -> bool:
    if isinstance(leaf, (TracedArray, float, complex, np.inexact)):
        return True
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"


def joined(tape: Tape) -> Tape:
    """A tape in which sums over the same partitions are one, as far as none waits for another."""
    nodes, depth = tape.nodes, list[int]()  # the passes that are over before a node
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, node in enumerate(nodes):
        depth.append(max([depth[a] + (nodes[a].primitive is SUM) for a in node.args], default=0))
        if node.primitive is SUM and _term(node).fixed_tier:
            groups.setdefault((depth[i], *map(id, _term(node).total.many)), []).append(i)
    group_of = {i: group for group in groups.values() if len(group) > 1 for i in group}
    if not group_of:
        return tape
    builder = Simplifier()
    ids = {i: builder.input(nodes[i].type) for i in tape.inputs}
    results = dict[int, Sequence[int]]()  # of the members of a group
    rest = sorted(tape.operations(), key=lambda each: (depth[each[0]], each[1].primitive is SUM))
    for i, node, line in rest:
        if node.primitive is ITEM and node.args[0] in results:
            ids[i] = results[node.args[0]][node.k]
        elif i not in group_of:
            operands = tuple([ids[a] for a in node.args])
            ids[i] = builder.add(node.primitive, operands, node.params, line, node.types)
        elif i not in results:
            group = {k: nodes[k] for k in group_of[i]}
            term, args = _joint(list(group.values()))
            joint = builder.add(
                SUM, tuple([ids[a] for a in args]), (("term", term),), line, term.types
            )
            outs = iter(builder.results(joint))
            for k, member in group.items():
                results[k] = [next(outs) for _ in member.types]
                ids[k] = results[k][0]  # of those that have one
    return builder.finish([ids[o] for o in tape.outputs])


def _term(node: Node) -> Term:
    return dict(node.params)["term"]


def _joint(group: Sequence[Node]) -> tuple[Term, list[int]]:
    """One term for several nodes, and its operands."""
    args = list(dict.fromkeys([a for node in group for a in node.args]))
    terms = [_term(node) for node in group]
    places = [tuple([args.index(a) for a in node.args]) for node in group]
    term = JointTerm(terms, places, len(args))
    return term.over(terms[0].total, [t for node in group for t in node.types]), args


hooks.joined_sums = joined
