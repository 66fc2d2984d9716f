"""Prepared functions in the user's own ``@njit`` code: values are those of the call from Python."""

import numba
import numpy as np
import pytest

import fdiff

SCALE = np.arange(1.0, 6.0)
RNG = np.random.default_rng(0)


def rosen(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def model(a, b):
    return SCALE * np.sin(a) * b


def assert_same(found, wanted):
    """The same structure, dtypes, shapes and values."""
    if isinstance(wanted, tuple):
        assert type(found) is tuple
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            assert_same(a, b)
    elif isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=0.0)  # sums are reordered
    elif isinstance(wanted, (float, np.float32)):
        assert found == pytest.approx(float(wanted), rel=1e-13, abs=0.0)
    else:
        assert found == wanted
        assert type(found) is type(wanted)


def in_njit(function, count):
    """A function of ``@njit`` code that calls this one with so many arguments."""
    names = ", ".join(f"a{k}" for k in range(count))
    space = {"numba": numba, "function": function}
    exec(f"@numba.njit\ndef call({names}):\n    return function({names})\n", space)
    return space["call"]


X, A = np.linspace(0.1, 1.0, 6), np.arange(5.0)
CASES = {
    "grad": (fdiff.grad(rosen), X),
    "value_and_grad": (fdiff.value_and_grad(rosen), X),
    "float32": (fdiff.value_and_grad(rosen), X.astype("f4")),
    "hessian": (fdiff.hessian(rosen), X),
    "hvp": (fdiff.hvp(rosen), X, np.cos(X)),
    "vhp": (fdiff.vhp(rosen), X, np.cos(X)),
    "jacobian": (fdiff.jacobian(model), A, 2.0),
    "jacobian by both": (fdiff.jacobian(model, argnums=(0, 1)), A, 2.0),
    "jacrev": (fdiff.jacrev(model, argnums=1), A, 2.0),
    "jacfwd": (fdiff.jacfwd(model), A, 2.0),
    "vjp": (fdiff.vjp(model), A, np.ones(5), 2.0),
    "vjp by both": (fdiff.vjp(model, argnums=(0, 1)), (A, 2.0), np.ones(5)),
    "jvp": (fdiff.jvp(model), A, np.ones(5), 2.0),
    "jvp by both": (fdiff.jvp(model, argnums=(0, 1)), (A, 2.0), (np.ones(5), 1.0)),
    "vmap": (fdiff.vmap(np.dot, in_axes=(0, None)), np.ones((3, 5)), A),
    "a number": (fdiff.grad(np.sin), 1.0),
    "no axes": (fdiff.grad(np.sin), np.array(1.0)),
    "an int": (fdiff.jit(lambda x, n: x**n), X, 3),
    "empty": (fdiff.grad(lambda x: np.sum(x * x)), np.zeros(0)),
    "column-major": (fdiff.grad(lambda x: np.sum(x * x)), np.asfortranarray(RNG.random((3, 4)))),
    "indices": (fdiff.grad(lambda x, i: np.sum(x[i] ** 2)), X, np.array([1, 2, 1])),
    "a mask": (fdiff.grad(lambda x, i: np.sum(np.where(i, x, x**2))), X, X > 0.5),
    "one output twice, and constants": (
        fdiff.jit(lambda x: (x * 2, (x * 2, np.sum(x)), 3, 2.5, None, True)), X,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_the_call_from_python(name):
    prepared, *args = CASES[name]
    call = in_njit(fdiff.njit(prepared, *args), len(args))
    assert_same(call(*args), prepared(*args))


@pytest.mark.slow
def test_other_shapes_and_layouts_are_taken_and_captured_data_is_seen():
    function = fdiff.njit(fdiff.value_and_grad(rosen), "f8[6]")
    call = in_njit(function, 1)
    for n in (2, 3, 7, 40):
        x = np.linspace(0.0, 1.0, n)
        assert_same(call(x), function(x))
        assert_same(call(np.repeat(x, 2)[::2]), function(x))
    scale = np.ones(3)
    slope = fdiff.grad(lambda x: np.sum(scale * x))
    call = in_njit(fdiff.njit(slope, "f8[3]"), 1)
    assert_same(call(np.ones(3)), np.ones(3))
    scale[1] = 5.0
    assert_same(call(np.ones(3)), scale)


def test_a_prepared_function_is_used_directly_once_it_was_called():
    slope = fdiff.grad(lambda x: rosen(x))
    with pytest.raises(numba.TypingError, match=r"(?s)no call with arguments \(f8\[:\]\) is known"):
        in_njit(slope, 1)(X)
    wanted = slope(X)
    assert_same(in_njit(slope, 1)(X), wanted)
