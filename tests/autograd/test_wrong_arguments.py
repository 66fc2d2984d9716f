"""Arguments that the names of torch.autograd and their like do not take.

Each is refused where it is given: the message, or its note, names the public call, shows the line
and offers a way out, and nothing that was asked for is passed over in silence.
"""

import numpy as np
import pytest

import fdiff
from fdiff import autograd
from fdiff.autograd import Function, forward_ad, function, graph, tensor
from fdiff.errors import FdiffError, InputError
from fdiff.profiler import profile

X = np.array([1.0, 2.0, 3.0])


def leaf():
    return tensor(X, requires_grad=True)


def loss(x=None):
    return np.sum((leaf() if x is None else x) ** 2)


class Twice(Function):
    marked = None

    @classmethod
    def forward(cls, ctx, x):
        if cls.marked is not None:
            getattr(ctx, cls.marked[0])(*cls.marked[1])
        return x * 2.0

    @staticmethod
    def backward(ctx, bar):
        return bar * 2.0


class WithoutForward(Function):
    pass


def marking(method, *args):
    return type("Marking", (Twice,), {"marked": (method, args)})


def entered(context):
    with context:
        pass


def watched(**options):
    with profile() as prof:
        fdiff.grad(np.sin)(0.5)
    return prof.table(**options)


def sliced(**options):
    return fdiff.primitive(lambda x: x * 2.0, **{"partials": lambda x, out: (2.0,)} | options)


def pulled(**options):
    p = sliced(**options)
    return fdiff.grad(lambda x: np.sum(p(x)))(X)


def saved_by(pack, unpack):
    with graph.saved_tensors_hooks(pack, unpack):
        loss().backward()


