"""Dual arrays: tangents against `fdiff.jvp`, reverse over forward, levels, and what is refused."""

import subprocess
import sys
import threading

import numpy as np
import pytest

import fdiff
from fdiff import autograd, errors
from fdiff.autograd import forward_ad
from fdiff.autograd.functions.custom_nodes import custom_node

X = np.array([1.1, 2.0, 3.2])
T = np.array([1.0, 0.5, -1.0])
A = np.array([[2.0, 0.3, 0.1], [0.2, 3.0, 0.4], [0.5, 0.1, 4.0]])

FUNCTIONS = {
    "elementwise": lambda x: np.sin(x) * np.exp(-x * x) / (1.0 + np.square(x)) + np.arctan2(x, 2.0),
    "where": lambda x: np.where(x > 1.5, np.sqrt(np.abs(x - 1.5)), 0.0) * x,
    "reductions": lambda x: np.sum(x) * np.prod(x) + np.max(x) * np.mean(x) + np.var(x),
    "scans": lambda x: np.cumsum(x) * np.cumprod(x),
    "shapes": lambda x: (
        np.outer(x, x).reshape(-1)[::2] + np.concatenate([x, x[1:], x[::-1][:1]])[:5]
    ),
    "indexing": lambda x: x[[0, 2, 2, 1]] * np.take(x, [1, 1, 0, 0]),
    "products": lambda x: A @ x + np.einsum("ij,i->j", A, x) + np.dot(x, x),
    "linalg": lambda x: np.linalg.solve(A * x, x) + np.linalg.inv(A + np.diag(x)) @ x,
    "several outputs": lambda x: np.linalg.eigh(A + A.T + np.diag(x))[0],
    "sorting": lambda x: np.sort(x[::-1]) * np.median(x),
    "power": lambda x: x**2.5 + 2.0**x + x**x,
    "constants": lambda x: x - np.round(x) + (x > 2.0) * x,
}


def pushed(f, x, t):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, t)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_are_those_of_jvp(name):
    value, tangent = pushed(FUNCTIONS[name], X, T)
    wanted = fdiff.jvp(FUNCTIONS[name], X, T)
    np.testing.assert_allclose(value.numpy(), wanted[0], rtol=1e-13)
    np.testing.assert_allclose(tangent.numpy(), wanted[1], rtol=1e-11)
    assert not value.requires_grad
    assert not tangent.requires_grad


def test_complex_tangents():
    z, v = X + 1j * T, T - 2j * X
    f = lambda z: np.exp(1j * z) * z + np.conj(z) * np.abs(z) + np.real(z) * np.imag(z)
    tangent = pushed(f, z, v).tangent.numpy()
    step = 1e-6
    np.testing.assert_allclose(tangent, (f(z + step * v) - f(z - step * v)) / (2 * step), rtol=1e-8)


@pytest.mark.parametrize("name", ["elementwise", "reductions", "products", "where", "power"])
def test_reverse_over_forward(name):
    f = FUNCTIONS[name]
    x = autograd.tensor(X, requires_grad=True)
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, T)))
        assert value.requires_grad
        np.sum(tangent).backward()
    wanted = fdiff.grad(lambda x: np.sum(fdiff.jvp(f, x, T)[1]))(X)
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=1e-10)


def test_gradients_flow_to_the_tangent():
    t = autograd.tensor(T, requires_grad=True)
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(np.sin(forward_ad.make_dual(X, t))).tangent
        tangent.sum().backward()
    np.testing.assert_allclose(t.grad.numpy(), np.cos(X), rtol=1e-14)


def test_gradients_flow_to_the_primal_through_what_is_computed():
    x = autograd.tensor(X, requires_grad=True)
    with forward_ad.dual_level():
        np.sum(forward_ad.make_dual(x, T) ** 2).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * X)


def test_what_does_not_move_has_no_tangent():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        for still in (autograd.tensor(X, requires_grad=True), x.detach(), x * 0 > 1, X, 2.0):
            primal, tangent = forward_ad.unpack_dual(still)
            assert primal is still
            assert tangent is None
        assert (
            forward_ad.unpack_dual(autograd.tensor(X, requires_grad=True) * x).tangent is not None
        )


