"""`custom_vjp`, `custom_jvp`, `primitive` and `stop_gradient` called with recorded arrays."""

import numpy as np
import pytest

import fdiff
from fdiff import errors
from fdiff.autograd import RecordedArray, forward_ad, grad, no_grad, tensor


@fdiff.custom_vjp
def softplus(x):
    return np.log(1 + np.exp(x))


softplus.defvjp(lambda x: (np.logaddexp(0, x), x), lambda x, bar: (bar / (1 + np.exp(-x)),))


@fdiff.custom_vjp
def clipped(x):
    return x


clipped.defvjp(lambda x: (x, None), lambda _, bar: (np.clip(bar, -1.0, 1.0),))


@fdiff.custom_jvp
def rounded(x):
    return np.round(x)


rounded.defjvp(lambda p, t: (rounded(*p), t[0]))


@fdiff.custom_jvp
def product(x, y):
    return np.sin(x) * y


product.defjvp(lambda p, t: (product(*p), 2 * (np.cos(p[0]) * t[0] * p[1] + np.sin(p[0]) * t[1])))
partials = fdiff.primitive(lambda x: x * x, partials=lambda x, out: (3.0 * x,))
pulled = fdiff.primitive(lambda x: x * x, vjp=lambda bar, out, x: (3.0 * x * bar,))
pushed = fdiff.primitive(lambda x: x * x, jvp=lambda dots, out, x: 3.0 * x * dots[0])

LOSSES = {
    "softplus": lambda x: np.sum(softplus(x) * x),
    "clipped": lambda x: np.sum(3.0 * x * clipped(x)),
    "rounded": lambda x: np.sum(rounded(x) * np.array([1.0, 2.0]) * x),
    "product": lambda x: np.sum(product(x, y=x[1])),
    "partials": lambda x: np.sum(partials(x) * x),
    "pulled": lambda x: np.sum(pulled(x) * x),
    "pushed": lambda x: np.sum(pushed(x) * x),
    "stopped": lambda x: np.sum(fdiff.stop_gradient({"a": x})["a"] * x**2),
}
X = np.array([0.3, 1.7])


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_obey_the_rules_at_every_order(name):
    loss, x = LOSSES[name], tensor(X, requires_grad=True)
    (first,) = grad(loss(x), x)
    np.testing.assert_allclose(first, fdiff.grad(loss)(X), rtol=1e-12)
    (first,) = grad(loss(x), x, create_graph=True)
    np.testing.assert_allclose(first.detach(), fdiff.grad(loss)(X), rtol=1e-12)
    loss(x).backward()
    np.testing.assert_allclose(x.grad, fdiff.grad(loss)(X), rtol=1e-12)
    if name == "clipped":
        return  # no derivative of its value: `tests/torch` has the second one, which is torch's
    (second,) = grad(np.sum(first * np.array([1.0, -2.0])), x, create_graph=True)
    weighted = lambda x: np.sum(fdiff.grad(loss)(x) * np.array([1.0, -2.0]))
    np.testing.assert_allclose(second.detach(), fdiff.grad(weighted)(X), rtol=1e-12, atol=1e-14)


def test_the_value_is_that_of_the_forward_rule():
    x = tensor([0.0, 1000.0], requires_grad=True)
    y = softplus(x)
    np.sum(y).backward()
    np.testing.assert_allclose(y.detach(), [np.log(2.0), 1000.0])
    np.testing.assert_allclose(x.grad, [0.5, 1.0])


@pytest.mark.parametrize("f", [softplus, rounded, partials, pulled])
def test_nothing_is_recorded_without_need(f):
    x = tensor([1.0, 2.0], requires_grad=True)
    with no_grad():
        out = f(x)
    assert isinstance(out, RecordedArray)
    assert not out.requires_grad
    still = f(x.detach())
    assert isinstance(still, RecordedArray)
    assert not still.requires_grad
    np.testing.assert_allclose(out, f(np.array([1.0, 2.0])))


def test_stop_gradient_detaches():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = fdiff.stop_gradient(x * 3)
    assert isinstance(y, RecordedArray)
    assert y.is_leaf
    assert not y.requires_grad


def test_structures_other_values_and_stores():
    @fdiff.custom_vjp
    def scaled(p, k, name):
        return {"out": p["w"] * k, "name": name}

    scaled.defvjp(
        lambda p, k, name: (scaled(p, k, name), k),
        lambda k, bar: ({"w": 10 * k * bar["out"], "n": None}, None, None),
    )
    w, factor = tensor([1.0, 2.0], requires_grad=True), np.array([2.0, 3.0])
    found = scaled({"w": w, "n": 3}, factor, "text")
    factor[:] = 100.0  # what was given is what counts
    assert found["name"] == "text"
    np.sum(found["out"]).backward()
    assert np.array_equal(w.grad, [20.0, 30.0])
    x = tensor([1.0, 2.0], requires_grad=True)
    y = clipped(x)
    y *= 5.0  # it is not the memory of x, although the function gives its argument
    np.sum(y).backward()
    assert np.array_equal(x.detach(), [1.0, 2.0])
    assert np.array_equal(x.grad, [1.0, 1.0])


def test_calls_are_traced_anew_for_branches_and_what_they_read():
    slope = np.array(2.0)

    @fdiff.custom_vjp
    def f(x):
        return x * slope if x[0] > 0 else -x * slope

    f.defvjp(lambda x: (f(x), x), lambda x, bar: (bar * (slope if x[0] > 0 else -7.0 * slope),))
    found = []
    for sign in (1.0, -1.0, 1.0):
        x = tensor([sign, 1.0], requires_grad=True)
        out = np.sum(f(x))
        slope += 1.0
        out.backward()
        found.append(list(x.grad.numpy()))
    assert found == [[2.0, 2.0], [-21.0, -21.0], [4.0, 4.0]]


def test_forward_mode():
    def tangent(f):
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(tensor(X, requires_grad=True), tensor([1.0, 5.0]))
            return forward_ad.unpack_dual(f(dual)).tangent.detach()

    for f in (softplus, rounded, partials, pulled, pushed):
        np.testing.assert_allclose(tangent(f), fdiff.jvp(f, X, np.array([1.0, 5.0]))[1], rtol=1e-12)
    with pytest.raises(errors.UnsupportedError, match="not linear in the cotangents"):
        tangent(clipped)


def test_refusals():
    w = tensor([3.0, 3.0], requires_grad=True)

    @fdiff.custom_vjp
    def closes(x):
        return x * w

    closes.defvjp(lambda x: (closes(x), None), lambda _, bar: (bar,))
    with pytest.raises(errors.InputError, match="inside a function that is traced"):
        closes(tensor([1.0, 2.0], requires_grad=True))

    @fdiff.custom_vjp
    def stores(x):
        x[0] = 1.0
        return x * 2

    stores.defvjp(lambda x: (stores(x), None), lambda _, bar: (bar,))
    with pytest.raises(errors.FdiffError, match=r"[Ss]tore"):
        stores(tensor([1.0, 2.0], requires_grad=True) * 1)
