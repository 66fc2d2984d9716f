"""Programs with loops as people write them, beside numbers that are exact."""

import inspect
from pathlib import Path

import numpy as np
import public_loops
import pytest
import science_loops
import written_loops
from loop_ways import WAYS, agrees

MODULES = (public_loops, science_loops, written_loops)
TEXTS = {module: Path(module.__file__).read_text(encoding="utf-8") for module in MODULES}
PROGRAMS = [
    pytest.param(module, name, id=name)
    for module in MODULES
    for name, f in vars(module).items()
    if inspect.isfunction(f) and f.__module__ == module.__name__
]
POINT = np.array([0.6371, 0.4853, 0.7139])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("module", "name"), PROGRAMS)
def test_programs(module, name, way, monkeypatch):
    agrees(TEXTS[module], name, POINT, way, monkeypatch)


def test_there_are_as_many_as_were_promised():
    assert len(PROGRAMS) >= 75
