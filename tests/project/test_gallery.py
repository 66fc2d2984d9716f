"""The examples that draw run as they are; each checks what it finds against a known value."""

import ast
import runpy
import sys
from pathlib import Path

import pytest
from matplotlib import pyplot as plt
from test_examples import TESTED

ROOT = Path(__file__).parents[2]
EXAMPLES = {path.stem: path for path in (ROOT / "examples").glob("*.py")}
SCRIPTS = {"demo", "fit_nist", "mpi_sum", "whole_programs"}  # with tests of their own
PROBLEMS = sorted(EXAMPLES.keys() - SCRIPTS)
QUICK = {"maximum_likelihood", "torch_training_loop"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow])
        for name in PROBLEMS
        if name not in TESTED
    ],
)
def test_an_example_draws_and_keeps_its_claims(name, monkeypatch):
    plt.switch_backend("agg")
    figures = []
    monkeypatch.setattr(plt, "show", lambda: figures.extend(plt.get_fignums()))
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    runpy.run_path(str(EXAMPLES[name]), run_name="__main__")
    assert figures != []
    for number in figures:
        plt.figure(number).canvas.draw()
    plt.close("all")


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_example_is_short_and_checks_what_it_finds(name):
    text = EXAMPLES[name].read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    assert "plt.show()" in text
    assert len(text.splitlines()) < 180
    title, line, *_ = ast.get_docstring(tree).splitlines()
    assert line == "=" * len(title)


def test_pages_that_list_the_examples_name_each():
    """Sphinx-gallery reads GALLERY_HEADER.txt before README.md, and GALLERY_HEADER.rst after it."""
    header = (ROOT / "examples" / "GALLERY_HEADER.txt").read_text(encoding="utf-8")
    read_me = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert [name for name in PROBLEMS if f"<{name}>`" not in header] == []
    assert [name for name in PROBLEMS if f"({name}.py)" not in read_me] == []


def test_there_are_enough_problems():
    assert len(PROBLEMS) >= 16
