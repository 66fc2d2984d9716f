"""detect_anomaly, set_detect_anomaly, debug_nans: what made a NaN, and what is left in peace.

The line that is to be named is marked: the message shows the text of the line.
"""

import sys
import threading
from contextlib import suppress

import numba
import numpy as np
import pytest

import fdiff
from fdiff.errors import AnomalyError
from fdiff.functional.call.anomaly_contexts import debug_nans, detect_anomaly, set_detect_anomaly
from fdiff.ops.control.loop import BodyRunner
from fdiff.process import anomaly_watch
from fdiff.trace.trace_stack import occupied
from fdiff.tree import flatten

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own are no matter here
X = np.array([0.0, 1.0, 4.0])
HERE = "# here"


@pytest.fixture(params=["interpret", "compile"])
def tier(request, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", request.param)
    return request.param


def anomaly(call, *args, context=detect_anomaly):
    """The message of the anomaly that a call has."""
    with pytest.raises(AnomalyError) as caught, context():
        call(*args)
    text = str(caught.value)
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, FloatingPointError)
    return text


def shown_line(text):
    """The line of the user's that a message shows."""
    return next(line for line in text.splitlines() if line.startswith("    test_anomalies.py:"))


# --- functions with a fault -----------------------------------------------------------------------


def root(x):
    y = x * 2
    z = np.sqrt(y)  # here
    return np.sum(z)


def root_squared(x):
    y = np.sqrt(x)  # here
    return np.sum(y**2)


def zero_times_infinity(x):
    y = np.log(x)  # here
    return np.sum(x * y)


def log_of_negative(x):
    y = x - 2.0
    return np.sum(np.log(y))  # here


def norm(x):
    squares = np.sum((x - x[0]) ** 2 * 0.0)
    return np.sqrt(squares)  # here


def quotient(x):
    return np.sum(
        3.0 / x,  # here
    )


def overflow(x):
    y = np.exp(300.0 * x)  # here
    return np.sum(np.sqrt(y))


def softmax(x):
    e = np.exp(300.0 * x)  # here
    return np.sum(e / np.sum(e) * x)


def difference_of_infinities(x):
    y = np.exp(x * 1000.0)  # here
    z = np.exp(x * 999.0)
    return np.sum(y - z)


def power(x):
    return np.sum(x**0.5)  # here


def in_a_loop(x):
    total = 0.0
    for k in range(3):
        total = total + np.sqrt(x[k])  # here
    return total


def matrix(x):
    A = np.outer(x, x) / x[0]  # here
    return np.sum(A @ x)


def with_a_branch(x):
    if x[1] > 0.5:
        return np.sum(np.sqrt(x))  # here
    return np.sum(x)


def stored(x):
    out = np.zeros(4)
    out[:3] = np.sqrt(x)  # here
    return np.sum(out)


FAULTS = {
    "root": (root, "Function 'SqrtBackward0' returned inf values in its 0th output.", "sqrt(0.0)"),
    "root squared": (root_squared, "Function 'SqrtBackward0' returned", "divide(0.5, 0.0) = inf"),
    "zero times infinity": (zero_times_infinity, "log returned inf values.", "log(0.0) = -inf"),
    "log": (
        log_of_negative,
        "log returned nan values. 2 of 3 entries are nan: [0, 1]",
        "log(-2.0)",
    ),
    "norm": (norm, "Function 'SqrtBackward0' returned inf values in its 0th", "sqrt(0.0) = 0.0"),
    "quotient": (quotient, "divide returned inf values. 1 of 3 entries is inf: [0]", "(3.0, 0.0)"),
    "overflow": (overflow, "exp returned inf values. 1 of 3", "at [2]: exp(1200.0) = inf"),
    "softmax": (softmax, "exp returned inf values. 1 of 3", "at [2]: exp(1200.0) = inf"),
    "inf - inf": (difference_of_infinities, "exp returned inf values. 2 of 3", "exp(1000.0) = inf"),
    "power": (power, "Function '", "0.0"),
    "loop": (in_a_loop, "Function 'SqrtBackward0' returned inf", "divide(0.5, 0.0) = inf"),
    "matrix": (matrix, "divide returned nan values", "divide(0.0, 0.0) = nan"),
    "branch": (with_a_branch, "Function 'SqrtBackward0' returned inf", "sqrt(0.0) = 0.0"),
    "store": (stored, "Function 'SqrtBackward0' returned inf", "sqrt(0.0) = 0.0"),
}
fault = pytest.mark.parametrize("name", FAULTS)


