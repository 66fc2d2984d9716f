"""Graphs that repeat, graphs that do not, and calls that differ in sizes alone."""

import gc
import weakref

import numpy as np
import pytest

from fdiff.autograd import no_grad, tensor
from fdiff.autograd.backward_passes import compiled_backward as compiled
from fdiff.autograd.backward_passes.compiled_backward import OFTEN, SIGHTS, UNUSED
from fdiff.autograd.calls import recipes
from fdiff.autograd.calls.recording import apply_ufunc
from fdiff.autograd.thread_state import RECORDED_CALLS
from fdiff.primitive import UFUNCS

RNG = np.random.default_rng(3)
ENOUGH = OFTEN + 2  # passes after which one is written out


def takes_floats(ufunc):
    loop = "d->d" if ufunc.nin == 1 else "dd->d"
    return isinstance(ufunc, np.ufunc) and loop in ufunc.types and not ufunc.signature


def made_anew(monkeypatch, call, shapes):
    """The recipes of a call on arrays of some shapes: as known of other shapes, and made anew."""

    def recipe_of():
        monkeypatch.setattr(recipes, "_recipes", {})
        RECORDED_CALLS.clear()
        arrays = [tensor(RNG.uniform(0.2, 0.8, shape), requires_grad=True) for shape in shapes]
        with np.errstate(all="ignore"):
            out = call(*arrays)
        return None if out.grad_fn is None else out.grad_fn.recipe

    known = recipe_of()
    monkeypatch.setattr(recipes, "_families", {})
    return known, recipe_of()


CALLS = [
    *[
        pytest.param(lambda *a, u=u: apply_ufunc(u, *a), shapes, id=f"{u.__name__}-{len(shapes)}")
        for u in UFUNCS
        if takes_floats(u)
        and getattr(np, u.__name__, None) is u  # as tables stand before SciPy is used
        for shapes in ([((5, 3),), ((7, 4),)], [((5, 3), (3,)), ((6, 4), (4,))])
        if len(shapes[0]) == u.nin
    ],
    pytest.param(np.matmul, [((5, 3), (3, 4)), ((6, 2), (2, 7))], id="matmul"),
    pytest.param(np.matmul, [((5, 3), (3,)), ((2, 7), (7,))], id="matvec"),
    pytest.param(np.sum, [((5, 3),), ((2, 4),)], id="sum"),
    pytest.param(lambda x: np.sum(x, axis=1), [((5, 3),), ((2, 4),)], id="sum-axis"),
    pytest.param(lambda x: x.sum(axis=0, keepdims=True), [((5, 3),), ((2, 4),)], id="keepdims"),
    pytest.param(np.mean, [((5, 3),), ((2, 4),)], id="mean"),
    pytest.param(lambda x: x.mean(), [((5, 3),), ((2, 4),)], id="mean-method"),
    pytest.param(lambda x: x.mean(axis=1), [((5, 3),), ((2, 4),)], id="mean-axis"),
    pytest.param(np.max, [((5, 3),), ((2, 4),)], id="max"),
    pytest.param(lambda x: np.min(x, axis=1), [((5, 3),), ((2, 4),)], id="min-axis"),
    pytest.param(lambda x: x.max(axis=0), [((5, 3),), ((2, 4),)], id="max-method"),
    pytest.param(lambda x: x.transpose(1, 0), [((5, 3),), ((2, 4),)], id="transpose-method"),
    pytest.param(np.dot, [((5, 3), (3, 4)), ((6, 2), (2, 7))], id="dot"),
    pytest.param(np.transpose, [((5, 3),), ((2, 4),)], id="transpose"),
    pytest.param(lambda x: x**3, [((5, 3),), ((2, 4),)], id="cube"),
    pytest.param(lambda x: x * 2.5 / (1.0 + x), [((5, 3),), ((2, 4),)], id="numbers"),
]


@pytest.mark.parametrize(("call", "shapes"), CALLS)
def test_a_recipe_for_other_sizes_is_what_would_be_made_for_them(monkeypatch, call, shapes):
    first, second = shapes
    monkeypatch.setattr(recipes, "_families", {})
    made_anew(monkeypatch, call, first)
    resized, anew = made_anew(monkeypatch, call, second)
    assert (resized is None) == (anew is None)
    if anew is None:
        return
    assert resized.tape == anew.tape
    assert (resized.saved, resized.outputs, resized.needed) == (
        anew.saved,
        anew.outputs,
        anew.needed,
    )
    for key, pull in anew.pulls.items():
        assert resized.pull(*key).tape == pull.tape
        assert resized.pull(*key).saved == pull.saved
        assert resized.pull(*key).targets == pull.targets


def step(f, *arrays):
    for x in arrays:
        x.grad = None
    f(*arrays).backward()
    return [np.array(x.grad) for x in arrays]


def written(f, *arrays):
    """Repeat a graph until its pass is written out; the gradients."""
    for _ in range(ENOUGH):
        found = step(f, *arrays)
    assert f(*arrays).grad_fn.recipe.passes
    return found


