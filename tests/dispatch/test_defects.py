"""Failures of fdiff's own compiler: who did not ask gets results, who did a clear error."""

import warnings
from types import FunctionType

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdiff
from fdiff import errors, kernels
from fdiff.dispatch.tiers import break_even, compiler_defects
from fdiff.errors import CompileError, DefectWarning
from fdiff.kernels import bytecode, kernel_lookup, machine_code
from fdiff.kernels.bytecode import execution
from fdiff.kernels.codegen import source_generation
from fdiff.kernels.ir import graph_of_tape
from fdiff.kernels.llvm import function_builder, machine
from fdiff.kernels.passes.lower import loop_body


class Fault(Exception):  # noqa: N818 - it stands for whatever may go wrong
    __module__ = "fdiff.injected"


def raise_fault(*args, **kwargs):
    raise Fault("injected\nand a long story")


# As if it were fdiff's: what a user's code raises while fdiff compiles is no defect.
broken = FunctionType(raise_fault.__code__, {"Fault": Fault, "__name__": "fdiff.injected"})


def unreadable(text, parse=llvm.parse_assembly):
    """LLVM's own complaint about a module."""
    return parse("define i64 @kernel() { ret double 1.0 }")


# Every stage that a kernel goes through, where it is looked up, and what may happen there.
STAGES = {
    "what there are kernels for": (kernel_lookup, "supported", broken),
    "kernel graph": (kernel_lookup, "kernel_graph", broken),
    "passes": (source_generation, "lower_graph", broken),
    "a value in a loop": (loop_body.Body, "value", broken),
    "emission": (source_generation, "emit", broken),
    "work": (source_generation, "work_of", broken),
    "to a module": (machine_code, "module_of", broken),
    "a name": (function_builder.FunctionBuilder, "read", broken),
    "LLVM refuses the module": (machine.llvm, "parse_assembly", unreadable),
    "LLVM: machine code": (machine, "object_code", broken),
    "loading": (machine_code, "Loaded", broken),
    "text of a routine": (machine_code, "_addresses", broken),
    "the executable": (machine_code, "make_kernel", broken),
}


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No tier is fixed, nothing is known, and nothing is on disk.

    The stages are those of fdiff's own compiler, whichever the suite runs with.
    """
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    monkeypatch.delenv("FDIFF_COMPILER", raising=False)
    monkeypatch.setenv("FDIFF_CACHE_DIR", "off")
    fdiff.cache_clear()
    yield
    fdiff.cache_clear()


@pytest.fixture(params=STAGES)
def stage(request, monkeypatch):
    """One stage fails."""
    fdiff.jit(np.sin)(np.ones(2))  # LLVM is there, and what all kernels share
    fdiff.cache_clear()
    monkeypatch.setattr(*STAGES[request.param])
    return request.param


def model(x):
    return np.sum(np.sin(x) * x)


def slope(x):
    return np.cos(x) * x + np.sin(x)


X = np.linspace(0.1, 2.0, 7)


def called_often(made, *args, times=400):
    """Results of so many calls, and the warnings of all of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        results = [made(*args) for _ in range(times)]
    return results, [w for w in caught if issubclass(w.category, DefectWarning)]


@pytest.fixture
def soon(monkeypatch):
    """A kernel is worth it after a millisecond, whatever it costs."""

    def free(tape, layouts):
        return 0.0 * kernel_lookup.predict_seconds(
            tape, layouts
        )  # which makes its text, or fails to

    for name in ("LOOK_SECONDS", "WRITE_SECONDS", "START_SECONDS"):
        monkeypatch.setattr(break_even, name, 0.0)
    monkeypatch.setattr(break_even, "PATIENCE", 1e-3)
    monkeypatch.setattr(kernels, "predict_seconds", free, raising=False)


@pytest.mark.usefixtures("soon")
def test_who_did_not_ask_gets_results_and_is_told_once(stage):
    made = fdiff.grad(model)
    results, told = called_often(made, X)
    for result in results:
        assert_allclose(result, slope(X), rtol=1e-14)
    assert len(told) == 1, [str(w.message) for w in told]
    words = str(told[0].message)
    assert "stays interpreted or evaluated" in words
    assert "Results are right" in words
    assert "a defect of fdiff: please report it" in words
    assert "sin(%0)" in words  # the program
    assert "llvmlite" in words  # what it ran on
    assert "test_defects.py" in words  # the user's line
    assert "a long story" not in words
    state = repr(made)
    assert "a defect worth reporting: " in state
    assert "\n  f8[7]: interpreted, " in state or "\n  f8[7]: evaluated, " in state


@pytest.mark.usefixtures("soon")
def test_other_sizes_are_no_news(monkeypatch):
    """The warning is of a program, which has one tape for each shape of its arguments."""
    monkeypatch.setattr(source_generation, "lower_graph", broken)
    made = fdiff.grad(model)
    told = [w for n in (5, 6, 7) for w in called_often(made, np.ones(n), times=400)[1]]
    assert len(told) == 1
    _, told = called_often(fdiff.grad(lambda x: np.sum(np.tanh(x))), X, times=400)
    assert len(told) == 1


