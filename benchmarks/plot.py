"""A plot for each problem: seconds a call against its size, as SVG. Needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from .cases import CASES, Case
from .peers import PEERS
from .report import WARM_ORDER, Cases, median

FOLDER = Path(__file__).parent / "plots"
COLOURS = {
    "numpy": "tab:gray",
    "limit": "black",
    "fdiff": "tab:red",
    "evaluated": "salmon",
    "interpreted": "mistyrose",
    "jax": "tab:blue",
    "torch": "tab:orange",
    "inductor": "gold",
    "autograd": "tab:green",
    "casadi": "tab:purple",
}


def by_problem(cases: Cases) -> dict[str, list[Case]]:
    """The measured cases of each problem, by size."""
    found: dict[str, list[Case]] = {}
    for case in sorted((CASES[name] for name in cases if name in CASES), key=lambda c: c.size):
        found.setdefault(case.problem, []).append(case)
    return found


def curve(some: list[Case], cases: Cases, peer: str) -> tuple[list[int], list[float]]:
    points = [(c.size, median(cases[c.name].get(peer, {}))) for c in some]
    known = [(n, seconds) for n, seconds in points if not math.isnan(seconds)]
    return [n for n, _ in known], [seconds for _, seconds in known]


def draw(problem: str, some: list[Case], cases: Cases, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.set_title(problem)
    for peer in WARM_ORDER:
        sizes, seconds = curve(some, cases, peer)
        if not sizes:
            continue
        title, colour = PEERS[peer].title, COLOURS[peer]
        if len(some) > 1:
            axes.loglog(sizes, seconds, marker="o", label=title, color=colour)
        else:
            axes.barh(title, seconds, color=colour)
    if len(some) > 1:
        axes.set(xlabel="size", ylabel="seconds a call")
        axes.legend()
    else:
        axes.set(xscale="log", xlabel="seconds a call")
        axes.invert_yaxis()
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def plots(raw: Mapping[str, object], folder: Path = FOLDER) -> list[Path]:
    """Draws them all; the files. Equal figures give equal files."""
    import matplotlib as mpl

    folder.mkdir(exist_ok=True)
    paths = []
    with mpl.rc_context({"svg.hashsalt": "fdiff", "svg.fonttype": "none"}):
        for problem, some in by_problem(raw["cases"]).items():
            name = "".join(c if c.isalnum() else "-" for c in problem.lower())
            paths.append(folder / f"{name}.svg")
            draw(problem, some, raw["cases"], paths[-1])
    return paths
