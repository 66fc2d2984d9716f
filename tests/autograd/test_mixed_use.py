"""Recorded arrays beside fdiff's operators, checkpoints, long graphs, and graphs that repeat."""

import numpy as np
import pytest

import fdiff
from fdiff import errors
from fdiff.autograd import checkpoint, grad, no_grad, tensor
from fdiff.autograd.backward_passes import compiled_backward as compiled

AT = np.array([1.0, 2.0, 3.0])


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_recorded_arrays_in_traced_functions():
    z = tensor(AT, requires_grad=True)
    constant = z.detach()
    g = fdiff.grad(lambda q: np.sum(q * constant) + np.dot(constant, q) + np.sum(z.detach() * q))
    assert np.array_equal(g(np.ones(3)), 3 * AT)
    constant[0] = 100.0  # it shares memory with z
    assert np.array_equal(g(np.ones(3)), [300.0, 6.0, 9.0])
    for f in (lambda q: np.sum(q * z), lambda q: np.sum(z * q), lambda q: np.dot(z, q)):
        with pytest.raises(fdiff.errors.InputError, match=r"use `.detach\(\)`"):
            fdiff.grad(f)(np.ones(3))


def test_a_checkpoint_computes_again():
    calls = []
    w = tensor(2.0, requires_grad=True)

    def layer(a):
        calls.append(len(calls))
        return np.sin(a * w) * a

    x = tensor(AT, requires_grad=True)
    y = checkpoint(layer, x)
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2
    np.testing.assert_allclose(x.grad, np.cos(2 * AT) * 2 * AT + np.sin(2 * AT), rtol=1e-14)
    np.testing.assert_allclose(w.grad, np.sum(np.cos(2 * AT) * AT * AT), rtol=1e-14)
    (g,) = grad(checkpoint(layer, x).sum(), x, create_graph=True)
    (h,) = grad(g.sum(), x)
    expected = -np.sin(2 * AT) * 4 * AT + 4 * np.cos(2 * AT)
    np.testing.assert_allclose(h, expected, rtol=1e-13)


def test_a_checkpoint_that_computes_otherwise():
    switch = iter([True, False])
    y = checkpoint(lambda a: np.sin(a) if next(switch) else a + 1, tensor(AT, requires_grad=True))
    with pytest.raises(RuntimeError, match="saved other values when it was called again"):
        y.sum().backward()


def test_a_checkpoint_notices_what_was_stored_into_its_arguments():
    """As torch, for a result, a leaf, an array without gradient, and the base of a view."""

    def stored_into(make, store):
        x = tensor(AT, requires_grad=True)
        args = make(x)
        y = checkpoint(lambda a, *more: np.sin(a * a) * np.prod([m[0] for m in more]), *args)
        with no_grad():
            store(args)
        with pytest.raises(
            RuntimeError, match=r"saved by checkpoint is at version 1; expected"
        ) as e:
            y.sum().backward()
        assert str(e.value).count("test_mixed_use.py:") == 2  # where it was saved, and modified

    stored_into(lambda x: (x * 1.0,), lambda args: args[0].__imul__(5.0))
    stored_into(lambda x: (x,), lambda args: args[0].__setitem__(0, 7.0))
    free = tensor(AT)
    stored_into(lambda x: (x, free), lambda args: args[1].__iadd__(5.0))
    whole = tensor(np.ones((2, 3)), requires_grad=True) * 1.0
    stored_into(lambda x: (whole[0],), lambda args: whole.__setitem__((1, 0), 3.0))


def test_a_checkpoint_keeps_copies_of_plain_arrays():
    x, w = tensor(AT, requires_grad=True), np.array([3.0, 4.0, 5.0])
    y = checkpoint(lambda x, *, more: np.sin(x * more["w"]), x, more={"w": w})
    expected = np.cos(AT * w) * w
    w[:] = 100.0
    y.sum().backward()
    np.testing.assert_allclose(x.grad, expected, rtol=1e-14)


def test_a_checkpoint_draws_the_same_random_numbers_again():
    x, old = (
        tensor(np.ones(4), requires_grad=True),
        np.random.mtrand._rand,
    )  # the generator of `np.random.rand`
    old.seed(3)
    y = checkpoint(lambda x: x * x * old.rand(4), x)
    drawn = y.detach().numpy().copy()
    y.sum().backward()
    np.testing.assert_allclose(x.grad, 2.0 * drawn, rtol=1e-15)
    following = old.rand(4)  # and it goes on where it was
    old.seed(3)
    assert np.array_equal(old.rand(8), [*drawn, *following])


