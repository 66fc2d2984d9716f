"""``vmap`` of a class derived from `Function`: `fdiff.vmap` asks it for the outputs of a batch.

Rules here are false on purpose (they give twice the value), so that it shows who was asked.
"""

import numpy as np
import pytest

import fdiff
from fdiff import errors
from fdiff.autograd import Function, tensor

ROWS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])
FACTOR = np.array([2.0])
FOUND = [0]


class Exp(Function):
    @staticmethod
    def forward(x):
        return np.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, bar):
        return bar * ctx.saved_tensors[0]

    @staticmethod
    def vmap(info, in_dims, x):
        return FACTOR * Exp.apply(x) if x.ndim > 1 else FACTOR[0] * Exp.apply(x), in_dims[0]


class Scaled(Function):
    """Has no rule but that for batches, which counts on nothing but what it is given."""

    @staticmethod
    def forward(x, shift, name):
        return {"sin": np.sin, "cos": np.cos}[name](x) + shift

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def vmap(info, in_dims, x, shift, name):
        assert in_dims[2] is None
        shifts = shift if in_dims[1] is None else shift.reshape((-1,) + (1,) * (x.ndim - 1))
        return 2.0 * Scaled.apply(x, shifts, name), 0


def single(rule):
    """A class whose `vmap` is the function given."""
    return type("Single", (Exp,), {"vmap": staticmethod(rule)})


def test_what_a_rule_reads_from_outside_is_seen_when_it_changes():
    f = fdiff.vmap(Exp.apply)
    np.testing.assert_allclose(f(ROWS), 2.0 * np.exp(ROWS))
    FACTOR[:] = 5.0
    try:
        np.testing.assert_allclose(f(ROWS), 5.0 * np.exp(ROWS))
    finally:
        FACTOR[:] = 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (1,), (4,), (2, 3), (2, 0)])
def test_shapes_and_dtypes(shape, dtype):
    x = np.linspace(-1, 1, int(np.prod(shape)), dtype=dtype).reshape(shape)
    rule = lambda info, in_dims, x: (Exp.apply(x) * dtype(2), 0)
    found = fdiff.vmap(single(rule).apply)(x)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, 2.0 * np.exp(x), rtol=1e-6)


def test_arguments_that_are_not_mapped_and_those_that_are_no_arrays():
    x, shift = ROWS, np.array([10.0, 20.0])
    whole = fdiff.vmap(lambda x: Scaled.apply(x, 3.0, "cos"))(x)
    np.testing.assert_allclose(whole, 2.0 * (np.cos(x) + 3.0))
    each = fdiff.vmap(lambda x, s: Scaled.apply(x, s, "sin"))(x, shift)
    np.testing.assert_allclose(each, 2.0 * (np.sin(x) + shift[:, None]))


def test_a_class_without_backward_is_mapped_and_not_differentiated():
    f = lambda x: np.sum(fdiff.vmap(lambda r: Scaled.apply(r, 0.0, "sin"))(x))
    with pytest.raises(NotImplementedError, match="backward"):
        fdiff.grad(f)(ROWS)


def test_an_argument_of_integers():
    f = fdiff.vmap(lambda k: Exp.apply(np.abs(k) * 0.5))
    np.testing.assert_allclose(f(np.array([-1, 2])), 2.0 * np.exp([0.5, 1.0]))


def test_branches_split_a_batch_and_the_rule_is_asked_for_each_part():
    sizes = []

    def rule(info, in_dims, x):
        sizes.append(info.batch_size)
        return 2.0 * Exp.apply(x), 0

    f = single(rule).apply
    x = np.array([-1.0, 0.5, 2.0, -3.0])
    with pytest.warns(errors.RetraceWarning, match="sizes"):
        found = fdiff.vmap(lambda t: f(t) if t > 0 else t)(x)
    np.testing.assert_allclose(found, np.where(x > 0, 2.0 * np.exp(x), x))
    assert sum(sizes) == 2


def test_a_branch_on_what_the_rule_gives():
    x = np.array([-1.0, 0.5, 2.0, -3.0])
    found = fdiff.vmap(lambda t: t * 10 if Exp.apply(t) > 1.0 else t)(x)
    np.testing.assert_allclose(found, np.where(2 * np.exp(x) > 1.0, x * 10, x))


