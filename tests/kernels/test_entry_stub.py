"""Our own compiler of kernel texts, and the function through which Python calls kernels."""

import sys
import threading
from ctypes import CFUNCTYPE, c_char, c_double, c_float, c_int, c_int64, c_void_p, cast
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tapes import tape_of

from fdiff import kernels
from fdiff.errors import TapeError
from fdiff.kernels.llvm import machine
from fdiff.kernels.llvm.arithmetic import UnknownWordError
from fdiff.kernels.llvm.stub import entry_stub
from fdiff.kernels.llvm.text_to_module import function_of, module_of
from fdiff.kernels.runtime.blas_lapack_addresses import table
from fdiff.kernels.runtime.routines import routine_text

WORD = st.integers(-(2**31), 2**31)


def function(text, count):
    code = machine.Loaded(machine.object_code(function_of(text)), "f")
    call = CFUNCTYPE(c_int64, *[c_int64] * count)(code.address)
    call.code = code  # for as long as it may be called
    return call


def of_two(expression):
    return function(f'def f(a: "i8", b: "i8"):\n    return {expression}\n', 2)


WHOLE = {
    text: of_two(text)
    for text in (
        "a // b", "a % b", "a - 3 * b", "-a", "a & b | 5", "a ^ b", "abs(a) + abs(b)",
        "min(a, b, 7)", "max(a, b)", "a if a < b else b", "1 if a < b <= 9 or a == 3 else 2",
        "not a", "np.int8(a)", "np.uint16(a) + np.int64(b > 2)", "np.int64(np.float64(a) / 4.0)",
    )
}  # fmt: skip


@pytest.mark.parametrize("text", WHOLE)
@given(a=WORD | st.integers(-9, 9), b=WORD | st.integers(-9, 9))
def test_expressions_are_those_of_python(text, a, b):
    if b == 0 and ("//" in text or "%" in text):
        want = 0  # as Numba has it without errors
    else:
        with np.errstate(over="ignore"):
            names = {"a": a, "b": b, "np": Narrow}
            want = int(eval(text, names))
    assert WHOLE[text](a, b) == want


class Narrow:
    """NumPy's scalar types, wrapping as C does."""

    int8 = staticmethod(lambda a: int(np.int64(a).astype(np.int8)))
    uint16 = staticmethod(lambda a: int(np.int64(a).astype(np.uint16)))
    int64 = float64 = None


Narrow.int64 = staticmethod(int)
Narrow.float64 = staticmethod(float)


def test_the_least_whole_number_divided_by_minus_one_wraps():
    assert WHOLE["a // b"](-(2**63), -1) == -(2**63)
    assert WHOLE["a % b"](-(2**63), -1) == 0


def test_loops_and_branches():
    f = function(
        """
def f(n: "i8", stop: "i8"):
    total = 0
    for i in range(n - 1, -1, -1):
        if i % 2 == 0:
            continue
        elif i == stop:
            break
        for j in range(i, n, 2):
            total = total + j * i
        while total > 1000:
            total -= 999
    else_ = total
    return else_
""",
        2,
    )

    def want(n, stop):
        total = 0
        for i in range(n - 1, -1, -1):
            if i % 2 == 0:
                continue
            if i == stop:
                break
            for j in range(i, n, 2):
                total += j * i
            while total > 1000:
                total -= 999
        return total

    for n in (0, 1, 2, 7, 30):
        for stop in (-1, 3, 9):
            assert f(n, stop) == want(n, stop)


@pytest.mark.parametrize("text", ["rt.unheard_of(x0[0])", "x0[0] ** 2.0", "[1]", "y"])
def test_what_the_language_has_no_word_for(text):
    kernel = f'def kernel(x0: "f8* data[0]"):\n    v = {text}\n    return 0\n'
    with pytest.raises(TapeError, match="does not compile"):
        module_of(kernel, "kernel")


# --- calls ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernel():
    x = np.linspace(0.0, 1.0, 6).reshape(2, 3)
    return kernels.compile(tape_of(lambda x, s: (x * s, np.sum(x)), x, np.float64(2.0)), ("C", "C"))


def test_numbers_are_taken_in_any_form(kernel):
    x = np.arange(6.0).reshape(2, 3)
    for s in (3.0, np.float64(3.0), np.array(3.0), 3, np.float32(3.0), np.array(3)):
        scaled, total = kernel(x, s)
        np.testing.assert_array_equal(scaled, 3.0 * x)
        assert total == 15.0
        assert total.shape == ()


def test_odd_arrays_are_laid_out_first(kernel):
    x = np.arange(6.0).reshape(2, 3)
    raw = np.zeros(49, np.uint8)
    unaligned = raw[1:].view(np.float64).reshape(2, 3)
    unaligned[...] = x
    frozen = x.copy()
    frozen.flags.writeable = False
    for odd in (np.asfortranarray(x), x[::-1][::-1], np.repeat(x, 2, 1)[:, ::2], unaligned, frozen):
        np.testing.assert_array_equal(kernel(odd, 2.0)[0], 2.0 * x)
    np.testing.assert_array_equal(kernel(x.astype(">f8"), 2.0)[0], 2.0 * x)
    np.testing.assert_array_equal(kernel(x.view(type("Sub", (np.ndarray,), {})), 2.0)[0], 2.0 * x)


