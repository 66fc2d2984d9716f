"""Which loops are logged by default: those of which enough is left, and few others."""

import dis
import random
import sys

import numpy as np
import pytest

import fdiff
from fdiff.trace.looping.call_log import CallLog
from fdiff.trace.looping.trip_counts import trips_of

POINT = np.array([0.7, 0.3, 0.2])


def pendulum(x, trips=150):
    theta, speed = x[0], x[1]
    for _ in range(trips):
        theta, speed = theta + 0.01 * speed, speed - 0.01 * (x[2] * np.sin(theta) + 0.1 * speed)
    return theta


def pendulum_with_while(x):
    theta, speed, k = x[0], x[1], 0
    while k < 200:
        theta, speed = theta + 0.01 * speed, speed - 0.01 * (x[2] * np.sin(theta) + 0.1 * speed)
        k += 1
    return theta


def slope(y, x):
    return np.array([x[0] * (y[1] - y[0]), y[0] - y[1] * y[2], x[2] * y[0]])


def midpoint_by_function(x):
    y = x
    for _ in enumerate(range(60)):
        half = y + 0.01 * slope(y, x)
        y = y + 0.02 * slope(half, x)
    return np.sum(y)


def pairs_of_steps(x):
    y = x
    for k in range(200):
        y = y + 0.01 * np.sin(y)
        if k % 2:
            y = y * 0.99 - 0.01 * x
    return np.sum(y)


def inner_loops(x):
    y = x
    for k in range(100):
        for _ in range(5):
            y = y + 0.1 * np.sin(y)
        y = np.cumsum(y) * (1.0 / (k + 1))
    return np.sum(y)


def list_of_rows(x):
    rows, y = [np.array([0.1 * k, 0.2, 0.3]) for k in range(300)], x
    for row, scale in zip(rows, range(300), strict=False):
        y = np.tanh(y + row) + x * scale * 0.01
    return np.sum(y)


def after_much_else(x):
    y = x
    for k in range(120):
        for _ in range(1 + k % 7):
            y = y + 0.1 * np.sin(y)
    return pendulum(y, 3000)


def pulls(y):
    force = np.zeros(4)
    for i in range(3):
        for j in range(i + 1, 4):
            d = y[j] - y[i]
            d = d - np.rint(d / 3.0)
            pull = 0.01 * d / (1.0 + d * d)
            force[i] += pull
            force[j] -= pull
    return force


def pairs_in_steps(x):
    """The place that is watched stands in three loops, and only the outermost one is long."""
    y = np.stack([x[0], x[1], x[2], x[0] * x[1]])
    for _ in range(100):
        y = y + pulls(y)
        for k in range(3):
            y[k] *= 1.0 - 0.01 * x[k]
    return np.sum(y)


LONG = [
    pendulum, pendulum_with_while, midpoint_by_function, pairs_of_steps, inner_loops, list_of_rows,
    after_much_else, pairs_in_steps,
]  # fmt: skip


@pytest.mark.parametrize("f", LONG, ids=lambda f: f.__name__)
def test_loops_of_a_thousand_calls_are_a_node(f, monkeypatch):
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)
    gradient = fdiff.grad(f)(POINT)
    assert any(n.primitive.name == "loop" for n in fdiff.make_tape(f, POINT).nodes)
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")
    np.testing.assert_allclose(fdiff.grad(f)(POINT), gradient, rtol=1e-12)


GRID = np.linspace(0.1, 2.0, 200)


def comprehension(x):
    return np.sum(np.stack([np.sin(GRID[k] * x[0]) * np.exp(-x[1] * GRID[k]) for k in range(200)]))


def rows_stored(x):
    table, out = np.outer(GRID, np.ones(3)), np.zeros(200)
    for k in range(200):
        out[k] = np.sum(np.tanh(table[k] * x)) * x[0]
    return np.sum(out**2)


def numbers_that_vary(x):
    return np.sum(np.stack([np.sin(0.01 * k * x[0]) * np.exp(-x[1] * x[2]) for k in range(200)]))


@pytest.mark.parametrize("f", [comprehension, rows_stored], ids=lambda f: f.__name__)
def test_short_loops_whose_iterations_do_not_wait_become_one_batch(f, monkeypatch):
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)
    assert len(fdiff.make_tape(f, POINT).nodes) < 40


def test_where_iterations_differ_in_numbers_they_are_a_node(monkeypatch):
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)
    (loop,) = fdiff.explain(fdiff.grad(numbers_that_vary), POINT).loops
    assert "one node" in loop[1]


def short(x):
    return pendulum(x, 40)


def few_long_iterations(x):
    y = x
    for _ in range(9):
        for k in range(1, 60):
            y = np.sin(y) / k + x if k % 3 else y * x
            for _ in range(k % 4):
                y = y + x
    return np.sum(y)


STEPS = "".join(random.Random(0).choices("0123", k=600))


def irregular(x):
    y, z = x, x
    for step in STEPS:
        if step == "0":
            y = y + 0.1 * z
        elif step == "1":
            z = np.sin(y)
        elif step == "2":
            y = y * z
        else:
            z = z - y[0]
    return np.sum(y + z)


def triangle(x):
    v = [x[k % 3] * 1.0 for k in range(40)]
    for k in range(40):
        for i in range(40 - k - 1):
            v[i] = 0.5 * (v[i] + v[i + 1])
    return v[0]


def table(x):
    u = np.zeros((13, 13))
    u[0] = x[0]
    for i in range(1, 12):
        for j in range(1, 12):
            u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) + x[1]
    return np.sum(u)


@pytest.mark.parametrize(
    "f", [short, few_long_iterations, irregular, triangle, table], ids=lambda f: f.__name__
)
def test_few_calls_are_logged_where_no_loop_is_found(f, monkeypatch):
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)
    logged, append = [], CallLog.append
    monkeypatch.setattr(CallLog, "append", lambda log, call: logged.append(1) or append(log, call))
    fdiff.make_tape(f, POINT)  # of 400 to 1,700 calls
    assert len(logged) <= 64


def heads(xs, table):
    n, pair = 7, (1, 2)
    trips = []
    for _ in range(n - 2):
        trips.append(innermost_trips())
        break
    for _, _ in zip(
        xs,
        range(2, 10, 3),
        strict=False,
    ):
        trips.append(innermost_trips())
        break
    for _, _ in enumerate(reversed(pair)):
        trips.append(innermost_trips())
        break
    for _ in range(table.shape[1] * len(xs)):
        trips.append(innermost_trips())
        break
    for _ in table:
        trips.append(innermost_trips())
        break
    for _ in (k for k in pair):
        trips.append(innermost_trips())
        break
    while n:
        trips.append(innermost_trips())
        break
    return trips


def innermost_trips():
    frame = sys._getframe(1)
    line = frame.f_lineno
    starts = [at for at, _, number in frame.f_code.co_lines() if number == line]
    return trips_of(frame, head_before(frame.f_code, starts[0]))


def head_before(code, at):
    """Where the loop begins in which an instruction stands, though it ends by a break."""
    ends = ("FOR_ITER", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_IF_FALSE", "TO_BOOL")
    return max(i.offset for i in dis.get_instructions(code) if i.opname in ends and i.offset < at)


def test_heads_tell_how_many_trips_there_are():
    assert heads([1, 2, 3, 4], np.zeros((5, 3))) == [5, 3, 2, 12, 5, None, None]