def test_a_graph_that_repeats_is_neither_traced_nor_compiled_again(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")  # tiers differ in the last bit
    w, x = tensor(np.ones((3, 2)), requires_grad=True), np.arange(6.0).reshape(2, 3)

    def step():
        w.grad = None
        loss = (np.tanh(x @ w) ** 2).mean()
        loss.backward()
        return np.array(w.grad)

    first = step()
    made = len(compiled._programs)
    monkeypatch.setattr(compiled, "_Composition", None)
    monkeypatch.setattr("fdiff.autograd.calls.recipes.call_tape", None)
    monkeypatch.setattr("fdiff.autograd.calls.recipes.pull_of", None)
    monkeypatch.setattr("fdiff.kernels.compile", None)
    for _ in range(3):
        assert np.array_equal(step(), first)
    assert len(compiled._programs) == made


def test_long_graphs():
    """No recursion: neither in the pass nor when the graph is freed."""
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x
    for _ in range(30_000):
        y = y + 1.0
    y.sum().backward()
    assert np.array_equal(x.grad, [1.0, 1.0])
    del y


def test_recorded_constants_in_functions_that_are_traced_are_arrays():
    """They are inputs of the variant: nothing is traced again, and what changes is seen."""
    held = {"c": tensor([1.0, 2.0, 3.0]), "s": tensor(2.0)}

    def f(x):
        out = held["c"].copy()
        out[0] = x[1]
        out[1:] *= held["c"].detach().exp()[1:] * held["c"][::-1].view()[1:]
        return np.sum(out * x) * held["s"]

    def plain(x, c, s):
        out = c.copy()
        out[0] = x[1]
        out[1:] *= np.exp(c)[1:] * c[::-1][1:]
        return np.sum(out * x) * s

    x = np.array([0.5, 1.5, -1.0])
    slope = fdiff.grad(lambda x: f(x))
    for change in (
        lambda: None,
        lambda: held["c"].add_(1.0),
        lambda: held.update(c=tensor([0.1, 0.2, 0.3])),
        lambda: held.update(s=tensor(-1.0)),
        lambda: setattr(held["c"], "data", np.array([4.0, 5.0, 6.0])),
    ):
        change()
        c, s = held["c"].numpy(), held["s"].item()
        expected = fdiff.grad(plain)(x, c, s)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-14)
    held["c"].requires_grad_()
    with pytest.raises(errors.InputError, match="requires a gradient was used inside"):
        slope(x)


class Answering:
    """An object that makes its attributes when they are asked for."""

    weight = 2.0

    def __getattr__(self, name):
        raise RuntimeError(f"asked for {name}")


def test_objects_are_not_asked_whether_they_are_constants():
    held = Answering()
    assert fdiff.grad(lambda x: held.weight * x)(1.0) == 2.0


def test_stores_into_recorded_constants_in_a_trace_are_refused():
    c = tensor([1.0, 2.0])

    def f(x, value):
        c[0] = value
        return np.sum(c * x)

    for value in (5.0, lambda x: x[1]):
        g = fdiff.grad(lambda x, v=value: f(x, v(x) if callable(v) else v))
        with pytest.raises(ValueError, match="read-only"):
            g(np.ones(2))
    np.testing.assert_array_equal(c, [1.0, 2.0])
    with pytest.raises(errors.InputError, match="called in a function that is traced"):
        fdiff.grad(lambda x: np.sum(tensor(x) * x))(np.ones(2))


@pytest.mark.slow  # a million nodes
def test_a_million_nodes():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x
    for _ in range(1_000_000):
        y = y + 1.0
    y.sum().backward()
    assert np.array_equal(x.grad, [1.0, 1.0])


@pytest.mark.slow  # 20,000 iterations
def test_iterations_leave_nothing_behind():
    import gc

    w, x = tensor(np.ones((3, 2)), requires_grad=True), np.arange(6.0).reshape(2, 3)

    def steps(count):
        for _ in range(count):
            h = np.tanh(x @ w)
            h[0] *= 2
            (h * h).mean().backward()
            w.grad = None

    def growth():
        gc.collect()
        before = len(gc.get_objects())
        steps(20_000)
        gc.collect()
        return len(gc.get_objects()) - before

    # A kernel that is made meanwhile loads modules, once; what leaks does so in each round.
    assert min(growth() for _ in range(3)) <= 50


def dropped(size):
    rng = np.random.default_rng(0)
    return lambda a: np.sin(a * a) * (rng.random(size) > 0.5)


def weighted(size):
    w = np.linspace(1.0, 2.0, size)
    tensor = fdiff.autograd.tensor(w.copy())

    def f(a):
        return np.sin(a * w.astype(a.dtype)) * tensor.astype(a.dtype)

    f.stores = lambda: w.__setitem__(size // 2, -1.0)
    f.stores_recorded = lambda: tensor.__setitem__(slice(None), w[::-1])
    return f


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("size", [2, 6, 1024, 5000])
def test_a_checkpoint_that_computes_other_values_again_is_an_error(size, dtype):
    def output(f):
        x = fdiff.autograd.tensor(np.linspace(0.1, 1.0, size).astype(dtype), requires_grad=True)
        return x, np.sum(np.real(fdiff.checkpoint(f, x)))

    words = "computed other values when it was called again"
    with pytest.raises(RuntimeError, match=words):
        output(dropped(size))[1].backward()
    for store in ("stores", "stores_recorded"):
        f = weighted(size)
        _, y = output(f)
        getattr(f, store)()
        with pytest.raises(RuntimeError, match=words):
            y.backward()
    f = weighted(size)
    (x, y), plain = output(f), fdiff.autograd.tensor(np.linspace(0.1, 1.0, size).astype(dtype))
    y.backward()
    plain.requires_grad_()
    np.sum(np.real(f(plain))).backward()
    np.testing.assert_array_equal(x.grad.numpy(), plain.grad.numpy())


def test_a_checkpoint_of_values_that_are_not_finite_or_whole_numbers():
    x = fdiff.autograd.tensor([0.0, 1.0, -1.0], requires_grad=True)
    with np.errstate(all="ignore"):
        y = fdiff.checkpoint(lambda a: np.sqrt(a)[np.array([1, 0])] * np.exp(a * 1e3)[:2], x)
        y[0].backward()
    np.testing.assert_allclose(x.grad.numpy()[:2], [1000.0, 0.5])
