"""Code as it is written for torch: checkpoints, rules and hooks, without torch at hand.

`tests/torch/test_ported_code_beside_torch.py` compares the same with torch.
"""

import numpy as np
import pytest

import fdiff
from fdiff.autograd import Function, forward_ad, grad, graph, tensor

X = np.array([1.0, 2.0])


def leaf():
    return tensor(X, requires_grad=True)


def _slope(a):
    (bar,) = grad(np.sum(a**3 * np.sin(a)), a, create_graph=True)
    (second,) = grad(bar.sum(), a, create_graph=True)
    return second * bar


def test_gradients_inside_of_checkpoints_are_those_without():
    plain, kept = leaf(), leaf()
    for depth in range(3):  # each is a derivative of the one before
        found = [_slope(plain).sum(), fdiff.checkpoint(_slope, kept).sum()]
        for _ in range(depth):
            pairs = zip(found, (plain, kept), strict=True)
            found = [grad(y, x, create_graph=True)[0].sum() for y, x in pairs]
        for y in found:
            y.backward()
        np.testing.assert_allclose(kept.grad, plain.grad, rtol=1e-13)
        plain.grad = kept.grad = None


def test_a_checkpoint_runs_as_far_as_something_is_saved():
    calls = []

    def f(a, plain):
        calls.append(("begin", a is y, plain.tolist()))
        plain *= 2.0
        b = a * plain
        calls.append("end")
        return b + 1.0

    x = leaf()
    y = x * 2.0
    out = fdiff.checkpoint(f, y, np.ones(2)).sum()
    for _ in range(2):  # plain arguments are as they were each time
        out.backward(retain_graph=True)
    assert calls == [("begin", True, [1.0, 1.0]), "end"] + [("begin", True, [1.0, 1.0])] * 2
    np.testing.assert_array_equal(x.grad, 8.0)


def test_rules_are_given_zeros_for_arrays_that_do_not_move():
    given = []

    class Product(Function):
        @staticmethod
        def forward(ctx, a, b, scale):
            ctx.save_for_forward(a, b)
            return a * b * scale

        @staticmethod
        def jvp(ctx, da, db, dscale):
            given.append((np.shape(da), np.shape(db), dscale))
            a, b = ctx.saved_tensors
            return 3 * (da * b + a * db)

    with forward_ad.dual_level() as level:
        dual = forward_ad.make_dual(X, X)
        for args in ((dual, tensor(X)), (leaf(), dual), (X, dual)):
            out = Product.apply(*args, 3)
            np.testing.assert_array_equal(forward_ad.unpack_dual(out).tangent.detach(), 3 * X * X)
    assert given == [((2,), (2,), None)] * 3
    assert level == 0


def test_vjp_is_another_name_of_backward():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def vjp(ctx, bar):
            return bar * 7

    class Both(Double):
        @staticmethod
        def backward(ctx, bar):
            return bar

    x = leaf()
    np.testing.assert_array_equal(grad(Double.apply(x).sum(), x)[0], 7.0)
    np.testing.assert_array_equal(fdiff.grad(lambda x: np.sum(Double.apply(x)))(X), 7.0)
    for call in (lambda: Both.apply(leaf()), lambda: fdiff.grad(lambda x: Both.apply(x)[0])(X)):
        with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
            call()


def test_a_context_outlives_its_graph():
    kept = []

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, bar):
            kept.append(ctx)
            return bar * 2 * ctx.saved_tensors[0]

    for retain in (True, False):
        Square.apply(leaf()).sum().backward(retain_graph=retain)
    x, y = kept[0].saved_tensors
    np.testing.assert_array_equal([x.detach(), y.detach()], [X, X * X])
    with pytest.raises(RuntimeError, match="freed"):  # the way through the rule went with the graph
        y.sum().backward()
    with pytest.raises(RuntimeError, match="freed"):
        kept[1].saved_tensors  # noqa: B018 - reading raises


def test_an_output_that_is_returned_twice_is_one_array():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * 3

    x = leaf()
    a, b = Twice.apply(x)
    assert a is b
    (expected,) = grad((a * b).sum(), x)
    np.testing.assert_array_equal(expected, 2 * 2 * X * 3)

    def f(x):
        a, b = Twice.apply(x)
        assert a is b
        return np.sum(a * b)

    np.testing.assert_array_equal(fdiff.grad(f)(X), expected)


def test_what_hooks_are_given_and_may_give():
    x, packed = leaf(), []
    with graph.saved_tensors_hooks(lambda a: packed.append(a.tolist()) or a, lambda a: a):
        y = x * 2.5 + x**3 + 2 * np.sin(x)
    assert all(value == X.tolist() for value in packed)  # and no numbers
    np.testing.assert_allclose(grad(y.sum(), x)[0], 2.5 + 3 * X**2 + 2 * np.cos(X))
    for result, kind in ((lambda leaf: leaf * 2, RuntimeError), (lambda leaf: 3, TypeError)):
        x = leaf()
        x.register_post_accumulate_grad_hook(result)
        with pytest.raises(kind, match="hook"):
            x.sum().backward()


def test_edges_without_a_gradient_are_told_and_duals_of_traced_arrays():
    x, y = leaf(), leaf()
    for edge in (graph.get_gradient_edge(y), graph.get_gradient_edge(y * 2)):
        with pytest.raises(RuntimeError, match="materialize_grads cannot be used"):
            grad(x.sum(), (x, edge), materialize_grads=True)

    def push(t):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(forward_ad.make_dual(X, t)).tangent

    with pytest.raises(fdiff.errors.InputError, match=r"an operator traces this[\s\S]*fdiff.jvp"):
        fdiff.vmap(push)(np.eye(2))


def test_the_old_name_of_saved_tensors_warns():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, bar):
            with pytest.warns(DeprecationWarning, match="use 'saved_tensors'"):
                (x,) = ctx.saved_variables
            return 2 * x * bar

    np.testing.assert_array_equal(grad(Square.apply(x := leaf()).sum(), x)[0], 2 * X)
