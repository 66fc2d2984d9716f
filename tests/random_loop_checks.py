"""Random programs with Python's loops, beside exact numbers; how loops were traced is counted.

``python tests/random_loop_checks.py FIRST COUNT`` runs the programs of so many seeds, and prints
how many are wrong, and by which ways they were traced; one in eight unrolled as well, or all with
``--unroll``.
"""

import argparse
import os
import random
import sys
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest.mock import patch

import numpy as np
import random_loops
import random_wide_loops
from loop_ways import TOLERANCE, error
from second_order_numbers import StandIn, complex_step, exact, functions_of

import fdiff
from fdiff.interpret import evaluate
from fdiff.trace import looping
from fdiff.trace.looping import call_log
from fdiff.transforms.pipeline import HVP, derive


def walk(y, n):
    """Some steps from a vector."""
    return fdiff.scan(lambda c, k: (0.9 * np.sin(c) + 0.01 * k, c[0]), y, np.arange(float(n)))[0]


OURS = {  # functions of fdiff that programs call
    "slope": fdiff.grad(lambda z: np.sin(z) * z),
    "slope_by": lambda z, w: fdiff.grad(lambda a: np.sin(a * w))(z),
    "walk": walk,
    "either": lambda s, v: fdiff.cond(s > 0.1234, lambda v: v * 0.9, np.sin, v),
    "each": lambda v, s: fdiff.vmap(lambda a: np.tanh(a * s))(v),
    "once": fdiff.jit(lambda z, k: np.cos(z) * 0.5 + 0.01 * k),
}


def plain_walk(y, n, np=np):
    for k in range(n):
        y = 0.9 * np.sin(y) + 0.01 * k
    return y


def plain(library):
    """What these functions compute, with the functions of a module."""
    return {
        "slope": lambda z: library.cos(z) * z + library.sin(z),
        "slope_by": lambda z, w: library.cos(z * w) * w,
        "walk": lambda y, n: plain_walk(y, n, library),
        "either": lambda s, v: v * 0.9 if np.real(s) > 0.1234 else library.sin(v),
        "each": lambda v, s: library.tanh(v * s),
        "once": lambda z, k: library.cos(z) * 0.5 + 0.01 * k,
        "print": lambda *_: None,
    }


UNFIT = AttributeError, IndexError, TypeError, ValueError  # NumPy does not run such a program
PLACES = "value", "gradient", "Hessian times a vector"


class Ways:
    """Which ways loops were traced, counted while it is entered."""

    def __init__(self):
        self.programs, self.reasons = Counter(), Counter()
        self._nodes, self._reasons = 0, []

    @contextmanager
    def watched(self):
        """Count the loops of one program."""
        self._nodes, self._reasons = 0, []
        close, log = call_log.CallLog.close, self

        def counted(calls):
            log._nodes += len(calls.rolled)
            log._reasons += calls.reasons.values()
            close(calls)

        with patch.object(call_log.CallLog, "close", counted):
            yield
        way = "rolled" if self._nodes else "refused" if self._reasons else "unrolled"
        self.programs[way] += 1
        if not self._nodes:
            self.reasons[self._reasons[0] if self._reasons else "no period"] += 1


def program_of(seed):
    """The text of the program of a seed, and a point; one in three looks at values."""
    choices = random.Random(seed)
    text = random_wide_loops.program(choices, branching=seed % 3 == 0)
    return text, random_loops.point(choices)


def expected_of(text, x, direction):
    """Value, gradient, and Hessian times a direction, with sizes; None where NumPy raises."""
    try:
        value_then = functions_of(text, "f", library=plain(np))["f"](x.copy())
        (value, slope, curvature), sizes = exact(text, "f", x, plain(StandIn(object)))
        step = complex_step(text, "f", x, direction, plain(StandIn(complex)))
    except UNFIT:
        return None
    assert abs(value_then - value) <= TOLERANCE * max(sizes[0], 1.0)
    assert abs(step - slope @ direction) <= TOLERANCE * max(sizes[1], 1.0)
    return (value, slope, curvature @ direction), sizes


def by_operators(text, points, expected, direction):
    """The largest errors of public operators, at some points one after the other."""
    f = functions_of(text, "f", library=OURS | {"print": lambda *_: None})["f"]
    first, second = fdiff.value_and_grad(f), fdiff.hvp(f)
    found = []
    for k, (x, wanted) in enumerate(zip(points, expected, strict=True)):
        value, slope = first(x.copy())
        results = [value, slope] if k else [value, slope, second(x.copy(), direction)]
        found.append(error(results, *wanted))
    return max(found)


def by_tape(text, points, expected, direction):
    """The largest error of a value and both derivatives, which one tape computes with NumPy."""
    f, x = functions_of(text, "f", library=OURS | {"print": lambda *_: None})["f"], points[0]
    tape = fdiff.make_tape(f, x.copy())
    if len(tape.inputs) > 1:  # arrays from outside of the function
        return by_operators(text, points, expected, direction)
    tape = derive(HVP, tape, wrt=[0], keep=[0, 1, 3])
    return error(evaluate(tape, x, direction), *expected[0])


def failures(seed, ways, unrolled=False):
    """What is wrong with the program of a seed; None where NumPy does not run it."""
    text, x = program_of(seed)
    choices = random.Random(~seed)
    direction = np.array([choices.uniform(-1, 1) for _ in x])
    tier = {1: "evaluate", 51: "compile", 11: "interpret"}.get(seed % 100, "")
    points = [x]
    if tier or seed % 15 == 0:  # where branches may differ, and back
        points += [0.8 * x + 0.0431, x * (1 + 0.1 * direction), 1.1 * x[::-1], x]
    expected = [expected_of(text, p, direction) for p in points]
    if None in expected:
        return None
    errors, wrong = (by_operators if len(points) > 1 else by_tape), []
    changes = {"FDIFF_TIER": tier} if tier else {}
    with (
        patch.dict(os.environ, changes),
        patch.object(looping, "SLEEP", 0),
        warnings.catch_warnings(action="ignore", category=fdiff.errors.RetraceWarning),
    ):
        for way in ("check", "unroll") if unrolled or seed % 8 == 0 else ("check",):
            os.environ["FDIFF_LOOPS"] = way
            fdiff.cache_clear()
            with ways.watched() if way == "check" else nullcontext():
                try:
                    largest = errors(text, points, expected, direction)
                    if not largest <= TOLERANCE:
                        wrong.append(f"{way} {tier}: {largest:.1e}")
                except Exception as raised:  # noqa: BLE001 - it is recorded
                    where = traceback.extract_tb(raised.__traceback__)[-1]
                    place = f"{Path(where.filename).name}:{where.lineno}"
                    wrong.append(f"{way} {tier}: {type(raised).__name__} at {place}: {raised}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--unroll", action="store_true")
    options = parser.parse_args()
    ways, ran, wrong, begin = Ways(), 0, 0, time.process_time()
    for seed in range(options.first, options.first + options.count):
        kinds = failures(seed, ways, options.unroll)
        ran += kinds is not None
        if kinds:
            wrong += 1
            print(f"seed {seed}: " + " | ".join(kinds), flush=True)
    spent = 1000 * (time.process_time() - begin) / max(ran, 1)
    share = {way: f"{100 * n / ran:.1f} %" for way, n in ways.programs.items()}
    print(
        f"seeds {options.first} to {seed}: {ran} programs, {wrong} wrong, {share}, {spent:.0f} ms"
    )
    for reason, n in ways.reasons.most_common(12):
        print(f"  {n:5d} {reason}")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