def test_the_tangent_of_a_dual_is_the_one_given():
    t = autograd.tensor(T)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, t)
        assert forward_ad.unpack_dual(x).tangent is t
        same = forward_ad.make_dual(X.astype("f4"), T)
        assert forward_ad.unpack_dual(same).tangent.dtype == np.float32


def test_tangents_end_with_their_level():
    with forward_ad.dual_level() as level:
        y = np.sin(forward_ad.make_dual(X, T))
        assert level is None or level == 0
        assert forward_ad.unpack_dual(y).tangent is not None
    assert forward_ad.unpack_dual(y) == (y, None)
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(y).tangent is None


def test_a_level_works_where_gradients_are_off_and_holds_for_its_thread():
    with autograd.no_grad():
        assert pushed(np.sin, X, T).tangent is not None
        assert not autograd.is_grad_enabled()
    seen = []
    with forward_ad.dual_level():
        thread = threading.Thread(target=lambda: seen.append(pushed(np.sin, X, T).tangent))
        thread.start()
        thread.join()
    np.testing.assert_allclose(seen[0].numpy(), np.cos(X) * T)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tangents_go_on_where_gradients_are_off(name):
    x = autograd.tensor(X, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, T)
        with autograd.no_grad():
            primal, tangent = forward_ad.unpack_dual(FUNCTIONS[name](dual))
        (np.sum(primal) * np.sum(dual)).backward()
    wanted = fdiff.jvp(FUNCTIONS[name], X, T)
    np.testing.assert_allclose(primal.numpy(), wanted[0], rtol=1e-13)
    np.testing.assert_allclose(tangent.numpy(), wanted[1], rtol=1e-11)
    np.testing.assert_allclose(x.grad.numpy(), np.full(3, np.sum(wanted[0])), rtol=1e-13)


