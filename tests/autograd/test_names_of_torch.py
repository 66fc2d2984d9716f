"""`fdiff.autograd` by the names of torch.autograd: modules, `functional`, methods of tensors."""

import importlib
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff import autograd
from fdiff.autograd import RecordedArray, forward_ad, functional, grad, tensor
from fdiff.errors import DeviceError, FdiffError, StrictError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/torch_functional.json").read_text())
MODULES = {
    "anomaly_mode": ["detect_anomaly", "set_detect_anomaly"],
    "forward_ad": ["dual_level", "make_dual", "unpack_dual"],
    "function": ["Function", "FunctionCtx", "once_differentiable"],
    "functional": ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"],
    "grad_mode": ["enable_grad", "inference_mode", "no_grad", "set_multithreading_enabled"],
    "gradcheck": ["GradcheckError", "gradcheck", "gradgradcheck"],
    "graph": ["Node", "save_on_cpu", "saved_tensors_hooks"],
    "profiler": ["emit_nvtx", "profile", "record_function"],
    "variable": ["Variable"],
}
POINTS = {
    "x": np.array([4.0, 5.0]), "y": np.array([0.5, -1.5]), "z": np.array([1.0, 2.0, 3.0]),
    "s": np.array([2.0]), "o": np.array(3.0), "m": np.array([[1.0, 2.0], [3.0, 4.0]]),
    "h": np.array([1.0, 2.0], np.float32), "n": np.array([1, 2]),
}  # fmt: skip
READ_FROM_OUTSIDE = ("jacobian(lambda a: a * x, x)", "jacobian(lambda a: a * 0 + x, x)")
X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0]])


@pytest.mark.parametrize("name", MODULES)
def test_modules_are_found_and_have_their_names(name):
    module = importlib.import_module(f"fdiff.autograd.{name}")
    assert all(hasattr(module, part) for part in MODULES[name])
    if name == "gradcheck":  # the function, as in torch
        assert autograd.gradcheck is module.gradcheck is fdiff.gradcheck
    else:
        assert getattr(autograd, name) is module
    assert autograd.gradgradcheck is fdiff.gradgradcheck


def scope(points):
    return {**points, **{name: getattr(functional, name) for name in functional.__all__}, "np": np}


@pytest.mark.parametrize("case", [case for case, found in GOLDEN.items() if "result" in found])
@pytest.mark.parametrize("requires_grad", [None, False, True])
def test_functional_gives_what_torch_gives(case, requires_grad):
    # What requires a gradient has to be an argument: read from outside it is refused.
    requires_grad = requires_grad and case not in READ_FROM_OUTSIDE
    points = POINTS
    if requires_grad is not None:
        points = {k: tensor(v, requires_grad=requires_grad and k != "n") for k, v in POINTS.items()}
    kind = (np.ndarray, np.generic) if requires_grad is None else RecordedArray

    def agree(found, wanted):
        if isinstance(wanted, list):
            assert isinstance(found, tuple)
            assert len(found) == len(wanted)
            for f, w in zip(found, wanted, strict=True):
                agree(f, w)
            return
        assert isinstance(found, kind)
        if requires_grad and "create_graph=True)" not in case.replace(".sum", ")"):
            assert not found.requires_grad
        value = found if requires_grad is None else found.detach()
        assert (str(value.dtype), list(value.shape)) == (wanted["dtype"], wanted["shape"])
        np.testing.assert_allclose(np.ravel(value), wanted["value"], rtol=1e-14, atol=0)

    agree(eval(case, scope(points)), GOLDEN[case]["result"])


@pytest.mark.parametrize("case", [case for case, found in GOLDEN.items() if "error" in found])
def test_functional_refuses_what_torch_refuses(case):
    with pytest.raises(FdiffError):
        eval(case, scope({k: tensor(v) for k, v in POINTS.items()}))