@fault
def test_the_line_the_operation_and_the_values_are_named(name, tier):
    f, made, values = FAULTS[name]
    for call in (fdiff.grad(f), fdiff.value_and_grad(f)):
        text = anomaly(call, X)
        assert f"({f.__name__}): {made}" in text
        assert shown_line(text).endswith(HERE)
        assert values in text
        assert "On the tape, towards the result:\n" in text
        assert "\n> %" in text


@fault
@pytest.mark.parametrize(
    "call",
    [
        lambda f: fdiff.jacobian(f, X),
        lambda f: fdiff.jacobian(f, X, mode="reverse"),
        lambda f: fdiff.jacobian(f, X, mode="forward", chunk_size=2),
        lambda f: fdiff.vjp(f, X),
        lambda f: fdiff.jvp(f, X, np.ones(3)),
        lambda f: fdiff.hvp(f, X, np.ones(3)),
        lambda f: fdiff.vhp(f, X, np.ones(3)),
        lambda f: fdiff.hessian(f, X),
        lambda f: fdiff.jit(fdiff.grad(f))(X),
        lambda f: fdiff.vmap(fdiff.grad(f))(np.stack([X, X])),
        lambda f: fdiff.grad(lambda x: np.sum(fdiff.grad(f)(x)))(X),
    ],
    ids=[
        "jacobian",
        "reverse",
        "chunks",
        "vjp",
        "jvp",
        "hvp",
        "vhp",
        "hessian",
        "jit",
        "vmap",
        "nested",
    ],
)
def test_every_operator_names_the_line(name, call, request):
    inner = any(f"[{kind}-" in request.node.name for kind in ("jit", "vmap", "nested"))
    if name == "log" and inner:  # its slope is finite, and nobody computes its value
        with detect_anomaly():
            call(FAULTS[name][0])
        return
    text = anomaly(call, FAULTS[name][0])
    assert shown_line(text).endswith(HERE)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda f: fdiff.hessian(f, X),
            "The tangent of power (forward mode) has inf values.",
        ),
        (
            lambda f: fdiff.grad(lambda x: np.sum(fdiff.grad(f)(x)))(X),
            "Function 'PowerBackward0' returned inf values in its 0th output.",
        ),
    ],
)
def test_second_derivatives_tell_which_derivative_of_which(call, words):
    def f(x):
        return np.sum(x**1.5)  # here

    with detect_anomaly():  # the first derivative is finite
        assert fdiff.grad(f)(X).tolist() == [0.0, 1.5, 3.0]
    text = anomaly(call, f)
    assert words in text
    assert " within the derivative of power by its operand 0. 1 of 3 entries is inf: [0]." in text
    assert "power(0.0, -0.5) = inf" in text
    assert shown_line(text).endswith(HERE)


def test_forward_mode_has_its_own_words():
    text = anomaly(fdiff.jvp, lambda x: np.sqrt(x), X, np.ones(3))
    assert "jvp(<lambda>): The tangent of sqrt (forward mode) has inf values." in text


def test_the_partial_of_each_operand_is_told_apart():
    f = lambda x, y: np.sum(x**y)
    text = anomaly(fdiff.grad(f, 1), np.array([-1.0, 2.0]), np.array([2.0, 2.0]))
    assert "Function 'PowerBackward0' returned nan values in its 1th output." in text
    assert "the derivative of power by its operand 1. 1 of 2 entries is nan: [0]." in text


# --- what the user gave ---------------------------------------------------------------------------


