"""Functions that return or raise in the middle: in loops, in loops in these, and in statements."""

import itertools
import random

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS as NEAR
from test_choosing_loops import N, W, counted, exact

import fdiff
from fdiff.trace import looping

CLOSE = {"rtol": 1e-12, "atol": 1e-13}
POINTS = [np.array(p) for p in itertools.product((-0.9, 0.2, 1.3), (-0.4, 0.7), (0.3, -1.1))]
PLACES = {"low": 0.2}


def newton_returns(x):
    z = x[0] + 1.5
    while True:
        dz = (z * z - x[1] ** 2 - 1.0) / (2 * z)
        z = z - dz
        if abs(dz) < 1e-9:
            return z * x[2]


def fixed_point_returns(x):
    z = x[0]
    for k in range(100):
        new = 0.5 * np.cos(z * x[1]) + 0.1 * x[2]
        if abs(new - z) < 1e-7:
            return new + 0.1 * k * x[2]
        z = new
    raise RuntimeError("no convergence")


def vector_returns(x):
    v = x * 0.5
    for _ in range(60):
        new = 0.4 * np.sin(v[::-1]) + 0.1 * x
        if np.sum((new - v) ** 2) < 1e-9 * (1.5 + x[0]):
            return np.sum(new * x)
        v = new
    return np.sum(v)


def returns_in_loops_in_loops(x):
    s = x[0]
    for k in range(20):
        for j in range(15):
            s = np.sin(s * 1.1 + 0.1 * j + W[k])
            if s > 0.9 + 0.1 * x[1]:
                return s * x[2] + 0.01 * k * j * x[0]
        if s < x[1] * 0.2 - 0.9:
            return s
        s = s * 0.9
    return s * s


def arms_return(x):
    if x[0] > 0.5:
        return x[1] * x[0]
    y = x[2] if x[0] > 0 else x[0]
    if y > x[1]:
        y = y * 0.5
        if x[1] > 0.2:
            return y * y
        if x[2] < 0:
            return np.sin(y)
    return y * x[0]


def statements_then_a_loop(x):
    if x[1] < 0:
        return x[0] * x[2]
    s = x[0]
    for k in range(N):
        s = s * 0.5 + W[k] if s * W[k] > x[2] else np.sin(s) + 0.1 * x[1]
    if s > x[2]:
        return s
    return s * s - x[0]


def many_statements(x):
    if x[0] < -0.5:
        return x[1] * 3.0
    s = x[0]
    if s > x[1]:
        s = s * 0.5 + x[2]
    if s > x[2]:
        s = s * x[1]
    if s * x[0] > 0.3:
        s = np.cos(s)
    elif s < 0:
        s = -s
    t = s if s > 0.2 else s * s
    if t > x[0]:
        t = t - x[0]
    if t < x[1] and s > 0.1:
        t = t * 1.5
    u = x * t
    if u[1] > 0.3:
        u[0] = t
    if np.sum(u) > 1.0:
        return t - 0.5 * s
    return t * s + np.sum(u)


def raises_in_loops_in_loops(x):
    s = x[0]
    for k in range(30):
        for j in range(14):
            s = np.sin(s + 0.1 * j + W[k])
            if s > 5.0:
                raise ValueError(f"far in {k}, {j}")
        s = s * 0.5 if s > x[1] else s
    return s * x[2]


def bisection_returns(x):
    low, high = x[0] * 0.0 - 3.0, x[0] * 0.0 + 3.0
    for _ in range(80):
        middle = 0.5 * (low + high)
        value = middle**3 + middle * (1.5 + x[0]) - x[1]
        if high - low < 1e-9:
            return middle * x[2] + x[0]
        if value > 0:
            high = middle
        else:
            low = middle
    return low


def takes_steps(x):
    t, y = x[2] * 0.0, x[0]
    while t < 3.0:
        y = y + 0.1 * np.sin(y * x[1])
        if y > 1.2 + x[2]:
            return y * t
        t = t + 0.2
    return y * y


