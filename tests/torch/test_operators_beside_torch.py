"""Operators called with recorded arrays, beside torch's functional calls of tensors in a graph."""

import numpy as np
import pytest
import torch

import fdiff
import fdiff.autograd as ours

functional = torch.autograd.functional
X = np.array([0.7, 1.3, 2.1])
V = np.array([1.5, -0.5, 2.0])


def scalar(lib):
    return lambda x: (lib.sin(x) * x**2).sum() + x[0] * x[1] * x[2]


def vector(lib):
    return lambda x: (lib.exp(x) * x[0], (x * x).sum())


CALLS = {  # what torch gives, and what fdiff does
    "grad": (lambda x: torch.func.grad(scalar(torch))(x), lambda x: fdiff.grad(scalar(np))(x)),
    "jacobian": (
        lambda x: functional.jacobian(vector(torch), x, create_graph=True),
        lambda x: fdiff.jacobian(vector(np), x),
    ),
    "hessian": (
        lambda x: functional.hessian(scalar(torch), x, create_graph=True),
        lambda x: fdiff.hessian(scalar(np), x),
    ),
    "vjp": (
        lambda x: functional.vjp(vector(torch), x, (x * 2.0, x[0]), create_graph=True),
        lambda x: fdiff.vjp(vector(np), x, (x * 2.0, x[0])),
    ),
    "jvp": (
        lambda x: functional.jvp(vector(torch), x, x * 2.0, create_graph=True),
        lambda x: fdiff.jvp(vector(np), x, x * 2.0),
    ),
    "hvp": (
        lambda x: functional.hvp(scalar(torch), x, x * x, create_graph=True),
        lambda x: fdiff.hvp(scalar(np), x, x * x),
    ),
    "vhp": (
        lambda x: functional.vhp(scalar(torch), x, x * x, create_graph=True),
        lambda x: fdiff.vhp(scalar(np), x, x * x),
    ),
    "vmap": (
        lambda x: torch.func.vmap(lambda a: torch.sin(a) * a)(x),
        lambda x: fdiff.vmap(lambda a: np.sin(a) * a)(x),
    ),
}


def leaves(found):
    return [x for part in found for x in leaves(part)] if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", CALLS)
def test_gradients_of_both_orders(name):
    theirs, own = CALLS[name]
    x, z = torch.tensor(X, requires_grad=True), ours.tensor(X, requires_grad=True)
    expected, found = leaves(theirs(x)), leaves(own(z))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-12)
    sums = [sum((part * part).sum() for part in parts) for parts in (expected, found)]
    (expected,) = torch.autograd.grad(sums[0], x, create_graph=True)
    (found,) = ours.grad(sums[1], z, create_graph=True)
    np.testing.assert_allclose(found.detach(), expected.detach().numpy(), rtol=1e-10)
    (expected,) = torch.autograd.grad((expected * torch.tensor(V)).sum(), x)
    (found,) = ours.grad(np.sum(found * V), z)
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("name", ["grad", "vmap"])
def test_without_gradients(name):
    theirs, own = CALLS[name]
    x, z = torch.tensor(X, requires_grad=True), ours.tensor(X, requires_grad=True)
    with torch.no_grad(), ours.no_grad():
        assert own(z).requires_grad is theirs(x).requires_grad is False
    assert own(z).requires_grad is theirs(x).requires_grad is True
    assert own(z.detach()).requires_grad is theirs(x.detach()).requires_grad is False


def test_arguments_that_no_result_was_computed_from_have_no_gradient():
    x, w = ours.tensor(X, requires_grad=True), ours.tensor(V, requires_grad=True)
    np.sum(fdiff.grad(lambda x, w: np.sum(x**2) + np.sum(w))(x, w)).backward()
    a, b = torch.tensor(X, requires_grad=True), torch.tensor(V, requires_grad=True)
    torch.func.grad(lambda x, w: (x**2).sum() + w.sum())(a, b).sum().backward()
    assert w.grad is b.grad is None
    np.testing.assert_array_equal(x.grad, a.grad)


def test_a_batch_of_cotangents_of_another_shape_is_refused():
    x, t = ours.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    words = r"is_grads_batched.* first .* shape"
    with pytest.raises(RuntimeError, match=words):
        torch.autograd.grad(t * t, t, torch.ones(2, 4), is_grads_batched=True)
    with pytest.raises(RuntimeError, match=words):
        ours.grad(x * x, x, np.ones((2, 4)), is_grads_batched=True)