def test_inside_of_other_operators():
    twice = 2.0 * np.exp(ROWS)
    np.testing.assert_allclose(fdiff.vmap(fdiff.jit(Exp.apply))(ROWS), twice)
    np.testing.assert_allclose(fdiff.jit(fdiff.vmap(Exp.apply))(ROWS), twice)
    np.testing.assert_allclose(
        fdiff.vmap(Exp.apply)(tensor(ROWS, requires_grad=True)).detach(), twice
    )
    np.testing.assert_allclose(fdiff.vmap(Exp.apply, in_axes=1, out_axes=1)(ROWS), twice)
    for mode in (fdiff.jacfwd, fdiff.jacrev):
        found = mode(fdiff.vmap(Exp.apply))(ROWS)
        np.testing.assert_allclose(found, np.diag(twice.ravel()).reshape(2, 3, 2, 3))


def test_derivatives_of_a_derivative_inside():
    f = lambda x: np.sum(fdiff.vmap(fdiff.grad(lambda r: np.sum(np.sin(Exp.apply(r)))))(x))
    value, gradient = fdiff.value_and_grad(f)(ROWS)
    y = 2.0 * np.exp(ROWS)  # what the rule gives, of which `backward` makes the slope
    np.testing.assert_allclose(value, np.sum(np.cos(y) * y))
    np.testing.assert_allclose(gradient, (np.cos(y) - np.sin(y) * y) * y)


def test_a_call_that_is_mapped_by_an_outer_vmap_alone():
    inner = lambda x: fdiff.vmap(lambda t: t * np.sum(Exp.apply(x)))(np.array([1.0, 2.0]))
    expected = 2.0 * np.exp(ROWS).sum(axis=1)[:, None] * [1.0, 2.0]
    np.testing.assert_allclose(fdiff.vmap(inner)(ROWS), expected)


def test_a_call_that_is_not_mapped_keeps_its_own_rule():
    f = lambda w: np.sum(fdiff.vmap(lambda x: x * Exp.apply(w))(ROWS[0]))
    np.testing.assert_allclose(fdiff.grad(f)(0.5), np.exp(0.5) * ROWS[0].sum())


def test_in_a_checkpoint():
    f = fdiff.vmap(fdiff.checkpoint(lambda x: np.sin(Exp.apply(x))))
    y = 2.0 * np.exp(ROWS)
    np.testing.assert_allclose(f(ROWS), np.sin(y))
    np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(f(x)))(ROWS), np.cos(y) * y)
    inside = fdiff.checkpoint(lambda x: np.sum(np.sin(Exp.apply(x))))
    np.testing.assert_allclose(fdiff.vmap(fdiff.grad(inside))(ROWS), np.cos(y) * y)


def test_a_derivative_inside_by_what_the_call_does_not_depend_on():
    f = lambda x, t: t**2 * np.sum(Exp.apply(x))
    g = fdiff.vmap(fdiff.jacobian(f, argnums=1), in_axes=(0, None))
    expected = 6.0 * 2.0 * np.exp(ROWS).sum(axis=1)
    np.testing.assert_allclose(g(ROWS, 3.0), expected)
    outer = lambda x: np.sum(g(x, 3.0))
    np.testing.assert_allclose(fdiff.grad(outer)(ROWS), 6.0 * 2.0 * np.exp(ROWS))


def test_tangents_by_a_rule_for_forward_mode():
    class Push(Function):
        forward, setup_context, vmap = Exp.forward, Exp.setup_context, Exp.vmap

        @staticmethod
        def jvp(ctx, dot):
            return dot * ctx.saved_tensors[0]

    out, tangent = fdiff.jvp(fdiff.vmap(Push.apply), ROWS, np.ones_like(ROWS))
    np.testing.assert_allclose(out, 2.0 * np.exp(ROWS))
    np.testing.assert_allclose(tangent, 2.0 * np.exp(ROWS))


