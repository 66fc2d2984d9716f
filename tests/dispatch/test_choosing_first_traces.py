"""A first trace that asks for many values begins anew, with loops that choose their branches."""

import collections
import contextlib
import signal

import numpy as np
import pytest
from exact_functions import exact_of_function
from test_choosing_loops import counted

import fdiff
from fdiff.dispatch import call_tracing
from fdiff.trace.branching import guards

TRIPS = 90  # more than `guards.MANY`
POINTS = [np.array(p) for p in ((0.3, 0.9, -0.4), (1.1, -0.7, 0.2), (-0.8, 0.1, 0.6))]
WRITTEN, BUFFER, SEEN, TAGS = {"runs": 0}, np.zeros(1), collections.deque(), set()
RNG = np.random.default_rng(0)
TABLE = np.zeros(1, [("runs", float)])


def walks(x):
    s = x[0]
    for k in range(TRIPS):
        s = np.sin(s + 0.1 * k) if s > x[2] else s * 0.9 + x[1]
    return s


def catches_any_error(x):
    s = x[0]
    for k in range(TRIPS):
        with contextlib.suppress(Exception):
            s = np.sin(s + 0.1 * k) if s > x[2] else s * 0.9 + x[1]
    return s


def catches_everything(x):
    s = x[0]
    for k in range(TRIPS):
        try:
            s = np.sin(s + 0.1 * k) if s > x[2] else s * 0.9 + x[1]
        except:  # noqa: E722 - also what no other clause sees
            s = s + 1.0
    return s


def prints(x):
    print("begins")
    return walks(x)


def writes(x):
    WRITTEN["runs"] += 1
    return walks(x)


def fills(x):
    BUFFER[0] += 1.0
    return walks(x)


def appends(x):
    SEEN.append("a run")
    return walks(x)


def adds(x):
    TAGS.add(len(TAGS))
    return walks(x)


def fills_a_table(x):
    TABLE["runs"] += 1.0
    return walks(x)


def draws(x):
    noise = RNG.random()
    return walks(x) + 0.0 * noise


def draws_at_the_end(x):
    try:
        return walks(x)
    finally:
        RNG.random()


class Printing:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        print("ends")


def prints_at_the_end(x):
    with Printing():
        return walks(x)


def numbers():
    try:
        yield from range(TRIPS)
    finally:
        print("is closed")


def closes_a_generator(x):
    s = x[0]
    for k in numbers():
        s = np.sin(s + 0.1 * k) if s > x[2] else s * 0.9 + x[1]
    return s


def in_the_middle(x):
    s = walks(x)
    return np.sum(s * x)


@pytest.fixture
def runs(monkeypatch):
    """The times that functions were run on traced arguments."""
    times, run = [], call_tracing.trace_once
    fdiff.cache_clear()
    monkeypatch.setattr(
        "fdiff.dispatch.memo_derivatives.trace_once",
        lambda request: times.append(request.restarts) or run(request),
    )
    return times


@pytest.mark.parametrize("f", [walks, catches_any_error, catches_everything, in_the_middle])
def test_values_and_slopes(f):
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        value, slope = both(x)
        expected = exact_of_function(walks, x)
        whole = f(x)
        np.testing.assert_allclose(value, whole, rtol=1e-12)
        if f is not in_the_middle:
            np.testing.assert_allclose(slope, expected[1], rtol=1e-9)


def test_one_trace_serves_all_branches(monkeypatch):
    traces, drivers = counted(monkeypatch)
    monkeypatch.delenv("FDIFF_LOOPS")
    both = fdiff.value_and_grad(walks)
    for x in POINTS:
        np.testing.assert_allclose(both(x)[0], walks(x), rtol=1e-12)
    assert traces == [False]
    assert [own.refusals for own in drivers] == [{}]
    assert len(fdiff.make_tape(walks, POINTS[0])) < TRIPS


def done():
    """What the functions have done so far."""
    counts = WRITTEN["runs"], BUFFER[0], len(SEEN), len(TAGS), TABLE["runs"].item()
    return *counts, RNG.bit_generator.state["state"]


