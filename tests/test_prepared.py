"""What operators return: names and signatures, how it says it runs, kernels made before calls."""

import copy
import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdiff
from fdiff.errors import RetraceWarning, UnsupportedError

OPERATORS = [fdiff.grad, fdiff.value_and_grad, fdiff.jacobian, fdiff.hessian, fdiff.vjp, fdiff.jvp]
OPERATORS += [fdiff.hvp, fdiff.vhp, fdiff.vmap, fdiff.jit]


@pytest.fixture(autouse=True)
def _own_choice(monkeypatch):
    """Tiers are chosen by cost, nothing is known."""
    monkeypatch.delenv("FDIFF_TIER", raising=False)
    fdiff.cache_clear()


def model(x):
    """A model."""
    return np.sum(np.sin(x) * x**3)


def second(x):
    return -np.sin(x) * x**3 + 6.0 * np.cos(x) * x**2 + 6.0 * np.sin(x) * x


@pytest.mark.parametrize("operator", OPERATORS)
def test_it_is_named_after_the_function(operator):
    made = operator(model)
    assert (made.__name__, made.__doc__, made.__wrapped__) == ("model", "A model.", model)
    assert inspect.signature(made) == inspect.signature(model)
    assert repr(made) == f"<fdiff.{operator.__name__} of model, not called yet>"
    assert copy.copy(made) is made
    assert repr(copy.deepcopy(made)) == repr(made)


def test_the_repr_says_which_tier_runs_and_why(monkeypatch):
    made = fdiff.grad(model)
    made(np.ones(3))
    assert "\n  f8[3]: interpreted, the evaluator does not pay yet; " in repr(made)
    assert "so far are too few to think of a kernel>" in repr(made)
    made.compile("f8[5]")
    assert "\n  f8[5]: compiled>" in repr(made)
    monkeypatch.setenv("FDIFF_TIER", "interpret")
    assert "f8[3]: interpreted, FDIFF_TIER=interpret" in repr(made)
    monkeypatch.setenv("FDIFF_TIER", "fast")
    assert "f8[3]: interpreted, FDIFF_TIER=fast" in repr(made)  # to show is not to refuse


def test_what_has_no_kernel_is_named():
    made = fdiff.grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))
    made(np.ones(4))
    assert "there is no kernel for " in repr(made)
    assert "dft" in repr(made)
    with pytest.raises(UnsupportedError, match=r"grad.compile\(<lambda>\): there is no kernel for"):
        made.compile("f8[4]")


@pytest.mark.parametrize(
    ("made", "types", "words"),
    [
        (fdiff.grad(model), ["g8[3]"], r"grad.compile\(model\): 'g8\[3\]' names no dtype of NumPy"),
        (fdiff.grad(model), [], r"grad\(model\): argnums=0 requires at least 1"),
        (fdiff.grad(model), ["i8[3]"], r"grad\(model\): only floating-point inputs"),
        (fdiff.grad(model), ["f8[-3]"], r"grad\(model\): cannot differentiate .* type str"),
        (fdiff.hvp(model), [], r"hvp\(model\): the point and the vector are missing"),
        (fdiff.hvp(model), ["f8[3]", "f8[4]"], r"hvp\(model\): v has invalid size"),
    ],
)
def test_bad_types_are_refused(made, types, words):
    with pytest.raises(fdiff.errors.FdiffError, match=words) as caught:
        made.compile(*types)
    assert "test_prepared.py" in str(caught.value)  # the user's line


@pytest.mark.parametrize(
    ("operator", "types"),
    [
        (fdiff.value_and_grad, ["f8[3,2]"]),
        (fdiff.jacobian, ["f8[7]"]),
        (fdiff.hessian, ["f8[4]"]),
        (fdiff.hessian, ["f8[60]"]),  # compressed
        (fdiff.hvp, ["f8[4]", "f8[4]"]),
        (fdiff.jvp, ["f8[4]", "f8[4]"]),
        (fdiff.vmap, ["f8[4,3]"]),
        (fdiff.jit, ["f8[4]"]),
    ],
)
def test_compiled_before_the_first_call(operator, types):
    """Nothing is evaluated, and nothing is compiled again by the call."""
    f = (lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2)) if types == ["f8[60]"] else model
    made = operator(f)
    assert made.compile(*types) is made
    assert repr(made).endswith(f"{types[0]}: compiled>")
    kernels = fdiff.cache_info().entries
    shape = tuple(map(int, types[0][3:-1].split(",")))
    points = [np.random.default_rng(0).normal(size=shape) for _ in types]
    made(*points)
    assert fdiff.cache_info().entries == kernels > 0


def test_an_example_decides_branches():
    def f(x):
        return np.sum(x**2) if x[0] > 0 else np.sum(x**3)

    made = fdiff.grad(f).compile(np.ones(3))
    assert_allclose(made(np.full(3, 2.0)), np.full(3, 4.0))
    assert_allclose(made(np.full(3, -2.0)), np.full(3, 12.0))


def test_keyword_arguments_and_numbers():
    made = fdiff.grad(lambda x, power, scale=1.0: scale * np.sum(x**power))
    made.compile("f8[3]", 3, scale=2.0)
    assert_allclose(made(np.ones(3), 3, scale=2.0), np.full(3, 6.0))
    assert "f8[3]" in repr(made)


def test_methods_may_be_decorated():
    class Model:
        @fdiff.jit
        def value(self, x):
            return 2.0 * x

    with pytest.warns(RetraceWarning):
        assert Model().value(3.0) == 6.0


def test_prepared_functions_inside_functions():
    """They are used as they are there, and their reads are watched."""
    scale = np.array(3.0)
    inner = fdiff.grad(lambda x: scale * np.sum(np.sin(x)))
    outer = fdiff.jacobian(lambda x: inner(x) * x)
    x = np.linspace(0.1, 1.0, 4)
    for factor in (3.0, 5.0):
        scale = np.array(factor)
        wanted = np.diag(factor * (np.cos(x) - x * np.sin(x)))
        assert_allclose(outer(x), wanted, atol=1e-14)
    assert_allclose(fdiff.grad(lambda x: fdiff.grad(model)(x)[1])(x)[1], second(x[1]))
