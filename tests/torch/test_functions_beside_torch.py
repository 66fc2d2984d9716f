"""`Function` beside ``torch.autograd.Function``: values, gradients of both orders, messages."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fdiff
import fdiff.autograd as ours
import fdiff.autograd.forward_ad as our_forward
from fdiff.autograd.function import once_differentiable

X = np.array([0.5, -1.0, 2.0])
OURS = SimpleNamespace(
    Function=ours.Function, tensor=lambda x: ours.tensor(np.array(x), requires_grad=True),
    grad=ours.grad, exp=np.exp, sin=np.sin, cos=np.cos, once=once_differentiable,
    no_grad=ours.no_grad, ones=np.ones,
)  # fmt: skip
TORCH = SimpleNamespace(
    Function=torch.autograd.Function, grad=torch.autograd.grad, exp=torch.exp, sin=torch.sin,
    tensor=lambda x: torch.tensor(x, requires_grad=True), cos=torch.cos, no_grad=torch.no_grad,
    once=torch.autograd.function.once_differentiable,
    ones=lambda n: torch.ones(n, dtype=torch.float64),
)  # fmt: skip


def exp(lib):
    class Exp(lib.Function):
        @staticmethod
        def forward(ctx, i):
            result = lib.exp(i)
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, bar):
            (result,) = ctx.saved_tensors
            return 3.0 * bar * result  # a false slope, so that the rule shows

    return Exp


def cube(lib):
    class Cube(lib.Function):
        @staticmethod
        def forward(x):
            return x**3, 3.0 * x**2

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0], output[1])

        @staticmethod
        def backward(ctx, bar, bar_slope):
            x, slope = ctx.saved_tensors
            return bar * slope + bar_slope * 6.0 * x

    return Cube


def scaled(lib):
    class Scaled(lib.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            ctx.factor = factor
            ctx.save_for_backward(x, y)
            assert len(ctx.needs_input_grad) == 3
            return x * factor * y

        @staticmethod
        def backward(ctx, bar):
            x, y = ctx.saved_tensors
            return (
                bar * ctx.factor * y,
                None,
                bar * x * ctx.factor if ctx.needs_input_grad[2] else None,
            )

    return Scaled


def returning(results, saved=()):
    """A function whose backward rule returns what ``results(bar)`` gives."""

    def make(lib):
        class Returning(lib.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2.0

            @staticmethod
            def backward(ctx, bar):
                return results(bar)

        return Returning

    return make


def played(lib, program):
    """What a program gives: arrays, or an error's first line."""
    try:
        found = program(lib)
    except (RuntimeError, NotImplementedError) as error:
        return type(error).__name__, str(error).splitlines()[0]
    return [None if g is None else np.asarray(g.detach().numpy()) for g in found]


def first_order(lib):
    x = lib.tensor(X)
    return lib.grad((exp(lib).apply(x * 2.0) * x).sum(), [x])


def second_order(lib):
    x = lib.tensor(X)
    (g,) = lib.grad((exp(lib).apply(x) ** 2).sum(), [x], create_graph=True)
    return lib.grad((g * x).sum(), [x])


def saved_output(lib):
    x = lib.tensor(X)
    y, slope = cube(lib).apply(x)
    (g,) = lib.grad((y * slope).sum(), [x], create_graph=True)
    return (g, *lib.grad((g * g).sum(), [x]))


def other_arguments(lib):
    x, y = lib.tensor(X), lib.tensor(X * 2.0)
    found = lib.grad(scaled(lib).apply(x, 3.0, y).sum(), [x, y])
    return (*found, *lib.grad(scaled(lib).apply(x, 3.0, y.detach()).sum(), [x]))


def too_many(lib):
    x = lib.tensor(X)
    return lib.grad(returning(lambda bar: (bar, bar))(lib).apply(x).sum(), [x])


def nones_behind(lib):
    x = lib.tensor(X)
    return lib.grad(returning(lambda bar: (bar, None, None))(lib).apply(x).sum(), [x])


def wrong_shape(lib):
    x = lib.tensor(X)
    return lib.grad(returning(lambda bar: bar[:2])(lib).apply(x).sum(), [x])


def summed_shape(lib):
    x = lib.tensor(X[:1])
    return lib.grad(returning(lambda bar: lib.ones(3))(lib).apply(x).sum(), [x])


