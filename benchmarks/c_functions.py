"""Calls of C functions: `python -m benchmarks.c_functions`.

Prints the time of making a C function and of a call from C code (compiled by ``cc``), and what
SciPy's `quad` takes with it and with the Python function.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import quad

import fdiff

from .report import duration, table

CALLS, ROUNDS = 200_000, 9
LOOP = """
void numbers(double (*f)(double), long calls) { for (long k = 0; k < calls; k++) f(k * 1e-6); }
void arrays(void (*f)(double *, double *, double *), double *x, double *y, double *z, long calls)
{ for (long k = 0; k < calls; k++) f(x, y, z); }
"""


def wave(t: float) -> float:
    return np.exp(-t * t) * np.sin(3.0 * t)


def squares(x: np.ndarray) -> np.floating:
    return np.sum(x * x)


def nanoseconds(call: Callable[[], object]) -> str:
    """The time of one of the calls that `call` makes."""
    return f"{best(call) / CALLS * 1e9:.0f} ns"


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some rounds, which other processes disturb least."""
    found: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return min(found)


def compiled(folder: Path) -> Any:
    (folder / "loop.c").write_text(LOOP)
    command = ["cc", "-O2", "-shared", "-fPIC", "-o", folder / "loop.so", folder / "loop.c"]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "loop.so"))


def main() -> None:
    f, x = fdiff.grad(wave), np.linspace(0.0, 1.0, 3)
    both = fdiff.value_and_grad(squares)
    f.compile(0.5)
    both.compile(x)
    for _ in range(2):  # until calls from Python have their machine code, too
        time.sleep(0.5)
        for t in np.linspace(0.0, 1.0, 200).tolist():
            f(t)
    begin = time.perf_counter()
    number, array = fdiff.cfunc(f, 0.5), fdiff.cfunc(both, x)
    making = (time.perf_counter() - begin) / 2
    with tempfile.TemporaryDirectory() as folder:
        loop = compiled(Path(folder))
        value, slope = np.empty(()), np.empty(3)
        addresses = [ctypes.c_void_p(a.ctypes.data) for a in (x, value, slope)]
        one, other = ctypes.c_void_p(number.address), ctypes.c_void_p(array.address)
        calls = ctypes.c_long(CALLS)
        rows = [
            ["making one, the kernel being there", duration(making)],
            [
                "a call from C, grad of a number",
                nanoseconds(lambda: loop.numbers(one, calls)),
            ],
            [
                "a call from C, value_and_grad, n = 3",
                nanoseconds(lambda: loop.arrays(other, *addresses, calls)),
            ],
        ]
    low = number.low_level_callable
    rows += [
        ["quad of grad, as a C function", duration(best(lambda: quad(low, 0.0, 1.0)))],
        ["quad of grad, as a Python function", duration(best(lambda: quad(f, 0.0, 1.0)))],
    ]
    print(table(["", "time"], rows))


if __name__ == "__main__":
    main()
