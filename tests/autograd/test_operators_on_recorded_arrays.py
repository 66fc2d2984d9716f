"""Operators called with recorded arrays: their results, and what is pulled back through them."""

import warnings

import numpy as np
import pytest

import fdiff
from fdiff.autograd import RecordedArray, detect_anomaly, forward_ad, grad, no_grad, tensor
from fdiff.errors import AnomalyError, InputError, KinkError, RetraceWarning, UnsupportedError
from fdiff.tree import flatten

X = np.array([0.7, 1.3, 2.1])
W = np.array([1.5, -0.5, 2.0])


def scalar(x):
    return np.sum(np.sin(x) * x**2) + x[0] * x[1] * x[2]


def vector(x):
    return np.cumsum(np.exp(x)) * x[::-1]


def several(x):
    return {"square": x * x, "rest": (np.sum(x**3), vector(x))}


OPERATORS = {
    "grad": fdiff.grad(scalar),
    "value_and_grad": fdiff.value_and_grad(scalar),
    "grad with aux": fdiff.grad(lambda x: (scalar(x), vector(x)), has_aux=True),
    "jacobian": fdiff.jacobian(vector),
    "jacobian at once": lambda x: fdiff.jacobian(vector, x),
    "jacfwd": fdiff.jacfwd(several),
    "jacrev": fdiff.jacrev(several),
    "hessian": fdiff.hessian(scalar),
    "hessian at once": lambda x: fdiff.hessian(scalar, x),
    "vjp": lambda x: fdiff.vjp(vector, x, W),
    "vjp prepared": lambda x: fdiff.vjp(vector)(x, x * W),
    "jvp": lambda x: fdiff.jvp(vector, x, W),
    "jvp prepared": lambda x: fdiff.jvp(vector)(x, x * W),
    "hvp": lambda x: fdiff.hvp(scalar, x, W),
    "vhp": lambda x: fdiff.vhp(scalar)(x, x * W),
    "vmap": fdiff.vmap(lambda x: np.sin(x) * x),
    "jit": fdiff.jit(several),
    "nested": fdiff.jacobian(fdiff.grad(scalar)),
    "two arguments": lambda x: fdiff.jacobian(lambda a, b: (a * b, np.sum(a)), (x, x * W)),
    "a list of numbers": lambda x: fdiff.jacobian(vector)([x[0], x[1], x[2]]),
    "by keyword": lambda x: fdiff.grad(lambda x, *, scale: np.sum(vector(x) * scale))(x, scale=x),
}


def total(found):
    """One number of a result, in which every entry counts otherwise."""
    leaves = [leaf for leaf in flatten(found)[0] if not isinstance(leaf, str)]
    return sum(np.sum(np.cos(leaf * (k + 1.5)) + leaf) for k, leaf in enumerate(leaves))


