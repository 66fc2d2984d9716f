"""Functions that store into arguments, and arrays that are left behind, where loops branch."""

import itertools
import random
from types import SimpleNamespace

import numpy as np
import pytest
import random_choosing_loops
from exact_functions import exact_of_function
from test_choosing_loops import counted, exact, unrolled
from user_code import euler

import fdiff
from fdiff.dispatch.choosing import owned_arrays
from fdiff.trace.local_arrays import LocalArray

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
# No entries of one modulus, between which `max` and `abs` would have to choose.
POINTS = [np.array(p) for p in itertools.product((-0.9, 0.2, 1.3), (-0.8, 0.3), (0.4, -1.1))]
EDGE = np.array([0.5, 1.5])


def reflect(u):
    u[0] = u[1]
    u[-1] = -u[-2]


def fill(u, *, width=1):
    inner(u, width)
    u[-1] *= 0.5


def inner(v, n):
    v[:n] = 0.1 * v[n]


def reflected(u):
    reflect(u)
    return u


def renamed(u, v):
    u = v
    u[0] = 0.25
    return np.sum(u)


def kept(u):
    v = u
    v[0] = 0.5
    return v


def into_edge(u, edge=EDGE):
    u[0] = edge[0]


def flux(x, s):
    if s > 0.0:
        return x * 1.1
    if s < -0.5:
        return x - 0.1
    return np.sin(x)


def boundary(x):
    u = np.zeros(5)
    u[1:4] = x
    for _ in range(20):
        reflect(u)
        if u[2] > 0.4:
            u = u * 0.8
            u[1] = 0.3
        else:
            u = np.cos(u)
    return np.sum(u * u)


def boundary_in_place(x):
    u = np.zeros(5)
    u[1:4] = x
    for _ in range(20):
        fill(u, width=2)
        if u[2] > 0.4:
            u[1:] *= 0.8
        else:
            u[1:-1] = np.cos(u[1:-1])
    return np.sum(u * u)


def of_rows(x):
    a = np.zeros((2, 3)) + 0.1
    a[0] = x
    for k in range(20):
        reflect(a[1])
        reflect(u=a[0])
        if a[0, 1] > 0.3 + 0.01 * k:
            a[1] = a[0] * 0.5
        else:
            a[0] = np.sin(a[0] + 0.4)
    return np.sum(a * a)


def twice_the_same(x):
    u = x * 1.0
    for _ in range(20):
        u = np.sin(reflected(u) + 0.3)
        if u[0] > 0.4:
            reflect(u)
    return np.sum(u * x)


def of_lists(x):
    state = [x[0] * 1.0, x[1] * 1.0, x[2] * 1.0]
    for _ in range(20):
        reflect(state)
        if state[1] > 0.3:
            state[1] = state[1] * 0.7
        else:
            state[1] = np.cos(state[1])
    return state[0] * state[1] + state[2]


def inner_loops(x):
    u = np.zeros(6)
    u[1:4] = x
    t = 0.0
    while t < 1.0:
        reflect(u)
        dt = 0.2 / (1.0 + np.max(np.abs(u)))
        if t + dt > 1.0:
            dt = 1.0 - t
        v = np.zeros_like(u)
        for i in range(1, 5):
            v[i] = flux(u[i], u[i - 1] - u[i + 1]) - 0.3 * flux(u[i - 1], u[i])
        u = u + dt * v
        t += dt
    return np.sum(u * u)


def gas(x):
    place = (np.arange(6) + 0.5) / 6
    density = np.where(place < 0.5, 1.0, 0.125) * (1 + 0.1 * x[0] * np.sin(9 * place))
    pressure = np.where(place < 0.5, 1.0, 0.1) * (1 + 0.1 * x[2] * np.cos(5 * place))
    speed = 0.05 * np.sin(7 * place) + x[1]
    return np.sum(euler.advance(density, speed, pressure, 1 / 6, 0.08) ** 2)


def emptied(u, value):
    u.fill(value)


