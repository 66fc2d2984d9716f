"""Plain Python loops that are traced once, with ``FDIFF_LOOPS=check``, beside unrolled ones."""

import threading

import numpy as np
import pytest
from loop_traps import row_copied_in_its_array

import fdiff
from fdiff.arraytype import ArrayType
from fdiff.errors import LeakError, TraceError
from fdiff.trace import looping
from fdiff.trace.looping import call_log, log_beginning, logged_calls
from fdiff.trace.looping.call_gates import gated_method
from fdiff.trace.looping.checked_trips import Frame
from fdiff.trace.ordinary_trace import Trace

POINT = np.array([0.7, 0.3, 0.2])


def in_place(x):
    u = np.zeros(60)
    u[:] = 1.0
    u[0] = x[0]
    for k in range(1, 59):
        u[k] = 0.5 * u[k - 1] + x[1] * u[k + 1] * np.sin(0.1 * k)
    return np.sum(u * u)


def a_row_in_place(x):
    u = np.zeros((60, 3))
    u[:] = x
    for k in range(60):
        row = u[k]
        row *= k + 1.0
    return np.sum(u**2)


def a_view_kept(x):
    u, kept = np.zeros((60, 3)), None
    u[:] = x
    for k in range(60):
        u[k] = np.sin(x) * u[k - 1]
        row = u[k]
        if k == 40:
            kept = row
    u[40] = 2.0 * x
    return np.sum(kept * x)


def a_view_of_the_trip_before(x):
    u = np.zeros((60, 3))
    u[:] = x
    row = u[0]
    for k in range(1, 60):
        u[:] = u * 0.9 + x
        u[k] = row * 0.5
        row = u[k]
    return np.sum(u)


def work_array_changed_outside_of_the_trace(x):
    w, s = np.zeros(3), x
    for k in range(60):
        w[k % 3] += 0.1
        s = s * 0.9 + w * x
    return np.sum(s)


def out_of_range_is_caught(x):
    u, s = np.zeros(30), x[0]
    u[:] = x[1]
    for k in range(200):
        try:
            s = s * 0.9 + u[k]
        except IndexError:
            break
    return s


def several_results(x):
    a, b = x, 2.0 * x
    for _ in range(60):
        parts = np.split(np.concatenate([np.sin(a), b]), 2)
        a, b = parts[1] * 0.5, parts[0]
    return np.sum(a * b)


def orders_in_memory(x):
    a = np.outer(x, x)
    for _ in range(60):
        a = 0.5 * (a.T.copy(order="K") + np.ravel(a, order="K").reshape(3, 3))
    return np.sum(np.ravel(a, order="K") * np.arange(9))


def a_list_of_all(x):
    states = [x]
    for _ in range(60):
        states.append(np.sin(states[-1]) + 0.1 * x)
    return np.sum(np.stack(states) ** 2) + states[7][0] + states[-1][1]


# ------------------------------------------------------- what is read when the loop has ended


def tables_in_another_order(x):
    tables, s = [np.asfortranarray(np.arange(9.0).reshape(3, 3) + k) for k in range(60)], 0.0
    for a in tables:
        y = a * x[0]
        s = s + np.sum(np.ravel(y, order="K") * np.arange(9)) * x[1]
    return s


def traced_tables_in_another_order(x):
    tables, s = [np.outer(x, x + k).T for k in range(60)], 0.0
    for a in tables:
        s = s + np.sum(np.ravel(a * 2.0, order="K") * np.arange(9)) * x[1]
    return s


def a_constant_whose_order_changes(x):
    a, s = np.arange(9.0).reshape(3, 3), 0.0
    turned = np.asfortranarray(a)
    for k in range(60):
        y = (a if k < 40 else turned) * x[0]
        s = s + np.sum(np.ravel(y, order="K") * np.arange(9)) * x[1]
    return s


def stored_in_another_order(x):
    u = np.outer(x, x * x).T.copy(order="K")
    for k in range(60):
        u[k % 3] = np.sin(u[(k + 1) % 3]) + 0.01 * k
    return np.sum(np.ravel(u * 2.0, order="K") * np.arange(9))


