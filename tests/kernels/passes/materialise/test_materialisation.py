"""Which values of a graph are stored, and for what reason."""

import numpy as np
import pytest
from tapes import tape_of

from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.passes.fusion_report import reason_to_store
from fdiff.kernels.passes.normalise.routine_selection import select_routines
from fdiff.kernels.passes.pipeline import materialise

X = np.linspace(0.1, 0.9, 6)
A = np.arange(12.0).reshape(3, 4)
AT = np.array([2, 0, 1, 1])


def plan_of(f, *arrays):
    tape = tape_of(f, *arrays)
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    return materialise(select_routines(graph))


def stored_names(plan):
    """The names of stored operations that are computed, and why each is stored."""
    kinds = {i: plan.ops[i].kind.name.lower() for i in plan.stored if plan.ops[i].args}
    return {name: reason_to_store(plan, i) for i, name in kinds.items()}


def test_a_chain_of_elementwise_values_is_computed_where_it_is_read():
    plan = plan_of(lambda x: np.sum(np.sin(x) * x + 1.0), X)
    assert stored_names(plan) == {"sum": "an output"}


def test_a_sum_that_is_read_is_stored_since_it_is_complete_only_after_its_loops():
    plan = plan_of(lambda x: x / np.sum(x), X)
    assert "complete only after its loops" in stored_names(plan)["sum"]


def test_what_a_gather_reads_is_in_memory():
    plan = plan_of(lambda x: np.sin(x)[AT] * 2.0, X)
    reasons = [reason_to_store(plan, i) for i in plan.stored if plan.ops[i].args]
    assert "a routine or a gather reads it in memory" in reasons


@pytest.mark.parametrize("also", [False, True])
def test_a_function_that_is_repeated_along_an_axis_is_stored(also):
    def f(a, y):
        rows = np.exp(np.sin(a[0]) * np.cos(a[0]))
        return rows[:, None] * np.sin(y) if also else rows * 2.0

    plan = plan_of(f, A, np.linspace(0.0, 1.0, 40))
    computed = [i for i in plan.stored if plan.ops[i].args and i not in plan.analysis.outputs]
    assert bool(computed) is also


def test_outputs_are_stored_in_the_memory_of_their_number():
    plan = plan_of(lambda x: (np.sin(x), np.cos(x)), X)
    assert sorted(plan.outputs.values()) == [0, 1]
    assert set(plan.outputs) <= plan.stored