# The call, what is wrong with it, and the way out.
REFUSED = {
    "pack arguments": (
        lambda: saved_by(lambda: 1, lambda x: x),
        r"hooks: pack_hook is called as pack_hook\(array\).* takes 0 pos",
        r"pack_hook\(array\)\.",
    ),
    "unpack arguments": (
        lambda: saved_by(lambda x: x, lambda x, y: x),
        r"hooks: unpack_hook is called as unpack_hook\(packed\).*missing 1",
        r"unpack_hook\(packed\)\.",
    ),
    "hook arguments": (
        lambda: hooked(lambda: 1),
        r"the hook `<lambda>` is called as hook\(grad\)",
        r"hook\(grad\)",
    ),
    "node hook arguments": (
        lambda: hooked_node(lambda grads: grads),
        r"is called as hook\(grad_inputs, grad_outputs\)",
        "hook",
    ),
    "tensor of rows": (
        lambda: tensor([[1.0], [1.0, 2.0]], requires_grad=True),
        "tensor: .*inhomogeneous",
        "equal len",
    ),
    "tensor dtype": (
        lambda: tensor(X, dtype="no", requires_grad=True),
        "tensor: data type 'no'",
        "a dtype of NumPy",
    ),
    "requires_grad": (
        lambda: tensor(X, "yes"),
        "tensor: requires_grad must be True",
        "True or False",
    ),
    "backward None": (lambda: autograd.backward(None), "backward: .*not NoneType", "by fdiff.auto"),
    "backward []": (
        lambda: autograd.backward([]),
        "backward: there are no outputs",
        "at least one",
    ),
    "backward inputs": (lambda: loss().backward(inputs=3), "not int", "by fdiff.autograd.tensor"),
    "grad function": (
        lambda: autograd.grad(loss, leaf()),
        "grad: .*not function",
        "autograd.tensor",
    ),
    "grad of edge": (
        lambda: autograd.grad(loss(), None),
        "grad: .*not NoneType",
        "autograd.tensor",
    ),
    "hook": (lambda: leaf().register_hook(3), "register_hook: hook must be a f.*not int", "itself"),
    "post hook": (
        lambda: leaf().register_post_accumulate_grad_hook("f"),
        "_hook: hook must",
        "itself",
    ),
    "node hook": (lambda: loss().grad_fn.register_hook(3), "Node.register_hook: fn", "itself"),
    "prehook": (lambda: loss().grad_fn.register_prehook(0), "Node.register_prehook: fn", "itself"),
    "multi hook fn": (lambda: graph.register_multi_grad_hook([leaf()], 3), "_hook: fn", "itself"),
    "multi hook one": (lambda: graph.register_multi_grad_hook(leaf(), print), "a seq", "in a list"),
    "multi hook of": (
        lambda: graph.register_multi_grad_hook([3], print),
        "not int",
        "by fdiff.auto",
    ),
    "edge": (
        lambda: graph.get_gradient_edge(X),
        "get_gradient_edge: .*not ndarray",
        "by fdiff.auto",
    ),
    "version": (
        lambda: graph.increment_version(3),
        "increment_version: .*not int",
        "by fdiff.auto",
    ),
    "versions": (lambda: graph.increment_version([X]), "not ndarray", "by fdiff.autograd.tensor"),
    "pack": (lambda: graph.saved_tensors_hooks(3, print), "hooks: pack_hook must", "itself"),
    "unpack": (lambda: graph.saved_tensors_hooks(print, None), "hooks: unpack_hook must", "itself"),
    "no message": (
        lambda: entered(graph.disable_saved_tensors_hooks(None)),
        "hooks: error_message",
        "why",
    ),
    "directory": (lambda: graph.save_on_disk("/nowhere/at/all"), "no directory '/now", "Make it"),
    "directory type": (lambda: graph.save_on_disk(3), "directory must be a path, not int", "a str"),
    "smallest": (lambda: graph.save_on_disk(smallest="a"), "smallest must be a number", "an int"),
    "smallest < 0": (lambda: graph.save_on_disk(smallest=-1), "bytes, not -1", "an int"),
    "bare decorator": (
        lambda: autograd.detect_anomaly(loss),
        "check_nan must be True.*function",
        "parentheses",
    ),
    "anomaly mode": (
        lambda: autograd.set_detect_anomaly("off"),
        "mode must be True",
        "parentheses",
    ),
    "anomaly nan": (lambda: autograd.set_detect_anomaly(True, 2), "check_nan must", "parentheses"),
    "no_grad": (lambda: autograd.no_grad(3), r"no_grad\(\): what is decorated must", "itself"),
    "enable_grad": (lambda: autograd.enable_grad()("f"), "what is decorated must.*str", "itself"),
    "inference_mode": (lambda: autograd.inference_mode("on"), "mode must be True", "True or False"),
    "once": (lambda: function.once_differentiable(3), "once_differentiable: what is", "itself"),
    "called": (lambda: Twice()(X), "Twice: an object of the class was called", r"Twice.apply\("),
    "dirty": (
        lambda: marking("mark_dirty", 3).apply(leaf()),
        "mark_dirty: .*not int",
        "of its own",
    ),
    "flat": (
        lambda: marking("mark_non_differentiable", [X]).apply(leaf()),
        "not list",
        "not in a list",
    ),
    "unpack_dual": (lambda: forward_ad.unpack_dual("a"), "unpack_dual: .*not str", "make_dual"),
    "nondet_tol": (
        lambda: fdiff.gradcheck(loss, X, nondet_tol=None),
        "nondet_tol must",
        "Leave it",
    ),
    "row_limit": (
        lambda: watched(row_limit="a"),
        "table: row_limit must be an int",
        "Leave it out",
    ),
    "width": (lambda: watched(max_name_column_width="a"), "width of a column", "Leave it out"),
    "partials": (
        lambda: pulled(partials=lambda x, out: 2.0),
        "tuple of 1 .*not float",
        r"\(slope,\)",
    ),
    "partials of two": (lambda: pulled(partials=lambda x, out: (2.0, 1.0)), "not 2", r"\(slope,\)"),
    "like": (lambda: sliced(like="a"), r"primitive\(<lambda>\): like must be", "Leave it out"),
    "like out of range": (lambda: pulled(like=7), "like=7 names an argument", "counted from 0"),
    "samples": (
        lambda: sliced(samples=3),
        "samples must be a sequence of tuples",
        r"\[\(x,\), \(y",
    ),
    "sparsity": (lambda: sliced(sparsity=3), "primitive: expects a function", "Pass the function"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_where_it_is_given(name):
    call, fact, way = REFUSED[name]
    with pytest.raises(FdiffError, match=rf"(?s){fact}.*test_wrong_arguments\.py:\d+:.*{way}"):
        call()


def dual(*args, **options):
    with forward_ad.dual_level():
        return forward_ad.make_dual(*args, **options)


# Errors in torch's own words: which they are, and the way out in the note.
IN_TORCH_WORDS = {
    "hook of a constant": (
        lambda: leaf().detach().register_hook(print),
        "register_hook",
        "requires_grad=True",
    ),
    "post hook": (
        lambda: (leaf() * 2).register_post_accumulate_grad_hook(print),
        "_grad_hook",
        "register_hook",
    ),
    "retain_grad": (lambda: leaf().detach().retain_grad(), "retain_grad", "requires_grad=True"),
    "constant": (lambda: leaf().detach().backward(), "backward", "outside of no_grad"),
    "shape of hook": (lambda: hooked(lambda _: np.ones(9)), "backward", "the same shape, or None"),
    "no inputs": (lambda: autograd.grad(loss(), []), "grad", "at least one"),
    "empty inputs": (lambda: loss().backward(inputs=[]), "backward", "Leave it out"),
    "complex cotangent": (
        lambda: autograd.backward(leaf() * 2, np.ones(3, complex)),
        "backward",
        "like the output",
    ),
    "text as cotangent": (lambda: loss().backward("a"), "backward", "like the output"),
    "cotangent of an edge": (
        lambda: autograd.backward(graph.get_gradient_edge(leaf() * 2), np.ones(9)),
        "backward",
        "like the output",
    ),
    "no forward": (lambda: WithoutForward.apply(leaf()), "WithoutForward.apply", "forward\\(ctx"),
    "arguments of forward": (lambda: Twice.apply(leaf(), 3), "Twice.apply", "Pass what"),
    "saved": (
        lambda: marking("save_for_backward", "a").apply(leaf()),
        "Marking.apply",
        "attributes of ctx",
    ),
    "no level": (lambda: forward_ad.make_dual(X, X), "make_dual", "dual_level\\(\\)"),
    "no level to end": (
        lambda: forward_ad.exit_dual_level(),
        "exit_dual_level",
        "dual_level\\(\\)",
    ),
    "level of dual": (lambda: forward_ad.unpack_dual(X, level="a"), "unpack_dual", "Leave level"),
    "shape of tangent": (lambda: dual(X, np.ones(4)), "make_dual", "like the primal"),
    "integers": (lambda: dual(np.arange(3), X), "make_dual", "astype"),
}


def hooked_node(hook):
    out = loss()
    out.grad_fn.register_hook(hook)
    out.backward()


def hooked(hook):
    x = leaf()
    x.register_hook(hook)
    loss(x).backward()


@pytest.mark.parametrize("name", IN_TORCH_WORDS)
def test_errors_in_words_of_torch_have_a_note(name):
    call, public, way = IN_TORCH_WORDS[name]
    with pytest.raises((RuntimeError, TypeError, ValueError)) as caught:
        call()
    assert not isinstance(caught.value, FdiffError)
    (note,) = caught.value.__notes__
    with pytest.raises(InputError, match=rf"(?s){public}.*: this line .*{way}"):
        raise InputError(note)
    assert "test_wrong_arguments.py:" in note


def test_what_is_accepted_stays_accepted():
    assert autograd.inference_mode(np.True_).mode is True
    with graph.save_on_disk(None), graph.save_on_disk("."):
        loss().backward()
    complex_leaf = tensor(X * (1.0 + 1.0j), requires_grad=True)
    (complex_leaf * 2).backward(X)  # a real cotangent is a complex one
    assert np.array_equal(complex_leaf.grad.value, 2.0 * X)
    edge = graph.get_gradient_edge(leaf() * 2)
    autograd.backward(edge, np.ones(3, np.float32))
    assert forward_ad.unpack_dual(3.0).tangent is None
