"""Hooks of arrays and nodes, kept gradients, and where saved values are kept."""

import gc
import weakref

import numpy as np
import pytest

from fdiff.autograd import Function, backward, grad, graph, tensor


def test_retained_gradients():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.retain_grad()
    y *= 2  # it retains the gradient of what it is now
    (y * y).sum().backward()
    assert np.array_equal(y.grad, 2 * y.detach().numpy())
    with pytest.warns(UserWarning, match="is not a leaf"):
        assert (x * 2).grad is None


def test_hooks_after_accumulation():
    x, seen = tensor([1.0, 2.0], requires_grad=True), []
    handle = x.register_post_accumulate_grad_hook(lambda a: seen.append(np.array(a.grad)))
    for _ in range(2):
        (x * 2).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    assert [list(g) for g in seen] == [[2.0, 2.0], [4.0, 4.0]]
    with pytest.raises(RuntimeError, match="non-leaf"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_hooks_of_nodes():
    x, seen = tensor([1.0, 2.0], requires_grad=True), []
    y = x * 3
    z = (y * y).sum()
    y.grad_fn.register_prehook(lambda outs: (outs[0] + 1,))
    y.grad_fn.register_hook(lambda ins, outs: seen.append((np.array(ins[0]), np.array(outs[0]))))
    z.backward()
    assert np.array_equal(seen[0][1], [7.0, 13.0])
    assert np.array_equal(seen[0][0], [21.0, 39.0])
    assert np.array_equal(x.grad, [21.0, 39.0])


def test_a_hook_must_keep_shape_and_count():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 3
    y.register_hook(lambda g: g[:1])
    with pytest.raises(RuntimeError, match="hook has changed the size of value"):
        y.sum().backward()
    y = x * 3
    y.grad_fn.register_prehook(lambda outs: (outs[0], outs[0]))
    with pytest.raises(RuntimeError, match="incorrect number of values"):
        y.sum().backward()


@pytest.mark.parametrize("compiled", [True, False])
def test_hooks_of_several_arrays(compiled):
    a, b, c = (
        tensor(2.0, requires_grad=True),
        tensor(3.0, requires_grad=True),
        tensor(4.0, requires_grad=True),
    )
    seen = []
    handle = graph.register_multi_grad_hook((a, b, c), seen.append)
    for _ in range(2):
        out = a * b
        if not compiled:
            out.retain_grad()
        out.backward()
    assert [[None if g is None else float(g) for g in grads] for grads in seen] == [
        [3.0, 2.0, None]
    ] * 2
    handle.remove()
    first = []
    graph.register_multi_grad_hook((a, b), first.append, mode="any")
    (a * b).backward()
    assert len(first) == 1
    assert len(seen) == 2


def test_hooks_see_recorded_gradients_where_a_graph_is_created():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = grad(y.sum(), x, create_graph=True)
    assert np.array_equal(g.detach(), 2 * x.detach().numpy() ** 2)
    assert np.array_equal(grad(g.sum(), x)[0], 4 * x.detach().numpy())


def test_pack_and_unpack_hooks():
    x, packed = tensor([1.0, 2.0], requires_grad=True), []

    def pack(array):
        packed.append(array)
        return len(packed) - 1

    with graph.saved_tensors_hooks(pack, lambda k: packed[k]):
        y = np.sin(x) * x
    assert len(packed) == 3
    y.sum().backward()
    at = x.detach().numpy()
    np.testing.assert_allclose(x.grad, np.cos(at) * at + np.sin(at), rtol=1e-15)
    with graph.saved_tensors_hooks(lambda a: a, lambda a: np.zeros(7)):
        y = np.sin(x)
    with pytest.raises(RuntimeError, match="unpack_hook"):
        y.sum().backward()
    with (
        pytest.raises(RuntimeError, match="modifying its input in place"),
        graph.saved_tensors_hooks(lambda a: a.fill(0.0), lambda a: a),
    ):
        np.sin(x)
    with graph.disable_saved_tensors_hooks("not here"), pytest.raises(RuntimeError, match="not h"):
        graph.saved_tensors_hooks(print, print).__enter__()


@pytest.mark.parametrize("change", ["__enter__", "__exit__"])
def test_what_unpack_hooks_enter_or_leave_ends_with_them(change):
    used = []

    def unpack(array):
        getattr(context, change)()
        return array

    context = graph.saved_tensors_hooks(lambda a: a, unpack)
    x = tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda a: used.append(a) or a, lambda a: a):
        with context:
            y = np.sin(x).sum()
        y.backward()
        assert not used
        np.sin(x)
        assert len(used) == 1  # by the hooks of this block, and no others
    np.testing.assert_array_equal(x.grad, np.cos(x.detach().numpy()))
    np.sin(x)
    assert len(used) == 1


