"""Loops as Python functions of plain numbers beside NumPy, node by node (`loop_texts.py`)."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

import fdiff
from fdiff.interpret import textbook_evaluate
from fdiff.ops.control import loop
from fdiff.ops.control.loop_texts import loop_function
from fdiff.process.float_flags import noting, taken

ROWS = np.array([0.3, 2.0, -1.7, 0.0, 1.1])


def numbers(s, entry):
    k, x, on, count, v = s
    y = fdiff.switch(k, [lambda x: x / entry, lambda x: x * 2.0, lambda x: -x], x)
    z = np.where(y > x, y - entry, np.abs(y))
    v = np.where(on & (z < 2.0), v * z, v)
    v = fdiff.cond(z > 0.3, lambda v: v, lambda v: np.sin(v), v)
    v[1] += z
    return (k + 1, z, ~on | (entry > 1.0), 3 * count + (entry > 0.2), v), (np.sin(z), on, v[1])


def single(s, entry):
    x, y = s
    return (x * np.float32(1.1) + entry.astype(np.float32), y + x), (x, y > 2.0)


def nested(s, entry):
    def inner(t, k):
        return fdiff.cond(t > k, lambda t: 0.5 * t, lambda t: t * t + entry, t), t

    t, ts = fdiff.scan(inner, s, np.arange(3.0))
    u, n = fdiff.while_loop(lambda p: p[0] > 0.5, lambda p: (0.5 * p[0], p[1] + 1), (t, 0))
    return u + ts[1] + n, ts


STARTS = {
    numbers: lambda x: (0, 0.5, False, 1, 0.5 * x[:3]),
    single: lambda x: (np.float32(0.1), 1.0),
    nested: lambda x: 1.3,
}


def all_runs(step, start, rows, *, reverse=False):
    """Carries and outs of a loop by its text, its op and NumPy, with hints at warnings."""
    with np.errstate(all="ignore"):
        tape = fdiff.make_tape(lambda x: fdiff.scan(step, start(x), x, reverse=reverse), rows)
    node = next(node for node in tape.nodes if node.primitive.name == "loop")
    body, carries = node.param("body"), node.param("carries")
    values = fdiff.interpret.Interpreter(tape, keeps=True)
    values = values.values([rows], values.steps)
    args = [values[a] for a in node.args]
    taken()
    with noting():
        run = loop_function(body, carries, node.param("rows"), reverse=reverse)
        by_text = run(len(rows), *args)
        taken()
        with patch.object(loop, "FEW", 0):
            loop.runner_of.cache_clear()
            by_op = node.primitive.rules.evaluate(*args, **dict(node.params)), taken()
        state, tables = args[1:], args[len(args) - node.param("rows") :]
        outs = []
        for k in reversed(range(len(rows))) if reverse else range(len(rows)):
            entries = [x[k] for x in tables]
            results = textbook_evaluate(body, *state[: len(state) - len(entries)], *entries)
            state = [*results[:carries], *state[carries:]]
            outs.append(results[carries:])
    outs = [np.array(out) for out in zip(*outs[:: -1 if reverse else 1], strict=True)]
    return by_text, by_op, ((*state[:carries], *outs), taken())


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("step", STARTS)
def test_texts_give_numbers_of_numpy(step, reverse):
    own, (by_op, _), (expected, _) = all_runs(step, STARTS[step], ROWS, reverse=reverse)
    for x, y, z in zip(own, by_op, expected, strict=True):
        np.testing.assert_array_equal(x, z)
        np.testing.assert_array_equal(y, z)
        assert np.asarray(x).dtype == y.dtype == np.asarray(z).dtype


# What overflows, or is invalid, and what NumPy does not warn of.
STEPS = {
    "1 / 0": (lambda s, x: (np.cos(s) + 1.0 / x, None), 0.0, True),
    "0 / 0": (lambda s, x: (x / x + np.cos(s), None), 0.0, True),
    "overflow": (lambda s, x: (x * 1e200 * 1e200 > s, None), 1.0, True),
    "1 / overflow": (lambda s, x: (1.0 / (x * 1e200 * 1e200) + np.cos(s), None), 1.0, True),
    "x - x": (lambda s, x: (np.where(x - x > 0.0, s, 2.0), None), np.inf, True),
    "tiny": (lambda s, x: (np.cos(s) + x * 1e-200 * 1e-200, None), 1.0, False),
    "read alone": (lambda s, x: (np.where(x > s, x, s), None), np.inf, False),
    "sums of infinity": (lambda s, x: (np.where(x > s, 2.0 * x, s), None), np.inf, False),
}


@pytest.mark.parametrize(("step", "x", "warns"), STEPS.values(), ids=STEPS)
def test_texts_hint_at_warnings(step, x, warns):
    start = lambda x: False if step is STEPS["overflow"][0] else 0.5
    own, (by_op, hint), (expected, by_numpy) = all_runs(step, start, np.array([1.0, x]))
    np.testing.assert_array_equal(by_op if np.ndim(by_op) == 0 else by_op[0], expected[0])
    assert hint == by_numpy == warns
    assert own is None or not warns  # NumPy tells where numbers of Python are not finite


def test_whiles_go_on_as_texts(monkeypatch):
    """A loop that is long enough is a text from some trip on, the next one from the first."""
    monkeypatch.setenv("FDIFF_TIER", "interpret")

    def step(s):
        return np.where(s[0] > 0.9, np.cos(s[0]) + s[1] % 3, 1.1 * s[0] + 0.1), s[1] + 1

    f = fdiff.jit(lambda x, n: fdiff.while_loop(lambda s: s[1] < n, step, (x, 0), limit=150))
    for x in (0.3, 0.4):
        s = (x, 0)
        while s[1] < 100:
            s = step(s)
        assert f(x, 100) == s
        with pytest.raises(fdiff.errors.ConvergenceError, match="limit=150"):
            f(x, 151)
