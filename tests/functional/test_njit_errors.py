"""Errors of calls from ``@njit`` code: caught there, in other threads, and where they arise."""
# ruff: noqa: BLE001, S110, SIM105 - Numba knows no exceptions but all of them

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

import fdiff

inverse = fdiff.njit(fdiff.grad(lambda a: np.sum(np.linalg.inv(a))), "f8[2,2]")
picked = fdiff.njit(fdiff.grad(lambda x, i: np.sum(x[i] ** 2)), "f8[3]", "i8[1]")
known = fdiff.njit(fdiff.grad(lambda x: np.sum(x)), "f8[3]", misses="raise")
SINGULAR = np.zeros((2, 2))
REGULAR = np.array([[2.0, 1.0], [1.0, 3.0]])


@numba.njit
def entry(a):
    """An entry of the derivative, or -5 where there is none."""
    try:
        return inverse(a)[0, 0]
    except Exception:
        return -5.0


def test_an_error_is_caught_in_compiled_code():
    want = inverse(REGULAR)[0, 0]
    for _ in range(3):
        assert entry(SINGULAR) == -5.0
        assert entry(REGULAR) == want


@pytest.mark.slow
def test_all_kinds_of_errors_are_caught():
    @numba.njit
    def index(x, i):
        try:
            return picked(x, i)[0]
        except Exception:
            return -5.0

    @numba.njit
    def shape(x, times):
        failed = 0
        for _ in range(times):
            try:
                known(x)
            except Exception:
                failed += 1
        return failed

    assert index(np.ones(3), np.array([7])) == -5.0
    assert index(np.ones(3), np.array([0])) == 2.0
    assert shape(np.ones(4), 3) == 3
    assert shape(np.ones(3), 3) == 0


@pytest.mark.slow
def test_what_was_caught_is_not_raised_later():
    square = fdiff.njit(fdiff.grad(lambda x: np.sum(x**2)), "f8[2]")

    @numba.njit
    def both(a, x):
        try:
            inverse(a)
        except Exception:
            pass
        return square(x).sum()

    assert both(SINGULAR, np.ones(2)) == 4.0
    assert both(SINGULAR, np.ones(5)) == 10.0  # a shape that is new
    with pytest.raises(np.linalg.LinAlgError):
        numba.njit(lambda a: inverse(a))(SINGULAR)


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
def test_errors_are_caught_in_functions_that_prange_calls():
    @numba.njit(parallel=True)
    def every(stack):
        found = np.zeros(len(stack))
        for k in numba.prange(len(stack)):
            found[k] = entry(stack[k])
        return found

    stack = np.array([REGULAR, SINGULAR] * 20)
    np.testing.assert_array_equal(every(stack), [entry(REGULAR), -5.0] * 20)


def test_an_error_of_numpy_s_tells_the_user_s_line():
    def f(x):
        return np.sum(x.reshape(2, -1) * np.ones((2, 3)))  # here

    made = fdiff.njit(fdiff.grad(f), "f8[6]")
    with pytest.raises(ValueError, match="broadcast") as caught:
        numba.njit(lambda x: made(x))(np.ones(8))
    (note,) = caught.value.__notes__
    assert note.startswith("grad(f): this line raised the error:")
    assert "# here" in note


def test_functions_of_gpus_are_refused():
    prepared = fdiff.grad(lambda x: np.sum(x * x), device="cuda")
    for compiled in (fdiff.njit, fdiff.cfunc):
        words = r"runs on 'cuda'.*\n.*\n.*without device="
        with pytest.raises(fdiff.errors.InputError, match=words):
            compiled(prepared, "f8[3]")


def test_c_functions_that_fail_import_no_numba():
    code = """if True:
        import sys
        import numpy as np
        import fdiff

        solve = fdiff.cfunc(fdiff.jit(np.linalg.solve), np.eye(2), np.ones(2))
        out = np.empty(2)
        solve.ctypes(np.zeros((2, 2)), np.ones(2), out)
        try:
            solve.check()
        except np.linalg.LinAlgError as error:
            print(error)
        sine = fdiff.cfunc(fdiff.jit(np.sin), 1.0)  # of a far angle, which is the C library's
        print(sine.ctypes(1e15) == np.sin(1e15), "numba" in sys.modules)
    """
    default = {k: v for k, v in os.environ.items() if k != "FDIFF_COMPILER"}
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=default
    )
    assert told.stdout.split("\n") == ["Singular matrix", "True False", ""]


def test_examples_that_are_no_arguments_are_refused():
    prepared = fdiff.grad(lambda x: np.sum(x * x))
    words = r"examples do not fit: missing a required argument: 'x'.*\n.*\nGive an example of each"
    with pytest.raises(fdiff.errors.InputError, match=r"cfunc\(grad\(<lambda>\)\): the " + words):
        fdiff.cfunc(prepared)
    with pytest.raises(fdiff.errors.InputError, match="too many positional arguments"):
        fdiff.njit(prepared, "f8[3]", "f8[3]")


def test_source_shows_kernels_of_the_device_that_a_function_runs_on():
    prepared = fdiff.grad(lambda x: np.sum(x * x), device="cuda")
    x = np.ones(3)
    assert fdiff.source(prepared, x) == fdiff.source(prepared, x, device="cuda")
    assert fdiff.source(prepared, x) != fdiff.source(prepared, x, device="cpu")


def test_without_an_exception_a_call_found_no_memory():
    from fdiff.kernels.numba.calls.pending_errors import PendingError

    assert isinstance(PendingError(), MemoryError)