def forces(x):
    force, place, table = np.zeros(3), x * 0.5, np.zeros((2, 3))
    for k in range(14):
        force.fill(0.0)
        if place[0] > place[1]:
            force[0] -= 0.5 * (place[0] - place[1])
            table[k % 2].fill(place[2])
        else:
            emptied(table, 0.1 * place[1])
        place = np.cos(place) * 0.9 + force - 0.1 * table[1]
    return np.sum(place * x) + np.sum(table)


CHOOSE = [boundary, boundary_in_place, of_rows, twice_the_same, of_lists, inner_loops, gas, forces]


@pytest.mark.parametrize("f", CHOOSE)
def test_loops_that_call_them_choose(f, monkeypatch):
    traces, drivers = counted(monkeypatch)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert len(traces) <= 3, [d.refusals for d in drivers]
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-11)
        np.testing.assert_allclose(slope, exact(fdiff.grad, f, x, monkeypatch), **CLOSE)


# -------------------------------------------------------------------- arrays that others hold, too


def named_before(x):
    u = np.zeros(5)
    u[1:4] = x
    first = u
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[2] > 0.4 else np.cos(u)
    return np.sum(u * u) + np.sum(first * np.arange(5.0))


def viewed_before(x):
    u = np.zeros(5)
    tail = u[3:]
    u[1:4] = x
    head = u[:2]
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[2] > 0.4 else np.cos(u)
    return np.sum(u * u) + np.sum(head) + 2.0 * np.sum(tail)


def transposed_before(x):
    u = x * 1.0
    turned = u.reshape(1, 3).T
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
    return np.sum(u * u) + np.sum(turned)


def held_by_a_list(x):
    u = x * 1.0
    held = [u]
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
    return np.sum(u * u) + np.sum(held[0])


def held_by_a_closure(x):
    u = x * 1.0
    first = lambda v=u: np.sum(v)  # the default is tested
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
    return np.sum(u * u) + first()


def advanced(u):
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
    return np.sum(u * u)


def held_by_the_caller(x):
    u = x * 1.0
    total = advanced(u)
    return total + np.sum(u * np.arange(3.0))


def an_argument(x):
    u = x * 1.0
    return advanced(u) + advanced(x[::-1] * 1.0)


def held_in_the_loop(x):
    u = x * 1.0
    old = u * 0.5
    for _ in range(20):
        reflect(u)
        old = u
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
    old[1] += 1.0
    return np.sum(u * u) + np.sum(old)


def held_and_changed(x):
    u = x * 1.0
    old = u * 0.5
    for _ in range(20):
        old = u
        reflect(u)
        if old[0] > 0.4:
            u = u * 0.8
        reflect(u)
    return np.sum(u * u) + np.sum(old)


def stored_after_lists_hold_it(x):
    u = x * 1.0
    rows = []
    for _ in range(20):
        reflect(u)
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
        rows.append(u)
    return np.sum(u) + np.sum(np.array(rows))


def stored_after_tuples_hold_it(x):
    u = x * 1.0
    rows = []
    for k in range(20):
        if u[1] > 0.4:
            u[0] = u[1] * 0.5
        u = np.sin(u) + 0.01 * k
        rows.append((k, u))
    return sum(k * np.sum(row) for k, row in rows)


def stored_in_an_inner_loop_after_lists_hold_it(x):
    u = x * 1.0
    rows = []
    for _ in range(6):
        for j in range(2):
            u[j] = 0.9 * u[j + 1]
        u = u * 0.8 if u[1] > 0.2 else np.cos(u)
        rows.append({"u": u})
    return sum(np.sum(row["u"]) for row in rows)


def rows_kept(x):
    u = x * 1.0
    rows = []
    for _ in range(20):
        reflect(u)
        rows.append(u)
        u = u * 0.8 + 0.01 if u[1] > 0.4 else np.cos(u)
    return np.sum(np.array(rows))


def on_some_paths(x):
    u = x * 1.0
    v = u
    for _ in range(20):
        reflect(u)
        if u[1] > 0.4:
            u = u * 0.8 + 0.01
    v[0] += 1.0
    return np.sum(u * u) + np.sum(v)


