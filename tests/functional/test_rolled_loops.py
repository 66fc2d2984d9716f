"""Which programs have loops on their tapes: those that do not are listed, and become fewer."""

import inspect
import random
from pathlib import Path

import loop_memory
import loop_stores
import loop_tails
import loop_traps
import numpy as np
import public_loops
import pytest
import random_loops
import science_loops
import written_loops
from loop_ways import loops_on_tape
from second_order_numbers import functions_of

POINT = np.array([0.6371, 0.4853, 0.7139])
LOOKS_AT_VALUES = {"adaptive_euler"}
SHAPES_CHANGE = {
    "american_option", "option_tree", "slices_that_shrink", "table_grows_by_concatenation",
    "whole_tails_beside_entries",
}  # fmt: skip
SHORT = {"successive_over_relaxation", "zero_trips"}
NOT_YET = {
    "tail_of_the_trip_before", "tails_from_the_end", "two_tails_in_turn",
    "buffer_made_on_one_path", "local_array_given_back", "particles_of_a_filter", "planets",
    "copied_by_reshape", "reshaped_memory", "stored_by_a_view_alone", "view_kept_of_each_trip",
    "views_that_overlap",
    "stored_into_on_another_path", "stored_into_on_another_path_and_kept",
    "stored_row_is_the_carry", "traced_array_given_back", "transposed_and_reversed",
    "view_carried_beside_its_array", "views_taken_before_the_stores",
}  # fmt: skip
BATCHES = {  # of trips that do not wait for each other
    "constant_array_that_changes", "float_that_accumulates", "int_then_float", "numpy_scalars",
}  # fmt: skip
UNROLLED = LOOKS_AT_VALUES | SHAPES_CHANGE | SHORT | NOT_YET


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "least"),
    [
        (public_loops, 27),
        (science_loops, 14),
        (loop_traps, 41),
        (loop_stores, 19),
        (written_loops, 28),
        (loop_memory, 15),
        (loop_tails, 13),
    ],
)
def test_what_is_rolled(module, least, monkeypatch):
    text = Path(module.__file__).read_text(encoding="utf-8")
    names = [
        name
        for name, f in vars(module).items()
        if inspect.isfunction(f) and f.__module__ == module.__name__
    ]
    without = {name for name in names if not loops_on_tape(text, name, POINT, "check", monkeypatch)}
    unrolled = without - BATCHES
    assert unrolled <= UNROLLED
    assert len(names) - len(unrolled) >= least


@pytest.mark.slow
def test_random_programs_are_rolled_too(monkeypatch):
    rolled = ran = 0
    for seed in range(24):
        choices = random.Random(seed)
        text, x = random_loops.program(choices), random_loops.point(choices)
        try:
            functions_of(text, "f")["f"](x.copy())
        except (AttributeError, IndexError, TypeError, ValueError):
            continue
        ran += 1
        rolled += loops_on_tape(text, "f", x, "check", monkeypatch) > 0
    assert rolled >= 0.25 * ran