ASKED = {
    "jit": (lambda: fdiff.jit(fdiff.grad(model))(X), "jit"),
    "compile": (lambda: fdiff.grad(model).compile("f8[7]"), r"grad.compile\(model\)"),
    "source": (lambda: fdiff.source(model, X), r"source\(model\)"),
}
BEHIND_THE_TEXT = [*STAGES][[*STAGES].index("to a module") :]  # which is all that `source` asks for


@pytest.mark.parametrize("way", ASKED)
def test_who_asked_for_a_kernel_gets_a_clear_error(stage, way):
    ask, call = ASKED[way]
    if way == "source" and stage in BEHIND_THE_TEXT:
        assert "def kernel" in ask()
        return
    with pytest.raises(CompileError, match=rf"^{call}: fdiff failed to make the kernel") as caught:
        ask()
    words = str(caught.value)
    assert "a defect of fdiff: please report it" in words
    assert "test_defects.py" in words
    assert "a long story" not in words
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_the_fixed_tier_asks_for_kernels(stage, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    made = fdiff.grad(model)
    for _ in range(2):  # the error stays
        with pytest.raises(CompileError, match=r"^FDIFF_TIER=compile: fdiff failed to make"):
            made(X)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    assert_allclose(made(X), slope(X), rtol=1e-14)
    monkeypatch.delenv("FDIFF_TIER")
    _, told = called_often(made, X, times=3)
    assert len(told) == 1  # nobody asks any more


def test_only_one_layout_fails(monkeypatch):
    """What is known of strided arguments says nothing about plain ones."""
    real = kernel_lookup.compile

    def compile_plain(tape, layouts, compiler):
        return real(tape, layouts, compiler) if "A" not in layouts else broken()

    monkeypatch.setattr(kernels, "compile", compile_plain, raising=False)
    made = fdiff.jit(model)
    large = np.random.default_rng(0).normal(size=(300, 300))
    assert_allclose(made(large), model(large))
    with pytest.raises(CompileError, match=r"^jit: "):
        made(large.T)
    assert_allclose(made(large), model(large))
    assert repr(made).endswith(": compiled>")


# --- bytecode ----------------------------------------------------------------------------------

BYTECODE = {
    "encoding": (bytecode, "prepare"),
    "compiling": (machine_code, "function"),
    "a workspace": (execution.BytecodeExecutable, "_workspace"),
}


@pytest.mark.parametrize("stage", BYTECODE)
def test_bytecode_that_fails(stage, monkeypatch):
    execution._functions.clear()
    monkeypatch.setattr(*BYTECODE[stage], broken)
    monkeypatch.setattr(break_even, "PATIENCE", np.inf)
    monkeypatch.setattr("fdiff.dispatch.tiers.bytecode_tier.price_of", lambda _: 0.0)
    made = fdiff.grad(model)
    results, told = called_often(made, X)
    for result in results:
        assert_allclose(result, slope(X), rtol=1e-14)
    assert len(told) == 1
    assert "fdiff failed to make the bytecode" in str(told[0].message)
    assert "interpreted, fdiff failed to make its bytecode, a defect" in repr(made)
    monkeypatch.setenv("FDIFF_TIER", "evaluate")
    with pytest.raises(
        CompileError, match=r"^FDIFF_TIER=evaluate: fdiff failed to make the bytecode"
    ):
        made(X)


# --- while a kernel runs -----------------------------------------------------------------------


def test_the_kernel_for_huge_angles_fails(monkeypatch):
    """It is compiled when the first is met: that call is interpreted, others stay compiled."""
    huge = np.array([1e300, 2.0])
    made = fdiff.grad(lambda x: np.sum(np.sin(x)))
    made.compile("f8[2]")
    monkeypatch.setattr(machine_code, "_kernel_code", broken)
    with pytest.raises(CompileError, match=r"^jit: fdiff failed"):
        made(huge)
    ((variant,),) = made.program.variants.values()
    variant.plan.step.runner.account.asked = False  # as if its time had come by itself
    results, told = called_often(made, huge, times=3)
    assert_allclose(results, [np.cos(huge)] * 3)
    assert len(told) == 1
    assert repr(made).endswith("compiled after 0 ms>")
    assert_allclose(made(np.ones(2)), np.cos(np.ones(2)))


# --- the report --------------------------------------------------------------------------------


def test_a_report_is_never_endless():
    def long(x):
        for _ in range(300):
            x = np.sin(x) + 1.0
        return x

    tape = fdiff.make_tape(long, X)
    words = str(compiler_defects.Defect("kernel", tape, Fault("word " * 1000)).error("jit"))
    assert len(words) < 10_000
    assert "more" in words
    assert "return %" in words


def test_the_words_of_errors_are_in_one_module():
    assert issubclass(CompileError, errors.FdiffError)
    assert issubclass(DefectWarning, UserWarning)
    assert graph_of_tape.supported is kernel_lookup.supported
