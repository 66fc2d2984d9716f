"""The reverse sweep and the interpreter give what textbooks give, whose forms stand beside them."""

import numpy as np
import pytest

import fdiff
from fdiff.interpret import evaluate, textbook_evaluate
from fdiff.transforms.forward import jvp
from fdiff.transforms.reverse import textbook_vjp, vjp

RNG = np.random.default_rng(7)
X, A = RNG.normal(size=5), RNG.normal(size=(5, 5))


def stored(x, a):
    y = np.zeros(8)
    y[1:6] = x * a[0]
    y[2] += np.exp(x[3])
    return y * y


def selected(x, a):
    return np.where(x > 0.0, np.log(np.abs(x)) * a[1], x**3) + np.maximum(x, a[2])


def factored(x, a):
    w, v = np.linalg.eigh(a @ a.T)
    return np.sum(w * x), (v @ x) ** 2


PROGRAMS = {
    "a chain": lambda x, a: np.tanh(np.sin(x) * np.exp(x)),
    "a value used thrice": lambda x, a: x * x + x * np.sum(x),
    "a square": lambda x, a: 3.0 * (x * x) * a[0],
    "products": lambda x, a: np.sum((a @ x) * (a.T @ x)),
    "stores": stored,
    "branches": selected,
    "several outputs": factored,
    "scans and gathers": lambda x, a: np.cumsum(x[[0, 2, 2, 4]]) * np.sort(x)[:4],
    "integers and constants": lambda x, a: (np.argmax(x), x / np.arange(1.0, 6.0)),
    "an input that nothing reads": lambda x, a: np.cos(a),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("order", [1, 2])
def test_the_fast_sweep_gives_what_the_textbook_gives(name, order):
    tape, wrt = fdiff.make_tape(PROGRAMS[name], X, A), (0, 1)
    if order == 2:
        tape = jvp(tape, wrt)
    arrays = [RNG.normal(size=t.shape) for t in tape.input_types]
    seeds = [RNG.normal(size=t.shape) for t in tape.output_types if t.floating]
    expected = evaluate(textbook_vjp(tape, wrt), *arrays, *seeds)
    for fast, plain in zip(evaluate(vjp(tape, wrt), *arrays, *seeds), expected, strict=True):
        np.testing.assert_allclose(fast, plain, rtol=1e-12, atol=1e-13)


def test_the_textbook_is_slower_only_in_what_it_enters():
    """Both sweeps give tapes of the same length, where nothing is masked."""
    tape = fdiff.make_tape(PROGRAMS["a chain"], X, A)
    assert len(textbook_vjp(tape, (0,))) == len(vjp(tape, (0,)))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("derived", [None, jvp, vjp])
def test_the_interpreter_gives_every_bit_of_the_textbook(name, derived):
    tape = fdiff.make_tape(PROGRAMS[name], X, A)
    if derived is not None:
        tape = derived(tape, (0, 1))
    arrays = [RNG.normal(size=t.shape) for t in tape.input_types]
    for fast, plain in zip(evaluate(tape, *arrays), textbook_evaluate(tape, *arrays), strict=True):
        np.testing.assert_array_equal(fast, plain)
