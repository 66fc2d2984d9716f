"""Recorded arrays: operations, gradients of any order, the graph and its errors."""

from collections import OrderedDict

import numpy as np
import pytest

import fdiff
from fdiff.autograd import backward, grad, tensor
from fdiff.autograd.backward_passes import compiled_backward
from fdiff.autograd.functions.custom_nodes import custom_node
from fdiff.autograd.graph import get_gradient_edge

RNG = np.random.default_rng(3)


def complex_step(f, x):
    """The gradient of a real function of an array, to rounding (Squire and Trapp, 1998)."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[i] += 1e-30j
        out[i] = f(moved).imag / 1e-30
    return out


def test_the_example_of_the_torch_tutorial():
    x = tensor(np.ones((2, 2)), requires_grad=True)
    y = x + 2
    z = y * y * 3
    out = z.mean()
    out.backward()
    assert np.array_equal(x.grad, np.full((2, 2), 4.5))
    assert repr(x.grad) == "tensor([[4.5, 4.5],\n        [4.5, 4.5]])"
    assert y.grad_fn.name() == "AddBackward0"
    assert [n.name() for n, _ in out.grad_fn.next_functions] == ["MultiplyBackward0"]
    assert x.is_leaf
    assert not y.is_leaf
    assert x.grad_fn is None


SMOOTH = {
    "sum of sines": lambda x: np.sum(np.sin(x) * x),
    "methods": lambda x: (x.T @ x).sum() + x.reshape(-1)[1:].cumsum().mean() / 3.0,
    "reflected": lambda x: (2.0 / (1.5 + x) - 2**x).sum(),
    "indexing": lambda x: x[0, 1] * x[:, ::2].sum() + x[[1, 0, 1]].prod(),
    "joining": lambda x: np.sum(np.concatenate([x.ravel(), x[0]]) ** 3),
    "where": lambda x: np.sum(np.where(np.asarray([[True, False, True]]), x, x * x)),
    "linalg": lambda x: np.sum(np.linalg.inv(x[:, :2] + 3 * np.eye(2))),
    "einsum": lambda x: np.einsum("ij,kj->ik", x, x)[0, 1] * np.trace(x),
    "reduce": lambda x: np.add.reduce(x, axis=0).prod() + np.multiply.outer(x[0], x[1]).sum(),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_beside_the_complex_step(name):
    f, at = SMOOTH[name], RNG.uniform(0.5, 1.5, (2, 3))
    for _ in range(3):  # the structure is met again, and its tape compiled at some time
        x = tensor(at, requires_grad=True)
        f(x).backward()
        np.testing.assert_allclose(x.grad, complex_step(f, at), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_beside_the_functional_operators(name):
    f, at = SMOOTH[name], RNG.uniform(0.5, 1.5, (2, 3))
    x, v = tensor(at, requires_grad=True), RNG.standard_normal((2, 3))
    (g,) = grad(f(x), x, create_graph=True)
    (h,) = grad(g, x, v)
    np.testing.assert_allclose(h, fdiff.hvp(f)(at, v), rtol=1e-10, atol=1e-11)


def test_derivatives_of_any_order():
    x = tensor(0.7, requires_grad=True)
    y = np.sin(x)
    for _ in range(5):
        (y,) = grad(y, x, create_graph=True)
    np.testing.assert_allclose(y.item(), np.cos(0.7), rtol=1e-14)


def test_gradients_accumulate_and_the_graph_is_freed():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert np.array_equal(x.grad, [4.0, 8.0])
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    (x + 1).sum().backward()
    assert np.array_equal(x.grad, [5.0, 9.0])


def test_errors_of_backward_and_grad():
    x, other = tensor([1.0, 2.0], requires_grad=True), tensor(1.0, requires_grad=True)
    with pytest.raises(RuntimeError, match="implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        backward(tensor(1.0))
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output"):
        (x * 2).backward(np.ones(3))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(x.sum(), other)
    assert grad(x.sum(), (x, other), allow_unused=True)[1] is None
    assert np.array_equal(grad(x.sum(), (x, other), materialize_grads=True)[1], 0.0)
    with pytest.raises(ValueError, match="allow_unused=False"):
        grad(x.sum(), other, allow_unused=False, materialize_grads=True)
    with pytest.raises(fdiff.errors.DtypeError, match="floating point"):
        tensor(np.arange(3), requires_grad=True)
    with pytest.raises(RuntimeError, match=r"Use array.detach\(\).numpy\(\)"):
        np.asarray(x)


def test_a_batch_of_cotangents():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x**2
    (jacobian,) = grad(y, x, np.eye(3), is_grads_batched=True)
    assert np.array_equal(jacobian, np.diag([2.0, 4.0, 6.0]))


def test_a_hook_of_an_array_may_replace_its_gradient():
    v = tensor(np.zeros(3), requires_grad=True)
    handle = v.register_hook(lambda g: g * 2)
    v.backward(np.ones(3))
    assert np.array_equal(v.grad, [2.0, 2.0, 2.0])
    handle.remove()
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.register_hook(lambda g: g + 1)
    (y * y).sum().backward()
    assert np.array_equal(x.grad, 3 * (2 * 3 * x.detach().numpy() + 1))


def test_a_batch_of_cotangents_is_pulled_back_at_once(monkeypatch):
    x, w = tensor([1.0, 2.0, 3.0], requires_grad=True), tensor([2.0, 1.0, 0.5], requires_grad=True)
    unused = tensor(1.0, requires_grad=True)

    def outputs(x=x):
        return np.sin(x * w) * np.cumsum(x), np.sum(x * x)

    bars, options = [np.eye(3)[:2], np.arange(2.0)], {"allow_unused": True}
    rows = [grad(outputs(), (x, w), [bar[k] for bar in bars]) for k in range(2)]
    expected = [np.stack(column) for column in zip(*rows, strict=True)]
    hooked = tensor(x, requires_grad=True)
    hooked.register_hook(lambda g: g * 1.0)
    row_by_row = grad(outputs(hooked), (hooked, w), bars, is_grads_batched=True)
    monkeypatch.setattr("fdiff.autograd.backward_passes.engine._Pass", None)
    for _ in range(2):
        y = outputs()
        kept = grad(y, (x, w, unused), bars, True, is_grads_batched=True, **options)
        found = grad(y, (x, w, unused), bars, is_grads_batched=True, **options)
        assert found[2] is kept[2] is None
        for one, other, third, wanted in zip(found, kept, row_by_row, expected, strict=False):
            np.testing.assert_allclose(one, wanted, rtol=1e-14)
            assert np.array_equal(one, other)
            np.testing.assert_allclose(third, wanted, rtol=1e-14)
    monkeypatch.undo()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        grad(y, x, bars, is_grads_batched=True)


def test_shapes_of_a_batch_of_cotangents():
    x, unused = tensor([1.0, 2.0, 3.0], requires_grad=True), tensor(1.0, requires_grad=True)
    y, none = x * x, np.zeros((0, 3))
    for create in (False, True):
        found = grad(y, (x, unused), none, True, create, allow_unused=True, is_grads_batched=True)
        assert found[0].shape == (0, 3)
        assert found[1] is None
    with pytest.raises(RuntimeError, match=r"one leading axis of the same length, not of.* \[\]\."):
        grad(y, x, 1.0, is_grads_batched=True)
    for end in (y, get_gradient_edge(y)):
        with pytest.raises(RuntimeError, match=r"must be \[2, 3\], not \[2, 4\]: output\[0\] has"):
            grad(end, x, np.ones((2, 4)), is_grads_batched=True)


def test_a_batch_of_cotangents_is_pulled_back_in_parts_that_memory_holds(monkeypatch):
    x, sizes, bars = tensor([1.0, 2.0, 3.0], requires_grad=True), [], np.arange(33.0).reshape(11, 3)
    f = lambda x: np.sin(x) * np.cumsum(x)
    (expected,) = grad(f(x), x, bars, is_grads_batched=True)
    derive = compiled_backward.derive
    watch = lambda steps, tape, **seeds: sizes.append(seeds["size"]) or derive(steps, tape, **seeds)
    monkeypatch.setattr(compiled_backward, "derive", watch)
    monkeypatch.setattr(compiled_backward, "_batched", OrderedDict())
    program = next(reversed(compiled_backward._programs.values()))
    per_row = compiled_backward.seed_bytes(program.runner.tape, slice(1))
    for rows, size in ((4, [4]), (3, [3]), (0.5, [1]), (11, [11])):
        monkeypatch.setattr(compiled_backward, "BUDGET", int(rows * per_row))
        sizes.clear()
        (found,) = grad(f(x), x, bars, is_grads_batched=True)
        assert sizes == size
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_a_custom_node():
    x = tensor([1.0, 2.0], requires_grad=True)
    for expected in ([2.0, 8.0], [4.0, 16.0]):
        (y,) = custom_node("Cube", [x], [x.detach().numpy() ** 3], lambda g: g * x * x * 2)
        assert y.grad_fn.name() == "Cube"
        y.sum().backward()
        assert np.array_equal(x.grad, expected)
    (y,) = custom_node("Cube", [x], [x.detach().numpy() ** 3], lambda g: g * x * x * 2)
    (g,) = grad(y.sum(), x, create_graph=True)
    assert np.array_equal(grad(g.sum(), x)[0], [4.0, 8.0])


def test_a_gradient_is_recorded_where_it_is_asked_for():
    for data in (1.0, [1, 2], np.ones(2), tensor(2.0, requires_grad=True)):
        assert not tensor(data).requires_grad
        assert tensor(data, requires_grad=True).requires_grad
    assert tensor([1, 2]).dtype == np.int64  # only what requires a gradient has to be floating
    with pytest.raises(RuntimeError, match="does not require grad") as caught:
        tensor(1.0).backward()
    assert "requires_grad=True" in "".join(caught.value.__notes__)
