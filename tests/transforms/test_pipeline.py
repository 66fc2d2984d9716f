"""What is done to tapes: every step leaves a lawful tape, in the order of the page."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import TapeError
from fdiff.tape import Tape
from fdiff.transforms import late_steps, pipeline

X = np.linspace(0.5, 1.5, 4)
LONG = np.linspace(0.5, 1.5, 50)


def scalar(x):
    return np.log(np.sum(np.exp(x - np.max(x)))) + np.sum(x**3)


def vector(x):
    return np.concatenate([np.sin(x), x[1:] * x[:-1]])


def with_a_rule(x):
    """A call of a function with a rule of its own, which a sweep opens and closes."""
    cube = fdiff.custom_vjp(lambda x: x**3)
    cube.defvjp(lambda x: (x**3, x), lambda x, bar: (3 * x**2 * bar,))
    return np.sum(cube(x))


def with_a_loop(x):
    return np.sum(fdiff.fori_loop(0, 9, lambda k, s: np.sin(s) * x, x))


TANGENTS = ["push forward", "keep tangents", "real tangents", "tangents of one"]
COTANGENTS = ["pull back one output", "keep cotangents", "real cotangents", "cotangents of one"]
CALLS = {
    "grad": (lambda: fdiff.grad(scalar)(X), ["pull back 1", "keep"]),
    "vjp": (lambda: fdiff.vjp(scalar, X), ["pull back", "simplify"]),
    "jvp": (lambda: fdiff.jvp(vector, X, X), ["push forward", "simplify"]),
    "hvp": (
        lambda: fdiff.hvp(scalar, X, X),
        ["pull back 1", "push forward", "keep", "simplify"],
    ),
    "jacobian": (
        lambda: fdiff.jacobian(vector, X, mode="forward", chunk_size=100),
        [*TANGENTS, "unit tangents", "convert types"],
    ),
    "jacrev": (
        lambda: fdiff.jacobian(vector, X, mode="reverse", chunk_size=100),
        [*COTANGENTS, "unit cotangents", "convert types"],
    ),
    "terms": (
        lambda: fdiff.jacobian(np.sin, LONG, mode="forward"),
        ["select rows", *TANGENTS],
    ),
    "hessian": (
        lambda: fdiff.hessian(scalar, X),
        ["symmetrise", "convert types"],
    ),
    "diagonal": (
        lambda: fdiff.hessian_diagonal(scalar)(X),
        ["tangents of one", "batch seeds", "simplify"],
    ),
    "rules": (
        lambda: fdiff.vjp(with_a_rule, X),
        ["open calls", "close calls", "pull back", "simplify"],
    ),
    "loops": (
        lambda: fdiff.grad(with_a_loop)(X),
        ["open loops", "close loops", "pull back 1", "keep"],
    ),
    "linearize": (lambda: fdiff.linearize(vector, X), ["inline checkpoints", "push forward"]),
    "vmap": (lambda: fdiff.vmap(lambda x: x * x)(X), ["batch"]),
    "jit": (lambda: fdiff.jit(vector)(X), ["simplify"]),
    "mapped rule": (
        lambda: fdiff.vmap(with_a_rule)(np.ones((2, 4))),
        ["show mapped calls", "batch"],
    ),
    "kernel": (
        lambda: fdiff.source(lambda x: np.cumsum(x[::-1]), X),
        [step.name for step in (*pipeline.RUN, *pipeline.VALUE, *pipeline.TO_GRAPH)],
    ),
    "guarded": (
        lambda: fdiff.grad(lambda x: np.sum(x) if x[0] > 0 else x[0])(X),
        ["check", "simplify"],
    ),
}


def steps_of(call, monkeypatch):
    """The names of the steps that a call takes. What each leaves is verified, as in all tests."""
    names = []
    fdiff.dispatch.program.forget_programs()
    monkeypatch.setattr(late_steps, "WATCHERS", [lambda name, tape: names.append(name)])
    call()
    return names


@pytest.mark.parametrize("operator", CALLS)
def test_steps_are_taken_in_order(operator, structures, monkeypatch):
    call, wanted = CALLS[operator]
    names = steps_of(call, monkeypatch)
    first = ["matrix functions", "stop shifts", "reroll", "batch loops", "hoist", "split"]
    assert names[:6] == first or operator in ("vmap", "mapped rule")
    rest = iter(names)
    assert all(name in rest for name in wanted), names  # in this order


def test_each_step_is_taken_by_some_call(monkeypatch):
    fresh = lambda: fdiff.jacobian(lambda x: np.cos(3.25 * x), LONG)  # kept from no other test
    calls = [fresh, *[call for call, _ in CALLS.values()]]
    taken = {name for call in calls for name in steps_of(call, monkeypatch)}
    steps = {s.name for s in vars(pipeline).values() if isinstance(s, pipeline.Transform)}
    assert steps <= taken
    assert taken - steps == late_steps.IN_SWEEPS.keys()


def test_a_plan_that_is_kept_takes_no_step(monkeypatch):
    names, slope = [], fdiff.grad(scalar)
    slope(X)
    monkeypatch.setattr(late_steps, "WATCHERS", [lambda name, tape: names.append(name)])
    for _ in range(3):
        slope(X)
    assert set(names) <= {step.name for step in pipeline.TO_GRAPH}  # once a kernel pays off


def test_a_step_that_breaks_a_law_is_named(monkeypatch):
    def broken(tape, request):
        nodes = (tape.nodes[0], tape.nodes[1]._replace(args=(1,)), *tape.nodes[2:])
        return Tape(nodes, tape.inputs, tape.outputs)

    monkeypatch.setattr(pipeline, "VALUE", (pipeline.SIMPLIFY._replace(run=broken),))
    tape = fdiff.make_tape(scalar, X)
    with pytest.raises(TapeError, match="reads a later node after the step 'simplify'"):
        pipeline.derive(pipeline.VALUE, tape)
    monkeypatch.setattr(fdiff.tape, "VERIFIED", False)
    pipeline.derive(pipeline.VALUE, tape)


def test_names_of_steps_differ():
    steps = [s for s in vars(pipeline).values() if isinstance(s, pipeline.Transform)]
    assert len({s.name for s in steps}) == len(steps) > 20
