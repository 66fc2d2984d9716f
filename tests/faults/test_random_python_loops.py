"""Random programs with Python's loops: values and derivatives of each way to trace them.

``FDIFF_RANDOM_PROGRAMS=20000 FDIFF_FAULT_TESTS=1`` runs so many. What is compared with are numbers
that carry exact gradients and Hessians through plain NumPy, and complex steps.
"""

import os
import random

import hypothesis
import numpy as np
import pytest
from faults_support import LONG, in_shard, of_shard
from hypothesis import strategies as st
from loop_ways import TOLERANCE, WAYS, agrees
from random_loop_checks import Ways, failures
from random_loops import point, program
from second_order_numbers import complex_step, exact, functions_of

BLOCK = 10
PROGRAMS = int(os.environ.get("FDIFF_RANDOM_PROGRAMS", "3000")) if LONG else 300
DIRECTION = np.array([1.0, -0.5, 0.3])


def runs(text, x):
    """Whether NumPy runs a program: a random one may join arrays that do not fit."""
    try:
        functions_of(text, "f")["f"](x.copy())
        exact(text, "f", x)
    except (AttributeError, IndexError, TypeError, ValueError):
        return False
    return True


def right(text, x, monkeypatch):
    """Assert that a program has exact values and derivatives, however it is traced."""
    (value, slope, _), sizes = exact(text, "f", x)
    plain = functions_of(text, "f")["f"](x.copy())
    assert abs(plain - value) <= TOLERANCE * max(sizes[0], 1.0)
    step = complex_step(text, "f", x, DIRECTION)
    assert abs(step - slope @ DIRECTION) <= TOLERANCE * max(sizes[1], 1.0)
    for way in WAYS:
        agrees(text, "f", x, way, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("block", in_shard(range(PROGRAMS // BLOCK)))
def test_programs_of_a_seed(block, monkeypatch):
    ran = 0
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        choices = random.Random(seed)
        text, x = program(choices), point(choices)
        if runs(text, x):
            ran += 1
            right(text, x, monkeypatch)
    assert ran >= 0.6 * BLOCK


@pytest.mark.parametrize("block", in_shard(range(PROGRAMS // BLOCK)))
def test_wide_programs_of_a_seed(block):
    """Constructs of all kinds, of which each program has a few; some look at values."""
    ways = Ways()
    wrong = {seed: failures(seed, ways) for seed in range(BLOCK * block, BLOCK * (block + 1))}
    assert not any(wrong.values()), wrong
    assert sum(ways.programs.values()) >= 0.8 * BLOCK


@pytest.mark.slow
def test_programs_that_hypothesis_finds_and_makes_smaller(monkeypatch):
    @hypothesis.settings(
        max_examples=of_shard(PROGRAMS // BLOCK) if LONG else 3,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(st.randoms(use_true_random=False))
    def check(choices):
        text, x = program(choices), point(choices)
        hypothesis.assume(runs(text, x))
        hypothesis.note(text)
        right(text, x, monkeypatch)

    check()
