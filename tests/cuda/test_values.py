"""Every op with a kernel for CUDA, run on Numba's simulator: values, and derivatives both ways."""

import numpy as np
import pytest
import scipy.linalg
import scipy.special  # noqa: F401 - the tables for these modules wait for their imports
from running import run_on_simulator
from tapes import floating, like, tape_of_op, values

from fdiff.kernels.ir.graph_of_tape import supported
from fdiff.primitive import PRIMITIVES, load_tables
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

load_tables()
CASES = [
    pytest.param(op, sample, id=f"{op.name}-{k}")
    for op in PRIMITIVES.values()
    for k, sample in enumerate(op.samples)
]


def derived(tape):
    """The tape and both its derivatives, by name."""
    if not floating(tape):
        return {"value": tape}
    return {"value": tape, "jvp": jvp(tape, floating(tape)), "vjp": vjp(tape, floating(tape))}


@pytest.mark.parametrize(("op", "sample"), CASES)
@pytest.mark.parametrize("precision", ["double", "single"])
def test_op_on_the_simulator(op, sample, precision, rng):
    """Kernels of an op and of its derivatives give what NumPy gives."""
    arrays = sample.make(rng)
    if precision == "single":
        arrays = [a.astype(np.float32) if a.dtype == np.float64 else a for a in arrays]
    tolerance = 1e-12 if precision == "double" else 2e-5
    for one in map(simplify, derived(tape_of_op(op, arrays, sample.params)).values()):
        if not supported(one):  # an op without a kernel on any processor, or complex numbers
            continue
        given = [*arrays, *like(rng, one.input_types[len(arrays) :])]
        with np.errstate(all="ignore"):
            expected = values(one, *given)
        for got, want in zip(run_on_simulator(one, *given), expected, strict=True):
            assert got.dtype == want.dtype
            assert got.shape == want.shape
            if want.dtype.kind != "f":
                np.testing.assert_array_equal(got, want)
                continue
            scale = np.max(np.abs(want[np.isfinite(want)]), initial=1.0)
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * scale)