def test_signatures_are_those_of_torch():
    products = ["func", "inputs", "v", "create_graph", "strict"]
    for name in ("vjp", "jvp", "vhp", "hvp"):
        assert [*inspect.signature(getattr(functional, name)).parameters] == products
    matrices = {"jacobian": "strategy", "hessian": "outer_jacobian_strategy"}
    for name, strategy in matrices.items():
        expected = ["func", "inputs", "create_graph", "strict", "vectorize", strategy]
        assert [*inspect.signature(getattr(functional, name)).parameters] == expected


def test_create_graph_decides_whether_backward_goes_through():
    x = tensor([1.0, 2.0], requires_grad=True)
    for f, expected in (
        (lambda **kw: functional.jacobian(lambda a: a * a * a, x, **kw), 6 * x.detach()),
        (lambda **kw: functional.vjp(lambda a: a * a * a, x, x.detach(), **kw)[1], [6.0, 24.0]),
        (lambda **kw: functional.hessian(lambda a: (a**3).sum(), x, **kw), [6.0, 6.0]),
    ):
        assert not f().requires_grad
        (bar,) = grad(f(create_graph=True).sum(), x)
        np.testing.assert_allclose(bar, expected)


STRICT = {
    "jacobian": (lambda a: a * 3, lambda a: a * a, ()),
    "vjp": (lambda a: a * 3, lambda a: a * a, (np.ones(2),)),
    "jvp": (lambda a: a * 3, lambda a: a * a, (np.ones(2),)),
    "hessian": (lambda a: (a * a).sum(), lambda a: (a**3).sum(), ()),
    "hvp": (lambda a: (a * a).sum(), lambda a: (a**3).sum(), (np.ones(2),)),
    "vhp": (lambda a: (a * a).sum(), lambda a: (a**3).sum(), (np.ones(2),)),
}


@pytest.mark.parametrize("name", STRICT)
@pytest.mark.parametrize("make", [np.array, tensor, lambda x: tensor(x, requires_grad=True)])
def test_constant_derivatives_are_refused_where_a_graph_is_asked_for(name, make):
    constant, varies, v = STRICT[name]
    call, x = getattr(functional, name), make([1.0, 2.0])
    call(constant, x, *v, strict=True)
    call(varies, x, *v, strict=True, create_graph=True)
    order = "jacobian" if name[0] == "j" or name == "vjp" else "hessian"
    words = f"The {order} of the user-provided function is independent of input 0.*create_graph"
    with pytest.raises(StrictError, match=words):
        call(constant, x, *v, strict=True, create_graph=True)


# Methods, what they are in NumPy's words, and whether that has a derivative.
METHODS = {
    "x.view(2, -1)": "x.reshape(2, -1)", "x.view((3, 2))": "x.reshape(3, 2)",
    "x.unsqueeze(1)": "np.expand_dims(x, 1)", "x.unsqueeze(dim=0)": "x[None]",
    "x.unsqueeze(0).squeeze()": "x", "x.to(np.float32)": "x.astype(np.float32)",
    "x.to(dtype='float32')": "x.astype(np.float32)", "x.to(x)": "x", "x.to('cpu')": "x",
    "x.add(y)": "x + y", "x.add(y, alpha=3)": "x + 3 * y", "x.sub(2.0)": "x - 2.0",
    "x.mul(y)": "x * y", "x.div(2.0)": "x / 2.0", "x.pow(3)": "x ** 3", "x.neg()": "-x",
    "x.matmul(y.T)": "x @ y.T", "x.relu()": "np.maximum(x, 0)", "x.exp().log()": "x",
    "x.sigmoid()": "1 / (1 + np.exp(-x))", "x.tanh().abs()": "np.abs(np.tanh(x))",
    "(x * 1).add_(y)": "x + y", "(x * 1).sub_(y, alpha=2)": "x - 2 * y", "(x * 1).pow_(2)": "x**2",
    "(x * 1).mul_(x)": "x * x", "(x * 1).div_(4)": "x / 4", "(x * 1).zero_()": "x * 0",
    "(x * 1).fill_(3)": "x * 0 + 3", "(x * 1).copy_(y)": "y + 0 * x", "x.T": "x.transpose()",
    "(x * 1).exp_()": "np.exp(x)", "(x * 1).abs_().sqrt_()": "np.sqrt(np.abs(x))",
}  # fmt: skip


