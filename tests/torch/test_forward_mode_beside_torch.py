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


# --- what rules of a Function have saved, and stores ----------------------------------------------


def base(p):
    return p.lib.autograd.Function if p is TORCH else p.lib.Function


def product(p, for_backward, for_forward):
    """Rules that keep other arrays for `jvp` than for `backward`, outputs among them."""

    class Product(base(p)):
        @staticmethod
        def forward(x, y):
            return x * y

        @staticmethod
        def setup_context(ctx, inputs, output):
            arrays = {"x": inputs[0], "y": inputs[1], "z": output}
            ctx.save_for_backward(*[arrays[name] for name in for_backward])
            ctx.save_for_forward(*[arrays[name] for name in for_forward])

        @staticmethod
        def backward(ctx, bar):
            total = sum(k * a for k, a in enumerate(ctx.saved_tensors, 1))
            return bar * total, -bar * total

        @staticmethod
        def jvp(ctx, x_dot, y_dot):
            total = sum(k * a for k, a in enumerate(ctx.saved_tensors, 1))
            return (x_dot - y_dot) * total

    return Product


def both_modes(p, function, mode):
    x, y = p.tensor(X), p.tensor(X[::-1].copy())
    with p.forward.dual_level():
        with mode(p):
            z = function.apply(p.forward.make_dual(x, p.tensor(T, False)), y)
        yield p.forward.unpack_dual(z).tangent
        if z.requires_grad and mode is not no_grad:
            yield from p.grad(z.sum(), (x, y))


def no_grad(p):
    return p.lib.no_grad()


def recording(_):
    return nullcontext()


@pytest.mark.parametrize("mode", [recording, no_grad])
@pytest.mark.parametrize("for_forward", ["x", "y", "z", "yx", "zy"])
@pytest.mark.parametrize("for_backward", ["x", "zx", "yz"])
def test_what_is_saved_for_jvp_is_apart_from_what_is_saved_for_backward(
    for_backward, for_forward, mode
):
    found, expected = (
        [*both_modes(p, product(p, for_backward, for_forward), mode)] for p in (OURS, TORCH)
    )
    assert len(found) == len(expected) == (1 if mode is no_grad else 3)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-14)


@pytest.mark.parametrize("for_forward", ["x", "y", "z", "yx", "zy"])
def test_operators_ask_jvp_with_what_is_saved_for_it(for_forward):
    cls = product(OURS, "x", for_forward)
    function = type("Forward", (ours.Function,), {
        name: staticmethod(getattr(cls, name)) for name in ("forward", "setup_context", "jvp")
    })  # fmt: skip
    (expected, *_) = both_modes(TORCH, product(TORCH, "x", for_forward), no_grad)
    _, found = fdiff.jvp(lambda x: function.apply(x, X[::-1].copy()), (X,), (T,))
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-14)


@pytest.mark.parametrize("mode", [recording, no_grad])
def test_a_rule_that_stores_into_its_tangent_changes_no_other(mode):
    class Doubled(ours.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def jvp(ctx, dot):
            dot *= 2.0
            return dot

    tangent = ours.tensor(T)
    with OURS.forward.dual_level():
        x = OURS.forward.make_dual(ours.tensor(X), tangent)
        with mode(OURS):
            y = Doubled.apply(x)
            tangents = [OURS.forward.unpack_dual(a).tangent.numpy() for a in (y, x, x * 3.0)]
    np.testing.assert_array_equal(tangents, [2.0 * T, T, 3.0 * T])  # torch has 2, 2 and 6
    np.testing.assert_array_equal(tangent.numpy(), T)


def applied(p, mode, **rules):
    """Two results, the second one marked as constant, of a Function with these rules for `x`."""

    def forward(ctx, x):
        flat = x * 1.0
        ctx.mark_non_differentiable(flat)
        return x * 2.0, flat

    methods = {name: staticmethod(rule) for name, rule in rules.items()}
    cls = type("Rules", (base(p),), {"forward": staticmethod(forward), **methods})
    with p.forward.dual_level():
        x = p.forward.make_dual(p.tensor(X, False), p.tensor(T, False))
        with mode(p):
            return [p.forward.unpack_dual(y).tangent for y in cls.apply(x)]


@pytest.mark.parametrize("mode", [recording, no_grad])
@pytest.mark.parametrize("p", [OURS, TORCH], ids=["fdiff", "torch"])
def test_apply_calls_the_rule_for_forward_mode(p, mode):
    first, second = applied(p, mode, jvp=lambda _, dot: (dot * 2.0, None))
    np.testing.assert_array_equal(first.numpy(), 2.0 * T)
    assert second is None
    with pytest.raises(RuntimeError, match="You should return None at that position"):
        applied(p, mode, jvp=lambda _, dot: (dot * 2.0, dot))
    with pytest.raises(NotImplementedError, match="jvp"):
        applied(p, mode, backward=lambda _, bar, __: bar)


TANGENTS = {  # arrays whose memory tangents are in
    "given": lambda p, t, x, y, v: t,
    "part of what was given": lambda p, t, x, y, v: t[1:],
    "of the dual": lambda p, t, x, y, v: p.forward.unpack_dual(x).tangent,
    "of a result": lambda p, t, x, y, v: p.forward.unpack_dual(y).tangent,
    "of a view": lambda p, t, x, y, v: p.forward.unpack_dual(v).tangent,
    "part of that of a result": lambda p, t, x, y, v: p.forward.unpack_dual(y).tangent[:1],
}
READ = {
    "the dual": lambda p, x, y, v: x,
    "a result": lambda p, x, y, v: y,
    "a result of it": lambda p, x, y, v: p.sin(y),
    "its view": lambda p, x, y, v: v,
    "a product": lambda p, x, y, v: x * y,
    "of the view": lambda p, x, y, v: v * v,
}


def stored_between(p, place, read, *, first):
    """A tangent that is asked for after a store into another; what reads it is made `first`."""
    with p.forward.dual_level():
        t = p.tensor(T, False)
        x = p.forward.make_dual(p.tensor(X, False), t)
        y, v = p.exp(x), x.reshape(3, 1)
        made = READ[read](p, x, y, v) if first else None
        part = TANGENTS[place](p, t, x, y, v)
        part *= 5.0
        made = READ[read](p, x, y, v) if made is None else made
        return p.forward.unpack_dual(made).tangent.numpy()


@pytest.mark.parametrize("place", TANGENTS)
def test_after_a_store_into_a_tangent_others_are_right_or_refused(place):
    right, refused = 0, 0
    for read in READ:
        for first in (True, False):
            expected = stored_between(TORCH, place, read, first=first)
            try:
                found = stored_between(OURS, place, read, first=first)
            except RuntimeError as error:
                assert "has been modified by an inplace operation" in str(error)  # noqa: PT017 - which of both is no matter
                assert "ask before, or store into a copy" in str(error)  # noqa: PT017 - as above
                refused += 1
            else:
                np.testing.assert_allclose(found, expected, err_msg=f"{read}, {first}")
                right += 1
    assert right >= 2, "tangents that are read from no other one"
    assert refused, "tangents that are"
