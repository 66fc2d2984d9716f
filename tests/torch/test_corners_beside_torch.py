"""Corners of recorded arrays beside torch: inputs, hooks, leaves that change, rules with aliases.

Each program is a function of a library's names, and gives what is to be seen.
"""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import fdiff.autograd as ours
import fdiff.autograd.forward_ad as our_forward

OURS = SimpleNamespace(
    tensor=lambda x, requires_grad=True: ours.tensor(np.array(x), requires_grad=requires_grad),
    Function=ours.Function, grad=ours.grad, backward=ours.backward, no_grad=ours.no_grad,
    is_grad_enabled=ours.is_grad_enabled, exp=np.exp, cat=np.concatenate,
    turned=lambda x: x.T, strides=lambda x: tuple(s // 8 for s in x.value.strides),
)  # fmt: skip
TORCH = SimpleNamespace(
    tensor=lambda x, requires_grad=True: torch.tensor(
        x, dtype=torch.float64, requires_grad=requires_grad
    ),
    Function=torch.autograd.Function, grad=torch.autograd.grad, backward=torch.autograd.backward,
    no_grad=torch.no_grad, is_grad_enabled=torch.is_grad_enabled, exp=torch.exp, cat=torch.cat,
    turned=lambda x: x.T, strides=lambda x: x.stride(),
)  # fmt: skip


def seen(x):
    """What is compared of one value."""
    if isinstance(x, (list, tuple)):
        return [seen(one) for one in x]
    if isinstance(x, (torch.Tensor, ours.RecordedArray)):
        return x.requires_grad, x.is_leaf, np.round(x.detach().tolist(), 9).tolist()
    return x


def message(call, *args, **kwargs):
    """The first words of the error that a call raises."""
    with pytest.raises(RuntimeError) as caught:
        call(*args, **kwargs)
    return str(caught.value)[:60]


def inputs_that_retain_their_gradient(lib):
    x = lib.tensor([1.0, 2.0])
    y = x * 2
    z = (y * y).sum()
    y.retain_grad()
    z.backward(inputs=[y], retain_graph=True)
    first = seen(y.grad)
    z.backward(inputs=[y])
    return first, y.grad, x.grad


def inputs_given_twice(lib):
    x = lib.tensor([1.0, 2.0])
    (x * x).sum().backward(inputs=[x, x])
    return x.grad


def hooks_in_a_step_of_descent(lib):
    x = lib.tensor([1.0, 2.0])
    modes = []

    def step(leaf):
        modes.append(lib.is_grad_enabled())
        leaf -= 0.1 * leaf.grad  # as in the documentation of the hook

    x.register_post_accumulate_grad_hook(step)
    x.register_hook(lambda g: modes.append(lib.is_grad_enabled()))
    for _ in range(3):
        (x * x).sum().backward()
    lib.grad((x * x).sum(), x)
    return x, x.grad, modes


def hooks_of_a_leaf_stay(lib):
    x = lib.tensor([1.0, 2.0])
    handle = x.register_hook(lambda g: g * 2)
    x.requires_grad_(False)
    x.requires_grad_(True)
    (x * 1).sum().backward()
    x.data = lib.tensor([5.0, 6.0], requires_grad=False)
    (x * 1).sum().backward()
    handle.remove()
    (x * 1).sum().backward()
    return x, x.grad


def hooks_of_the_node_of_a_leaf(lib):
    x = lib.tensor([1.0, 2.0])
    node = (x * 1).grad_fn.next_functions[0][0]
    calls = []
    node.register_prehook(lambda bars: calls.append("before") or (bars[0] * 2,))
    node.register_hook(lambda ins, outs: calls.append((len(ins), seen(outs))))
    x.register_hook(lambda g: calls.append("array"))
    x.register_post_accumulate_grad_hook(lambda leaf: calls.append("added"))
    for _ in range(3):
        (x * x).sum().backward()
    (x * x).sum().backward(inputs=[x])
    alone = lib.grad((x * x).sum(), x)
    (x * x).sum().backward(create_graph=True)
    return calls, alone, x.grad


def a_leaf_that_is_turned_off(lib):
    x = lib.tensor([1.0, 2.0])
    gradients = []
    for _ in range(8):  # the pass is compiled, and written out
        y = (x * x).sum()
        x.requires_grad_(False)
        y.backward()
        gradients.append(x.grad)
        x.requires_grad_(True)
    return gradients


def flags_of_results(lib):
    y = lib.tensor([1.0, 2.0]) * 2
    return message(setattr, y, "requires_grad", True), y.requires_grad_()


def a_leaf_that_looks_at_another_array(lib):
    x = lib.tensor([1.0, 2.0, 3.0], requires_grad=False)
    v = x[:2]
    w = v[:1]
    v.requires_grad_()
    words = [message(v.mul_, 2.0) if lib is TORCH else message(v.__imul__, 2.0)]
    u = v[:1]
    words += [message(u.mul_, 2.0) if lib is TORCH else message(u.__imul__, 2.0)]
    w *= 3.0
    x *= 2.0
    (v * v).sum().backward()
    return words, v, w, x, v.grad


def layouts_with_a_graph(lib):
    x = lib.tensor(np.arange(6.0).reshape(2, 3).tolist())
    x.grad = lib.turned(lib.tensor(np.ones((3, 2)).tolist(), requires_grad=False))
    (x * x).sum().backward(create_graph=True)
    return lib.strides(x.grad), x.grad.detach()


def unused(lib):
    x, w = lib.tensor([1.0]), lib.tensor([2.0])
    return message(lib.grad, x * 2, [x, w]), message(lib.grad, x * 2, [])


def plain_arrays_without_gradients(lib):
    x = lib.tensor([1.0, 2.0])
    with lib.no_grad():
        given, made = x.numpy(), np.asarray(x)
        made = made * 2
    return given.tolist(), made.tolist(), message(x.numpy)[:15]


def same(lib):
    class Same(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, bar):
            return bar * 5

    return Same


def first(lib):
    class First(lib.Function):
        @staticmethod
        def forward(ctx, x):
            return x[:1]

        @staticmethod
        def backward(ctx, bar):
            return lib.cat([bar * 5, bar * 0])

    return First


def stores_into_outputs_that_are_views(lib):
    found = []
    for rule in (same(lib), first(lib)):
        x = lib.tensor([1.0, 2.0])
        a = x * 1
        y = rule.apply(a)
        s = (a * a).sum()
        found.append(message(y.mul_, 2.0) if lib is TORCH else message(y.__imul__, 2.0))
        v = y[:1]
        found.append(message(v.mul_, 2.0)[:0] if lib is TORCH else message(v.__imul__, 2.0)[:0])
        (s + y.sum()).backward()
        found += [x.grad, a, y]
    return found


def stores_behind_outputs_that_are_views(lib):
    found = []
    for rule in (same(lib), first(lib)):
        a = lib.tensor([1.0, 2.0]) * 1
        y = rule.apply(a)
        s = (y * y).sum()
        a *= 2.0
        found += [message(lambda y=y: y * 2), message(s.backward)[:0]]
    return found


def outputs_that_are_views_where_nothing_is_recorded(lib):
    x = lib.tensor([1.0, 2.0])
    s = (x * x).sum()
    with lib.no_grad():
        y = same(lib).apply(x)
        y *= 2.0
    return message(s.backward)


def a_saved_array_that_is_dirty(lib):
    class Exp(lib.Function):
        @staticmethod
        def forward(ctx, x):
            x += 1.0
            ctx.mark_dirty(x)
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, bar):
            return bar * ctx.saved_tensors[0]

    x = lib.tensor([1.0, 2.0])
    Exp.apply(x * 1).sum().backward()
    z = Exp.apply(x * 1)
    z *= 2.0
    return x.grad, message(z.sum().backward)