def test_rules_of_the_user_push_where_gradients_are_off():
    @fdiff.custom_jvp
    def steep(x):
        return np.sin(x)

    steep.defjvp(lambda primals, tangents: (np.sin(primals[0]), 3.0 * tangents[0]))

    class Reverse(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return np.sin(x) * 2.0

        @staticmethod
        def backward(ctx, bar):
            return bar

    with forward_ad.dual_level(), autograd.no_grad():
        x = forward_ad.make_dual(X, T)
        np.testing.assert_allclose(forward_ad.unpack_dual(steep(x)).tangent.numpy(), 3.0 * T)
        with refused(errors.UnsupportedError, "it has no rule for forward mode"):
            Reverse.apply(x)
        np.testing.assert_allclose(Reverse.apply(X), 2.0 * np.sin(X))
        with refused(errors.InputError, "made in inference mode, in which nothing has a tangent"):
            autograd.inference_mode(forward_ad.make_dual)(X, T)


def test_nothing_is_packed_for_what_has_no_graph():
    packed = []
    hooks = autograd.graph.saved_tensors_hooks(packed.append, lambda content: content)
    with forward_ad.dual_level(), autograd.no_grad(), hooks:
        x = forward_ad.make_dual(X, T)
        tangent = forward_ad.unpack_dual(autograd.checkpoint(lambda x: x * x, x)).tangent
    assert not packed
    np.testing.assert_allclose(tangent.numpy(), 2.0 * X * T)


def test_a_leaf_with_a_gradient_takes_no_tangent():
    w = autograd.tensor(X, requires_grad=True)
    with forward_ad.dual_level(), autograd.no_grad():
        w -= 0.5 * X
        with refused(errors.UnsupportedError, "stored into a leaf that requires a gradient"):
            w *= forward_ad.make_dual(X, T)
    np.testing.assert_allclose(w.detach().numpy(), 0.5 * X)


def test_gradients_in_a_level_have_tangents():
    f = lambda x: np.sum(np.sin(x) * x**2)
    wanted = fdiff.hvp(f, X, T)[1]
    x = autograd.tensor(X, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, T)
        for inputs in (dual, x):
            (g,) = autograd.grad(f(dual), inputs)
            np.testing.assert_allclose(forward_ad.unpack_dual(g).tangent.numpy(), wanted)
        rows = np.eye(3)
        (g,) = autograd.grad(np.sin(dual), dual, rows, is_grads_batched=True)
        assert forward_ad.unpack_dual(g).tangent.shape == (3, 3)
        (g,) = autograd.grad(dual, dual, autograd.tensor(X))
        assert forward_ad.unpack_dual(g).tangent is None
        f(dual).backward()  # carries no tangents
        assert forward_ad.unpack_dual(x.grad).tangent is None


def test_functions_are_decorated():
    @forward_ad.dual_level()
    def tangent(x):
        return forward_ad.unpack_dual(forward_ad.make_dual(x, T) * 2.0).tangent

    np.testing.assert_allclose(tangent(X).numpy(), 2.0 * T)


def refused(kind, words):
    return pytest.raises(kind, match=words)


def test_what_is_refused():
    with refused(RuntimeError, "no level exists, make sure to enter_dual_level"):
        forward_ad.make_dual(X, T)
    with refused(RuntimeError, "none was entered"):
        forward_ad.exit_dual_level()
    assert forward_ad.enter_dual_level() == 0
    try:
        with refused(RuntimeError, "Nested forward mode AD is not supported"):
            forward_ad.enter_dual_level()
        with refused(RuntimeError, "was not the last one that was created"):
            forward_ad.exit_dual_level(level=3)
        with refused(ValueError, "Expected primal to be floating point or complex, but got: int64"):
            forward_ad.make_dual(np.arange(3), T)
        with refused(ValueError, "Expected tangent to be floating point or complex, but got: bool"):
            forward_ad.make_dual(X, X > 0)
        with refused(RuntimeError, r"Tensor is of size \[3\] while .* is of size \[2\]"):
            forward_ad.make_dual(X, T[:2])
        with refused(errors.InputError, "a real array was given a complex tangent"):
            forward_ad.make_dual(X, 1j * T)
        x = forward_ad.make_dual(X, T)
        with refused(RuntimeError, "already has a forward gradient at the same level 0"):
            forward_ad.make_dual(x * 2.0, T)
        with refused(RuntimeError, "itself has a forward gradient at the same level 0"):
            forward_ad.make_dual(X, x)
    finally:
        forward_ad.exit_dual_level(level=0)


def test_a_rule_for_reverse_mode_alone_is_refused():
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        (y,) = custom_node("Double", [x], [2.0 * X], lambda bar: (2.0 * bar,))
        with refused(errors.UnsupportedError, "Double has a rule for reverse mode alone"):
            forward_ad.unpack_dual(y)


def test_the_module_is_there_without_an_import_of_its_own():
    code = "import fdiff; print(fdiff.autograd.forward_ad.dual_level.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "dual_level\n"
    assert not hasattr(fdiff.autograd, "reverse_ad")


@pytest.mark.parametrize("which", [0, 1])
def test_plain_arrays_are_copied(which):
    """Nobody sees stores into them, and tangents read them when they are asked for."""
    arrays = [X.copy(), T.copy()]
    with forward_ad.dual_level():
        x = forward_ad.make_dual(*arrays)
        y = x * x
        arrays[which][:] = 0.0
        np.testing.assert_array_equal(forward_ad.unpack_dual(y).tangent.numpy(), 2.0 * X * T)


def test_a_tangent_that_was_stored_into():
    tangent = autograd.tensor(T)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, tangent)
        before, y = forward_ad.unpack_dual(x * 2.0).tangent, x * 3.0
        tangent *= 5.0
        np.testing.assert_array_equal(before.numpy(), 2.0 * T)
        assert forward_ad.unpack_dual(x).tangent is tangent
        words = (
            r"the tangent of an operand of MultiplyBackward0 has been modified by an inplace"
            r" operation\.\n.*tangent \*= 5\.0\nTangents are computed when unpack_dual asks for"
            r" them: ask before, or store into a copy\."
        )
        for _ in range(2):  # an error is no answer: the next one who asks gets it too
            with pytest.raises(RuntimeError, match=words):
                forward_ad.unpack_dual(y)
