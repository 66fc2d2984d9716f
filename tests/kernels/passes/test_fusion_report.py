"""The report on fusion: what it says of a program against the program itself."""

import re

import numpy as np
import pytest

import fdiff
from fdiff import kernels
from fdiff.explanation import costs
from fdiff.kernels.ir.graph_of_tape import kernel_graph, nodes_of_operations
from fdiff.kernels.passes import pipeline
from fdiff.kernels.passes.fuse.fusion_rounds import Schedule
from fdiff.kernels.passes.fusion_report import fusion_report, moved_bytes
from fdiff.kernels.passes.parallel.cost_model import matrix_work
from fdiff.kernels.runtime.routines import TEXTS
from fdiff.kernels.tape_costs import CALL_SECONDS
from fdiff.tape import CONSTANT, INPUT

X, M = np.linspace(0.1, 0.9, 40), np.ones((12, 7))


def chain(x):
    return np.sum(np.sin(x) * np.exp(-(x**2)) + np.log1p(x**2) * np.tanh(x))


def softmax(x):
    weights = np.exp(x - np.max(x, axis=1, keepdims=True))
    return weights / np.sum(weights, axis=1, keepdims=True)


def diffused(x):
    return np.sum((x[2:] - 2.0 * x[1:-1] + x[:-2]) ** 2)


def gathered(x):
    return np.sum((x[np.arange(20)] - x[np.arange(20)[::-1]]) ** 2)


def layer(x):
    return np.sum(np.tanh(x @ np.ones((7, 5)) + 1.0))


CASES = [
    (f, x)
    for f, x in ((chain, X), (softmax, M), (diffused, X), (gathered, X), (layer, M))
    for f in ((f, fdiff.grad(f)) if f is not softmax else (f, fdiff.jacobian(f)))
]
each = pytest.mark.parametrize(("f", "x"), CASES)


def told(f, x):
    tape = fdiff.make_tape(f, x)
    layouts = ("C",) * len(tape.inputs)
    graph, values = kernel_graph(tape, layouts)
    nodes = nodes_of_operations(tape, layouts)
    return tape, graph, values, nodes, fusion_report(graph, nodes)


@each
def test_the_report_is_of_the_program_that_runs(f, x):
    """Numbers in the names of operations change nothing of what the passes do."""
    _, graph, _, _, report = told(f, x)
    schedule = pipeline.run(graph, "fuse")
    assert isinstance(schedule, Schedule)
    assert [nest.loops for nest in report.nests] == [n[0].domain for n in schedule.nests]
    program = pipeline.run(graph, "eliminate_dead_stores")
    assert len(report.program.items) == len(program.items)
    assert [t[:3] for t in report.program.temporaries] == [t[:3] for t in program.temporaries]
    counts = [p.after for p in report.passes if p.name == "fuse"]
    assert counts == [len(schedule.nests)]


@each
def test_nests_hold_nodes_of_the_tape(f, x):
    tape, _, _, nodes, report = told(f, x)
    inside = {node for nest in report.nests for node in nest.nodes}
    computing = {
        i for i in nodes.values()
        if not (tape.nodes[i].primitive.kind.is_leaf or tape.nodes[i].primitive.kind.is_view)
    }  # fmt: skip
    assert inside <= set(nodes.values())
    assert len(computing - inside) <= len(computing) // 2  # what a pass has made anew instead


def test_a_fused_gradient_is_one_nest_of_all_nodes():
    tape, _, _, _, report = told(fdiff.grad(chain), X)
    (nest,) = report.nests
    computing = {i for i, n in enumerate(tape.nodes) if n.primitive not in (INPUT, CONSTANT)}
    assert set(nest.nodes) == computing
    text = fdiff.source(fdiff.grad(chain), X)
    assert text.count("for i") == 1


@each
def test_stored_values_are_the_memory_of_the_program(f, x):
    _, _, _, _, report = told(f, x)
    program = report.program
    memory = {m.name for m in (*program.temporaries, *program.outputs) if not _in_local(m)}
    places = {value.place for value in report.stored}
    local = {place for place in places if re.fullmatch(r"s\d+", place)}
    assert places - local == memory
    assert all(value.why for value in report.stored)


