"""An op with a routine of its own: a record and a text are all that it takes."""

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.facets import Lowering, Rules
from fdiff.interpret import evaluate
from fdiff.kernel_rule import KernelRule, Kind, Routine
from fdiff.kernels.bytecode.assembler import RefusedError
from fdiff.kernels.runtime import routines
from fdiff.primitive import PRIMITIVES, Primitive, register
from fdiff.trace import apply
from fdiff.transforms.reverse import vjp

# The symmetric part of each matrix; the diagonal must be positive.
TEXT = """
def symmetric_part(
    a: "ENTRY*", x: "ENTRY*", work: "ENTRY*", stack: "i8", n: "i8", blas: "i8*"
):
    for s in range(stack):
        here = rt.offset(a, s * n * n)
        found = rt.offset(x, s * n * n)
        for i in range(n * n):
            work[i] = here[i] / 2
        for i in range(n):
            if here[i * n + i] <= 0:
                return INDEFINITE
            for j in range(n):
                found[i * n + j] = work[i * n + j] + work[j * n + i]
    return 0
"""


def symmetric_part(a):
    if np.any(np.diagonal(a, axis1=-2, axis2=-1) <= 0):
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return (a + np.swapaxes(a, -1, -2)) / 2


@pytest.fixture
def op(monkeypatch):
    """The record, and the text of its routine, for one test."""
    monkeypatch.setitem(routines.TEXTS, "symmetric_part", (TEXT,))
    primitive = Primitive(
        "symmetric_part", "opaque",
        Rules(
            lambda a: (a,), symmetric_part,
            lambda dots, args, outs: [(dots[0] + np.swapaxes(dots[0], -1, -2)) / 2],
            lambda bars, args, outs: [(bars[0] + np.swapaxes(bars[0], -1, -2)) / 2],
        ),
        lowering=Lowering(KernelRule(Kind.ROUTINE, routine=Routine("symmetric_part", scratch=1))),
    )  # fmt: skip
    yield register(primitive)
    del PRIMITIVES[primitive.name]


def example(op, dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(2, 3, 3)) + 5 * np.eye(3)).astype(dtype)
    return tape_of(lambda x: np.exp(apply(op, x[::-1] * x)), x), x


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_it_is_compiled(op, dtype):
    tape, x = example(op, dtype)
    text = kernels.source(tape, ("C",))
    assert "= symmetric_part" in text
    assert kernels.supported(tape)
    (got,), (want,) = kernels.compile(tape, ("C",))(x), evaluate(tape, x)
    np.testing.assert_allclose(got, want, rtol=1e-12 if dtype == "f8" else 1e-4)


def test_it_is_differentiated(op):
    tape, x = example(op, "f8")
    pulled, bar = vjp(tape, [0]), np.random.default_rng(1).normal(size=x.shape)
    got = kernels.compile(pulled, ("C",) * len(pulled.inputs))(x, bar)
    for a, b in zip(got, evaluate(pulled, x, bar), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_its_status_is_an_error(op):
    tape, x = example(op, "f8")
    run = kernels.compile(tape, ("C",))
    x[:, 1, 1] = [1.0, -1.0]
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        run(x)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        evaluate(tape, x)


def test_bytecode_leaves_it_to_numpy(op):
    tape, x = example(op, "f8")
    (got,), (want,) = kernels.encode(tape)([x]), evaluate(tape, x)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    with pytest.raises(RefusedError, match="symmetric_part"):
        kernels.encode(tape_of(lambda x: apply(op, apply(op, x)), x))
