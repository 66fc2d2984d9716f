"""The laws of a program of loops: what breaks one is found, what is scheduled keeps them."""

from dataclasses import replace

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.errors import TapeError
from fdiff.kernels.ir.accesses import Buffer
from fdiff.kernels.ir.combiners import Combiner
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.index_expressions import Axis
from fdiff.kernels.ir.loops import Call, Output, Statement, Temporary
from fdiff.kernels.ir.loops import StatementKind as Kind
from fdiff.kernels.ir.type_inference import DtypeInference
from fdiff.kernels.ir.verify import verify
from fdiff.kernels.passes import pipeline
from fdiff.kernels.passes.pipeline import lower_graph


def made(f, *arrays):
    tape = tape_of(f, *arrays)
    graph, _ = kernel_graph(tape, ("C",) * len(tape.inputs))
    return lower_graph(graph), graph


def wave(x, y):
    """Two loops and a local: the sum of a row is read by what follows."""
    total = np.sum(np.sin(x) * y)
    return x * total + y


@pytest.fixture
def program():
    return made(wave, np.ones(5), np.ones(5))


def statements(program, nest, change):
    """The program with other statements in one of its nests."""
    items = list(program.items)
    items[nest] = replace(items[nest], statements=tuple(change(list(items[nest].statements))))
    return replace(program, items=tuple(items))


def without(kind, which=0):
    def change(lines):
        at = [k for k, s in enumerate(lines) if s.kind is kind][which]
        return lines[:at] + lines[at + 1 :]

    return change


def first(kind, alter):
    def change(lines):
        at = next(k for k, s in enumerate(lines) if s.kind is kind)
        return [*lines[:at], alter(lines[at]), *lines[at + 1 :]]

    return change


def accessed(**fields):
    return lambda s: s._replace(access=s.access._replace(**fields))


def whole(lines):
    """What is stored last is made a whole number first."""
    store = lines[-1]
    line = Statement.let("v90", "np.int64({0})", store.operands)
    return [*lines[:-1], line, store._replace(operands=("v90",))]


def sums(**fields):
    """The first accumulator of the first nest, altered."""

    def change(program):
        (one, *others), *items = (program.items[0].accumulators, *program.items[1:])
        nest = replace(program.items[0], accumulators=(replace(one, **fields), *others))
        return replace(program, items=(nest, *items))

    return change


def in_nest(k, change):
    return lambda program: statements(program, k, change)


