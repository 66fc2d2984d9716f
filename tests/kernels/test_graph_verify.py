"""The laws of kernel graphs: what breaks one is found, and the pass that broke it is named."""

from dataclasses import replace

import numpy as np
import pytest
from tapes import tape_of

import fdiff
from fdiff import kernels
from fdiff.errors import TapeError
from fdiff.kernel_rule import Category, Kind
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.kernel_graph import Operation, SliceParameters
from fdiff.kernels.ir.verify_graph import verify_graph
from fdiff.kernels.passes import pipeline


def several(x, y):
    """Operations of many kinds."""
    sums = np.cumsum(np.sum(x * y, axis=1))
    joined = np.concatenate([sums[1:], sums[:-1]])
    store = joined.copy()
    store[1:3] = sums[:2] * 2.0
    lead = np.linalg.slogdet(x.T @ y)[1]
    return np.sum(store * joined) + lead + np.einsum("ij,ij->", x, y.copy())


def graph_of(f, *arrays):
    tape = tape_of(f, *arrays)
    return kernel_graph(tape, ("C",) * len(tape.inputs))[0]


def test_a_carry_keeps_its_type():
    f = lambda x: fdiff.scan(lambda s, r: (s * r, s), x[0], x)[1]
    graph = kernel_graph(fdiff.make_tape(f, np.ones(5)), ("C",))[0]
    assert verify_graph(graph) is graph
    at = next(i for i, op in enumerate(graph.ops) if op.kind is Kind.LOOP)
    (body,) = graph.ops[at].bodies
    for broken, words in (
        (replace(body, outputs=(body.inputs[0],)), "2 results of bodies that give"),
        (
            replace(body, outputs=(len(body.ops), *body.outputs[1:]), ops=(*body.ops, WHOLE)),
            "carry 0",
        ),
    ):
        data = (("bodies", (broken,)), *graph.ops[at].data[1:])
        ops = [op._replace(data=data) if i == at else op for i, op in enumerate(graph.ops)]
        with pytest.raises(TapeError, match=words):
            verify_graph(replace(graph, ops=tuple(ops)))


WHOLE = Operation(Kind.VALUE, "m0", (), ("i8",), ((),))


@pytest.fixture
def graph():
    x = np.eye(5)
    return graph_of(several, x, x)


def altered(kind, change):
    """The graph with its first operation of a kind, or of a category, changed."""

    def of(graph):
        at = next(i for i, op in enumerate(graph.ops) if kind in (op.kind, op.kind.category))
        ops = [*graph.ops]
        ops[at] = change(ops[at], at)
        return replace(graph, ops=tuple(ops))

    return of


def fields(**new):
    return lambda op, _: op._replace(**new)


def without_last_axis(op, _):
    return op._replace(shapes=(op.dims[:-1],))


def with_parameter(name, value):
    return lambda op, _: op._replace(data=tuple((n, value if n == name else v) for n, v in op.data))


BROKEN = {
    "an operand comes later": (
        altered(Category.REDUCTION, lambda op, i: op._replace(args=(i + 1,))),
        "is read before it is computed",
    ),
    "an operand is the operation itself": (
        altered(Category.SCAN, lambda op, i: op._replace(args=(i,))),
        "is read before it is computed",
    ),
    "a dtype too many": (
        altered(Category.REDUCTION, fields(dtypes=("f8", "f8"))), "2 dtypes for 1 shapes",
    ),
    "a size that there is not": (
        altered(Category.REDUCTION, fields(shapes=(("n9",),))), "n9 is no size of the graph",
    ),
    "a leaf that reads": (altered(Kind.VALUE, fields(args=(0,))), "a leaf with operands"),
    "a text of more operands": (
        altered(Category.ELEMENTWISE, fields(text="{0} + {5}")), "reads operand 5 of 2",
    ),
    "a shape of other axes": (
        altered(Category.ELEMENTWISE, without_last_axis), "does not broadcast to",
    ),
    "axes of a transpose": (
        altered(Kind.TRANSPOSE, with_parameter("axes", (0, 0))), "axes of an operand with 2 axes",
    ),
    "a transpose of another dtype": (
        altered(Kind.TRANSPOSE, fields(dtypes=("f4",))), "f4 of an operand that is f8",
    ),
    "a slice without its starts": (
        altered(Kind.SLICE, fields(data=SliceParameters(()))), "0 starts on 1 axes",
    ),
    "a slice of more axes": (
        altered(Kind.SLICE, lambda op, _: op._replace(shapes=((*op.dims, "1"),))),
        "operands with other axes",
    ),
    "a store that changes the shape": (
        altered(Kind.UPDATE, lambda op, _: op._replace(args=op.args[::-1])),
        "a store into an array of another shape",
    ),
    "a sum over another axis": (
        altered(Kind.SUM, with_parameter("axes", (0, 1))), "without its axes is",
    ),
    "a scan along no axis": (
        altered(Category.SCAN, with_parameter("axis", 3)), "an axis that there is not",
    ),
    "subscripts of other axes": (
        altered(Kind.CONTRACT, with_parameter("subscripts", "i,ij->ij")), "subscripts i of",
    ),
    "a concatenation of other arrays": (
        altered(Kind.CONCATENATE, lambda op, _: op._replace(args=(0, *op.args[1:]))),
        "operands that differ|another",
    ),
    "a result that there is not": (
        altered(Kind.ITEM, with_parameter("k", 2)), "result 2 of 2",
    ),
    "a result of another type": (
        altered(Kind.ITEM, fields(dtypes=("f4",))), "another type than the result",
    ),
    "several results as one": (
        lambda graph: altered(Category.SCAN, lambda op, _: op)(
            replace(graph, ops=tuple(op._replace(dtypes=("f8",) * 2, shapes=op.shapes * 2)
                    if op.kind is Kind.INPUT else op for op in graph.ops))
        ),
        "an operand has several results",
    ),
    "an input in another place": (
        lambda graph: replace(graph, inputs=graph.inputs[::-1]), "input 0 is not",
    ),
    "an output that there is not": (
        lambda graph: replace(graph, outputs=(999,)), "there is no output %999",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_a_law_is_found(graph, case):
    change, words = BROKEN[case]
    assert verify_graph(graph) is graph
    with pytest.raises(TapeError, match=words):
        verify_graph(change(graph))


@pytest.mark.parametrize("which", range(6))
def test_the_pass_that_broke_a_law_is_named(monkeypatch, which):
    step, change = pipeline.PORTABLE[which], BROKEN["an output that there is not"][0]
    passes = list(pipeline.PORTABLE)
    passes[which] = step._replace(function=lambda graph: change(step.function(graph)))
    monkeypatch.setattr(pipeline, "PORTABLE", tuple(passes))
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    kernels.cache_clear()
    with pytest.raises(TapeError, match=f"after the pass {step.name}: there is no output"):
        kernels.source(tape_of(np.sin, np.ones(3)), ("C",))
    kernels.cache_clear()