def test_a_pass_that_is_written_out_looks_at_the_graph():
    x, w = (
        tensor(RNG.normal(size=6), requires_grad=True),
        tensor(RNG.normal(size=6), requires_grad=True),
    )

    def shared(x, w):
        y = np.tanh(x * w)
        return np.sum(y * y)

    def apart(x, w):  # the same operations, of which two are done twice
        return np.sum(np.tanh(x * w) * np.tanh(x * w))

    def one_leaf(x, _):
        y = np.tanh(x * x)
        return np.sum(y * y)

    def other(x, w):
        y = np.sinh(x * w)
        return np.sum(y * y)

    expected = [step(f, x, w) for f in (shared, apart, other)]
    for f, found in zip((shared, apart, other), expected, strict=True):
        np.testing.assert_allclose(written(f, x, w), found, rtol=1e-14)
    for f, found in zip((shared, apart, other), expected, strict=True):
        np.testing.assert_allclose(step(f, x, w), found, rtol=1e-14)
    x.grad = None
    one_leaf(x, None).backward()
    slope = 2 * np.tanh(x.value**2) / np.cosh(x.value**2) ** 2 * 2 * x.value
    np.testing.assert_allclose(x.grad, slope, rtol=1e-12)


def test_a_pass_that_is_written_out_takes_the_numbers_of_this_pass():
    x = tensor([1.0, 2.0], requires_grad=True)
    written(lambda x: np.sum(x * x * 3.0), x)
    for number in (3.0, -2.5, 0.0, 7):
        (g,) = step(lambda x, n=number: np.sum(x * x * n), x)
        np.testing.assert_allclose(g, 2 * number * x.value, rtol=1e-14)
    assert np.signbit(step(lambda x: np.sum(x * -0.0), x)[0]).all()


def test_a_pass_that_is_written_out_keeps_the_rules_of_graphs():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)

    def f(x):
        y = np.exp(x)
        return np.sum(y * y)

    (slope,) = written(f, x)
    out = f(x)
    out.backward(retain_graph=True)
    out.backward()
    np.testing.assert_allclose(x.grad, 3 * slope)  # added in place to what `written` left
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()
    y = np.exp(x)
    out = np.sum(y * y)
    y += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()
    x.grad = None
    handle = x.register_hook(lambda g: 10 * g)
    f(x).backward()
    np.testing.assert_allclose(x.grad, 10 * slope)
    handle.remove()
    seen = []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf is x))
    assert step(f, x)
    assert seen == [True]
    y = np.exp(x)
    y.register_hook(lambda g: 0 * g)
    x.grad = None
    np.sum(y * y).backward()
    np.testing.assert_allclose(x.grad, 0)


def test_a_store_that_is_written_out_is_passed_once():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)

    def f(x):
        y = x + 0.0
        y[1:] = 0.0  # saves nothing
        return np.sum(y)

    (slope,) = written(f, x)
    assert np.array_equal(slope, [1.0, 0.0, 0.0])
    out = f(x)
    out.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        out.backward()


def test_a_pass_that_is_written_out_holds_no_arrays():
    x = tensor(np.ones(4), requires_grad=True)
    f = lambda x: np.sum(np.exp(x) * x)
    written(f, x)
    node = weakref.ref(f(x).grad_fn)
    gc.collect()
    assert node() is None
    out, leaf = f(y := tensor(np.ones(4), requires_grad=True)), weakref.ref(y)
    del y
    assert leaf() is None
    out.backward()  # nobody is there to take the gradient


def test_gradients_of_leaves_keep_their_layout_when_written_out():
    w = tensor(np.asfortranarray(RNG.normal(size=(3, 4))), requires_grad=True)
    f = lambda w: np.sum(np.tanh(w) * w)
    written(f, w)
    assert w.grad.value.flags.f_contiguous
    first = w.grad.value
    f(w).backward()
    assert w.grad.value is first


def test_graphs_that_never_repeat_get_no_programs():
    def loss(n):
        x = tensor(np.linspace(0.1, 0.9, n), requires_grad=True)
        np.mean(np.sin(x) * x + x**2).backward()
        at = x.value
        expected = (np.cos(at) * at + np.sin(at) + 2 * at) / n
        np.testing.assert_allclose(x.grad, expected, rtol=1e-13)

    before = {k for k, p in compiled._programs.items() if not isinstance(p, int)}
    for n in range(20, 60):
        loss(n)
    after = {k for k, p in compiled._programs.items() if not isinstance(p, int)}
    assert len(after - before) == UNUSED
    for _ in range(SIGHTS + 1):  # one that does come again gets one
        loss(33)
    after = {k for k, p in compiled._programs.items() if not isinstance(p, int)}
    assert len(after - before) == UNUSED + 1


def test_operations_without_a_graph_have_short_ways_of_their_own():
    p, g = tensor([1.0, 2.0, 3.0], requires_grad=True), tensor([0.5, 0.5, 0.5])
    for _ in range(3):
        with no_grad():
            before = p._version
            p -= 2.0 * g
            assert p._version == before + 1
            view = p[1:]
            total = np.sum(view * view)
        assert not total.requires_grad
        assert not view.requires_grad
        assert view._version == p._version
        assert (p * g).requires_grad  # and with a graph again
        assert p.is_leaf
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        p -= g


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_numbers_beside_arrays_do_not_widen_them(dtype):
    x = tensor(np.array([1.5, -2.0], dtype), requires_grad=True)
    for _ in range(3):
        for result in (x * 1.1, 1.1 * x, x + 3, x**2, x / 7.0, 2 - x):
            assert result.dtype == dtype
        assert np.array_equal((x * 1.1).value, x.value * 1.1)
        assert np.array_equal((x**2).value, x.value**2)