def sweep(u, v):
    s = 0.0
    for k in range(30):
        u[k % 3] = np.sin(u[(k + 1) % 3]) + 0.1
        s = s + np.sum(v[1] * v[2])
    return s


def a_view_of_itself_the_second_time(x):
    u, v, w = np.zeros((3, 3)), np.outer(x, x), np.zeros((3, 3))
    u[:] = x
    s = sweep(u, v)
    w[:] = x + s
    return s + sweep(w, w.T) + sweep(w, v)


def signs_of_nan(x):
    s = x[0]
    for k in range(60):
        s = s * 0.9 + np.copysign(x[1], np.nan if k < 30 else -np.nan)
    return s


def another_byte_order(x):
    s = x
    for row in np.arange(180.0).reshape(60, 3).astype(">f8"):
        s = s * 0.9 + row * x
    return np.sum(s)


def positions_out_of_range_are_caught(x):
    u, s = np.sin(x[0] * np.arange(30.0)), x[0]
    for k in range(200):
        try:
            s = s * 0.9 + np.take(u, k) + u.take(k) + u.item(k)
        except IndexError:
            break
    return s


def positions_out_of_range_are_caught_at_once(x):
    u, s = np.sin(x[0] * np.arange(30.0)), x[0]
    for k in range(60):
        try:
            v = np.take(u, k)
        except IndexError:
            v = x[1]
        s = np.sin(s) * 0.9 + v
    return s


def added_out_of_range(x):
    u, s = np.sin(x[0] * np.arange(30.0)), x[0]
    for k in range(60):
        try:
            np.add.at(u, k, x[2] * s)
            np.multiply.at(u, [k, k - 1], x[1])
        except IndexError:
            s = s + x[1]
        s = np.sin(s) * 0.9 + u[k % 30]
    return s


def gradients_off_in_one_trip(x):
    s, c = x, x
    for k in range(60):
        s = np.sin(s) * 0.9 + x
        if k == 40:
            with fdiff.autograd.no_grad():
                c = np.sin(s)
    return np.sum(s * c)


def rows_viewed_before_the_stores(x):
    u = np.zeros((60, 3))
    u[:] = x
    rows, s = [u[k] for k in range(60)], x
    for k in range(59):
        u[k + 1] = np.sin(u[k]) + 0.1
        s = s + rows[k + 1] * u[k]
    return np.sum(s * u[7])


def stores_in_rows_and_columns(x):
    u = np.zeros((6, 5))
    for k in range(40):
        u[k % 6] = x[k % 3]
        u[:, k % 5] = x[0] * k
        u[k % 6, :3] += x
    return np.sum(u * u)


def a_queue_beside_rows_by_remainders(x):
    """Places that are a table in one trip of an inner loop and a counter in the next."""
    table, queue = np.zeros((4, 3)), [x[0] * x[1], x[2], 0.25]
    table[:] = 0.2 * x
    for k in range(22):
        queue.append(queue.pop(0) * 0.9 + 0.1 * np.tanh(x[2] + table[k % 4, k % 3]))
    return np.sum(queue[0] * queue[-1] + queue[1])


PROGRAMS = [
    in_place, a_row_in_place, a_view_kept, a_view_of_the_trip_before,
    work_array_changed_outside_of_the_trace, out_of_range_is_caught, several_results,
    orders_in_memory, a_list_of_all, tables_in_another_order, traced_tables_in_another_order,
    a_constant_whose_order_changes, stored_in_another_order, a_view_of_itself_the_second_time,
    signs_of_nan, another_byte_order, positions_out_of_range_are_caught,
    positions_out_of_range_are_caught_at_once, added_out_of_range, gradients_off_in_one_trip,
    rows_viewed_before_the_stores, row_copied_in_its_array, stores_in_rows_and_columns,
    a_queue_beside_rows_by_remainders,
]  # fmt: skip


