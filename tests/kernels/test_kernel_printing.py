"""Programs as people read them, after each pass: `FDIFF_GOLDEN=write` writes them anew."""

import os
import re
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff import kernels
from fdiff.errors import InputError
from fdiff.kernels.passes import pipeline
from fdiff.kernels.passes.pipeline import FOR_CPU, PASSES, PORTABLE
from fdiff.transforms.pipeline import RUN, TO_GRAPH, VALUE

GOLDEN = Path(__file__).parents[1] / "golden"


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


PRINTED = {"softmax": (softmax, np.ones((3, 4))), "slope": (fdiff.grad(rosenbrock), np.ones(5))}


def all_stages(f, x):
    """The program after each pass, where it is another than after the pass before."""
    out, before = [], ""
    for name in kernels.PASSES:
        text = fdiff.source(f, x, stage=name)
        out.append(f"--- {name}\n{'(unchanged)' if text == before else text}")
        before = text
    return "\n".join(out)


@pytest.mark.parametrize("name", PRINTED)
def test_programs_print_as_reviewed(name):
    text = all_stages(*PRINTED[name])
    path = GOLDEN / f"{name}.passes.txt"
    if os.environ.get("FDIFF_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


FIRST, SECOND = np.triu_indices(12, 1)


def pairs(x):
    near = x[FIRST] - x[SECOND]
    return np.sum(1.0 / (1.0 + np.sum(near * near, axis=1)))


def products(x):
    return np.sum(np.tanh(x @ x.T))


def at_places(x):
    return np.sum(np.exp(x[FIRST]) * np.sin(x[SECOND]))


# Items of loop programs that those reviewed above do not have, and the pass that makes them.
ITEMS = {
    "calls": (products, np.ones((40, 50)), "lower", "matmul_f8(x0, x0, t"),
    "tiles": (
        lambda x: np.sum(softmax(x) ** 2),
        np.ones((3, 4)),
        "tile_rows",
        "for begin_row, end_row in tiles of ",
    ),
    "versions": (pairs, np.ones((12, 3)), "stage_gathers", "    if a run of rows by count_v0 and "),
    "the rows that are left": (pairs, np.ones((12, 3)), "stage_gathers", "    otherwise:"),
    "conditionals": (at_places, np.ones(12), "stage_gathers", "    if differ_"),
    "parallel loops": (products, np.ones((40, 50)), "parallelise", "in parallel"),
    "serial regions": (products, np.ones((40, 50)), "parallelise", "in one thread:"),
}


@pytest.mark.parametrize("name", ITEMS)
def test_every_kind_of_item_is_printed(name):
    f, x, stage, words = ITEMS[name]
    assert any(words in line for line in fdiff.source(fdiff.grad(f), x, stage=stage).splitlines())


def two_stores(x):
    y = np.zeros_like(x)
    y[:3] = np.exp(x[:3])
    y[3:] = np.sin(x[3:])
    return y


def test_what_is_known_of_stores_is_printed_by_name():
    text = fdiff.source(two_stores, np.ones(6), stage="reload_stores")
    assert re.search(r"update\[m\d::1, unread, large\]", text)
    assert re.search(r"update\[m\d::1, disjoint=1, large\]", text)


def test_tapes_are_dumped_after_each_step(monkeypatch, capsys):
    steps = (*RUN, *VALUE, *TO_GRAPH)  # all that is between the derivative and the graph
    monkeypatch.setenv("FDIFF_DUMP", "tapes")
    fdiff.source(fdiff.value_and_grad(rosenbrock), np.ones(5))
    text = capsys.readouterr().err
    names = re.findall("^--- (.+?):", text[text.rindex("--- join sums") :], re.MULTILINE)
    assert [*dict.fromkeys(names)] == [step.name for step in steps]
    assert text.count("\ntape\n") == text.count("--- ") - text.count("\n(unchanged)\n")


def test_a_dump_goes_to_stderr(monkeypatch, capsys):
    monkeypatch.setenv("FDIFF_DUMP", "fuse,tile_rows")
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    fdiff.cache_clear()
    fdiff.source(softmax, np.ones((3, 4)))
    text = capsys.readouterr().err
    assert text.count("---") == 2
    assert "--- fuse: " in text
    assert "nest over (n0, n1)" in text
    monkeypatch.setenv("FDIFF_DUMP", "passes")
    fdiff.cache_clear()
    fdiff.source(softmax, np.ones((3, 4)))
    assert capsys.readouterr().err.count("---") == len(PORTABLE) + len(FOR_CPU)


def test_a_dump_of_no_pass_is_an_error(monkeypatch):
    monkeypatch.setenv("FDIFF_DUMP", "fuse,fusion")
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    fdiff.cache_clear()
    with pytest.raises(InputError, match=r"FDIFF_DUMP: no pass .* 'fusion'.*\n.*\n.*fuse"):
        fdiff.source(softmax, np.ones((3, 4)))


def test_a_stage_that_there_is_not():
    with pytest.raises(InputError, match=r"no pass .* 'fusion'.*\n.*\n.*reload_stores, .*fuse"):
        fdiff.source(softmax, np.ones((3, 4)), stage="fusion")


def test_each_pass_says_what_it_needs_and_leaves():
    assert len({step.name for step in PASSES}) == len(PASSES)
    assert all(step.needs and step.leaves for step in PASSES)


def test_each_form_that_a_pass_leaves_is_explained():
    forms = re.findall(r"^- \*(\w+)\*:", pipeline.__doc__, re.MULTILINE)
    assert forms == list(dict.fromkeys(step.form for step in PASSES))
