"""gradcheck and gradgradcheck beside torch's: the same verdicts, in the same words.

A wrong derivative is made as in tests/functional/test_gradcheck.py: the values of one function with
the Jacobian of another.
"""

import re

import numpy as np
import pytest
import torch
from torch.autograd.gradcheck import GradcheckError as TorchGradcheckError

import fdiff
import fdiff.autograd
from fdiff.errors import AnomalyError, GradcheckError

RIGHT = {
    "product": lambda stop: lambda x: x * x * 3,
    "power": lambda stop: lambda x: x**2.5,
    "sum": lambda stop: lambda x: (x * x).sum(),
    "two outputs": lambda stop: lambda x: (x * x, x.sum()),
    "absolute value": lambda stop: abs,
    "linear": lambda stop: lambda x: 4 * x - 1,
}
WRONG = {
    "scale": lambda stop: lambda x: 1.1 * x - stop(0.1 * x),
    "sign": lambda stop: lambda x: 2 * stop(x) - x,
    "dropped": lambda stop: lambda x: stop(x) * x,
    "constant": lambda stop: lambda x: stop(x) + 0 * x,
    "second output": lambda stop: lambda x: (x, x * stop(x)),
}
detach = torch.Tensor.detach


def torch_point(x):
    return torch.tensor(x, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_verdicts_are_those_of_torch(name, fast, seed):
    make = {**RIGHT, **WRONG}[name]
    ours, f = make(fdiff.stop_gradient), make(detach)
    x = np.random.default_rng(seed).uniform(0.5, 2.0, 4)
    options = {"fast_mode": fast, "raise_exception": False}
    theirs = torch.autograd.gradcheck(f, (torch_point(x),), **options)
    assert theirs is (name in RIGHT)
    assert fdiff.gradcheck(ours, x, **options) is theirs
    if theirs:
        assert torch.autograd.gradgradcheck(f, (torch_point(x),), **options)
        assert fdiff.gradgradcheck(ours, x, **options)


def numbers(text):
    return [float(n) for n in re.findall(r"-?\d+\.\d*(?:e[-+]\d+)?", text)]


# Torch makes its forward rules with what it calls deprecated.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("mode", ["backward", "forward"])
def test_the_messages_are_those_of_torch(name, mode):
    # Torch shows Jacobians with a row for each input, fdiff as `fdiff.jacobian` gives them.
    x = np.array([1.0, 2.0])
    options = {"check_forward_ad": mode == "forward", "check_backward_ad": mode == "backward"}
    with pytest.raises(TorchGradcheckError) as theirs:
        torch.autograd.gradcheck(WRONG[name](detach), (torch_point(x),), **options)
    with pytest.raises(GradcheckError) as ours:
        fdiff.gradcheck(WRONG[name](fdiff.stop_gradient), x, **options)
    first, numerical, analytical = re.split(r"numerical:|analytical:", str(theirs.value))
    head, was, now = re.split(r"numerical:|analytical:", str(ours.value))
    assert head.endswith(first)
    rows = lambda text: np.reshape(numbers(text)[:4], (2, 2))
    np.testing.assert_allclose(rows(was).T, rows(numerical), atol=1e-4)
    np.testing.assert_allclose(rows(now).T, rows(analytical), atol=1e-4)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("modes", [(True, False), (True, True)], ids=["forward", "both"])
def test_verdicts_on_recorded_arrays_in_forward_mode(name, fast, modes):
    make = {**RIGHT, **WRONG}[name]
    ours, theirs = make(fdiff.stop_gradient), make(detach)
    x = np.array([0.6, 1.1, 1.9])
    point, theirs_at = fdiff.autograd.tensor(x, requires_grad=True), torch_point(x)
    options = {"fast_mode": fast, "raise_exception": False}
    first = {"check_forward_ad": modes[0], "check_backward_ad": modes[1], **options}
    right = torch.autograd.gradcheck(theirs, (theirs_at,), **first)
    assert right is (name in RIGHT)
    assert fdiff.gradcheck(ours, (point,), check_batched_forward_grad=True, **first) is right
    second = {"check_fwd_over_rev": modes[0], "check_rev_over_rev": modes[1], **options}
    second["check_undefined_grad"] = modes[1]  # torch asks for reverse mode there
    right = torch.autograd.gradgradcheck(theirs, (theirs_at,), **second)
    assert fdiff.gradgradcheck(ours, (point,), **second) is right


def test_an_error_is_the_same_built_in_class():
    assert issubclass(TorchGradcheckError, RuntimeError)
    assert issubclass(GradcheckError, RuntimeError)


def test_every_option_of_torch_is_there():
    import inspect

    for name in ("gradcheck", "gradgradcheck"):
        theirs = inspect.signature(getattr(torch.autograd, name)).parameters
        ours = inspect.signature(getattr(fdiff, name)).parameters
        assert list(ours)[1:] == list(theirs)[1:]
        changed = {k for k, p in theirs.items() if k in ours and p.default != ours[k].default}
        # None: both modes are checked, because the calls that users make choose one unasked.
        assert changed == ({"check_forward_ad"} if name == "gradcheck" else {"check_fwd_over_rev"})


def test_in_single_precision_torch_fails_where_fdiff_measures_in_double():
    x = np.array([0.3, 1.7], np.float32)
    single = torch.tensor(x, requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision floating point or complex"):
        assert not torch.autograd.gradcheck(torch.sin, (single,), raise_exception=False)
    with pytest.warns(UserWarning, match="not double precision floating point or complex"):
        assert fdiff.gradcheck(np.sin, x)


def test_wrong_values_of_entries_are_missed_by_fast_mode_of_torch_alone():
    # One entry of many is wrong by a hundredth: its share in a product is below torch's tolerance.
    rng = np.random.default_rng(0)
    mixing = rng.uniform(0.5, 1.5, (40, 40))
    wrong = mixing.copy()
    wrong[3, 5] *= 1.02

    def function(array, stop):
        right, other = array(mixing), array(wrong)
        return lambda x: right @ stop(x) + other @ (x - stop(x))

    f, ours = function(torch.tensor, detach), function(np.array, fdiff.stop_gradient)
    x = rng.uniform(size=40)
    options = {"fast_mode": True, "raise_exception": False}
    assert torch.autograd.gradcheck(f, (torch_point(x),), **options)
    assert not torch.autograd.gradcheck(f, (torch_point(x),), raise_exception=False)
    assert not fdiff.gradcheck(ours, x, **options)


# --- anomalies ------------------------------------------------------------------------------------

FAULTS = {  # with what makes a NaN in torch's backward pass
    "root squared": lambda x, lib: (lib.sqrt(x) ** 2).sum(),
    "root times zero": lambda x, lib: (lib.sqrt(x) * 0.0).sum(),
    "norm": lambda x, lib: lib.sqrt(lib.sqrt((x * x).sum())) * 0.0,
    "logarithm": lambda x, lib: (x * lib.log(x)).sum(),
    "quotient": lambda x, lib: (x / x).sum(),
}


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
@pytest.mark.filterwarnings("ignore:Error detected in:UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FAULTS)
def test_where_torch_finds_a_nan_so_does_fdiff(name):
    x = np.zeros(3)
    with torch.autograd.detect_anomaly(), pytest.raises(RuntimeError) as theirs:
        FAULTS[name](torch_point(x), torch).backward()
    with fdiff.autograd.detect_anomaly(), pytest.raises(AnomalyError) as recorded:
        FAULTS[name](fdiff.autograd.tensor(x, requires_grad=True), np).backward()
    with fdiff.autograd.detect_anomaly(), pytest.raises(AnomalyError) as functional:
        fdiff.grad(lambda x: FAULTS[name](x, np))(x)
    words = "Function 'SqrtBackward0' returned nan values in its 0th output."
    if name.startswith("root"):  # elsewhere fdiff names the infinity that came first
        assert str(theirs.value) == words
        assert words in str(recorded.value)
    assert "test_checks_beside_torch.py:" in str(recorded.value)
    assert "test_checks_beside_torch.py:" in str(functional.value)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled:UserWarning")
def test_where_nothing_is_wrong_neither_raises():
    x = np.array([0.5, 2.0])
    for f in RIGHT.values():
        theirs, ours, point = f(detach), f(fdiff.stop_gradient), torch_point(x)
        total = lambda found: found[0].sum() if isinstance(found, tuple) else found.sum()
        with torch.autograd.detect_anomaly():
            total(theirs(point)).backward()
        with fdiff.autograd.detect_anomaly():
            slope = fdiff.grad(lambda x: total(ours(x)))(x)
        np.testing.assert_allclose(slope, point.grad.numpy())


def changed_above(library, name):
    """A function whose outputs are of another kind above (1, 2)."""
    cast = (lambda x: x.astype(np.float32)) if library is np else (lambda x: x.to(torch.float32))
    other = {
        "shape": lambda x: (x * 2)[None],
        "size": lambda x: x[:1] * 2,
        "dtype": lambda x: cast(x * 2),
    }
    return lambda x: other[name](x) if x[0] + x[1] > 3.0 else x * 2


@pytest.mark.parametrize("name", ["shape", "size", "dtype"])
@pytest.mark.parametrize("fast", [False, True])
def test_outputs_that_change_near_by_fail_as_in_torch(name, fast):
    # Torch compares the two points near by with each other, fdiff each with the point itself.
    x = np.array([1.0, 2.0])
    with pytest.raises((AssertionError, TorchGradcheckError)) as theirs:
        torch.autograd.gradcheck(changed_above(torch, name), (torch_point(x),), fast_mode=fast)
    assert "when inputs are perturbed" in str(theirs.value)
    for given in (x, fdiff.autograd.tensor(x, requires_grad=True)):
        with pytest.raises(GradcheckError, match="when inputs are perturbed"):
            fdiff.gradcheck(changed_above(np, name), (given,), fast_mode=fast)


RULES = {
    "product": lambda g, h: g * 2 + h * 3,
    "both may be missing": lambda g, h: (0 if g is None else g * 2) + (0 if h is None else h * 3),
    "one may be missing": lambda g, h: (0 if g is None else g * 2) + h * 3,
    "something for nothing": lambda g, h: (
        (1 + 0 * (g if h is None else h)) if g is None or h is None else g * 2 + h * 3
    ),
}


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("materialize", [False, True])
def test_undefined_cotangents_are_tried_as_in_torch(name, materialize):
    def function(library):
        class Scaled(library.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                if g is None is h:
                    return None
                return RULES[name](g, h)

        return Scaled.apply

    x = np.array([1.0, 2.0])
    try:
        theirs = torch.autograd.gradcheck(
            function(torch.autograd), (torch_point(x),), raise_exception=False
        )
    except TypeError:  # of None times a number, which torch lets through
        theirs = False
    point = fdiff.autograd.tensor(x, requires_grad=True)
    assert fdiff.gradcheck(function(fdiff.autograd), (point,), raise_exception=False) is theirs
