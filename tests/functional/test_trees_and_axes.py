"""Trees without an end or of great depth are refused, and arrays have as many axes as NumPy's."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError, RetraceWarning, shown

X = np.linspace(0.2, 0.8, 3)


def nested(levels):
    tree = X
    for _ in range(levels):
        tree = [tree]
    return tree


def total(tree):
    while isinstance(tree, list):
        tree = tree[0]
    return np.sum(np.sin(tree))


def refusal(call):
    with pytest.raises(InputError) as caught:
        call()
    fact, line, way = str(caught.value).splitlines()
    assert line.startswith("    test_trees_and_axes.py:")
    assert (
        way == "Refer to what is further out by an int or a str; put nested arrays into one list."
    )
    return fact


def test_a_tree_that_contains_itself_is_refused():
    tree = {"x": X}
    tree["again"] = [tree]
    fact = "a dict among arguments or results contains itself."
    assert refusal(lambda: fdiff.grad(total)(tree)) == f"grad(total): {fact}"
    assert refusal(lambda: fdiff.vmap(total, in_axes=(tree,))(X)) == f"vmap(total): {fact}"
    assert refusal(lambda: fdiff.stop_gradient(tree)) == f"stop_gradient: {fact}"
    assert refusal(lambda: fdiff.jit(lambda x: tree)(X)) == f"jit(<lambda>): {fact}"
    assert tree["again"] == [tree]


def test_a_deep_tree_is_differentiated_and_one_that_is_too_deep_is_refused():
    tree = fdiff.grad(total)(nested(190))
    for _ in range(190):
        (tree,) = tree
    np.testing.assert_allclose(tree, np.cos(X))
    fact = "a list among arguments or results is over 200 levels deep."
    assert refusal(lambda: fdiff.grad(total)(nested(300))) == f"grad(total): {fact}"
    captured = nested(3000)
    fact = "an argument, a result or what `f` captures contains itself, or is nested too deep."
    assert refusal(lambda: fdiff.jit(lambda x: captured)(X)) == f"jit(<lambda>): {fact}"


def test_the_recursion_of_f_is_its_own():
    def forever(x):
        return forever(x) + x

    with pytest.raises(RecursionError):
        fdiff.grad(forever)(1.0)


@pytest.mark.parametrize("ndim", [31, 33, 64])
def test_arrays_have_as_many_axes_as_in_numpy(ndim):
    shape = (3, *(1,) * (ndim - 1))
    x = X.reshape(shape)

    def f(x):
        return np.sum(np.moveaxis(np.sin(x), 0, -1) * np.cos(x).T)

    u, v = np.sin(X), np.cos(X)
    slope = v * v - u * u
    assert fdiff.grad(f)(x).shape == shape
    np.testing.assert_allclose(fdiff.grad(f)(x).reshape(-1), slope)
    np.testing.assert_allclose(fdiff.jvp(f, x, x)[1], slope @ X)
    np.testing.assert_allclose(fdiff.hvp(f, x, x)[1].reshape(-1), -4 * u * v * X, rtol=1e-12)
    if ndim < 64:
        np.testing.assert_allclose(fdiff.jacobian(f, x).reshape(-1), slope)
        mapped = fdiff.vmap(np.sin)(np.stack([x, x]))
        np.testing.assert_array_equal(mapped, np.sin([x, x]))
    if ndim > 32:
        with pytest.raises(InputError, match=rf"would have {ndim} \+ {ndim} axes"):
            fdiff.jacobian(np.sin, x)
    else:
        square = fdiff.jacobian(np.sin, x)
        assert square.shape == 2 * shape
        np.testing.assert_allclose(square.reshape(3, 3), np.diag(np.cos(X)))


def test_a_list_that_is_too_deep_for_numpy_is_refused_in_words_of_ours():
    numbers = 0.5
    for _ in range(70):
        numbers = [numbers]
    with pytest.raises(InputError, match=r"^jacobian\(sin\): .* exceed the maximum") as caught:
        fdiff.jacobian(np.sin, numbers)
    assert str(caught.value).endswith("x.reshape(-1) has one.")


@pytest.mark.parametrize(
    "function", [np.sum, np.max, np.min, np.prod, np.any, np.argmax, np.cumsum, np.cumprod]
)
def test_axes_0_and_minus_1_of_a_scalar_are_as_in_numpy(function):
    for axis in (0, -1):
        result = fdiff.jit(lambda x, axis=axis: function(x, axis=axis))(0.5)
        np.testing.assert_array_equal(result, function(np.float64(0.5), axis=axis))
    assert fdiff.grad(lambda x: np.sum(x * x, axis=0))(0.5) == 1.0


def test_functions_in_a_result_are_the_user_s_own():
    sine, total_of = np.sin, np.sum
    with pytest.warns(RetraceWarning, match="a result of type ufunc cannot be compared"):
        result = fdiff.jit(lambda x: (sine, [total_of]))(X)
    assert result == (np.sin, [np.sum])


def test_values_in_messages_are_short_and_cannot_raise():
    class Refuses:
        def __repr__(self):
            raise ZeroDivisionError

    assert shown("no") == "'no'"
    assert len(shown(list(range(10**6)))) < 100
    assert len(shown(np.zeros((99, 99)))) < 200
    assert "\n" not in shown(np.zeros((99, 99)))
    assert "Refuses" in shown(Refuses())
    assert shown(nested(5000)) == "[[[[[...]]]]]" or "..." in shown(nested(5000))


def test_an_option_that_cannot_be_hashed_or_compared_is_refused():
    for value in (memoryview(bytearray(b"auto")), X, ["auto"], {}):
        for name in ("mode", "complex_inputs", "chunk_size", "device"):
            with pytest.raises(InputError, match=rf"^jacobian\(sin\): {name} must be"):
                fdiff.jacobian(np.sin, X, **{name: value})
