"""The text of kernels, compared with what was reviewed: `FDIFF_GOLDEN=write` writes it anew."""

import os
from pathlib import Path

import numpy as np
import pytest
from tapes import tape_of

from fdiff import kernels
from fdiff.errors import TapeError
from fdiff.transforms.reverse import vjp
from fdiff.transforms.simplify import simplify

GOLDEN = Path(__file__).parents[1] / "golden"


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def softmax(x):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer(x):
    return np.tanh(x @ x.T + x[:, 0])


def gathered(x):
    return np.sum(x[np.array([0, 2, -1])] ** 2) + np.cumsum(x)[-1]


def diffused(x):
    u = x.copy()
    for _ in range(3):
        u[1:-1] += 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
        u[-1:] = 0.5 * u[-2:-1]
    return u


KERNELS = {
    "chain": (lambda x: np.sin(x) * 4.5 + x, np.ones(5), False),
    "rosenbrock": (rosenbrock, np.ones(5), True),
    "softmax": (softmax, np.ones((3, 4)), False),
    "layer": (layer, np.ones((3, 4)), False),
    "gathered": (gathered, np.ones(5), True),
    "diffused": (diffused, np.ones(6), False),
}


@pytest.mark.parametrize("name", KERNELS)
def test_text_is_as_reviewed(name):
    function, x, pull = KERNELS[name]
    tape = tape_of(function, x)
    tape = simplify(vjp(tape, [0])) if pull else tape
    text = kernels.source(tape, ("C",) * len(tape.inputs))
    path = GOLDEN / f"{name}.py.txt"
    if os.environ.get("FDIFF_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_a_kernel_keeps_its_text():
    kernel = kernels.compile(tape_of(lambda x: x * 2.5, np.ones(3)), ("C",))
    assert "def kernel(" in kernel.source
    assert "for i0 in range(n0):" in kernel.source


def test_value_and_gradient_share_one_loop():
    tape = simplify(vjp(tape_of(lambda x: np.sum(np.sin(x) ** 2), np.ones(5)), [0]))
    text = kernels.source(tape, ("C", "C"))
    assert text.count("for i") == 1
    assert "empty" not in text


def test_text_needs_neither_sizes_nor_numba():
    texts = {kernels.source(tape_of(rosenbrock, np.ones(n)), ("C",)) for n in (4, 9, 100)}
    assert len(texts) == 1


def test_no_kernel_is_made_without_one_of_its_ops():
    tape = tape_of(np.sort, np.ones(3))
    assert kernels.missing(tape) == ["argsort"]
    with pytest.raises(TapeError, match="argsort"):
        kernels.compile(tape, ("C",))
