# ruff: noqa: INP001, T201 - a script, which prints
"""Which NumPy functions work, tried one by one; writes docs/coverage.md.

    python docs/make_coverage.py          # try every example, print what fails
    python docs/make_coverage.py --write  # and write docs/coverage.md

An example is a line of tests/data/coverage.txt: ``name :: expression``, with statements before it
divided by ``;``, or ``name :: - reason`` for what is refused. How often users write an op is in
tests/data/ops_ranked.csv.
"""

from __future__ import annotations

import csv
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import fdiff
from fdiff.primitive import ANSWERS, FUNCTIONS, PRIMITIVES, UFUNC_METHODS, UFUNCS

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
RANKS = 300
INTRODUCTION = """\
Written by `docs/make_coverage.py`. *Rank*: how many ops users write more often. Each example is
checked against NumPy for its value and against differences for its first and second derivative
(`tests/test_coverage.py`)."""


class Example(NamedTuple):
    """An op and how it is tried, or why it is refused."""

    name: str
    code: str
    reason: str


def examples() -> list[Example]:
    """The rows of tests/data/coverage.txt."""
    rows = []
    text = (ROOT / "tests" / "data" / "coverage.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        name, code = (part.strip() for part in line.split(" :: ", 1))
        refused = code.startswith("- ")
        rows.append(Example(name, "" if refused else code, code[2:] if refused else ""))
    return rows


def ranked() -> dict[str, int]:
    """How many users write an op more often, by its name."""
    with (ROOT / "tests" / "data" / "ops_ranked.csv").open(encoding="utf-8") as file:
        rows = csv.DictReader(file)
        return {short(row["op"]): int(row["rank"]) for row in rows}


def short(op: str) -> str:
    return "np." + op.removeprefix("numpy.") if op.startswith("numpy.") else op


# --- trying one -------------------------------------------------------------------------------


def arrays() -> dict[str, np.ndarray]:
    """What the examples are made of: away from kinks, and one vector in all."""
    rng = np.random.default_rng(7)
    x = rng.choice([-1, 1], (3, 4)) * (0.2 + 0.17 * rng.permutation(12).reshape(3, 4))
    x = x + rng.uniform(0, 0.05, (3, 4))
    a = rng.normal(size=(2, 3, 3)) + 2.0 * np.eye(3)
    return {
        "x": x,
        "y": rng.permutation(x.ravel()).reshape(3, 4)[::-1] + 0.061,
        "p": np.abs(x) + 0.1,
        "u": x / 2.4,
        "q": np.abs(x) + 1.05,
        "v": x[0] + 0.3,
        "w": x[:, 1] - 0.2,
        "v3": x[1, :3],
        "s": np.array(0.7),
        "z": np.array(1.3),
        "t": rng.normal(size=(2, 3, 4)),
        "a": a[0],
        "A": a,
    }


MOVING = arrays()
START = np.concatenate([array.ravel() for array in MOVING.values()])
_rng = np.random.default_rng(3)
_holed = _rng.permutation(MOVING["x"].ravel()).reshape(3, 4)
_holed[[0, 2], [1, 3]] = np.nan
FIXED = {
    "g": _holed,
    "f": 0.7,
    "e": np.zeros((0, 3)),
    "m": _rng.uniform(size=(3, 4)) > 0.4,
    "m0": np.array([True, False, True]),
    "i": _rng.integers(-9, 9, (3, 4)),
    "n": _rng.integers(0, 4, (3, 4)),
    "k": np.array([0, -1, 2, 2, 0]),
    "one": np.ones((3, 4)),
    "c": MOVING["a"] @ MOVING["a"].T + np.eye(3),
    "C": MOVING["A"] @ np.swapaxes(MOVING["A"], 1, 2) + np.eye(3),
}


def function_of(code: str) -> Callable[[np.ndarray], object]:
    """The example as a function of one vector, out of which its arrays are cut."""
    lines, place = ["def f(vector):"], 0
    for name, array in MOVING.items():
        lines.append(f"    {name} = vector[{place}:{place + array.size}].reshape({array.shape})")
        place += array.size
    *before, last = [part.strip() for part in code.split(";")]
    lines += [f"    {part}" for part in before] + [f"    return {last}"]
    scope: dict[str, object] = {"np": np, **FIXED, "__name__": "user"}
    exec("\n".join(lines), scope)  # noqa: S102 - our own table
    return scope["f"]  # type: ignore[return-value]


def parts(value: object) -> list[object]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def weighted(code: str, values: list[np.ndarray]) -> Callable[[np.ndarray], object]:
    """A number made of all floating parts of an example's result."""
    f, rng = function_of(code), np.random.default_rng(1)
    chosen = [k for k, v in enumerate(values) if v.dtype.kind in "fc"]
    weights = {k: rng.normal(size=values[k].shape) for k in chosen}

    def total(vector: np.ndarray) -> object:
        out = parts(f(vector))
        return sum(np.sum(weights[k] * (np.real(out[k]) + np.imag(out[k]))) for k in chosen)

    return total


def differences(f: Callable[[np.ndarray], object], v: np.ndarray) -> np.ndarray:
    """Slope along `v`: central differences, extrapolated twice (Richardson)."""
    steps = (2e-3, 1e-3, 5e-4)
    with np.errstate(all="ignore"):
        up = [np.asarray(f(START + h * v)) for h in steps]
        down = [np.asarray(f(START - h * v)) for h in steps]
    rows = [(a - b) / (2 * h) for a, b, h in zip(up, down, steps, strict=True)]
    for factor in (4.0, 16.0):
        rows = [(factor * b - a) / (factor - 1) for a, b in pairwise(rows)]
    return rows[0]


def near(ours: object, theirs: object, tolerance: float) -> bool:
    scale = max(1.0, float(np.max(np.abs(np.nan_to_num(theirs)), initial=0.0)))
    return np.allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale, equal_nan=True)


