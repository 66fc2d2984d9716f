"""Code as it is written for torch, run in both: checkpoints, contexts that are kept, hooks, modes.

Each program is a function of a library's names, and gives what is to be seen.
"""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import fdiff
import fdiff.autograd as ours

OURS = SimpleNamespace(
    tensor=lambda x, requires_grad=True: ours.tensor(np.array(x), requires_grad=requires_grad),
    autograd=ours, forward_ad=ours.forward_ad, checkpoint=fdiff.checkpoint, sin=np.sin,
    no_grad=ours.no_grad, inference_mode=ours.inference_mode,
)  # fmt: skip
TORCH = SimpleNamespace(
    tensor=lambda x, requires_grad=True: torch.tensor(
        x, dtype=torch.float64, requires_grad=requires_grad
    ),
    autograd=torch.autograd, forward_ad=torch.autograd.forward_ad,
    checkpoint=lambda f, *args: checkpoint(f, *args, use_reentrant=False), sin=torch.sin,
    no_grad=torch.no_grad, inference_mode=torch.inference_mode,
)  # fmt: skip


def seen(x):
    """What is compared of one value."""
    if isinstance(x, (list, tuple)):
        return [seen(one) for one in x]
    if isinstance(x, (torch.Tensor, ours.RecordedArray)):
        return x.requires_grad, x.is_leaf, np.round(x.detach().tolist(), 9).tolist()
    return x


def message(call):
    """The kind and the first words of the error that a call raises."""
    with pytest.raises((RuntimeError, TypeError, AttributeError)) as caught:
        call()
    return type(caught.value), str(caught.value)[:60]


def gradients_inside_of_a_checkpoint(lib):
    x = lib.tensor([1.0, 2.0])

    def slope(a):
        (bar,) = lib.autograd.grad((a**3 * lib.sin(a)).sum(), a, create_graph=True)
        (second,) = lib.autograd.grad(bar.sum(), a, create_graph=True)
        return second * bar

    (first,) = lib.autograd.grad(lib.checkpoint(slope, x).sum(), x, create_graph=True)
    return first, lib.autograd.grad(first.sum(), x)


def checkpoints_in_checkpoints(lib):
    x = lib.tensor([1.0, 2.0])

    def inner(a):
        (bar,) = lib.autograd.grad((a**3).sum(), a, create_graph=True)
        return lib.sin(bar)

    return lib.autograd.grad(lib.checkpoint(lambda a: lib.checkpoint(inner, a * a) * a, x).sum(), x)


def arguments_of_a_checkpoint(lib):
    x, calls = lib.tensor([1.0, 2.0]), []
    y = x * 2

    def f(a, factor):
        calls.append((a is y, a.is_leaf, a.grad_fn is y.grad_fn, factor))
        return a * a * factor

    lib.checkpoint(f, y, 3.0).sum().backward()
    return calls, x.grad


def what_a_checkpoint_runs_again(lib):
    x, calls = lib.tensor([1.0, 2.0]), []

    def f(a):
        calls.append("begin")
        b = a * a
        calls.append("saved")
        c = b + 1
        calls.append("end")
        return c

    lib.checkpoint(f, x).sum().backward()
    lib.checkpoint(lambda a: calls.append("nothing is saved") or a + 1, x).sum().backward()
    return calls, x.grad


def _product(lib, *, materialize):
    given = []

    class Product(lib.autograd.Function):
        @staticmethod
        def forward(a, b, scale):
            return a * b * scale

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(*inputs[:2])
            ctx.scale = inputs[2]
            if not materialize:
                ctx.set_materialize_grads(False)

        @staticmethod
        def jvp(ctx, da, db, dscale):
            given.append((seen(da), seen(db), dscale))
            a, b = ctx.saved_tensors
            da, db = (0 * a if da is None else da), (0 * b if db is None else db)
            return (da * b + a * db) * ctx.scale

    return Product, given


def tangents_that_a_rule_is_given(lib):
    found = []
    for materialize in (True, False):
        product, given = _product(lib, materialize=materialize)
        with lib.forward_ad.dual_level() as level:
            a, b = lib.tensor([1.0, 2.0], False), lib.tensor([3.0, 4.0], False)
            dual = lib.forward_ad.make_dual(a, b)
            for x, y in ((dual, b), (b, dual), (dual, dual)):
                tangent = lib.forward_ad.unpack_dual(product.apply(x, y, 2)).tangent
                found.append(tangent.tolist())
            found += [level, *given]
    return found


