"""Loops that choose their branches, and append tuples, lists and dicts to lists."""

import numpy as np
import pytest
from test_choosing_containers import assert_same, summed
from test_choosing_loops import POINTS, N, W, counted, exact

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def trajectory_of_pairs(x):
    s, t, dt, path = x[0], 0.0, 0.01, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        t = t + dt
        path.append((t, s))
    return sum([y * t for t, y in path]) + path[-1][1] * path[3][0] + 0.1 * len(path)


def steps_with_numbers(x):
    s, path = x[0], []
    for k in range(N):
        y = s * 0.5 if s > x[1] else s * 0.9 + x[2]
        s = np.sin(y + W[k])
        path.append((k, 2 * k + 1, y, s))
    return sum([s * i - y * j for i, j, y, s in path])


def pairs_of_arrays(x):
    u, v, path = x * 1.0, 0.5 * x, []
    for k in range(N):
        if u[0] > x[1]:
            u = u * 0.5
        u, v = np.sin(u + W[k]), np.cos(v) * u
        path.append((u, v))
    us, vs = np.array([u for u, _ in path]), np.stack([v for _, v in path])
    return np.sum(us * vs) + path[-1][0][1] * path[2][1][0]


def nested_pairs(x):
    s, u, path = x[0], x * 1.0, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s, u = np.sin(s + W[k]), np.cos(u) * 0.9
        path.append((k, (s, (u[0], s * s)), u))
    return sum([a * k + b * c + np.sum(u) for k, (a, (b, c)), u in path])


def small_lists(x):
    s, path = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append([s, s * W[k], x[2]])
    path[2][1] = path[1][0]
    return np.sum(np.array(path[3:]) ** 2) + path[2][1] * path[-1][0]


def records(x):
    s, u, path = x[0], x * 1.0, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s, u = np.sin(s + W[k]), np.sin(u)
        path.append({"k": k, "s": s, "u": u})
    return sum([r["s"] * r["k"] + np.sum(r["u"]) for r in path])


def reads_the_last_pair(x):
    path = [(x[0], x[1])]
    for k in range(N):
        p, q = path[-1]
        if p > q:
            p = p * 0.5
        path.append((np.sin(p + W[k]), q * 0.9 + 0.1 * path[-1][0]))
    return sum([p * q for p, q in path])


def reads_two_lists_back(x):
    path = [[x[0], x[1]], [x[1], x[2]]]
    for k in range(N):
        a = path[-1][0] if path[-2][1] > path[-1][0] else path[-2][0] * 0.5
        path.append([np.sin(a + W[k]), 0.5 * path[-1][1] + 0.1 * a])
    return sum([p * q for p, q in path])


def grows_an_argument(x):
    return filled(x, [(0.0, x[2])])


def filled(x, path):
    s = x[0]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append((0.5 * k, s))
    return sum([t * y for t, y in path])


PROGRAMS = (
    trajectory_of_pairs, steps_with_numbers, pairs_of_arrays, nested_pairs, small_lists, records,
    reads_the_last_pair, reads_two_lists_back, grows_an_argument,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_calls_on_other_branches_are_not_traced_again(f, monkeypatch):
    traces, drivers = counted(monkeypatch)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert traces[:2] == [False, True]
    assert len(traces) <= 2, [own.refusals for own in drivers]
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-13)
        steps = 1e-6 * np.eye(x.size)
        central = [(f(x + h) - f(x - h)) / 2e-6 for h in steps]
        np.testing.assert_allclose(slope, central, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("f", [trajectory_of_pairs, pairs_of_arrays, small_lists])
@pytest.mark.parametrize("operator", [fdiff.hessian, fdiff.jacfwd])
def test_other_operators(f, operator, monkeypatch):
    counted(monkeypatch, choosing=True)
    run = operator(f)
    for x in POINTS:
        expected = exact(operator, f, x, monkeypatch)
        np.testing.assert_allclose(run(x), expected, rtol=1e-8, atol=1e-10)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [steps_with_numbers, pairs_of_arrays, small_lists])