def gradients_of_what_is_no_array(lib):
    class Scaled(lib.Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * n

        @staticmethod
        def backward(ctx, bar):
            return bar, bar

    x = lib.tensor([1.0, 2.0])
    return message(Scaled.apply(x, 3).sum().backward)


PROGRAMS = [
    inputs_that_retain_their_gradient, inputs_given_twice, hooks_in_a_step_of_descent,
    hooks_of_a_leaf_stay, hooks_of_the_node_of_a_leaf, a_leaf_that_is_turned_off, flags_of_results,
    a_leaf_that_looks_at_another_array, layouts_with_a_graph, unused,
    plain_arrays_without_gradients, stores_into_outputs_that_are_views,
    stores_behind_outputs_that_are_views, outputs_that_are_views_where_nothing_is_recorded,
    a_saved_array_that_is_dirty, gradients_of_what_is_no_array,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.filterwarnings("ignore:.*create_graph=True will create a reference cycle")
@pytest.mark.filterwarnings("ignore:grad and param do not obey")
def test_a_program_beside_torch(program):
    assert seen(program(OURS)) == seen(program(TORCH))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda dot: (dot, dot), "invalid number of forward gradients (expected 1 but got 2)"),
        (lambda dot: dot[:1], "has a different size than that of the original"),
        (lambda dot: 3, "(got int) for grad output 0."),
    ],
)
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_what_a_rule_for_forward_mode_gives_is_checked(given, words):
    for lib, forward in ((OURS, our_forward), (TORCH, torch.autograd.forward_ad)):

        class Twice(lib.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def jvp(ctx, dot):
                return given(dot)

        x = lib.tensor([1.0, 2.0], requires_grad=False)
        with forward.dual_level(), pytest.raises(RuntimeError, match=re.escape(words)):
            forward.unpack_dual(Twice.apply(forward.make_dual(x, x + 1)))


def test_the_old_name_of_grad_tensors_warns():
    x = ours.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        ours.backward(x * 2, grad_variables=np.ones(2))
    np.testing.assert_array_equal(x.grad.numpy(), 2.0)


def test_a_store_with_a_history_below_a_leaf_is_refused():
    whole = ours.tensor(np.zeros(3), requires_grad=False)
    leaf = whole[:2].requires_grad_()
    whole[0] = ours.tensor(1.0, requires_grad=True) * 2
    with pytest.raises(NotImplementedError, match="memory of a leaf that requires a gradient"):
        leaf * 2