@pytest.mark.parametrize(
    "f", [prints, writes, fills, appends, adds, draws, fills_a_table, draws_at_the_end,
          prints_at_the_end, closes_a_generator]
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_what_has_done_something_is_not_run_twice(f, runs, capsys):
    state = RNG.bit_generator.state
    SEEN.clear(), TAGS.clear(), TABLE.fill(0.0)
    before = done()
    f(POINTS[0])
    after, shown = done(), capsys.readouterr().out
    WRITTEN["runs"], BUFFER[0], RNG.bit_generator.state = before[0], before[1], state
    SEEN.clear(), TAGS.clear(), TABLE.fill(0.0)
    slope = fdiff.grad(f)(POINTS[0])
    assert (done(), capsys.readouterr().out) == (after, shown)
    assert runs == [True]
    np.testing.assert_allclose(slope, exact_of_function(walks, POINTS[0])[1], rtol=1e-9)


@pytest.mark.parametrize(
    "make", [lambda: np.random.default_rng(0), lambda: iter([0.5, 0.7, 0.9]), collections.deque]
)
@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_arguments_are_not_used_twice(make):
    def uses(x, own):
        factor = own.random() if hasattr(own, "random") else len(own.append(1.0) or own)
        return walks(x) * factor

    def takes(x, own):
        factor = next(own)
        return walks(x) * factor

    f = takes if hasattr(make(), "__next__") else uses
    assert fdiff.value_and_grad(f)(POINTS[0], make())[0] == pytest.approx(f(POINTS[0], make()))


@pytest.mark.parametrize("way", ["unroll", "sparse"])
def test_runs_that_are_not_left(way, runs, monkeypatch):
    if way == "unroll":
        monkeypatch.setenv("FDIFF_LOOPS", "unroll")
        fdiff.grad(walks)(POINTS[0])
    else:
        fdiff.jacobian(lambda x: x * walks(x), sparse=True)(POINTS[0])
    assert len(runs) == 1


def test_functions_without_source(runs):
    space = {"np": np}
    exec(
        f"def f(x):\n    s = x[0]\n    for k in range({TRIPS}):\n"
        "        s = np.sin(s + 0.1 * k) if s > x[2] else s * 0.9 + x[1]\n    return s",
        space,
    )
    for x in POINTS:
        np.testing.assert_allclose(
            fdiff.grad(space["f"])(x), exact_of_function(walks, x)[1], rtol=1e-9
        )


def test_second_derivatives():
    for x in POINTS:
        np.testing.assert_allclose(
            fdiff.jacobian(fdiff.grad(walks))(x), exact_of_function(walks, x)[2], rtol=1e-8
        )


def asks_twice(x):
    if x[0] > x[1]:
        return x[1] ** 2 * x[2]
    return x[0] ** 3 if np.isclose(x[2], 0.6, 0.1) else x[2] ** 2 * x[1]


@pytest.mark.parametrize("many", [1, 2, 3])
def test_traces_inside_of_a_trace_begin_anew_with_it(many, monkeypatch):
    monkeypatch.setattr(guards, "MANY", many)
    fdiff.cache_clear()
    slope = fdiff.grad(asks_twice)
    for x in POINTS:
        expected = exact_of_function(asks_twice, x)
        nested = fdiff.jacobian(lambda x: slope(x) * 1.0)(x)
        np.testing.assert_allclose(nested, expected[2], rtol=1e-10)
    batch = fdiff.grad(lambda rows: np.sum(fdiff.vmap(asks_twice)(rows)))(np.array(POINTS))
    rows = [exact_of_function(asks_twice, x)[1] for x in POINTS]
    np.testing.assert_allclose(batch, rows, rtol=1e-10)


def test_what_code_in_c_drops_is_not_lost(monkeypatch):
    """NumPy drops any exception of a conversion, and tries the next one."""

    def converts(x, factors):
        total = 0.0
        for factor in factors:
            total = total + factor * x[1] - np.power(x[1], np.float64(factor))
        return total

    monkeypatch.setattr(guards, "MANY", 2)
    x, factors = np.array([1.3, 0.7]), [2.0, 3.0, 0.5, 0.0]
    value, slope = fdiff.value_and_grad(converts)(x, factors)
    assert value == converts(x, factors)
    expected = sum(factor - factor * 0.7 ** (factor - 1.0) for factor in factors)
    np.testing.assert_allclose(slope, [0.0, expected], rtol=1e-12)


@pytest.mark.filterwarnings("error::FutureWarning")
def test_names_that_numpy_warns_of_are_not_looked_up(monkeypatch):
    def labelled(x):
        label = str(len(x))
        return walks(x) + 0.0 * float(label)

    monkeypatch.setattr(guards, "MANY", 2)
    for x in POINTS:
        np.testing.assert_allclose(fdiff.grad(labelled)(x), exact_of_function(walks, x)[1], 1e-9)
    with pytest.raises(AttributeError):
        _ = fdiff.autograd.tensor(POINTS[0]).str


def test_an_exception_of_a_signal_is_seen_where_a_trace_is_left(monkeypatch):
    text = """def dropping(f, x):
    try:
        return f(x)
    except BaseException:
        signal.raise_signal(signal.SIGINT)"""
    space = {"signal": signal}
    exec(compile(text, fdiff.__file__, "exec"), space)  # no code of the user, as code in C
    dropping = space["dropping"]

    def signalled(x):
        return dropping(asks_twice, x)

    def alarm(*_):
        raise TimeoutError("the user's")

    monkeypatch.setattr(guards, "MANY", 1)
    before = signal.signal(signal.SIGINT, alarm)
    try:
        with pytest.raises(TimeoutError, match="the user's"):
            fdiff.grad(signalled)(POINTS[0])
    finally:
        signal.signal(signal.SIGINT, before)
