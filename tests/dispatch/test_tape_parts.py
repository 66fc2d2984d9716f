"""Loops beside operations without a kernel: they are compiled, and the results are the same."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp

import fdiff
from fdiff import kernels
from fdiff.dispatch.tiers import tiered_execution
from fdiff.dispatch.tiers.tape_parts import TapeParts, has_parts
from fdiff.interpret import Interpreter

X = np.linspace(0.3, 0.9, 6)


def transformed(x):
    """A loop before and a loop behind a Fourier transform, and numbers that pass it."""
    y, rows = fdiff.scan(lambda c, r: (c + np.sin(c * r), c * r), x[0], x)
    spectrum = np.fft.rfft(rows * y)
    power = np.abs(spectrum) ** 2
    last, _ = fdiff.scan(lambda c, r: (0.5 * c + r, None), y, power)
    return last * y + np.sum(rows)


def integrated(x):
    """The steps of a solver, which are a loop in derivatives."""
    slope = lambda t, y: -x[0] * y + x[1] * np.sin(t)
    found = solve_ivp(slope, (0, 1), x[2:4], rtol=1e-9, atol=1e-12)
    return np.sum(found.y[:, -1] ** 2) * x[4]


def twice(x):
    """A solver whose start is what another one ends at."""
    first = solve_ivp(lambda t, y: -x[0] * y, (0, 1), x[:2], rtol=1e-9, atol=1e-12).y[:, -1]
    return np.sum(solve_ivp(lambda t, y: x[1] * y, (0, 1), first, rtol=1e-9, atol=1e-12).y[:, -1])


PROGRAMS = {f.__name__: f for f in (transformed, integrated, twice)}
OPERATORS = {"value_and_grad": fdiff.value_and_grad, "hessian": fdiff.hessian}


def flat(results):
    return np.hstack([np.ravel(a) for a in (results if isinstance(results, tuple) else (results,))])


@pytest.mark.parametrize("tier", ["compile", "evaluate"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_parts_give_what_numpy_gives(program, operator, tier, monkeypatch):
    call = OPERATORS[operator](PROGRAMS[program])
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    wanted = flat(call(X))
    monkeypatch.setenv("FDIFF_TIER", tier)
    for _ in range(2):
        assert_allclose(flat(call(X)), wanted, rtol=1e-11, atol=1e-11)


def test_the_loops_of_a_solver_are_compiled(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    tiered_execution.forget_runners()
    fdiff.grad(integrated)(X)
    runners = [r for r in tiered_execution._runners.values() if any(True for _ in r.tape.bodies())]
    assert runners
    assert all(r.compiled() != has_parts(r.tape) for r in runners)
    assert any(r.compiled() for r in runners)


def test_parts_are_those_of_the_tape_on_random_splits(rng, monkeypatch):
    """Any nodes may be without a kernel: what is run alone changes no value."""
    tape = fdiff.make_tape(fdiff.value_and_grad(transformed), X)
    wanted = flat(tuple(Interpreter(tape)(X)))
    assert has_parts(tape)
    run = lambda part: lambda arrays: Interpreter(part)(*arrays)
    for share in (0.0, 0.1, 0.3, 0.6, 1.0):
        for _ in range(4):
            alone = {id(node) for node in tape.nodes if rng.random() < share}
            monkeypatch.setattr(kernels, "has_kernel", lambda node, a=alone: id(node) not in a)
            assert_allclose(flat(tuple(TapeParts(tape, run)(X))), wanted, rtol=1e-12)


def test_tapes_that_need_no_parts_have_none():
    assert not has_parts(fdiff.make_tape(lambda x: np.abs(np.fft.fft(x)), X))
    assert not has_parts(fdiff.make_tape(lambda x: fdiff.scan(lambda c, r: (c * r, c), x[0], x), X))