def test_what_arguments_hold_is_said():
    bad = np.array([1.0, np.nan, 2.0, np.nan])
    text = anomaly(fdiff.grad(lambda x: np.sum(x**2)), bad)
    assert "argument 0 (input 0) holds nan values. 2 of 4 entries are nan: [1, 3]." in text
    text = anomaly(fdiff.jit(lambda p, x: p["rate"] * x), {"rate": bad}, 2.0)
    assert "argument 0['rate'] (input 0) holds nan values." in text
    text = anomaly(fdiff.vjp, np.sin, X, np.array([1.0, np.inf, 1.0]))
    assert "the vector v holds inf values. 1 of 3 entries is inf: [1]." in text
    text = anomaly(fdiff.jacobian, np.cumsum, bad, context=debug_nans)  # its slope is constant
    assert "jacobian(cumsum): argument 0 (input 0) holds nan values." in text
    captured = np.array([1.0, np.nan, 1.0])
    text = anomaly(fdiff.grad(lambda x: np.sum(x * captured)), X)
    assert "an array that the function reads from outside holds nan values." in text
    text = anomaly(fdiff.jit(lambda x: x + np.inf), X)
    assert "a constant holds inf values." in text


def test_a_nan_that_is_made_of_a_given_infinity_is_found_where_it_is_made():
    def f(x):
        y = np.exp(-x)
        return np.sum(y * x)  # here

    text = anomaly(fdiff.grad(f), np.array([1.0, np.inf]))
    assert "multiply returned nan values. 1 of 2 entries is nan: [1]." in text
    assert "Argument 0 (input 0) holds inf values. 1 of 2 entries is inf: [1]." in text
    assert "at [1]: multiply(0.0, inf) = nan" in text
    assert shown_line(text).endswith(HERE)


def test_the_value_of_the_function_counts_where_its_gradient_is_finite():
    assert fdiff.grad(lambda x: np.sum(np.log(x)))(-X - 1).tolist() == [-1.0, -0.5, -0.2]
    assert "log returned nan values." in anomaly(fdiff.grad(lambda x: np.sum(np.log(x))), -X - 1)


# --- what is no anomaly ---------------------------------------------------------------------------


def guarded_root(x):
    return np.sum(np.where(x > 0, np.sqrt(x), 0.0))  # here


@pytest.mark.parametrize(
    "f",
    [
        guarded_root,
        lambda x: np.sum(np.where(x > 0, np.log(x), x)),
        lambda x: np.sum(np.exp(-1.0 / x**2)),  # 1 / 0 is inf, and its exponential 0
        lambda x: np.sum(np.where(np.array([True, False, True]), x, -np.inf)[::2]),
        lambda x: np.max(x, initial=-np.inf),
        lambda x: np.sum(np.nan_to_num(np.log(x), neginf=0.0)),
        lambda x: np.nansum(np.array([x[0], np.nan, x[1]])),
        lambda x: np.sqrt(x)[1],
    ],
)
def test_what_reaches_no_result_is_left_in_peace(f, tier):
    with detect_anomaly():
        for call in (fdiff.grad(f), fdiff.value_and_grad(f), fdiff.jit(f)):
            call(np.array([-1.0, 1.0, 4.0]) if f is guarded_root else X + (f is not guarded_root))


def test_a_branch_that_is_not_taken_counts_for_debug_nans_alone():
    x = np.array([-1.0, 0.0, 4.0])
    with detect_anomaly():
        assert fdiff.grad(guarded_root)(x).tolist() == [0.0, 0.0, 0.25]
    text = anomaly(fdiff.grad(guarded_root), x, context=debug_nans)
    assert "sqrt returned nan values. 1 of 3 entries is nan: [0]." in text
    assert shown_line(text).endswith(HERE)
    # In 0 the root is finite. Its slope is not, which only the derivative computes and discards.
    with debug_nans():
        assert fdiff.grad(guarded_root)(X).tolist() == [0.0, 0.5, 0.25]
        assert fdiff.jit(fdiff.grad(guarded_root))(X).tolist() == [0.0, 0.5, 0.25]
    assert "Function 'SqrtBackward0'" in anomaly(fdiff.grad(root), X, context=debug_nans)


