"""Loops that are made to mislead whoever compares trips, beside numbers that are exact."""

import inspect
from pathlib import Path

import loop_memory
import loop_stores
import loop_tails
import loop_traps
import numpy as np
import pytest
from loop_ways import WAYS, agrees
from second_order_numbers import complex_step, exact

TEXTS = {
    name: Path(module.__file__).read_text(encoding="utf-8")
    for module in (loop_traps, loop_stores, loop_memory, loop_tails)
    for name, f in vars(module).items()
    if inspect.isfunction(f) and f.__module__ == module.__name__
}
TRAPS = [*TEXTS]
POINT = np.array([0.7131, 0.3217, 0.2079])
DIRECTION = np.array([0.4, -1.0, 0.7])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TRAPS)
def test_traps(name, way, monkeypatch):
    agrees(TEXTS[name], name, POINT, way, monkeypatch)


@pytest.mark.parametrize("name", TRAPS)
def test_complex_steps_agree_with_exact_numbers(name):
    (_, slope, _), sizes = exact(TEXTS[name], name, POINT)
    step = complex_step(TEXTS[name], name, POINT, DIRECTION)
    assert abs(step - slope @ DIRECTION) <= 1e-12 * max(sizes[1], 1.0)


def test_there_are_as_many_as_were_promised():
    assert len(TRAPS) >= 96
