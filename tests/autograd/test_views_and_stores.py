"""Views are tracked both ways, stores are checked, and memory layouts decide as NumPy decides."""

import re

import numpy as np
import pytest

import fdiff
from fdiff.autograd import Function, grad, graph, inference_mode, no_grad, tensor
from fdiff.primitive import FUNCTIONS


def gradients_agree(program, *arrays):
    """The gradients of a program on recorded arrays are those of the same program traced."""
    leaves = [tensor(a, requires_grad=True) for a in arrays]
    program(*leaves).backward()
    expected = fdiff.grad(program, argnums=tuple(range(len(arrays))))(*arrays)
    for leaf, g in zip(leaves, expected, strict=True):
        np.testing.assert_allclose(leaf.grad, g, rtol=1e-12, atol=1e-13)


def through_a_transposed_reshape(x, w):
    y = (x * w).reshape(2, 3).T
    flat = y.reshape(-1)  # a copy: the entries do not lie side by side
    flat[0] = w[1]
    y[1:] *= w[:2]
    return np.sum(y**2) + flat.sum()


def through_functions_that_store(x, w):
    y = x * w
    np.copyto(y[2:], w[:4] * 3)
    np.add.at(y, [0, 0, 1], w[0])
    np.multiply(x, w, out=y, where=np.arange(6) % 2 == 0)
    y.sort()
    return np.sum(y * np.arange(6.0)) + y[::-1][1] ** 2


def through_parts(x, w):
    y = x + w
    a, b = np.split(y, 2)
    a *= b.copy()
    y[[0, 4]] += a[1]
    y.fill(2.0)
    y[1:3] = x[:2] * w[4:]
    return np.sum(y**3)


@pytest.mark.parametrize(
    "program",
    [through_a_transposed_reshape, through_functions_that_store, through_parts],
    ids=lambda p: p.__name__,
)
def test_stores_beside_the_traced_program(program):
    rng = np.random.default_rng(5)
    gradients_agree(program, rng.standard_normal(6), rng.standard_normal(6))


def test_a_view_of_an_array_in_fortran_order():
    x = tensor(np.arange(6.0).reshape(2, 3, order="F"), requires_grad=True)
    assert x.flags.f_contiguous
    y = x * 1
    flat = y.T.reshape(-1)  # a view, for the order of the memory is kept
    flat *= np.arange(6.0)
    assert np.shares_memory(flat.detach().numpy(), y.detach().numpy())
    y.sum().backward()
    assert np.array_equal(x.grad, np.arange(6.0).reshape(2, 3, order="F"))


def test_a_saved_value_that_is_modified_names_both_lines():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    z = np.exp(y) * y
    y += 1  # this line
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as error:
        z.sum().backward()
    text = str(error.value)
    assert "is at version 1; expected version 0" in text
    assert re.search(r"z = np\.exp\(y\) \* y", text)
    assert re.search(r"y \+= 1  # this line", text)


def test_stores_into_leaves_are_refused():
    x = tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x += 1
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[:1].fill(0.0)
    with no_grad():
        x += 1
    assert np.array_equal(x.detach().numpy(), [2.0, 3.0])
    assert x._version == 1


def test_what_a_result_saves():
    """Versions are checked exactly where a rule reads the value."""
    x = tensor([1.0, 2.0], requires_grad=True)
    for read, operate in (
        (True, np.sin), (False, np.exp), (False, np.sqrt), (True, np.log), (False, np.negative),
        (True, lambda y: y * x), (False, lambda y: y + x), (True, np.abs),
    ):  # fmt: skip
        y = x * 1
        z = operate(y)
        y *= 2
        if read:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                z.sum().backward()
        else:
            z.sum().backward()


def test_stores_into_saved_values_may_be_allowed():
    x = tensor([1.0, 2.0], requires_grad=True)
    with graph.allow_mutation_on_saved_tensors():
        y = x * 1
        z = (y**2).sum()
        y *= 10
        z.backward()
    assert np.array_equal(x.grad, [2.0, 4.0])


def test_plain_arrays_may_be_stored_into_after_use():
    x, k = tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0])
    z = (x * k).sum()
    k[:] = 100.0
    z.backward()
    assert np.array_equal(x.grad, [3.0, 4.0])


