"""Numba's search for variables of one block, by counting: the same variables, in less time."""

import pytest
from numba.cuda import lowering
from programs import PROGRAMS

import fdiff
from fdiff.kernels.cuda import adapter, quick_lowering
from fdiff.kernels.cuda.code_generation import cuda_program
from fdiff.kernels.ir.graph_of_tape import kernel_graph


def test_numba_still_has_the_method():
    assert quick_lowering._numbas is getattr(lowering.Lower, quick_lowering._METHOD)


@pytest.mark.parametrize("name", ["rosenbrock", "mixture", "scatter", "running sums"])
def test_the_variables_are_those_that_numba_finds(name, monkeypatch):
    seen = []

    def checked(lower):
        quick_lowering._numbas(lower)
        assert lower._singly_assigned_vars == quick_lowering.singly_assigned(lower.blocks)
        seen.append(lower._singly_assigned_vars)

    monkeypatch.setattr(quick_lowering, "_find", checked)
    f, args = PROGRAMS[name]
    graph, values = kernel_graph(fdiff.make_tape(f, *args), ("C",) * len(args))
    for kernel in cuda_program(graph, values).kernels:
        adapter.compile_ptx(kernel, (8, 0))
    assert any(len(found) > 20 for found in seen)


def test_the_method_is_numbas_again_afterwards():
    with quick_lowering.quick_lowering():
        assert getattr(lowering.Lower, quick_lowering._METHOD) is quick_lowering._find
    assert getattr(lowering.Lower, quick_lowering._METHOD) is quick_lowering._numbas
