"""What the body of a loop may not do, since it is run once for all trips; and what it may raise."""

import gc
import io
import logging
import os
import sys
import threading
import traceback
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import fdiff
from fdiff.errors import TraceError

LOG = logging.getLogger("loops")
STATM = Path("/proc/self/statm")
TEXT = io.StringIO()


class Shower:
    def shows(self, c):
        print("carry")
        return c


def shows(c):
    print("carry", c)
    return c


def shows_formatted(c):
    print(f"{c:.3f}", file=sys.stderr)
    return c


def writes_to_a_file(c):
    TEXT.write("carry")
    return c


def logs(c):
    LOG.info("carry %s", 1)
    return c


def warns_by_a_log(c):
    logging.warning("carry")  # noqa: LOG015 - what is tested
    return c


def shows_and_hides(c):
    try:
        print("carry")
    except TraceError:
        return c
    return c


DEEDS = [
    (shows, "`print` shows", "print("),
    (Shower().shows, "`print` shows", "print("),
    (shows_formatted, "`print` shows", "print("),
    (shows_and_hides, "`print` shows", "print("),
    (writes_to_a_file, "`write` of a file writes", "TEXT.write("),
    (logs, "`logging.info` shows", "LOG.info("),
    (warns_by_a_log, "`logging.warning` shows", "logging.warning("),
]
LOOPS = {
    "scan": lambda b: lambda x: fdiff.scan(lambda c, e: (b(c) + e, None), 0.0, x)[0],
    "fori_loop": lambda b: lambda x: fdiff.fori_loop(0, 3, lambda i, c: b(c) + x[i], 0.0),
    "while_loop": lambda b: lambda x: fdiff.while_loop(lambda c: c < 3, lambda c: b(c) + x[0], 0.0),
    "while_loop, condition": lambda b: (
        lambda x: fdiff.while_loop(lambda c: b(c) < 3, lambda c: c + x[0], 0.0)
    ),
    "cond": lambda b: lambda x: fdiff.cond(x[0] > 0, b, lambda c: c, x[1]),
    "switch": lambda b: lambda x: fdiff.switch(x.astype(int)[0], [b, lambda c: c], x[1]),
}


def traced_bounds(b):
    return lambda x: fdiff.fori_loop(0, x.astype(int)[0], lambda i, c: b(c) + x[i], 0.0)


