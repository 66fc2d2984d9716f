"""Plain loops whose code asks for values: the answers choose what becomes of each trip."""

import numpy as np
import pytest

import fdiff
from fdiff.trace import looping

POINT = np.array([0.7, 0.3, 0.2])
TRIPS = 60


def raises_where_it_diverges(x):
    s = x[0]
    for _ in range(TRIPS):
        s = np.sin(s) * 0.9 + x[1]
        if abs(s) > 1.7:
            raise ValueError("it diverges")
    return s


def gaps_in_the_data(x):
    y = np.where(np.arange(TRIPS) == 31, np.nan, np.arange(TRIPS) * 0.1 * x[2])
    s = x[0]
    for k in range(TRIPS):
        if np.isnan(y[k]):
            continue
        s = np.sin(s) * 0.9 + x[1] * y[k]
    return s


def newton(x):
    s = error = 1.0
    while abs(error) > 1e-10:
        error = 0.3 * (s * s - x[0])
        s = s - error
    return s


def wraps_around(x):
    s, count = x[0], 0
    for _ in range(TRIPS):
        s = s * 1.01 + x[1] * 0.1
        if s > 1.5:
            s = s - 1.0
            count += 1
    return s * count


def differs_in_the_first_trip(x):
    s = x[0]
    for k in range(TRIPS):
        s = s * 0.9 + x[1] if s < 1.5 * x[0] / (k + 1) else s * 0.8 + x[2]
    return s


def differs_in_the_last_trip(x):
    s, t = x[0] * 0.0, 0.0
    for _ in range(TRIPS):
        s, t = s + x[1], t + x[1] * x[2]
        if s > (TRIPS - 0.5) * 0.3:
            t = t * 2.0
    return t


def nan_in_a_guard(x):
    s, bad = x, x[0] * np.nan
    for k in range(TRIPS):
        s = np.sin(s) + (bad if k == 40 else x[1]) * 0.1
        if not np.all(np.isfinite(s)) or s[0] > 50.0:
            s = x * x
    return np.sum(s)


def reads_what_is_stored(x):
    u = np.zeros(TRIPS + 1)
    u[0] = x[0]
    for k in range(TRIPS):
        u[k + 1] = 0.9 * u[k] + x[1]
        if u[k + 1] > 2.0 and u[k] < 2.0:
            u[k + 1] -= x[2]
    return np.sum(u * u)


def limits_entries_in_place(x):
    u = np.zeros(TRIPS)
    u[:] = x[0]
    for k in range(1, TRIPS):
        u[k] = 1.1 * u[k - 1] + x[1] * 0.01
        if u[k] > 1.0:
            u[k] = 1.0 - x[2] * u[k]
    return np.sum(u)


def looks_at_a_row_that_is_a_view(x):
    u = np.zeros((TRIPS, 3))
    u[0] = x
    for k in range(1, TRIPS):
        row = u[k]
        row[:] = np.cos(u[k - 1]) * x[0]
        if row[1] < 0.0:
            raise ValueError("negative")
        row *= 0.5 + x[1]
    return np.sum(u)


def whole_numbers(x):
    s, total = x[0], 0.0
    for _ in range(TRIPS):
        s = np.sin(2.0 * s) * 0.9 + x[1]
        total = total + int(np.floor(s)) * x[2] * s
    return total


def numbers_without_derivative(x):
    s = x[0]
    for _ in range(TRIPS):
        s = np.sin(s) + float(np.floor(4.0 * s)) * 0.1 * x[1]
    return s


def largest_so_far(x):
    s, best = x[0], x[1]
    for k in range(TRIPS):
        s = np.sin(s + x[2] * k)
        best = max(best, s)
    return best * s


def both_arms_store(x):
    u = np.zeros(3)
    u[:] = x
    for k in range(TRIPS):
        i = k % 3
        if u[i] > 0.5:
            u[i] = u[i] * 0.5
        else:
            u[i - 1] = u[i] + x[1] * u[i - 1]
    return np.sum(u * u)


def system_that_must_be_regular(x):
    a, s = np.outer(x, x) + np.eye(3), x * np.array([1.0, 0.4, 2.0])  # x alone: noise would grow
    for _ in range(TRIPS):
        if abs(np.linalg.det(a)) < 1e-3:
            break
        s = np.linalg.solve(a, s + x)
        a = a * 0.95
    return np.sum(s)


def leaves_by_an_exception(x):
    s, count, table = x[0], 0, {False: 1.05}
    try:
        while count < TRIPS:
            s = s * table[bool(s > 4.0)] + x[1] * 0.01
            count += 1
    except KeyError:
        s = s * x[2]
    return s + count


def step(state, x):
    if state["s"] > 1.0:
        state["count"] += 1
    state["s"] = np.sin(state["s"]) + x[1]


def counts_in_a_dict(x):
    state = {"s": x[0], "count": 0}
    for _ in range(TRIPS):
        step(state, x)
    return state["s"] * (1 + state["count"])


def numbers_that_follow_the_branch(x):
    s, h = x[0], 0.1
    for _ in range(TRIPS):
        new = s + h * np.cos(s) * x[1]
        if abs(new - s) > 0.02:
            h = h * 0.7
        s = new
    return s * h