@pytest.mark.parametrize("name", OPERATORS)
def test_results_and_derivatives_of_any_order_are_those_of_nested_operators(name):
    operator = OPERATORS[name]
    x = tensor(X, requires_grad=True)
    found, spec = flatten(operator(x))
    expected, same = flatten(operator(X))
    assert spec == same
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, RecordedArray)
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-12, atol=1e-14)
        assert type(one.detach().numpy()) is type(np.asarray(other))
    f = lambda x: total(operator(x))
    total(operator(x)).backward()
    np.testing.assert_allclose(x.grad.numpy(), fdiff.grad(f)(X), rtol=1e-12, atol=1e-13)
    (first,) = grad(f(x), x, create_graph=True)
    (second,) = grad(np.sum(first * W), x, create_graph=True)
    (third,) = grad(np.sum(second * W), x)
    along = lambda f: lambda x: np.sum(fdiff.grad(f)(x) * W)
    np.testing.assert_allclose(second.detach(), fdiff.grad(along(f))(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(third, fdiff.grad(along(along(f)))(X), rtol=1e-11, atol=1e-11)


def test_gradients_flow_to_every_recorded_argument():
    f = lambda x, p, scale: scale * np.sum(x**2 * p["w"]) + np.sum(p["b"] * x)
    x, p = (
        tensor(X, requires_grad=True),
        {"w": tensor(W, requires_grad=True), "b": tensor(X + W, requires_grad=True)},
    )
    slope = fdiff.grad(f)(x, p, 3)
    np.sum(slope * x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 12.0 * X * W + X + W)
    np.testing.assert_allclose(p["w"].grad.numpy(), 6.0 * X**2)
    np.testing.assert_allclose(p["b"].grad.numpy(), X)
    w = tensor(W, requires_grad=True)  # alone, where nothing that is differentiated is recorded
    np.sum(fdiff.grad(f)(X, {"w": w, "b": W}, 3)).backward()
    np.testing.assert_allclose(w.grad.numpy(), 6.0 * X)


def test_what_no_gradient_is_required_of():
    operator, x = fdiff.value_and_grad(scalar), tensor(X, requires_grad=True)
    with no_grad():
        unrecorded = operator(x)
    for found in (unrecorded, operator(x.detach())):
        for one, other in zip(found, operator(X), strict=True):
            assert isinstance(one, RecordedArray)
            assert not one.requires_grad
            np.testing.assert_allclose(one, other, rtol=1e-13)
    assert fdiff.jit(lambda x: (x, "text", 2, 2.5))(x)[1:] == ("text", 2, 2.5)
    counts, slope = fdiff.jit(lambda x: (np.argmax(x), x * x))(x)
    assert not counts.requires_grad
    assert slope.requires_grad


def test_what_the_function_reads_is_read_once():
    data = {"scale": np.array([1.0, 2.0, 3.0])}
    operator = fdiff.grad(lambda x: np.sum(data["scale"] * x**2) if x[0] > 0 else np.sum(x))
    x = tensor(X, requires_grad=True)
    y = operator(x)
    data["scale"][:] = 0.0
    (g,) = grad(y, x, np.ones(3))
    np.testing.assert_allclose(g, [2.0, 4.0, 6.0])
    np.testing.assert_allclose(operator(x).detach(), 0.0 * X)
    np.testing.assert_allclose(operator(-x).detach(), np.ones(3))


def test_rules_of_the_user_are_kept():
    @fdiff.custom_vjp
    def steep(x):
        return np.sin(x)

    steep.defvjp(lambda x: (np.sin(x), x), lambda x, bar: (3.0 * np.cos(x) * bar,))
    x, w = tensor(X, requires_grad=True), tensor(W, requires_grad=True)
    np.sum(fdiff.grad(lambda x, w: np.sum(x**2 * steep(w)))(x, w)).backward()
    np.testing.assert_allclose(w.grad.numpy(), 2.0 * X * 3.0 * np.cos(W))
    np.testing.assert_allclose(x.grad.numpy(), 2.0 * np.sin(W))
    y = tensor(X, requires_grad=True)
    np.sum(fdiff.grad(lambda x: np.sum(steep(x)))(y)).backward()
    np.testing.assert_allclose(y.grad.numpy(), -3.0 * np.sin(X))


def test_operators_in_rules_of_the_user():
    scale = np.array([1.0, 2.0, 3.0])

    @fdiff.custom_vjp
    def energy(x):
        return np.sum(scale * x**2)

    def backward(x, bar):
        return (bar * fdiff.grad(lambda y: np.sum(scale * y**2))(x),)

    energy.defvjp(lambda x: (energy(x), x), backward)
    x = tensor(X, requires_grad=True)
    y = energy(x)
    expected, scale[:] = 2.0 * scale * X, 0.0  # `scale` is read when `energy` is called
    (g,) = grad(y, x, create_graph=True)
    np.testing.assert_allclose(g.detach(), expected)
    np.testing.assert_allclose(grad(np.sum(g), x)[0], expected / X)
    mapped = lambda x: np.apply_along_axis(fdiff.grad(lambda y: np.sum(y**2)), 0, x)
    with pytest.raises(UnsupportedError, match=r"apply_along_axis: an operator was called in a"):
        mapped(x)


def test_views_and_stores():
    x = tensor(X, requires_grad=True)
    y = x * 1.0
    part = y[1:]
    y *= 2.0
    fdiff.grad(lambda x: np.sum(x**3))(part).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.0, *(24.0 * X[1:])])
    kept = tensor(X, requires_grad=True) * 1.0
    slope = fdiff.grad(lambda x: np.sum(x**3))(kept)
    kept *= 2.0
    with pytest.raises(
        RuntimeError, match="modified by an inplace operation: an array saved by Gr"
    ):
        slope.sum().backward()


def test_complex_arrays():
    z = tensor(X + 1j * W, requires_grad=True)
    f = lambda z: np.exp(1j * z) * np.conj(z)
    out, pulled = fdiff.vjp(f, z, X - 2j * W)
    assert fdiff.gradcheck(lambda z: fdiff.vjp(f, z, X - 2j * W), z)
    np.testing.assert_allclose(pulled.detach(), fdiff.vjp(f, X + 1j * W, X - 2j * W)[1])
    assert out.requires_grad


