"""Loops that choose their branches, and call functions that are defined in `f` or handed to it."""

import random
from functools import partial

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def slope_inside(x):
    rate = 0.3 * x[1]

    def rhs(t, y):
        return -rate * y + 0.1 * np.sin(t) * x[2]

    y, t = x[0], 0.0
    for k in range(N):
        y, t = y + 0.1 * rhs(t, y), t + 0.1
        if y > 0.5 * x[2]:
            y = y - 0.1 * W[k]
    return y * t


def lambda_inside(x):
    force = lambda z: -z + 0.2 * z**3 if z < x[1] else -z
    y, v = x[0], 0.1
    for k in range(N):
        v = v + 0.1 * force(y)
        y = y + 0.1 * v + 0.001 * W[k]
    return y * x[2]


def lambda_of_each_trip(x):
    y = x[0]
    for k in range(N):
        residual = lambda z, w=0.1 * W[k]: z - y - 0.1 * np.sin(z * x[1] + w)
        z = y
        for _ in range(4):
            z = z - residual(z)
        y = 0.5 * z if z > x[2] else z + 0.05 * x[1]
    return y * y


def array_made_inside(x):
    def rhs(y):
        dy = np.empty_like(y)
        dy[0] = y[1] if y[0] > 0.2 * x[2] else 0.5 * y[1]
        dy[1:] = -x[1] * y[0]
        return dy

    y = np.array([x[0], 0.3 * x[1]])
    for k in range(N):
        half = y + 0.05 * rhs(y)
        y = y + 0.1 * rhs(half)
        y = y * 0.9 if y[0] > x[2] else y + 0.01 * W[k]
    return np.sum(y * y)


def reads_what_the_loop_assigns(x):
    y, rate, n = x[0], x[1], 0

    def rhs(z):
        return -rate * z + 0.01 * n * x[2]

    for k in range(N):
        y = y + 0.1 * rhs(y)
        if y < 0.4 * x[2]:
            rate, n = 0.9 * rate - 0.05, n + 1
            y = y + 0.3 * rhs(W[k])
    return y + rate * x[0] + rhs(y)


def reads_the_number_of_the_trip(x):
    def kick():
        return 0.1 * W[k] * x[1] + 0.001 * k

    y = x[0]
    for k in range(N):  # noqa: B007 - `kick` reads it
        y = np.sin(y) + kick() if y > 0.5 * x[2] else 0.9 * y + kick()
    return y * kick()


def loops_in_functions(x):
    def root(y):
        z, err = y, 1.0
        while err > 1e-8:
            dz = (z - y - 0.1 * np.sin(z * x[1])) / (1 - 0.1 * x[1] * np.cos(z * x[1]))
            z, err = z - dz, abs(dz)
        return z

    def walk(y):
        for k in range(N):
            y = root(y) + 0.01 * W[k]
            if y > x[2]:
                y = 0.5 * y
        return y

    return walk(x[0]) * x[1]


def runge_kutta(rhs, t, y, h):
    k1 = rhs(t, y)
    k2 = rhs(t + 0.5 * h, y + 0.5 * h * k1)
    return y + h * k2


def integrate(rhs, y, h):
    t = 0.0
    for _ in range(N):
        y = runge_kutta(rhs, t, y, h)
        y = y * 0.5 if np.sum(y) > 2.0 else y
        t += h
    return y


def handed_over(x):
    def rhs(t, y):
        return np.cos(t) * x[1] - 0.2 * y if y[0] > 0.3 else x[2] * y

    return np.sum(integrate(rhs, x * 1.0, 0.1))


def newton(f, slope, z):
    while abs(f(z)) > 1e-10:
        z = z - f(z) / slope(z)
    return z


def handed_lambdas(x):
    return newton(lambda z: z * z - x[1] ** 2 - 1.0, lambda z: 2 * z, x[0] + 1.0) * x[2]


