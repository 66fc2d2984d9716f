"""Nothing is compiled twice: not for a fresh lambda, a new shape, a new constant, a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from user_code import nist

import fdiff
from fdiff.errors import VectorError


@pytest.fixture(autouse=True)
def fresh_compiling(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Kernels only, from an empty disk cache."""
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.setenv("FDIFF_CACHE_DIR", str(tmp_path))
    fdiff.cache_clear()


def compiled() -> int:
    return fdiff.cache_info().compiled


def test_a_fresh_lambda_over_the_same_program() -> None:
    x = np.linspace(0.1, 1.0, 7)
    results, counts = [], []
    for c in (1.5, 2.5, 3.5):
        decay = lambda b, c=c: c * b[0] * np.exp(-b[1] * x)  # a fresh lambda is the point
        results.append(fdiff.jacobian(decay, np.array([1.0, 0.5])))
        counts.append(compiled())
    assert counts[0] == counts[-1]
    assert np.allclose(1.5 * results[2], 3.5 * results[0], rtol=1e-14)


def test_two_functions_with_the_same_program() -> None:
    def one(x: np.ndarray) -> object:
        return np.sum(np.sin(x) * 2.0)

    def two(values: np.ndarray) -> object:
        doubled = np.sin(values) * 2.0
        return doubled.sum()

    x = np.linspace(0.0, 1.0, 5)
    first = fdiff.grad(one)(x)
    count = compiled()
    assert np.array_equal(fdiff.grad(two)(x), first)
    assert compiled() == count


def test_a_new_shape() -> None:
    slope = fdiff.value_and_grad(lambda x: np.sum(x**2 * np.cos(x)))
    slope(np.ones(100))
    count = compiled()
    for n in (2, 5, 1000, 12345):
        x = np.linspace(-1.0, 1.0, n)
        assert np.allclose(
            slope(x)[1], 2 * x * np.cos(x) - x**2 * np.sin(x), rtol=1e-13, atol=1e-15
        )
    assert compiled() == count


SCALE = 1.25


def test_a_changed_captured_constant() -> None:
    global SCALE
    slope = fdiff.grad(lambda x: np.sum(SCALE * np.sin(x) + 0.7))
    x = np.array([0.3, 0.4])
    slope(x)
    count = compiled()
    for SCALE in (5.0, 7.5, -3.5, 0.1):
        assert np.allclose(slope(x), SCALE * np.cos(x), rtol=1e-15)
    assert compiled() == count


def test_changed_bounds_of_a_slice() -> None:
    def f(x: np.ndarray, k: int) -> object:
        return np.sum(x[k : k + 3] ** 2)

    slope = fdiff.grad(f)
    x = np.arange(10.0)
    slope(x, 1)
    count = compiled()
    for k in (2, 4, 6):
        expected = np.zeros(10)
        expected[k : k + 3] = 2 * x[k : k + 3]
        assert np.array_equal(slope(x, k), expected)
    assert compiled() == count


def test_nist_models_with_a_fresh_lambda_each_call() -> None:
    for name in ("Hahn1", "MGH10", "Gauss1"):
        data = nist.read(name)
        model, x, y = nist.MODELS[name], data["x"], data["y"]
        fdiff.jacobian(lambda b, f=model, x=x, y=y: f(b, x) - y, data["b"])
        count = compiled()
        for k in range(5):
            fresh = lambda b, f=model, x=x, y=y: f(b, x) - y  # a fresh lambda is the point
            fdiff.jacobian(fresh, data["b"] * (1.0 + 0.01 * k))
        assert compiled() == count


SCRIPT = textwrap.dedent("""
    import numpy as np
    import fdiff

    f = lambda x: np.sum(np.sin(x) * {factor} + x[1:].sum())
    value, slope = fdiff.value_and_grad(f)(np.linspace(0, 1, {size}))
    info = fdiff.cache_info()
    print(info.compiled, info.loaded, repr(float(value)))
""")


def run(factor: float, size: int) -> list[str]:
    """A process of its own with the same disk cache."""
    script = SCRIPT.format(factor=factor, size=size)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    return done.stdout.split()


@pytest.mark.slow
def test_a_second_process_compiles_nothing() -> None:
    first = run(2.5, 10)
    second = run(2.5, 10)
    other = run(3.5, 400)
    assert int(first[0]) >= 1
    assert (second[0], other[0]) == ("0", "0")
    assert int(second[1]) == int(first[0])
    assert second[2] == first[2]


def test_the_interpreter_needs_no_numba() -> None:
    script = (
        "import sys, numpy as np, fdiff\n"
        "fdiff.grad(lambda x: np.sum(x**2))(np.ones(3))\n"
        "print('numba' in sys.modules)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "FDIFF_TIER"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "False"


def test_the_switch_to_a_kernel_comes_when_it_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FDIFF_TIER")
    slope = fdiff.grad(lambda x: np.sum(np.tanh(x) * np.exp(-x) * 1.25))
    x = np.linspace(0.0, 1.0, 200_000)
    before = compiled()
    first = slope(x)
    assert compiled() == before, "the first call must not wait for a compiler"
    for _ in range(4_000 if os.environ.get("FDIFF_COMPILER") == "numba" else 400):
        slope(x)
        if compiled() > before:
            break
    assert compiled() == before + 1
    assert np.allclose(slope(x), first, rtol=1e-13)


@pytest.mark.slow
def test_a_tape_that_compiles_too_long_is_not_compiled_unasked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("FDIFF_TIER")
    monkeypatch.setenv("FDIFF_LOOPS", "unroll")

    def long(x: np.ndarray) -> object:
        y = x
        for k in range(4000):  # predicted to take more than `ASK_FIRST`
            y = np.sin(y * (1.0 + k))
        return np.sum(y)

    slope = fdiff.grad(long)
    x = np.linspace(0.0, 1.0, 3)
    before = compiled()
    for _ in range(60):
        slope(x)
    assert compiled() == before


def test_the_tier_can_be_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    before = compiled()
    fdiff.jit(lambda x: x * 3.25 + np.cos(x) ** 3)(np.ones(4))
    assert compiled() == before


def test_a_vector_is_compared_with_the_outputs_of_the_branch_that_is_taken():
    def squares_or_cubes(x):
        return x[:2] ** 2 if x[0] > 0 else x**3

    pull, x = fdiff.vjp(squares_or_cubes), np.array([1.0, 2.0, 3.0])
    for positive in (True, False, True, False, True, True, False, False, True):
        point, size = (x, 2) if positive else (-x, 3)
        expected = [2.0, 4.0, 0.0] if positive else [3.0, 12.0, 27.0]
        np.testing.assert_array_equal(pull(point, np.ones(size))[1], expected)
        with pytest.raises(VectorError, match=rf"should be \({size},\) but got \({5 - size},\)"):
            pull(point, np.ones(5 - size))
