"""An explanation as text for a terminal: sections of aligned rows, at most 100 columns of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..kernels import Fusion
from ..tape import Tape
from ..user_lines import numbered, printable_lines, show_line
from .costs import LONGEST
from .explained_facts import Cost, Facts, StepFact
from .wording import (
    COST_GROUPS,
    COST_HEADS,
    array_rows,
    cost_cells,
    counted,
    head_words,
    names_counted,
    picked_words,
    sized,
    step_rows,
    step_title,
)

_WIDTH = 88  # of lists of operations
_MOST_NESTS = 8  # of a kernel that are listed, and as many stored values
MOST_NAMES = 12  # of inputs in the table of dependence


def explanation_text(facts: Facts) -> str:
    """The whole explanation."""
    parts = [_head(facts), _arrays(facts), _loops(facts), _costs(facts)]
    for number, step in enumerate(facts.steps):
        parts += [_execution(step, number, len(facts.steps)), _kernel(step)]
    parts.append(_dependence(facts))
    whole = "\n\n".join("\n".join(lines) for part in parts if (lines := list(part)))
    return printable_lines(whole)


def _head(facts: Facts) -> Iterator[str]:
    where = "" if facts.device == "cpu" else f", device={facts.device!r}"
    yield f"{facts.call}{where}: {head_words(facts)}"
    yield from (f"note: {note}" for note in facts.notes)


def _arrays(facts: Facts) -> Iterator[str]:
    yield "Arrays"
    yield from _aligned(array_rows(facts))
    if facts.guards:
        yield f"  traced for the branches taken at {counted(len(facts.guards), 'line')}:"
        yield from (f"    {line}" for line in facts.guards)


def _loops(facts: Facts) -> Iterator[str]:
    if facts.loops:
        yield "Python loops"
        yield from _aligned(facts.loops)


def _costs(facts: Facts) -> Iterator[str]:
    yield "Costs of one call (times are predicted, with data in the cache; * is what fdiff picks)"
    rows = [COST_GROUPS, COST_HEADS]
    refused: list[Cost] = []
    for row in facts.costs:
        if row.refused:
            refused.append(row)
        else:
            rows.append(cost_cells(row))
    yield from _aligned(rows, right=range(1, len(COST_HEADS)))
    for row in refused:
        yield f"  no {' '.join(filter(None, (row.mode, row.what)))}: {row.refused}"
    yield from (f"  {line}" for line in picked_words(facts.costs))
    uncounted = dict.fromkeys(name for row in facts.costs for name in row.uncounted)
    if uncounted:
        yield f"  not counted in operations: {', '.join(uncounted)}"


def _execution(step: StepFact, number: int, count: int) -> Iterator[str]:
    yield step_title(number, count)
    yield from _aligned(step_rows(step))


def _kernel(step: StepFact) -> Iterator[str]:
    if step.fusion is None:
        return
    report = step.fusion.report
    yield f"Kernel: {counted(report.operations, 'operation')} in {_nests(step.fusion)}"
    rows = [
        (p.name, counted(p.before, p.unit_before), "->", counted(p.after, p.unit))
        for p in report.passes
        if (p.before, p.unit_before) != (p.after, p.unit)
    ]
    yield from _aligned(rows)
    for k, nest in enumerate(report.nests[:_MOST_NESTS]):
        what = "call of a routine" if nest.routine else "outside of loops"
        if nest.loops:
            what = f"loops over {sized(nest.loops, step.fusion)}"
        writes = f", writes {', '.join(nest.writes)}" if nest.writes else ""
        yield f"  {k + 1}. {what}{writes}"
        yield from (f"     {line}" for line in _wrapped(nest.names))
        yield from (f"       {line}" for line in lines_of(step.tape, nest.nodes))
    if len(report.nests) > _MOST_NESTS:
        yield f"  and {len(report.nests) - _MOST_NESTS} more nests"
    yield from _stored(step.fusion)


def _nests(fusion: Fusion) -> str:
    routines = sum(nest.routine for nest in fusion.report.nests)
    loops = counted(len(fusion.report.nests) - routines, "loop nest")
    return f"{loops} and {counted(routines, 'call')} of routines" if routines else loops


def _stored(fusion: Fusion) -> Iterator[str]:
    report = fusion.report
    yield "  kept in memory, all else in registers:"
    rows = [
        (f"  {value.place}", value.name, sized(value.shape, fusion) or "number", value.why)
        for value in report.stored[:_MOST_NESTS]
    ]
    yield from _aligned(rows)
    if len(report.stored) > _MOST_NESTS:
        yield f"    and {len(report.stored) - _MOST_NESTS} more"


def _dependence(facts: Facts) -> Iterator[str]:
    names = facts.dependence.inputs[:MOST_NAMES]
    if not names or not facts.dependence.outputs:
        return
    if len(facts.tape) > LONGEST:
        yield f"Dependence: ask .dependence; with {len(facts.tape):,} nodes it may take long"
        return
    yield "Dependence (of each result on each input, all others held fixed)"
    rows = [("", *names)]
    rows += [
        (output, *(facts.dependence[output, name].value for name in names))
        for output in facts.dependence.outputs[:MOST_NAMES]
    ]
    yield from _aligned(rows)
    left = len(facts.dependence.inputs) - len(names)
    if left:
        yield f"  and {left} more inputs: ask .dependence"


def lines_of(tape: Tape, nodes: Sequence[int]) -> list[str]:
    """The user's lines that made these nodes of a tape, in the order of the file."""
    lines = {numbered(line) for i in nodes for line in tape.lines.get(i, ())}
    return [show_line(line).strip() for line in sorted(lines)]


def _wrapped(names: Sequence[str]) -> Iterator[str]:
    """Names in lines of limited width; equal ones are counted."""
    line = ""
    for word in names_counted(names):
        if line and len(line) + len(word) > _WIDTH:
            yield line + ","
            line = ""
        line = f"{line}, {word}" if line else word
    if line:
        yield line


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[int] | range = ()) -> Iterator[str]:
    """Rows with their columns aligned, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)] if rows else []
    for row in rows:
        cells = [
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()
