"""Processes of the benchmarks: each figure comes from a fresh one."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from .cases import CASES
from .peers import ONE_THREAD, PEERS

ROOT = Path(__file__).parents[1]
PATIENCE = 600  # seconds for one process
PACKAGES = (
    "numba-fdiff",
    "numpy",
    "scipy",
    "numba",
    "jax",
    "torch",
    "autograd",
    "casadi",
)

Figures = dict[str, object]


def child(module: str, *arguments: str, environment: Mapping[str, str]) -> Figures:
    """What `python -m benchmarks.module` prints, or its error."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FDIFF_")}
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**kept, **ONE_THREAD, **environment},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no result after {PATIENCE} s"}
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": lines[-1].strip() if lines else f"exit status {done.returncode}"}
    return json.loads(done.stdout)


def one(
    case: str,
    peer: str,
    budget: float,
    reference: Path,
    cache: Path,
    environment: Mapping[str, str] | None = None,
) -> Figures:
    """The figures of one case by one peer; fdiff keeps its kernels in `cache`."""
    asked = json.dumps({"case": case, "peer": peer, "budget": budget, "reference": str(reference)})
    variables = PEERS[peer].environment if environment is None else environment
    return child("worker", asked, environment={**variables, "FDIFF_CACHE_DIR": str(cache)})


def all_peers(case: str, peers: Iterable[str], budget: float) -> dict[str, Figures]:
    """The figures of one case; the interpreter always runs, first: it is the reference."""
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as folder:
        reference, cache = Path(folder) / "reference.npy", Path(folder) / "kernels"
        for name in dict.fromkeys(["interpreted", *peers]):
            if name in CASES[case].skip:
                found[name] = {"skipped": CASES[case].skip[name]}
                continue
            seconds = 0.0 if PEERS[name].repeated else budget
            found[name] = one(case, name, seconds, reference, cache)
            if "error" in found[name] and name == "interpreted":
                break
    return found


def middle(rounds: Sequence[Figures]) -> Figures:
    """One peer's figures over several rounds: the median of each number."""
    if len(rounds) == 1 or any("first" not in figures for figures in rounds):
        return next((f for f in rounds if "error" in f), rounds[0])
    found = dict(rounds[0])
    for key in ("import", "first", "quartiles"):
        if key in found:
            found[key] = np.median([figures[key] for figures in rounds], axis=0).tolist()
    return found


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
