"""Plans and schedules: what verification finds in them."""

from dataclasses import replace

import numpy as np
import pytest
from tapes import tape_of

from fdiff.errors import TapeError
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.passes import pipeline
from fdiff.kernels.passes.fuse.fusion_rounds import Schedule
from fdiff.kernels.passes.verify_schedule import verify_plan, verify_schedule


def schedule_of(f, *arrays):
    tape = tape_of(f, *arrays)
    graph = kernel_graph(tape, ("C",) * len(tape.inputs))[0]
    schedule = pipeline.run(graph, "fuse")
    assert isinstance(schedule, Schedule)
    return verify_schedule(schedule)


def normalised(x):
    """Two nests of one domain: all of a row is summed before it is divided."""
    e = np.exp(x)
    return e / np.sum(e, axis=1, keepdims=True)


def stored(x):
    """A store in place: the middle of what was computed, and summed, is written over."""
    y = np.sin(x)
    total = np.sum(y)
    y[1:-1] = 2.0 * x[1:-1]
    return y, total


def solved(a, b):
    """The call of a routine, and a nest that reads its result."""
    return 2.0 * np.linalg.solve(np.exp(a), b)


def pair(x):
    return np.sin(x), np.cos(x[1:])


X = np.ones((3, 4))


def test_a_value_is_not_read_before_it_is_written():
    schedule = schedule_of(normalised, X)
    with pytest.raises(TapeError, match=r"reads %\d+ before the \w+ of %\d+ in nest"):
        verify_schedule(replace(schedule, nests=schedule.nests[::-1]))


def test_a_sum_is_not_read_in_the_nest_that_adds_it_up():
    schedule = schedule_of(normalised, X)
    joined = [effect for nest in schedule.nests for effect in nest]
    with pytest.raises(TapeError, match=r"reads what the reduce of %\d+ in nest 0 writes"):
        verify_schedule(replace(schedule, nests=[joined]))


def test_what_is_materialised_is_written():
    schedule = schedule_of(normalised, X)
    with pytest.raises(TapeError, match=r"no effect writes %\d+"):
        verify_schedule(replace(schedule, nests=schedule.nests[1:]))


def test_outputs_that_are_copies_are_written():
    schedule = schedule_of(lambda x: (x[1:], x[:-1]), np.ones(5))
    kept = [[e for e in nest if e.buffer.name != "out1"] for nest in schedule.nests]
    with pytest.raises(TapeError, match="no effect writes output 1"):
        verify_schedule(replace(schedule, nests=kept))


def test_effects_of_a_nest_run_over_one_domain():
    schedule = schedule_of(pair, np.ones(5))
    joined = [effect for nest in schedule.nests for effect in nest]
    with pytest.raises(TapeError, match="effects of nest 0 do not run over one domain"):
        verify_schedule(replace(schedule, nests=[joined]))


def test_a_routine_is_called_alone():
    schedule = schedule_of(solved, np.eye(9), np.ones(9))
    call = next(nest for nest in schedule.nests if not nest[0].domain)
    twice = [call * 2 if nest is call else nest for nest in schedule.nests]
    with pytest.raises(TapeError, match="do not run over one domain"):
        verify_schedule(replace(schedule, nests=twice))


def test_a_value_is_not_read_after_it_is_overwritten():
    schedule = schedule_of(stored, np.ones(6))
    assert schedule.plan.overwrites
    reads = [n for n in schedule.nests if any(e.kind.value == "reduce" for e in n)]
    rest = [n for n in schedule.nests if n not in reads]
    if len(reads[0]) > 1:  # the sum shares the nest of the sines: it is taken out, and put last
        late = [e for e in reads[0] if e.kind.value == "reduce"]
        early = [e for e in reads[0] if e.kind.value != "reduce"]
        reads, rest = [late], [early, *rest]
    with pytest.raises(TapeError, match=r"reads %\d+ after the store of %\d+"):
        verify_schedule(replace(schedule, nests=[*rest, *reads]))


def test_what_is_read_in_memory_has_memory():
    plan = schedule_of(solved, np.eye(9), np.ones(9)).plan
    assert plan.analysis.read_in_memory
    lost = replace(plan, stored=frozenset())
    with pytest.raises(TapeError, match="it is read in memory, and has none"):
        verify_plan(lost)


OVERWRITING = {
    "an input": (lambda plan, i: {i: plan.graph.inputs[0]}, "may not write to both"),
    "itself": (lambda plan, i: {i: i}, "which is computed later"),
}


@pytest.mark.parametrize("case", OVERWRITING)
def test_only_memory_of_the_kernel_is_overwritten_and_once(case):
    plan = schedule_of(stored, np.ones(6)).plan
    (i,) = plan.overwrites
    change, words = OVERWRITING[case]
    with pytest.raises(TapeError, match=words):
        verify_plan(replace(plan, overwrites=change(plan, i)))
