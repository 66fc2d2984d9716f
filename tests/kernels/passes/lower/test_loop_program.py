"""Lowering: effects of a schedule become loop nests of scalar statements."""

import numpy as np
import pytest
from tapes import tape_of

from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.loops import Call, Nest
from fdiff.kernels.passes.fuse.fusion_rounds import fuse
from fdiff.kernels.passes.lower.loop_program import lower
from fdiff.kernels.passes.normalise.routine_selection import select_routines
from fdiff.kernels.passes.pipeline import materialise
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

X = np.linspace(0.1, 0.9, 6)


def lowered(f, *arrays, pull=False):
    tape = tape_of(f, *arrays)
    tape = simplify(vjp(tape, (0,))) if pull else tape
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    return lower(fuse(materialise(select_routines(graph))))


def statements(program):
    return [s for item in program.items if isinstance(item, Nest) for s in item.all_statements]


def test_a_value_and_its_gradient_share_a_nest():
    program = lowered(lambda x: np.sum(np.sin(x) * x), X, pull=True)
    assert [type(item) for item in program.items] == [Nest]


def test_a_value_is_computed_once_in_its_nest():
    program = lowered(lambda x: np.exp(x) * np.exp(x) + np.sin(np.exp(x)), X)
    texts = [s.text for s in statements(program) if "exp(" in s.text]
    assert len(texts) == 1


def test_what_is_normalised_by_a_sum_is_two_nests_in_order():
    program = lowered(lambda x: x / np.sum(x), X)
    assert [type(item) for item in program.items] == [Nest, Nest]


def test_every_output_is_declared():
    program = lowered(lambda x: (np.sin(x), np.sum(x)), X)
    assert len(program.outputs) == 2


@pytest.mark.parametrize(("shape", "kind"), [((4, 4), Call), ((4,), Nest)])
def test_products_of_matrices_are_calls_of_routines(shape, kind):
    a = np.ones(shape)
    assert [type(item) for item in lowered(lambda x, y: x @ y, a, a).items] == [kind]
