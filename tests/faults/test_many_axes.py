"""Arrays of as many axes as NumPy has: what fits is right, and what does not is told in one way."""

from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError

FUNCTIONS = {
    "square": lambda x: np.sum(x**2 + x),
    "entries": lambda x: x**3,
    "one axis more": lambda x: np.sum(np.sin(x[None])),
    "stacked": lambda x: np.sum(np.stack([x, x * x])),
    "outer": lambda x: np.sum(np.multiply.outer(x, x)),
}
OPERATORS = {
    "value_and_grad": lambda f, x: fdiff.value_and_grad(lambda t: np.sum(f(t)))(x)[1],
    "jvp": lambda f, x: fdiff.jvp(f, x, np.ones_like(x)),
    "vjp": lambda f, x: fdiff.vjp(lambda t: np.sum(f(t)), x),
    "hvp": lambda f, x: fdiff.hvp(lambda t: np.sum(f(t)), x, np.ones_like(x)),
    "jacobian": lambda f, x: fdiff.jacobian(f, x),
    "hessian": lambda f, x: fdiff.hessian(lambda t: np.sum(f(t)), x),
    "hessian_diagonal": lambda f, x: fdiff.hessian_diagonal(lambda t: np.sum(f(t)), x),
    "vmap": lambda f, x: fdiff.vmap(f)(x),
    "jit": lambda f, x: fdiff.jit(f)(x),
    "vmap(whole)": lambda f, x: fdiff.vmap(lambda y, t: y * f(t), (0, None))(np.ones(1), x),
}


def numbers(result):
    """All entries of a result, whatever its shapes."""
    if isinstance(result, tuple):
        return np.concatenate([numbers(part) for part in result])
    return np.ravel(result)


def call_or_words(operator, f, x):
    """The result of a call, and the words of an error of fdiff's."""
    try:
        return operator(f, x), ""
    except InputError as error:
        return None, str(error)


def own_words(words, name):
    """Whether an error names the call, the line, the fact and the way out, in three lines."""
    first, line, way = words.split("\n")
    told = first.startswith(f"{name.split('(')[0]}(") and " axes" in first and "64 at most" in first
    return told and Path(__file__).name in line and way.startswith("Leave out axes of length 1")


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("axes", [31, 32, 33, 63, 64])
def test_arrays_of_many_axes_are_right_or_told(name, axes):
    """One entry: its derivatives are those of an array of one axis.

    What NumPy refuses without fdiff keeps NumPy's words.
    """
    for kind, f in FUNCTIONS.items():
        x = np.full((1,) * axes, 0.7)
        try:
            f(x[0] if name == "vmap" else x)
        except (ValueError, IndexError):
            with pytest.raises((ValueError, IndexError)):
                OPERATORS[name](f, x)
            continue
        result, words = call_or_words(OPERATORS[name], f, x)
        if words:
            assert own_words(words, name), (kind, words)
            assert axes > 31, kind
            continue
        wanted = OPERATORS[name](f, np.array([0.7]))
        np.testing.assert_allclose(numbers(result), numbers(wanted), rtol=1e-14, err_msg=kind)
