"""An error of NumPy's names the line of `f` that raised it, in every tier and at every call."""

import re

import numpy as np
import pytest
import scipy.linalg as sl

import fdiff


def solved(a):
    b = a * 1.0
    y = np.linalg.solve(b, np.ones(2))  # faulty
    return np.sum(y)


def inverted(a):
    b = np.linalg.inv(np.eye(2) + 0.0 * a)
    return np.sum(np.linalg.inv(a) @ b)  # faulty


def factored(a):
    lower = np.linalg.cholesky(a - np.eye(2))  # faulty
    return np.sum(np.linalg.inv(lower))


def triangular(a):
    return np.sum(sl.solve_triangular(a - np.eye(2), np.ones(2)))  # faulty


def singular_values(a):
    with np.errstate(all="ignore"):
        b = np.log(a - 5.0)
    return np.sum(np.linalg.svd(b)[0])  # faulty


def entry(a):
    k = np.argmax(a[0]) + 1
    return a[0, k]  # faulty


FINE = np.array([[9.0, 7.0], [6.0, 8.0]])
FAULTY = np.array([[1.0, 2.0], [2.0, 4.0]])
CASES = [solved, inverted, factored, triangular, singular_values, entry]


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("f", CASES)
def test_an_error_names_the_line_of_the_operation(f, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    for operator in (fdiff.jit, fdiff.grad, fdiff.value_and_grad):
        call = operator(f)
        for _ in range(3):
            call(FINE)
        for _ in range(2):
            with pytest.raises((np.linalg.LinAlgError, IndexError)) as raised:
                call(FAULTY)
            (note,) = raised.value.__notes__
            assert note.startswith(
                f"{operator.__name__}({f.__name__}): this line raised the error:"
            )
            assert re.search(r"test_fault_lines.py:\d+: .*# faulty\n", note)


def test_an_error_while_f_is_traced_runs_f_once():
    runs = []

    def f(a):
        runs.append(None)
        return np.sum(a) * int("x")  # faulty

    with pytest.raises(ValueError, match="invalid literal") as raised:
        fdiff.grad(f)(FINE)
    assert len(runs) == 1
    assert "# faulty\n" in raised.value.__notes__[0]
