"""What rounds of the scheduler share, and how few effects one waits for by name."""

import numpy as np
import pytest
from tapes import tape_of

from fdiff.kernels.ir.effect import EffectKind
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.passes.fuse.dependences import dependences_of
from fdiff.kernels.passes.fuse.effects import effects_of_plan
from fdiff.kernels.passes.fuse.memory_reads import reads_of
from fdiff.kernels.passes.fuse.recomputation import nodes_to_store
from fdiff.kernels.passes.materialise.graph_analysis import GraphAnalysis
from fdiff.kernels.passes.materialise.materialisation import make_plan
from fdiff.kernels.passes.normalise.routine_selection import select_routines
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

N = 30
AT = np.arange(N) * 7 % N


def cells(w):
    """Each step reads a slice of its own, and what the last one has left."""
    h = w[:N]
    for k in range(1, 8):
        gate = 1 / (1 + np.exp(-h * w[k * N : (k + 1) * N]))
        h = np.tanh(gate * h) + gate
    return np.sum(h)


def gathering(w):
    h = np.tanh(w[:N])
    for _ in range(4):
        h = np.exp(-h[AT]) * h + np.sin(h)
    return np.sum(h)


def storing(w):
    out = np.tanh(w[:N])
    for k in range(4):
        out[k : k + 20] = np.sin(out[k : k + 20] + w[k * N : k * N + 20])
    return np.sum(out * np.exp(out))


def structure_of(f):
    tape = simplify(vjp(tape_of(f, np.linspace(0.1, 1, 9 * N)), [0]))
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    return GraphAnalysis(select_routines(graph))


def rounds_of(structure):
    """Plans one after the other; each knows the one before."""
    also, plan = set(), None
    while plan is None or len(also) < len(structure.ops) // 4:
        plan = make_plan(structure, also, plan)
        effects = effects_of_plan(plan)
        yield plan, effects, also
        again = nodes_to_store(plan, [[effect] for effect in effects])
        some = {i for i in structure.ops if i not in plan.stored | structure.absorbed}
        also = also | (again or set(sorted(some)[::3]))
        if not (again or some):
            return


@pytest.mark.parametrize("f", [cells, gathering, storing])
def test_what_is_taken_from_the_round_before_is_what_would_be_found(f):
    taken = dropped = 0
    before = {}
    for plan, effects, also in rounds_of(structure_of(f)):
        taken += len(plan.reads_of_value)
        dropped += len(before) - len(plan.reads_of_value)
        anew = make_plan(plan.analysis, also)
        assert plan.stored == anew.stored
        for effect in effects:
            assert reads_of(plan, effect) == reads_of(anew, effect)
        before = plan.reads_of_value
    assert taken > 0
    assert dropped > 0


def terms(w):
    """The gradient adds up forty slices, none of which is half of the array."""
    return sum(np.sum(np.exp(w[k : k + 20] * k)) for k in range(40))


def test_a_term_of_a_sum_waits_for_the_one_before_it():
    """And so for all of them, though not by name: those grow with the square of the terms."""
    plan = make_plan(structure_of(terms))
    effects = effects_of_plan(plan)
    needs = dependences_of(plan, effects)
    assert sum(map(len, needs)) < 3 * len(effects)
    before = []
    for mine in needs:
        before.append(set(mine).union(*(before[p] for p in mine)))
    updates = [r for r, effect in enumerate(effects) if effect.kind is EffectKind.UPDATE]
    assert len(updates) > 30
    for r in updates:
        assert {p for p in range(r) if effects[p].node == effects[r].node} <= before[r]
