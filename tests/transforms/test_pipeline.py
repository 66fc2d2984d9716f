"""What is done to tapes: every step leaves a lawful tape, in the order of the page."""

import numpy as np
import pytest

import fdiff
from fdiff.tape import verify
from fdiff.transforms import pipeline

X = np.linspace(0.5, 1.5, 4)
LONG = np.linspace(0.5, 1.5, 50)


def scalar(x):
    return np.log(np.sum(np.exp(x - np.max(x)))) + np.sum(x**3)


def vector(x):
    return np.concatenate([np.sin(x), x[1:] * x[:-1]])


DENSE = ["push forward", "keep tangents", "real tangents", "simplify", "batch seeds"]
CALLS = {
    "grad": (lambda: fdiff.grad(scalar)(X), ["pull back 1", "keep"]),
    "vjp": (lambda: fdiff.vjp(scalar, X), ["pull back", "simplify"]),
    "jvp": (lambda: fdiff.jvp(vector, X, X), ["push forward", "simplify"]),
    "hvp": (
        lambda: fdiff.hvp(scalar, X, X),
        ["pull back 1", "push forward", "keep", "simplify"],
    ),
    "jacobian": (
        lambda: fdiff.jacobian(lambda x: np.sin(x) * x[:1], LONG[:8], mode="forward"),
        [*DENSE, "unit tangents", "simplify", "columns", "simplify", "convert types"],
    ),
    "jacrev": (
        lambda: fdiff.jacobian(np.sin, X, mode="reverse"),
        ["batch seeds", "unit cotangents", "simplify", "simplify", "convert types"],
    ),
    "sparse": (
        lambda: fdiff.jacobian(np.sin, LONG, mode="forward"),
        ["separable", "batch seeds", "compressed", "simplify", "sparse"],
    ),
    "hessian": (
        lambda: fdiff.hessian(scalar, X),
        ["columns", "simplify", "symmetrise", "simplify", "convert types"],
    ),
    "vmap": (lambda: fdiff.vmap(lambda x: x * x)(X), ["batch"]),
    "jit": (lambda: fdiff.jit(vector)(X), ["simplify"]),
    "guarded": (
        lambda: fdiff.grad(lambda x: np.sum(x) if x[0] > 0 else x[0])(X),
        ["check", "simplify"],
    ),
}


@pytest.mark.parametrize("operator", CALLS)
def test_every_step_leaves_a_lawful_tape(operator, monkeypatch):
    names = []

    def watch(name, tape):
        names.append(name)
        if tape is not None:
            verify(tape)

    fdiff.dispatch.program.forget()
    monkeypatch.setattr(pipeline, "WATCHERS", [watch])
    call, wanted = CALLS[operator]
    call()
    assert names[:3] == ["stop shifts", "vectorise", "split"] or operator == "vmap"
    rest = iter(names)
    assert all(name in rest for name in wanted), names  # in this order


def test_names_of_steps_differ():
    steps = [s for s in vars(pipeline).values() if isinstance(s, pipeline.Transform)]
    assert len({s.name for s in steps}) == len(steps) > 20