def derivatives(f, way, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", way)
    monkeypatch.setattr(looping, "SLEEP", 0)
    fdiff.cache_clear()
    return *fdiff.value_and_grad(f)(POINT), fdiff.hessian(f)(POINT)


@pytest.mark.parametrize("f", PROGRAMS)
def test_checked_loops_compute_what_unrolled_ones_do(f, monkeypatch):
    checked, unrolled = (derivatives(f, way, monkeypatch) for way in ("check", "unroll"))
    np.testing.assert_allclose(checked[0], f(POINT), rtol=1e-12, atol=1e-13)
    for a, b in zip(checked, unrolled, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("f", [in_place, a_row_in_place, out_of_range_is_caught])
def test_loops_are_one_node(f, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    fdiff.cache_clear()
    tape = fdiff.make_tape(f, POINT)
    assert [n.primitive.name for n in tape.nodes].count("loop") == 1


@pytest.mark.slow
def test_short_loops_are_unrolled_after_all(monkeypatch):
    monkeypatch.setattr(looping, "SLEEP", 0)
    monkeypatch.delenv("FDIFF_LOOPS", raising=False)
    for f in PROGRAMS:
        fdiff.cache_clear()
        np.testing.assert_allclose(fdiff.jit(f)(POINT), f(POINT), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("counts", [[7, 8], [3, 3], [0, 1], [3, 5]])
def test_no_loop_is_rolled_where_references_cannot_be_counted(counts, monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "check")
    measured = log_beginning.references_to_new()
    assert 0 < measured <= log_beginning.OWNERS
    counted = iter(counts)
    monkeypatch.setattr(log_beginning, "references", lambda call: [next(counted)])
    log_beginning.references_to_new.cache_clear()
    fdiff.cache_clear()
    try:
        assert log_beginning.references_to_new() == 0
        assert not [*fdiff.make_tape(in_place, POINT).bodies()]
    finally:
        monkeypatch.undo()
        log_beginning.references_to_new.cache_clear()
    assert log_beginning.references_to_new() == measured


@pytest.mark.parametrize(
    ("place", "name", "number"),
    [
        (Frame, "values_fit", 5), (Frame, "advance", 50), (Frame, "carry_on", 5),
        (Frame, "_enter", 1), (call_log, "replayed", 1),
    ],
)  # fmt: skip
def test_signals_that_are_caught_in_loops_are_errors(place, name, number, monkeypatch):
    calls, method = [], getattr(place, name)

    def interrupted(*args):
        out = method(*args)
        calls.append(args)
        if len(calls) == number:
            raise KeyboardInterrupt
        return out

    def f(x):
        s, t, k = x, x, 0
        while k < 60:
            try:
                a = np.sin(s * (0.1 * k)) + x * (0.01 * k + 1.0)
                s, t, k = a, t + np.take(a, [k % 3]), k + 1
            except KeyboardInterrupt:
                pass
        try:
            return np.sum(s * t)
        except KeyboardInterrupt:
            return np.sum(s * t)

    monkeypatch.setenv("FDIFF_LOOPS", "check")
    monkeypatch.setattr(looping, "SLEEP", 0)
    monkeypatch.setattr(place, name, interrupted)
    fdiff.cache_clear()
    with pytest.raises(TraceError, match="came while the iterations of a loop were compared"):
        fdiff.make_tape(f, POINT)
    assert len(calls) >= number


def test_results_that_are_held_elsewhere_are_not_replaced():
    kept = []

    def held(x):
        kept.append(logged_calls.content(x))
        return kept[-1]

    with Trace("loop", lines=False) as trace:
        trace.calls = call_log.CallLog(trace, 0, log_beginning.references_to_new())
        trace.calls.wake()
        x = trace.input(ArrayType((), np.dtype(float)))
        gated_method(held)(x)
        assert not trace.calls.calls
        gated_method(logged_calls.content)(x)
        assert len(trace.calls.calls) == 1


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("use", [np.sin, lambda x: x.sum(), lambda x: x[0], lambda x: x + 1.0])
def test_other_threads_are_told_so(use):
    def f(x):
        errors = []

        def work():
            with pytest.raises(LeakError, match="in another thread") as caught:
                use(x)
            errors.append(caught.value)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert errors
        return np.sum(x)

    fdiff.grad(f)(POINT)


def test_a_way_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("FDIFF_LOOPS", "fast")
    with pytest.raises(
        fdiff.errors.InputError, match="FDIFF_LOOPS: 'fast' is not a way to trace loops"
    ):
        fdiff.grad(lambda x: np.sum(x * x))(np.ones(2))