@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.grad])
@pytest.mark.parametrize(("deed", "words", "line"), DEEDS)
def test_text_that_a_body_shows_is_refused(deed, words, line, operator, capsys):
    pattern = rf"the body of `fdiff.scan` has a side effect, what {words}.(.|\n)*run once"
    with pytest.raises(TraceError, match=pattern) as caught:
        operator(LOOPS["scan"](deed))(np.ones(3))
    assert line in str(caught.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("loop", [*LOOPS.items(), ("fori_loop, traced bounds", traced_bounds)])
def test_in_every_loop(loop, capsys):
    name, make = loop
    words = rf"the body of `fdiff.{name.partition(',')[0]}` has a side effect, what `print` shows"
    with pytest.raises(TraceError, match=words):
        fdiff.jit(make(shows))(np.ones(3))
    assert capsys.readouterr().out == ""


def test_print_around_a_loop_and_in_plain_loops(capsys):
    def f(x):
        print("before")
        total = fdiff.scan(lambda c, e: (c + e, None), np.float64(0.0), x)[0]
        print("after", total)
        return total

    g = fdiff.jit(f)
    for _ in range(2):
        assert g(np.ones(3)) == 3
        assert capsys.readouterr().out == "before\nafter 3.0\n"
    fdiff.scan(lambda c, e: (shows(c) + e, None), np.float64(0.0), np.ones(3))
    assert capsys.readouterr().out == "carry 0.0\ncarry 1.0\ncarry 2.0\n"


@pytest.mark.parametrize("init", [1.0, np.float64(1.0)])
@pytest.mark.parametrize(
    "text",
    [
        lambda c: f"{c}",
        lambda c: f"{c:.3f}",
        str,
        repr,
        lambda c: "%s" % c,  # noqa: UP031 - what is tested
        lambda c: "{}".format(c),  # noqa: UP032 - what is tested
        lambda c: f"{[c]}",
        lambda c: np.array2string(np.atleast_1d(c)),
    ],
)
def test_text_of_a_carry_is_refused(text, init):
    def f(x):
        return fdiff.scan(lambda c, e: (c + len(text(c)) + e, None), init, x)[0]

    words = "the body of `fdiff.scan` makes text of a value that differs from trip to trip"
    with pytest.raises(TraceError, match=words):
        fdiff.jit(f)(np.ones(3))


def test_text_of_what_is_known_outside():
    p = 2.5

    def f(x):
        return fdiff.scan(lambda c, e: (c + len(f"{p}") + e, None), 0.0, x)[0]

    assert fdiff.jit(f)(np.ones(3)) == f(np.ones(3)) == 12


@pytest.mark.parametrize(
    "look",
    [
        lambda c: c if c > 0 else -c,
        lambda c: c * bool(c),
        lambda c: c * int(c),
        lambda c: min(c, 2.0),
        lambda c: c + round(c),
        lambda c: sum(range(int(c)), c),
        lambda c: c + (c in [1.0, 2.0]),
        lambda c: np.sum(np.atleast_1d(c)[np.atleast_1d(c) > 0]),
        lambda c: c + len(np.nonzero(np.atleast_1d(c))[0]),
    ],
)
def test_python_sees_no_carry(look):
    def step(c, e):
        return look(c) + e, None

    words = r"`step` branches on a value that a loop carries(.|\n)*numpy.where, fdiff.cond or"
    with pytest.raises(TraceError, match=words + " fdiff.while_loop"):
        fdiff.jit(lambda x: fdiff.scan(step, np.float64(1.0), x)[0])(np.ones(3))


def test_a_float_of_a_carry_is_the_carry():
    def f(x):
        return fdiff.scan(lambda c, e: (c + e * float(c) ** 2, None), x[0], x)[0]

    def unrolled(x):
        c = x[0]
        for e in x:
            c = c + e * c**2
        return c

    x = np.array([0.5, -0.3, 0.2])
    np.testing.assert_allclose(fdiff.grad(f)(x), fdiff.grad(unrolled)(x), rtol=1e-14)


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("operator", [fdiff.jit, fdiff.grad])
def test_errors_of_a_body_pass_through_with_its_line(name, operator):
    def breaks(c):
        raise KeyError("of the user")

    with pytest.raises(KeyError, match="of the user") as caught:
        operator(LOOPS[name](breaks))(np.ones(3))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.line == 'raise KeyError("of the user")'


def test_a_function_is_usable_after_an_error_of_its_body():
    fails = [True]

    def step(c, e):
        if fails[0]:
            raise ValueError("not yet")
        return c + e, None

    f = fdiff.jit(lambda x: fdiff.scan(step, 0.0, x)[0])
    with pytest.raises(ValueError, match="not yet"):
        f(np.ones(3))
    fails[0] = False
    assert f(np.ones(3)) == 3


def pendulum(x):
    def step(c, e):
        return (c[0] + 0.1 * c[1], c[1] - 0.1 * np.sin(c[0]) + e), c[0]

    last, rows = fdiff.scan(step, (1.0, 0.0), x)
    return np.sum(rows) + last[1]


def resident():
    """Bytes of memory that this process has, where the system tells."""
    if not STATM.exists():
        return 0
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_many_calls_do_not_grow():
    slope, x = fdiff.jit(fdiff.value_and_grad(pendulum)), np.linspace(-0.1, 0.1, 50)
    want = slope(x)
    for _ in range(500):
        slope(x)
    gc.collect()
    tracemalloc.start()
    before, traced = resident(), tracemalloc.get_traced_memory()[0]
    for _ in range(20_000):
        value, gradient = slope(x)
    gc.collect()
    grown, traced = resident() - before, tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    assert value == want[0]
    np.testing.assert_array_equal(gradient, want[1])
    assert traced < 10_000  # Python's objects and arrays: not one that each call leaves
    assert grown < 4_000_000  # memory of kernels


@pytest.mark.slow
def test_two_threads():
    slope = fdiff.jit(fdiff.value_and_grad(pendulum))
    points = [np.linspace(-0.1, 0.1, 50), np.linspace(0.3, -0.2, 50)]
    wanted, wrong = [slope(x) for x in points], []

    def run(x, want):
        for _ in range(100_000):
            value, gradient = slope(x)
            if value != want[0] or not np.array_equal(gradient, want[1]):
                wrong.append(value)

    threads = [threading.Thread(target=run, args=each) for each in zip(points, wanted, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
