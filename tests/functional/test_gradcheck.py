"""gradcheck, gradgradcheck and check_grads: right derivatives pass, wrong ones are found.

A wrong derivative is made by `with_jacobian`: a function with the values of one and the Jacobian of
another. How torch words it is compared in tests/torch/test_checks_beside_torch.py.
"""

import numpy as np
import pytest

import fdiff
from fdiff.arraytype import ArrayType
from fdiff.errors import GradcheckError, InputError
from fdiff.facets import Rules
from fdiff.functional.derivative_checks.check_settings import CheckSettings
from fdiff.functional.derivative_checks.checked_functions import FunctionUnderCheck
from fdiff.functional.derivative_checks.derivative_laws import check_value_twice
from fdiff.primitive import Primitive
from fdiff.trace import apply, tracing

X = np.array([1.0, 2.0, 3.0])
stop = fdiff.stop_gradient
both_ways = pytest.mark.parametrize("fast", [False, True], ids=["slow", "fast"])


# --- what is right --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "inputs"),
    [
        (lambda x: np.sin(x) * x, X),
        (lambda x, y: (x * y, np.sum(x)), (X, 2 * X)),
        (lambda x: np.maximum(x, 0.5) * np.abs(x), np.array([1.0, -1.0])),
        (lambda x: np.floor(x).astype(int), X + 0.5),
        (lambda x: (np.floor(x).astype(int), x), X + 0.5),
        (lambda x: x * x, 2.0),
        (lambda x: x * x, np.array(2.0)),
        (lambda x: x * x, np.zeros(0)),
        (lambda x: np.linalg.solve(np.eye(3) + np.outer(x, x), x), X),
        (fdiff.grad(lambda x: np.sum(x**3)), X),
        (lambda p: p["a"] * p["b"], {"a": X, "b": 2.0}),
        (lambda x, n: x**n, (X, np.array([1, 2, 3]))),
        (np.sin, np.broadcast_to(np.float64(2.0), (3, 2))),  # torch refuses strides of 0
        (lambda z: np.sin(z) * z, X + 1j),
        (lambda z: np.abs(z) ** 2, X - 2j),
        (np.conj, X + 1j),
        (lambda z, x: (z.real * x, z * x), (X + 1j, X)),
    ],
)
@both_ways
def test_right_derivatives_pass(f, inputs, fast):
    options = {"check_batched_grad": True, "check_grad_dtypes": True, "fast_mode": fast}
    assert fdiff.gradcheck(f, inputs, check_batched_forward_grad=True, **options) is True
    assert fdiff.gradgradcheck(f, inputs, fast_mode=fast) is True


def test_arguments_that_are_written_to_are_copied():
    def scales_in_place(x, y):
        x *= y
        y[0] = 5.0
        return x * y

    x, y = X.copy(), 2 * X
    assert fdiff.gradcheck(scales_in_place, (x, y))
    assert (x.tolist(), y.tolist()) == (X.tolist(), (2 * X).tolist())


def test_cotangents_may_be_given_and_need_not_be_contiguous():
    f = lambda x, y: (x * y, np.sum(np.exp(x)))
    bars = (np.array([1.0, -2.0, 0.5]), np.array(2.0))
    assert fdiff.gradgradcheck(f, (X, X), bars)
    assert fdiff.gradgradcheck(f, (X, X), gen_non_contig_grad_outputs=True)
    assert fdiff.gradgradcheck(np.sin, X, X[::-1])
    with pytest.raises(InputError, match=r"grad_outputs must be arrays of floats shaped like"):
        fdiff.gradgradcheck(f, (X, X), bars[:1])


# --- what is wrong --------------------------------------------------------------------------------


def with_jacobian(f, wrong):
    """The function `f`, whose derivative is taken to be the matrix ``wrong(x)``."""
    return lambda x: stop(f(x)) + wrong(x) @ (x - stop(x))


def wrong_value(x):
    return x * stop(x)


def wrong_second(x):
    """x**3, whose derivative is right by value but taken for a constant."""
    constant = stop(x)
    return constant**3 + 3 * constant**2 * (x - constant)


