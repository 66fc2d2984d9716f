"""Kernels compiled by Numba when asked: the option, the variable, the cache, what is imported."""

import ast
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from test_vector_math import WITH_FUSED, gradient_of_sines, sines

import fdiff
from fdiff import errors
from fdiff.kernels import compiler_choice, kernel_names
from fdiff.kernels.ir.operation_costs import INLINED
from fdiff.kernels.llvm import loop_hints, machine, outlined_functions
from fdiff.kernels.llvm.text_to_module import module_of
from fdiff.kernels.numba import compilation, pipelines


def f(x):
    return np.sum(np.sin(x) * x)


X = np.linspace(0.1, 1.0, 7)


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)
    fdiff.cache_clear()
    yield
    fdiff.cache_clear()


def printed(code, **environment):
    """What a new process prints."""
    command = [sys.executable, "-c", f"import sys, fdiff\nimport numpy as np\n{code}"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("operator", [fdiff.value_and_grad, fdiff.hessian, lambda g: g])
def test_jit_compiles_by_the_compiler_that_is_named(operator):
    by_numba = fdiff.jit(operator(f), compiler="numba")
    by_llvm = fdiff.jit(operator(f), compiler="llvm")
    found, wanted = by_numba(X), by_llvm(X)
    found, wanted = (r if isinstance(r, tuple) else (r,) for r in (found, wanted))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)
    assert "f8[7]: compiled by Numba" in repr(by_numba)
    assert repr(by_llvm).endswith("f8[7]: compiled>")
    assert repr(fdiff.jit(operator(f))).endswith("not run yet>")