def test_forward_mode_goes_through():
    wanted = fdiff.jvp(fdiff.grad(scalar), X, W)[1]
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, W)
        found = forward_ad.unpack_dual(fdiff.grad(scalar)(x)).tangent
        np.testing.assert_allclose(found.numpy(), wanted)
        with no_grad():
            found = forward_ad.unpack_dual(fdiff.grad(scalar)(x)).tangent
        np.testing.assert_allclose(found.numpy(), wanted)
    options = {"check_forward_ad": True, "check_batched_grad": True}
    assert fdiff.gradcheck(
        lambda x: fdiff.hvp(scalar, x, x * W), tensor(X, requires_grad=True), **options
    )
    assert fdiff.gradgradcheck(
        fdiff.grad(scalar), tensor(X, requires_grad=True), check_fwd_over_rev=True
    )


def test_who_looks_on_sees_such_calls():
    at_zero = tensor([0.0, 1.0], requires_grad=True)
    with fdiff.kinks("raise"), pytest.raises(KinkError, match=r"numpy\.absolute has no"):
        fdiff.grad(lambda x: np.sum(np.abs(x)))(at_zero)
    with detect_anomaly(), pytest.raises(AnomalyError, match="Function 'SqrtBackward0' returned"):
        fdiff.grad(lambda x: np.sum(np.sqrt(x)))(at_zero)
    with fdiff.profiler.profile() as profile:
        fdiff.grad(scalar)(tensor(X, requires_grad=True))
    assert "grad(scalar)" in profile.key_averages().table()


def test_what_is_refused():
    z = tensor(X, requires_grad=True)
    with pytest.raises(
        InputError, match=r"grad\(scalar\): the result is a recorded array, which wo"
    ):
        fdiff.grad(scalar)(z, out=np.zeros(3))
    with pytest.raises(InputError, match=r"pass it as an argument, or use `\.detach"):
        fdiff.grad(lambda x: np.sum(x * z))(z)
    with pytest.raises(InputError, match=r"Pass `array.detach\(\).numpy\(\)`"):
        fdiff.grad(scalar).compile(z)
    with pytest.raises(InputError, match=r"grad\(vector\): Gradient only defined for scalar"):
        fdiff.grad(vector)(z)
    with pytest.raises(fdiff.errors.DtypeError, match="only floating-point inputs"):
        fdiff.grad(np.sum)(tensor(np.arange(3) > 1))


def test_arguments_that_no_result_was_computed_from_have_no_gradient():
    x, w = tensor(X, requires_grad=True), tensor(W, requires_grad=True)
    slope = fdiff.grad(lambda x, w: np.sum(x**2) + np.sum(w))(x, w)
    np.sum(slope).backward(retain_graph=True)
    assert w.grad is None
    np.testing.assert_array_equal(x.grad, [2.0, 2.0, 2.0])
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad(np.sum(slope), w)
    largest = fdiff.jit(lambda x, w: (np.argmax(w), x * 2.0))(x, w)[1]  # w decides a count alone
    assert grad(np.sum(largest), (x, w), allow_unused=True)[1] is None

    def stopped(x):
        with no_grad():
            return np.sum(x**2)

    assert not fdiff.grad(stopped)(x).requires_grad


def drawn(x):
    return np.log(x) + DRAWS.random()


DRAWS = np.random.default_rng(0)


@fdiff.custom_vjp
def ruled(x):
    return np.log(x)


ruled.defvjp(lambda x: (np.log(x), x), lambda x, bar: (bar / x,))


@pytest.mark.parametrize(
    "call",
    [
        fdiff.jit(np.log),
        fdiff.jit(drawn),
        fdiff.jit(lambda x: ruled(x) * DRAWS.random()),
        fdiff.grad(lambda x: np.sum(np.log(x))),
        ruled,
    ],
)
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_warnings_of_numpy_are_those_of_plain_arrays(call):
    for given in (np.zeros(2), tensor(np.zeros(2), requires_grad=True)):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as told:
            call(given)
        assert {w.filename for w in told} == {__file__}
        with np.errstate(all="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
            call(given)
        with np.errstate(all="ignore"):
            call(given)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_what_a_derivative_alone_computes_gives_no_warning():
    for given in (np.zeros(2), tensor(np.zeros(2), requires_grad=True)):
        with np.errstate(all="raise"):
            fdiff.value_and_grad(lambda x: np.sum(np.sqrt(x)))(given)
            fdiff.grad(lambda x: np.sum(np.sqrt(x) * DRAWS.random()))(given)


def test_who_calls_with_recorded_arrays_is_not_told_that_calls_are_traced_again():
    kinds, rng = [object()], np.random.default_rng(0)
    with fdiff.kinks("raise"):
        pass  # who looked for kinks once does not look at later calls
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fdiff.grad(lambda x: np.sum(x**2) * len(str(kinds[0])))(tensor(X, requires_grad=True))
        drawn = fdiff.grad(lambda x: np.sum(x**2) * rng.random())
        drawn(tensor(X, requires_grad=True))
    with pytest.warns(RetraceWarning, match="traced again at each call"):
        drawn(X)