@both_ways
def test_a_wrong_derivative_is_shown_beside_the_measured_one(fast):
    with pytest.raises(GradcheckError) as caught:
        fdiff.gradcheck(wrong_value, X, fast_mode=fast)
    text = str(caught.value)
    assert (
        "gradcheck(wrong_value): Jacobian mismatch for output 0 with respect to input 0,\n" in text
    )
    assert "numerical:[[2. 0. 0.]\n [0. 4. 0.]\n [0. 0. 6.]]\nanalytical:[[1. 0. 0.]\n" in text
    assert "The largest difference: output 0[2] by input 0[2] is 6 numerically, 3" in text
    assert text.count("test_gradcheck.py:") == 1
    assert ("in fast mode: they are products with random vectors" in text) is fast
    assert fdiff.gradcheck(wrong_value, X, raise_exception=False, fast_mode=fast) is False
    with pytest.raises(GradcheckError, match=r"output 1 with respect to input 1"):
        fdiff.gradcheck(lambda a, b: (a, a + wrong_value(b)), (X, X), fast_mode=fast)


@both_ways
def test_a_wrong_second_derivative_fails_only_the_second_check(fast):
    assert fdiff.gradcheck(wrong_second, X, fast_mode=fast)
    assert fdiff.gradgradcheck(wrong_second, X, raise_exception=False, fast_mode=fast) is False
    with pytest.raises(GradcheckError, match=r"^gradgradcheck\(wrong_second\)"):
        fdiff.gradgradcheck(wrong_second, X, fast_mode=fast)


def scaled(J, rng):
    return J * (1.0 + rng.choice([-1, 1]) * rng.uniform(0.01, 0.5))


def negated(J, rng):
    return -J


def one_entry(J, rng):
    J = J.copy()
    J[np.unravel_index(np.argmax(np.abs(J)), J.shape)] *= 1.01
    return J


def dropped_input(J, rng):
    J = J.copy()
    J[:, rng.integers(J.shape[1])] = 0.0
    return J


def dropped_output(J, rng):
    J = J.copy()
    J[rng.integers(J.shape[0])] = 0.0
    return J


def two_errors_that_cancel(J, rng):
    J = J.copy()
    J[0, 0] += 0.1
    J[0, 1] -= 0.1
    return J


def reversed_rows(J, rng):
    return J[::-1]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "error",
    [
        scaled,
        negated,
        one_entry,
        dropped_input,
        dropped_output,
        two_errors_that_cancel,
        reversed_rows,
    ],
)
@pytest.mark.parametrize("analytic", [True, False], ids=["complex steps", "differences"])
@both_ways
def test_random_errors_are_found(seed, error, analytic, fast):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(2, 40, 2)
    mixing = rng.normal(size=(rows, columns))
    f = (lambda x: mixing @ np.sin(x)) if analytic else (lambda x: mixing @ np.abs(x) ** 1.5)
    x = rng.uniform(0.5, 1.5, columns)
    J = fdiff.jacobian(f, x)
    bad = error(J, rng)
    assert fdiff.gradcheck(with_jacobian(f, lambda _: J), x, fast_mode=fast)
    with pytest.raises(GradcheckError, match=r"mismatch for output 0 with respect to input 0"):
        fdiff.gradcheck(with_jacobian(f, lambda _: bad), x, fast_mode=fast)


@both_ways
def test_what_measuring_cannot_tell_from_right_passes_by_the_tolerances_of_the_call(fast):
    slightly = lambda x: x + 1e-4 * stop(x)
    assert fdiff.gradcheck(slightly, X, fast_mode=fast)
    options = {"rtol": 1e-6, "atol": 1e-6, "raise_exception": False, "fast_mode": fast}
    assert not fdiff.gradcheck(slightly, X, **options)
    options = {"rtol": 1e-12, "atol": 1e-14, "fast_mode": fast}
    assert fdiff.gradcheck(np.tanh, X, **options)  # complex steps are exact


@both_ways
def test_nan_agrees_with_nothing(fast):
    with np.errstate(invalid="ignore"), pytest.raises(GradcheckError, match="mismatch"):
        fdiff.gradcheck(lambda x: np.sqrt(x) ** 2 + x, np.array([0.0]), fast_mode=fast)


# --- laws -----------------------------------------------------------------------------------------


def operation(name, *, jvp=lambda x, dot: 2 * x * dot, vjp=lambda x, bar: 2 * x * bar, batch=None):
    """``x * x`` as an operation with rules of its own."""

    def unchanged(args, mapped, size):
        return (apply(op, args[0]),)

    op = Primitive(
        name,
        "",
        Rules(
            lambda x: (ArrayType(x.shape, x.dtype),),
            lambda x: x * x,
            lambda dots, args, outs: (jvp(args[0], dots[0]),),
            lambda bars, args, outs: (vjp(args[0], bars[0]),),
            batch or unchanged,
        ),
    )
    return lambda x: apply(op, x) if tracing() else x * x


