"""What the entry stub relies on, compared with the running interpreter; and calls without it."""

import platform
import sysconfig
import time
from types import BuiltinFunctionType, SimpleNamespace

import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError
from fdiff.kernels import machine_code
from fdiff.kernels.llvm.stub import descriptor_layout, entry_stub, stub_binding
from fdiff.kernels.llvm.stub import interpreter_abi as abi
from fdiff.trace.trace_stack import occupied

X = np.array([1.0, 2.0, 3.0])
CPYTHON = platform.python_implementation() == "CPython"
LOCKED = not sysconfig.get_config_var("Py_GIL_DISABLED")


@pytest.fixture(autouse=True)
def anew(monkeypatch):
    """Nothing is known of the interpreter, before and after."""
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)  # another test asked for errors at them
    forget()
    yield
    monkeypatch.undo()
    forget()


def forget():
    abi.fault.cache_clear()
    stub_binding._faults.clear()
    machine_code._stubs.clear()
    fdiff.cache_clear()


def cube(x):
    return np.sum(x**3)


@pytest.mark.skipif(not (CPYTHON and LOCKED), reason="calls go through Python there")
def test_every_fact_holds_here():
    assert abi.fault() == ""
    call = fdiff.grad(cube).compile("f8[3]")
    for _ in range(4):
        call(X)
    assert isinstance(call.implementation, BuiltinFunctionType)
    assert "through Python" not in repr(call)


WRONG = {
    "another implementation": (abi.sys, "implementation", SimpleNamespace(name="pypy")),
    "no lock": (abi.sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED"),
    "another order of bytes": (abi.sys, "byteorder", "big"),
    "a shorter head": (abi, "CLASS", abi.CLASS - 1),
    "a longer head": (abi, "CLASS", abi.CLASS + 1),
    "another class in the slot of arrays": (abi, "_ARRAY_TYPE", 3),
    "another version of NumPy's interface": (abi, "_MAJOR", 3),
    "larger arrays": (abi, "ARRAY", abi.ARRAY | {"descr": 99}),
    "nothing to ask": (abi, "python_api", int),
    "a loan for a gift": (abi, "python_api", lambda name, old=abi.python_api: old(
        "PyTuple_Size" if name == "PyTuple_GetItem" else name)),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_fact_that_does_not_hold_sends_calls_through_python(name, monkeypatch):
    monkeypatch.setattr(*WRONG[name])
    words = abi.fault()
    assert words
    monkeypatch.undo()
    monkeypatch.setenv("FDIFF_TIER", "compile")
    assert stub_binding.stub_fault(0) == words  # known by now
    through_python(words)


@pytest.mark.parametrize(
    ("text", "wrong", "words"),
    [
        ("rt.call1(d[D_Py_DecRef], given[k])", "rt.call0(d[D_PyErr_Clear])", "keeps them"),
        ("x = rt.int64(registers)[x]\n", "x = d[D_none]\n", "another result"),
    ],
)
def test_a_stub_that_errs_is_not_run(text, wrong, words, monkeypatch):
    whole = entry_stub.text().replace(*(part_of(t) for t in (text, wrong)))
    assert whole != entry_stub.text()
    monkeypatch.setattr(entry_stub, "text", lambda *, full=True: whole)
    call = fdiff.grad(cube).compile("f8[3]")
    for _ in range(4):
        np.testing.assert_allclose(call(X), 3 * X**2)
    assert words in stub_binding.stub_fault(machine_code.entry_stub(full=True), full=True)
    assert not isinstance(call.implementation, BuiltinFunctionType)


@pytest.mark.parametrize(("wrong", "faulty"), [(1, False), (2, False), (99, True)])
def test_references_that_others_take_meanwhile_are_no_fault(wrong, faulty, monkeypatch):
    stub, calls = machine_code.entry_stub(full=True), iter(range(1000))
    count = lambda _: min(next(calls), 3 * wrong)  # a try counts one object three times
    monkeypatch.setattr(stub_binding, "sys", SimpleNamespace(getrefcount=count))
    stub_binding._faults.clear()
    assert ("references" in stub_binding.stub_fault(stub, full=True)) is faulty


def part_of(text):
    numbers = {f"D_{name}": k for k, name in enumerate(descriptor_layout.HEADER)}
    for name in sorted(numbers, key=len, reverse=True):
        text = text.replace(name, str(numbers[name]))
    return text


def through_python(words):
    """Calls of many kinds give what they should, and `repr` tells how."""
    call = fdiff.value_and_grad(cube)
    for x in (X, X[::-1], np.arange(6.0)[::2], X, X.astype(np.float32)):
        for _ in range(3):
            value, slope = call(x)
        np.testing.assert_allclose(value, np.sum(x**3))
        np.testing.assert_allclose(slope, 3 * x**2)
        assert slope.dtype == x.dtype
        assert slope.flags.owndata
    assert f"called through Python: {words}" in repr(call)
    assert not isinstance(call.implementation, BuiltinFunctionType)
    assert fdiff.grad(lambda t: t**3)(2.0) == 12.0
    assert fdiff.grad(lambda t: t**3)(np.float32(2.0)) == 12.0
    np.testing.assert_allclose(fdiff.hessian(cube, X), np.diag(6 * X))
    np.testing.assert_allclose(fdiff.vmap(fdiff.grad(cube))(np.stack([X, X])), [3 * X**2] * 2)
    out = np.zeros(3)
    assert fdiff.grad(cube)(X, out=out) is out
    np.testing.assert_allclose(out, 3 * X**2)
    found = fdiff.grad(lambda p: np.sum(p["a"] * p["b"]))({"a": X, "b": 2.0})
    np.testing.assert_allclose(found["b"], X.sum())
    a = np.eye(3) + 0.1
    np.testing.assert_allclose(fdiff.jacobian(lambda x: np.linalg.solve(a, x), X), np.linalg.inv(a))
    with pytest.raises(np.linalg.LinAlgError):
        fdiff.jit(np.linalg.inv)(np.zeros((2, 2)))
    with pytest.raises(InputError):
        fdiff.grad(cube)("text")


def test_the_self_test_takes_little_time():
    abi.fault()
    times = []
    for _ in range(5):
        abi.fault.cache_clear()
        before = time.process_time()
        abi.fault()
        times.append(time.process_time() - before)
    assert min(times) < 2e-3