def _in_local(memory):
    """Whether it is an output of one number, which a local of the kernel holds."""
    return bool(getattr(memory, "scalar", ""))


def test_reasons_are_those_of_the_values():
    reasons = {v.name: v.why for v in told(softmax, M)[-1].stored}
    assert reasons["max"].startswith("a reduction")
    assert reasons["exp"] == "it costs much, and would be computed more than once"
    assert reasons["divide"] == "an output"


def test_bytes_that_a_kernel_moves():
    """Counted by hand: each nest reads and writes each entry once."""
    for f, x, wanted in (
        (chain, X, X.nbytes),
        (lambda x: np.sin(x) + 1.0, X, 2 * X.nbytes),
        (lambda x: x[::-1] * x, X, 3 * X.nbytes - X.nbytes),
        (lambda x: np.sum(x, axis=1), M, M.nbytes + 12 * 8),
        (lambda x: x + np.arange(7.0), M, 2 * M.nbytes + 7 * 8),
    ):
        _, _, values, _, report = told(f, x)
        found = moved_bytes(report.program, values.ints)
        assert found in (wanted, wanted + 8), f  # one number that is an output


def test_a_forecast_is_kept_by_the_kernel(monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    tape = fdiff.make_tape(lambda x: np.sin(x) * 1.4375 + np.cumsum(x), X)
    found = kernels.kernel_forecast(tape)
    layouts = ("C",)
    assert found.workspace == kernels.workspace(tape, layouts)
    assert found.compile_seconds == kernels.predict_seconds(tape, layouts)
    assert not found.uncounted
    solved = fdiff.make_tape(lambda m: np.linalg.inv(m @ m), np.eye(3))
    assert not kernels.kernel_forecast(solved).uncounted


def test_work_of_routines_is_counted_by_their_sizes():
    """Against the formulas of the table, whose coefficients were fitted; each routine has one."""
    for name in TEXTS:
        assert name.startswith("matmul") or matrix_work(name, ("1", "n0", "n1"))

    def seconds(f, *args):
        found = kernels.kernel_forecast(fdiff.make_tape(f, *args))
        assert not found.uncounted
        return found.run_seconds - CALL_SECONDS

    n, c, stack = 50, 7, 3
    a, b = np.eye(n), np.ones((n, c))
    solve = 1e-9 * (0.01 * n**3 + 3.0 * n * n + 0.06 * n * n * c + 1.2 * n * c)
    assert seconds(np.linalg.solve, a, b) == pytest.approx(solve, rel=1e-3)
    many = np.broadcast_to(a, (stack, n, n)).copy()
    assert seconds(np.linalg.inv, many) == pytest.approx(
        1e-9 * stack * (0.06 * n**3 + 4.5 * n * n), rel=1e-3
    )


def test_seconds_of_long_tapes_are_those_of_their_nodes(monkeypatch):
    def run(x, times):
        for _ in range(times):
            x = np.tanh(x) + 0.5 * np.linalg.solve(np.eye(4) + x, x)
        return np.sum(x)

    def counted(times):
        tape = fdiff.make_tape(lambda x: run(x, times), np.full(4, 0.1))
        return kernels.costs_of_tape(tape).kernel_seconds

    one = counted(2) - counted(1)
    assert one > 0.0
    assert counted(20) - counted(10) == pytest.approx(10 * one)
    monkeypatch.setattr(costs, "PATIENCE", 0.0)  # every tape is long
    cost = fdiff.explain(lambda x: run(x, 3), np.full(4, 0.1)).cost("value")
    assert cost.seconds == pytest.approx(counted(3))
    assert cost.compile_seconds is None
    refused = fdiff.explain(lambda m: np.linalg.eigvalsh(m)[0], np.eye(3)).cost("value")
    assert refused.seconds is None