def attempt(code: str) -> str:
    """Empty if value, first and second order are right, else what is wrong."""
    f = function_of(code)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            expected = [np.asarray(e) for e in parts(f(START.copy()))]
            ours = [np.asarray(e) for e in parts(fdiff.jit(f)(START))]
            for o, e in zip(ours, expected, strict=True):
                if o.dtype != e.dtype or o.shape != e.shape or not near(o, e, 1e-12):
                    return "another value than NumPy"
            if not any(e.dtype.kind in "fc" and np.all(np.isfinite(e)) for e in expected):
                return ""
            total = weighted(code, expected)
            v = np.random.default_rng(2).normal(size=START.shape)
            slope = fdiff.grad(total)
            if not near(slope(START) @ v, differences(total, v), 1e-7):
                return "another first derivative than differences"
            second = np.asarray(fdiff.hvp(total, START, v)[1])
            if not near(second, differences(slope, v), 1e-6):
                return "another second derivative than differences"
        except Exception as error:  # noqa: BLE001 - whatever it is goes into the report
            return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


# --- the page ---------------------------------------------------------------------------------


def kind_of(name: str) -> str:
    """How fdiff answers for an op."""
    if not name.startswith("np."):
        return "operator"
    value: object = np
    path = name.removeprefix("np.").split(".")
    for part in path:
        value = getattr(value, part, None)
    if value in UFUNCS:
        return "primitive" if getattr(value, "__name__", "") in PRIMITIVES else "built of others"
    if path[-1] in PRIMITIVES and value in FUNCTIONS:
        return "primitive"
    if value in FUNCTIONS:
        return "built of others"
    if len(path) > 1 and (getattr(np, path[0], None), path[-1]) in UFUNC_METHODS:
        return "built of others"
    return "answered in private copies" if id(value) in ANSWERS else "concrete"


def page() -> str:
    """The text of docs/coverage.md."""
    ranks = ranked()
    rows = sorted(examples(), key=lambda e: (ranks.get(e.name, 10**6), e.name))
    lines = [
        "# Coverage",
        "",
        INTRODUCTION,
        "",
        "| rank | op | how | example |",
        "|---:|---|---|---|",
    ]
    for e in rows:
        rank = str(ranks.get(e.name, ""))
        how, shown = ("refused", e.reason) if e.reason else (kind_of(e.name), f"`{e.code}`")
        cells = [cell.replace("|", r"\|") for cell in (rank, e.name, how, shown)]
        lines.append(f"| {' | '.join(cells)} |")
    shown = {e.name for e in rows}
    missing = [n for n, r in ranks.items() if r <= RANKS and n not in shown]
    lines += ["", f"Of the first {RANKS} ops these have no example here:", ""]
    lines += [", ".join(missing), ""]
    return "\n".join(lines)


def main() -> None:
    results = {e.name: attempt(e.code) for e in examples() if not e.reason}
    failed = {name: why for name, why in results.items() if why}
    print(f"{len(results) - len(failed)} of {len(results)} pass to second order")
    for name, why in failed.items():
        print(f"  {name}: {why}")
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