def shifted(shift, scale, z):
    return scale * z + shift if z < shift else np.sin(z)


def partial_functions(x):
    step = partial(shifted, 0.3 * x[1], scale=0.9)
    y = x[0]
    for k in range(N):
        y = step(z=y) + 0.01 * W[k]
    return y * x[2]


def chosen_function(x):
    if N > 10:

        def limit(z):
            return z - 0.5 * x[1] if z > x[1] else z

    else:
        limit = np.sin
    act = np.tanh
    y = x[0]
    for k in range(N):
        y = limit(1.1 * y) + act(0.1 * W[k] * x[2])
    return y


def typed(x):
    def softened(z: float, m: float = 0.4) -> float:
        """Defaults are numbers, and annotations are not computed."""
        return m + 0.1 * (z - m) if z > m else z

    y = x[0]
    for k in range(N):
        y = softened(y + 0.1 * x[1] * W[k]) + softened(0.3 * y, m=0.1)
    return y


def reads_an_array_that_the_loop_fills(x):
    u = np.zeros(N + 1)
    u[0] = x[0]

    def last(k):
        return 0.9 * u[k] + 0.01 * np.sum(u)

    for k in range(N):
        u[k + 1] = np.sin(last(k)) + 0.1 * W[k]
        if u[k + 1] > 0.5 * x[1]:
            u[k + 1] = last(k) * 0.5
    return np.sum(u * u) + last(3)


def many_trips(x):
    """The `while` makes more than 16 trips, so that it is entered anew."""
    y, n = x[0] + 40.0, 0

    def rate():
        return 0.9 if y > 1.0 + 0.01 * n else 0.8 * x[1]

    while y > 0.1 * x[2]:
        y = rate() * y - 0.01
        n += 1
    return y + n * x[0]


def functions_that_call_methods(x):
    """NumPy's functions that call a method of their array."""
    v = x * 1.0
    for k in range(N):
        v = np.clip(v + 0.1 * W[k], -x[0], 1.2 * x[1])
        v = np.cumsum(v) * 0.3 if np.sum(v) > x[2] else np.reshape(np.round(v, 15), (3,)) * 0.9
    return np.sum(v.astype(float) * x)


def two_lambdas_of_one_line(x):
    a, b = (lambda z: 0.5 * z + 0.1), (lambda z: 0.25 * z - 0.2)
    y = x[0]
    for k in range(N):
        y = a(y) + W[k] if y > x[1] else b(y) + abs(W[k])
    return y


def called_twice(x):
    def walk(y, n):
        for k in range(n):
            y = np.sin(y + W[k]) if y > x[1] else 0.9 * y + 0.1 * k * W[k]
        return y

    return walk(walk(x[0], N) * x[2], N - 20)


def reads_both_numbers_of_a_zip(x):
    def kick():
        return W[k] * (k + 1) * 0.01 + j * 0.1

    y = x[0]
    for k, j in zip(range(N), range(5, 5 + N)):  # noqa: B007, B905 - `kick` reads them
        y = np.sin(y) + kick() if y > x[1] else 0.5 * y + kick()
    return y + kick()


def reads_what_inner_loops_assign(x):
    r, m = 0.3 * x[1], 1

    def rhs(z):
        return r * z + 0.01 * m

    y = x[0]
    for k in range(N):
        for _ in range(15):
            y = np.tanh(rhs(y) + 0.3 * W[k])
            if y > 0.1 * x[2]:
                r, m = 0.9 * r, 2 * m % 7
        r = 0.5 * r + 0.2 if y < 0.5 else r
    return rhs(y)


def keywords_alone(x):
    def step(z, *more, a=0.5, b):
        return a * z + b + sum(more)

    y = x[0]
    for k in range(N):
        y = step(y, b=0.1 * W[k]) if y > x[1] else step(y, 0.01, y, a=-0.1, b=abs(W[k]))
    return y


