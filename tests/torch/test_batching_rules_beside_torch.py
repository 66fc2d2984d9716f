"""``vmap`` of a class derived from `Function`, beside that of ``torch.autograd.Function``.

The rules are false on purpose (they scale what they compute), so that it shows which one was asked,
and each notes what it was told.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fdiff
import fdiff.autograd as ours

OURS = SimpleNamespace(
    Function=ours.Function, array=np.asarray, exp=np.exp, sin=np.sin, sum=np.sum,
    moveaxis=np.moveaxis, vmap=fdiff.vmap, grad=fdiff.grad, jacobian=fdiff.jacrev,
)  # fmt: skip
TORCH = SimpleNamespace(
    Function=torch.autograd.Function, array=torch.tensor, exp=torch.exp, sin=torch.sin,
    sum=torch.sum, moveaxis=torch.movedim, vmap=lambda f, axes=0, out=0: torch.vmap(f, axes, out),
    grad=torch.func.grad, jacobian=torch.func.jacrev,
)  # fmt: skip
ROWS = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]])


def scaled_exp(lib, told, *, vmap=None, generate=False, context=False):
    """An exponential with slope times 3, whose batching rule gives twice the value."""

    class Exp(lib.Function):
        generate_vmap_rule = generate

        if context:

            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(lib.exp(x))
                return lib.exp(x)

        else:

            @staticmethod
            def forward(x):
                return lib.exp(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(output)

        @staticmethod
        def backward(ctx, bar):
            (result,) = ctx.saved_tensors
            return 3.0 * bar * result

    def doubled(info, in_dims, x):
        told.append((info.batch_size, in_dims, tuple(x.shape)))
        return 2.0 * Exp.apply(x), in_dims[0]

    Exp.vmap = staticmethod(vmap or doubled)
    return Exp


def weighted(lib, told):
    """Two results of two arguments and a number; the second result is the same for all elements."""

    class Weighted(lib.Function):
        @staticmethod
        def forward(x, w, power):
            return x * w**power, lib.sum(w)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs[:2])
            ctx.power = inputs[2]

        @staticmethod
        def backward(ctx, bar, bar_sum):
            x, w = ctx.saved_tensors
            slope = bar * x * ctx.power * w ** (ctx.power - 1)
            return bar * w**ctx.power, slope + bar_sum, None

        @staticmethod
        def vmap(info, in_dims, x, w, power):
            told.append((info.batch_size, in_dims, tuple(x.shape), power))
            results = Weighted.apply(x, w, power)
            return (lib.moveaxis(results[0], 0, -1), results[1]), (-1, None)

    return Weighted


W = np.array([1.0, 2.0, 0.5])
pytestmark = pytest.mark.filterwarnings(
    "ignore::fdiff.errors.RetraceWarning"  # the rules note what they see
)


def product(pair):
    return pair[0] * pair[1]


PROGRAMS = {
    "alone": lambda lib, op: lib.vmap(op[0]),
    "of a derivative": lambda lib, op: lib.vmap(lib.grad(lambda x: lib.sum(lib.sin(op[0](x))))),
    "of a second derivative": lambda lib, op: lib.vmap(
        lib.jacobian(lib.grad(lambda x: lib.sum(lib.sin(op[0](x)))))
    ),
    "differentiated": lambda lib, op: lib.grad(lambda x: lib.sum(lib.sin(lib.vmap(op[0])(x)))),
    "between derivatives": lambda lib, op: lib.grad(
        lambda x: lib.sum(lib.vmap(lib.grad(lambda r: lib.sum(lib.sin(op[0](r)))))(x))
    ),
    "nested": lambda lib, op: lib.vmap(lib.vmap(op[0])),
    "nested, differentiated": lambda lib, op: lib.grad(
        lambda x: lib.sum(lib.sin(lib.vmap(lib.vmap(op[0]))(x)))
    ),
    "twice": lambda lib, op: lib.vmap(lambda x: op[0](lib.sin(op[0](x)) * x)),
    "not mapped": lambda lib, op: lambda x: lib.vmap(lambda r: op[0](x[0]) * r)(x),
    "two results": lambda lib, op: lib.vmap(lambda x: product(op[1](lib.sin(x), lib.array(W), 2))),
    "by weights": lambda lib, op: lib.grad(
        lambda w: lib.sum(lib.vmap(lambda x: product(op[1](x, w, 3)))(lib.array(ROWS)) ** 2)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_rule_is_asked_where_torch_asks_it(name):
    found = []
    for lib in (OURS, TORCH):
        told = []
        op = scaled_exp(lib, told).apply, weighted(lib, told).apply
        x = lib.array(W if name == "by weights" else ROWS)
        found.append((np.asarray(PROGRAMS[name](lib, op)(x)), told))
    (mine, asked), (theirs, expected) = found
    np.testing.assert_allclose(mine, theirs, rtol=1e-13, atol=1e-14)
    assert asked == expected


def test_torch_tells_which_axis_is_mapped_where_ours_is_in_front():
    for lib, dim, shape in ((TORCH, 1, (2, 3)), (OURS, 0, (3, 2))):
        told = []
        lib.vmap(scaled_exp(lib, told).apply, 1)(lib.array(ROWS))
        assert told == [(3, (dim,), shape)]


def message(lib, **options):
    with pytest.raises(RuntimeError) as raised:
        lib.vmap(scaled_exp(lib, [], **options).apply)(lib.array(ROWS))
    return str(raised.value)


@pytest.mark.parametrize("result", [lambda x: (x,), lambda x: (x, 0, 0)], ids=["one", "three"])
def test_a_rule_returns_two_things(result):
    rule = lambda info, in_dims, x: result(x)
    assert message(OURS, vmap=rule) == message(TORCH, vmap=rule)


def test_a_rule_returns_a_tuple():
    rule = lambda info, in_dims, x: [x, 0]
    assert message(OURS, vmap=rule) == message(TORCH, vmap=rule)


def test_one_rule_is_given_and_not_generated():
    assert message(TORCH, generate=True).startswith(message(OURS, generate=True))


def test_the_context_is_set_up_apart():
    words = "must override the setup_context staticmethod."
    assert words in message(OURS, context=True)
    assert words in message(TORCH, context=True)
