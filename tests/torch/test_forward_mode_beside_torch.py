"""Forward mode and gradient modes beside torch: the same programs give the same tangents.

What torch does there: `no_grad` leaves forward mode on and makes no graph, `inference_mode` turns
both off, and in functions that are differentiated by `grad` what is computed in it is a constant.
"""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fdiff
import fdiff.autograd as ours

X = np.array([0.5, -1.0, 2.0])
T = np.array([1.0, 3.0, -0.5])
OURS = SimpleNamespace(
    tensor=lambda x, grad=True: ours.tensor(np.array(x), requires_grad=grad),
    forward=ours.forward_ad, lib=ours, grad=ours.grad, sin=np.sin, exp=np.exp,
)  # fmt: skip
TORCH = SimpleNamespace(
    tensor=lambda x, grad=True: torch.tensor(x, requires_grad=grad),
    forward=torch.autograd.forward_ad, lib=torch, grad=torch.autograd.grad, sin=torch.sin,
    exp=torch.exp,
)  # fmt: skip
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.* is not supported:DeprecationWarning"),
]


def operations(p, x):
    with p.lib.no_grad():
        return p.sin(x) * x + p.exp(x)[1:].sum()


def through_a_block(p, x):
    before = p.sin(x)
    with p.lib.no_grad():
        inside = before * x
    return inside * before


def views(p, x):
    with p.lib.no_grad():
        y = (x * 1.0).reshape(3, 1).T
        return y[0, ::2] * y[0, 1]


def stores(p, x):
    with p.lib.no_grad():
        y = x * 1.0
        y *= x
        y[1:] += p.sin(x[:2])
        part = y[:2]
        part *= 2.0
    return y


def a_store_into_an_array_with_a_graph(p, x):
    w = p.tensor(X)
    y = w * 2.0
    with p.lib.no_grad():
        y *= x
    (g,) = p.grad((y * y.detach()).sum(), w, retain_graph=True)
    return y * g.detach()


def a_store_into_zeros(p, x):
    room = p.tensor(np.zeros(3), False)
    with p.lib.no_grad():
        room[:2] = x[1:] * x[:2]
    return room


def set_grad_enabled(p, x):
    with p.lib.set_grad_enabled(False):
        y = x * x
    with p.lib.no_grad(), p.lib.enable_grad():
        return y * x


def decorated(p, x):
    @p.lib.no_grad()
    def f(x):
        return x * p.sin(x)

    return f(x)


def a_gradient(p, x):
    return p.grad((x**3 * p.sin(x)).sum(), x)[0]


def a_gradient_without_recording(p, x):
    y = (x**3 * p.sin(x)).sum()
    with p.lib.no_grad():
        return p.grad(y, x)[0]


def a_recorded_gradient(p, x):
    (g,) = p.grad((x**3 * p.sin(x)).sum(), x, create_graph=True)
    return p.grad((g * g).sum(), x)[0]


PROGRAMS = [
    operations, through_a_block, views, stores, a_store_into_an_array_with_a_graph,
    a_store_into_zeros, set_grad_enabled, decorated, a_gradient, a_gradient_without_recording,
    a_recorded_gradient,
]  # fmt: skip


def pushed(p, program, outer=nullcontext):
    """Primal and tangent of what a program gives."""
    with outer(), p.forward.dual_level():
        x = p.forward.make_dual(p.tensor(X), p.tensor(T, False))
        primal, tangent = p.forward.unpack_dual(program(p, x))
        return [np.asarray(part.detach().numpy()) for part in (primal, tangent)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_tangents_go_through_no_grad(program):
    for found, expected in zip(pushed(OURS, program), pushed(TORCH, program), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("p", [OURS, TORCH], ids=["fdiff", "torch"])
def test_a_level_inside_no_grad(p):
    f = lambda p, x: p.sin(x) * x
    primal, tangent = pushed(p, f, p.lib.no_grad)
    np.testing.assert_allclose(primal, np.sin(X) * X)
    np.testing.assert_allclose(tangent, (np.cos(X) * X + np.sin(X)) * T)
    with p.lib.no_grad(), p.forward.dual_level():
        assert not p.lib.is_grad_enabled()


@pytest.mark.parametrize("p", [OURS, TORCH], ids=["fdiff", "torch"])
def test_no_graph_is_made(p):
    w = p.tensor(X)
    with p.forward.dual_level():
        x = p.forward.make_dual(w, p.tensor(T, False))
        with p.lib.no_grad():
            y = x * x
            tangent = p.forward.unpack_dual(y).tangent
        before = x * x
        with p.lib.no_grad():
            unpacked = p.forward.unpack_dual(before)
        assert not tangent.requires_grad
        assert not p.forward.unpack_dual(y).primal.requires_grad
        assert unpacked.primal.requires_grad
        assert unpacked.tangent.requires_grad
        (g,) = p.grad((y * x + before).sum(), w)
    np.testing.assert_allclose(g.detach().numpy(), X**2 + 2.0 * X)


@pytest.mark.parametrize("p", [OURS, TORCH], ids=["fdiff", "torch"])
def test_inference_mode_turns_tangents_off(p):
    with p.forward.dual_level():
        x = p.forward.make_dual(p.tensor(X, False), p.tensor(T, False))
        with p.lib.inference_mode():
            y = x * x
            assert p.forward.unpack_dual(y).tangent is None
        assert p.forward.unpack_dual(y).tangent is None
        assert p.forward.unpack_dual(x * x).tangent is not None


def test_in_functions_that_operators_differentiate_no_grad_makes_constants():
    def f(p):
        def of(x):
            with p.lib.no_grad():
                constant = x**2
            return (x * constant).sum()

        return of

    expected = torch.func.grad(f(TORCH))(torch.tensor(X)).numpy()
    np.testing.assert_allclose(fdiff.grad(f(OURS))(X), expected)
    # A function of fdiff has one derivative in every mode; in torch `jvp` sees no `no_grad`.
    np.testing.assert_allclose(fdiff.jvp(f(OURS), X, T)[1], expected @ T)
    with ours.no_grad(), torch.no_grad():  # outside it changes nothing
        np.testing.assert_allclose(fdiff.grad(f(OURS))(X), expected)
        assert np.array_equal(torch.func.grad(f(TORCH))(torch.tensor(X)).numpy(), expected)


class Rules:
    """A Function with both rules, whose forward rule is three times too steep, so that it shows."""

    def __new__(cls, p):
        class Square(p.lib.autograd.Function if p is TORCH else p.lib.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                ctx.save_for_forward(x)
                return x * x

            @staticmethod
            def backward(ctx, bar):
                return 2.0 * bar * ctx.saved_tensors[0]

            @staticmethod
            def jvp(ctx, dot):
                return 6.0 * dot * ctx.saved_tensors[0]

        return Square


@pytest.mark.parametrize("p", [OURS, TORCH], ids=["fdiff", "torch"])
def test_rules_for_forward_mode_hold_under_no_grad(p):
    function = Rules(p)
    with p.forward.dual_level():
        x = p.forward.make_dual(p.tensor(X, False), p.tensor(T, False))
        with p.lib.no_grad():
            y = function.apply(x)
        tangent = p.forward.unpack_dual(y).tangent
        np.testing.assert_allclose(tangent.detach().numpy(), 6.0 * X * T)
