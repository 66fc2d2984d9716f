"""Loops that are made to mislead whoever compares trips, beside numbers that are exact."""

import inspect
from pathlib import Path

import loop_traps
import numpy as np
import pytest
from loop_ways import WAYS, agrees
from second_order_numbers import complex_step, exact

TEXT = Path(loop_traps.__file__).read_text(encoding="utf-8")
TRAPS = [
    name
    for name, f in vars(loop_traps).items()
    if inspect.isfunction(f) and f.__module__ == loop_traps.__name__
]
POINT = np.array([0.7131, 0.3217, 0.2079])
DIRECTION = np.array([0.4, -1.0, 0.7])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", TRAPS)
def test_traps(name, way, monkeypatch):
    agrees(TEXT, name, POINT, way, monkeypatch)


@pytest.mark.parametrize("name", TRAPS)
def test_complex_steps_agree_with_exact_numbers(name):
    (_, slope, _), sizes = exact(TEXT, name, POINT)
    step = complex_step(TEXT, name, POINT, DIRECTION)
    assert abs(step - slope @ DIRECTION) <= 1e-12 * max(sizes[1], 1.0)


def test_there_are_as_many_as_were_promised():
    assert len(TRAPS) >= 33