def no_trips(x):
    u = x * 1.0
    while np.sum(u * u) > 0.9:
        reflect(u)
        u = u * 0.8
        if u[0] > 0.3:
            u[0] = 0.2
    return np.sum(u * np.arange(3.0))


def two_arguments(x):
    u, total = x * 1.0, 0.0
    v = u * 2.0
    for _ in range(20):
        total = total + renamed(u, v)
        if v[1] > 0.4:
            v = v * 0.8
        u = np.sin(u + v)
    return total + np.sum(u)


def other_names(x):
    u = x * 1.0
    for _ in range(20):
        v = kept(u)
        u = np.sin(v + u) if v[1] > 0.4 else np.cos(u)
    return np.sum(u)


def defaults(x):
    u = x * 1.0
    for _ in range(20):
        into_edge(u)
        u = np.sin(u) if u[1] > 0.4 else np.cos(u)
    return np.sum(u)


def of_a_list_of_arrays(x):
    each = [x * 1.0, x * 2.0]
    for _ in range(14):
        [reflect(u) for u in each]
        each = [np.sin(u) if u[1] > 0.4 else np.cos(u) for u in each]
    return np.sum(each[0] * each[1])


def by_another_name(x):
    u, call = x * 1.0, reflect
    for _ in range(20):
        call(u)
        u = np.sin(u) if u[1] > 0.4 else np.cos(u)
    return np.sum(u)


def of_sums(x):
    u = x * 1.0
    for _ in range(20):
        reflect(u + 0.0)
        u = np.sin(u) if u[1] > 0.4 else np.cos(u)
    return np.sum(u)


def part_of_another(x):
    whole = np.arange(5.0)
    u = whole[:3]
    for k in range(20):
        reflect(u)
        u = u * 0.8 + x[1] if x[0] > 0.05 * k else np.cos(u) + x[2]
    return np.sum(u) + np.sum(whole)


def another_shape(x):
    whole = np.zeros((2, 2)) + 0.1
    u = whole.reshape(4)
    for k in range(20):
        reflect(u)
        u = u * 0.8 + x[1] if x[0] > 0.05 * k else np.cos(u) + x[2]
    return np.sum(u) + np.sum(whole)


def row_of_a_table(x):
    table = np.zeros((3, 4)) + 0.1
    rows = [row for row in table]  # noqa: C416 - as users write it
    u = rows.pop()
    for k in range(20):
        reflect(u)
        u = u * 0.8 + x[1] if x[0] > 0.05 * k else np.cos(u) + x[2]
    return np.sum(u) + np.sum(table)


