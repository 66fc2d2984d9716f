"""Texts of kernels with loops, as reviewed (`FDIFF_GOLDEN=write` writes them anew), and threads."""

import os
from pathlib import Path

import numpy as np
import pytest
from tapes import tape_of
from test_kernel_branches import newton, tape_of_switch, tape_of_while
from test_kernel_loops import arguments, arrays, body_of, compare, looped, of, tape_of_loop
from thread_counts import ask_for_threads

import fdiff
from fdiff import kernels
from fdiff.kernels.codegen.source_generation import serial_kernel
from fdiff.kernels.ir.graph_of_tape import kernel_graph

GOLDEN = Path(__file__).parents[1] / "golden"


def swinging(p, force):
    """A driven oscillator by Euler's method, and the sum of squares of where it was."""

    def step(state, f):
        x, v = state
        return (x + 0.1 * v, v - 0.1 * (p[0] * x + p[1] * v) + f), x * x

    return np.sum(fdiff.scan(step, (p[0] * 0.0, p[0] * 0.0), force)[1])


def loop(name, length=9):
    body, carries, rows = body_of(name)
    return tape_of_loop(body, carries, rows, length)


TEXTS = {
    "loop_gradient": lambda: fdiff.make_tape(fdiff.grad(swinging), np.ones(2), np.ones(9)),
    "loop_in_place": lambda: loop("stores at an index"),
    "loop_in_a_loop": lambda: loop("loop over arrays in a loop"),
    "loop_while": lambda: tape_of_while(
        newton, lambda x, step, c: step > 1e-12, (of(), of(), of()), 2, limit=50
    ),
    "loop_switch": lambda: tape_of_switch(
        [lambda x, k: np.sin(x) * k, lambda x, k: x[::-1]], (of(90), of())
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_of_loops_are_as_reviewed(name):
    tape = TEXTS[name]()
    text = kernels.source(tape, ("C",) * len(tape.inputs))
    path = GOLDEN / f"{name}.py.txt"
    if os.environ.get("FDIFF_GOLDEN") == "write":
        path.write_text(text)
    assert text == path.read_text()


def is_straight(tape):
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    return serial_kernel(graph).source.facts.straight


@pytest.mark.parametrize("order", [fdiff.grad, fdiff.hessian])
def test_one_text_for_any_number_of_trips(order):
    """And short bodies need no loop that vectors make faster."""
    tapes = [fdiff.make_tape(order(swinging), np.ones(2), np.ones(n)) for n in (5, 9, 70, 2000)]
    texts = {kernels.source(tape, ("C", "C")) for tape in tapes}
    assert len(texts) == 1
    assert {is_straight(tape) for tape in tapes} == {order is fdiff.grad}


def test_loops_over_entries_have_vectors():
    names = {"loop_in_place": True, "loop_in_a_loop": False, "loop_while": True}
    for name, expected in names.items():
        assert is_straight(TEXTS[name]()) == expected, name
    plain = fdiff.make_tape(lambda x: x * 2.0, np.ones(9))
    assert not is_straight(plain)


def test_bodies_are_part_of_what_a_kernel_is_known_by():
    f = [lambda x, c: (0.9 * x + c,), lambda x, c: (0.9 * x - c,), lambda x, c: (0.7 * x + c,)]
    tapes = [tape_of_loop(tape_of(g, *arrays(of(), of())), 1, 0, 9) for g in f]
    texts = [kernels.source(tape, ("C", "C")) for tape in tapes]
    assert texts[0] != texts[1]
    assert texts[0] == texts[2], "numbers of bodies are entries of tables"
    for tape in tapes:
        compare(tape, arguments(tape))


def test_what_stands_around_a_loop_is_shared_by_threads(monkeypatch):
    ask_for_threads(monkeypatch, 4)
    n = 100_000
    body = tape_of(lambda s, r: (0.5 * s + r, s), *arrays(of(), of()))

    def f(x):
        last, sums = looped(body, 1, 1, n, (x[0], np.exp(np.sin(x)) * x))
        return np.sum(np.exp(np.sin(sums)) * x) + last

    tape = tape_of(f, np.ones(n))
    text = kernels.source(tape, ("C",))
    assert "part < parts" in text
    compare(tape, arguments(tape))
    at = text.index("for trip")
    assert text.rindex("next_part", 0, at) > 0, "the loop is for the thread that comes first"


def test_an_error_in_a_loop_ends_all_threads(monkeypatch):
    ask_for_threads(monkeypatch, 4)
    n = 100_000
    body = tape_of(lambda s, x, k: (0.5 * s + x[k], s), *arrays(of(), of(5), of(dtype=int)))

    def f(x, y, k):
        last, sums = looped(body, 1, 1, n, (x[0], y, k))
        return np.sum(np.exp(np.sin(sums)) * np.exp(np.sin(x))) + last

    tape = tape_of(f, np.ones(n), np.ones(5), np.ones(n, np.int64))
    kernel = kernels.compile(tape, ("C",) * 3)
    places = np.zeros(n, np.int64)
    (value,) = kernel(np.ones(n), np.ones(5), places)
    assert np.isfinite(value)
    places[777] = 5
    with pytest.raises(IndexError):
        kernel(np.ones(n), np.ones(5), places)


def test_a_gpu_runs_loops_whose_entries_are_independent():
    assert kernels.missing_on_cuda(loop("Runge-Kutta")) == []
    assert kernels.missing_on_cuda(loop("carry in reverse order")) == ["loop"]


def test_forecasts_count_the_operations_of_trips():
    """Of numbers that wait for each other: a tenth of a nanosecond each, some for a function."""

    def of_length(n, body):
        tape = fdiff.make_tape(lambda x: fdiff.fori_loop(0, n, lambda i, y: body(y), x), 0.5)
        return kernels.kernel_forecast(tape).run_seconds / n

    plain, waves = (lambda y: 0.5 * y * y + 0.1), (lambda y: np.sin(y) + np.exp(-y))
    assert 0.2e-9 < of_length(1000, plain) < 2e-9
    assert 5e-9 < of_length(1000, waves) < 20e-9
    assert of_length(1_000_000, plain) == pytest.approx(of_length(1000, plain), rel=0.5)