def test_saved_values_on_disk(tmp_path):
    x = tensor(np.linspace(0.0, 1.0, 5000), requires_grad=True)
    with graph.save_on_disk(tmp_path):
        y = (np.sin(x) * x).sum()
    assert len(list(tmp_path.iterdir())) == 3
    y.backward(retain_graph=True)
    y.backward()
    at = np.linspace(0.0, 1.0, 5000)
    np.testing.assert_allclose(x.grad, 2 * (np.cos(at) * at + np.sin(at)), rtol=1e-14)
    assert not list(tmp_path.iterdir())


def test_copies_on_the_host():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 1
    with graph.save_on_cpu():
        z = (y * y).sum()
    y *= 10
    z.backward()
    assert np.array_equal(x.grad, [2.0, 4.0])


def test_edges_and_versions():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    y.grad_fn.metadata["step"] = 1
    edge, z = graph.get_gradient_edge(y), (y * 3).sum()
    assert edge.node.metadata == {"step": 1}
    del y
    assert np.array_equal(grad(z, edge, retain_graph=True)[0], [3.0, 3.0])
    backward(edge, np.ones(2), retain_graph=True)
    assert np.array_equal(x.grad, [2.0, 4.0])
    graph.increment_version(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def nodes_behind(array):
    """Weak references to all nodes of a graph."""
    waiting, seen = [array.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [n for n, _ in node.next_functions]
    return [weakref.ref(node) for node in seen]


def test_memory_of_a_graph_is_freed_with_its_last_array():
    gc.disable()
    try:
        x = tensor(np.ones(10), requires_grad=True)
        y = (np.sin(x) * x).reshape(2, 5)
        y *= 2
        left = nodes_behind(y)
        assert len(left) >= 5
        del y
        assert [r() for r in left if r() is not None] == [graph.get_gradient_edge(x).node]
    finally:
        gc.enable()


@pytest.mark.parametrize("create", [False, True])
def test_gradients_are_taken_before_hooks_where_more_is_asked_for_behind(create):
    """As torch 2.13 does: of an end itself, they are taken after its hooks."""

    def made():
        w = tensor(np.ones(2), requires_grad=True)
        y = w * 2.0
        y.register_hook(lambda g: g * 10.0)
        y.grad_fn.register_prehook(lambda grads: (grads[0] * 5.0,))
        return w, y, (y * 3.0).sum()

    def taken(out, inputs):
        return [g.numpy().tolist() for g in grad(out, inputs, create_graph=create)]

    w, y, out = made()
    assert taken(out, [w, y]) == [[300.0, 300.0], [3.0, 3.0]]
    w, y, out = made()
    assert taken(out, [y]) == [[30.0, 30.0]]
    w, y, out = made()
    y.retain_grad()
    out.backward()
    assert y.grad.numpy().tolist() == [30.0, 30.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_node_of_an_input_is_run_with_its_hooks(create_graph):
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    calls = []
    y.grad_fn.register_prehook(lambda bars: calls.append("before") or (bars[0] * 10,))
    y.grad_fn.register_hook(lambda bars, _: calls.append("after"))
    y.register_hook(lambda bar: bar + 1)
    loss = (y * 3).sum()
    loss.backward(inputs=[y], create_graph=create_graph, retain_graph=True)
    assert calls == ["before", "after"]
    np.testing.assert_array_equal(y.grad.detach(), [4.0, 4.0])
    assert y.retains_grad
    assert x.grad is None
    loss.backward(inputs=[y, x])
    np.testing.assert_array_equal(y.grad.detach(), [8.0, 8.0])
    np.testing.assert_array_equal(x.grad.detach(), [80.0, 160.0])


def test_gradients_with_a_graph_make_no_cycle():
    """So torch's warning of `backward(create_graph=True)` has nothing to warn of."""

    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * bar

    for f in (lambda x: np.sin(x) * x, Cube.apply, lambda x: np.concatenate([x, x])[::2] ** 2):
        gc.collect()
        gc.disable()
        try:
            x = tensor([1.0, 2.0], requires_grad=True)
            f(x).sum().backward(create_graph=True)
            assert x.grad.requires_grad
            freed = weakref.ref(x)
            del x
            assert freed() is None
        finally:
            gc.enable()


def test_nodes_are_called_with_gradients_of_their_outputs():
    x, y = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad=True)
    node = (x * y).grad_fn
    bars = node(np.array([1.0, 10.0]))
    np.testing.assert_array_equal([bar.detach() for bar in bars], [[3.0, 40.0], [1.0, 20.0]])
    np.testing.assert_array_equal(grad(bars[0].sum(), y)[0], [1.0, 10.0])
    with pytest.raises(TypeError, match="expected 1 arguments, got 2 instead"):
        node(x, x)
    with pytest.raises(TypeError, match="not callable"):
        graph.get_gradient_edge(x).node(x)
