# ruff: noqa: INP001, T201 - a script, which prints
"""Which functions of NumPy and SciPy work, tried one by one; writes docs/coverage.md.

    python docs/make_coverage.py          # try every example, print what passes and what fails
    python docs/make_coverage.py --write  # and write docs/coverage.md

An example is a line of tests/data/coverage.txt: ``name :: expression``, with statements before it
divided by ``;``, or ``name :: - reason`` for what is refused. How often users write an op is in
tests/data/ops_ranked.csv.
"""

from __future__ import annotations

import atexit
import csv
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse.linalg
import scipy.spatial
import scipy.special
import scipy.stats

import fdiff
from fdiff.capture.impure_functions import impurity
from fdiff.primitive import FUNCTIONS, PRIMITIVES, REPLACEMENTS, UFUNC_METHODS, UFUNCS, load_tables

load_tables()  # the tables that wait for a function that needs them
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "coverage.md"
RANKS = 300
FILES = tempfile.TemporaryDirectory()  # where examples read and write
atexit.register(FILES.cleanup)
INTRODUCTION = """\
This page lists the functions of NumPy and SciPy that fdiff differentiates, with an example of each,
and the functions that it does not differentiate, with the reason. `docs/make_coverage.py` writes
this page.

- *Rank* is the number of ops that users write more often.
- Each example is compared with plain NumPy and SciPy for its value, and with differences for its
  first and second derivative (`tests/project/test_coverage.py`).
- *Traced at each call*: the function reads a file, a setting or random numbers. A `RetraceWarning`
  says so.
- [Solvers](solvers.md) describes how `quad`, `root`, `minimize`, `solve_ivp` and others are
  differentiated.
- Recorded arrays have the same gradients. They raise an error if a plain array would be made from
  them (`tests/autograd/test_coverage_on_recorded_arrays.py`)."""


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
    **{kind: str(Path(FILES.name, f"a.{kind}")) for kind in ("npy", "raw", "txt")},
    "c": MOVING["a"] @ MOVING["a"].T + np.eye(3),
    "C": MOVING["A"] @ np.swapaxes(MOVING["A"], 1, 2) + np.eye(3),
}


def write_files() -> None:
    """What examples read."""
    w = np.array([0.5, 2.0, 3.0])
    np.save(FIXED["npy"], w)
    np.savetxt(FIXED["txt"], w)
    w.tofile(FIXED["raw"])


write_files()


def function_of(code: str) -> Callable[[np.ndarray], object]:
    """The example as a function of one vector, out of which its arrays are cut."""
    lines, place = ["def f(vector):"], 0
    for name, array in MOVING.items():
        lines.append(f"    {name} = vector[{place}:{place + array.size}].reshape({array.shape})")
        place += array.size
    *before, last = [part.strip() for part in code.split(";")]
    lines += [f"    {part}" for part in before] + [f"    return {last}"]
    scope: dict[str, object] = {"np": np, "scipy": scipy, **FIXED, "__name__": "user"}
    exec("\n".join(lines), scope)  # noqa: S102 - our own table
    return scope["f"]


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


ORDERS = ("value", "first derivative", "second derivative")


def attempt(code: str) -> tuple[int, str]:
    """How many of `ORDERS` are right, and what is wrong with the next one."""
    f, right = function_of(code), 0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for check in checks(f, code):
                if not check():
                    return right, f"another {ORDERS[right]} than plain code"
                right += 1
        except Exception as error:  # noqa: BLE001 - whatever it is goes into the report
            return right, f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return len(ORDERS), ""


def checks(f: Callable[[np.ndarray], object], code: str) -> Iterator[Callable[[], bool]]:
    """Of the value, then of both derivatives if it has any."""
    expected = [np.asarray(e) for e in parts(f(START.copy()))]

    def value() -> bool:
        ours = [np.asarray(e) for e in parts(fdiff.jit(f)(START))]
        pairs = list(zip(ours, expected, strict=True))
        return all((o.dtype, o.shape) == (e.dtype, e.shape) and near(o, e, 1e-12) for o, e in pairs)

    yield value
    if not any(e.dtype.kind in "fc" and np.all(np.isfinite(e)) for e in expected):
        return
    total = weighted(code, expected)
    v = np.random.default_rng(2).normal(size=START.shape)
    slope = fdiff.grad(total)
    yield lambda: near(slope(START) @ v, differences(total, v), 1e-7)
    yield lambda: near(fdiff.hvp(total, START, v)[1], differences(slope, v), 1e-6)


