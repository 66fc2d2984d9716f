"""Python's loops in functions that are traced within another trace become nodes there, too."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import TraceError
from fdiff.trace import looping

A = np.array([0.9, 1.1, 0.7])
STEPS = 16


def swing(x, steps=STEPS):
    angle, speed = x[0], x[1]
    for _ in range(steps):
        angle, speed = angle + 0.02 * speed, speed - 0.02 * (x[2] * np.sin(angle) + 0.1 * speed)
    return angle * speed


def flow(x, w):
    u = np.array([1.0, 0.5, 0.2])
    for k in range(STEPS):
        u = u + 0.01 * np.tanh(w * u + x[k % 3 if k < 0 else 0])
    return np.sum(u * u)


def with_table(x, rows):
    total = 0.0
    for row in rows:
        total = 0.9 * total + np.sum(row * x)
    return total


def stored(x):
    out = np.zeros(STEPS)
    out[0] = x[0]
    for k in range(1, STEPS):
        out[k] = 0.9 * out[k - 1] + 0.1 * np.sin(x[1] * out[k - 1])
    return np.sum(out * x[2])


@fdiff.custom_vjp
def ruled(x):
    return swing(x)


ruled.defvjp(lambda x: (swing(x), x), lambda x, bar: (bar * fdiff.grad(swing)(x),))


PROGRAMS = {
    "gradient": lambda x: np.sum(fdiff.grad(swing)(x) ** 2),
    "gradient with an array of the function around": lambda x: np.sum(
        fdiff.grad(lambda y: flow(y, np.exp(x)))(x)
    ),
    "rows of the function around": lambda x: np.sum(
        fdiff.grad(lambda y: with_table(y * y, [x * k for k in range(STEPS)]))(x)
    ),
    "value and gradient": lambda x: np.sum(fdiff.value_and_grad(stored)(x)[1]) * x[0],
    "jacobian": lambda x: np.sum(fdiff.jacobian(lambda y: y * swing(y))(x)),
    "tangents": lambda x: fdiff.jvp(swing, (x,), (np.sin(x),))[1],
    "batch": lambda x: np.sum(fdiff.vmap(swing)(np.stack([x, 2 * x, x + 1]))),
    "batch of gradients": lambda x: np.sum(
        np.cos(fdiff.vmap(fdiff.grad(stored))(np.stack([x, 0.5 * x])))
    ),
    "body of a scan": lambda x: fdiff.scan(
        lambda c, k: (0.5 * c + swing(x * k + 0.1 * c), None), 0.0, np.arange(3.0)
    )[0],
    "branch": lambda x: fdiff.cond(np.sum(x) > 0, swing, stored, x),
    "rule": lambda x: ruled(x) * x[0],
    "checkpoint": lambda x: fdiff.checkpoint(stored)(x) ** 2,
}


def results(f, way, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", way)
    monkeypatch.setattr(looping, "SLEEP", 0)
    fdiff.cache_clear()
    return [fdiff.jit(f)(A), fdiff.grad(f)(A), fdiff.jacfwd(f)(A), fdiff.hessian(f)(A)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_in_operators(name, monkeypatch):
    f = PROGRAMS[name]
    expected = results(f, "unroll", monkeypatch)
    for result, exact in zip(results(f, "check", monkeypatch), expected, strict=True):
        np.testing.assert_allclose(result, exact, rtol=1e-12, atol=1e-12 * np.max(np.abs(exact)))


def test_another_point_takes_the_same_nodes(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    slope = fdiff.jit(fdiff.grad(swing))
    values = [slope(A), slope(0.8 * A), slope(A)]
    np.testing.assert_allclose(values[1], fdiff.grad(swing)(0.8 * A), rtol=1e-12)
    np.testing.assert_array_equal(values[0], values[2])


def bodies(tape):
    return sum(1 + bodies(body) for _, _, body in tape.bodies())


@pytest.mark.parametrize("name", PROGRAMS)
def test_they_become_nodes(name, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(looping, "SLEEP", 0)
    fdiff.cache_clear()
    tape = fdiff.make_tape(PROGRAMS[name], A)
    assert bodies(tape) > 0
    assert len(tape.nodes) < 220


def test_explain_names_loops_of_a_function_inside(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(looping, "SLEEP", 0)
    told = fdiff.explain(lambda x: np.sum(fdiff.grad(swing)(x) ** 2), A)
    assert any("for _ in range(steps)" in line and "one node" in what for line, what in told.loops)


def test_a_store_into_an_array_of_the_function_around_is_refused(monkeypatch):
    def f(x):
        table = np.zeros(STEPS) * x[0]

        def inner(y):
            for k in range(STEPS):
                table[k] = y[0] * k
            return np.sum(table)

        return np.sum(fdiff.grad(inner)(x))

    for way in ("unroll", "check"):
        monkeypatch.setenv("FDIFF_LOOPS", way)
        fdiff.cache_clear()
        with pytest.raises(TraceError, match="enclosing function was written to"):
            fdiff.grad(f)(A)