BROKEN = {
    "a load is left out": (in_nest(0, without(Kind.LOAD)), "is read, and nothing has assigned it"),
    "a value is left out": (in_nest(0, without(Kind.LET)), "is read, and nothing has assigned it"),
    "an order is turned around": (
        in_nest(0, lambda lines: lines[::-1]),
        "is read, and nothing has assigned it",
    ),
    "a value has another name": (
        in_nest(1, first(Kind.LET, lambda s: s._replace(target="v99"))),
        "is read, and nothing has assigned it",
    ),
    "a name is assigned twice": (in_nest(0, lambda lines: [lines[0], *lines]), "assigned twice"),
    "a name of another nest": (
        in_nest(1, first(Kind.LET, lambda s: s._replace(operands=("v0",) * len(s.operands)))),
        "v0 is read",
    ),
    "too few positions": (in_nest(0, first(Kind.LOAD, accessed(index=()))), "0 positions on 1"),
    "a loop too many": (in_nest(0, first(Kind.LOAD, accessed(index=(Axis(1),)))), "a loop that"),
    "an unknown size": (in_nest(0, first(Kind.LOAD, accessed(dims=("n7",)))), "n7 is read"),
    "unknown memory": (in_nest(0, first(Kind.LOAD, accessed(buffer=Buffer("t9")))), "t9 is no"),
    "an input is written": (
        in_nest(1, first(Kind.STORE, accessed(buffer=Buffer("x0")))),
        "x0 is an input, and written",
    ),
    "an output is not written": (in_nest(1, without(Kind.STORE)), "out0 is never written"),
    "read before written": (
        in_nest(0, first(Kind.LOAD, accessed(buffer=Buffer("out0")))),
        "out0 is read before anything is written",
    ),
    "a whole number is stored": (
        in_nest(1, whole),
        "i8 is stored into out0, which is f8",
    ),
    "a sum starts from single precision": (sums(identity="np.float32(0)"), "f4"),
    "a sum goes on from nowhere": (
        lambda p: sums(identity=p.items[0].accumulators[0].name)(p),
        "is read, and nothing has assigned it",
    ),
    "a sum by another operator": (sums(combiner=Combiner.MAXIMUM), "is combined by"),
    "a sum that is no scan": (sums(scan=True), "is no scan"),
    "a scan that is not told": (
        in_nest(0, lambda lines: [*lines, Statement.let("v91", "{0}", (lines[-1].target,))]),
        "is read in its loops",
    ),
    "a step of zero": (
        in_nest(0, first(Kind.LOAD, accessed(index=(Axis(0, "0"),)))), "a step of zero",
    ),
    "an update in no order": (
        in_nest(1, first(Kind.STORE, lambda s: s._replace(
            kind=Kind.UPDATE, target="v92", text="{0} - {1}", combiner=Combiner.ADD))),
        "which is not by Combiner.ADD|is read before",
    ),
    "a sum of more loops than there are": (sums(depth=5), "gathers loops there are not"),
    "a sum of nothing": (in_nest(0, without(Kind.ACCUMULATE)), "gathers nothing"),
    "a window of other loops": (
        lambda p: replace(p, items=(replace(p.items[0], ranges=(None, None)), *p.items[1:])),
        "bounds of 2 loops of 1",
    ),
    "a bound that nobody knows": (
        lambda p: replace(p, items=(replace(p.items[0], ranges=(("0", "m5"),)), *p.items[1:])),
        "m5 is read",
    ),
    "memory is declared twice": (
        lambda p: replace(p, temporaries=(Temporary("out0", "f8", ()),)),
        "declared twice",
    ),
    "a local of another dtype": (
        lambda p: replace(p, locals=tuple((name, "f4") for name, _ in p.locals)),
        "declared as f4",
    ),
    "a name of another dtype": (
        in_nest(1, lambda lines: [Statement.let("v0", "np.int64(1)"), *lines]),
        "v0 is i8, f8 before",
    ),
    "a scalar that is no local": (
        lambda p: replace(p, outputs=(Output("out0", "f8", (), "s99"),)),
        "s99 is read",
    ),
    "a routine without its memory": (
        lambda p: replace(p, items=(*p.items, Call("solve", "f8", ("t7",), ("1",)))),
        "t7 is handed to a routine",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_a_law_is_found(program, case):
    loops, graph = program
    change, words = BROKEN[case]
    assert verify(loops, graph) is loops
    with pytest.raises(TapeError, match=words):
        verify(change(loops), graph)


def test_it_says_which_loop_it_is(program):
    loops, graph = program
    with pytest.raises(TapeError, match=r"^a program of loops breaks a law: v\d+ is read.*\(.*sum"):
        verify(statements(loops, 0, without(Kind.LOAD)), graph)


def test_whatever_is_compiled_is_verified_where_that_is_asked_for(monkeypatch):
    """In all tests it is: `conftest` sets the variable. Elsewhere nothing is imported for it."""

    def broken(program):
        return statements(program, 0, without(Kind.LOAD))

    bodies, tiling, *others = pipeline.FOR_CPU
    monkeypatch.setattr(pipeline, "FOR_CPU", (bodies, tiling._replace(function=broken), *others))
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    tape = tape_of(wave, np.ones(7), np.ones(7))
    kernels.cache_clear()
    with pytest.raises(TapeError, match=r"breaks a law.*after the pass tile_rows"):
        kernels.source(tape, ("C", "C"))
    monkeypatch.delenv("FDIFF_VERIFY")
    kernels.cache_clear()
    assert "def kernel" in kernels.source(tape, ("C", "C"))
    kernels.cache_clear()


EXPRESSIONS = {
    "{0} + {1}": "f8",
    "{0} * 2.0": None,  # what a number becomes is told by what it meets
    "np.float32({0})": "f4",
    "rt.sin({2})": "f4",
    "{2} * {3}": "f8",
    "{3} / {3}": "f8",
    "{3} + n0": "i8",
    "{0} < {1}": "b1",
    "{4} | {4}": "b1",
    "not {4}": "b1",
    "{0} if {4} else {1}": "f8",
    "rt.isnan({0})": "b1",
    "math.sqrt({3})": "f8",
    "-{2}": "f4",
    "np.float64(0)": "f8",
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_dtypes_of_expressions(text):
    kinds = DtypeInference({"a": "f8", "b": "f8", "c": "f4", "d": "i8", "e": "b1"})
    assert kinds.of(text, ("a", "b", "c", "d", "e")) == EXPRESSIONS[text]
    assert kinds.of("{0}", ("True",)) == "b1"
    assert kinds.of("{0}", ("0.5",)) is None


def test_a_statement_without_memory_has_none():
    loops, graph = made(wave, np.ones(5), np.ones(5))
    access = loops.items[0].statements[0].access
    line = Statement.let("v77", "{0}", ("1.0",))._replace(access=access)
    with pytest.raises(TapeError, match="v77"):
        verify(statements(loops, 0, lambda lines: [*lines, line]), graph)


@pytest.mark.parametrize("number", [np.dtype(d).type(3) for d in "?bhilBHILfd"], ids=repr)
def test_numbers_of_any_dtype_are_read_from_the_table(number):
    """Integers of the table were taken to have 64 bits and a sign."""
    x = np.ones(5)
    loops, graph = made(lambda x: (np.asarray(number), np.broadcast_to(number, (5,)), x), x)
    assert verify(loops, graph) is loops
    assert loops.outputs[0].dtype == number.dtype.str[1:]
