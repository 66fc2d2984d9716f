"""Primitives that kernels compute: by a text of the user's, or by the address of a C function."""

import ctypes
import ctypes.util
import gc
import math
import os
import subprocess
import sys
import weakref

import numba
import numpy as np
import pytest
from scipy import LowLevelCallable, special
from scipy.special import cython_special

import fdiff
import fdiff.autograd
from fdiff import kernels
from fdiff.dispatch.tiers import tiered_execution
from fdiff.errors import InputError
from fdiff.node import _inferred

X = np.linspace(-2.0, 2.0, 7)
COMPILERS = ["llvm", "numba"]

softplus_slope = lambda x, out: (1.0 / (1.0 + np.exp(-x)),)
TEXT = "lambda x: rt.log1p(rt.exp(-abs(x))) + rt.maximum(x, 0.0)"


def softplus(kernel=TEXT):
    return fdiff.primitive(
        lambda x: np.logaddexp(np.float32(0.0), x), partials=softplus_slope, kernel=kernel
    )


def softplus_text(x):
    """A docstring is no part of the text."""
    tail = rt.log1p(rt.exp(-abs(x)))  # noqa: F821 - a word of the kernel language
    tail += rt.maximum(x, 0.0)  # noqa: F821 - likewise
    return tail


@numba.njit
def of_numba(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


FORMS = {
    "text": TEXT,
    "def": "def f(x):\n    t = rt.log1p(rt.exp(-abs(x)))\n    return t + rt.maximum(x, 0.0)\n",
    "lambda": (lambda y: y, lambda x: rt.log1p(rt.exp(-abs(x))) + rt.maximum(x, 0.0))[1],  # noqa: F821 - likewise
    "function": softplus_text,
    "njit": of_numba,
}


def value(f):
    """The derivatives of the sum of `f` by kernels, and what they are without `f`."""
    return lambda x: np.sum(f(2.0 * x) * x)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("form", FORMS)
def test_a_text_is_compiled_with_the_code_around_it(form, compiler):
    p = softplus(FORMS[form])
    f, plain = value(p), value(lambda x: np.logaddexp(0.0, x))
    text = fdiff.source(f, X)
    assert ("rt.exp(" in text) == (form != "njit")
    assert text.count("for i0") == 1
    for operator in (lambda f: f, fdiff.grad, fdiff.hessian):
        found = fdiff.jit(operator(f), compiler=compiler)
        np.testing.assert_allclose(found(X), operator(plain)(X), rtol=1e-12, atol=1e-13)
        assert "compiled" in repr(found)
    np.testing.assert_array_equal(p(X), np.logaddexp(0.0, X))


def test_single_precision_stays_single_in_every_step():
    p = fdiff.primitive(
        lambda x, y: np.float32(0.5) * x * y + 1 if x.dtype == np.float32 else 0.5 * x * y + 1,
        partials=lambda x, y, out: (0.5 * y, 0.5 * x),
        kernel="def f(x, y):\n    t = 0.5 * x * y\n    return t + 1",
    )
    narrow = X.astype(np.float32)
    found = fdiff.jit(p)(narrow, 3.0)
    assert found.dtype == p(narrow, 3.0).dtype == np.float32
    np.testing.assert_allclose(found, 1.5 * narrow + 1, rtol=1e-6)
    assert fdiff.jit(p)(narrow, X).dtype == p(narrow, X).dtype == np.float64
    assert fdiff.jit(p)(np.arange(3), 2).dtype == p(np.arange(3), 2).dtype == np.float64


def test_choices_truth_values_and_whole_numbers():
    p = fdiff.primitive(
        lambda x, y: np.where((x > y) & ~np.isnan(x), np.ldexp(np.sin(x), np.int32(y)), -y),
        partials=lambda x, y, out: (np.cos(x), -1.0),
        kernel="""
            def f(x, y):
                above = x > y and not rt.isnan(x)
                n = np.int64(rt.floor(y))
                return rt.ldexp(rt.sin(x), n) if above else -y
        """,
    )
    x, y = np.array([3.0, 1.0, np.nan, -1.0]), np.array([2.0, 2.0, 1.0, -3.0])
    for compiler in COMPILERS:
        np.testing.assert_allclose(fdiff.jit(p, compiler=compiler)(x, y), p(x, y), rtol=1e-15)


def test_angles_out_of_range_are_seen_in_a_text():
    p = fdiff.primitive(
        lambda x: np.sin(3.0 * x) + x,
        partials=lambda x, out: (3.0 * np.cos(3.0 * x) + 1.0,),
        kernel="lambda x: rt.sin(3.0 * x) + x",
    )
    far = np.array([0.5, 1e12])
    np.testing.assert_allclose(fdiff.jit(p)(far), np.sin(3.0 * far) + far, rtol=1e-15)


def test_equal_names_with_other_texts_are_other_kernels():
    f = lambda x: x
    found = [
        fdiff.primitive(f, partials=lambda x, out: (1.0,), kernel=f"lambda x: x * {k}.0")
        for k in (2, 3)
    ]
    assert [fdiff.jit(p)(1.0) for p in found] == [2.0, 3.0]


def test_every_operator_and_caller_takes_a_text():
    p = softplus()
    f, plain = value(p), value(lambda x: np.logaddexp(0.0, x))
    batch = np.stack([X, 0.5 * X])
    np.testing.assert_allclose(
        fdiff.jit(fdiff.vmap(fdiff.grad(f)))(batch), fdiff.vmap(fdiff.grad(plain))(batch)
    )
    inner = fdiff.njit(fdiff.grad(f), X)

    @numba.njit
    def total(x):
        found = 0.0
        for k in range(3):
            found += inner(x + k)[1]
        return found

    expected = sum(fdiff.grad(plain)(X + k)[1] for k in range(3))
    assert total(X) == pytest.approx(expected, rel=1e-12)
    slope = fdiff.cfunc(fdiff.grad(p), 0.5)
    assert slope.ctypes(0.7) == pytest.approx(special.expit(0.7), rel=1e-14)
    z = fdiff.autograd.tensor(X, requires_grad=True)
    (p(z) * z).sum().backward()
    np.testing.assert_allclose(z.grad, fdiff.grad(lambda x: np.sum(plain_product(x)))(X))


def plain_product(x):
    return np.logaddexp(0.0, x) * x


def test_bytecode_leaves_it_to_the_function(monkeypatch):
    monkeypatch.setenv(tiered_execution.VARIABLE, "evaluate")
    p = softplus()
    f = fdiff.jit(lambda x: np.sin(x) * p(x) + np.cos(x) + x)
    np.testing.assert_array_equal(f(X), np.sin(X) * np.logaddexp(0.0, X) + np.cos(X) + X)
    assert "evaluated" in repr(f)


# --- wrong texts ----------------------------------------------------------------------------------

WRONG = {
    "lambda x: np.exp(x)": "`np.exp` is not a word of the kernel language.*\nWrite rt.exp",
    "lambda x: rt.foo(x)": "`rt.foo` is not a word",
    "lambda x: rt.exp(x, x)": "`rt.exp` takes 1 argument",
    "lambda x: rt.stack(x)": "`rt.stack` is not a word",
    "lambda x: x ** 2": r"`x \*\* 2` is not in the kernel language.*\n.*\nWrite rt.power",
    "lambda x: x in (1, 2)": "is not in the kernel language",
    "lambda x: c * x": "`c` is neither a parameter nor assigned before",
    "lambda x: 1.0": "reads no argument",
    "lambda x: 'x'": "is not a real number",
    "lambda x: math.pi * x": "`math.pi` is not a number",
    "lambda x: x // 2": "is not in the kernel language",
    "lambda x: rt.exp(np.int64(x))": "is not in the kernel language",
    "lambda *x: x": "names alone",
    "lambda x=1: x": "names alone",
    "def f(x):\n    y = x": "returns nothing",
    "def f(x):\n    return x\n    return x": "must be the last",
    "def f(x):\n    if x > 0:\n        return x\n    return -x": "`if x > 0:` cannot stand",
    "def f(x):\n    for i in range(3):\n        x = x * x\n    return x": "Loops go into a C",
    "lambda x: (": "is no Python",
    "x = 1": "is not one function",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_text_is_refused_where_it_is_given(text):
    with pytest.raises(InputError, match=f"(?s)^primitive\\(abs\\): .*{WRONG[text]}"):
        fdiff.primitive(abs, partials=lambda x, out: (np.sign(x),), kernel=text)


def test_the_message_shows_the_line_of_the_text():
    text = "def f(x):\n    y = -x\n    return rt.sine(y)\n"
    with pytest.raises(InputError) as error:
        softplus(text)
    assert str(error.value) == (
        "primitive(<lambda>): `rt.sine` is not a word of the kernel language for numbers.\n"
        "    <kernel text>:3:  return rt.sine(y)\n"
        "docs/kernel-language.md lists the words."
    )
    with pytest.raises(InputError, match=r"test_primitive_kernels.py:\d+:  return np.exp\(x\)"):
        softplus(wrong_text)
    with pytest.raises(InputError, match="must be a text or a Python function, not ufunc"):
        softplus(np.exp)
    with pytest.raises(InputError, match="source of the kernel's function is not known"):
        softplus(eval("lambda x: x"))


def wrong_text(x):
    return np.exp(x)


def test_wrong_use_of_kernels_is_refused():
    slope = {"partials": softplus_slope}
    with pytest.raises(InputError, match="for functions that act entry by entry"):
        fdiff.primitive(np.cumsum, vjp=lambda bar, out, x: (bar,), kernel="lambda x: x")
    with pytest.raises(InputError, match="two ways to compute the same"):
        fdiff.primitive(np.sin, **slope, kernel="lambda x: x", address=1)
    with pytest.raises(InputError, match="takes 1 arguments, not 2"):
        softplus().fun(X, X)
    with pytest.raises(InputError, match="takes 1 arguments, not 2"):
        fdiff.jit(lambda x: softplus().fun(x, x))(X)


# --- C functions by address -----------------------------------------------------------------------


def library():
    lib = ctypes.CDLL(ctypes.util.find_library("m"))
    for name, count in (("erf", 1), ("cos", 1), ("sin", 1), ("atan2", 2)):
        function = getattr(lib, name)
        function.restype, function.argtypes = ctypes.c_double, [ctypes.c_double] * count
    return lib


LIB = library()


@numba.cfunc("float64(float64)")
def erf_of_numba(x):
    return math.erf(x)


@numba.njit
def erf_entries(x):
    out = np.empty(x.shape)
    for k in range(x.size):
        out.flat[k] = math.erf(x.flat[k])
    return out


CAPSULE = cython_special.__pyx_capi__["__pyx_fuse_1erf"]
ADDRESSES = {
    "ctypes": LIB.erf,
    "cfunc": erf_of_numba,
    "capsule": CAPSULE,
    "LowLevelCallable": LowLevelCallable(CAPSULE),
    "LowLevelCallable of ctypes": LowLevelCallable(LIB.erf),
    "number": ctypes.cast(LIB.erf, ctypes.c_void_p).value,
}
slope_of_erf = lambda x, out: (2.0 / np.sqrt(np.pi) * np.exp(-x * x),)


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("kind", ADDRESSES)
def test_a_c_function_is_called_from_kernels(kind, compiler):
    erf = fdiff.primitive(erf_entries, partials=slope_of_erf, address=ADDRESSES[kind])
    assert repr(erf) == "<fdiff.primitive(erf_entries), called by kernels>"
    f, plain = value(erf), value(special.erf)
    assert "rt.double" in fdiff.source(f, X)
    for operator in (lambda f: f, fdiff.grad, fdiff.hessian):
        found = fdiff.jit(operator(f), compiler=compiler)(X)
        np.testing.assert_allclose(found, operator(plain)(X), rtol=1e-13, atol=1e-14)
    narrow = X.astype(np.float32)
    assert fdiff.jit(erf, compiler=compiler)(narrow).dtype == np.float32
    np.testing.assert_allclose(fdiff.jit(erf)(narrow), special.erf(narrow), rtol=1e-6)


def test_a_prepared_function_of_fdiff_may_be_the_c_function():
    slope = fdiff.cfunc(fdiff.grad(lambda t: np.sin(t) * t), 0.5)
    function = lambda t: np.cos(t) * t + np.sin(t)
    p = fdiff.primitive(
        function, partials=lambda t, out: (2.0 * np.cos(t) - t * np.sin(t),), address=slope
    )
    np.testing.assert_allclose(fdiff.jit(p)(X), function(X), rtol=1e-14)


def test_several_arguments_broadcast():
    angle = fdiff.primitive(
        np.arctan2,
        partials=lambda y, x, out: (x / (x * x + y * y), -y / (x * x + y * y)),
        address=LIB.atan2,
        samples=[(X[:6].reshape(2, 3) + 0.1, X[:3] + 0.05)],
    )
    angle.check()
    assert fdiff.jit(angle)(1.0, -1.0) == math.atan2(1.0, -1.0)


def test_one_kernel_serves_all_addresses():
    """The address is data of a call: the machine code is that of the first one."""
    f = lambda x: x
    one, two = (
        fdiff.primitive(f, partials=lambda x, out: (1.0,), address=a) for a in (LIB.sin, LIB.cos)
    )
    assert fdiff.source(one, X) == fdiff.source(two, X)
    np.testing.assert_allclose(fdiff.jit(one)(X), np.sin(X), rtol=1e-15)
    before = fdiff.cache_info()
    np.testing.assert_allclose(fdiff.jit(two)(X), np.cos(X), rtol=1e-15)
    assert fdiff.cache_info().compiled == before.compiled
    both = lambda x: one(x) * 2.0 + two(x)
    np.testing.assert_allclose(fdiff.jit(both)(X), 2.0 * np.sin(X) + np.cos(X), rtol=1e-15)


SCRIPT = """
import sys
import numba, numpy as np, fdiff
@numba.cfunc("float64(float64)")
def c(x):
    return {formula}
p = fdiff.primitive(lambda x: x, partials=lambda x, out: (1.0,), address=c)
print(fdiff.jit(p)(np.array([3.0]))[0], fdiff.cache_info().compiled, fdiff.cache_info().loaded)
"""


@pytest.mark.slow
def test_a_kernel_on_disk_holds_no_address(tmp_path):
    environment = {**os.environ, "FDIFF_CACHE_DIR": str(tmp_path)}
    found = []
    for formula in ("x + 1.0", "x * x + 5.0"):
        command = [sys.executable, "-c", SCRIPT.format(formula=formula)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        found.append(done.stdout.split())
    assert found[0] == ["4.0", "1", "0"]
    assert found[1][0] == "14.0"
    assert found[1][1:] == ["0", "1"]


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # of JAX, which other tests import
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python, where threads run
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_child_calls_the_same_function():
    erf = fdiff.primitive(erf_entries, partials=slope_of_erf, address=LIB.erf)
    f = fdiff.jit(fdiff.grad(value(erf)))
    expected = f(X)
    child = os.fork()
    if not child:
        os._exit(0 if np.array_equal(f(X), expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class Held:
    """An object that owns a C function, as one of Numba or cffi does."""

    def __init__(self):
        self.address = ADDRESSES["number"]


def test_the_object_lives_as_long_as_a_kernel():
    held = Held()
    alive = weakref.ref(held)
    erf = fdiff.primitive(erf_entries, partials=slope_of_erf, address=held)
    tape = fdiff.make_tape(erf.fun, X)
    run = kernels.compile(tape, ("C",))
    del held, erf, tape
    fdiff.cache_clear()
    _inferred.clear()
    gc.collect()
    assert alive() is not None
    np.testing.assert_allclose(run(X)[0], special.erf(X), rtol=1e-15)
    del run
    gc.collect()
    assert alive() is None


def test_callbacks_of_python_run_on_the_thread_that_calls():
    """In large arrays too, whose loops threads share elsewhere."""
    callback = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x * x)
    square = fdiff.primitive(np.square, partials=lambda x, out: (2.0 * x,), address=callback)
    x = np.linspace(0.0, 1.0, 20_000)
    f = lambda x: np.exp(square(x)) * x
    assert "worker" not in fdiff.source(f, x)
    np.testing.assert_allclose(fdiff.jit(f)(x), np.exp(x * x) * x, rtol=1e-14)


def takes_floats(x: ctypes.c_float) -> None:
    pass


REFUSED = {
    "argtypes and restype do not say": lambda: ctypes.CDLL(ctypes.util.find_library("m")).exp,
    "takes and returns doubles": lambda: ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(
        takes_floats
    ),
    "not one of doubles": lambda: cython_special.__pyx_capi__["__pyx_fuse_0erf"],
    "has user_data": lambda: LowLevelCallable(LIB.erf, ctypes.c_void_p(1)),
    "must be the address of a C function, not str": lambda: "erf",
    "must be the address of a C function, not bool": lambda: True,
    "must be the address of a C function, not ndarray": lambda: X,
    "must be the address of a C function, not int": lambda: 0,
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_function_of_doubles_is_refused(words):
    with pytest.raises(InputError, match=rf"(?s)primitive\(erf_entries\): .*{words}"):
        fdiff.primitive(erf_entries, partials=slope_of_erf, address=REFUSED[words]())


def test_a_number_needs_partials_that_tell_how_many_doubles():
    for partials in (lambda *args: args, lambda out: ()):
        with pytest.raises(InputError, match="does not tell how many arguments"):
            fdiff.primitive(erf_entries, partials=partials, address=ADDRESSES["number"])
