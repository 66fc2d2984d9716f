"""The drawn parts of a tape: chips with their words, edges between them, and fused loop nests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import kernels
from ..named_tuples import NamedTuple
from ..node import CONSTANT, INPUT, ITEM, Node, operation_text
from ..pictures.svg import shortened
from ..tape import Tape
from ..user_lines import numbered, printable, show_line
from .costs import LONGEST
from .wording import counted, sized

MOST = 100  # operations that are drawn one by one; of longer tapes the user's lines are
_MOST_IN_BODY = 40  # of a loop
_LETTERS = 34  # of a line that stands for its operations
Line = tuple[str, int]


class Chip(NamedTuple):
    """A box of the picture: its words, a smaller line below, the text of its tooltip.

    `kind` is "input", "result", "constant" or "operation"; `line` is the user's.
    """

    words: str
    small: str
    tip: str
    kind: str = "operation"
    line: Line | None = None
    body: TapeGraph | None = None


class NestBox(NamedTuple):
    """Chips that one loop nest computes, or one call of a routine."""

    title: str
    chips: tuple[int, ...]


@dataclass(frozen=True)
class TapeGraph:
    """Chips, edges from those that compute to those that read, and the groups of some."""

    chips: Sequence[Chip]
    edges: Sequence[tuple[int, int]]
    groups: Sequence[NestBox] = ()
    folded: bool = False


def graph_of(tape: Tape, names: Sequence[str]) -> TapeGraph:
    """The graph of a tape whose inputs have these names."""
    count = sum(node.primitive is not CONSTANT for node in tape.nodes)
    if count > MOST + len(tape.inputs):
        return _by_lines(tape, names)
    chip_of, chips, edges = _by_nodes(tape, names)
    groups: list[NestBox] = []
    if len(tape) <= LONGEST and kernels.supported(tape):
        looped = {(chip_of[i],) for i, _, _ in tape.bodies()}  # which have a frame of their own
        groups = [g for g in _groups(tape, chip_of, chips, edges) if g.chips not in looped]
    return TapeGraph(chips, edges, groups)


def _groups(
    tape: Tape,
    chip_of: Mapping[int, int],
    chips: Sequence[Chip],
    edges: Sequence[tuple[int, int]],
) -> list[NestBox]:
    """The nests of the kernel, in order, each with the operations that are drawn in it.

    Nests may compute the same again, or one may fill what another one writes to: an operation is
    drawn in the first one that is not before what it reads. One that no nest names, such as a view,
    is drawn where the last of what it reads is.
    """
    fusion = kernels.fusion_of(tape)
    nests = fusion.report.nests
    named: list[list[int]] = [[] for _ in chips]
    for g, nest in enumerate(nests):
        for k in {chip_of[n] for n in nest.nodes if n in chip_of}:
            named[k].append(g)
    reads: list[list[int]] = [[] for _ in chips]
    for a, b in edges:
        reads[b].append(a)
    place: dict[int, int] = {}
    for k, chip in enumerate(chips):
        if chip.kind == "operation":
            earliest = max((place[a] for a in reads[k] if a in place), default=-1)
            nest = next((g for g in named[k] if g >= earliest), earliest)
            if nest >= 0:
                place[k] = nest
    titles = [
        "routine" if nest.routine else f"loop nest {over}" if over else "no loop"
        for nest in nests
        for over in [sized(nest.loops, fusion)]
    ]
    members = [tuple(k for k in place if place[k] == g) for g in range(len(nests))]
    return [NestBox(t, ks) for t, ks in zip(titles, members, strict=True) if ks]


def _by_nodes(
    tape: Tape, names: Sequence[str]
) -> tuple[dict[int, int], list[Chip], list[tuple[int, int]]]:
    """A chip for each node but numbers, which stand in the words of what reads them."""
    chip_of: dict[int, int] = {}
    chips: list[Chip] = []
    edges: list[tuple[int, int]] = []
    bodies = {i: body for i, _, body in tape.bodies()}
    input_names = dict(zip(tape.inputs, names, strict=True))
    for i, node in enumerate(tape.nodes):
        if node.primitive is ITEM:
            chip_of[i] = chip_of[node.args[0]]
            continue
        if _number(node) is None or i in tape.outputs:
            chip_of[i] = len(chips)
            chips.append(_chip(tape, i, node, input_names, bodies.get(i)))
            edges += [(chip_of[a], chip_of[i]) for a in dict.fromkeys(node.args) if a in chip_of]
    for k, i in enumerate(tape.outputs):
        edges.append((chip_of[i], len(chips)))
        chips.append(
            Chip(_numbered("result", k, len(tape.outputs)), str(tape.nodes[i].type), "", "result")
        )
    return chip_of, chips, edges


def _chip(
    tape: Tape, i: int, node: Node, input_names: Mapping[int, str], body: Tape | None
) -> Chip:
    small = ", ".join(map(str, node.types[:2])) + ", …" * (len(node.types) > 2)
    if i in input_names:
        return Chip(input_names[i], small, "", "input")
    line = numbered(tape.lines[i][0]) if i in tape.lines else None
    tip = f"%{i}: {printable(operation_text(node))}"
    if node.primitive is CONSTANT:
        return Chip("constant", small, tip, "constant", line)
    words, params = node.primitive.name, dict(node.params)
    if body is None:
        numbers = [n for a in node.args if (n := _number(tape.nodes[a])) is not None]
        return Chip(" ".join([words, *numbers]), small, tip, line=line)
    title = f"{words}, {counted(params['length'], 'trip')}" if "length" in params else words
    if sum(n.primitive is not CONSTANT for n in body.nodes) > _MOST_IN_BODY + len(body.inputs):
        return Chip(title, f"{counted(len(body), 'node')} in each", tip, line=line)
    drawn = TapeGraph(*_by_nodes(body, _names_in_body(params, len(body.inputs)))[1:])
    return Chip(title, small, tip, line=line, body=drawn)


def _names_in_body(params: Mapping[str, object], count: int) -> list[str]:
    """Names of a body's inputs: carries, invariants, or entries of rows."""
    carries, rows = (params.get(name) for name in ("carries", "rows"))
    if not isinstance(carries, int) or not isinstance(rows, int):
        return [f"in {k}" for k in range(count)]
    fixed = count - carries - rows
    return ["carry"] * carries + ["fixed"] * fixed + ["entry"] * rows