def test_scalars_are_no_arrays():
    """As in NumPy: ``+=`` gives another scalar, and one entry is a copy."""
    x = tensor([1.0, 2.0], requires_grad=True)
    total = np.sum(x)
    before = total
    total += 1
    assert before.item() == 3.0
    assert total.item() == 4.0
    entry = (x * 2)[0]
    entry *= 5
    entry.backward()
    assert np.array_equal(x.grad, [10.0, 0.0])


def test_a_plain_array_takes_no_recorded_value():
    x, out = tensor([1.0, 2.0], requires_grad=True), np.zeros(2)
    with pytest.raises((RuntimeError, ValueError), match=r"detach|setting an array element"):
        out[0] = x[0]
    with pytest.raises(fdiff.errors.InputError, match="requires a gradient, which would be lost"):
        np.add(x, x, out=out)
    y = tensor(np.zeros(2))
    np.add(x, x, out=y)
    assert np.array_equal(grad(y.sum(), x)[0], [2.0, 2.0])


def test_detach_in_place():
    x = tensor([1.0], requires_grad=True)
    y = x * 2
    y.detach_()
    assert y.is_leaf
    assert not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views"):
        (x * 2)[:].detach_()


def _functions_of_one_array():
    """Every function of NumPy that has a handler, and methods, as functions of one array."""
    found = {
        f"{getattr(f, '__module__', '')}.{f.__name__}": f
        for f in FUNCTIONS
        if hasattr(f, "__name__")
    }
    ours = type(tensor([1.0], requires_grad=True))
    for name in sorted(set(dir(ours)) & set(dir(np.ndarray))):
        attribute = getattr(np.ndarray, name)
        if not name.startswith("_") and name not in ("data", "base"):
            method = callable(attribute)
            found[name] = lambda x, n=name, m=method: getattr(x, n)() if m else getattr(x, n)
    return found | {
        "astype": lambda x: x.astype(x.dtype, copy=False),
        "reshape": lambda x: x.reshape(x.shape),
        "np.reshape": lambda x: np.reshape(x, x.shape),
        "np.diff": lambda x: np.diff(x, n=0),
        "np.broadcast_to": lambda x: np.broadcast_to(x, x.shape),
        "np.broadcast_arrays": lambda x: np.broadcast_arrays(x, x),
        "np.meshgrid": lambda x: np.meshgrid(x[0], copy=False),
        "np.split": lambda x: np.split(x, 1),
        "np.moveaxis": lambda x: np.moveaxis(x, 0, 0),
        "np.swapaxes": lambda x: np.swapaxes(x, 0, 0),
        "np.expand_dims": lambda x: np.expand_dims(x, 0),
        "np.copyto": lambda x: None,
        "index": lambda x: x[...],
    }


DATA = np.array([[4.0, 1.0], [2.0, 3.0]])


def _leaves_of(result):
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in _leaves_of(part)]
    return [result]


def test_memory_is_shared_by_views_alone():
    """No function gives an array that looks at the memory of another one and is not tracked."""
    shared = []
    for name, function in _functions_of_one_array().items():
        x = tensor(DATA, requires_grad=True)
        y = x * 1
        try:
            leaves = _leaves_of(function(y))
        except Exception:  # noqa: BLE001,S112 - it asks for more arguments, or for none of this kind
            continue
        for k, leaf in enumerate(leaves):
            value = getattr(leaf, "value", leaf)
            if not isinstance(value, np.ndarray) or not np.shares_memory(value, y.value):
                continue
            shared.append(name)
            assert leaf is not y
            assert isinstance(leaf, type(y)), name
            assert leaf.version is y.version, name
            if not value.flags.writeable:
                continue
            x.grad = None
            y = x * 1
            _leaves_of(function(y))[k][...] = 9.0
            (y**2).sum().backward()
            assert y._version == 1, name
            untouched = y.detach().numpy() != 9.0
            np.testing.assert_array_equal(x.grad, np.where(untouched, 2 * DATA, 0.0), name)
    assert {"real", "numpy.squeeze", "numpy.atleast_1d", "np.diff", "T"} <= set(shared)
    assert len(shared) > 35