RIGHT = [
    stored_after_lists_hold_it, stored_after_tuples_hold_it,
    stored_in_an_inner_loop_after_lists_hold_it,
    part_of_another, another_shape, row_of_a_table,
    named_before, viewed_before, transposed_before, held_by_a_list, held_by_a_closure,
    held_by_the_caller, an_argument, held_in_the_loop, held_and_changed, rows_kept, on_some_paths,
    no_trips, two_arguments, other_names, defaults, of_a_list_of_arrays, by_another_name, of_sums,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("f", RIGHT)
def test_what_others_hold_is_changed_as_in_plain_code(f, monkeypatch):
    counted(monkeypatch)
    points = POINTS * 2
    random.Random(0).shuffle(points)
    for operator in (fdiff.value_and_grad, fdiff.hessian):
        call = operator(f)
        results = [call(x) for x in points[: 24 if operator is fdiff.value_and_grad else 6]]
        for x, result in zip(points, results, strict=False):
            expected = unrolled(operator, f, x, monkeypatch)
            np.testing.assert_allclose(np.hstack(result), np.hstack(expected), **CLOSE)
            if isinstance(result, tuple):
                np.testing.assert_allclose(result[0], f(x), rtol=1e-11)


def test_an_array_of_the_users_is_changed_as_in_plain_code(monkeypatch):
    counted(monkeypatch)
    workspace = np.zeros(3)

    def f(x):
        for k in range(20):
            reflect(workspace)
            workspace[1] = 0.1 * k
            x = x * 0.9 + workspace if x[0] > 0.3 else np.cos(x)
        return np.sum(x)

    call = fdiff.value_and_grad(f)
    for x in POINTS:
        workspace[:] = 0.0
        expected = f(x)
        state = workspace.copy()
        workspace[:] = 0.0
        value, slope = call(x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_array_equal(workspace, state)
        workspace[:] = 0.0
        np.testing.assert_allclose(slope, exact(fdiff.grad, f, x, monkeypatch), **CLOSE)


# ---------------------------------------------------------------------------------- other operators


def shift(u):
    u += 0.1


def damp(u, factor):
    u[1:] *= factor


def sums_in_place(x):
    u = x * 1.0
    for _ in range(20):
        shift(u)
        u = np.sin(u) if u[1] > 0.4 else np.cos(u)
    return np.sum(u * x)


def sums_of_rows(x):
    a = np.zeros((2, 3)) + x
    for _ in range(20):
        shift(a[0])
        if a[0, 1] > 0.4:
            a[1] = np.sin(a[0])
        a[0] = np.cos(a[1])
    return np.sum(a * a)


def sums_that_stay(x):
    u = x * 1.0
    v = u
    for _ in range(20):
        shift(u)
        if u[1] > 0.4:
            damp(u, 0.5 * x[0])
    return np.sum(u * v)


@pytest.mark.parametrize("f", [sums_in_place, sums_of_rows, sums_that_stay])
def test_parameters_that_are_added_to_in_place(f, monkeypatch):
    test_what_others_hold_is_changed_as_in_plain_code(f, monkeypatch)


@pytest.mark.parametrize(
    "f", [boundary, pytest.param(inner_loops, marks=pytest.mark.slow), sums_that_stay]
)
def test_operators_are_exact(f, monkeypatch):
    counted(monkeypatch)
    v = np.array([0.3, -0.2, 0.5])
    operators = {
        "forward": (fdiff.jacfwd, lambda y, g, h: g),
        "jvp": (lambda f: lambda x: fdiff.jvp(f, x, v)[1], lambda y, g, h: g @ v),
        "hvp": (lambda f: lambda x: fdiff.hvp(f, x, v)[1], lambda y, g, h: h @ v),
        "jit": (fdiff.jit, lambda y, g, h: y),
        "grad of jit": (lambda f: fdiff.grad(fdiff.jit(f)), lambda y, g, h: g),
    }
    points = POINTS[:8]
    results = [exact_of_function(f, x) for x in points]
    for name, (operator, expected) in operators.items():
        call = operator(f)
        for x, result in zip(points, results, strict=True):
            np.testing.assert_allclose(call(x), expected(*result), **CLOSE, err_msg=name)
    batch = fdiff.vmap(fdiff.grad(f))
    slopes = np.stack([slope for _, slope, _ in results])
    for _ in range(3):
        np.testing.assert_allclose(batch(np.stack(points)), slopes, **CLOSE)


class Holder:
    """A variable of a function, as `owned` is called for it."""

    def __init__(self, array):
        self.array = array

    def owned(self):
        return owned_arrays.owned({"u": self.array}, frozenset("u"))


@pytest.mark.parametrize("count", [None, lambda _: 1], ids=["not counted", "always 1"])
def test_no_array_is_alone_where_references_are_not_counted(count, monkeypatch):
    holder = Holder(np.zeros(3).view(LocalArray))
    assert holder.owned() == {"u"}
    view = holder.array[1:]
    assert holder.owned() == frozenset()
    del view
    assert holder.owned() == {"u"}
    space = SimpleNamespace() if count is None else SimpleNamespace(getrefcount=count)
    monkeypatch.setattr(owned_arrays, "sys", space)
    assert holder.owned() == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "arguments")
    assert not random_choosing_loops.failure(text, seed)
