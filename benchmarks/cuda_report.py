"""The table of a run of `python -m benchmarks.cuda`, as Markdown.

``python -m benchmarks.cuda_report`` prints that of the latest run, and puts it into the page on
GPUs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS, PAGE = ROOT / "benchmarks" / "results", ROOT / "docs" / "cuda.md"
BEGIN, END = "<!-- cuda: begin -->\n", "<!-- cuda: end -->"
SMALL, PEERS = "a small call", ("jax", "torch")


def latest() -> Path:
    """The file of the latest run."""
    return max(RESULTS.glob("cuda-*.json"))


def markdown(parts: dict[str, Any]) -> str:
    """The table of a run, and what it found besides; a part that failed is a dash."""
    machine, suite = parts["machine"], parts["suite"]
    lines = [
        "| value and gradient | fdiff | of a copy | error | JAX | torch |",
        "|---|---|---|---|---|---|",
    ]
    small = {"name": SMALL, "seconds": parts["calls"].get("seconds of a small call")}
    for row in (*parts["rows"], small):
        share, error = row.get("of a copy", 0.0), row.get("error")
        cells = [
            f"{row['name']}: 1,000 entries" if row is small else row["name"],
            _time(row.get("seconds")),
            f"{100 * share:.0f} %" if share >= 0.01 else "-",
            "-" if error is None else f"{error:.0e}",
            *(_beside(_peer(parts[name], row["name"]), row.get("seconds")) for name in PEERS),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    sums = ", ".join(
        f"{row['name']} {100 * row['of a copy']:.0f} %"
        for row in parts["reductions"]
        if "of a copy" in row
    )
    said = ", ".join(f"{row['name']}: {row.get('said', 'a fault')}" for row in parts["sanitizer"])
    versions = ", ".join(f"{n} {v}" for n, v in machine["versions"].items() if v != "not installed")
    found = (
        f"Reductions of 1e8 doubles, of the bandwidth of a copy ({parts['copy'] / 1e12:.2f} TB/s):"
        f" {sums}. Programs of the op suite on the GPU: {suite['run']} of {suite['programs']},"
        f" {len(suite['wrong'])} wrong. compute-sanitizer: {said}."
    )
    graphs = ", ".join(map(_with_and_without, parts.get("graphs", [])))
    if graphs:  # runs before these were measured have none
        found += f" Calls with and without a CUDA graph: {graphs}."
    how = (
        f"Measured by `python -m benchmarks.cuda` on {machine['date']}: {machine['device']},"
        f" {versions}. float64; arrays lie on the GPU: 1e8 entries, in logistic regression"
        " 2,000,000 rows of 20, in the mixture 100,000 points. Medians of the calls of a second."
        " Factors are the other library's time over fdiff's: above 1 fdiff is faster."
    )
    lines += [found, "", how]
    return "\n".join(lines) + "\n"


def placed(text: str, table: str) -> str:
    """A page with the table in its place."""
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + table + "\n" + END + rest.split(END)[1]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} µs"


def _with_and_without(row: dict[str, Any]) -> str:
    """The time of a small call by a graph of its launches, and by these one by one."""
    both = (_time(row.get(f"seconds {how}")) for how in ("with a graph", "one by one"))
    return f"{row['name']} ({row.get('launches', '-')} launches) {' and '.join(both)}"


def _peer(rows: object, name: str) -> float | None:
    """The time of a row by another library, if that did it."""
    found = [r.get("seconds") for r in rows if r["name"] == name] if isinstance(rows, list) else []
    return found[0] if found else None


def _beside(seconds: float | None, own: float | None) -> str:
    """The time of another library, and how many times as long it is."""
    return "-" if seconds is None or own is None else f"{_time(seconds)} ({seconds / own:.2f}×)"


def main() -> int:
    table = markdown(json.loads(latest().read_text(encoding="utf-8")))
    print(table)
    PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
