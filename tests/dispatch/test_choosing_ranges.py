"""Loops over ranges that vary from trip to trip, in loops that choose their branches; few trips."""

import random

import numpy as np
import pytest
import second_order_numbers
from american_put import conditional_put
from test_choosing_loops import POINTS, W, counted, exact

import fdiff

ROWS = np.sin(1.3 * np.arange(900) ** 1.1).reshape(30, 30)


def put(x):
    return conditional_put(0.9 + 0.1 * x[0], 1.0, 0.02, 0.2 + 0.1 * x[1], 20)


def pairs(x):
    """Each number beside those before it."""
    s, u = x[2], np.outer(W[:24], x)[:, 0] + x[1]
    for i in range(24):
        for j in range(i):
            d = u[i] - u[j]
            s = s + d * d if d > 0.1 * x[2] else 0.99 * s - 0.01 * d
    return s


def backwards(x):
    """Steps of -2, and a start that moves."""
    s = x[0]
    for i in range(3, 26):
        for k in range(i - 1, i // 4, -2):
            s = np.sin(s + W[k]) if s > x[1] else 0.9 * s + 0.1 * W[k] * x[2]
        s = s + 0.01 * i
    return s


def left_early(x):
    """`continue`, `break`, a counter, and trips that are none."""
    s, n = x[0], 0
    for i in range(22):
        for j in range(i % 5, i % 5 + i % 7):
            n = n + 1
            if s * W[j] > 0.4:
                s = 0.7 * s
                continue
            s = s + 0.1 * W[j] * x[1]
            if s > 2.0 * x[2]:
                s = s * 0.5
                break
        s = s + 0.01 * n
    return s


def three_deep(x):
    s = x[0]
    for i in range(14):
        for j in range(i):
            for k in range(j, i):
                s = np.sin(s + 0.1 * ROWS[j, k]) if s > x[1] else 0.95 * s + 0.05 * x[2]
    return s


def distances(x):
    """A table filled below its diagonal: the alignment of two sequences."""
    a, b = np.cumsum(W[:15]) * x[0], np.cumsum(W[5:20]) * x[1]
    table = np.zeros((16, 16))
    for i in range(1, 16):
        for j in range(1, i + 1):
            left, best = table[i, j - 1], table[i - 1, j]
            best = min(best, left)
            table[i, j] = (a[i - 1] - b[j - 1]) ** 2 + best + 0.1 * x[2]
    return np.sum(table[15])


def read_behind(x):
    """Bounds that change in the loop, which are read but once, and its variable behind it."""
    s, k = x[0], 0
    for i in range(22):
        n = i % 5
        for k in range(n, n + i % 7):
            n = n + 1
            s = 0.7 * s if s * W[k] > 0.1 else s + 0.1 * W[k] * x[1]
        s = s + 0.01 * n + 0.1 * k * x[2]
    return s


def few_trips(x):
    """Twenty branches, of which each may go either way."""
    s = 0.0
    for i in range(20):
        y = x[i % 3] * W[i]
        s = s + np.sin(y) * y if y > 0.1 else s - np.exp(y)
    return s


PROGRAMS = [put, pairs, backwards, left_early, three_deep, distances, few_trips]


@pytest.mark.slow
@pytest.mark.parametrize("f", [*PROGRAMS, read_behind])
def test_calls_on_other_branches_are_not_traced_again(f, monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert len(traces) <= 2 or f is read_behind  # Python runs a loop whose number is read behind
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)


def named(np):
    def f(x):
        s = x[0]
        for i in range(20):
            s = np.sin(s + W[i]) if s > x[1] else 0.9 * s + 0.1 * np.cos(x[2])
        return s

    return f


def test_a_module_may_be_a_variable_around_the_function(monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    f = named(np)
    both = fdiff.value_and_grad(f)
    for x in POINTS:
        np.testing.assert_allclose(both(x)[0], f(x), rtol=1e-12)
    assert len(traces) == 1


def grows(x):
    s = x[0]
    for i in range(1, 30):
        s = np.sin(s * 1.1 ** (i + 1)) if s > x[1] else 0.9 * s + 0.5**i * x[2]
    return s


def overflows(x):
    s = x[0]
    for i in range(400):
        s = 0.9 * s + 7.0**i * 1e-300 if s > x[1] else s + 0.01
    return s


def test_powers_of_floats_by_the_number_of_a_trip(monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(grows)
    results = [both(x) for x in POINTS]
    assert len(traces) <= 2
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, grows(x), rtol=1e-11)
        expected = exact(fdiff.grad, grows, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-12)
    with pytest.raises(OverflowError):
        overflows(POINTS[0])
    with pytest.raises(OverflowError):
        fdiff.grad(overflows)(POINTS[0])


class Text:
    """A random program whose inner loops run over ranges that vary."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.depth = 0

    def bound(self, name):
        return self.random.choice([
            f"{name}", f"{name} + 2", f"8 - {name}", f"{name} // 2", f"{name} % 4 + 1",
            f"2 * {name} - 5",
        ])  # fmt: skip

    def range(self, name):
        form = self.random.randrange(4)
        if form == 0:
            return self.bound(name)
        if form == 1:
            return f"{self.bound(name)}, {self.bound(name)}"
        step = self.random.choice([1, 2, 3, -1, -2])
        return f"{self.bound(name)}, {self.bound(name)}, {step}"

    def entry(self, name):
        return f"W[{name} % 30]" if self.random.random() < 0.6 else f"0.1 * {name}"

    def body(self, name, indent):
        choice, tab = self.random.randrange(6), "    " * indent
        deeper = f"{name}{self.depth}"
        if choice < 2 and self.depth < 2:
            self.depth += 1
            lines = [f"{tab}for {deeper} in range({self.range(name)}):"]
            lines += self.body(deeper, indent + 1)
            if self.random.random() < 0.3:
                lines += [
                    f"{tab}    if s * {self.entry(deeper)} > 0.9:",
                    f"{tab}        " + self.random.choice(["break", "continue"]),
                ]
            lines += self.body(deeper, indent + 1)
            self.depth -= 1
            return lines
        e = self.entry(name)
        return [f"{tab}" + line for line in self.random.choice([
            [f"s = np.sin(s + {e}) if s > x[1] else 0.9 * s + 0.1 * {e} * x[2]"],
            [f"if s * {e} > x[2] * 0.3:", f"    s = 0.8 * s + {e}", "else:", "    u[1] = s * s"],
            [f"u[{name} % 4] = u[{name} % 3] * 0.5 + s", "s = s * 0.7 + u[2]"],
            ["n = n + 1", "s = s + 0.001 * n"],
        ])]  # fmt: skip

    def text(self):
        lines = [
            "def f(x):",
            "    s, n, u = x[0], 0, np.outer(W[:4], x)[:, 1]",
            "    for i in range(9):",
        ]
        for _ in range(3):
            lines += self.body("i", 2)
        self.depth = 0
        lines += [f"        for j in range({self.range('i')}):"]
        self.depth = 1
        for _ in range(2):
            lines += self.body("j", 3)
        lines += ["        s = np.tanh(s) if s > 2.0 or s < -2.0 else s"]
        return "\n".join([*lines, "    return s + 0.1 * np.sum(u) + 0.01 * n"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(16))
def test_random_programs(seed, monkeypatch):
    names = {"np": np, "W": W}
    text = Text(seed).text()
    code = compile(text, f"/varying_ranges_{seed}.py", "exec")
    monkeypatch.setitem(
        __import__("linecache").cache,
        code.co_filename,
        (len(text), None, text.splitlines(True), code.co_filename),
    )
    exec(code, names)
    f = names["f"]
    counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    for k, x in enumerate(POINTS):
        value, slope = both(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-11, atol=1e-13, err_msg=text)
        if k % 2:
            continue
        expected = second_order_numbers.exact(text, "f", x, {"W": W})[0][1]
        np.testing.assert_allclose(slope, expected, rtol=1e-8, atol=1e-11, err_msg=text)


def a_float_on_one_path(x):
    s = x[0]
    for i in range(15):
        for j in range(3 if s > x[1] else i / 2):
            s = np.sin(s + W[j]) if s > 0.1 else s * 0.5
    return s


def a_float_of_one_arm(x):
    s = x[0]
    for i in range(15):
        n = i / 2 if s < x[1] else i
        for _ in range(n):
            s = np.sin(s) + 0.3 if s > x[2] else s * 2
    return s


@pytest.mark.parametrize("f", [a_float_on_one_path, a_float_of_one_arm])
def test_bounds_that_are_floats_are_errors_as_in_plain_code(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    run, errors = fdiff.value_and_grad(f), 0
    for k in range(8):
        x = np.array([2.0 + 0.1 * k, 5.0 if k > 3 and k % 2 else -5.0, 0.5 + 0.05 * k])
        try:
            expected = f(x)
        except TypeError as error:
            errors += 1
            with pytest.raises(TypeError, match=str(error)):
                run(x)
        else:
            np.testing.assert_allclose(run(x)[0], expected, rtol=1e-12)
    assert 0 < errors < 8
