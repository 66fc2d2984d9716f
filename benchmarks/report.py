"""Markdown tables of the raw figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from .peers import PEERS

RESULTS = Path(__file__).with_name("results")

Figures = Mapping[str, object]
Cases = Mapping[str, Mapping[str, Figures]]
MARKS = "<!-- {}: begin -->", "<!-- {}: end -->"
README_ROWS = (
    "value+grad sum(x²) n=3",
    "value+grad Rosenbrock n=1,000",
    "Hessian Rosenbrock n=100",
    "Jacobian NIST Hahn1",
    "value+grad logistic 100,000×50",
    "Jacobian MLP 64-64-64-10",
    "value+grad Lennard-Jones n=50",
    "value+grad GMM 1k d=20 K=50",
)

COLD_ORDER = (
    "interpreted",
    "fdiff",
    "disk",
    "evaluated",
    "evaluated again",
    "limit",
    "jax",
    "torch",
    "inductor",
    "autograd",
    "casadi",
)
SHORT = 2e-6  # seconds of a hand-written kernel, of which calling it is a third
WARM_ORDER = (
    "numpy",
    "limit",
    "fdiff",
    "evaluated",
    "interpreted",
    "jax",
    "torch",
    "inductor",
    "autograd",
    "casadi",
)
OTHERS = ("jax", "torch", "inductor", "autograd", "casadi")
SECOND = {peer.after: name for name, peer in PEERS.items() if peer.after}  # of each machine code


def duration(seconds: float) -> str:
    """Three digits and a unit."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, scale = next((u for u in units if seconds >= 0.9995 * u[1]), units[-1])
    value = seconds / scale
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {unit}"


def size(count: float) -> str:
    """Three digits and a unit."""
    return f"{count / 1e6:,.0f} MB" if count < 1e9 else f"{count / 1e9:.2f} GB"


def ratio(value: float) -> str:
    digits = 2 if value < 0.995 else 1 if value < 9.95 else 0
    return f"{value:,.{digits}f}×"


def median(figures: Figures) -> float:
    """Seconds of a warm call, or NaN."""
    return figures["quartiles"][1] if "quartiles" in figures else math.nan


def fastest(peers: Mapping[str, Figures], names: Sequence[str]) -> tuple[str, float]:
    """Who of these is fastest, and its seconds; NaN if nobody has a figure."""
    found = {name: median(peers.get(name, {})) for name in names}
    known = {name: seconds for name, seconds in found.items() if not math.isnan(seconds)}
    return min(known.items(), key=lambda item: item[1]) if known else ("", math.nan)


def tier(peers: Mapping[str, Figures]) -> str:
    """Which of fdiff's is shown: the faster one of compiled and evaluated, or interpreted."""
    return fastest(peers, list(SECOND))[0] or "interpreted"


def ours(peers: Mapping[str, Figures]) -> float:
    """fdiff's seconds."""
    return median(peers.get(tier(peers), {}))


def cell(figures: Figures, key: str, shown: Callable[[float], str] = duration) -> str:
    """A figure; what a peer took that was stopped; or a dash."""
    if key in figures:
        return shown(figures[key])
    return f"> {figures['late']} s" if "late" in figures else "—"


def warm_cell(figures: Figures, limit: Figures) -> str:
    """The median, and how many times the hand-written kernel's it is."""
    if "quartiles" not in figures:
        return cell(figures, "quartiles")
    seconds = median(figures)
    if "quartiles" not in limit or figures is limit:
        return duration(seconds)
    return f"{duration(seconds)} ({ratio(seconds / median(limit))})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def columns(cases: Cases, order: Sequence[str]) -> list[str]:
    return [name for name in order if any(name in peers for peers in cases.values())]


