"""Kernels of tapes that hold loops with a condition, and switches."""

from __future__ import annotations

import numpy as np
import pytest
from tapes import tape_of
from test_kernel_loops import BOOL, arrays, compare, of

import fdiff
import fdiff.kernels
from fdiff.arraytype import INT
from fdiff.errors import ConvergenceError
from fdiff.ops.control.loop import BodyRunner
from fdiff.ops.control.switch import SWITCH
from fdiff.ops.control.while_loop import WHILE
from fdiff.tape import Builder


def tape_of_while(body, cond, types, carries, limit=0):
    """A tape that is one loop: what it carries and reads are its inputs."""
    b = Builder()
    args = tuple([b.input(t) for t in types])
    params = {
        "body": tape_of(body, *arrays(*types)), "carries": carries,
        "cond": tape_of(cond, *arrays(*types)), "limit": limit,
    }  # fmt: skip
    return b.finish(b.results(b.add(WHILE, args, tuple(sorted(params.items())))))


def tape_of_switch(branches, types):
    b = Builder()
    args = tuple([b.input(t) for t in (of(dtype=INT), *types)])
    tapes = tuple([tape_of(branch, *arrays(*types)) for branch in branches])
    return b.finish(b.results(b.add(SWITCH, args, (("branches", tapes),))))


def newton(x, step, c):
    step = (x * x - c) / (2.0 * x)
    return x - step, abs(step)


def test_a_loop_with_a_condition():
    tape = tape_of_while(newton, lambda x, step, c: step > 1e-12, (of(), of(), of()), 2)
    for step in (1.0, 0.0):
        compare(tape, [np.asarray(v) for v in (1.0, step, 2.0)])


def test_a_loop_with_too_many_trips():
    tape = tape_of_while(newton, lambda x, step, c: step > -1.0, (of(), of(), of()), 2, limit=7)
    kernel = fdiff.kernels.compile(tape, ("C",) * 3)
    with pytest.raises(ConvergenceError, match="limit=7"):
        kernel(*[np.asarray(v) for v in (1.0, 1.0, 2.0)])


@pytest.mark.parametrize("n", [3, 20, 90])
def test_a_loop_with_a_condition_on_arrays(n):
    tape = tape_of_while(
        lambda x, c: (0.5 * x + 0.1 * x[::-1] + c,),
        lambda x, c: np.sum(x * x) > 0.01,
        (of(n), of(n)), 1,
    )  # fmt: skip
    compare(tape, [np.linspace(1.0, 3.0, n), np.zeros(n)])


@pytest.mark.parametrize("n", [3, 90])
def test_the_condition_reads_what_the_body_updates_in_place(n):
    def body(x, k):
        y = x.copy()
        y[0] = 0.5 * y[0]
        return y, k + 1

    tape = tape_of_while(body, lambda x, k: (x[0] > 0.01) & (k < 30), (of(n), of(dtype=INT)), 2)
    compare(tape, [np.linspace(1.0, 3.0, n), np.asarray(0)])


def branches_of(n):
    return [
        lambda x, y: (np.sin(x) * y, x[0] * y),
        lambda x, y: (x * x, x[1] + y * y),
        lambda x, y: (x, np.sum(np.sort(x)) + 0.0 * y),
    ][: n % 4]


@pytest.mark.parametrize("n", [3, 90])
@pytest.mark.parametrize("count", [1, 2])
def test_one_branch_of_a_switch_is_run(n, count):
    tape = tape_of_switch(branches_of(count), (of(n), of()))
    for index in (-3, 0, 1, 5):
        compare(tape, [np.asarray(index), np.linspace(0.1, 1.0, n), np.asarray(0.3)])


def test_branches_that_give_truth_values():
    tape = tape_of_switch([lambda x, y: x > y, lambda x, y: x < y], (of(5), of()))
    assert tape.output_types[0].dtype == BOOL
    for index in (0, 1):
        compare(tape, [np.asarray(index), np.linspace(0.0, 1.0, 5), np.asarray(0.3)])


def test_what_another_branch_would_do_wrong_is_not_done():
    tape = tape_of_switch([lambda x, k: x[k], lambda x, k: x[0] + k], (of(5), of(dtype=INT)))
    kernel = fdiff.kernels.compile(tape, ("C",) * 3)
    (value,) = kernel(np.asarray(1), np.ones(5), np.asarray(9))
    assert value == 10.0
    with pytest.raises(IndexError):
        kernel(np.asarray(0), np.ones(5), np.asarray(9))


def test_the_reverse_loop_of_one_with_a_condition_is_compiled(monkeypatch):
    def root(c):
        start = (c, 0.0 * c + 1.0)
        return fdiff.while_loop(lambda s: s[1] > 1e-12, lambda s: newton(*s, c), start)[0]

    expected = fdiff.grad(root)(2.0)
    assert expected == pytest.approx(0.5 / np.sqrt(2.0), rel=1e-14)

    def not_interpreted(tape):
        raise AssertionError(f"{tape} is interpreted")

    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.setattr("fdiff.ops.control.while_loop.runner_of", not_interpreted)
    monkeypatch.setattr("fdiff.ops.control.loop.runner_of", not_interpreted)
    for c in (2.0, 3.0, 1e6):
        assert fdiff.grad(root)(c) == pytest.approx(0.5 / np.sqrt(c), rel=1e-13)


def test_a_long_loop_that_overflows_is_not_run_again_by_numpy(monkeypatch):
    trips, run = [], BodyRunner.__call__
    monkeypatch.setattr(BodyRunner, "__call__", lambda *xs: trips.append(1) or run(*xs))
    f = lambda x: fdiff.fori_loop(0, 100_000, lambda k, y: 1.5 * y, x)
    with pytest.warns(RuntimeWarning, match="overflow encountered in multiply"):
        assert fdiff.jit(fdiff.grad(f))(1.0) == np.inf
    assert len(trips) < 100
