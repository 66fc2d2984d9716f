"""Which rows of long sweeps `pytest --sample` runs."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

LONG = "tests/ops/test_any.py::test_sweep"
SHORT = "tests/ops/test_any.py::test_alone"
SLOW = "tests/ops/test_any.py::test_for_minutes"


@pytest.fixture
def sampled(pytestconfig):
    """The tests of a part, out of all of these."""
    (conftest,) = [p for p in pytestconfig.pluginmanager.get_plugins() if hasattr(p, "SAMPLED")]

    def item(name):
        return SimpleNamespace(nodeid=name, get_closest_marker=lambda _: name.startswith(SLOW))

    def part(names, number):
        hook = SimpleNamespace(pytest_deselected=lambda items: None)
        config = SimpleNamespace(option=SimpleNamespace(part=number), hook=hook)
        items = [item(name) for name in names]
        conftest.sample(config, items)
        return [item.nodeid for item in items]

    return part


def test_all_parts_together_are_all_rows(sampled):
    rows = [f"{LONG}[{k}]" for k in range(800)]
    parts = [sampled([*rows, SHORT], k) for k in range(32)]
    assert {row for part in parts for row in part} == {*rows, SHORT}
    assert all(part[0] == rows[0] and part[-1] == SHORT for part in parts)
    assert all(10 < len(part) < 50 for part in parts)
    assert sum(map(len, parts)) <= 799 + 32 * 2


def test_a_slow_test_is_in_one_part_of_eight(sampled):
    rows = [f"{SLOW}[{k}]" for k in range(800)]
    parts = [sampled(rows, k) for k in range(32)]
    assert {row for part in parts for row in part} == set(rows)
    assert sum(map(bool, parts)) == 4
    assert all(150 < len(part) < 250 for part in parts if part)


def test_what_is_skipped_says_why():
    bare = re.compile(r"importorskip\([^,()]*\)")
    paths = sorted(Path(__file__).parents[1].rglob("*.py"))
    assert not [path.name for path in paths if bare.search(path.read_text(encoding="utf-8"))]
