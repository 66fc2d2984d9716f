"""Value and gradient of one function in several spellings, beside one hand-written kernel.

`python -m benchmarks.spellings [WORDS]`: the rows whose title or style holds such a word. Each
result is compared with the kernel's, to a relative 1e-9 of its largest entry; one core.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

import fdiff

from . import styles
from .inputs import drawn, labelled, point
from .limit.mixtures import diagonal_value_and_grad, full_value_and_grad
from .limit.regression import logistic_value_and_grad
from .limit.rosenbrock import rosenbrock_value_and_grad
from .peers import ONE_THREAD
from .worker import deviation, flat

Function = Callable[..., object]
Arrays = tuple[np.ndarray, ...]
ENVIRONMENT = {**ONE_THREAD, "FDIFF_NUM_THREADS": "1"}
SECONDS, ROUND, TOLERANCE, MOST_IN_A_LOOP = 0.3, 2e-3, 1e-9, 50


LOOPS = (styles.loop, styles.stores, styles.diag_loop)


class Row(NamedTuple):
    """A function in one style, its kernel, what is differentiated, and constant arguments."""

    title: str
    function: Function
    kernel: Function
    arguments: Arrays
    data: Arrays = ()


def mixture(n: int, d: int, terms: int) -> tuple[Arrays, Arrays]:
    """Weights, means, log-diagonals and factors; points."""
    rng = drawn()
    shapes = ((terms,), 1.0), ((terms, d), 1.0), ((terms, d), 0.2), ((terms, d, d), 0.3)
    return tuple(scale * rng.normal(size=shape) for shape, scale in shapes), (
        rng.normal(size=(n, d)),
    )


def rows() -> Iterator[Row]:
    """All there are."""
    for n, d, terms in ((10_000, 10, 25), (1000, 32, 200), (10_000, 2, 5)):
        parameters, data = mixture(n, d, terms)
        loops = LOOPS if terms <= MOST_IN_A_LOOP else ()
        title = f"mixture {n:,} d={d} K={terms}"
        for f in styles.FULL:
            if f not in LOOPS or f in loops:
                yield Row(title, f, full_value_and_grad, parameters, data)
        for f in styles.DIAG:
            if f not in LOOPS or f in loops:
                yield Row(f"{title} diagonal", f, diagonal_value_and_grad, parameters[:3], data)
    for f in styles.ROSEN:
        yield Row("Rosenbrock 100,000", f, rosenbrock_value_and_grad, (point(100_000),))
    for n, d in ((1000, 20), (1000, 50), (10_000, 50)):
        w, data = labelled(n, d)()
        for f in styles.LOGI:
            yield Row(
                f"logistic {n:,}×{d}", f, logistic_value_and_grad, w, tuple(map(np.asarray, data))
            )


def prepared(row: Row) -> Function:
    """The compiled derivative."""
    count = len(row.arguments)

    def bound(*xs: np.ndarray) -> object:
        return row.function(*xs, *row.data)

    f = fdiff.jit(fdiff.value_and_grad(bound, argnums=tuple(range(count)) if count > 1 else 0))
    wanted, found = (flat(g(*row.arguments)) for g in (lambda *xs: row.kernel(*xs, *row.data), f))
    differs = deviation(found, wanted)
    assert differs < TOLERANCE, f"{row.title} {row.function.__name__}: {differs:.1e}"
    return f


def seconds(call: Callable[[], object]) -> float:
    """Of the processor, a call, by the fastest of many rounds of what a clock can tell apart."""
    begin = time.perf_counter()
    call()
    count = max(1, int(ROUND / (time.perf_counter() - begin)))
    best, end = np.inf, time.process_time() + SECONDS
    while time.process_time() < end:
        begin = time.process_time()
        for _ in range(count):
            call()
        best = min(best, time.process_time() - begin)
    return float(best) / count


def main() -> int:
    words = sys.argv[1:]
    if not ENVIRONMENT.items() <= os.environ.items():  # libraries read theirs when they are loaded
        again = [sys.executable, "-m", "benchmarks.spellings", *words]
        return subprocess.run(again, env={**os.environ, **ENVIRONMENT}, check=False).returncode
    print("| function | style | fdiff, µs | hand-written, µs | fdiff / hand-written |")
    print("| --- | --- | ---: | ---: | ---: |")
    for row in rows():
        name = row.function.__name__
        if words and not any(w in f"{row.title} {name}" for w in words):
            continue
        f = prepared(row)
        ours = seconds(lambda f=f, row=row: f(*row.arguments))
        hand = seconds(lambda row=row: row.kernel(*row.arguments, *row.data))
        figures = f"{1e6 * ours:.1f} | {1e6 * hand:.1f} | {ours / hand:.2f}"
        print(f"| {row.title} | {name} | {figures} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