def test_nothing_is_kept_or_lost(kernel):
    """References to what goes in and comes out are as they were."""
    x, s = np.ones((2, 3)), 2.5
    odd = np.ones((2, 6))[:, ::2]
    kernel(x, s), kernel(odd, s)
    counted = (x, odd, s, x.dtype)
    before = [sys.getrefcount(c) for c in counted]
    for _ in range(1000):
        kernel(x, s)
        kernel(odd, s)
    after = [sys.getrefcount(c) for c in counted]
    assert all(abs(a - b) < 20 for a, b in zip(after, before, strict=True))
    first, second = kernel(x, s)[0], kernel(x, s)[0]
    assert not np.shares_memory(first, second)
    assert first.flags.owndata
    assert first.flags.writeable


def test_threads_run_at_once_with_workspaces_of_their_own():
    x = np.linspace(0.1, 1.0, 50_000)
    tape = tape_of(lambda x: np.cumsum(np.exp(x - np.max(x)) / np.sum(np.exp(x))), x)
    run = kernels.compile(tape, ("C",))
    want = [run(x * k)[0] for k in range(4)]
    wrong = []

    def work(k):
        same = (np.array_equal(run(x * k)[0], want[k]) for _ in range(20))
        wrong.extend(k for good in same if not good)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_every_name_in_the_caller_has_its_number():
    assert not [
        word for word in entry_stub.text().split() if word.startswith(("d[D_", "r[I_", "r[O_"))
    ]


def test_a_text_of_several_functions_is_known_by_the_last():
    text = """
def twice(x: "f8*", k: "i8") -> "f8":
    return x[k] + x[k]

def f(n: "i8"):
    x = rt.float64(rt.stack(n))
    for i in range(n):
        x[i] = i
    return twice(rt.offset(x, 2), 1)
"""
    assert function(text, 1)(5) == 6
    with pytest.raises(UnknownWordError):
        function(text.replace("twice(rt", "thrice(rt"), 1)


def test_fortran_takes_every_argument_by_its_address():
    seen = []

    @CFUNCTYPE(None, *[c_void_p] * 4)
    def routine(letter, number, real, memory):
        at = (letter, c_char), (number, c_int), (real, c_float), (memory, c_double)
        seen.extend(kind.from_address(place).value for place, kind in at)
        c_double.from_address(memory).value = 9.0

    address = cast(routine, c_void_p).value
    text = f"""
def f(k: "i8"):
    x = rt.float64(rt.stack(1))
    x[0] = 0.25
    rt.fortran4({address}, "t" if k > 2 else "n", k, np.float32(1.5), x)
    return x[0]
"""
    assert function(text, 1)(3) == 9
    assert seen == [b"t", 3, 1.5, 0.25]


def test_vectors_are_read_combined_and_stored():
    text = """
def f(n: "i8"):
    x = rt.float64(rt.stack(9))
    for i in range(9):
        x[i] = i
    twice = rt.multiply(rt.load_vector(x, 1, 4), rt.broadcast(np.float64(n), 4))
    rt.store_vector(x, 5, rt.add(twice, rt.load_vector(x, 0, 4)))
    return x[4] + 100 * x[5] + 10000 * x[8]
"""
    assert function(text, 1)(3) == 4 + 100 * 3 + 10000 * 15


@pytest.mark.parametrize("vector", [32, 64])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_are_the_same_whatever_vectors_a_machine_has(vector, dtype, rng):
    """Small and large, tall and wide, either operand transposed: each way through the routine."""
    text = routine_text(f"matmul_{dtype}", vector)
    made = machine.routine_code(function_of(text), "matmul")
    code = machine.Loaded(made, "matmul")
    call = CFUNCTYPE(c_int64, *[c_void_p] * 3, *[c_int64] * 12, c_void_p)(code.address)
    sizes = product([1, 3, 4, 6, 17, 64], [0, 1, 3, 9, 40, 130], [1, 2, 5, 8, 21, 64])
    for (m, k, n), flip_a, flip_b in product(sizes, [0, 1], [0, 1]):
        a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
        stored = [np.ascontiguousarray(x.T if f else x) for x, f in ((a, flip_a), (b, flip_b))]
        c = np.full((m, n), np.nan, dtype)
        at = [x.ctypes.data for x in (*stored, c)]
        leads = [max(x.shape[1], 1) for x in stored]
        rest = (0, leads[0], 0, leads[1], 0, n, flip_a, flip_b, table().ctypes.data)
        assert call(*at, 1, m, k, n, *rest) == 0
        exact = a.astype("f8") @ b.astype("f8")
        bound = (k + 1) * np.finfo(dtype).eps * (abs(a.astype("f8")) @ abs(b.astype("f8")))
        assert np.all(abs(c - exact) <= bound), (m, k, n, flip_a, flip_b)
