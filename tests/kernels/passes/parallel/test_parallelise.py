"""Which loops of a program are shared among threads."""

import numpy as np
from tapes import tape_of

from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.parallel import ParallelLoop, SerialRegion
from fdiff.kernels.passes import pipeline
from fdiff.kernels.passes.parallel.cost_model import work_of
from fdiff.kernels.passes.parallel.parallelise import parallelise

X = np.linspace(0.1, 0.9, 6)
A = np.ones((5, 7))
AT = np.array([2, 0, 1, 1, 2, 5])


def program_of(f, *arrays):
    tape = tape_of(f, *arrays)
    graph = kernel_graph(tape, ("C",) * len(tape.inputs))[0]
    return pipeline.lower_graph(graph)


def shared(f, *arrays):
    """The program of `f` with all loops shared that can be."""
    program = program_of(f, *arrays)
    return parallelise(program, frozenset(range(len(program.items))))


def test_nothing_is_shared_where_no_loop_is_heavy():
    assert parallelise(program_of(np.sin, X), frozenset()) is None


def test_a_loop_over_entries_is_split():
    program = shared(lambda x, y: np.sin(x) * y, X, X)
    assert [type(item) for item in program.items] == [ParallelLoop]


def test_each_thread_has_a_part_of_a_sum():
    (loop,) = (i for i in shared(lambda x: np.sum(np.sin(x)), X).items if type(i) is ParallelLoop)
    assert loop.totals


def test_a_loop_that_is_not_heavy_runs_on_one_thread():
    program = program_of(lambda a: np.sin(a / np.sum(a)), A)
    items = parallelise(program, frozenset([len(program.items) - 1])).items
    assert [type(item) for item in items] == [SerialRegion, ParallelLoop]


def test_work_counts_elementary_functions_as_dear():
    costs = [sum(w.cost for w in work_of(program_of(f, X).items[0])) for f in (np.sin, np.negative)]
    assert costs[0] > 2 * costs[1]
