"""Corners of calls from ``@njit`` code: branches, errors, out=, threads, lifetimes."""

import gc
import os
import pickle
import threading
import weakref
from typing import NamedTuple

import numba
import numpy as np
import pytest
import scipy.linalg
from numba.core.runtime import _nrt_python, rtsys
from test_njit import assert_same, in_njit

import fdiff


class Pair(NamedTuple):
    """Two arguments, or two results."""

    a: object
    b: object


def called(prepared, *args):
    """The prepared function in ``@njit`` code, known from these examples."""
    return in_njit(fdiff.njit(prepared, *args), len(args))


def writing(function):
    """A function of ``@njit`` code that gives arrays to write to."""

    @numba.njit
    def call(x, out):
        return function(x, out=out)

    return call


def squares(x):
    return np.sum(x * x)


# --- what a record holds for ----------------------------------------------------------------------


@pytest.mark.slow
def test_branches_on_values_take_a_record_each():
    def f(x):
        return np.sum(x**2) if x[0] > 0 else np.sum(np.sin(x) ** 3)

    slope = fdiff.grad(f)
    call = called(slope, np.ones(3))
    for x in (np.ones(3), -np.ones(3), 2 * np.ones(3), -2 * np.ones(3), -np.ones(5), np.ones(5)):
        assert_same(call(x), slope(x))
    with pytest.raises(fdiff.errors.InputError, match="or for the branches taken there"):
        in_njit(fdiff.njit(fdiff.grad(lambda x: f(x)), np.ones(3), misses="raise"), 1)(-np.ones(3))


@pytest.mark.slow
def test_too_many_ways_through_branches_are_refused():
    def f(x):
        total = 0.0
        for k in range(7):
            total = total + (x[k] ** 2 if x[k] > 0 else -x[k])
        return total

    call = called(fdiff.grad(f), np.ones(7))
    wanted = lambda x: np.where(x > 0, 2 * x, -1.0)
    signs = 2.0 * ((np.arange(65)[:, None] >> np.arange(7)) & 1) - 1.0
    for x in signs[1:64]:
        np.testing.assert_array_equal(call(x), wanted(x))
    with pytest.raises(fdiff.errors.UnsupportedError, match="took more than 64 paths"):
        call(signs[64])


@pytest.mark.slow
def test_pinned_integers_and_values_of_ints_are_compared():
    slope = fdiff.grad(lambda x, n: np.sum(x[: int(n[0])] ** 2))
    call = called(slope, np.ones(3), np.array([2]))
    for n in (1, 2, 3, 1):
        assert_same(call(np.ones(3), np.array([n])), slope(np.ones(3), np.array([n])))
    power = fdiff.grad(lambda x, n: np.sum(x**n))
    call = called(power, np.ones(2), 2)
    for n in (3, 2, -1, 3):
        assert_same(call(np.full(2, 1.5), n), power(np.full(2, 1.5), n))


def test_many_shapes_are_found():
    function = fdiff.njit(fdiff.grad(squares), "f8[1]")
    call = in_njit(function, 1)
    for _ in range(2):
        for n in range(1, 60):
            np.testing.assert_array_equal(call(np.ones(n)), np.full(n, 2.0))
    assert len(function.callee.all_records()[0].table) == 59


def test_what_is_rebound_is_frozen_and_refused_for_new_shapes():
    space = {"np": np, "scale": 2.0}
    exec("def f(x):\n    return scale * np.sum(x * x)\n", space)
    call = called(fdiff.grad(space["f"]), np.ones(2))
    space["scale"] = 3.0
    assert_same(call(np.ones(2)), np.full(2, 4.0))
    with pytest.raises(fdiff.errors.InputError, match="is not what it was when it was compiled"):
        call(np.ones(3))


def test_captured_arrays_are_read_where_they_are():
    base = np.arange(10.0)
    part = base[::-2]
    call = called(fdiff.grad(lambda x: np.sum(part * x)), np.ones(5))
    for _ in range(2):
        assert_same(call(np.ones(5)), np.array(part))
        base[3] = 100.0


@pytest.mark.slow
def test_functions_that_look_at_layouts_want_c_order():
    slope = fdiff.grad(lambda x: np.sum(np.ravel(x, order="K") * np.arange(4.0)))
    call = called(slope, np.ones((2, 2)))
    assert_same(call(np.ones((2, 2))), np.arange(4.0).reshape(2, 2))
    with pytest.raises(fdiff.errors.UnsupportedError, match="how an array lies in memory"):
        call(np.ones((2, 2)).T)