def test_each_mode_is_checked_alone():
    forward = operation("wrong_forward", jvp=lambda x, dot: x * dot)
    reverse = operation("wrong_reverse", vjp=lambda x, bar: x * bar)
    assert fdiff.gradcheck(operation("right"), X)
    assert fdiff.gradcheck(forward, X, check_forward_ad=False)
    assert fdiff.gradcheck(reverse, X, check_backward_ad=False)
    for fast in (False, True):
        with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
            fdiff.gradcheck(forward, X, fast_mode=fast)
        with pytest.raises(GradcheckError, match="Jacobian mismatch"):
            fdiff.gradcheck(reverse, X, fast_mode=fast)


def test_a_backward_that_is_not_linear_in_its_cotangent_is_found():
    # Its Jacobian is right: that is swept with cotangents of ones.
    f = operation("saturated", vjp=lambda x, bar: 2 * x * np.sign(bar))
    with pytest.raises(GradcheckError, match="Backward is not linear: two grad_outputs give"):
        fdiff.gradcheck(f, np.array([1.0]), check_forward_ad=False)
    g = operation("constant", vjp=lambda x, bar: 2 * x * bar + np.where(bar == 0.0, 1e-7, 0.0))
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        fdiff.gradcheck(g, np.array([1.0]), check_forward_ad=False)


def test_a_wrong_rule_for_batches_is_found():
    op = {}

    def wrong(args, mapped, size):
        return (2.0 * args[0] * args[0],)

    def pulled(x, bar):
        return 2 * x * apply(op["identity"], bar)

    op["identity"] = Primitive(
        "identity",
        "",
        Rules(
            lambda x: (ArrayType(x.shape, x.dtype),),
            lambda x: x,
            batch=lambda args, mapped, size: (1.5 * args[0],),
        ),
    )
    f = operation("right_by_one", vjp=pulled)
    options = {"check_forward_ad": False, "fast_mode": True}
    assert fdiff.gradcheck(f, X, **options)
    with pytest.raises(GradcheckError, match=r"(?s)batched gradient computation.*Got:.*Expected:"):
        fdiff.gradcheck(f, X, check_batched_grad=True, **options)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@both_ways
def test_what_changes_from_call_to_call_is_told_from_what_is_wrong(fast):
    rng = np.random.default_rng(0)
    noisy = lambda x: x * rng.uniform(0.5, 1.5)
    with pytest.raises(GradcheckError, match="The function is not deterministic: two calls"):
        fdiff.gradcheck(noisy, X, fast_mode=fast)
    with pytest.raises(GradcheckError, match="mismatch"):
        fdiff.gradcheck(noisy, X, nondet_tol=np.inf, fast_mode=fast)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_a_derivative_that_changes_from_call_to_call_is_not_reentrant():
    rng = np.random.default_rng(0)

    def f(x):
        slope = 1.0 + 1e-7 * rng.uniform(-1.0, 1.0)
        return stop(x) + slope * (x - stop(x))

    with pytest.raises(
        GradcheckError, match=r"Backward is not reentrant, i\.e\., running backward"
    ):
        fdiff.gradcheck(f, X)
    assert fdiff.gradcheck(f, X, nondet_tol=1e-5)


@both_ways
def test_a_wrong_rule_of_the_user_is_found(fast):
    def sine(factor):
        f = fdiff.custom_vjp(lambda x: np.sin(x))
        f.defvjp(lambda x: (np.sin(x), x), lambda x, bar: (factor * bar * np.cos(x),))
        g = fdiff.custom_jvp(lambda x: np.sin(x))
        g.defjvp(lambda xs, dots: (np.sin(xs[0]), factor * dots[0] * np.cos(xs[0])))
        return f, g

    for f in sine(1.0):
        assert fdiff.gradcheck(f, X, fast_mode=fast)
        assert fdiff.gradgradcheck(f, X, fast_mode=fast)
        fdiff.check_grads(f, (X,), 3)
    for f in sine(1.01):
        assert not fdiff.gradcheck(f, X, fast_mode=fast, raise_exception=False)
        with pytest.raises(GradcheckError, match="mismatch"):
            fdiff.check_grads(f, (X,), 1)


# --- options and inputs ---------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_cotangents_of_second_derivatives_may_be_in_single_precision(seed, recorded):
    rng = np.random.default_rng(seed)
    x, y, bar = rng.normal(size=(3, 5, 5))
    array = (lambda x: fdiff.autograd.tensor(x, requires_grad=True)) if recorded else np.array
    inputs, bars = [array(x), array(y)], [array(bar.astype(np.float32))]
    assert fdiff.autograd.gradgradcheck(lambda x, y: np.where(x > 0, x, y), inputs, bars)
    assert fdiff.autograd.gradgradcheck(lambda x, y: x * y + np.sin(x), inputs, bars)