def summary_row(case: str, peers: Mapping[str, Figures]) -> list[str]:
    limit, mine = median(peers.get("limit", {})), ours(peers)
    name, best = fastest(peers, OTHERS)
    plain, mine_by = median(peers.get("numpy", {})), tier(peers)
    marked = "" if mine_by == "fdiff" else f" ({mine_by})"
    return [
        case,
        "—" if math.isnan(plain) else duration(plain),
        "—" if math.isnan(mine) else duration(mine) + marked,
        "—" if math.isnan(limit) else duration(limit),
        f"{duration(best)} ({PEERS[name].title})" if name else "—",
    ]


def summary_table(cases: Cases) -> str:
    """fdiff beside the function alone, the limit and the fastest of the others."""
    head = ["call", "`f` alone in NumPy", "fdiff", "hand-written", "best other"]
    return table(head, [summary_row(case, peers) for case, peers in cases.items()])


def quotients(cases: Cases) -> dict[str, tuple[float, int]]:
    """Geometric means over the cases in which both have a figure, and how many these are."""

    def limit(p: Mapping[str, Figures], least: float = 0.0) -> float:
        seconds = median(p.get("limit", {}))
        return ours(p) / seconds if seconds >= least else math.nan

    pairs = {
        "fdiff / hand-written": limit,
        f"where that takes {duration(SHORT)} or more": lambda p: limit(p, SHORT),
        "JAX / fdiff": lambda p: median(p.get("jax", {})) / ours(p),
        "best other / fdiff": lambda p: fastest(p, OTHERS)[1] / ours(p),
        "fdiff / `f` alone in NumPy": lambda p: ours(p) / median(p.get("numpy", {})),
    }
    found: dict[str, tuple[float, int]] = {}
    for title, quotient in pairs.items():
        known = [q for q in map(quotient, cases.values()) if not math.isnan(q)]
        if known:
            found[title] = math.exp(sum(map(math.log, known)) / len(known)), len(known)
    return found


def means(cases: Cases) -> str:
    """The geometric means in one sentence."""
    parts = [f"{title} {mean:.2f} ({n} cases)" for title, (mean, n) in quotients(cases).items()]
    return f"Geometric means: {', '.join(parts)}." if parts else ""


def warm_table(cases: Cases) -> str:
    names = columns(cases, WARM_ORDER)
    rows = [
        [case, *(warm_cell(peers.get(n, {}), peers.get("limit", {})) for n in names)]
        for case, peers in cases.items()
    ]
    return table(["a call, warm", *(PEERS[n].title for n in names)], rows)