def _number(node: Node) -> str | None:
    """The text of a constant of one element."""
    if node.primitive is CONSTANT and node.value is not None and node.value.size == 1:
        return f"{node.value.reshape(-1)[0]:.4g}"
    return None


def _numbered(word: str, k: int, count: int) -> str:
    return word if count == 1 else f"{word} {k}"


def _by_lines(tape: Tape, names: Sequence[str]) -> TapeGraph:
    """A chip for each line of the user's, with all of its operations."""
    input_names = dict(zip(tape.inputs, names, strict=True))
    bodies = {i: body for i, _, body in tape.bodies()}
    chip_of: dict[int, int] = {}
    numbers: dict[int | Line | None, int] = {}
    members: list[list[int]] = []
    for i, node in enumerate(tape.nodes):
        key: int | Line | None = numbered(tape.lines[i][0]) if i in tape.lines else None
        if node.primitive is INPUT or i in bodies:
            key = i
        elif node.primitive is CONSTANT and key is None:
            continue
        chip_of[i] = numbers.setdefault(key, len(numbers))
        if chip_of[i] == len(members):
            members.append([])
        members[chip_of[i]].append(i)
    chips = [
        _chip(tape, key, tape.nodes[key], input_names, bodies.get(key))
        if isinstance(key, int)
        else _line_chip(len(nodes), key)
        for key, nodes in zip(numbers, members, strict=True)
    ]
    edges = {
        (chip_of[a], chip_of[i]): None
        for i in chip_of for a in tape.nodes[i].args
        if a in chip_of and chip_of[a] < chip_of[i]
    }  # fmt: skip
    for k, i in enumerate(tape.outputs):
        edges[chip_of[i], len(chips)] = None
        chips.append(
            Chip(_numbered("result", k, len(tape.outputs)), str(tape.nodes[i].type), "", "result")
        )
    return TapeGraph(chips, list(edges), folded=True)


def _line_chip(operations: int, line: Line | None) -> Chip:
    """All operations of one line, or those that come from none."""
    count, shown = counted(operations, "operation"), show_line(line).strip()
    words = shown.partition(":  ")[2] or shown or "of no line"
    return Chip(shortened(words, _LETTERS), count, shown, line=line)
