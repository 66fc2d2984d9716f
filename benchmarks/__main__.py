"""The command: `python -m benchmarks [--only WORDS] [--peers NAMES] [--quick] [--readme]`.

Writes `results.json` (raw figures) and `results.md` (tables) beside this file. `--readme` measures
nothing: it puts the tables of the raw figures at hand into the README.
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
from .run import ROOT, all_peers, chosen, machine

HERE = Path(__file__).parent
RAW, TABLES, README = HERE / "results.json", HERE / "results.md", ROOT / "README.md"
BUDGET, QUICK = 0.6, 0.1  # seconds of calls for each figure


def write_readme() -> None:
    raw = json.loads(RAW.read_text(encoding="utf-8"))
    README.write_text(placed(README.read_text(encoding="utf-8"), raw), encoding="utf-8")


def run(only: list[str], peers: list[str], budget: float) -> dict[str, object]:
    """All figures asked for."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    raw: dict[str, object] = {"machine": {"date": today, **machine()}, "cases": {}}
    for case in chosen(only, CASES):
        found = all_peers(case, chosen(peers, PEERS), budget)
        raw["cases"][case] = found
        print(markdown({**raw, "cases": {case: found}}).split("\n\nMeasured")[0], flush=True)
        print()
    return raw


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name holds such a word")
    parser.add_argument("--peers", nargs="*", default=[], help=f"of {', '.join(PEERS)}")
    parser.add_argument("--quick", action="store_true", help="rough figures")
    parser.add_argument("--update", action="store_true", help="keep the other figures on file")
    parser.add_argument("--readme", action="store_true", help="rewrite the README's tables")
    options = parser.parse_args()
    if options.readme:
        write_readme()
        return 0
    raw = run(options.only, options.peers, QUICK if options.quick else BUDGET)
    partial = options.only or options.peers
    if options.update and RAW.exists():
        known = json.loads(RAW.read_text(encoding="utf-8"))["cases"]
        raw["cases"] = {
            name: {**known.get(name, {}), **raw["cases"].get(name, {})}
            for name in CASES
            if name in known or name in raw["cases"]
        }
    if not partial or options.update:
        RAW.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
        TABLES.write_text(f"# Benchmarks\n\n{markdown(raw)}", encoding="utf-8")
    wrong = [f for peers in raw["cases"].values() for f in peers.values() if "error" in f]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
