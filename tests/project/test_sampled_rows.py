"""Which rows of long sweeps `pytest --sample` runs."""

from types import SimpleNamespace

import pytest

LONG = "tests/ops/test_any.py::test_sweep"
SHORT = "tests/ops/test_any.py::test_alone"


@pytest.fixture
def sampled(pytestconfig):
    """The tests of a part, out of all of these."""
    (conftest,) = [p for p in pytestconfig.pluginmanager.get_plugins() if hasattr(p, "SAMPLED")]

    def part(names, number):
        hook = SimpleNamespace(pytest_deselected=lambda items: None)
        config = SimpleNamespace(option=SimpleNamespace(part=number), hook=hook)
        items = [SimpleNamespace(nodeid=name) for name in names]
        conftest.sample(config, items)
        return [item.nodeid for item in items]

    return part


def test_all_parts_together_are_all_rows(sampled):
    rows = [f"{LONG}[{k}]" for k in range(400)]
    parts = [sampled([*rows, SHORT], k) for k in range(16)]
    assert {row for part in parts for row in part} == {*rows, SHORT}
    assert all(part[:2] == rows[:2] and part[-1] == SHORT for part in parts)
    assert all(10 < len(part) < 50 for part in parts)
    assert sum(map(len, parts)) == 398 + 16 * 3
