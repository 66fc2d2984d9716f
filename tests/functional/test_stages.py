"""The stages of a call: what is called without a look at the others gives what all of them give."""

import ast
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff.functional.call import invocation, stages
from fdiff.trace.trace_stack import occupied

X = np.array([0.5, 1.5, -2.0])


def energy(x, power=2, *, scale=1.0):
    return scale * np.sum(np.sin(x) * x**power)


def branching(x):
    return np.sum(x * x) if x[0] > 0.0 else np.sum(x)


def whole_point(a, b):
    return np.sum(a["w"] * b)


CALLS = {
    "value_and_grad": lambda: fdiff.value_and_grad(energy)(X),
    "keywords": lambda: fdiff.grad(energy)(X, scale=3.0),
    "integers": lambda: fdiff.grad(energy)(np.arange(3)),
    "out": lambda: fdiff.grad(energy)(X, out=np.zeros(3)),
    "several": lambda: fdiff.grad(whole_point, argnums=(0, 1))({"w": X}, 2.0 * X),
    "jit": lambda: fdiff.jit(branching)(X) + fdiff.jit(branching)(-X),
    "product": lambda: fdiff.vjp(np.sin)(X, v=X),
    "at a point": lambda: fdiff.jacobian(np.sin, X),
    "at two points": lambda: fdiff.jacobian(np.multiply, (X, X + 1.0)),
    "vector at a point": lambda: fdiff.hvp(energy, X, X),
    "no differentiated leaf": lambda: fdiff.vmap(np.sin)(X),
    "linear map": lambda: fdiff.linearize(np.sin, X)[1](X),
}


def flat(result):
    return [np.asarray(leaf) for leaf in fdiff.tree.flatten(result)[0]]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore::fdiff.errors.DtypeWarning")
def test_the_list_gives_what_the_short_way_gives(name, monkeypatch):
    monkeypatch.delitem(occupied, "kinks", raising=False)
    short = [flat(CALLS[name]()) for _ in range(3)]
    through = []

    def listed(call):
        through.append(call)
        return call.go_through(stages.STAGES)

    fdiff.cache_clear()
    monkeypatch.setattr(invocation, "result_of_call", listed)
    monkeypatch.setattr("fdiff.functional.operators.linear_maps.result_of_call", listed)
    long = [flat(CALLS[name]()) for _ in range(3)]
    assert through
    for a, b in zip(short, long, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_every_stage_is_one_function_of_the_call():
    assert all(callable(run) for _, run in stages.STAGES)
    assert stages.STAGES[-1][0] is None  # the last one gives the result


def test_programs_name_no_public_operator():
    """What an operator is called, and what its derivatives cost, the operators say themselves."""
    text = Path(fdiff.dispatch.program.__file__).read_text(encoding="utf-8")
    words = {
        node.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert words.isdisjoint(fdiff.functional.__all__)
