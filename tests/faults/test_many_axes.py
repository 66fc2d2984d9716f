"""Arrays of as many axes as NumPy has: what fits is right, and what does not is told in one way."""

import re
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


def test_shapes_are_broadcast_by_fdiff_alone():
    """NumPy's functions take 32 axes where NumPy's arrays have 64."""
    texts = {p: p.read_text(encoding="utf-8") for p in Path(fdiff.__file__).parent.rglob("*.py")}
    calling = [p.name for p, text in texts.items() if re.search(r"np\.broadcast_[sa]\w+\(", text)]
    assert calling == ["arraytype.py"]


@pytest.mark.parametrize("axes", [31, 32, 33, 63])
@pytest.mark.parametrize("indexed", [1, 3, 31])
def test_what_is_gathered_along_many_axes(axes, indexed):
    """`numpy.add.at` crashes where more than 32 axes are indexed."""
    rng = np.random.default_rng(0)
    x = rng.random((1,) * (axes - 1) + (3,))
    if indexed < 31:
        x = np.moveaxis(x, -1, 0)
        key = (np.array([2, 0, 2]), *[np.zeros(3, int)] * (indexed - 1))
    else:
        key = tuple(np.zeros(1, int) for _ in range(min(indexed, axes - 1)))
    counts = np.zeros(x.size)
    np.add.at(counts, np.ravel(np.arange(x.size).reshape(x.shape)[key]), 1.0)
    slopes = fdiff.grad(lambda x: np.sum(x[key]))(x)
    np.testing.assert_array_equal(slopes.ravel(), counts)
    wide = np.zeros((1,) * axes, int)
    y = np.array([0.5, 0.7])
    slopes = fdiff.grad(lambda y: np.sum(y[wide] * y[wide]))(y)
    np.testing.assert_allclose(slopes, [1.0, 0.0])


@pytest.mark.parametrize("axes", [32, 33, 40])
@pytest.mark.parametrize("name", ["choose", "clip", "add", "where", "vectorize", "hypot", "fmod"])
def test_operations_on_arrays_of_many_axes(name, axes):
    """Each broadcasts its operands."""
    x = np.full((1,) * axes, 0.7)
    f = {
        "choose": lambda x: np.sum(np.choose(np.zeros(x.shape, int), [x * x, x])),
        "clip": lambda x: np.sum(np.clip(x * x, 0.0, x)),
        "add": lambda x: np.sum(np.add(x * x, np.ones(3))),
        "where": lambda x: np.sum(np.where(x > 0.5, x * x, np.ones(3))),
        "vectorize": lambda x: np.sum(np.vectorize(lambda a, b: a * b)(x, x)),
        "hypot": lambda x: np.sum(np.hypot(x, np.ones(3))),
        "fmod": lambda x: np.sum(np.fmod(x * x, np.ones(2))),
    }[name]
    slopes, wanted = (fdiff.grad(f)(y) for y in (x, np.array([0.7])))
    np.testing.assert_allclose(slopes.ravel(), wanted, rtol=1e-14)
    jacobians = (fdiff.jacobian(lambda y: np.array([f(y), 2 * f(y)]))(y) for y in (x, x.ravel()))
    np.testing.assert_allclose(*map(np.ravel, jacobians), rtol=1e-14)
