"""The command: `python -m benchmarks [--only WORDS] [--peers NAMES] [--rounds N] [--quick]`.

A run of everything writes `results/DATE.json` (raw figures) and `results.md` (tables) beside this
file; it takes 15 to 30 minutes on two cores. `--readme`, `--plot` and `--history` measure nothing:
they put the summary of the latest raw figures into the README, draw them into `plots/`, and list
what each earlier run came to.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
from pathlib import Path

from .cases import CASES
from .peers import PEERS
from .report import absent, cold_table, markdown, means, placed, summary_table, warm_table
from .run import ROOT, all_peers, chosen, machine, middle

HERE = Path(__file__).parent
RAW, TABLES, README = HERE / "results", HERE / "results.md", ROOT / "README.md"
BUDGET, QUICK = 0.5, 0.1  # seconds of calls for each figure


def runs() -> list[Path]:
    """The raw figures of all runs, the latest last: a file a day."""
    return sorted(RAW.glob("[0-9]*.json"))


def at_hand() -> dict[str, object]:
    return json.loads(runs()[-1].read_text(encoding="utf-8"))


def history() -> str:
    """The geometric means of each run; machines differ from day to day, so compare with care."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in runs()]
    return "\n".join(
        f"{raw['machine']['date']}, {raw['machine']['processor']}, fdiff "
        f"{raw['machine']['versions']['numba-fdiff']}. {means(raw['cases'])}"
        for raw in read
    )


def write_tables(raw: dict[str, object]) -> None:
    TABLES.write_text(f"# Benchmarks\n\n{markdown(raw)}", encoding="utf-8")


def write_readme() -> None:
    """The README's summary, and the tables, which must agree with it."""
    write_tables(at_hand())
    README.write_text(placed(README.read_text(encoding="utf-8"), at_hand()), encoding="utf-8")


def run(only: list[str], peers: list[str], budget: float, rounds: int) -> dict[str, object]:
    """All figures asked for."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    raw: dict[str, object] = {
        "machine": {"date": today, "rounds": rounds, **machine()},
        "cases": {},
    }
    asked = chosen(peers, PEERS) if peers else [n for n, peer in PEERS.items() if not peer.named]
    for case in chosen(only, CASES):
        each = [all_peers(case, asked, budget) for _ in range(rounds)]
        found = {name: middle([f[name] for f in each if name in f]) for name in each[0]}
        raw["cases"][case] = found
        rows = {case: found}
        print(f"{warm_table(rows)}\n\n{cold_table(rows)}\n\n{absent(rows)}\n", flush=True)
    print(f"{summary_table(raw['cases'])}\n\n{means(raw['cases'])}")
    return raw


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose name holds such a word")
    parser.add_argument("--peers", nargs="*", default=[], help=f"of {', '.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=1, help="fresh processes for each figure")
    parser.add_argument("--quick", action="store_true", help="rough figures, of one round")
    parser.add_argument("--readme", action="store_true", help="rewrite the README's summary")
    parser.add_argument("--plot", action="store_true", help="draw the figures at hand")
    parser.add_argument("--history", action="store_true", help="list what each run came to")
    options = parser.parse_args()
    if options.readme:
        write_readme()
    if options.plot:
        from .plot import plots

        print("\n".join(map(str, plots(at_hand()))))
    if options.history:
        print(history())
    if options.readme or options.plot or options.history:
        return 0
    budget, rounds = (QUICK, 1) if options.quick else (BUDGET, options.rounds)
    raw = run(options.only, options.peers, budget, rounds)
    if not options.only and not options.peers:
        path = RAW / f"{raw['machine']['date']}.json"
        path.write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
        write_tables(raw)
    figures = [f for peers in raw["cases"].values() for f in peers.values()]
    return 1 if any("error" in f and "late" not in f for f in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