def no_backward(lib):
    class Nothing(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

    x = lib.tensor(X)
    return lib.grad(Nothing.apply(x).sum(), [x])


def freed(lib):
    x = lib.tensor(X)
    y = exp(lib).apply(x).sum()
    y.backward()
    y.backward()
    return ()


def saved_is_modified(lib):
    x = lib.tensor(X)
    y = exp(lib).apply(x)
    y *= 2.0
    y.sum().backward()
    return ()


def unused_output(lib, materialize):
    seen = []

    class Two(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(materialize)
            return x * 2.0, x * 3.0

        @staticmethod
        def backward(ctx, a, b):
            seen.append(b is None)
            return a * 2.0 if b is None else a * 2.0 + b * 3.0

    x = lib.tensor(X)
    found = lib.grad(Two.apply(x)[0].sum(), [x])
    assert seen == [not materialize]
    return found


def materialized(lib):
    return unused_output(lib, True)


def not_materialized(lib):
    return unused_output(lib, False)


def not_differentiable(lib):
    class Sorted(lib.Function):
        @staticmethod
        def forward(ctx, x):
            order = x * 0.0 + 1.0
            ctx.mark_non_differentiable(order)
            return x * 2.0, order

        @staticmethod
        def backward(ctx, a, b):
            return a * 2.0

    x = lib.tensor(X)
    y, order = Sorted.apply(x)
    assert y.requires_grad
    assert not order.requires_grad
    return lib.grad((y * order).sum(), [x])


def dirty(lib, of_leaf=False):
    class Twice(lib.Function):
        @staticmethod
        def forward(ctx, x):
            x *= 2.0
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, bar):
            return bar * 20.0

    x = lib.tensor(X)
    y = x if of_leaf else x * 1.0
    z = Twice.apply(y)
    assert z is y
    return (*lib.grad((y * 1.0).sum(), [x]), z)


def dirty_leaf(lib):
    return dirty(lib, of_leaf=True)


def once(lib, *, twice):
    class Once(lib.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return lib.sin(x)

        @staticmethod
        @lib.once
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            return bar * lib.cos(x)

    x = lib.tensor(X)
    (g,) = lib.grad((Once.apply(x) ** 2).sum(), [x], create_graph=True)
    if twice:
        g.sum().backward()
    return (g,)


def once_alone(lib):
    return once(lib, twice=False)


def once_twice(lib):
    return once(lib, twice=True)


def without_grad(lib):
    x = lib.tensor(X)
    with lib.no_grad():
        y = exp(lib).apply(x)
    assert not y.requires_grad
    return (y,)


PROGRAMS = [
    first_order, second_order, saved_output, other_arguments, too_many, nones_behind, wrong_shape,
    summed_shape, no_backward, materialized, not_materialized, not_differentiable, dirty,
    dirty_leaf, once_alone, once_twice, without_grad, freed, saved_is_modified,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_programs_are_played_alike(program):
    mine, theirs = played(OURS, program), played(TORCH, program)
    if isinstance(theirs, tuple):  # an error: its kind, and how the message begins
        assert mine[0] == theirs[0]
        assert mine[1][:70] == theirs[1][:70]
        return
    assert len(mine) == len(theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def forward_tangent(lib, forward_ad):
    class Tripled(lib.Function):
        @staticmethod
        def forward(x):
            return lib.sin(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs)
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, bar):
            return bar * lib.cos(ctx.saved_tensors[0])

        @staticmethod
        def jvp(ctx, dot):
            return 3.0 * dot * lib.cos(ctx.saved_tensors[0])

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(lib.tensor(X), lib.tensor(X * X))
        return forward_ad.unpack_dual(Tripled.apply(dual)).tangent.detach().numpy()


@pytest.mark.skipif(
    not hasattr(torch.autograd.Function, "jvp"), reason="a version of torch without jvp"
)
def test_the_rule_for_forward_mode():
    np.testing.assert_allclose(forward_tangent(OURS, our_forward), 3.0 * np.cos(X) * X * X)


# --- in functions that are traced -----------------------------------------------------------------


def of(function, *more):
    return lambda x: np.sum(function.apply(x, *more))


def test_operators_trace_functions():
    np.testing.assert_allclose(fdiff.grad(of(exp(OURS)))(X), 3.0 * np.exp(X))
    np.testing.assert_allclose(fdiff.jacobian(exp(OURS).apply)(X), np.diag(3.0 * np.exp(X)))
    np.testing.assert_allclose(fdiff.jvp(exp(OURS).apply, X, X)[1], 3.0 * np.exp(X) * X)
    mapped = fdiff.vmap(fdiff.grad(of(exp(OURS))))(np.stack([X, -X]))
    np.testing.assert_allclose(mapped, 3.0 * np.exp(np.stack([X, -X])))
    twice = fdiff.hessian(lambda x: np.sum(cube(OURS).apply(x)[0]))(X)
    np.testing.assert_allclose(twice, np.diag(6.0 * X))
    slopes = fdiff.grad(lambda x, y: np.sum(scaled(OURS).apply(x, 3.0, y)), (0, 1))(X, 2.0 * X)
    np.testing.assert_allclose(slopes, (6.0 * X, 3.0 * X))
    np.testing.assert_array_equal(exp(OURS).apply(X), np.exp(X))


def test_rules_are_checked_in_traces_too():
    with pytest.raises(RuntimeError, match=r"expected 1, got 2"):
        fdiff.grad(of(returning(lambda bar: (bar, bar))(OURS)))(X)
    with pytest.raises(RuntimeError, match=r"`backward` gave a cotangent of shape \(2,\)"):
        fdiff.grad(of(returning(lambda bar: bar[:2])(OURS)))(X)


def test_once_differentiable_in_traces():
    class Once(ours.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return np.sin(x)

        @staticmethod
        @once_differentiable
        def backward(ctx, bar):
            return bar * np.cos(ctx.saved_tensors[0])

    np.testing.assert_allclose(fdiff.grad(of(Once))(X), np.cos(X))
    with pytest.raises(RuntimeError, match="differentiate twice"):
        fdiff.jacrev(fdiff.grad(of(Once)))(X)


def with_keywords(lib, seen):
    """A power times a factor, with the context given first, or set up apart."""

    class First(lib.Function):
        @staticmethod
        def forward(ctx, x, power=2, factor=1.0):
            ctx.save_for_backward(x)
            ctx.power, ctx.factor = power, factor
            return factor * x**power, "a name", None

        @staticmethod
        def backward(ctx, bar, *others):
            seen.append(others)
            (x,) = ctx.saved_tensors
            return bar * ctx.factor * ctx.power * x ** (ctx.power - 1), None, None

    class Apart(lib.Function):
        @staticmethod
        def forward(x, power=2, factor=1.0):
            return factor * x**power

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1:])
            ctx.save_for_backward(inputs[0])
            ctx.inputs = inputs[1:]

        @staticmethod
        def backward(ctx, bar):
            power, factor = ctx.inputs
            return bar * factor * power * ctx.saved_tensors[0] ** (power - 1), None, None

    return First, Apart


GIVEN = [((), {}), ((3,), {}), ((), {"power": 3}), ((3,), {"factor": 2.0})]
GAP = ((), {"factor": 2.0})  # torch takes a keyword behind a gap where the context is set up apart


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # the rules note what they see
@pytest.mark.parametrize(
    ("given", "apart"),
    [(given, apart) for given in GIVEN for apart in (False, True)] + [(GAP, True)],
)
def test_keywords_and_results_that_are_no_arrays(given, apart):
    args, kwargs = given
    found = []
    for lib in (OURS, TORCH):
        seen = []
        op = with_keywords(lib, seen)[apart]
        x = lib.tensor([0.5, 2.0, 3.0])
        made = op.apply(x, *args, **kwargs)
        y = made if apart else made[0]
        y.sum().backward()
        rest = None if apart else made[1:]
        found.append((np.asarray(y.detach()), np.asarray(x.grad), rest, seen))
    ours_, theirs = found
    np.testing.assert_allclose(ours_[0], theirs[0])
    np.testing.assert_allclose(ours_[1], theirs[1])
    assert ours_[2:] == theirs[2:]
    op = with_keywords(OURS, [])[apart]
    first = lambda made: made if apart else made[0]
    loss = lambda x: np.sum(first(op.apply(x, *args, **kwargs)))
    np.testing.assert_allclose(fdiff.grad(loss)(np.array([0.5, 2.0, 3.0])), theirs[1])


@pytest.mark.parametrize("apart", [False, True])
def test_keywords_that_forward_does_not_take(apart):
    for lib in (OURS, TORCH):
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'shape'"):
            with_keywords(lib, [])[apart].apply(lib.tensor([1.0]), shape=2)


def test_a_node_tells_what_was_saved():
    for lib in (OURS, TORCH):
        x = lib.tensor([0.5, 2.0])
        y = with_keywords(lib, [])[1].apply(x)
        (saved,) = y.grad_fn.saved_tensors
        assert saved is x or np.array_equal(saved.detach(), x.detach())
        y.sum().backward()
        with pytest.raises(RuntimeError, match="after they have already been freed"):
            _ = y.grad_fn.saved_tensors


def straight_through(lib, apart):
    """Minus the output as the slope of twice the argument: at any order the rule counts."""

    class Twice(lib.Function):
        if apart:

            @staticmethod
            def forward(x):
                return 2.0 * x

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(output)

        else:

            @staticmethod
            def forward(ctx, x):
                y = 2.0 * x
                ctx.save_for_backward(y)
                return y

        @staticmethod
        def backward(ctx, bar):
            return -bar * ctx.saved_tensors[0]

    return Twice


@pytest.mark.parametrize("apart", [False, True])
def test_derivatives_of_the_output_go_by_the_rule_at_second_order(apart):
    program = lambda op, x: (op.apply(x) ** 2 * x).sum()
    op = straight_through(TORCH, apart)
    x = TORCH.tensor(X)
    (slope,) = torch.autograd.grad(program(op, x), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    op = straight_through(OURS, apart)
    f = lambda x: program(op, x)
    np.testing.assert_allclose(fdiff.grad(f)(X), slope.detach())
    np.testing.assert_allclose(fdiff.hessian(f)(X), np.diag(second))
    np.testing.assert_allclose(fdiff.hvp(f, X, np.ones(3))[1], second)
    np.testing.assert_allclose(fdiff.jacrev(fdiff.grad(f))(X), np.diag(second))
    x = OURS.tensor(X)
    (mine,) = ours.grad(program(op, x), x, create_graph=True)
    np.testing.assert_allclose(ours.grad(np.sum(mine), x)[0], second)


@pytest.mark.parametrize("lib", [OURS, TORCH], ids=["ours", "torch"])
def test_what_is_no_argument_has_no_gradient(lib):
    """In a list, or read from outside: forward runs without recording."""
    outside = lib.tensor([1.0, 2.0])
    modes = []

    class Product(lib.Function):
        @staticmethod
        def forward(ctx, pair, factor):
            y = pair[0] * pair[1] * outside
            modes.append(y.requires_grad)
            return y * factor

        @staticmethod
        def backward(ctx, bar):
            raise AssertionError("nothing is differentiated")

    x = lib.tensor([3.0, 4.0])
    out = Product.apply([x, x], 2.0)
    assert not out.requires_grad
    assert modes == [False]
    np.testing.assert_array_equal(np.asarray(out), [18.0, 64.0])


@pytest.mark.parametrize("lib", [OURS, TORCH], ids=["ours", "torch"])
def test_the_node_of_a_function_has_what_its_context_keeps(lib):
    class Twice(lib.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.save_for_backward(x)
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, bar):
            return bar * ctx.factor, None

    x = lib.tensor([3.0, 4.0])
    node = Twice.apply(x, 2.0).grad_fn
    assert node.factor == 2.0
    assert node.needs_input_grad == (True, False)
    (saved,) = node.saved_tensors
    np.testing.assert_array_equal(saved.detach().numpy(), [3.0, 4.0])
    with pytest.raises(AttributeError):
        node.nothing  # noqa: B018 - asking is the test


@pytest.mark.parametrize("lib", [OURS, TORCH], ids=["ours", "torch"])
def test_a_gradient_can_be_deleted(lib):
    x = lib.tensor([3.0, 4.0])
    (x * x).sum().backward()
    assert x.grad is not None
    del x.grad
    assert x.grad is None


def test_plain_arrays_that_are_saved_are_copied():
    class Scaled(OURS.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(w)
            return x * w

        @staticmethod
        def backward(ctx, bar):
            return bar * ctx.saved_tensors[0], None

    x, w = OURS.tensor(X), X.copy()
    y = Scaled.apply(x, w)
    w[:] = 0.0  # nobody sees this
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), X)