@pytest.mark.parametrize(
    "alias",
    [np.real, np.squeeze, np.atleast_1d, np.real_if_close, lambda x: x.astype(float, copy=False)],
)
def test_the_same_array_given_back_is_a_view(alias):
    x = tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):  # the first call, and those by the recipe that it left
        with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
            alias(x)[0] = 7.0
        y = x * x
        with no_grad():
            part = alias(x)
            assert not part.requires_grad
            part[0] = 1.0
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        alias(x).sum().backward()
    assert np.array_equal(x.grad, [3.0, 3.0])


def test_views_of_two_parts_of_one_array():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    _, part = np.broadcast_arrays(y[:1], y[1:2])
    y *= x
    part.sum().backward()
    assert np.array_equal(x.grad, [0.0, 4.0, 0.0])


@pytest.mark.parametrize("like", [np.zeros_like, np.ones_like, np.empty_like])
def test_an_array_like_another_is_filled(like):
    x = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    for _ in range(2):
        x.grad = None
        out = like(x)
        assert not out.requires_grad
        assert out.is_leaf
        for k in range(2):
            out[k] = x[1 - k] ** 2
        assert out.requires_grad
        out.sum().backward()
        assert np.array_equal(x.grad, [[2.0, 4.0], [6.0, 8.0]])
    assert not np.full_like(x, 2.0).requires_grad
    assert np.full_like(x, x[0, 0]).requires_grad
    assert np.sign(x).requires_grad  # zero by its rule, as in torch


class _First(Function):
    """A rule whose result looks at the memory of its argument."""

    @staticmethod
    def forward(ctx, x):
        return x[:2]

    @staticmethod
    def backward(ctx, bar):
        return np.concatenate([bar, np.zeros(1)])


