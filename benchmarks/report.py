"""Markdown tables of the raw figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .peers import PEERS

Figures = Mapping[str, object]
BEGIN, END = "<!-- benchmarks: begin -->", "<!-- benchmarks: end -->"

COLD_ORDER = ("interpreted", "fdiff", "disk", "limit", "jax", "torch", "autograd", "casadi")
WARM_ORDER = ("limit", "fdiff", "interpreted", "jax", "torch", "autograd", "casadi")


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, scale = next((u for u in units if seconds >= 0.9995 * u[1]), units[-1])
    value = seconds / scale
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def ratio(value: float) -> str:
    return f"{value:.1f}×" if value < 9.95 else f"{value:,.0f}×"


def warm_cell(figures: Figures, limit: Figures) -> str:
    """The median, and how many times the hand-written kernel's it is."""
    if "quartiles" not in figures:
        return "—"
    median = figures["quartiles"][1]
    if "quartiles" not in limit or figures is limit:
        return duration(median)
    return f"{duration(median)} ({ratio(median / limit['quartiles'][1])})"


def cold_cell(figures: Figures) -> str:
    return duration(figures["first"]) if "first" in figures else "—"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def columns(cases: Mapping[str, Mapping[str, Figures]], order: Sequence[str]) -> list[str]:
    return [name for name in order if any(name in peers for peers in cases.values())]


def warm_table(cases: Mapping[str, Mapping[str, Figures]]) -> str:
    names = columns(cases, WARM_ORDER)
    rows = [
        [case, *(warm_cell(peers.get(n, {}), peers.get("limit", {})) for n in names)]
        for case, peers in cases.items()
    ]
    return table(["a call, warm", *(PEERS[n].title for n in names)], rows)


def cold_table(cases: Mapping[str, Mapping[str, Figures]]) -> str:
    names = columns(cases, COLD_ORDER)
    rows = [[case, *(cold_cell(peers.get(n, {})) for n in names)] for case, peers in cases.items()]
    imports = [[p[n]["import"] for p in cases.values() if "import" in p.get(n, {})] for n in names]
    middle = [duration(sorted(found)[len(found) // 2]) if found else "—" for found in imports]
    rows.append(["*its import, median*", *middle])
    return table(["first result, fresh process", *(PEERS[n].title for n in names)], rows)


def absent(cases: Mapping[str, Mapping[str, Figures]]) -> str:
    """Why there is no figure."""
    lines = [
        f"- {PEERS[name].title}, {case}: {figures.get('skipped') or figures['error']}"
        for case, peers in cases.items()
        for name, figures in peers.items()
        if "skipped" in figures or "error" in figures
    ]
    return "No figure:\n\n" + "\n".join(lines) if lines else ""


def origin(machine: Mapping[str, object]) -> str:
    versions = ", ".join(f"{name} {v}" for name, v in machine["versions"].items())
    return (
        f"Measured by `python -m benchmarks` on {machine['date']}: {machine['processor']},"
        f" {machine['cores']} cores (one thread each), {machine['system']},"
        f" Python {machine['python']}, {versions}. float64 NumPy in and out; medians of"
        f" {machine['rounds']} fresh processes, and ratios to the hand-written kernel."
        " Every result was compared with the interpreter's before it was timed."
    )


def markdown(raw: Mapping[str, object]) -> str:
    """The whole report: warm, cold, what is missing, where it comes from."""
    cases = raw["cases"]
    parts = [warm_table(cases), cold_table(cases), absent(cases), origin(raw["machine"])]
    return "\n\n".join(part for part in parts if part) + "\n"


def placed(text: str, raw: Mapping[str, object]) -> str:
    """`text` with the report between its marks."""
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{markdown(raw)}\n{END}{after}"
