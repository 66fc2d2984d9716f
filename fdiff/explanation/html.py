"""An explanation for Jupyter: the same facts as in the terminal, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from .costs import LONGEST
from .explained_facts import Facts, StepFact
from .text import MOST_NAMES, lines_of
from .wording import (
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

_LEFT = "text-align:left"
_SHADES = {"none": "#f4f4f4", "steps": "#f4f4f4", "linear": "#dcefdc", "quadratic": "#fdf2d0"}
_NONLINEAR = "#f9dcd6"


def html_of(facts: Facts) -> str:
    """The whole explanation; kernels are folded away."""
    parts = [_head(facts), _arrays(facts), _costs(facts), _dependence(facts)]
    parts += [_step(step, k, len(facts.steps)) for k, step in enumerate(facts.steps)]
    return f"<div class='fdiff-explanation'>{''.join(parts)}</div>"


def _head(facts: Facts) -> str:
    notes = "".join(f"<br>{escape(note)}" for note in facts.notes)
    return f"<p><b>{escape(facts.call)}</b>: {head_words(facts)}{notes}</p>"


def _arrays(facts: Facts) -> str:
    lines = "".join(f"<br><code>{escape(line)}</code>" for line in facts.guards)
    taken = f"<p>Traced for the branches taken at{lines}</p>" if lines else ""
    loops = _table("Python loops", ("line", ""), facts.loops) if facts.loops else ""
    return _table("Arrays", ("name", "type", "what it is", ""), array_rows(facts)) + taken + loops


def _costs(facts: Facts) -> str:
    rows = [cost_cells(row) for row in facts.costs if not row.refused]
    heads = (*COST_HEADS[:4], "NumPy time", "memory", "kernel time", "memory", COST_HEADS[-1])
    refused = [
        f"no {' '.join(filter(None, (row.mode, row.what)))}: {row.refused}"
        for row in facts.costs
        if row.refused
    ]
    words = "<br>".join(map(escape, (*refused, *picked_words(facts.costs))))
    caption = "Costs of one call: predicted, with data in the cache; * is what fdiff picks"
    return _table(caption, heads, rows, right=True) + f"<p>{words}</p>"


def _step(step: StepFact, number: int, count: int) -> str:
    return _table(step_title(number, count), ("", ""), step_rows(step)) + _kernel(step)


def _kernel(step: StepFact) -> str:
    if step.fusion is None:
        return ""
    report = step.fusion.report
    nests: list[tuple[str, ...]] = []
    for k, nest in enumerate(report.nests):
        loops = "routine" if nest.routine else sized(nest.loops, step.fusion) or "no loop"
        lines = "\n".join(lines_of(step.tape, nest.nodes))
        nests.append(
            (str(k + 1), loops, ", ".join(names_counted(nest.names)), ", ".join(nest.writes), lines)
        )
    passes = [
        (p.name, f"{counted(p.before, p.unit_before)} → {counted(p.after, p.unit)}", p.leaves)
        for p in report.passes
    ]
    stored = [
        (v.place, v.name, sized(v.shape, step.fusion) or "number", v.why) for v in report.stored
    ]
    title = f"{counted(report.operations, 'operation')}, {counted(len(nests), 'loop nest')}"
    return (
        f"<details><summary>Kernel: {escape(title)}</summary>"
        + _table("Passes", ("pass", "before → after", "what it leaves"), passes)
        + _table("Loop nests", ("", "over", "computes", "writes", "your lines"), nests)
        + _table("Kept in memory", ("place", "value", "shape", "why"), stored)
        + "</details>"
    )


def _dependence(facts: Facts) -> str:
    names = facts.dependence.inputs[:MOST_NAMES]
    outputs = facts.dependence.outputs[:MOST_NAMES]
    if not names or not outputs:
        return ""
    if len(facts.tape) > LONGEST:
        return (
            f"<p>Dependence: ask .dependence; with {len(facts.tape):,} nodes it may take long</p>"
        )
    body = ""
    for output in outputs:
        degrees = [facts.dependence[output, name].value for name in names]
        cells = "".join(
            f"<td style='{_LEFT};background:{_SHADES.get(d, _NONLINEAR)};color:#222'>{d}</td>"
            for d in degrees
        )
        body += f"<tr><th style='{_LEFT}'>{escape(output)}</th>{cells}</tr>"
    return _framed("Dependence, all other inputs held fixed", ("", *names), body)


def _table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: bool = False,
) -> str:
    body = "".join(f"<tr>{''.join(_cells(row, right=right))}</tr>" for row in rows)
    return _framed(caption, heads, body)


def _cells(row: Sequence[str], *, right: bool) -> Iterator[str]:
    for k, cell in enumerate(row):
        side = "text-align:right" if right and k else _LEFT
        space = "nowrap" if right else "pre-line"  # of columns of figures, and of lists of lines
        yield f"<td style='{side};white-space:{space}'>{escape(cell)}</td>"


def _framed(caption: str, heads: Sequence[str], body: str) -> str:
    names = "".join(f"<th style='{_LEFT}'>{escape(head)}</th>" for head in heads)
    head = f"<thead><tr>{names}</tr></thead>" if any(heads) else ""
    title = f"<caption style='{_LEFT};white-space:nowrap'><b>{escape(caption)}</b></caption>"
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"