@pytest.mark.parametrize("text", METHODS)
def test_methods_of_tensors(text):
    def run(words, x, weights):
        out = eval(words, {"np": np, "x": x, "y": x * 0.5 + 1.0})
        return out, (out * weights).sum()

    x = tensor(X, requires_grad=True)
    shape = eval(METHODS[text], {"np": np, "x": X, "y": X}).shape
    weights = np.cos(np.arange(6.0)).reshape(shape) if np.prod(shape) == 6 else np.ones(shape)
    (out, loss), (same, other) = run(text, x, weights), run(METHODS[text], x, weights)
    assert out.dtype == same.dtype
    np.testing.assert_allclose(out.detach(), same.detach(), rtol=1e-15)
    expected = grad(other, x, materialize_grads=True)[0]
    np.testing.assert_allclose(grad(loss, x, materialize_grads=True)[0], expected, rtol=1e-13)
    # The same where an operator traces the function, because it is given a recorded array.
    if "view" not in text:
        traced = fdiff.grad(lambda x: run(text, x, weights)[1])
        np.testing.assert_allclose(traced(x).detach(), expected, rtol=1e-13)
        np.testing.assert_allclose(traced(x.detach()), expected, rtol=1e-13)


def test_methods_that_store_give_their_array():
    x = tensor(X)
    version = x._version
    for call in (x.add_, x.sub_, x.mul_, x.div_, x.pow_, x.fill_, x.copy_):
        assert call(2.0) is x
    assert x.zero_() is x
    assert x._version == version + 8
    leaf = tensor(X, requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.add_(1.0)
    (leaf * leaf).sum().backward()
    leaf.grad.zero_()
    np.testing.assert_array_equal(leaf.grad, 0.0)
    with pytest.raises(TypeError, match=r"x = x\.add"):
        tensor(X).sum().add_(1.0)


def test_sizes_and_views():
    x = tensor(X)
    assert (x.size, x.size(0), x.size(-1), x.size()) == (6, 2, 3, (2, 3))
    assert np.zeros(x.size).shape == (6,)
    view = x.view(-1)
    view[0] = 7.0
    assert x[0, 0].item() == 7.0
    assert x.view(np.int64).dtype == np.int64
    with pytest.raises(RuntimeError, match=r"view size is not compatible.*reshape"):
        x.T.view(-1)
    with pytest.raises(DeviceError, match="memory of the host"):
        x.to("cuda:0")


def test_nan_and_kinks_of_relu_are_those_of_torch():
    x = tensor([np.nan, 0.0, -0.0, -1.0, 2.0], requires_grad=True)
    out = x.relu()
    np.testing.assert_array_equal(out.detach(), [np.nan, 0.0, 0.0, 0.0, 2.0])
    np.testing.assert_array_equal(grad(out[1:].sum(), x)[0], [0.0, 0.0, 0.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("name", "instead"),
    [("sin", "np.sin"), ("matmul", "np.matmul"), ("cat", "np.concatenate"), ("relu", "np.maximum")],
)
def test_functions_stand_in_numpy(name, instead):
    with pytest.raises(AttributeError, match=f"no attribute '{name}'.* Write {instead}"):
        getattr(autograd, name)
    assert not hasattr(autograd, "foo")


def test_detached_arrays_in_functions_that_operators_trace():
    f = lambda a: a.detach() * a.clone()
    for x in (tensor([1.0, 2.0]), tensor([1.0, 2.0], requires_grad=True)):
        np.testing.assert_array_equal(fdiff.jacobian(f, x).detach(), np.diag([1.0, 2.0]))
    with pytest.raises(AttributeError, match="no attribute 'detach'"):
        fdiff.jacobian(lambda a: a.detach() * a, np.ones(2))
    with forward_ad.dual_level():
        assert forward_ad.unpack_dual(f(forward_ad.make_dual(np.ones(1), np.ones(1)))).tangent == 1
