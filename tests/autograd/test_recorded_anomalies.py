"""Anomalies in backward passes of recorded arrays, and gradcheck of functions of them."""

import inspect

import numpy as np
import pytest

import fdiff
import fdiff.autograd as ag
from fdiff.errors import AnomalyError, GradcheckError, InputError, UnsupportedError
from fdiff.functional.call.anomaly_contexts import debug_nans

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own are no matter here
X = np.array([0.0, 1.0, 4.0])


def anomaly(f, x=X, context=ag.detect_anomaly):
    """The message of the anomaly in a backward pass."""
    with pytest.raises(AnomalyError) as caught, context():
        f(ag.tensor(x, requires_grad=True)).backward()
    assert isinstance(caught.value, RuntimeError)
    return str(caught.value)


def root_squared(x):
    y = np.sqrt(x)  # here
    return np.sum(y**2)


def root(x):
    y = x * 2.0
    return np.sum(np.sqrt(y))  # here


def norm(x):
    total = np.sum(x * x * 0.0)
    return np.sqrt(total)  # here


def logarithm(x):
    y = np.log(x)  # here
    z = y * x
    return np.sum(z)


def overflow(x):
    y = np.exp(300.0 * x)  # here
    return np.sum(y * x)


def quotient(x):
    y = 1.0 / x  # here
    return np.sum(y)


@pytest.mark.parametrize(
    ("f", "words", "values"),
    [
        (
            root_squared,
            "backward: Function 'SqrtBackward0' returned nan values in its 0th output. 1 of 3",
            "at [0]: result = 0.0, cotangent = 0.0",
        ),
        (
            root,
            "Function 'SqrtBackward0' returned inf values in its 0th output.",
            "cotangent = 1.0",
        ),
        (norm, "Function 'SqrtBackward0' returned inf values in its 0th output.", "result = 0.0"),
        (
            logarithm,
            "the output that is differentiated holds nan values.",
            "Log gave inf values. 1",
        ),
        (overflow, "the output that is differentiated holds inf values.", "Exp"),
        (quotient, "the output that is differentiated holds inf values.", "Divide"),
    ],
)
@pytest.mark.parametrize("context", [ag.detect_anomaly, debug_nans])
def test_the_node_the_line_and_the_values_are_named(f, words, values, context):
    text = anomaly(f, context=context)
    assert words in text
    assert values in text
    lines = [line for line in text.splitlines() if line.startswith("    test_recorded_anomalies")]
    assert any(line.endswith("# here") for line in lines)


def test_second_derivatives_are_watched():
    def f(x):
        return np.sum(x**1.5)  # here

    x = ag.tensor(X, requires_grad=True)
    with ag.detect_anomaly():
        (slope,) = ag.grad(f(x), x, create_graph=True)
        assert slope.tolist() == [0.0, 1.5, 3.0]
        with pytest.raises(AnomalyError, match="returned inf values") as caught:
            np.sum(slope).backward()
    assert "# here" in str(caught.value)


def test_a_gradient_that_the_user_gives_is_told_from_one_that_is_made():
    x = ag.tensor(X, requires_grad=True)
    with ag.detect_anomaly(), pytest.raises(AnomalyError) as caught:
        (x * 2.0).backward(np.array([1.0, np.nan, 1.0]))
    words = "a gradient that was given to MultiplyBackward0 holds nan values. 1 of 3 entries is nan"
    assert words in str(caught.value)


def test_what_is_discarded_is_no_anomaly_and_gradients_are_the_same():
    f = lambda x: np.sum(np.where(x > 0.5, np.sqrt(x), 0.0)) + np.max(x) * x[1]
    plain, watched = ag.tensor(X, requires_grad=True), ag.tensor(X, requires_grad=True)
    f(plain).backward()
    with ag.detect_anomaly():
        f(watched).backward()
    assert watched.grad.tolist() == plain.grad.tolist()