def cold_table(cases: Cases) -> str:
    names = columns(cases, COLD_ORDER)
    rows = [
        [case, *(cell(peers.get(n, {}), "first") for n in names)] for case, peers in cases.items()
    ]
    imports = [[p[n]["import"] for p in cases.values() if "import" in p.get(n, {})] for n in names]
    middle = [duration(sorted(found)[len(found) // 2]) if found else "—" for found in imports]
    rows.append(["*its import, median*", *middle])
    return table(["first result, fresh process", *(PEERS[n].title for n in names)], rows)


def memory_table(cases: Cases) -> str:
    """The peak of each process, and what a warm call adds to what it holds."""
    if not any("peak" in figures for peers in cases.values() for figures in peers.values()):
        return ""
    names = columns(cases, WARM_ORDER)

    def both(figures: Figures) -> str:
        added = f" ({cell(figures, 'grown', size)})" if "grown" in figures else ""
        return cell(figures, "peak", size) + added

    rows = [[case, *(both(peers.get(n, {})) for n in names)] for case, peers in cases.items()]
    return table(["peak memory (a call's)", *(PEERS[n].title for n in names)], rows)


def absent(cases: Cases) -> str:
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
    rounds = machine["rounds"]
    return (
        f"Measured by `python -m benchmarks` on {machine['date']}: {machine['processor']},"
        f" {machine['cores']} cores (one core and one thread each), {machine['system']},"
        f" Python {machine['python']}, {versions}. float64 NumPy in and out; medians of"
        f" {rounds} fresh process{'' if rounds == 1 else 'es'} each, timed in turn."
        " Every result was compared with the interpreter's before it was timed."
        " First results exclude imports; the second process finds the kernels of the first on disk."
    )


def summary(raw: Mapping[str, object]) -> str:
    """What the README shows: a few cases in a line each, and where they come from."""
    machine = raw["machine"]
    rows = summary_table({name: raw["cases"][name] for name in README_ROWS})
    measured = (
        f"Measured by `python -m benchmarks` on {machine['date']} ({machine['processor']},"
        f" one core and one thread each, Python {machine['python']})."
    )
    return f"{rows}\n\n{measured}"


def headline(raw: Mapping[str, object]) -> str:
    """What the README promises of speed in one item."""
    found = quotients(raw["cases"])
    (by_hand, n), (others, _) = found["fdiff / hand-written"], found["best other / fdiff"]
    less = "less" if by_hand < 1 else "more"
    return (
        f"- **Fast.** Derivatives take {abs(1 - by_hand):.0%} {less} time than code written by hand"
        " in Numba. JAX, PyTorch, autograd and CasADi,\n  the fastest of them for each problem,"
        f" take {others:.0f} times as long as fdiff (geometric means of\n  {n} benchmarks;"
        " [eight of them](#benchmarks))."
    )


def markdown(raw: Mapping[str, object]) -> str:
    """The whole report: summary, warm, cold, memory, what is missing, where it comes from."""
    cases = raw["cases"]
    tables = [summary_table(cases), means(cases), warm_table(cases), cold_table(cases)]
    parts = [*tables, memory_table(cases), absent(cases), origin(raw["machine"])]
    return "\n\n".join(part for part in parts if part) + "\n"


# Rows of other results that README shows: a call, the file, its part and row, and who else ran it.
OTHER_ROWS = (
    ("value+grad Kalman filter, 10,000 steps", "loops", "filters",
     "Kalman filter, 10,000, value_and_grad", ("JAX",)),
    ("value+grad Lorenz-96, 1,000 steps", "loops", "states", "Lorenz-96, 20 states", ("CasADi",)),
    ("sparse Hessian, 100,000 variables", "sparse", "chain, Hessian, n = 100,000", "",
     ("asdex", "CasADi")),
    ("sparse Jacobian, Brusselator 100×100", "sparse", "Brusselator, 100 x 100", "",
     ("asdex", "CasADi")),
)  # fmt: skip
TITLES = {"JAX": "JAX, `lax.scan`", "CasADi": "CasADi", "asdex": "JAX with asdex"}


def loops_and_sparse(results: Path = RESULTS) -> str:
    """What the README shows of loops and sparse derivatives, from the latest of their results."""
    latest = {
        name: json.loads(max(results.glob(f"{name}-[0-9]*.json")).read_text(encoding="utf-8"))
        for name in ("loops", "sparse")
    }
    rows: list[list[str]] = []
    for title, name, part, row, others in OTHER_ROWS:
        figures = latest[name][part][row] if row else latest[name][part]
        told = {who: duration(1e-6 * figures[who]) for who in figures}
        beside = ", ".join(f"{told[who]} ({TITLES[who]})" for who in others)
        rows.append([title, told["fdiff"], told.get("by hand", "—"), beside])
    runs = " and ".join(
        f"`python -m benchmarks.{name}` on {raw['machine']['date']} ({raw['machine']['processor']})"
        for name, raw in latest.items()
    )
    machine = latest["loops"]["machine"]
    return (
        f"{table(['call', 'fdiff', 'hand-written', 'others'], rows)}\n\nMeasured by {runs}, one"
        f" thread, Python {machine['python']}, JAX {machine['versions']['jax']}."
    )


def placed(text: str, raw: Mapping[str, object]) -> str:
    """`text` with the figures between their marks."""
    blocks = {
        "headline": headline(raw),
        "benchmarks": f"\n{summary(raw)}\n",
        "loops and sparse": f"\n{loops_and_sparse()}\n",
    }
    for name, found in blocks.items():
        begin, end = (mark.format(name) for mark in MARKS)
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{found}\n{end}{rest.split(end)[1]}"
    return text
