"""docs/coverage.md is up to date, and every example in it works to second order."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "docs" / "make_coverage.py"
_spec = importlib.util.spec_from_file_location("make_coverage", PATH)
coverage = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(coverage)
EXAMPLES = coverage.examples()


def test_the_page_is_the_one_the_script_writes():
    text = coverage.PAGE.read_text(encoding="utf-8")
    assert text == coverage.page(), "run `python docs/make_coverage.py --write`"


def test_each_op_is_listed_once():
    names = [e.name for e in EXAMPLES]
    assert len(names) == len(set(names)) > 700


def test_each_of_the_first_ops_is_listed():
    assert coverage.missing() == []


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.code], ids=lambda e: e.name)
def test_examples_are_right_to_second_order(example, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")  # kernels are tested against it elsewhere
    assert coverage.attempt(example.code) == (len(coverage.ORDERS), "")