def test_single_precision_is_compared_with_double_after_a_warning():
    with pytest.warns(UserWarning, match=r"gradcheck\(tanh\): Input #0 is float32, not double"):
        assert fdiff.gradcheck(np.tanh, X.astype(np.float32))
    with (
        pytest.warns(UserWarning, match="not double precision"),
        pytest.raises(GradcheckError, match="mismatch"),
    ):
        fdiff.gradcheck(wrong_value, X.astype(np.float32), fast_mode=True)


@pytest.mark.parametrize(
    ("check", "options", "words"),
    [
        (
            "gradcheck",
            {"masked": True},
            "masked=True is about sparse tensors, and arrays are dense",
        ),
        (
            "gradcheck",
            {"check_forward_ad": False, "check_backward_ad": False},
            "Expected check_forward_ad or check_backward_ad to be True",
        ),
        (
            "gradcheck",
            {"check_batched_grad": True, "check_backward_ad": False},
            "Expected check_backward_ad to be True",
        ),
        (
            "gradcheck",
            {"check_batched_forward_grad": True, "check_forward_ad": False},
            "Expected check_forward_ad to be True",
        ),
        (
            "gradgradcheck",
            {"check_fwd_over_rev": False, "check_rev_over_rev": False},
            "Expected check_fwd_over_rev or check_rev_over_rev to be True",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(check, options, words):
    with pytest.raises(InputError, match=words):
        getattr(fdiff, check)(np.sin, X, **options)


def test_something_must_be_floating_point():
    with pytest.raises(InputError, match=r"gradcheck expects at least one input array of floating"):
        fdiff.gradcheck(lambda n: n * 2, np.array([1, 2]))


def test_a_function_without_derivative_must_be_constant():
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        fdiff.gradcheck(lambda x: np.asarray(x > 1.0, int), np.array([1.0]))


# --- check_grads ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: np.sin(x) * x, (X,)),
        (lambda x, y: (np.exp(x) * y, np.sum(x / y)), (X, 2 * X)),
        (lambda p: p["a"] ** 3 * p["b"], ({"a": X, "b": 2.0},)),
        (lambda z: z * np.abs(z), (X + 1j,)),
    ],
)
def test_right_derivatives_of_all_orders_pass(f, args):
    assert fdiff.check_grads(f, args, order=2) is None
    assert fdiff.check_grads(f, list(args), 3, modes="fwd") is None


@pytest.mark.parametrize(
    ("f", "order", "words"),
    [
        (wrong_value, 1, r"check_grads\(wrong_value\): JVP tangent mismatch,\nnumerical:"),
        (wrong_second, 2, r"check_grads\(wrong_second\): JVP of JVP tangent of output 1 mismatch"),
        (
            operation("wrong_vjp", vjp=lambda x, bar: x * bar),
            1,
            "VJP cotangent projection mismatch",
        ),
    ],
)
def test_the_composition_that_is_wrong_is_named(f, order, words):
    with pytest.raises(AssertionError, match=words) as caught:
        fdiff.check_grads(f, (X,), order)
    assert caught.type is GradcheckError
    if order > 1:
        fdiff.check_grads(f, (X,), order - 1)


def test_modes_and_orders_of_check_grads():
    forward = operation("wrong_jvp", jvp=lambda x, dot: x * dot)
    fdiff.check_grads(forward, (X,), 1, modes=["rev"])
    for order, modes in ((0, "fwd"), (1.5, "fwd"), (1, ()), (1, "forward"), (1, ("fwd", "lin"))):
        with pytest.raises(InputError, match=r"check_grads\(sin\): (order|modes) must be"):
            fdiff.check_grads(np.sin, (X,), order, modes=modes)


class Tiers(FunctionUnderCheck):
    """What fdiff computes by one tier after the other, which round otherwise."""

    by_fdiff = True

    def __init__(self, *found):
        self.found = list(found)
        super().__init__("gradgradcheck(f)", [np.ones(1)])

    def values(self, points):
        return [np.array([self.found.pop(0) if len(self.found) > 1 else self.found[0]])]


def test_another_tier_is_no_other_value():
    """Terms that cancel leave more than rounding; but each tier gives the same twice."""
    settings = CheckSettings(1e-6, 1e-5, 1e-3, 0.0, *[True] * 7)
    check_value_twice(Tiers(0.1, 0.1 + 1e-11, 0.1 + 2e-11), settings)
    with pytest.raises(GradcheckError, match="not deterministic"):
        check_value_twice(Tiers(*(0.1 + k * 1e-11 for k in range(9))), settings)
