"""Ints of objects from outside, which loops that choose their branches count."""

import numpy as np
import pytest
from test_choosing_loops import POINTS, N, W, counted, unrolled
from test_choosing_methods import CLOSE, assert_same

import fdiff


class Counter:
    def __init__(self):
        self.n, self.m, self.total, self.log, self.last = 0, 5, 0.0, [], None

    def note(self, s):
        self.n += 1
        return s * 0.5

    def run(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = self.step(s, k)
            s = np.sin(s + W[k])
        return s


class Counting(Counter):
    def step(self, s, k):
        self.n += 1
        return s * 0.5

    loss = Counter.run


class TwoCounts(Counter):
    def step(self, s, k):
        self.n += 2
        self.m = self.m + k - 1
        self.total += s
        return self.note(s)

    loss = Counter.run


class TwoLoops(Counting):
    def loss(self, x):
        return self.run(x) + self.run(x[::-1])


class ReadBehind(Counting):
    def loss(self, x):
        s = self.run(x)
        return s * (1.0 + 0.1 * self.n) + 0.01 * (self.n - 3) * x[1]


class ComparedBehind(Counting):
    def loss(self, x):
        s = self.run(x)
        return s * 2.0 if self.n > 100 else s


class Kept(Counting):
    def loss(self, x):
        s = self.run(x)
        self.log.append(self.n)
        self.last = (self.n, self.n + 1)
        return s


class Doubled(Counting):
    def loss(self, x):
        s = self.run(x)
        self.m = 2 * self.n
        return s


class Shown(Counting):
    def loss(self, x):
        s = self.run(x)
        self.last = f"{self.n}"
        return s


class AsAnIndex(Counter):
    def step(self, s, k):
        self.n += 1
        return s * W[self.n % 7]

    loss = Counter.run


class Limited(Counter):
    def step(self, s, k):
        if self.n < 30:
            self.n += 1
        return s * 0.5

    loss = Counter.run


class InANumber(Counter):
    def step(self, s, k):
        self.n += 1
        return s * 0.5 + 0.001 * self.n

    loss = Counter.run


class SetBack(Counter):
    def step(self, s, k):
        self.n = 0 if k == 7 else self.n + 1
        return s * 0.5

    loss = Counter.run


class Handed(Counter):
    def step(self, s, k):
        self.n, self.m = self.m + 1, self.n
        return s * 0.5

    loss = Counter.run


class Down(Counter):
    def step(self, s, k):
        self.n -= 1
        self.m = 1 + self.m
        return s * 0.5

    loss = Counter.run


class InnerLoops(Counter):
    def step(self, s, k):
        for j in range(15):
            if s > 0.1 * j:
                self.n += 1
                s = s * 0.98
        return s

    loss = Counter.run


class Local(Counter):
    def loss(self, x):
        n, s = self.n, x[0]
        for k in range(N):
            if s > x[1]:
                s, n = s * 0.5, n + 1
            s = np.sin(s + W[k])
        self.n = n
        return s


class While(Counter):
    def loss(self, x):
        s = x[0] + 2.0
        while s > 0.3 * x[1]:
            s = s * 0.8 if s > 0.5 else s - 0.05
            self.n += 1
        return s * x[2]


class Unused(Counter):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > 5.0:
                self.n += 1
            s = np.sin(s + W[k]) * (0.9 if s > x[1] else 1.0)
        return s * (1.0 + self.n)


class Slots:
    __slots__ = ("log", "m", "n", "total")

    def __init__(self):
        self.n, self.m, self.total, self.log = 0, 5, 0.0, None

    run = Counter.run
    step = Counting.step
    loss = Counter.run


ALONE = (Counting, TwoCounts, TwoLoops, ReadBehind, Kept, Down, Local, While, Slots)
MODELS = (
    *ALONE, Handed, ComparedBehind, Doubled, Shown, AsAnIndex, Limited, InANumber, SetBack,
    InnerLoops, Unused,
)  # fmt: skip

counting, two_loops, while_loop = Counting().loss, TwoLoops().loss, While().loss


def state(own):
    """The numbers of an object, with their types."""
    names = ("n", "m", "total", "log", *(["last"] if hasattr(own, "last") else []))
    values = {name: getattr(own, name) for name in names}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("kind", MODELS)
def test_counts_are_those_of_plain_code(kind, monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)
    plain, own, reference = kind(), kind(), kind()
    call = fdiff.value_and_grad(own.loss)
    for turn, x in enumerate((*POINTS, *POINTS[:2])):
        if turn == 3:  # the user sets them
            plain.n = own.n = reference.n = 1000
            plain.total = own.total = reference.total = 2.5
        expected = plain.loss(x.copy())
        value, slope = call(x.copy())
        assert_same(state(own), state(plain))
        np.testing.assert_allclose(value, expected, **CLOSE)
        before = len(traces)
        expected = unrolled(fdiff.grad, reference.loss, x, monkeypatch)
        del traces[before:]
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)
    assert len(traces) <= (3 if kind in ALONE else 99)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_other_numbers_in_place_of_a_count(monkeypatch):
    counted(monkeypatch, choosing=True)
    plain, own = Counting(), Counting()
    call = fdiff.jit(own.loss)
    for n in (0, 3, 2**60, 1.5, True, np.int64(4), -7, np.float64(2.0), 2**53, 0):
        for x in POINTS[:2]:
            plain.n = own.n = n
            np.testing.assert_allclose(call(x), plain.loss(x), **CLOSE)
            assert type(own.n) is type(plain.n)
            assert own.n == plain.n


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_operators_count_once(monkeypatch):
    counted(monkeypatch, choosing=True)
    for operator in (fdiff.hessian, fdiff.jacobian, lambda f: fdiff.vmap(fdiff.grad(f))):
        batched = operator not in (fdiff.hessian, fdiff.jacobian)
        plain, own = Counting(), Counting()
        call = operator(own.loss)
        for x in POINTS:
            before = own.n
            try:
                call(np.array([x, x])) if batched else call(x)
            except fdiff.TraceError:
                assert batched
                assert own.n == before
            else:
                plain.loss(x)
                assert batched or own.n == plain.n
