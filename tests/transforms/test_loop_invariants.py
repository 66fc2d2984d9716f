"""What all trips of a loop compute alike is computed once; what is cheaper to compute stays."""

import tracemalloc

import numpy as np
import pytest

import fdiff
from fdiff.ops.control.loop import LOOP
from fdiff.transforms.loops.loop_invariants import hoist_invariants
from fdiff.transforms.pipeline import VALUE, derive

N, TRIPS = 6, 20

# What a body computes of an array `x` alone, the operation to be found, and whether outside.
COMPUTED = {
    "an inverse": (lambda x: np.linalg.inv(np.outer(x, x) + 9 * np.eye(N)) @ x, "inv", True),
    "a function": (np.exp, "exp", True),
    "a maximum": (lambda x: np.max(x * np.arange(N)), "max", True),
    "a factor": (lambda x: 2.0 * x, "multiply", False),
    "a view": (lambda x: x[::-1], "slice", False),
    "an outer product": (lambda x: (x[:, None] - x[None, :]) ** 2, "subtract", False),
    "a function of a larger array": (lambda x: x[:, None] * np.exp(x)[None, :], "exp", True),
    "a loop": (lambda x: fdiff.fori_loop(0, 5, lambda j, z: z + np.sin(z), x), "sin", True),
}


def program(name, loop=fdiff.fori_loop):
    part = COMPUTED[name][0]

    def f(x):
        return np.sum(loop(0, TRIPS, lambda i, y: np.sin(y + 0.1 * np.sum(y * part(x))), x))

    return f


def unrolled(lower, upper, body, value):
    for i in range(lower, upper):
        value = body(i, value)
    return value


def names(tape):
    return [node.primitive.name for node in tape.nodes]


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_taken_out(name):
    _, operation, outside = COMPUTED[name]
    tape = fdiff.make_tape(program(name), np.linspace(0.5, 1.0, N))
    (loop, *_) = [n for n in reversed(tape.nodes) if n.primitive is LOOP]
    if name == "a loop":
        assert names(tape).count("loop") == 2
        assert "loop" not in names(loop.param("body"))
    else:
        found = operation in names(loop.param("body"))
        assert found is (not outside)
        assert (operation in names(tape)) is outside


@pytest.mark.parametrize("name", COMPUTED)
def test_derivatives(name, rng):
    """In both modes, and of second order, beside the unrolled loop."""
    x = rng.uniform(0.5, 1.0, N)
    f, plain = program(name), program(name, unrolled)
    for operator in (fdiff.grad, fdiff.jacfwd, fdiff.hessian):
        np.testing.assert_allclose(operator(f)(x), operator(plain)(x), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("operator", [fdiff.grad, fdiff.jacfwd, fdiff.hessian])
def test_bodies_of_derivatives_hold_none(operator):
    """A second pass finds nothing that is left in their loops."""
    tape = fdiff.make_tape(operator(program("an inverse")), np.linspace(0.5, 1.0, N))
    tape = derive(VALUE, tape)
    assert hoist_invariants(tape) is tape
    held = [names(body) for _, _, body in tape.bodies()]
    assert held
    assert not any("inv" in body for body in held)


def test_what_no_trip_computes_raises_no_error():
    """A singular matrix, in a loop without trips, and in one whose number a run tells."""

    def f(x, n):
        return np.sum(fdiff.fori_loop(0, n, lambda i, y: np.linalg.inv(x * 0.0) @ y, x[0]))

    x = np.ones((2, 2))
    assert fdiff.jit(lambda x: f(x, 0))(x) == 2.0
    assert fdiff.jit(f)(x, 0) == 2.0
    with pytest.raises(np.linalg.LinAlgError):
        fdiff.jit(lambda x: f(x, 3))(x)


def test_tracing_takes_no_memory_for_the_numbers_of_trips():
    """Neither that of a `fori_loop`, nor that of its gradient."""

    def f(x):
        return fdiff.fori_loop(2, 30_000_002, lambda i, y: y + 1e-9 * np.sin(y * i), x)

    tracemalloc.start()
    fdiff.make_tape(fdiff.grad(f), 1.0)
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size < 10_000_000