def test_batches(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    points = np.array(POINTS)
    for _ in range(2):
        np.testing.assert_allclose(fdiff.vmap(f)(points), [f(x) for x in points], **CLOSE)


def gives_pairs(x):
    s, u, t, path = x[0], x * 1.0, 0.0, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s, u = np.sin(s + W[k]), np.sin(u)
        t += 0.25
        path.append((k, t, 0.5 * k, s, u, (s * 2,)))
    return path


def gives_lists(x):
    s, path = x[0], [[0.5, x[1]]]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append([float(k), s])
        path.append([s * 2, 1.5])
    path[1][0] = 3.0
    return path


def gives_empty_tuples(x):
    s, path = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append(())
    return s, path


def constants_in_pairs(x):
    s, path = x[0], []
    for k in range(N):
        low = s > x[1]
        if low:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append(("step", None, s))
    return [s for _, _, s in path]


def flags_in_pairs(x):
    s, path = x[0], []
    for k in range(N):
        low = s > x[1]
        if low:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append((s, s > x[2], 1.0 if low else 2.0))
    return [y for y, low, w in path if low and w > 1.5]


def kinds_by_branch(x):
    s, path = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        path.append((1.0, s) if s > x[1] else (s, 0.5))
    return path


def longer_on_one_path(x):
    s, path = x[0], []
    for k in range(N):
        s = np.sin(s + W[k])
        path.append((s, s) if s > x[1] else (s, s, s))
    return path


def array_changed_behind(x):
    s, u, path = x[0], x * 1.0, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s, u = np.sin(s + W[k]), np.sin(u)
        path.append((s, u))
    u += 1.0
    return path


def array_changed_in_place(x):
    s, u, path = x[0], x * 1.0, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        u += s
        path.append((s, u))
    return path


def array_in_two_entries(x):
    s, u, path = x[0], x * 1.0, []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s, u = np.sin(s + W[k]), np.cos(u)
        path.append((u, u))
    path[2][0][1] = 3.0
    return path


def array_of_another_variable(x):
    s, u, path = x[0], x * 1.0, []
    for k in range(N):
        old = u
        if s > x[1]:
            u = u * 0.5
        s, u = np.sin(s + W[k]), np.cos(u)
        path.append((s, old))
    path[3][1][0] += 1.0
    return path, u


def list_with_another_name(x):
    s, row, path = x[0], [x[1], x[2]], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        row[0] = s
        path.append(row)
    return path


def list_of_the_trip(x):
    s, path = x[0], []
    for k in range(N):
        row = [s, 0.5]
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append((row, s))
        row[1] = s
    row[0] = x[2]
    return path


TABLE = [0.5, 0.25]


def list_from_outside(x):
    s, path = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append((s, TABLE))
    return s * len({*map(id, [t for _, t in path])})


def last_list_changed(x):
    s, path = x[0], [[x[1], x[2]]]
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path[-1][0] = s
        path.append([s, 0.5 * s])
    return path


def last_list_kept(x):
    s, path, row = x[0], [[x[1], x[2]]], [0.0, x[0]]
    for k in range(N):
        if s > x[1]:
            row = path[-1]
        s = np.sin(s + W[k]) + 0.1 * row[0]
        path.append([s, 0.5 * s])
    row[0] = 2.0
    return path, row


def lists_in_lists(x):
    s, path = x[0], []
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + W[k])
        path.append([[s, 0.5], s])
    return path


def no_trips(x):
    s, path = x[0], [(0.0, x[1])]
    for k in range(0):
        if s > x[1]:
            s = s * 0.5
        path.append((k, s))
    return path, s


def in_a_loop(x):
    s, path = x[0], []
    for k in range(14):
        for i in range(14):
            if s > x[1]:
                s = s * 0.5
            s = np.sin(s + W[i])
        path.append((k, s))
    return path


def in_an_inner_loop(x):
    s, path = x[0], []
    for _ in range(14):
        inner = []
        for i in range(14):
            if s > x[1]:
                s = s * 0.5
            s = np.sin(s + W[i])
            inner.append((s, s * W[i]))
        path.append((inner[-1][0], s * 0.5))
    return path


OTHERS = (
    gives_pairs, gives_lists, gives_empty_tuples, constants_in_pairs, flags_in_pairs,
    kinds_by_branch, longer_on_one_path, array_changed_behind, array_changed_in_place,
    array_in_two_entries, array_of_another_variable, list_with_another_name, list_of_the_trip,
    list_from_outside, last_list_changed, last_list_kept, lists_in_lists, no_trips, in_a_loop,
    in_an_inner_loop,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", OTHERS)
def test_what_python_may_tell_apart_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    call, slope = fdiff.jit(f), fdiff.grad(lambda x: summed(f(x)))
    for x in POINTS:
        assert_same(call(x.copy()), f(x.copy()))
        expected = exact(fdiff.grad, lambda x: summed(f(x)), x, monkeypatch)
        np.testing.assert_allclose(slope(x), expected, rtol=1e-9, atol=1e-11)


def test_a_list_that_has_another_name_is_seen_by_it(monkeypatch):
    counted(monkeypatch, choosing=True)
    run = fdiff.jit(list_of_the_trip)
    for x in POINTS:
        path = run(x)
        assert len({id(row) for row, _ in path}) == N
        assert path[-1][0][0] == x[2]


def test_an_error_half_way_leaves_a_list_as_plain_code_does(monkeypatch):
    counted(monkeypatch, choosing=True)

    def f(x, path):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
            s = np.sin(s + W[k])
            path.append((k, s))
        raise ValueError("behind the loop")

    def g(x):
        path = []
        try:
            f(x, path)
        except ValueError:
            return sum([k * s for k, s in path])

    run = fdiff.jit(g)
    for x in POINTS:
        np.testing.assert_allclose(run(x), g(x), **CLOSE)