def the_other_name_of_backward(lib):
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

        @staticmethod
        def vjp(ctx, bar):
            return bar * 7

    class Both(Double):
        @staticmethod
        def backward(ctx, bar):
            return bar

    x = lib.tensor([1.0, 2.0])
    error = message(lambda: lib.autograd.grad(Both.apply(x).sum(), x))
    return lib.autograd.grad(Double.apply(x).sum(), x), error


def edges_have_no_zeros(lib):
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([1.0, 2.0])
    edges = [lib.autograd.graph.get_gradient_edge(e) for e in (y, y * 2, x * 1)]
    known = lib.autograd.grad(x.sum(), (x, y), materialize_grads=True)
    return known, [
        message(lambda e=e: lib.autograd.grad(x.sum(), (x, e), materialize_grads=True))
        for e in edges
    ]


def contexts_that_are_kept(lib):
    kept = []

    class Square(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * x
            ctx.save_for_backward(x, y)
            ctx.power = 2
            return y

        @staticmethod
        def backward(ctx, bar):
            kept.append(ctx)
            return bar * 2 * ctx.saved_tensors[0]

    x, seen_later = lib.tensor([1.0, 2.0]), []
    for retain in (True, False):
        y = Square.apply(x * 1).sum()
        y.backward(retain_graph=retain)
        del y
        ctx = kept[-1]
        seen_later.append((ctx.power, ctx.needs_input_grad))
        values = lambda ctx=ctx: [a.tolist() for a in ctx.saved_tensors]
        seen_later.append(values() if retain else message(values))
    return seen_later


def what_is_packed(lib):
    x, packed = lib.tensor([1.0, 2.0]), []
    with lib.autograd.graph.saved_tensors_hooks(
        lambda a: packed.append(a.tolist()) or a, lambda a: a
    ):
        y = [x * 2, x * 2.5, 2 * x, x + 1, x**2, x * lib.tensor([3.0, 4.0], False)]
    return packed, lib.autograd.grad(sum(part.sum() for part in y), x)


def versions_of_what_is_unpacked(lib):
    versions = []

    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return 2 * x

        @staticmethod
        def backward(ctx, bar):
            versions.append(ctx.saved_tensors[0]._version)
            return 2 * bar

    x, other = lib.tensor([1.0, 2.0]), lib.tensor([1.0, 2.0], False)
    other += 1
    other += 1
    for unpack in (lambda a: a, lambda a: other):
        with lib.autograd.graph.saved_tensors_hooks(lambda a: a, unpack):
            y = Double.apply(x)
        y.sum().backward()
    return versions


def results_of_hooks_after_accumulation(lib):
    errors = []
    for result in (lambda leaf: leaf * 2, lambda leaf: 3):
        x = lib.tensor([1.0, 2.0])
        x.register_post_accumulate_grad_hook(result)
        errors.append(message((x * 2).sum().backward))
    return errors


def an_output_returned_twice(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * 3

    x = lib.tensor([1.0, 2.0])
    a, b = Twice.apply(x)
    sums = (a.sum(), b.sum(), (a * b).sum())
    return a is b, [lib.autograd.grad(s, x, retain_graph=True) for s in sums]


def graphs_of_gradients_without_recording(lib):
    x = lib.tensor([1.0, 2.0])
    y = (x**3).sum()
    with lib.no_grad():
        (bar,) = lib.autograd.grad(y, x, create_graph=True)
    return bar, lib.autograd.grad(bar.sum(), x)


def _flags(x):
    return x.is_inference(), x.requires_grad, None if x.is_inference() else x._version


def what_is_made_in_inference_mode(lib):
    found = []
    for requires in (True, False):
        with lib.inference_mode():
            x = lib.tensor([1.0, 2.0], requires)
            x.add_(2.0)
            y = x * x
            found += [_flags(a) for a in (x, y, x.view(-1), y.view(1, 2), x.detach())]
    return found


def what_is_viewed_in_inference_mode(lib):
    found = []
    for requires in (True, False):
        leaf = lib.tensor([1.0, 2.0], requires)
        a = leaf * 1
        with lib.inference_mode():
            a.add_(2.0)
            view = a.view(-1)
            again = view.view(1, 2)
            found += [_flags(x) for x in (a, view, again)]
            again.add_(2.0)
            found += [(_flags(x), x.tolist()) for x in (a, view, again)]
        product = (a * 3).sum()
        found.append((_flags(a), _flags(product), product.item()))
        if requires:
            found.append(lib.autograd.grad(product, leaf))
    return found


def views_of_inference_mode_outside_of_it(lib):
    found = []
    for requires in (True, False):
        a = lib.tensor([1.0, 2.0], requires) * 1
        with lib.inference_mode():
            view, other = a.view(-1), a.view(-1)
        found.append((_flags(view), (view * view).requires_grad))
        if requires:
            found.append(message(lambda view=view: view.add_(2.0)))
            a.add_(2.0)
            found.append(message(lambda other=other: other.grad_fn))
        else:
            found.append(view.add_(2.0))
            found.append(other.grad_fn)
    return found


def inference_arrays_among_others(lib):
    s = lib.tensor([1.0, 2.0])
    with lib.inference_mode():
        c, constant = lib.tensor([3.0, 4.0]), lib.tensor([3.0, 4.0], False)
    (c + s).sum().backward()
    a = s * 1
    errors = [message(call) for call in (lambda: c * s, lambda: a.mul_(constant))]
    errors.append(message(lambda: constant.add_(2.0)))
    saved = s * 1
    out = saved * saved
    with lib.inference_mode():
        saved.add_(2.0)
    return c.grad, s.grad, errors, message(out.sum().backward)


def an_argument_that_is_stored_into_and_returned_twice(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x, x

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * 2

    x = lib.tensor([1.0, 2.0])
    y = x.clone()
    a, b = Twice.apply(y)
    return a is b is y, lib.autograd.grad((a + b).sum(), x), message(lambda: Twice.apply(x))


def arrays_that_are_detached_and_filled_again(lib):
    mean, x, loss = lib.tensor([1.0]), lib.tensor([0.0], False), 0
    for i in range(3):
        x.detach_()
        x.copy_(mean + i)
        loss = loss + (x * lib.tensor([float(i)], False)).sum()
    return lib.autograd.grad(loss, mean)


def stores_of_every_kind(lib):
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([4.0, 5.0])
    z = x / 2 + y / 8
    q, r, before = z * y, z + y, z._version
    w = z.exp_()
    ones = lib.tensor([1.0, 1.0], False)
    r.backward(ones, retain_graph=True)
    w.backward(ones, retain_graph=True)
    mask = x.detach() > 1.5
    t = y + 0
    t[mask] = t[mask]
    t.backward(ones)
    return z._version > before, x.grad, y.grad, message(lambda: q.backward(ones))


def attributes_that_cannot_be_set(lib):
    x = lib.tensor([1.0, 2.0])
    del x.grad

    def data():
        x.data = None

    return x.grad, message(data)


def nodes_that_are_called(lib):
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([3.0, 4.0])
    bar = lib.tensor([1.0, 10.0], False)
    square, product = (x**2).grad_fn, (x * y).grad_fn
    with lib.no_grad():
        found = [square(bar), product(bar)]
    second = lib.autograd.grad(square(bar).sum(), x)
    errors = [message(lambda: square(bar, bar)), message(lambda: square())]
    return found, second, [error[0] for error in errors]


PROGRAMS = [
    nodes_that_are_called,
    an_argument_that_is_stored_into_and_returned_twice, arrays_that_are_detached_and_filled_again,
    stores_of_every_kind, attributes_that_cannot_be_set,
    what_is_made_in_inference_mode, what_is_viewed_in_inference_mode,
    views_of_inference_mode_outside_of_it, inference_arrays_among_others,
    gradients_inside_of_a_checkpoint, checkpoints_in_checkpoints, arguments_of_a_checkpoint,
    what_a_checkpoint_runs_again, tangents_that_a_rule_is_given, the_other_name_of_backward,
    edges_have_no_zeros, contexts_that_are_kept, what_is_packed, versions_of_what_is_unpacked,
    results_of_hooks_after_accumulation, an_output_returned_twice,
    graphs_of_gradients_without_recording,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_ported_code_gives_what_it_gives_in_torch(program):
    assert seen(program(OURS)) == seen(program(TORCH))
