"""Programs for several threads: what verification finds in them."""

from dataclasses import replace

import numpy as np
import pytest
from tapes import tape_of

from fdiff.errors import TapeError
from fdiff.kernels.ir.graph_of_tape import kernel_graph
from fdiff.kernels.ir.parallel import ParallelLoop, SerialRegion
from fdiff.kernels.ir.verify_parallel import verify_parallel
from fdiff.kernels.passes import pipeline
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

ROWS = np.array([0, 2, 2, 1])


def shared(f, *arrays, pull=False, but=0):
    """The program of `f`, or of its cotangents, with all loops shared but some; its graph."""
    tape = tape_of(f, *arrays)
    tape = simplify(vjp(tape, (0,))) if pull else tape
    graph = kernel_graph(tape, ("C",) * len(tape.inputs))[0]
    program = pipeline.lower_graph(graph)
    parallel = pipeline.for_threads(program, graph, frozenset(range(but, len(program.items))))
    assert parallel is not None
    return parallel, graph


def summed(x, y):
    total = np.sum(np.sin(x) * y)
    return x * total, total


def gathered(x):
    return np.sin(x)[ROWS]


def entrywise(x, y):
    return np.sin(x) * y


def changed(program, concerned, change):
    """The program with the first item changed that is concerned."""
    at = next(k for k, item in enumerate(program.items) if concerned(item))
    items = (*program.items[:at], change(program.items[at]), *program.items[at + 1 :])
    return replace(program, items=items)


def shares(item):
    return isinstance(item, ParallelLoop)


def copies(item):
    return shares(item) and item.copies


def region(item):
    return isinstance(item, SerialRegion)


def other_slot(item):
    return replace(item, totals=tuple(t._replace(slot="out0") for t in item.totals))


def other_local(item):
    return replace(item, locals=(("s99", "slot0"),))


def continuing(item):
    return replace(item, totals=tuple(t._replace(continues=True) for t in item.totals))


def shared_copies(item):
    return replace(item, copies=tuple((whole, c._replace(copies="")) for whole, c in item.copies))


def without_copies(item):
    """The copies are forgotten, and the loop adds to the memory itself."""
    wholes = {f"own_{copy.name}": whole.name for whole, copy in item.copies}

    def renamed(access):
        name = access.buffer.name
        return access._replace(buffer=access.buffer._replace(name=wholes.get(name, name)))

    return replace(item, copies=(), item=item.item.map_accesses(renamed))


def at_one_entry(item):
    """Every iteration writes the first entry."""

    def first(access):
        return access._replace(index=tuple(a._replace(var=-1) for a in access.index))

    return replace(item, item=item.item.map_accesses(first))


BROKEN = {
    "a reduction without slots": (summed, shares, other_slot, "out0 is no slot"),
    "a reduction from nowhere": (summed, shares, continuing, "is not begun"),
    "a race for an entry": (
        entrywise,
        shares,
        at_one_entry,
        "threads share",
    ),
    "a race for sums": (gathered, copies, without_copies, "threads share"),
    "copies that all share": (gathered, copies, shared_copies, "is no copy of"),
    "a local that nobody has": (summed, region, other_local, "s99 is handed over"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_a_law_is_found(case):
    f, concerned, change, words = BROKEN[case]
    arrays = [np.ones(4)] * f.__code__.co_argcount
    program, graph = shared(f, *arrays, pull=f is gathered, but=int(concerned is region))
    assert verify_parallel(program, graph) is program
    broken = changed(program, concerned, change)
    assert broken != program
    with pytest.raises(TapeError, match=f"breaks a law.*{words}"):
        verify_parallel(broken, graph)


def test_every_program_for_threads_is_verified(monkeypatch):
    """In all tests: `conftest` sets the variable."""
    asked = []
    monkeypatch.setattr(pipeline, "_verify", lambda *args: asked.append(args[2]))
    shared(summed, np.ones(4), np.ones(4))
    assert "after the pass parallelise" in asked