WRONG = {
    "another number of results": (lambda x: ((x, x), 0), "gives 2 arrays; the function returns 1"),
    "an axis that is not there": (lambda x: (x, 5), "Give out_dims an axis that the array has"),
    "an axis that is no number": (lambda x: (x, "a"), "must hold ints and None"),
    "another length": (lambda x: (x, 1), "3 elements along its axis, not 2"),
    "another shape": (lambda x: (x[:, :2], 0), r"gives f8\[2\] for each element"),
    "another dtype": (lambda x: (x.astype(np.float32), 0), r"gives f4\[3\]"),
    "no axis": (lambda x: (x, None), r"gives f8\[2,3\] for each element"),
    "axes in another structure": (lambda x: (x, (0, 0)), "out_dims"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_rule_returns_is_checked(name):
    given, words = WRONG[name]
    rule = single(lambda info, in_dims, x: given(x))
    with pytest.raises(errors.InputError, match=words) as raised:
        fdiff.vmap(rule.apply)(ROWS)
    assert "Single" in str(raised.value) or "forward" in str(raised.value)


def test_an_argument_without_a_derivative():
    f = lambda r: np.sum(Exp.apply(fdiff.stop_gradient(r)) * r)
    twice = 2.0 * np.exp(ROWS)
    np.testing.assert_allclose(fdiff.vmap(fdiff.grad(f))(ROWS), twice)
    np.testing.assert_allclose(fdiff.vmap(fdiff.jacfwd(f))(ROWS), twice)
    np.testing.assert_allclose(fdiff.vmap(fdiff.hessian(f))(ROWS), np.zeros((2, 3, 3)))
    out, dot = fdiff.vmap(lambda r: fdiff.jvp(f, r, r))(ROWS)
    np.testing.assert_allclose(out, np.sum(twice * ROWS, axis=1))
    np.testing.assert_allclose(dot, out)
    steps = lambda r: np.sum(Exp.apply(np.floor(r)) * r)
    np.testing.assert_allclose(fdiff.vmap(fdiff.grad(steps))(ROWS), 2 * np.exp(np.floor(ROWS)))


def test_in_a_checkpoint_that_reads_a_mapped_array_from_outside():
    f = lambda x, w: np.sum(fdiff.checkpoint(lambda x: Exp.apply(w) * x)(x))
    found = fdiff.vmap(fdiff.grad(f))(ROWS, ROWS)
    np.testing.assert_allclose(found, 2.0 * np.exp(ROWS))


def test_a_call_that_only_waits_for_what_is_mapped_is_not_asked():
    """In the derivative of a checkpoint, what is computed again waits for cotangents."""
    inside = fdiff.checkpoint(lambda w: Exp.apply(Exp.apply(w)))
    f = lambda w, x: np.sum(inside(w)) * x[0]
    w = 0.1 * ROWS[0]
    slope = np.exp(np.exp(w) + w)
    found = fdiff.vmap(fdiff.grad(f), in_axes=(None, 0))(w, ROWS)
    np.testing.assert_allclose(found, slope * ROWS[:, :1])


def test_results_that_are_no_arrays_beside_arrays():
    class Tagged(Exp):
        @staticmethod
        def forward(x):
            return np.exp(x), "a name", None

        @staticmethod
        def vmap(info, in_dims, x):
            return (2.0 * np.exp(x), "a name", None), (0, None, None)

    np.testing.assert_allclose(fdiff.vmap(lambda x: Tagged.apply(x)[0])(ROWS), 2 * np.exp(ROWS))


def test_a_rule_that_reads_a_value_of_one_element():
    def f(x):
        return single(lambda info, in_dims, y: (x[0] * y, 0)).apply(x)

    with pytest.raises(errors.UnsupportedError, match="computed for one element"):
        fdiff.vmap(f)(ROWS)


def test_a_rule_that_takes_other_arguments():
    with pytest.raises(TypeError, match=r"vmap\(info, in_dims, \*args\)"):
        fdiff.vmap(single(lambda info, in_dims: None).apply)(ROWS)


def test_the_rule_of_the_base_class_tells_what_to_write():
    with pytest.raises(NotImplementedError, match="override the vmap staticmethod"):
        Function.vmap(None, (0,), ROWS)