class _Times(Function):
    """A rule that stores into its first argument."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.mark_dirty(x)
        ctx.save_for_backward(factor)
        x *= factor
        return x

    @staticmethod
    def backward(ctx, bar):
        return bar * ctx.saved_tensors[0], None


def test_views_of_what_is_detached_in_place_keep_their_history():
    x = tensor(np.ones(3), requires_grad=True)
    base = x * 2.0
    view = base[:2]
    base.detach_()
    later = base[:2]
    assert (base.requires_grad, view.requires_grad, later.requires_grad) == (False, True, False)
    np.testing.assert_array_equal(grad((view * view).sum(), x, retain_graph=True)[0], [8, 8, 0])
    with pytest.raises(RuntimeError, match="view of a leaf"):
        view *= 2.0
    base.requires_grad_()
    np.testing.assert_array_equal(grad((view * base[:2]).sum(), x)[0], [4, 4, 0])


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("mode", [no_grad, inference_mode])
def test_stores_past_a_rule_that_nothing_recorded_are_refused(mode, requires):
    x, w = tensor(np.ones(3), requires_grad=requires), tensor(np.ones(2), requires_grad=True)
    with mode():
        view = _First.apply(x)
    with pytest.raises(RuntimeError, match=r"inside a custom Function.* cloning the output"):
        view *= w
    np.testing.assert_array_equal(x.detach(), 1.0)
    if not requires:
        view *= 2.0  # nothing requires a gradient
        np.testing.assert_array_equal(x, [2.0, 2.0, 1.0])


def test_what_inference_mode_makes_keeps_what_it_requires():
    x = tensor(np.ones(2), requires_grad=True)
    y = x * 2.0
    with inference_mode():
        made, view, computed = tensor(1.0, requires_grad=True), y[:1][:1], y * 2.0
    assert made.requires_grad
    assert made.is_inference()
    assert view.requires_grad
    assert view.is_leaf
    assert not view.is_inference()
    assert not computed.requires_grad
    with pytest.raises(RuntimeError, match="created in inference mode and is being modified"):
        view *= 2.0
    y *= 2.0
    with pytest.raises(RuntimeError, match="created in inference mode and its base or another"):
        view * 2.0


def test_rules_store_into_views():
    x = tensor(np.arange(1.0, 5.0), requires_grad=True)
    base = x * x
    part = base.reshape(2, 2)[1]
    out = _Times.apply(part, tensor([2.0, 3.0]))
    assert out is part
    np.testing.assert_array_equal(base.detach(), [1.0, 4.0, 18.0, 48.0])
    (bar,) = grad((base * base).sum(), x, create_graph=True)
    np.testing.assert_array_equal(bar.detach(), 4 * np.arange(1.0, 5.0) ** 3 * [1, 1, 4, 9])
    (second,) = grad(bar.sum(), x, retain_graph=True)
    np.testing.assert_array_equal(second, 12 * np.arange(1.0, 5.0) ** 2 * [1, 1, 4, 9])
    np.testing.assert_array_equal(grad(part.sum(), x)[0], [0.0, 0.0, 12.0, 24.0])
    with pytest.raises(RuntimeError, match="a view of a leaf"):
        _Times.apply(x[:2], tensor([2.0, 3.0]))


class _TimesApart(_Times):
    """The same with a context that is filled apart."""

    @staticmethod
    def forward(x, factor):
        x *= factor
        return x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(inputs[1])


def _whole(rule, x):
    y = x * x
    out = rule.apply(y, np.array([2.0, 3.0, 4.0]))
    return np.sum(y * y) + np.sum(out)


def _part(rule, x):
    y = x * x
    out = rule.apply(y[:2][::-1], np.array([2.0, 3.0]))
    return np.sum(y * y * y) + np.sum(out)


def _local(rule, x):
    y = np.zeros(3)
    y[1:] = x[:2]
    rule.apply(y, x)
    rule.apply(y[1:], x[1:])
    return np.sum(y * y)


@pytest.mark.parametrize("rule", [_Times, _TimesApart])
@pytest.mark.parametrize("f", [_whole, _part])
def test_rules_store_into_arguments_where_functions_are_traced(f, rule):
    x = np.array([1.0, 2.0, 3.0])
    leaf = tensor(x, requires_grad=True)
    (expected,) = grad(f(rule, leaf), leaf, create_graph=True)
    rows = [grad(expected[k], leaf, retain_graph=True)[0] for k in range(3)]
    traced = lambda x: f(rule, x)
    np.testing.assert_allclose(fdiff.grad(traced)(x), expected.detach())
    np.testing.assert_allclose(fdiff.hessian(traced)(x), np.stack(rows))
    np.testing.assert_allclose(fdiff.jvp(traced, (x,), (x,))[1], expected.detach().numpy() @ x)
    np.testing.assert_allclose(fdiff.vmap(traced)(np.stack([x, x])), f(rule, leaf).item())
    assert fdiff.jit(traced)(x) == f(rule, leaf).item()


@pytest.mark.parametrize("rule", [_Times, _TimesApart])
def test_rules_store_into_arrays_made_in_the_function(rule):
    x = np.array([1.0, 2.0, 3.0])
    f = lambda x: _local(rule, x)
    assert fdiff.jit(f)(x) == _local(rule, x)
    # The rule gives the factor no gradient, so this is the derivative with factors held.
    np.testing.assert_allclose(fdiff.grad(f)(x), [2 * 4.0 * 4.0, 2 * 9.0 * 9.0 * 2.0, 0.0])


def test_a_store_that_a_rule_does_not_tell_of_is_an_error():
    class Silent(Function):
        @staticmethod
        def forward(ctx, x):
            x *= 2.0
            return x * 1.0

        @staticmethod
        def backward(ctx, bar):
            return bar

    for call in (
        lambda: Silent.apply(tensor([1.0], requires_grad=True) * 1.0),
        lambda: fdiff.grad(lambda x: np.sum(Silent.apply(x * 1.0)))(np.ones(2)),
        lambda: fdiff.jit(lambda x: np.sum(Silent.apply(x * 1.0)))(np.ones(2)),
    ):
        with pytest.raises(NotImplementedError, match=r"does not say so[\s\S]*ctx.mark_dirty"):
            call()
    buffer = tensor([1.0])
    Silent.apply(buffer)
    np.testing.assert_array_equal(buffer, 2.0)
