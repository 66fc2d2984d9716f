"""From the structure of a tape to loop nests: what is kept, what is fused, what shares a loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count

from ..bones import Part, Skeleton
from ..loops import (
    Accumulator,
    Call,
    Dims,
    Guard,
    Nest,
    Output,
    Program,
    Statement,
    Temporary,
    proper,
    size,
)
from .blocks import in_blocks
from .body import Body
from .cut import cut
from .effects import enter
from .group import Group, group
from .lowering import lower
from .order import in_order
from .plan import LEAVES, ROUTINES, SCRATCH, SLOW, VIEWS, Key, Plan, flops_of, make_plan
from .putback import beside
from .reread import reread
from .reuse import reuse
from .root import Root
from .roots import make_roots
from .split import split
from .stages import in_stages
from .sums import summed_first
from .turned import turned
from .unread import without_unread

_ROUNDS = 4


def schedule(bones: Skeleton) -> Program:
    """The loops of a kernel; nodes found to be computed in several nests are kept instead."""
    bones = lower(turned(split(summed_first(reread(bones)))))
    also: set[int] = set()
    plan, items, again, dtypes = _attempt(bones, also, {})
    for _ in range(_ROUNDS - 1):
        if not again:
            break
        also |= again
        plan, items, again, dtypes = _attempt(bones, also, plan.below)
    made = Program(_temporaries(plan), tuple(items), _outputs(plan), _locals(plan))
    return cut(in_stages(in_blocks(without_unread(made)), _dtypes(bones, made)), dtypes)


def _attempt(
    bones: Skeleton, also: set[int], below: dict[Key, list[Key]]
) -> tuple[Plan, list[Nest | Call], set[int], dict[str, str]]:
    """The loops if `also` is kept, what had better be kept as well, and dtypes of values."""
    plan = reuse(make_plan(bones, also, below), also)
    roots = in_order(plan, beside(plan, make_roots(plan)))
    dtypes: dict[str, str] = {}
    items, evaluated, twice = _items(plan, roots, group(plan, roots), dtypes)
    return plan, items, _computed_again(plan, evaluated, twice), dtypes


def _items(
    plan: Plan, roots: list[Root], groups: list[Group], dtypes: dict[str, str]
) -> tuple[list[Nest | Call], list[set[int]], set[int]]:
    """The nests in order, the fused nodes that each evaluates, and those evaluated repeatedly.

    The dtypes of values are entered into `dtypes`, by their names.
    """
    names = count()
    items: list[Nest | Call] = []
    evaluated: list[set[int]] = []
    twice: set[int] = set()
    for g in groups:
        members = [roots[r] for r in g.members]
        if g.domain is None:
            items.append(_call(plan, members[0]))
            continue
        comment = ", ".join(dict.fromkeys(_describe(plan, root) for root in members))
        if members[0].edge:
            items.append(_around(plan, g, members, names, comment))
            continue
        body = Body(plan, names)
        for root in members:
            enter(body, root)
        dtypes |= body.dtypes
        nodes = Counter(key.node for key in body.computed)
        evaluated.append(set(nodes))
        # of a row that is gathered each field is read once
        twice |= {i for i, n in nodes.items() if n > 1 and plan.parts[i].op != "gather"}
        lines, sums = tuple(body.statements), tuple(body.accumulators)
        items.append(Nest(g.domain, lines, sums, comment, g.hole, g.window))
    return items, evaluated, twice


def _around(plan: Plan, g: Group, members: list[Root], names: Iterator[int], comment: str) -> Nest:
    """The nest of effects on few entries, where their guards hold."""
    branches: list[tuple[Guard, tuple[Statement, ...]]] = []
    sums: list[Accumulator] = []
    for guard in sorted({root.guard for root in members}):  # none first: what others add to
        body = Body(plan, names)
        for root in members:
            if root.guard == guard:
                enter(body, root)
        branches.append((guard, tuple(body.statements)))
        sums += body.accumulators
    assert g.domain is not None
    return Nest(g.domain, (), tuple(sums), f"around {comment}", g.hole, (), tuple(branches))


def _describe(plan: Plan, root: Root) -> str:
    name = plan.parts[root.node].op
    return f"{root.buffer.name} = {name}" if root.buffer.name else name


def _computed_again(plan: Plan, evaluated: list[set[int]], twice: set[int]) -> set[int]:
    """Dear nodes that several nests compute: what later ones begin with, to be kept from now on."""
    parts = plan.parts
    cost: list[int] = []
    users: dict[int, list[int]] = {}
    for i, part in enumerate(parts):
        free = i in plan.kept or part.op in LEAVES
        fused = sum(cost[a] for a in part.args)
        cost.append(0 if free else fused + (SLOW if part.op == "gather" else flops_of(part.text)))
        if part.op not in VIEWS:
            for a in part.args:
                users.setdefault(_seen(plan, a), []).append(i)
    dear = {i for i, c in enumerate(cost) if c >= SLOW and i not in plan.kept}
    known: set[int] = set()
    again: set[int] = set()
    for nodes in [*evaluated, twice]:
        repeated = nodes & known & dear
        again |= {i for i in repeated if repeated.isdisjoint(users.get(i, ()))}
        known |= nodes
    return {_cheap_of(plan, users, i) for i in again}


def _cheap_of(plan: Plan, users: dict[int, list[int]], i: int) -> int:
    """The one array, used elsewhere too, of which an entry of `i` is a single operation; else `i`.

    Kept, it serves both: that operation is repeated rather than its results stored.
    """
    parts = plan.parts
    arrays = {a for a in parts[i].args if proper(parts[a].dims)}
    if len(arrays) != 1 or flops_of(parts[i].text) > 2:
        return i
    (source,) = arrays
    alike = parts[source].text and parts[source].dims == parts[i].dims
    return source if alike and len(set(users[source])) > 1 else i


def _seen(plan: Plan, i: int) -> int:
    """What a view without memory is of."""
    while plan.parts[i].op in VIEWS and i not in plan.kept:
        i = plan.parts[i].args[0]
    return i


def _call(plan: Plan, root: Root) -> Call:
    part = plan.parts[root.node]
    if len(part.shapes) == 1:
        results = [plan.names[root.node]]
    else:
        items = _projections(plan, root.node)
        results = [
            plan.names[items[k]] if k in items else f"u{root.node}_{k}"
            for k in range(len(part.shapes))
        ]
    arguments = [plan.names[a] for a in part.args]
    return Call(
        _routine(part),
        (*arguments, *results, *_scratch(part, root.node)),
        _sizes(plan, part),
        f"{', '.join(results)} = {part.op}",
    )


def _scratch(part: Part, node: int) -> tuple[str, ...]:
    count, _ = SCRATCH.get(part.op, (0, ""))
    return tuple(f"w{node}" + f"_{k}" * bool(k) for k in range(count))


def _projections(plan: Plan, node: int) -> dict[int, int]:
    """Which of the outputs of `node` are used, and by which parts."""
    return {
        part.parameter("k", int): i
        for i, part in enumerate(plan.parts)
        if part.op == "item" and part.args == (node,)
    }


def _routine(part: Part) -> str:
    flip = part.parameter("flip", str) if part.op == "triangular" else ""
    return f"{part.op}{flip}_{part.dtypes[-1]}"


def _sizes(plan: Plan, part: Part) -> tuple[str, ...]:
    """Batch, then the sizes of one matrix problem."""
    if part.op == "matmul":
        return (*part.parameter("sizes", tuple), *part.parameter("flips", str))
    first: Dims = plan.parts[part.args[0]].dims
    batch, n = size(first[:-2]), first[-1]
    return (batch, n, part.dims[-1]) if part.op in ("solve", "triangular") else (batch, n)


def _temporaries(plan: Plan) -> tuple[Temporary, ...]:
    kept = {plan.names[i]: plan.parts[i] for i in sorted(plan.kept) if plan.owned(i)}
    out = [
        Temporary(name, part.dtype, part.dims)
        for name, part in kept.items()
        if not name.startswith("out")
    ]
    for i, part in enumerate(plan.parts):
        for name in _scratch(part, i):
            matrix = plan.parts[part.args[0]]
            dtype = SCRATCH[part.op][1] or matrix.dtype
            out.append(Temporary(name, dtype, matrix.dims[-2:]))
        if part.op in ROUTINES and len(part.shapes) > 1:
            used = _projections(plan, i)
            out += [
                Temporary(f"u{i}_{k}", part.dtypes[k], part.shapes[k])
                for k in range(len(part.shapes))
                if k not in used
            ]
    return tuple(out)


def _locals(plan: Plan) -> tuple[tuple[str, str], ...]:
    kept = (i for i in sorted(plan.kept) if plan.local(i) and plan.parts[i].op not in LEAVES)
    return tuple((plan.names[i], plan.parts[i].dtype) for i in kept)


def _dtypes(bones: Skeleton, program: Program) -> dict[str, str]:
    """The dtypes of all memory, by name."""
    given = {
        f"{'x' if part.op == 'input' else 'k'}{part.data[0]}": part.dtype
        for part in bones.parts
        if part.op in ("input", "array")
    }
    return given | {m.name: m.dtype for m in (*program.temporaries, *program.outputs)}


def _outputs(plan: Plan) -> tuple[Output, ...]:
    out: list[Output] = []
    for k, o in enumerate(plan.bones.outputs):
        part = plan.parts[o]
        scalar = plan.names[o] if plan.outputs.get(o) == k and plan.local(o) else ""
        out.append(Output(f"out{k}", part.dtype, part.dims, scalar))
    return tuple(out)