PROGRAMS = (
    two_lambdas_of_one_line, called_twice, reads_both_numbers_of_a_zip,
    reads_what_inner_loops_assign, keywords_alone,
    functions_that_call_methods,
    reads_an_array_that_the_loop_fills, many_trips, slope_inside, lambda_inside,
    lambda_of_each_trip, array_made_inside,
    reads_what_the_loop_assigns,
    reads_the_number_of_the_trip, loops_in_functions, handed_over, handed_lambdas,
    partial_functions, chosen_function, typed,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [(own.refusals, own.sources) for own in drivers] == [({}, {})]
    assert len(traces) == 1
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------- what has effects of its own


def rebound_later(x):
    shift = x[1]

    def rhs(z):
        return -z + shift

    y = x[0]
    shift = 0.3 * x[2]
    for k in range(N):
        y = y + 0.1 * rhs(y) if y > 0.2 else y + 0.05 * rhs(W[k])
    shift = 2.0
    return y + rhs(y)


def rebound_function(x):
    rhs = lambda z: -z
    y = x[0]
    for k in range(N):
        y = y + 0.1 * rhs(y) + 0.01 * W[k]
        if y < 0.2 * x[1]:
            rhs = lambda z: z * x[2]
    return y


def nonlocal_count(x):
    calls = 0

    def rhs(z):
        nonlocal calls
        calls += 1
        return -z

    y = x[0]
    for k in range(N):
        y = y + 0.1 * rhs(y) if y > 0.2 * x[1] else y + abs(W[k])
    return y * calls


def counting():
    calls = 0

    def rhs(z):
        nonlocal calls
        calls += 1
        return -z * (1 + 0.01 * calls)

    return rhs


def handed_count(x):
    rhs, y = counting(), x[0]
    for k in range(N):
        y = y + 0.1 * rhs(y) if y > 0.2 * x[1] else y + abs(W[k])
    return y


def default_array(x):
    def rhs(z, held=np.zeros(2)):  # noqa: B008 - that is what it tests
        held += 0.1
        return -z + 0.01 * held[0]

    y = x[0]
    for k in range(N):
        y = y + 0.1 * rhs(y) if y > 0.2 * x[1] else y + abs(W[k])
    return y + rhs(y)


def default_list(x):
    def rhs(z, held=[0.1]):  # noqa: B006 - that is what it tests
        held += [0.1]
        return -z + 0.01 * len(held)

    y = x[0]
    for k in range(N):
        y = y + 0.1 * rhs(y) if y > 0.2 * x[1] else y + abs(W[k])
    return y + rhs(y)


def default_of_each_trip(x):
    y = x[0]
    for k in range(N):
        step = lambda z, scale=y: 0.9 * z - 0.1 * scale * x[1]
        y = step(y + 0.1) if y > 0.2 * x[2] else step(W[k]) + 0.3
    return y


def list_in_a_closure(x):
    log = [x[0]]

    def note(z):
        own = log
        own += [z]
        return z * 0.5

    y = x[0]
    for k in range(N):
        y = note(y) + abs(W[k]) if y > x[1] else y + abs(W[k])
    return y * len(log)


def array_in_a_closure(x):
    u = np.zeros(2)

    def note(z):
        own = u
        own += 0.1
        return z * 0.5 + own[0]

    y = x[0]
    for k in range(N):
        y = note(y) if y > x[1] else y + abs(W[k])
    return y + np.sum(u)


def traced_array_in_a_closure(x):
    u = x * 1.0

    def note(z):
        own = u
        own += 0.1 * z
        return z * 0.5 + own[0]

    y = x[0]
    for k in range(N):
        y = note(0.1 * y) if y > x[1] else y + abs(W[k])
    return y + np.sum(u)


def stores_into_its_argument(x):
    def push(u, z):
        own = u
        own[0] = z
        return own[1]

    u, y = x * 1.0, x[0]
    for k in range(N):
        y = push(u, 0.5 * y) if y > x[1] else y + abs(W[k])
    return y + np.sum(u)


def view_made_inside(x):
    def ends(z):
        u = np.zeros(3)
        v = u[1:]
        v += z
        u[0] = v[0] * x[1]
        return np.sum(u)

    y = x[0]
    for k in range(N):
        y = 0.3 * ends(y) if y > x[1] else y + abs(W[k])
    return y


def recursive(x):
    def halved(z):
        return halved(0.5 * z) if z > x[1] else z

    y = x[0]
    for k in range(N):
        y = halved(y + abs(W[k]) * x[2])
    return y


def generator(x):
    def parts(z):
        yield z * 0.5
        yield z * x[1]

    y = x[0]
    for k in range(N):
        y = sum(parts(y)) + 0.1 if y > x[2] else y + abs(W[k])
    return y


def twice(f):
    return lambda z: f(f(z))


def decorated(x):
    @twice
    def step(z):
        return 0.9 * z + 0.01 * x[1]

    y = x[0]
    for k in range(N):
        y = step(y) if y > x[2] else y + abs(W[k])
    return y


def made_by_a_function(x):
    step, y = twice(lambda z: 0.9 * z + 0.01 * x[1]), x[0]
    for k in range(N):
        y = step(y) if y > x[2] else y + abs(W[k])
    return y


def raises_inside(x):
    def checked(z):
        if z > 50.0:
            raise ValueError("far")
        return z

    y = x[0]
    for k in range(N):
        y = 0.5 * checked(y) if y > x[2] else y + abs(W[k])
    return y


def defined_behind(x):
    y = x[0]
    for k in range(N):
        if y > 1e6:
            y = later(y)  # noqa: F821 - it is defined behind
        y = 0.5 * y if y > x[2] else y + abs(W[k])

    def later(z):
        return z

    return later(y)


def module_as_a_value(x):
    tools, store, y = np, np.put, x[0]
    u = np.zeros(3)
    for k in range(N):
        y = tools.sin(y) if y > x[2] else y + abs(W[k])
        if y > 0.5:
            store(u, 0, k)
    return y + u[0]


def zero_and_minus_zero(x):
    zero, minus = (lambda: 0.0), (lambda: -0.0)
    y = x[0]
    for k in range(N):
        y = np.copysign(y, minus()) if y > x[2] else abs(np.copysign(y, zero())) + abs(W[k])
    return y


class Scaled:
    def __init__(self, scale):
        self.scale, self.calls = scale, 0

    def step(self, z):
        self.calls += 1
        return self.scale * z


def method_with_effects(x):
    own, y = Scaled(0.9 * x[1]), x[0]
    for k in range(N):
        y = own.step(y) if y > x[2] else y + abs(W[k])
    return y * own.calls


def shadowed(x):
    def W(z):  # noqa: N802 - the name of the array
        return z * 0.5

    y = x[0]
    for k in range(N):
        y = W(y) if y > x[2] else y + 0.01 * k
    return y


ODD = [
    rebound_later, rebound_function, nonlocal_count, handed_count, default_array, default_list,
    default_of_each_trip, list_in_a_closure, array_in_a_closure, traced_array_in_a_closure,
    stores_into_its_argument, view_made_inside, recursive, generator, decorated, made_by_a_function,
    raises_inside, defined_behind, module_as_a_value, zero_and_minus_zero, method_with_effects,
    shadowed,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", ODD)
def test_what_has_effects_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    plain = [f(x.copy()) for x in POINTS]
    for x, expected in zip(POINTS, plain, strict=True):
        value, slope = both(x.copy())
        np.testing.assert_allclose(value, expected, **CLOSE)
        step = 1e-7 * np.eye(3)
        near = [(f(x + d) - f(x - d)) / 2e-7 for d in step]
        np.testing.assert_allclose(slope, near, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "functions")
    assert not random_choosing_loops.failure(text, seed)
