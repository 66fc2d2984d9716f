"""Recorded arrays in a profile: operations, backward passes, nodes."""

import numpy as np
import pytest

import fdiff
from fdiff import autograd
from fdiff.profiler import profile


def training(x):
    y = np.sum(np.sin(x) * x)
    y.backward()
    return x.grad


def test_operations_and_a_backward_pass(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    x = autograd.tensor(np.linspace(0.0, 1.0, 6), requires_grad=True)
    with profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
        training(x)
    forward = [e for e in prof.function_events if e.category == "forward"]
    assert [e.name for e in forward] == ["sin", "multiply", "sum"]
    assert forward[1].input_shapes == [[6], [6]]
    assert forward[0].cpu_memory_usage == 6 * 8
    line = training.__code__.co_firstlineno + 1
    assert forward[0].stack[0] == f"test_recorded.py({line}): training"
    (one,) = [e for e in prof.function_events if e.name == "backward"]
    assert one.scope == 1
    assert "MultiplyBackward0" in one.args["nodes"]
    below = [e for e in prof.function_events if e.category == "backward" and e is not one]
    assert {"cos", "multiply"} <= {e.name for e in below}
    assert all(e.stack[0] == f"test_recorded.py({line}): training" for e in below)


def test_nodes_of_a_backward_pass_that_is_recorded_itself():
    x = autograd.tensor(np.linspace(0.5, 1.0, 6), requires_grad=True)
    with profile(with_stack=True) as prof:
        np.sum(np.exp(x) * x).backward(create_graph=True)
    nodes = [e for e in prof.function_events if e.name.endswith("Backward0")]
    assert [e.name for e in nodes] == ["SumBackward0", "MultiplyBackward0", "ExpBackward0"]
    assert {e.category for e in nodes} == {"backward"}


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
def test_gradients_are_the_same_bits(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    start = np.random.default_rng(5).standard_normal(50)
    without = training(autograd.tensor(start, requires_grad=True)).value.tobytes()
    with profile():
        within = training(autograd.tensor(start, requires_grad=True)).value.tobytes()
    assert without == within


def test_a_pass_that_repeats_neither_traces_nor_compiles():
    x = autograd.tensor(np.ones(9), requires_grad=True)
    training(x)
    with profile() as prof:
        training(x)
    assert not [e for e in prof.function_events if e.category in {"trace", "transform"}]
    assert fdiff.grad(np.sum)(np.ones(2)).tolist() == [1.0, 1.0]


def test_operations_in_a_rule_of_the_users_belong_to_the_backward_pass():
    class Square(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            return 2.0 * x * bar

    x = autograd.tensor(np.ones(3), requires_grad=True)
    with profile() as prof:
        np.sum(Square.apply(x)).backward()
    (node,) = [e for e in prof.function_events if e.name == "SquareBackward"]
    assert [e.category for e in node.cpu_children if e.name == "multiply"] == ["backward"] * 2