def test_results_are_those_without_a_context(tier):
    A = np.array([[2.0, 1.0], [1.0, 3.0]])
    f = lambda x: np.sum(np.linalg.solve(A, np.sin(x)) * x) + np.max(x)
    x = np.array([0.3, 1.7])
    calls = [
        fdiff.grad(f),
        fdiff.value_and_grad(f),
        fdiff.jit(f),
        fdiff.hessian(f),
        fdiff.jacobian(f),
        lambda x: fdiff.vjp(f, x),
        lambda x: fdiff.jvp(f, x, x),
        fdiff.vmap(fdiff.grad(f)),
    ]
    for call in calls:
        point = np.stack([x, 2 * x]) if call is calls[-1] else x
        wanted = call(point)
        with detect_anomaly():
            found = call(point)
        with debug_nans():
            again = call(point)
        for other in (found, again):
            for a, b in zip(flatten(wanted)[0], flatten(other)[0], strict=True):
                assert np.array_equal(a, b)


# --- contexts -------------------------------------------------------------------------------------


def test_compiled_calls_are_watched_inside_and_fast_again_outside(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    monkeypatch.delitem(occupied, "kinks", raising=False)  # another test's, for good
    slope = fdiff.value_and_grad(root)
    for _ in range(40):
        slope(X)  # by machine code
    assert not occupied
    with detect_anomaly():
        assert occupied
        with pytest.raises(AnomalyError, match="SqrtBackward0"):
            slope(X)
        slope(X + 1.0)
    assert not occupied
    assert np.isinf(slope(X)[1][0])


def test_contexts_nest_and_set_a_mode_for_good():
    slope = fdiff.grad(root)
    with detect_anomaly():
        with set_detect_anomaly(False):
            assert anomaly_watch.in_force() is None
            assert np.isinf(slope(X)[0])
        with pytest.raises(AnomalyError):
            slope(X)
        with detect_anomaly(check_nan=False):
            assert np.isinf(slope(X)[0])
    assert anomaly_watch.in_force() is None
    for _ in range(3):
        set_detect_anomaly(True)
        with pytest.raises(AnomalyError):
            slope(X)
        set_detect_anomaly(False)
        assert np.isinf(slope(X)[0])
    assert len(anomaly_watch._entered) <= 1


def test_a_context_is_a_decorator_and_watches_every_thread():
    @detect_anomaly()
    def run():
        failed = []

        def work():
            try:
                fdiff.grad(root)(X)
            except AnomalyError as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return failed

    assert len(run()) == 1
    assert anomaly_watch.in_force() is None


def test_an_exception_at_any_line_of_a_context_leaves_no_mode():
    """That of a signal handler may come as a context begins or ends."""
    inside = fdiff.grad(np.sum)
    counted, end = [0], [0]

    def local(_frame, event, _):
        counted[0] += event == "line"
        if counted[0] == end[0]:
            sys.settrace(None)
            raise KeyboardInterrupt
        return local

    def start(frame, *_):
        return local if "anomaly_" in frame.f_code.co_filename else None

    def run():
        with detect_anomaly():
            inside(X)

    while counted[0] >= end[0]:
        end[0], counted[0] = end[0] + 1, 0
        sys.settrace(start)
        with suppress(KeyboardInterrupt):
            run()
        sys.settrace(None)
        inside(X)
        assert anomaly_watch.in_force() is None
        assert "anomalies" not in occupied
    assert end[0] > 20


def test_functions_that_are_differentiated_eagerly_are_watched():
    def f(x):
        total = 0.0
        for k in range(3):
            total = total + (x[k] if x[k] > 0.5 else np.sqrt(x[k]))  # here
        return total

    rng = np.random.default_rng(0)
    slope = fdiff.grad(f)
    for _ in range(60):  # another branch at each call
        slope(rng.uniform(0.01, 1.0, 3))
    assert shown_line(anomaly(slope, X)).endswith(HERE)
    with detect_anomaly():
        for _ in range(5):
            assert np.isfinite(slope(rng.uniform(0.01, 1.0, 3))).all()


def test_an_in_place_result_is_watched():
    slope, out = fdiff.grad(root), np.zeros(3)
    with detect_anomaly(), pytest.raises(AnomalyError):
        slope(X, out=out)


# --- calls from machine code ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("misses", ["python", "raise"])
@pytest.mark.parametrize("name", ["root", "branch"])
def test_calls_from_code_of_numba_are_watched(name, misses):
    f, made, _ = FAULTS[name]
    slope = fdiff.njit(fdiff.grad(f), X, misses=misses)

    @numba.njit
    def total(x):
        found = 0.0
        for _ in range(x.size):
            found += np.sum(slope(x))
        return found

    assert total(X) == np.inf
    for call in (total, slope):
        text = anomaly(call, X)
        assert made in text
        assert shown_line(text).endswith(HERE)
    with detect_anomaly():
        np.testing.assert_allclose(total(X + 1.0), 3 * np.sum(slope(X + 1.0)))
        later = fdiff.njit(fdiff.grad(f), X)  # whose table is made now
        with pytest.raises(AnomalyError):
            numba.njit(lambda x: later(x))(X)
    assert total(X) == np.inf


def test_a_call_of_which_no_kernel_was_made_stays_an_error_while_it_is_watched():
    slope = fdiff.njit(fdiff.grad(lambda t: t**3 if t > 0.5 else np.sin(t)), 0.3, misses="raise")
    call = numba.njit(lambda t: slope(t))
    with detect_anomaly():
        assert call(0.25) == np.cos(0.25)
        for _ in range(2):
            with pytest.raises(fdiff.errors.InputError, match="no kernel was made for"):
                call(1.0)


def test_c_functions_are_watched_where_they_may_ask_python():
    f, made, _ = FAULTS["root"]
    out = np.empty(3)
    asks, never = [fdiff.cfunc(fdiff.grad(f), X, misses=misses) for misses in ("python", "raise")]
    with detect_anomaly():
        never.ctypes(X, out)
        assert out[0] == np.inf
        asks.ctypes(X + 1.0, out)
        asks.check()
        asks.ctypes(X, out)
    assert np.isnan(out).all()
    with pytest.raises(AnomalyError, match="SqrtBackward0") as caught:
        asks.check()
    assert made in str(caught.value)
    asks.ctypes(X, out)
    assert out[0] == np.inf
    asks.check()


def test_a_rebound_name_is_refused_while_a_call_is_watched():
    read = {"by": np.ones(3)}
    slope = fdiff.njit(fdiff.grad(lambda x: np.sum(read["by"] * x)), X)
    call = numba.njit(lambda x: slope(x))
    np.testing.assert_array_equal(call(X), np.ones(3))
    read["by"] = np.zeros(3)
    with detect_anomaly(), pytest.raises(fdiff.errors.InputError, match="is not what it was"):
        call(X)
    np.testing.assert_array_equal(call(X), np.ones(3))


@pytest.mark.parametrize("counted", [True, False])
def test_a_trip_of_a_long_loop_is_found_in_compiled_code(counted, monkeypatch):
    """NumPy runs the body in few trips."""

    def f(x, n):
        step = lambda i, y: np.where(i == n - 100, np.sqrt(y - y - 1.0), 0.999 * y)
        if counted:
            return fdiff.fori_loop(0, n, step, x)
        both = lambda s: (step(s[1], s[0]), s[1] + 1)
        return fdiff.while_loop(lambda s: s[1] < n, both, (x, 0))[0]

    monkeypatch.setenv("FDIFF_TIER", "compile")
    trips, run = [], BodyRunner.__call__
    monkeypatch.setattr(BodyRunner, "__call__", lambda *xs: trips.append(1) or run(*xs))
    with detect_anomaly(), pytest.raises(AnomalyError, match=r"sqrt returned nan.*trip 99900"):
        fdiff.jit(f)(1.0, 100_000)
    assert len(trips) < 1000
