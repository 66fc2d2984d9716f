"""What loop programs state for other targets: order, scans, and which iterations are apart."""

import numpy as np
import pytest
from tapes import tape_of

from fdiff.kernels.ir.combiners import Combiner
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.loops import StatementKind
from fdiff.kernels.passes import pipeline
from fdiff.transforms.reverse import vjp


def portable(f, *arrays, pull=False):
    """The program as a target other than the CPU gets it."""
    tape = tape_of(f, *arrays)
    tape = vjp(tape, [0]) if pull else tape
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    return pipeline.run(graph, pipeline.PORTABLE[-1].name)


def accumulators(program):
    return [a for nest in program.items for a in nest.accumulators]


REDUCED = {
    "sum": (np.sum, Combiner.ADD, False),
    "prod": (np.prod, Combiner.MULTIPLY, False),
    "max": (np.max, Combiner.MAXIMUM, True),
    "min": (np.min, Combiner.MINIMUM, True),
    "any": (lambda x: np.any(x > 0), Combiner.OR, True),
    "all": (lambda x: np.all(x > 0), Combiner.AND, True),
    "dot": (lambda x: x @ np.sin(x), Combiner.ADD, False),
}


@pytest.mark.parametrize("name", REDUCED)
def test_reductions_may_be_reordered(name):
    f, combiner, exact = REDUCED[name]
    (found,) = accumulators(portable(f, np.ones(5)))
    assert (found.combiner, found.scan) == (combiner, False)
    assert combiner.exact("f8") is exact
    assert combiner.exact("i8")


def test_scans_may_not():
    (found,) = accumulators(portable(np.cumsum, np.ones(5)))
    assert found.scan
    assert found.combiner is None


def test_where_the_first_extreme_entry_is_depends_on_the_order():
    assert {a.combiner for a in accumulators(portable(np.argmax, np.ones(5)))} == {None}


def test_additions_at_places_found_at_run_time_may_meet_and_may_come_in_any_order():
    rows = np.array([0, 1, 1])
    program = portable(lambda x: x[rows] * 2.0, np.ones((4, 3)), pull=True)
    updates = [
        s for nest in program.items for s in nest.statements if s.kind is StatementKind.UPDATE
    ]
    assert [(s.combiner, s.access.injective_loops) for s in updates] == [
        (Combiner.ADD, frozenset([1]))  # rows may meet, columns do not
    ]


def test_iterations_of_an_elementwise_loop_write_apart():
    program = portable(lambda x: np.sin(x).T + x.T, np.ones((4, 3)))
    (nest,) = program.items
    stores = [s for s in nest.statements if s.kind is StatementKind.STORE]
    assert [s.access.injective_loops for s in stores] == [frozenset([0, 1])]


def test_nothing_of_the_cpu_is_in_a_portable_program():
    rows = np.arange(50) % 7
    program = portable(lambda x: np.sum(np.exp(x[rows]) ** 2), np.ones((7, 3)), pull=True)
    assert {type(item).__name__ for item in program.items} <= {"Nest", "Call"}
