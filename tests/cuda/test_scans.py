"""Running sums and extrema by the threads of a block, on Numba's simulator."""

import numpy as np
import pytest
from running import program_of, run_on_device

import fdiff

LENGTHS = (1, 4, 5, 17, 40)  # tiles have four entries: none, one or many whole ones
SCANS = {
    "sums": lambda x: np.cumsum(x, axis=-1),
    "sums from the end": lambda x: np.cumsum(x[..., ::-1], axis=-1)[..., ::-1] * x,
    "maxima": lambda x: np.maximum.accumulate(x, axis=-1),
    "minima": lambda x: np.minimum.accumulate(x, axis=-1),
    "sums down": lambda x: np.cumsum(x, axis=0),
    "maxima down": lambda x: np.maximum.accumulate(x, axis=0),
    "two": lambda x: np.cumsum(x, axis=-1) + np.cumsum(x * x, axis=-1),
    "slope": fdiff.grad(lambda x: np.sum(np.cumsum(x, axis=-1) ** 2)),
}


def check(f, x, tolerance=1e-12):
    tape = fdiff.make_tape(f, x)
    program, _, _ = program_of(tape)
    with np.errstate(all="ignore"):
        wanted = f(x)
    (found,) = run_on_device(tape, x)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    return "scan_" in program.text


@pytest.mark.parametrize("name", SCANS)
@pytest.mark.parametrize("rows", [(), (3,)], ids=["one row", "rows"])
def test_values(name, rows, rng):
    if "down" in name and not rows:
        rows = (5,)
    by_blocks = [check(SCANS[name], rng.normal(size=(*rows, n))) for n in LENGTHS]
    assert "down" in name or by_blocks[-1]


@pytest.mark.parametrize("name", ["sums down", "maxima down"])
def test_long_columns(name, rng):
    assert check(SCANS[name], rng.normal(size=(33, 3)))


@pytest.mark.parametrize("dtype", ["f4", "i8", "i4", "u1"])
@pytest.mark.parametrize("name", ["sums", "maxima"])
def test_dtypes(name, dtype, rng):
    x = (rng.normal(size=30) * 50).astype(dtype)
    assert check(SCANS[name], x, 1e-5 if dtype == "f4" else 1e-12)


def test_many_short_rows_are_for_a_thread_each(rng):
    assert not check(SCANS["sums"], rng.normal(size=(6, 3)))


@pytest.mark.parametrize("f", [np.cumprod, fdiff.grad(lambda x: np.sum(np.cumprod(x)))])
def test_products_stay_in_order(f, rng):
    """Partial products overflow, or are zero, where those in order do not."""
    assert not check(f, np.array([1e-200, 1e-200, 1e300, 1e300, 2.0, 0.0, 3.0, 1.0] * 5))


def test_values_that_are_not_finite():
    x = np.arange(30.0)
    x[[7, 20]] = np.inf, -np.inf
    assert check(SCANS["sums"], x)
    x[3] = np.nan
    assert check(SCANS["maxima"], x)
