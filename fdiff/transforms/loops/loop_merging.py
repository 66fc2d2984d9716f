"""A loop that computes what another loop computes, too, is run by that loop.

Forward mode puts a loop of values and tangents beside the loop of values, and a Hessian has such a
pair of reverse loops. They share carries, which begin as one and change by the same operations:
equal nodes of one body (value numbering: S. S. Muchnick, Advanced Compiler Design and
Implementation, 1997, section 12.4).

Tapes that are about to run are merged; in others no value may depend on a tangent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...arraytype import ArrayType
from ...named_tuples import NamedTuple
from ...ops.control.loop import LOOP
from ...ops.control.loop_operands import Operands, operands
from ...tape import ITEM, Builder, Node, Tape
from .bodies import entered

MOST = 64  # loops of a tape of which all pairs are compared


class _Merged(NamedTuple):
    """A loop that replaces two loops, and the positions of their outputs among its outputs."""

    args: tuple[int, ...]
    params: Mapping[str, object]
    outputs: dict[int, Sequence[int]]


def merge_loops(tape: Tape) -> Tape:
    """Merge loops of equal trip counts where one computes at least half of the other."""
    while (merged := next(_merges(tape), None)) is not None:
        tape = _with_one(tape, merged)
    return tape


def _merges(tape: Tape) -> Iterator[_Merged]:
    loops = [i for i, node in enumerate(tape.nodes) if node.primitive is LOOP]
    if not 1 < len(loops) <= MOST:
        return
    numbers = {i: _numbers_of_carries(tape.nodes[i]) for i in loops}
    for small in loops:
        for large in loops:
            same = _same_carries(numbers[small], numbers[large]) if small != large else {}
            if same and max(small, large) not in _readers(tape, min(small, large)):
                merged = _merged(tape, small, large, same)
                if merged is not None:
                    yield merged


def _operands(node: Node) -> Operands[int]:
    return operands(node.args, node.param("carries"), node.param("rows"))


def _numbers_of_carries(node: Node) -> list[int]:
    """A number for each carry, the same where trips, start and operations are the same.

    Carries count as the same in these operations if they begin as one: `_merged` finds the others.
    """
    body: Tape = node.param("body")
    last = len(body.inputs) - node.param("rows")
    inputs = enumerate(zip(body.inputs, node.args[1:], strict=True))
    numbers = {i: hash((k >= last, a)) for k, (i, a) in inputs}
    for i, (primitive, args, params, _) in enumerate(body.nodes):
        if i not in numbers:
            numbers[i] = hash((primitive, *[numbers[a] for a in args], params))
    trips = (node.args[0], node.param("length"), node.param("reverse"))
    pairs = zip(_operands(node).carries, body.outputs, strict=False)
    return [hash((trips, start, numbers[update])) for start, update in pairs]


def _same_carries(small: list[int], large: list[int]) -> dict[int, int]:
    """The carries of two loops with equal numbers, in order."""
    same, first = dict[int, int](), 0
    for k, number in enumerate(small):
        if number in large[first:]:
            same[k] = large.index(number, first)
            first = same[k] + 1
    return same


def _readers(tape: Tape, i: int) -> set[int]:
    """A node, and all that depend on it."""
    readers = {i}
    for j in range(i + 1, len(tape.nodes)):
        if not readers.isdisjoint(tape.nodes[j].args):
            readers.add(j)
    return readers


class _Body:
    """The body of a merged loop; its inputs are named by the arguments of the loop."""

    def __init__(self, tape: Tape, carries: Sequence[int], parts: Sequence[Operands[int]]) -> None:
        self.builder = builder = Builder()
        types = {a: tape.nodes[a].type for p in parts for a in (*p.carries, *p.invariants, *p.rows)}
        self.state = [builder.input(types[a]) for a in carries]
        shared = dict.fromkeys([a for p in parts for a in p.invariants])
        self.invariants = {a: builder.input(types[a]) for a in shared}
        rows = dict.fromkeys([a for p in parts for a in p.rows])
        self.rows = {a: builder.input(ArrayType(types[a].shape[1:], types[a].dtype)) for a in rows}

    def entered(self, node: Node, parts: Operands[int], places: Sequence[int]) -> list[int]:
        """The outputs of a loop's body, whose carries are the carries here at these places."""
        body: Tape = node.param("body")
        inputs = [self.state[k] for k in places]
        inputs += [self.invariants[a] for a in parts.invariants]
        inputs += [self.rows[a] for a in parts.rows]
        return entered(
            body, self.builder, dict(zip(body.inputs, inputs, strict=True)), body.outputs
        )


