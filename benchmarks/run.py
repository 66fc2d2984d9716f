"""Processes of the benchmarks: one for each peer, all on one core, timed in turn."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .cases import CASES
from .peers import ONE_THREAD, PEERS

ROOT = Path(__file__).parents[1]
PATIENCE = 45  # seconds for one answer of a peer
ALONE = 600  # seconds for a process that measures for itself
TURNS = 5  # of each process, so that what disturbs the machine disturbs all of them
PACKAGES = (
    "numba-fdiff",
    "numpy",
    "scipy",
    "numba",
    "jax",
    "torch",
    "autograd",
    "casadi",
    "asdex",
)

Figures = dict[str, object]


def environment_of(own: Mapping[str, str]) -> dict[str, str]:
    """The caller's, less fdiff's settings, with one thread for everything."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FDIFF_")}
    return {**kept, **ONE_THREAD, **own}


def last_words(stderr: str, status: int) -> str:
    """The error that ended a process: JAX adds a line of advice to it."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt)\b", line)]
    return (errors or lines or [f"exit status {status}"])[-1]


def child(module: str, *arguments: str, environment: Mapping[str, str]) -> Figures:
    """What `python -m benchmarks.module` prints, or its error."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    settings = {"cwd": ROOT, "env": environment_of(environment), "text": True}
    try:
        done = subprocess.run(command, capture_output=True, timeout=ALONE, check=False, **settings)
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {ALONE} s"}
    if done.returncode:
        return {"error": last_words(done.stderr, done.returncode)}
    return json.loads(done.stdout)


class Worker:
    """A process of one case and one peer, which computes when it is asked to and waits else."""

    def __init__(self, asked: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self.stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", json.dumps(asked)],
            cwd=ROOT,
            env=environment_of(environment),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
        )
        self.figures: Figures = {}
        self.seconds: list[float] = []
        self.spent = 0.0
        self.take(self.answer())

    def answer(self) -> Figures:
        """The next line of the process; it is killed if that takes too long."""
        guard = threading.Timer(PATIENCE, self.process.kill)
        guard.start()
        line = self.process.stdout.readline()
        late = not guard.is_alive()
        guard.cancel()
        if line:
            return json.loads(line)
        status = self.process.wait()
        self.stderr.seek(0)
        if late:
            return {"error": f"> {PATIENCE} s", "late": PATIENCE}
        return {"error": last_words(self.stderr.read(), status)}

    def take(self, answer: Figures) -> None:
        self.seconds += answer.pop("seconds", [])
        self.figures.update(answer)

    def ask(self, words: str) -> None:
        self.process.stdin.write(f"{words}\n")
        self.process.stdin.flush()
        self.take(self.answer())

    def turn(self, budget: float) -> None:
        """Times calls, unless enough have been: a slow peer has fewer turns than a fast one."""
        enough = self.spent >= PATIENCE / 10 or (self.spent >= budget and len(self.seconds) >= 3)
        if "error" in self.figures or enough:
            return
        begin = time.perf_counter()
        self.ask(f"time {budget / TURNS}")
        self.spent += time.perf_counter() - begin

    def end(self) -> Figures:
        """The figures of the process, which ends."""
        if "error" not in self.figures:
            self.ask("end")
        if self.seconds:
            found = np.percentile(self.seconds, [25, 50, 75])
            self.figures["quartiles"] = [float(q) for q in found]
        self.process.communicate()
        self.stderr.close()
        return self.figures


def start(
    case: str,
    peer: str,
    reference: Path,
    cache: Path,
    environment: Mapping[str, str] | None = None,
) -> Worker:
    asked = {"case": case, "peer": peer, "reference": str(reference)}
    variables = PEERS[peer].environment if environment is None else environment
    return Worker(asked, {**variables, "FDIFF_CACHE_DIR": str(cache)})


def one(
    case: str,
    peer: str,
    budget: float,
    reference: Path,
    cache: Path,
    environment: Mapping[str, str] | None = None,
) -> Figures:
    """The figures of one process; kernels are kept in `cache`."""
    worker = start(case, peer, reference, cache, environment)
    for _ in range(TURNS if budget else 0):
        worker.turn(budget)
    return worker.end()


def all_peers(case: str, peers: Iterable[str], budget: float) -> dict[str, Figures]:
    """The figures of one case: first results one after another, then calls in turn.

    The interpreter always runs, first: it is the reference.
    """
    found: dict[str, Figures] = {}
    workers: dict[str, Worker] = {}
    with tempfile.TemporaryDirectory() as folder:
        reference, cache = Path(folder) / "reference.npy", Path(folder) / "kernels"
        for name in dict.fromkeys(["interpreted", *peers]):
            without = CASES[case].skip.get(name) or _unstored(name, workers) or _unmade(name, case)
            if without:
                found[name] = {"skipped": without}
                continue
            workers[name] = start(case, name, reference, cache)
            if PEERS[name].after or "error" in workers[name].figures:
                workers[name].end()
        for _ in range(TURNS):
            for name, worker in workers.items():
                if not PEERS[name].after:
                    worker.turn(budget)
        for name, worker in workers.items():
            found[name] = worker.figures if worker.stderr.closed else worker.end()
    return {name: found[name] for name in PEERS if name in found}


def _unstored(name: str, workers: Mapping[str, Worker]) -> str:
    """Why there is nothing to find for a peer that wants what another has kept."""
    before = PEERS[name].after
    if not before:
        return ""
    if before not in workers:
        return f"without a run of {PEERS[before].title} nothing is kept"
    return "nothing was kept" if "error" in workers[before].figures else ""


def _unmade(name: str, case: str) -> str:
    """Why a peer has not this derivative."""
    known, call = PEERS[name].calls, CASES[case].call
    return f"it has no {call}" if known and call not in known else ""


def middle(rounds: Sequence[Figures]) -> Figures:
    """One peer's figures over several rounds: the median of each number."""
    if len(rounds) == 1 or any("first" not in figures for figures in rounds):
        return next((f for f in rounds if "error" in f), rounds[0])
    found = dict(rounds[0])
    for key in ("import", "first", "quartiles", "peak", "grown"):
        if key in found:
            found[key] = np.median([figures[key] for figures in rounds], axis=0).tolist()
    return found


def keep(name: str, part: str, figures: object) -> None:
    """Put figures of a part into the file of raw figures of a day, ``results/NAME-DATE.json``."""
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    path = Path(__file__).with_name("results") / f"{name}-{today}.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = {"machine": {"date": today, **machine()}} | kept | {part: figures}
    path.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def machine() -> dict[str, object]:
    """Processor, system and versions."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def chosen(wanted: Sequence[str], known: Iterable[str]) -> list[str]:
    """The known names that contain one of the wanted words; all of them if none is wanted."""
    return [k for k in known if not wanted or any(w.lower() in k.lower() for w in wanted)]
