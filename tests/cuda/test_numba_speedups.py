"""Steps of Numba's compiler that are replaced: the same variables and types, in less time."""

from collections import Counter

import pytest
from numba.cuda import lowering, types
from programs import PROGRAMS

import fdiff
from fdiff.kernels.cuda.code_generation import cuda_program
from fdiff.kernels.cuda.devices import adapter, numba_speedups
from fdiff.kernels.ir.graph_of_tape import kernel_graph

FIND, CALL_TYPE = numba_speedups._FIND, numba_speedups._CALL_TYPE
each_program = pytest.mark.parametrize("name", ["rosenbrock", "mixture", "scatter", "running sums"])


def kernels_of(name):
    f, args = PROGRAMS[name]
    graph, values = kernel_graph(fdiff.make_tape(f, *args), ("C",) * len(args))
    return cuda_program(graph, values).kernels


def test_numba_still_has_the_methods():
    for place, method in numba_speedups.NUMBAS.items():
        assert vars(place[0])[place[1]] is method
    assert set(numba_speedups.NUMBAS) == {FIND, CALL_TYPE}
    assert FIND[0] is lowering.Lower
    assert issubclass(types.Function, CALL_TYPE[0])


@each_program
def test_the_variables_and_types_are_those_that_numba_finds(name, monkeypatch):
    seen, asked = [], Counter()
    numbas, remembering = dict(numba_speedups.NUMBAS), numba_speedups._remembering

    def checked(lower):
        numbas[FIND](lower)
        assert lower._singly_assigned_vars == numba_speedups.singly_assigned(lower.blocks)
        seen.append(lower._singly_assigned_vars)

    def compared():
        ours = remembering()

        def call_type(function, context, args, kws):
            found = ours(function, context, args, kws)
            if numba_speedups._of_scalars(function, args) and not kws:
                asked[function.typing_key, tuple(args)] += 1
                again = numbas[CALL_TYPE](function, context, args, kws)
                assert (found.args, found.return_type) == (again.args, again.return_type)
            return found

        return call_type

    monkeypatch.setattr(numba_speedups, "_find", checked)
    monkeypatch.setattr(numba_speedups, "_remembering", compared)
    for kernel in kernels_of(name):
        adapter.compile_ptx(kernel, (8, 0))
    assert any(len(found) > 20 for found in seen)
    assert sum(asked.values()) > 2 * len(asked)


def test_numba_looks_once_for_an_operator_of_the_same_types(monkeypatch):
    asked, numbas = Counter(), numba_speedups.NUMBAS[CALL_TYPE]

    def counted(function, context, args, kws):
        if numba_speedups._of_scalars(function, args):
            asked[function.typing_key, tuple(args)] += 1
        return numbas(function, context, args, kws)

    monkeypatch.setitem(numba_speedups.NUMBAS, CALL_TYPE, counted)
    adapter.compile_ptx(kernels_of("rosenbrock")[0], (8, 0))
    setattr(*CALL_TYPE, numbas)  # what was put back is what is counted
    assert set(asked.values()) == {1}


def test_the_methods_are_numbas_again_afterwards():
    with numba_speedups.numba_speedups():
        assert getattr(*FIND) is numba_speedups._find
        assert getattr(*CALL_TYPE) is not numba_speedups.NUMBAS[CALL_TYPE]
    for place, method in numba_speedups.NUMBAS.items():
        assert getattr(*place) is method