def test_without_check_nan_only_the_line_of_an_error_is_told():
    x = ag.tensor(X, requires_grad=True)
    with ag.detect_anomaly(check_nan=False):
        np.sum(np.sqrt(x)).backward()
    assert np.isinf(x.grad.tolist()[0])

    def fails(grad):
        raise ValueError("in the rule")

    for check_nan in (False, True):
        with ag.detect_anomaly(check_nan=check_nan):
            y = from_rule(x, fails)
            with pytest.raises(ValueError, match="in the rule") as caught:
                y.backward()
        (note,) = caught.value.__notes__
        assert "Error detected in MyBackward. Traceback of forward call that caused" in note
        assert "custom_node(" in note


def from_rule(x, rule):
    from fdiff.autograd.functions.custom_nodes import custom_node

    (y,) = custom_node("MyBackward", (x,), (np.sum(x.detach().numpy()),), rule)
    return y


def test_a_custom_rule_that_gives_nan_is_named():
    x = ag.tensor(X, requires_grad=True)
    with (
        ag.detect_anomaly(),
        pytest.raises(AnomalyError, match="Function 'MyBackward' returned nan"),
    ):
        from_rule(x, lambda grad: np.full(3, np.nan)).backward()


# --- gradcheck ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True])
def test_gradcheck_takes_recorded_arrays(fast):
    x, y = ag.tensor([0.5, 2.0], requires_grad=True), ag.tensor([1.0, 3.0], requires_grad=True)
    constant = ag.tensor([2.0, 2.0])
    f = lambda x, y, c: (x * y * c, np.sum(np.sin(x) * y))
    options = {"fast_mode": fast, "check_batched_grad": True, "check_grad_dtypes": True}
    assert fdiff.gradcheck(f, (x, y, constant), **options)
    assert fdiff.gradgradcheck(f, (x, y, constant), fast_mode=fast)
    assert x.grad is None
    wrong = lambda x: x * x.detach()
    with pytest.raises(GradcheckError, match=r"gradcheck\(<lambda>\): Jacobian mismatch for outp"):
        fdiff.gradcheck(wrong, x, fast_mode=fast)
    second = lambda x: x.detach() ** 3 + 3 * x.detach() ** 2 * (x - x.detach())
    assert fdiff.gradcheck(second, x, fast_mode=fast)
    assert not fdiff.gradgradcheck(second, x, fast_mode=fast, raise_exception=False)


def test_a_wrong_rule_is_found():
    x = ag.tensor(X, requires_grad=True)
    assert fdiff.gradcheck(lambda x: from_rule(x, lambda grad: grad * np.ones(3)), x)
    with pytest.raises(GradcheckError, match="mismatch"):
        fdiff.gradcheck(lambda x: from_rule(x, lambda grad: grad * np.array([1.0, 2.0, 1.0])), x)
    with pytest.raises(InputError, match="takes functions of plain arrays"):
        fdiff.check_grads(np.sin, (x,), 1)


class Pushed(ag.Function):
    """A product with both rules; `slope` is the factor in the forward rule, 1 where it is right."""

    slope = 1.0

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return grad * y, grad * x

    @staticmethod
    def jvp(ctx, x_dot, y_dot):
        x, y = ctx.saved_tensors
        parts = [d * f for d, f in ((x_dot, y), (y_dot, x)) if d is not None]
        return sum(parts) * Pushed.slope


@pytest.mark.parametrize("fast", [False, True])
def test_forward_mode_is_checked_where_it_is_asked_for(fast, monkeypatch):
    x, y = ag.tensor(X, requires_grad=True), ag.tensor(X + 0.5, requires_grad=True)
    forward = {"check_forward_ad": True, "fast_mode": fast}
    assert fdiff.gradcheck(Pushed.apply, (x, y), check_batched_forward_grad=True, **forward)
    both = lambda x, y: (np.sin(x) * y, np.argmax(x), np.floor(x + 0.3))
    assert fdiff.gradcheck(both, (x, y), check_grad_dtypes=True, **forward)
    z = ag.tensor(X + 1j * X[::-1], requires_grad=True)
    assert fdiff.gradcheck(lambda z: z * np.conj(z) * z, z, **forward)
    monkeypatch.setattr(Pushed, "slope", 1.5)
    assert fdiff.gradcheck(Pushed.apply, (x, y), fast_mode=fast)  # as in torch
    for more in ({}, {"check_backward_ad": False}, {"check_batched_forward_grad": True}):
        with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
            fdiff.gradcheck(Pushed.apply, (x, y), **{**forward, **more})


