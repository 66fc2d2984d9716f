"""Each word of kernel texts on every kind of number, by both compilers: the same bits.

A text calls every word of a dtype on pairs of numbers: NaN, infinities, zeros of both signs,
subnormal and huge numbers, halves, and drawn ones; of integers the smallest and largest.
"""

import ctypes

import numpy as np
import pytest

from fdiff.kernels.ir.word_table import DTYPES, WORDS
from fdiff.kernels.llvm import machine
from fdiff.kernels.llvm.arithmetic import UnknownWordError
from fdiff.kernels.llvm.text_to_module import module_of
from fdiff.kernels.numba import compilation

REAL = [
    np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-310,
    -5e-324, 1e300, -1e300, 2.0**31 - 1, -(2.0**31) + 1, 3.0, 1e-8, -0.7, 0.3, 20.0, -20.0,
    709.0, -745.0,
]  # fmt: skip


def numbers(dtype):
    """All pairs of a dtype's special numbers."""
    of = np.dtype(np.bool_ if dtype == "b1" else dtype)
    if of.kind == "f":
        with np.errstate(over="ignore"):
            one = np.array(REAL, of)
    elif of.kind == "b":
        one = np.array([False, True])
    else:
        info = np.iinfo(of)
        one = np.array([info.min, info.max, 0, 1, 2, 3, 7, 10, info.max - 1, info.max // 2], of)
        one = np.concatenate([one, -one[4:7]]) if of.kind == "i" else one
    x, y = (part.ravel() for part in np.meshgrid(one, one))
    return x.copy(), y.copy()


def words_for(dtype):
    """The words that take one or two numbers of a dtype, and have a meaning for it."""
    for word in WORDS.values():
        home = word.name.partition(".")[0]
        letters = set(word.parameters)
        if home not in ("rt", "math") or not letters <= {"f", "n"}:
            continue  # tested where kernels use it
        if not letters or (letters == {"f"} and dtype[0] != "f"):
            continue
        if word.result([dtype] * len(word.parameters)) == "":
            continue
        yield word


def text_of(words, dtype):
    """A kernel that calls each word for each pair of numbers, and the dtypes of its results."""
    stored = "u1" if dtype == "b1" else dtype
    read = " != 0" if dtype == "b1" else ""
    results = [word.result([dtype] * len(word.parameters)) for word in words]
    outs = ["u1" if r == "b1" else r for r in results]
    parameters = [f'x{k}: "{stored}* data[{k}]"' for k in range(2)]
    parameters += [f'out{k}: "{r}* data[{2 + k}]"' for k, r in enumerate(outs)]
    parameters += ['strides: "i8* strides"', 'ints: "i8* ints"', 'floats: "f8* floats"']
    lines = [f"a = x0[i]{read}", f"b = x1[i]{read}"]
    for k, word in enumerate(words):
        given = ", ".join("aba"[: len(word.parameters)])
        lines += [f"v{k} = {word.name}({given})", f"out{k}[i] = v{k}"]
    body = "\n        ".join(lines)
    text = (
        f"def kernel({', '.join(parameters)}):\n    n = ints[0]\n    for i in range(n):\n        "
    )
    return f"{text}{body}\n    return 0\n", outs


def run(code, x, y, outs):
    """The results of such a kernel, from its object code."""
    loaded = machine.Loaded(code, "kernel")
    results = [np.empty(x.size, r) for r in outs]
    data = np.array([a.ctypes.data for a in (x, y, *results)] + [0], np.int64)
    ints, none = np.array([x.size], np.int64), np.zeros(1)
    function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(loaded.address)
    assert function(data.ctypes.data, none.ctypes.data, ints.ctypes.data, none.ctypes.data) == 0
    return results


def known(word, dtype):
    """Whether a word has a meaning for a dtype: the sign of a truth value has none."""
    try:
        module_of(text_of([word], dtype)[0], "kernel")
    except (AssertionError, UnknownWordError):
        return False
    return True


ORDINARY = {"f8", "i8", "u1", "b1"}  # the others are slow tests
EACH = [
    pytest.param(dtype, marks=[] if dtype in ORDINARY else [pytest.mark.slow])
    for dtype in sorted(DTYPES.values())
]


@pytest.mark.parametrize("dtype", EACH)
def test_words_give_the_same_bits(dtype):
    words = [word for word in words_for(dtype) if known(word, dtype)]
    assert len(words) > (60 if dtype[0] == "f" else 5)
    text, outs = text_of(words, dtype)
    x, y = numbers(dtype)
    by_llvm = run(machine.object_code(module_of(text, "kernel", 99)), x, y, outs)
    by_numba = run(compilation.kernel_code(text), x, y, outs)
    for word, a, b in zip(words, by_llvm, by_numba, strict=True):
        nan = np.isnan(a) & np.isnan(b)  # of either sign
        assert np.where(nan, 0, a).tobytes() == np.where(nan, 0, b).tobytes(), word.name
