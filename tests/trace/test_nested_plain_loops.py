"""A loop of 12 iterations and more in a loop is an item of it, and a loop node in its body."""

import inspect
from pathlib import Path

import loop_ways
import nested_loop_programs
import numpy as np
import pytest

import fdiff

TEXT = Path(nested_loop_programs.__file__).read_text(encoding="utf-8")
POINT = np.array([0.6371, 0.4853, 0.7139])
NAMES = [
    name
    for name, f in vars(nested_loop_programs).items()
    if inspect.isfunction(f) and f.__module__ == nested_loop_programs.__name__
]
FLAT = {  # loops of which no tape has one in another, and why
    "a_new_array_in_each_trip": "12 trips are alike: they are part of the outer one",
    "a_view_is_stored_into": "a view from outside is stored into",
    "an_array_from_outside": "12 trips are alike: they are part of the outer one",
    "breaks_in_the_middle": "the number of trips is another in each trip, and a part comes after",
    "breaks_where_values_are_large": "the inner loop looks at values",
    "nothing_but_loops": "it is one loop",
    "views_of_the_inner_loop": "a view of the inner loop is read after it",
}


def depth(tape):
    return max((1 + depth(body) for _, _, body in tape.bodies()), default=0)


@pytest.mark.parametrize("name", NAMES)
def test_nested_loops_are_exact(name, monkeypatch):
    loop_ways.agrees(TEXT, name, POINT, "check", monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_inner_loops_are_nodes_in_bodies(name, monkeypatch):
    f = loop_ways.fresh(TEXT, name, "check", monkeypatch)
    assert (depth(fdiff.make_tape(f, POINT)) > 1) == (name not in FLAT)
