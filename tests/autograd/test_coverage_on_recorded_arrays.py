"""Every example of docs/coverage.md on recorded arrays: the gradient of `fdiff.grad`, or an error.

Second derivatives are slow.
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff import autograd
from fdiff.autograd import tensor

PATH = Path(__file__).parents[2] / "docs" / "make_coverage.py"
_spec = importlib.util.spec_from_file_location("make_coverage", PATH)
coverage = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(coverage)
EXAMPLES = [e for e in coverage.examples() if e.code]
SCIPY = [e for e in EXAMPLES if "scipy." in e.code]
# What leaves the graph because the user says so, as in torch.
LEAVES = {"ndarray.item", "ndarray.tolist"}
# What makes a plain array, or stores into one: NumPy hands that to no protocol.
PLAIN = {
    "lang.a[...] = v  (in-place store)", "ndarray.fill", "np.add.at", "np.arange", "np.array",
    "np.asanyarray", "np.asarray", "np.asarray_chkfinite", "np.ascontiguousarray",
    "np.asfortranarray", "np.c_", "np.copyto", "np.empty", "np.fromiter", "np.full",
    "np.ndenumerate", "np.r_", "np.require", "np.vectorize", "np.zeros",
}  # fmt: skip


def leaf(x):
    return tensor(np.array(x, float), requires_grad=True)


def functions_of(code):
    """An example as a number, and its gradient by `fdiff.grad`; None where it has none."""
    values = [
        np.asarray(v) for v in coverage.parts(coverage.function_of(code)(coverage.START.copy()))
    ]
    if not any(v.dtype.kind in "fc" and np.all(np.isfinite(v)) for v in values):
        return None
    return coverage.weighted(code, values)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
def test_each_example_of_the_coverage_table(example, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        total = functions_of(example.code)
        if total is None:
            return
        expected = fdiff.grad(total)(coverage.START)
        warnings.simplefilter("error", UserWarning)  # of numbers taken out of the graph
        if example.name in PLAIN:
            with pytest.raises((RuntimeError, ValueError)) as error:
                total(leaf(coverage.START))
            assert "grad" in f"{error.value} {error.value.__cause__}"
            return
        x = leaf(coverage.START)
        out = total(x)
        if getattr(out, "requires_grad", False):
            out.backward()
        found = np.zeros_like(coverage.START) if x.grad is None else x.grad.numpy()
    assert coverage.near(found, expected, 1e-9) is (example.name not in LEAVES)


@pytest.mark.slow
@pytest.mark.parametrize("example", SCIPY, ids=lambda e: e.name)
def test_second_derivatives_of_each_example_of_scipy(example, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    v = np.random.default_rng(2).normal(size=coverage.START.shape)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        total = functions_of(example.code)
        if total is None:
            return
        expected = fdiff.hvp(total, coverage.START, v)[1]
        x = leaf(coverage.START)
        (first,) = autograd.grad(total(x), x, create_graph=True)
        found = np.zeros_like(v)
        if first.requires_grad:
            (second,) = autograd.grad(first, x, v, allow_unused=True)
            found = found if second is None else second.numpy()
    assert coverage.near(found, expected, 1e-8)


def test_the_table_has_every_function_that_is_opened():
    names = " ".join(e.code for e in SCIPY)
    assert len(SCIPY) > 340
    assert all(
        word in names for word in ("brentq", "solve_ivp", "CubicSpline", "cdist", "csr_array")
    )
