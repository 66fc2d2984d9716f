"""Random programs: the kernel of a program, and of its gradient, is the interpreter's equal."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tapes import like, tape_of, values

from fdiff import kernels
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify


@pytest.fixture(autouse=True, scope="module")
def no_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FDIFF_CACHE_DIR", "off")
        yield


def square(x):
    """Any array as one of shape (3, 4), so that steps can follow each other in any order."""
    return np.broadcast_to(x, (3, 4)) if x.shape != (3, 4) else x


UNARY = {
    "sin": np.sin,
    "twice": lambda x: 2.0 * x + x,
    "rows": lambda x: square(np.sum(x, axis=1, keepdims=True)),
    "columns": lambda x: square(np.sum(x, axis=0)),
    "total": lambda x: square(np.sum(x) * 0.1),
    "largest": lambda x: square(np.max(x, axis=1, keepdims=True)),
    "shift": lambda x: np.concatenate([x[1:], x[:1]], axis=0),
    "flip": lambda x: x[:, ::-1],
    "turn": lambda x: x.T.reshape(3, 4),
    "differences": lambda x: np.pad(x[:, 1:] - x[:, :-1], ((0, 0), (1, 0))),
    "stencil": lambda x: np.concatenate(
        [x[:, :1], x[:, :-2] * x[:, 2:] - x[:, 1:-1], x[:, -1:]], axis=1
    ),
    "entry": lambda x: square(x[1, 2] * x[0, 0]),
    "row": lambda x: square(x[1]),
    "column": lambda x: square(x[:, 2:3]),
    "running": lambda x: np.cumsum(x, axis=0),
    "backwards": lambda x: np.cumsum(x[:, ::-1], axis=1)[:, ::-1],
    "picked": lambda x: x[np.array([2, 0, -1])][:, np.array([1, 1, 3, 0])],
    "product": lambda x: (x @ x.T) @ x * 0.1,
    "outer": lambda x: np.einsum("i,j->ij", x[:, 0], x[0]),
    "flat": lambda x: np.tanh(x.reshape(-1)[::-1]).reshape(3, 4),
    "third": lambda x: square(np.sum(x.reshape(3, 2, 2), axis=(0, 2))[:1]),
}
BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum}

step = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 9)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 9), st.integers(0, 9)),
)


def program(steps, results):
    """Each step acts on earlier values; `results` says which are returned."""

    def run(x):
        made = [x * 1.0]
        for name, *operands in steps:
            chosen = [made[k % len(made)] for k in operands]
            made.append(
                np.tanh((UNARY | BINARY)[name](*chosen))
                if len(made) % 4 == 3
                else (UNARY | BINARY)[name](*chosen)
            )
        return tuple(made[-1 - k % len(made)] for k in results)

    return run


@pytest.mark.slow
@given(
    st.lists(step, min_size=2, max_size=8),
    st.lists(st.integers(0, 3), min_size=1, max_size=2),
    st.booleans(),
)
def test_a_random_program_and_its_gradient(steps, results, strided):
    rng = np.random.default_rng(len(steps))
    x = rng.normal(size=(3, 4))
    tape = tape_of(program(steps, results), x)
    pulled = simplify(vjp(tape, [0]))
    bars = like(rng, tape.output_types)
    given_x = np.asfortranarray(x) if strided else x
    layouts = ("A" if strided else "C", *["C"] * len(bars))
    for made, arrays in ((tape, [given_x]), (pulled, [given_x, *bars])):
        outs = kernels.compile(made, layouts[: len(arrays)])(*arrays)
        for got, want in zip(outs, values(made, *arrays), strict=True):
            np.testing.assert_allclose(
                got, want, rtol=1e-9, atol=1e-9 * max(1.0, float(np.max(np.abs(want))))
            )