# --- the page ---------------------------------------------------------------------------------


MODULES = (
    "special", "linalg", "sparse", "integrate", "optimize", "interpolate", "ndimage", "signal",
    "spatial", "stats",
)  # fmt: skip
FAMILIES = ("NumPy", "Python and ndarray", *(f"scipy.{module}" for module in MODULES))


def family(name: str) -> str:
    """The library or module an op belongs to."""
    if name.startswith("scipy."):
        return ".".join(name.split(".")[:2])
    return "NumPy" if name.startswith("np.") else "Python and ndarray"


def kind_of(name: str) -> str:
    """How fdiff answers for an op."""
    if not name.startswith(("np.", "scipy.")):
        return "operator"
    top, *path = name.split(".")
    chain: list[object] = [np if top == "np" else scipy]
    for part in path:
        chain.append(getattr(chain[-1], part, None))
    value = chain[-1]
    if impurity(value) is not None:
        return "traced at each call"
    if value in UFUNCS:
        return "primitive" if getattr(value, "__name__", "") in PRIMITIVES else "built of others"
    if path[-1] in PRIMITIVES and value in FUNCTIONS:
        return "primitive"
    if value in FUNCTIONS:
        return "built of others"
    if len(path) > 1 and (getattr(np, path[0], None), path[-1]) in UFUNC_METHODS:
        return "built of others"
    answered = any(id(part) in REPLACEMENTS or part in UFUNCS for part in chain[1:])
    if answered and top == "scipy":
        return "built of others"
    return "answered in private copies" if answered else "concrete"


def page() -> str:
    """The text of docs/coverage.md: what is used most comes first."""
    ranks = ranked()
    rows = sorted(examples(), key=lambda e: (ranks.get(e.name, 10**6), e.name))
    first = [e for e in rows if ranks.get(e.name, 10**6) <= RANKS]
    rest = [e for e in rows if ranks.get(e.name, 10**6) > RANKS]
    lines = ["# Coverage", "", INTRODUCTION, "", f"## The first {RANKS}", "", *table(first, ranks)]
    for name in sorted({family(e.name) for e in rest}, key=order):
        lines += ["", f"## {name}: the others", ""]
        lines += table([e for e in rest if family(e.name) == name], ranks)
    return "\n".join([*lines, ""])


def order(name: str) -> int:
    """Of the families: NumPy before SciPy."""
    return FAMILIES.index(name)


def table(rows: list[Example], ranks: dict[str, int]) -> list[str]:
    """Lines of Markdown."""
    lines = ["| rank | op | how | example |", "|---:|---|---|---|"]
    for e in rows:
        how, shown = ("refused", e.reason) if e.reason else (kind_of(e.name), f"`{e.code}`")
        cells = [c.replace("|", r"\|") for c in (str(ranks.get(e.name, "")), e.name, how, shown)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def missing() -> list[str]:
    """Ops of the first `RANKS` that have no row."""
    shown = {e.name for e in examples()}
    return [name for name, rank in ranked().items() if rank <= RANKS and name not in shown]


def main() -> None:
    rows = examples()
    results = {e.name: attempt(e.code) for e in rows if not e.reason}
    for name in sorted({family(e.name) for e in rows}, key=order):
        found = {n: r for n, r in results.items() if family(n) == name}
        counts = [sum(right > k for right, _ in found.values()) for k in range(len(ORDERS))]
        refused = sum(family(e.name) == name for e in rows if e.reason)
        passed = ", ".join(f"{word} {count}" for word, count in zip(ORDERS, counts, strict=True))
        print(f"{name}: {len(found)} examples; right: {passed}; refused {refused}")
        for op, (right, why) in found.items():
            if right < len(ORDERS):
                print(f"  {op}: {why}")
    print(f"of the first {RANKS} ops without a row: {', '.join(missing()) or 'none'}")
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
