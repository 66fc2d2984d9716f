"""Loops and statements that choose their branches: `python -m benchmarks.choosing [NAMES]`.

A call of `value_and_grad` at a new point, where the function branches another way, in runs of the
plain function at the same point: medians of 30 calls, after 600 (loops) or 2,000 (statements, whose
kernels pay later); and the first call. `NAMES` are of functions, all without.
The programs are those of `tests/dispatch/test_choosing_*.py`.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

import fdiff
from fdiff.process.background import worker

from .branches import timed
from .inputs import HERE, functions
from .report import duration, ratio, table

TESTS = HERE.parent / "tests"
CALLS = 30
FORMS = (
    "newton", "newton_by_break", "bisection", "adaptive_steps", "number_of_the_trip",
    "over_an_array", "over_an_enumeration", "over_zipped_rows", "clock", "implicit_steps",
    "table_in_place", "never_raises", "swaps_numbers", "swaps_arrays", "double_buffer",
)  # fmt: skip
CONTAINERS = (
    "state", "rebuilt", "record", "table", "integrated", "history", "trajectory", "recurrence",
    "times_and_values", "two_histories", "over_a_list", "over_arrays",
)  # fmt: skip
ELEMENTS = "trajectory_of_pairs", "pairs_of_arrays", "small_lists", "records"
LENGTHS = (
    "newton_with_its_history", "waits_for_the_last", "arrays_until_left", "crossings",
)  # fmt: skip
JOINTS = ("independent", "bands")
OBJECTS = (
    "particle", "record", "two_particles", "parts", "settings", "while_moving", "balls_in_a_list",
    "pairs_of_balls",
)  # fmt: skip
CUTS = ("steps_by_a_table", "interpolates", "histogram", "numbers_of_steps")  # to ints
METHODS = (
    "kalman", "derived", "set_properties", "of_a_global", "layers", "slots",
    "dataclasses_with_methods", "namespaces", "bound_methods", "one_holds_the_other",
    "handed_to_functions", "private_names",
)  # fmt: skip
COUNTS = ("counting", "two_loops", "while_loop")
FUNCTIONS = (
    "slope_inside", "lambda_inside", "lambda_of_each_trip", "array_made_inside",
    "reads_what_the_loop_assigns", "loops_in_functions", "handed_over", "handed_lambdas",
    "partial_functions",
)  # fmt: skip
INTS = ("doubles_and_halves", "collatz", "longest_run", "random_numbers", "by_another")
PRECISION = ("threshold", "counters", "floats", "arrays")  # float32
STATEMENTS = (
    "eight", "weights", "leaves_a_number_alone", "leaves_an_array_alone", "chooses_numbers",
    "calls_many", "swaps_arrays", "sorts",
)  # fmt: skip
RETURNS = (
    "newton_returns", "fixed_point_returns", "vector_returns", "returns_in_loops_in_loops",
    "arms_return", "statements_then_a_loop", "many_statements", "raises_in_loops_in_loops",
    "over_rows", "long_while_in_a_loop",
)  # fmt: skip


RESULTS = (
    "newton_returns_its_count", "stages", "crossings", "counts_down", "converged",
    "statuses",
)  # fmt: skip

ARGUMENTS = "boundary", "boundary_in_place", "of_rows", "inner_loops", "gas"
SHARED = "best_state", "the_two_best", "bracket", "accepted_steps", "best_in_loops_in_loops"


def compared(name: str, f: Callable[..., object], lowest: float, warm: int) -> list[str]:
    """A row of the table: the plain function, the call, and their ratio."""
    single = f.__module__.endswith("precision")
    points = np.random.default_rng(0).uniform(lowest, 1.3, (warm + CALLS, 3))
    points = points.astype(np.float32 if single else float)
    aux = f.__module__.endswith("results")
    function = _with_rest(f) if aux else f
    call = fdiff.value_and_grad(function, has_aux=aux)
    begin = time.perf_counter()
    call(points[0])
    first = time.perf_counter() - begin
    for x in points[:warm]:
        value, expected = call(x)[0], function(x)
        pair = (value[0], expected[0]) if aux else (value, expected)
        np.testing.assert_allclose(*pair, rtol=1e-4 if single else 1e-11)
        worker.wait()
    plain, own = map(statistics.median, timed([f, call], points[warm:]))
    return [name, duration(plain), duration(own), ratio(own / plain), duration(first)]


def _with_rest(f: Callable[..., object]) -> Callable[..., object]:
    """The function with all but its first result as auxiliary results."""

    def own(x: np.ndarray) -> object:
        value, *rest = f(x)
        return value, rest

    return own


def main() -> None:
    """Print the table."""
    sys.path[:0] = [str(TESTS), str(TESTS / "dispatch")]
    rows = []
    kinds = (
        ("forms", FORMS, 0.2, 600), ("containers", CONTAINERS, 0.2, 600),
        ("joints", JOINTS, 0.2, 600),
        ("elements", ELEMENTS, 0.2, 600), ("lengths", LENGTHS, 0.2, 600),
        ("objects", OBJECTS, 0.2, 600), ("cuts", CUTS, 0.2, 600),
        ("methods", METHODS, 0.2, 600), ("counts", COUNTS, 0.2, 600),
        ("statements", STATEMENTS, -0.9, 2000),
        ("returns", RETURNS, 0.2, 600), ("functions", FUNCTIONS, 0.2, 600),
        ("ints", INTS, 0.2, 600),
        ("precision", PRECISION, 0.2, 600), ("results", RESULTS, 0.2, 600),
        ("shared_arrays", SHARED, 0.2, 600), ("arguments", ARGUMENTS, 0.2, 600),
    )  # fmt: skip
    for file, names, lowest, warm in kinds:
        module = functions(TESTS / "dispatch" / f"test_choosing_{file}.py", np)
        chosen = [name for name in names if not sys.argv[1:] or name in sys.argv[1:]]
        rows += [compared(name, getattr(module, name), lowest, warm) for name in chosen]
    print(table(["function", "plain run", "value and gradient", "plain runs", "first call"], rows))


if __name__ == "__main__":
    main()