def over_rows(x):
    s = x[0]
    for k, (y, row) in enumerate(zip(W, np.outer(W, x))):  # noqa: B905 - keywords are left to Python
        s = np.sin(s + y + row[1])
        if s > 0.8 + 0.1 * x[2]:
            return s * x[1] + 0.1 * k * x[0]
    return s


def long_while_in_a_loop(x):
    total = x[2]
    for k in range(20):
        s, n = 1.0 + 0.1 * x[1], 0
        while s > 0.1 + 0.01 * k:
            s = s * (1.0 - 0.004 * (1.5 + x[0]))
            n += 1
        total = np.sin(total) * 0.5 + s if total > 0.2 else total + s * x[1] + 0.001 * n
    return total


ROLLED = (
    newton_returns, fixed_point_returns, vector_returns, returns_in_loops_in_loops, arms_return,
    statements_then_a_loop, many_statements, raises_in_loops_in_loops, bisection_returns,
    takes_steps, over_rows, long_while_in_a_loop,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # of unrolled ones
@pytest.mark.parametrize("f", ROLLED)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in (*POINTS, *NEAR)]
    assert [own.refusals for own in drivers] == [{}]
    assert len(traces) == 1
    for x, (value, slope) in zip((*POINTS, *NEAR), results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("f", [newton_returns, returns_in_loops_in_loops, many_statements])
def test_compiled_code_and_second_derivatives(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    second = fdiff.hessian(f)
    for x in NEAR[:2]:
        expected = exact(fdiff.hessian, f, x, monkeypatch)
        np.testing.assert_allclose(second(x), expected, rtol=1e-8, atol=1e-9)
    monkeypatch.setenv("FDIFF_TIER", "compile")
    fdiff.cache_clear()
    both = fdiff.value_and_grad(f)
    for x in NEAR:
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("f", [newton_returns, arms_return])
def test_loops_choose_before_calls_are_looked_at(f, monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    monkeypatch.delenv("FDIFF_LOOPS")
    monkeypatch.setattr(looping, "SLEEP", 16)
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        np.testing.assert_allclose(both(x)[0], f(x), **CLOSE)
    assert len(traces) == 1


@pytest.mark.parametrize("f", [fixed_point_returns, arms_return])
def test_batches(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    points = np.stack(NEAR)
    slopes = [exact(fdiff.grad, f, x, monkeypatch) for x in points]
    many = fdiff.vmap(fdiff.grad(f))(points)
    np.testing.assert_allclose(many, slopes, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------- what Python may tell apart


def tuples(x):
    for k in range(N):
        if np.sin(k * x[0]) > 0.7:
            return x[1] * k, x * 2.0, (x[2], x[0])
    return x[0], x + 1.0, (x[1], x[0] * x[2])


def tuples_of_several_lengths(x):
    if x[0] > 0.5:
        return x[1], x[2]
    if x[0] > 0:
        return x[1], x[2], x[0]
    return x[1] * 2.0


def none_at_the_end(x):  # noqa: RET503 - that is what it is for
    for k in range(N):
        if np.sin(k * x[0]) > 0.9999:
            return x[1] * k


def none_by_itself(x):
    if x[0] > 0:
        return None
    if x[1] > 0:
        return x[2] * 2.0
    return None


def numbers_of_python(x):
    if x[0] < 0:
        return 0.0
    if x[1] < 0:
        return 0
    return x[0] * x[1]


def steps_taken(x):
    z = x[0]
    for k in range(60):
        new = 0.5 * np.cos(z)
        if abs(new - z) < 1e-6 * (1.5 + x[1]):
            return new, k
        z = new
    return z, -1


def texts(x):
    z = x[0]
    for _ in range(60):
        z = 0.5 * np.cos(z)
        if z > 0.45 + 0.01 * x[1]:
            return z, "ended"
    return z, "all"


def the_first_trip(x):
    v = x * 2.0
    for _ in range(N):
        if np.sum(v * v) < 1.0 + x[0]:
            return v
        v = v * 0.8
    return v


def a_view(x):
    u = np.outer(x, x)
    for k in range(N):
        u = u * 0.9
        if u[0, 0] < 0.2 + 0.1 * x[1]:
            return u[1:]
        u[1, 2] = x[0] * k
    return u[:2]


def its_argument(x):
    if x[0] > 0:
        return x
    return x * 2.0


def kept_and_changed(u, limit):
    for _ in range(N):
        if u[0] < limit:
            return u
        u = u * 0.9
    return u


def aliases(x):
    v = x * 1.0
    w = kept_and_changed(v, x[1])
    w[0] = 5.0
    return np.sum(v * x) + np.sum(w)


def stored_into(u, x):
    for k in range(N):
        u[k % 3] = u[k % 3] * 0.9 + 0.1 * x[1]
        if u[0] < x[2]:
            return u[1] * 2.0
        u[1] += 0.01 * x[0]
    return u[2]


def arrays_of_the_caller(x):
    u = x * 1.5
    v = u
    s = stored_into(u, x)
    return s + np.sum(u * x) + np.sum(v)


def in_place_by_a_sign(u, x):
    if x[0] > 0:
        u += x[1]
        return u[0] * 2.0
    u *= 0.5
    if x[1] > 0:
        return u[1]
    u[2] = 7.0
    return u[2] * x[0]


def changed_in_place(x):
    u = x * 1.5
    s = in_place_by_a_sign(u, x)
    return s + np.sum(u * x)


def untraced_in_place(x):
    u = np.zeros(3)
    v = u
    if x[0] > 0.5:
        u += 1.0
        return np.sum(v * x)
    u[1] = 2.0
    if x[1] > 0:
        return np.sum(v * x) + x[1]
    return np.sum(u) * x[2]


def else_of_a_loop(x):
    s = x[0]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 0.9 + 0.1 * x[1]:
            break
        if s < -0.99:
            return s * 3.0
    else:
        return s * 2.0
    return s


def a_finally(x):
    log = []
    try:
        for k in range(N):
            if np.sin(k * x[0]) > 0.9:
                return x[1] * k
        return x[2]
    finally:
        log.append(1)


def a_finally_that_returns(x):
    try:
        if x[0] > 0:
            return x[1]
        y = x[2] * x[0]
    finally:
        if x[1] > 0:
            return x[0] * 3.0  # noqa: B012 - that is what it is for
    return y


def errors_that_are_caught(x):
    try:
        for k in range(N):
            if np.sin(k * x[0]) > 0.9:
                raise ValueError("far")  # noqa: TRY301 - that is what it is for
            if k * x[1] > 20.0:
                return x[2] * k
    except ValueError:
        return x[1] * 2.0
    return x[0]


def unbound_on_one_path(x):
    if x[0] > 0:
        y = x[1]
    if x[2] > 0:
        return x[0]
    if x[0] > 0:
        return y * 2.0
    return x[2]


def unbound(x):
    if x[0] > -0.5:
        y = x[1] * 1.0
    if x[2] > 0:
        return x[0]
    return y * 2.0


def unbound_behind_a_return(x):
    if x[2] > 0:
        return x[0]
    if x[0] > -0.5:
        y = x[1] * 1.0
    return y * 2.0


def raises_behind_a_return(x):
    if x[2] > 0:
        return x[0]
    s = x[1]
    if s > 0.5:
        raise ValueError("far")
    if s < 0:
        s = s * 0.5
    return s * x[0]


def lists_behind_a_return(x):
    log = [x[0], 0.0]
    if x[2] > 0:
        return x[0]
    log[1] = x[1]
    for k in range(N):
        log[0] = np.sin(log[0] + W[k])
        if log[0] > 0.9:
            log[1] = log[0] * 2
    return log[0] + log[1]


def appends_behind_a_return(x):
    log = [x[0], 0.0]
    if x[2] > 0:
        return x[0]
    for k in range(N):
        log.append(np.sin(log[-1] + W[k]))
        if log[-1] > 0.95 + 0.05 * x[1]:
            return log[-1] * x[1]
    return sum(log)


def divides(x):
    h = 0.0
    if x[0] > 0:
        h = h + x[1]
    if x[2] > 0:
        return x[0] / 2.0
    return 1.0 / (h + 1.0) + h / 3.0


def weak_number(x):
    h = 0.5
    if x[0] > 0:
        h = 0.25
    if x[2] > 0:
        return h * x[1]
    return h


def variables_change(x):
    v, n = x * 1.0, 3
    if x[0] > 0.5:
        n += 1
        v = v * n
    if x[1] > 0:
        x = x * 2.0
        return np.sum(v * x) * n
    n = n * 2
    x[0] = 1.5
    return v[0] * n + x[0] * x[1]


def behind_code_with_effects(x):
    log = [x[0]]
    s = x[1]
    for k in range(N):
        s = np.sin(s + W[k])
        if s > 0.9 + 0.1 * x[2]:
            return s * 2.0
    log.append(s)
    return sum(log)


def raised_or_returned(x):
    s = x[0]
    for k in range(20):
        for j in range(3):
            s = np.sin(s + 0.3 * j + 0.1 * k)
            if s > 0.99 + 0.01 * x[1]:
                raise ValueError(f"far in {k}, {j}")
            if s < -0.9:
                return s * x[1]
    return s


def long_loops_of_another_function(x):
    if x[0] < 0:
        return x[1]
    return several_steps(x)


def several_steps(x):
    s = x[0]
    for k in range(N):
        s = np.sin(s + 0.1 * k)
    return s * x[1]


def errors_of_numpy(x):
    if x[0] < 0:
        return x[1]
    return np.linalg.solve(np.array([[x[0], 1.0], [1.0, x[1]]]), x[:2])[0]


def reads_a_dict(x):
    if x[0] < PLACES["low"]:
        return x[1]
    return x[0] * x[2]


def truth(x):
    for k in range(N):
        if np.sin(k * x[0]) > 0.9:
            return x[1] > x[2]
    return x[0] > 0


TOLD = (
    tuples, tuples_of_several_lengths, none_at_the_end, none_by_itself, numbers_of_python,
    steps_taken, texts, the_first_trip, a_view, its_argument, aliases, arrays_of_the_caller,
    changed_in_place, untraced_in_place, else_of_a_loop, a_finally, a_finally_that_returns,
    errors_that_are_caught, unbound_on_one_path, unbound, unbound_behind_a_return,
    raises_behind_a_return, lists_behind_a_return, appends_behind_a_return, divides,
    weak_number, variables_change, behind_code_with_effects, raised_or_returned,
    long_loops_of_another_function, errors_of_numpy, reads_a_dict, truth,
)  # fmt: skip


def parts(value):
    """The parts of a result, however deep."""
    if not isinstance(value, tuple):
        return [value]
    return ["(", *[p for part in value for p in parts(part)], ")"]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", TOLD)
def test_what_python_may_tell_apart_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(f)
    for x in (*POINTS, *POINTS[::-1]):
        try:
            plain = f(x.copy())
        except (ValueError, UnboundLocalError) as error:
            with pytest.raises(type(error), match=str(error).partition("(")[0]):
                run(x.copy())
            continue
        for a, b in zip(parts(run(x.copy())), parts(plain), strict=True):
            assert type(a) is type(b)
            if isinstance(b, str) or b is None:
                assert a == b
            else:
                np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # of unrolled ones
@pytest.mark.parametrize("f", [tuples, the_first_trip, arrays_of_the_caller, changed_in_place])
def test_derivatives_of_these(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    total = lambda x: sum(np.sum(np.sin(p)) for p in parts(f(x)) if not isinstance(p, str))
    slope = fdiff.grad(total)
    for x in POINTS:
        expected = exact(fdiff.grad, total, x, monkeypatch)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "returns")
    assert not random_choosing_loops.failure(text, seed)


def test_a_function_that_always_raises(monkeypatch):
    counted(monkeypatch, choosing=True)

    def f(x):
        for k in range(N):
            if x[0] > k:
                raise ValueError("far")
        raise ValueError("near")

    for x in POINTS:
        with pytest.raises(ValueError, match="far" if x[0] > 0 else "near"):
            fdiff.jit(f)(x)