def test_misses_may_raise():
    function = fdiff.njit(fdiff.grad(squares), "f8[3]", misses="raise")
    call = in_njit(function, 1)
    with pytest.raises(fdiff.errors.InputError, match=r"no kernel was made for \(f8\[4\]\)"):
        call(np.ones(4))
    function.compile("f8[4]")
    assert_same(call(np.ones(4)), np.full(4, 2.0))


# --- errors of kernels, and angles out of range ---------------------------------------------------

ERRORS = {
    "singular": (lambda a: np.sum(np.linalg.inv(a)), np.eye(3), np.ones((3, 3))),
    "indefinite": (lambda a: np.sum(np.linalg.cholesky(a)), np.eye(3), -np.eye(3)),
    "a zero on the diagonal": (
        lambda a: np.sum(scipy.linalg.solve_triangular(a, np.ones(3))),
        np.eye(3), np.diag([1.0, 0, 1]),
    ),
    "an index": (lambda x: np.sum(np.arange(3.0)[x.astype(int)] * x), np.ones(3), np.full(3, 7.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_those_of_the_call_from_python(name):
    f, example, bad = ERRORS[name]
    slope = fdiff.grad(f).compile(example)
    with pytest.raises((np.linalg.LinAlgError, IndexError)) as wanted:
        slope(bad)
    call = called(slope, example)
    with pytest.raises(type(wanted.value)) as found:
        call(bad)
    assert str(found.value) == str(wanted.value)
    assert_same(call(example), slope(example))


@pytest.fixture
def allocated():
    """How many pieces of memory Numba's runtime has given out, and not got back."""
    _nrt_python.memsys_enable_stats()
    yield lambda: rtsys.get_allocation_stats().alloc - rtsys.get_allocation_stats().free
    _nrt_python.memsys_disable_stats()


@pytest.mark.slow
def test_a_call_that_raises_leaves_no_memory_behind(allocated):
    """Neither the memory of its kernel, nor results, nor copies of arguments.

    Numba itself never releases what is given to a function that an exception passes through: here
    to the caller of the derivative.
    """

    @numba.njit
    def fails(x, out):
        raise ValueError

    @numba.njit
    def passes(x, out):
        return fails(x, out)

    def lost(function, *args, error):
        before = allocated()
        for _ in range(3):
            with pytest.raises(error):
                function(*args)
        return allocated() - before

    slope = fdiff.grad(lambda x: np.sum(np.linalg.solve(x, x[0]) ** 2))
    good, bad, out = np.eye(40), np.zeros((40, 40)), np.empty((40, 40))
    call = called(slope, good)  # its kernel needs more than the 4 KB that are on the stack
    into = writing(fdiff.njit(slope, good))
    assert_same(call(good), slope(good))
    assert_same(into(good, out), slope(good))
    both = lost(passes, good, out, error=ValueError)
    for array in (bad, bad[::-1], bad.T):
        assert lost(call, array, error=np.linalg.LinAlgError) == both // 2
        assert lost(into, array, out, error=np.linalg.LinAlgError) == both
        assert lost(into, array, array, error=np.linalg.LinAlgError) == both
    for wrong in (out[1:], out.T[1:]):
        assert lost(into, good, wrong, error=fdiff.errors.InputError) == both
    before = allocated()
    assert_same(call(good), slope(good))
    assert allocated() == before


def test_large_angles_are_those_of_libm():
    def f(x):
        return np.sum(np.sin(x)) if x[1] > 0 else np.sum(np.cos(x))

    call = called(fdiff.grad(f), np.ones(3))
    x = np.array([1e30, 1.0, 3.0])
    for _ in range(2):
        np.testing.assert_allclose(call(x), np.cos(x), rtol=1e-15)
        np.testing.assert_allclose(call(-x), -np.sin(-x), rtol=1e-15)


# --- arrays to write to ---------------------------------------------------------------------------


def test_results_are_written_to_arrays_that_are_given():
    call = writing(fdiff.njit(fdiff.value_and_grad(squares), "f8[3]"))
    out = np.zeros(3)
    value, slope = call(np.arange(3.0), (None, out))
    assert (value, slope is out) == (5.0, True)
    assert_same(out, 2 * np.arange(3.0))
    with pytest.raises(fdiff.errors.InputError, match="another shape than the result"):
        call(np.arange(3.0), (None, np.zeros(4)))
    for wrong in (np.zeros(3, "f4"), np.zeros((3, 1)), np.broadcast_to(0.0, 3)):
        with pytest.raises(numba.TypingError, match=r"(?s)the result is a writeable array f8\[:\]"):
            call(np.arange(3.0), (None, wrong))
    with pytest.raises(numba.TypingError, match="out is not built like the result"):
        call(np.arange(3.0), out)


@pytest.mark.slow
def test_arrays_to_write_to_may_overlap_what_is_read_but_not_each_other():
    captured = np.arange(4.0)
    call = writing(fdiff.njit(fdiff.jit(lambda x: captured[::-1] * x[::-1]), np.ones(4)))
    x = np.arange(1.0, 5.0)
    call(x, x)
    assert_same(x, np.array([12.0, 6.0, 2.0, 0.0]))
    call(np.ones(4), captured)
    assert_same(captured, np.array([3.0, 2.0, 1.0, 0.0]))
    base = np.arange(8.0)
    call(np.ones(4), base[::2])
    assert_same(base, np.array([0.0, 1, 1, 3, 2, 5, 3, 7]))
    both = writing(fdiff.njit(fdiff.jit(lambda x: (x * 2, x * 3)), np.ones(3)))
    with pytest.raises(fdiff.errors.InputError, match="two arrays in out share memory"):
        both(np.ones(3), (x[:3], x[1:]))


def test_a_parameter_named_out_is_the_functions():
    function = fdiff.njit(fdiff.jit(lambda x, out: x + out), np.ones(3), out=np.ones(3))
    assert_same(writing(function)(np.ones(3), np.ones(3)), np.full(3, 2.0))


# --- kinds of arguments ---------------------------------------------------------------------------


def test_ints_are_floats_where_they_are_differentiated():
    cube = fdiff.njit(fdiff.grad(lambda x: x**3), 2.0)
    assert numba.njit(lambda: cube(2))() == 12.0
    scaled = fdiff.njit(fdiff.grad(lambda x, a: np.sum(x * x) * a), np.ones(3), 2.0)
    with pytest.raises(numba.TypingError, match=r"known are \(f8\[:\], float64\)"):
        numba.njit(lambda x: scaled(x, 2))(np.ones(3))


@pytest.mark.slow
def test_named_tuples_vectors_left_out_and_unsigned_ints():
    pair = fdiff.njit(fdiff.jit(lambda p: Pair(p.b, np.sum(p.a))), Pair(np.ones(3), 2.0))
    assert numba.njit(lambda p: pair(p))(Pair(np.ones(3), 5.0)) == Pair(5.0, 3.0)
    pull = fdiff.njit(fdiff.vjp(squares), np.ones(3))
    assert_same(numba.njit(lambda x: pull(x))(np.ones(3)), (3.0, np.full(3, 2.0)))
    push = fdiff.jvp(np.sin)
    x, v = np.ones(3, "f4"), np.arange(6)[::2]
    assert_same(called(push, x, v)(x, v), push(x, v))
    times = fdiff.njit(fdiff.jit(lambda x, n: x * n), np.ones(1), 3)
    multiply = numba.njit(lambda x, n: times(x, n))
    for n in (np.uint8(200), -3, np.uint64(2**63 + 5)):
        assert_same(multiply(np.ones(1), n), np.array([float(n)]))


@pytest.mark.slow
def test_keywords_functions_as_arguments_and_cfuncs():
    scaled = fdiff.njit(fdiff.grad(lambda x, scale: np.sum(x * x) * scale), np.ones(3), scale=2.0)
    assert_same(numba.njit(lambda x: scaled(x, scale=3.0))(np.ones(3)), np.full(3, 6.0))
    apply = numba.njit(lambda f, x: f(x))
    slope = fdiff.grad(squares)
    assert_same(apply(fdiff.njit(slope, np.ones(3)), np.ones(3)), np.full(3, 2.0))
    assert_same(apply(slope, np.ones(3)), np.full(3, 2.0))
    sine = fdiff.njit(fdiff.grad(np.sin), 1.0)
    compiled = numba.cfunc("f8(f8)")(lambda x: sine(x))
    assert compiled.ctypes(0.5) == np.cos(0.5)


def test_what_has_no_form_in_njit_code_is_refused():
    with pytest.raises(fdiff.errors.UnsupportedError, match="a result of type list"):
        fdiff.njit(fdiff.jit(lambda x: [x]), np.ones(3))
    with pytest.raises(fdiff.errors.InputError, match="an argument of type dict"):
        fdiff.njit(fdiff.grad(lambda d: squares(d["a"])), {"a": np.ones(3)})
    with pytest.raises(fdiff.errors.UnsupportedError, match="there is no kernel for argsort"):
        fdiff.njit(fdiff.jit(np.unique), np.ones(3))
    with pytest.raises(fdiff.errors.UnsupportedError, match=r"no kernel for .*complex128"):
        fdiff.njit(fdiff.jit(lambda z: z * z), 1j)
    with (
        pytest.warns(fdiff.errors.RetraceWarning, match="random numbers"),
        pytest.raises(fdiff.errors.UnsupportedError, match="has to run at each call, because of"),
    ):
        fdiff.njit(fdiff.jit(lambda x: x * np.random.rand()), np.ones(3))  # noqa: NPY002 - as users do
    with pytest.raises(fdiff.errors.InputError, match="expects a prepared function"):
        fdiff.njit(squares, np.ones(3))
    with pytest.raises(fdiff.errors.InputError, match="misses must be 'python' or 'raise'"):
        fdiff.njit(fdiff.grad(squares), misses="never")


def test_from_python_it_is_the_prepared_function_and_can_be_differentiated():
    slope = fdiff.njit(fdiff.grad(lambda x: np.sum(x**3)))
    assert_same(slope(np.ones(3)), np.full(3, 3.0))
    assert_same(fdiff.grad(lambda x: np.sum(slope(x)))(np.ones(3)), np.full(3, 6.0))
    again = pickle.loads(pickle.dumps(fdiff.njit(fdiff.grad(np.sin), misses="raise")))
    assert (again(0.0), again.callee.misses) == (1.0, "raise")


@pytest.mark.slow
def test_code_that_calls_it_is_not_kept_on_disk(tmp_path):
    """By `cache=True` of the caller, or of its caller: that would be addresses of this process."""
    text = "def f(x):\n    return {}(x)\n"
    space = {"sine": fdiff.njit(fdiff.grad(np.sin), 1.0), "prepared": fdiff.grad(np.cos)}
    assert space["prepared"](0.0) == 0.0

    def cached(name, called):
        file = tmp_path / f"{name}.py"
        file.write_text(text.format(called))
        exec(compile(file.read_text(), str(file), "exec"), space)
        space[name] = numba.njit(cache=True)(space["f"])
        return str(file), space[name]

    space["inner"] = numba.njit(lambda x: space_sine(x))
    space_sine = space["sine"]
    for name, called, of in [
        ("f1", "sine", "grad(sin)"), ("f2", "inner", "grad(sin)"), ("f3", "prepared", "grad(cos)"),
    ]:  # fmt: skip
        file, function = cached(name, called)
        with pytest.warns(numba.NumbaWarning) as told:
            assert function(0.0) == (0.0 if name == "f3" else 1.0)
        (warning,) = told
        assert str(warning.message) == (
            f"njit: Numba does not keep f on disk (cache=True): it calls {of}, whose kernels have"
            " addresses in this process. Leave cache=True out there; fdiff keeps the kernels"
            " themselves on disk."
        )
        assert (warning.filename, warning.lineno) == (file, 1)
        assert function(np.float64(0.5)) == pytest.approx(function.py_func(0.5))
    assert not list(tmp_path.rglob("*.nb?"))
    _, plain = cached("f4", "abs")
    assert plain(-1.0) == 1.0
    assert list(tmp_path.rglob("*.nb?"))


# --- threads, forks, lifetimes --------------------------------------------------------------------


def test_threads_that_miss_at_once_get_their_own_records():
    function = fdiff.njit(fdiff.value_and_grad(lambda x: np.sum(x**3)), "f8[2]")
    call = numba.njit(nogil=True)(lambda x: function(x))
    call(np.ones(2))
    wrong = []

    def work(seed):
        for n in np.random.default_rng(seed).permutation(30) + 1:
            value, slope = call(np.full(n, 2.0))
            if value != 8.0 * n or not np.array_equal(slope, np.full(n, 12.0)):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(k % 2,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == []
    assert len(function.callee.all_records()[0].table) == 30


@pytest.mark.slow
def test_prange_misses_and_finds():
    function = fdiff.njit(fdiff.value_and_grad(lambda x: np.sum(x**3)), "f8[2]")

    def loop(count, sizes):
        out = np.empty(count)
        for k in numba.prange(count):
            out[k] = function(np.ones(k % sizes + 1))[0]
        return out

    for options in ({}, {"nogil": True}):
        found = numba.njit(parallel=True, **options)(loop)(200, 40)
        assert_same(found, np.arange(200) % 40 + 1.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # of JAX, which other tests import
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python, where threads run
def test_forked_children_call_and_miss():
    call = called(fdiff.value_and_grad(squares), np.ones(2))
    call(np.ones(2))
    child = os.fork()
    if not child:
        good = call(np.ones(2))[0] == 2.0 and call(np.ones(7))[0] == 7.0
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_records_live_as_long_as_the_code_that_uses_them():
    def make():
        function = fdiff.njit(fdiff.grad(lambda x: np.sum(x**5)), "f8[2]")
        call = numba.njit(lambda x: function(x))
        call(np.ones(2))
        return call, weakref.ref(function.callee.all_records()[0].table)

    call, table = make()
    gc.collect()
    assert table() is not None
    assert_same(call(np.ones(3)), np.full(3, 5.0))
    del call
    gc.collect()
    assert table() is None
