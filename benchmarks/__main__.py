"""The command: `python -m benchmarks [--only WORDS] [--peers NAMES] [--rounds N] [--readme]`.

A run of everything writes `results.json` (raw figures) and `results.md` (tables) beside this file.
`--readme` measures nothing: it puts the tables of the raw figures at hand into the README.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from pathlib import Path

from .cases import CASES
from .peers import PEERS
from .report import markdown, placed
from .run import ROOT, all_peers, chosen, machine, middle

HERE = Path(__file__).parent
RAW, TABLES, README = HERE / "results.json", HERE / "results.md", ROOT / "README.md"
BUDGET, QUICK = 0.6, 0.1  # seconds of calls for each figure


def write_readme() -> None:
    raw = json.loads(RAW.read_text(encoding="utf-8"))
    README.write_text(placed(README.read_text(encoding="utf-8"), raw), encoding="utf-8")


def run(only: list[str], peers: list[str], budget: float, rounds: int) -> dict[str, object]:
    """All figures asked for."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    raw: dict[str, object] = {
        "machine": {"date": today, "rounds": rounds, **machine()},
        "cases": {},
    }
    for case in chosen(only, CASES):
        each = [all_peers(case, chosen(peers, PEERS), budget) for _ in range(rounds)]
        found = {name: middle([f[name] for f in each if name in f]) for name in each[0]}
        raw["cases"][case] = found
        print(markdown({**raw, "cases": {case: found}}).split("\n\nMeasured")[0], flush=True)
        print()
    return raw


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name holds such a word")
    parser.add_argument("--peers", nargs="*", default=[], help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=3, help="fresh processes for each figure")
    parser.add_argument("--quick", action="store_true", help="rough figures, of one round")
    parser.add_argument("--readme", action="store_true", help="rewrite the README's tables")
    options = parser.parse_args()
    if options.readme:
        write_readme()
        return 0
    budget, rounds = (QUICK, 1) if options.quick else (BUDGET, options.rounds)
    raw = run(options.only, options.peers, budget, rounds)
    if not options.only and not options.peers:
        RAW.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
        TABLES.write_text(f"# Benchmarks\n\n{markdown(raw)}", encoding="utf-8")
    wrong = [f for peers in raw["cases"].values() for f in peers.values() if "error" in f]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