def test_forward_mode_of_the_gradient_is_checked_where_it_is_asked_for():
    x, y = ag.tensor(X, requires_grad=True), ag.tensor(X + 0.5, requires_grad=True)
    stored = lambda x: _halved(x * x)
    for f, at in ((lambda x, y: (np.sin(x) * y, np.sum(x)), (x, y)), (stored, x)):
        assert fdiff.gradgradcheck(f, at, check_fwd_over_rev=True)
        assert fdiff.gradgradcheck(f, at, check_fwd_over_rev=True, check_rev_over_rev=False)
    second = lambda x: x.detach() ** 3 + 3 * x.detach() ** 2 * (x - x.detach())
    with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch"):
        fdiff.gradgradcheck(second, x, check_fwd_over_rev=True, check_rev_over_rev=False)


def _halved(y):
    y[1:] *= y[:-1] / 2
    return y


def test_a_function_without_a_rule_for_forward_mode():
    class Backward(ag.Function):
        forward, backward = Pushed.forward, Pushed.backward

    x = ag.tensor(X, requires_grad=True)
    assert fdiff.gradcheck(Backward.apply, (x, x))
    with pytest.raises(UnsupportedError, match=r"Define the static method jvp\(ctx, \*grad_inp"):
        fdiff.gradcheck(Backward.apply, (x, x), check_forward_ad=True, raise_exception=False)


def inverse_root(x):
    y = (x - 1.0) ** -0.5  # here
    return np.sum(y * 2.0)


def far_angle(x):
    y = np.arccos(x - 1.0)  # here
    return np.sum(y * 2.0)


def quotient_of_numbers(x):
    y = np.divide(x, [1.0, 0.0, 1.0])  # here
    return np.sum(y * 2.0)


def stored_quotient(x):
    y = x * 1.0
    y /= np.array([1.0, 0.0, 1.0])  # here
    return np.sum(y * 2.0)


def after_a_discarded_one(x):
    root = np.where(x > 2.0, np.log(x - 1.5), 0.0)  # discards what log gave
    y = np.log(x - 1.0)  # here
    return np.sum(root + y)


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (inverse_root, "Power gave nan values. 2 of 3 entries are nan or inf"),
        (far_angle, "Arccos gave nan values. 1 of 3 entries is nan: [2]"),
        (quotient_of_numbers, "Divide gave inf values. 1 of 3 entries is inf: [1]"),
        (stored_quotient, "Itruediv gave inf values. 1 of 3 entries is inf: [1]"),
        (after_a_discarded_one, "Log gave nan values. 2 of 3 entries are nan or inf"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_the_forward_line_is_told_where_the_derivative_needs_no_result(f, words):
    """Neither the result nor all operands of these calls are saved for the backward pass."""
    for _ in range(2):  # by the short way the second time, outside of the mode
        with np.errstate(all="ignore"):
            f(ag.tensor(X, requires_grad=True))
    told = anomaly(f)
    assert "the output that is differentiated holds" in told
    assert f"It comes from the forward pass: {words}" in told
    source = inspect.getsource(f).splitlines()
    line = next(line for line in source if "# here" in line).strip()
    assert line in told.split("forward pass")[1]


def test_values_that_were_given_are_no_call_s_fault():
    told = anomaly(lambda x: np.sum(x * np.array([np.nan, 1.0, 1.0]) * 2.0))
    assert "the operand 1 of Multiply holds nan values" in told


def test_gradcheck_of_recorded_arrays_tells_what_is_wrong_with_them():
    free = ag.tensor(np.ones(2))
    words = "expects at least one input array to require gradient"
    for check in (fdiff.gradcheck, fdiff.gradgradcheck):
        with pytest.raises(InputError, match=words):
            check(lambda x: x * x, (free,))
    single = ag.tensor(np.ones(2, np.float32), requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 is float32, not double precision"):
        assert fdiff.gradcheck(lambda x: x * x, (single,))


def test_explain_takes_no_recorded_arrays():
    with pytest.raises(InputError, match=r"explain.*RecordedArray[^$]*Pass `array.detach"):
        fdiff.explain(lambda x: np.sum(x * x), ag.tensor(np.ones(2), requires_grad=True))