def _operations(nodes: Sequence[Node]) -> int:
    return sum(bool(node.args) for node in nodes)


def _merged(tape: Tape, small: int, large: int, same: Mapping[int, int]) -> _Merged | None:
    """The loop with the outputs of both; None where it computes less than half of one for both.

    Of carries that are the `same` at first, those that change in different ways are kept apart.
    """
    pair = {i: _operands(tape.nodes[i]) for i in (large, small)}
    starts, first, count = pair[small].carries, len(pair[large].carries), len(pair[small].carries)
    own = [k for k in range(count) if k not in same]
    places = [same[k] if k in same else first + own.index(k) for k in range(count)]
    carries = [*pair[large].carries, *[starts[k] for k in own]]
    body = _Body(tape, carries, [*pair.values()])
    outputs = body.entered(tape.nodes[large], pair[large], range(first))
    before = len(body.builder.nodes)
    more = body.entered(tape.nodes[small], pair[small], places)
    alike = {k: p for k, p in same.items() if more[k] == outputs[p]}
    if len(alike) < len(same):
        return _merged(tape, small, large, alike) if alike else None
    inner = tape.nodes[small].param("body").nodes
    if 2 * _operations(body.builder.nodes[before:]) > _operations(inner):
        return None
    outs = [*dict.fromkeys([*outputs[first:], *more[count:]])]
    numbers = {out: len(carries) + n for n, out in enumerate(outs)}
    new = body.builder.finish([*outputs[:first], *[more[k] for k in own], *outs])
    params = {"body": new, "carries": len(carries), "rows": len(body.rows)}
    return _Merged(
        (tape.nodes[large].args[0], *carries, *body.invariants, *body.rows),
        dict(tape.nodes[large].params) | params,
        {
            large: [*range(first), *[numbers[out] for out in outputs[first:]]],
            small: [*places, *[numbers[out] for out in more[count:]]],
        },
    )


def _with_one(tape: Tape, merged: _Merged) -> Tape:
    """The tape with one loop where the later one of two was; what reads the first one follows."""
    first, last = sorted(merged.outputs)
    readers, between = _readers(tape, first), range(first + 1, last)
    before = [*range(first), *[i for i in between if i not in readers]]
    behind = [*[i for i in between if i in readers], *range(last + 1, len(tape.nodes))]
    builder = Builder()
    ids = {i: builder.input(tape.nodes[i].type) for i in tape.inputs}

    def enter(nodes: list[int]) -> None:
        for i in nodes:
            primitive, args, params, types = tape.nodes[i]
            if i not in ids:
                operands = tuple([ids[a] for a in args])
                ids[i] = builder.add(primitive, operands, params, None, types)
            if i in tape.lines:
                builder.lines.setdefault(ids[i], tape.lines[i])

    enter(before)
    args = tuple([ids[a] for a in merged.args])
    loop = builder.add(LOOP, args, tuple(sorted(merged.params.items())))
    builder.lines[loop] = tape.lines.get(last, ()) or tape.lines.get(first, ())
    results = builder.results(loop)
    for i, places in merged.outputs.items():
        ids[i] = results[places[0]]
    for i, node in enumerate(tape.nodes):
        if node.primitive is ITEM and node.args[0] in merged.outputs:
            ids[i] = results[merged.outputs[node.args[0]][node.k]]
    enter(behind)
    return builder.finish([ids[o] for o in tape.outputs])