def test_the_variable_holds_for_all_kernels(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    wanted = fdiff.grad(f)(X)
    monkeypatch.setenv("FDIFF_COMPILER", "numba")
    fdiff.cache_clear()
    gradient = fdiff.grad(f)
    np.testing.assert_array_equal(gradient(X), wanted)
    assert "compiled by Numba" in repr(gradient)
    # What one function asks for goes before the variable.
    by_llvm = fdiff.jit(f, compiler="llvm")
    by_llvm(X)
    assert "Numba" not in repr(by_llvm)


@pytest.mark.parametrize("compiler", ["llvm", "numba"])
def test_results_that_are_equal(compiler):
    """Outputs of the function that are one output of the kernel."""
    found = fdiff.jit(lambda x: (x + 1.0, np.exp(x), x + 1.0), compiler=compiler)(X)
    for a, b in zip(found, (X + 1.0, np.exp(X), X + 1.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)


def test_a_function_that_branches():
    """Guards are checked inside the kernel, and another branch has a kernel of its own."""
    branching = fdiff.jit(fdiff.grad(lambda x: x * x if x > 1.0 else 3.0 * x), compiler="numba")
    assert [float(branching(x)) for x in (2.0, 0.5, 3.0, 0.25)] == [4.0, 3.0, 6.0, 3.0]
    assert repr(branching).endswith("compiled by Numba>")


def test_a_compiler_that_there_is_not(monkeypatch):
    with pytest.raises(errors.InputError) as error:
        fdiff.jit(f, compiler="gcc")
    assert str(error.value).startswith("jit(f): 'gcc' is not a compiler.\n")
    assert str(error.value).endswith("Write compiler='llvm' or 'numba', or leave it out.")
    with pytest.raises(errors.InputError, match=r"^jit\(f\): 3 is not a compiler\."):
        fdiff.jit(f, compiler=3)
    monkeypatch.setenv("FDIFF_COMPILER", "gcc")
    with pytest.raises(errors.InputError) as error:
        fdiff.jit(f)(X)
    assert str(error.value).startswith("FDIFF_COMPILER: 'gcc' is not a compiler.\n")
    assert str(error.value).endswith("Set it to llvm or numba, or leave it unset.")


@pytest.mark.parametrize(
    ("version", "fact"),
    [
        ("", "Numba is not installed."),
        ("0.61.2", "Numba 0.61.2 is too old: fdiff needs 0.62."),
        ("0.9.0", "Numba 0.9.0 is too old: fdiff needs 0.62."),
    ],
)
def test_without_numba_or_with_an_old_one(version, fact, monkeypatch):
    monkeypatch.setattr(compiler_choice, "numba_version", lambda: version)
    with pytest.raises(errors.InputError) as error:
        fdiff.jit(f, compiler="numba")
    lines = str(error.value).splitlines()
    assert lines[0] == f"jit(f): {fact}"
    assert lines[-1] == ("Install it: pip install 'numba>=0.62'; or leave the choice to fdiff.")
    assert fdiff.jit(f)(X) == fdiff.jit(f, compiler="llvm")(X)


def test_a_text_that_numba_refuses_is_a_defect_in_one_line(monkeypatch):
    def broken(text):
        return compilation.function_code('def f(x: "f8"):\n    return x.real.no\n')

    monkeypatch.setattr(compilation, "kernel_code", broken)
    with pytest.raises(errors.CompileError) as error:
        fdiff.jit(f, compiler="numba")(X)
    assert "TapeError in kernels/numba/compilation.py" in str(error.value)
    assert "Numba does not compile a text of fdiff's" in str(error.value)
    assert error.value.__cause__ is None


def test_a_numba_that_is_switched_off(monkeypatch):
    compiler_choice.numba_compiler()
    monkeypatch.setattr("numba.core.config.DISABLE_JIT", 1)
    with pytest.raises(errors.InputError) as error:
        fdiff.jit(f, compiler="numba")(X)
    assert str(error.value).startswith("FDIFF_COMPILER=numba: Numba compiles nothing where NUMBA_")


def test_pointers_do_not_alias(monkeypatch):
    """The flag of Numba that says so is private: here it is noticed if it goes."""
    found, real = [], compilation.machine.wrapped_code

    def noted(optimised, wrapper, entry):
        found.append(optimised)
        return real(optimised, wrapper, entry)

    monkeypatch.setattr(compilation.machine, "wrapped_code", noted)
    compilation.kernel_code(fdiff.source(fdiff.grad(f), X))
    (code,) = found
    (kernel,) = [line for line in code.splitlines() if "define" in line and "6kernel" in line]
    assert kernel.count(" noalias ") >= 2 + 5  # result and exception, then the kernel's pointers


@pytest.mark.slow
def test_numba_is_imported_when_a_kernel_is_compiled_by_it(tmp_path):
    code = """
numba = lambda: print("numba" in sys.modules)
g = lambda x: np.sum(np.exp(x))
by_llvm = fdiff.jit(fdiff.grad(g))(np.ones(3)); numba()
h = fdiff.jit(fdiff.grad(g), compiler="numba"); numba()
print(h(np.ones(3))[0] == by_llvm[0]); numba()
"""
    assert printed(code, FDIFF_CACHE_DIR=str(tmp_path)) == ["False", "False", "True", "True"]
    # On disk there is machine code by each compiler, and that by Numba needs nothing of it.
    assert printed(code, FDIFF_CACHE_DIR=str(tmp_path)) == ["False", "False", "True", "False"]


def test_the_compiler_is_part_of_a_stored_kernels_name(monkeypatch):
    names = {kernel_names.name_of("text", compiler) for compiler in compiler_choice.COMPILERS}
    assert len(names) == 2
    assert kernel_names.name_of("text") == kernel_names.name_of("text", "llvm")
    monkeypatch.setattr(compiler_choice, "numba_version", lambda: "99.0")
    assert kernel_names.name_of("text", "numba") not in names
    assert kernel_names.name_of("text", "llvm") in names


@WITH_FUSED
@pytest.mark.parametrize("count", [2, INLINED + 2])
@pytest.mark.parametrize("order", ["value", "gradient"])
def test_loops_that_look_for_huge_angles_are_vectorised_by_numba(order, count, monkeypatch):
    """As they are by LLVM alone (`test_vector_math`)."""
    x = np.linspace(-1.0, 1.0, 77)
    f = (lambda x: sines(x, count)) if order == "value" else gradient_of_sines(count)
    text = fdiff.source(f, x)
    assert text.count("rt.out_of_range(") == count
    optimised = []
    monkeypatch.setattr(machine, "wrapped_code", lambda ir, *_: optimised.append(ir) or b"")
    compilation.kernel_code(text)
    assert re.search(r"store <\d+ x double>", optimised[0])
    called = re.findall(r"call (<\d+ x \w+>) @fdiff_\w+_outlined_\d+", optimised[0])
    assert bool(called) == (loop_hints.calls_in(ast.parse(text).body) > INLINED)


OUTLINED = """
def outlined0(n, x, y):
    for i0 in range(n):
        v0 = x[i0]
{middle}        y[i0] = {last}
    for i0 in range(n):
        y[i0] = -y[i0]
    return y[0]


def kernel(
    x0: "f8* data[0]", out0: "f8* data[1]", strides: "i8* strides", ints: "i8* ints",
    floats: "f8* floats",
):
    n0 = ints[0]
    for i0 in range(n0):
        out0[i0] = 0.0
    s = outlined0(n0, x0, out0)
    return 0
"""


@pytest.mark.parametrize("lines", [4, 40])
def test_long_loops_of_outlined_functions_have_the_same_hints(lines, monkeypatch):
    """Both compilers count the lines of the same loops, and LLVM gets the hints of the long one."""
    middle = "".join(f"        v{k + 1} = rt.exp(v{k}) + 1.0\n" for k in range(lines))
    text = OUTLINED.format(middle=middle, last=f"v{lines}")
    counted, real = [], loop_hints.hint_long_loop

    def noted(back, lines):
        counted.append(lines)
        real(back, lines)

    for module in (outlined_functions, pipelines):
        monkeypatch.setattr(module, "hint_long_loop", noted)
    optimised = []
    monkeypatch.setattr(machine, "wrapped_code", lambda ir, *_: optimised.append(ir) or b"")
    by_llvm = str(module_of(text, "kernel"))
    of_llvm, counted = counted, []
    compilation.kernel_code(text)
    assert sorted(counted) == sorted(of_llvm) == [1, lines + 2]
    for code in (by_llvm, optimised[0]):
        assert ('"llvm.loop.unroll.disable"' in code) or lines == 4


@pytest.mark.parametrize("count", [loop_hints.MANY_CALLS - 1, loop_hints.MANY_CALLS])
def test_loops_with_many_elementary_functions_are_not_interleaved(count, monkeypatch):
    """By neither compiler: with all registers full of constants LLVM would take far too many."""
    x = np.linspace(-1.0, 1.0, 77)
    text = fdiff.source(lambda x: np.sum(sines(x, count)), x)
    assert loop_hints.calls_in(ast.parse(text).body) == count
    optimised = []
    monkeypatch.setattr(machine, "wrapped_code", lambda ir, *_: optimised.append(ir) or b"")
    compilation.kernel_code(text)
    unoptimised = str(module_of(text, "kernel", count))
    assert ('"llvm.loop.interleave.count"' in unoptimised) == (count == loop_hints.MANY_CALLS)
    for code in (machine.optimised(module_of(text, "kernel", count)), optimised[0]):
        (body,) = re.findall(r"\nvector\.body:(.*?)\n\n", code, re.DOTALL)
        sums = len(re.findall(r"= phi <\d+ x double>", body))
        assert sums == 1