def equal_to_what_is_kept(x):
    last, kept, s = 0.65, 0.123, x[0]
    for k in range(TRIPS):
        y = x[1] + 0.01 * k
        kept = kept if y == last else np.sin(y)
        s = s * 0.9 + kept * x[2]
    return s


def two_sweeps(u, v):
    s = 0.0
    for k in range(30):
        u[k % 3] = np.sin(u[(k + 1) % 3]) + 0.1
        s = s + np.sum(v[1] * v[2])
        if s > 1e3 or np.max(v) > 50.0:
            s = s * 0.5
    return s


def a_view_of_itself_the_second_time(x):
    u, v, w = np.zeros((3, 3)), np.outer(x, x), np.zeros((3, 3))
    u[:] = x
    s = two_sweeps(u, v)
    w[:] = x + s
    return s + two_sweeps(w, w.T) + two_sweeps(w, v)


def a_condition_from_before(x):
    s, above = x[0], x[0] > x[1]
    for _ in range(TRIPS):
        s = np.sin(s) + (x[1] if above else x[2])
        above = s > 1.0
    return s


def keeps_a_handle(x):
    s, kept = x, []
    for k in range(TRIPS):
        s = np.sin(s) + 0.1 * x
        if s[0] > 0.5 and k % 20 == 7:
            kept.append(s)
    return np.sum(s) + sum(np.sum(t * t) for t in kept)


PROGRAMS = [
    raises_where_it_diverges, gaps_in_the_data, newton, wraps_around, differs_in_the_first_trip,
    differs_in_the_last_trip, nan_in_a_guard, reads_what_is_stored, limits_entries_in_place,
    looks_at_a_row_that_is_a_view, whole_numbers, numbers_without_derivative, largest_so_far,
    both_arms_store, system_that_must_be_regular, leaves_by_an_exception, counts_in_a_dict,
    numbers_that_follow_the_branch, equal_to_what_is_kept, a_view_of_itself_the_second_time,
    a_condition_from_before, keeps_a_handle,
]  # fmt: skip
OTHERS = [POINT * 1.1 + 0.01, POINT * 0.6, np.array([0.9, 0.1, 0.4]), POINT]


def no_trip_counts(x):
    total = 0.0
    for s in (x[0] + 0.01 * k * x[1] for k in range(500)):
        if s > x[2]:
            total = total + s
    return total


def traced(f, way, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", way)
    monkeypatch.setattr(looping, "SLEEP", 0)
    fdiff.cache_clear()


def everything(f, way, monkeypatch):
    """Values and derivatives of `f` at several points, one after the other."""
    traced(f, way, monkeypatch)
    both, second = fdiff.value_and_grad(f), fdiff.hessian(f)
    results = []
    for x in (POINT, *OTHERS):
        value, slope = both(x.copy())
        np.testing.assert_allclose(value, f(x.copy()), rtol=1e-12, atol=1e-13)
        results += [value, slope]
    return [*results, second(POINT), fdiff.jacfwd(f)(OTHERS[0])]


@pytest.mark.parametrize("f", PROGRAMS)
def test_loops_with_branches_compute_what_unrolled_ones_do(f, monkeypatch):
    checked, unrolled = (everything(f, way, monkeypatch) for way in ("check", "unroll"))
    for a, b in zip(checked, unrolled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(
    "f", [raises_where_it_diverges, newton, numbers_without_derivative, whole_numbers,
          looks_at_a_row_that_is_a_view]
)  # fmt: skip
def test_loops_whose_trips_answer_alike_are_few_nodes(f, monkeypatch):
    traced(f, "check", monkeypatch)
    tape = fdiff.make_tape(f, POINT)
    assert [*tape.bodies()]
    assert len(tape.nodes) < 60


def test_a_guard_that_fails_later_raises_what_plain_code_does(monkeypatch):
    traced(raises_where_it_diverges, "check", monkeypatch)
    slope = fdiff.grad(raises_where_it_diverges)
    slope(POINT)
    for _ in range(3):
        with pytest.raises(ValueError, match="it diverges"):
            slope(POINT + 1.0)
    np.testing.assert_array_equal(slope(POINT), slope(POINT))


def test_a_loop_without_a_result_has_guards(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "")
    fdiff.cache_clear()
    both = fdiff.value_and_grad(no_trip_counts)
    for x in np.array([[0.1, 0.2, 5.0], [0.2, 0.1, 4.0], [0.2, 0.1, 0.3]]):
        assert both(x)[0] == pytest.approx(no_trip_counts(x), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("f", [wraps_around, newton, nan_in_a_guard])
def test_elements_of_a_batch_branch_for_themselves(f, monkeypatch):
    points = np.stack([POINT, OTHERS[0], OTHERS[1], POINT])
    results = {}
    for way in ("unroll", "check"):
        traced(f, way, monkeypatch)
        slopes = fdiff.vmap(fdiff.grad(f))(points)
        results[way] = [slopes, fdiff.jit(fdiff.grad(f))(POINT), fdiff.vmap(f)(points)]
    for a, b in zip(*results.values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(results["check"][2], [f(x) for x in points], rtol=1e-12)
