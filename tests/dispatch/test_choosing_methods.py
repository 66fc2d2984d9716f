"""Loops and statements that choose their branches, and call methods of objects."""

import dataclasses
import gc
import random
import threading
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import random_choosing_loops
from test_choosing_loops import POINTS, N, W, counted, exact, unrolled

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


class Filter:
    gain = 0.3

    def __init__(self, m=0.1, p=1.0):
        self.m, self.p, self.limit, self.updates = m, p, 0.5, 0

    def predict(self, q):
        self.m = 0.95 * self.m
        self.p = 0.9 * self.p + 0.1 * q * q

    def update(self, z, r):
        v = r * z - self.m
        if abs(v) < self.limit:
            s = self.p + 0.5
            self.m = self.m + self.p / s * v * self.gain
            self.p = self.p - self.p * self.p / s
            self.updates += 1
            return 0.5 * (np.log(s) + v * v / s)
        return 0.0 * v

    @property
    def level(self):
        return self.p * 0.1

    @level.setter
    def level(self, value):
        self.p = value * 10.0

    @staticmethod
    def soft(z):
        return np.tanh(z) if z > 0 else z

    @classmethod
    def scaled(cls, z):
        return z * cls.gain


class Half(Filter):
    gain = 0.7

    def soft(self, z):
        return z * 0.5

    def update(self, z, r):
        return 0.5 * super().update(z, r)


class Layer:
    def __init__(self, a):
        self.a = a

    def __call__(self, s):
        return np.tanh(s + self.a)


class Net:
    def __init__(self):
        self.layers, self.b = [Layer(0.5), Layer(-0.3)], 0.1

    def forward(self, s):
        for layer in self.layers:
            s = layer(s)
        return s

    def flux(self, s):
        return s * 0.5 if s > self.b else self.forward(s)


class Slotted:
    __slots__ = ("hits", "x")

    def __init__(self, x):
        self.x, self.hits = x, 0

    def step(self, w):
        self.x = np.sin(self.x + w)
        if self.x > 0.3:
            self.hits += 1
            self.x = self.x * 0.5


@dataclasses.dataclass
class Account:
    total: float
    rate: float = 0.05
    days: int = 0

    def grow(self, x):
        if self.total > x:
            self.total = self.total * (1.0 - self.rate)
            self.days += 1
        return self.total


@dataclasses.dataclass(frozen=True)
class Physics:
    drag: float
    mass: float = 2.0

    def force(self, v):
        return -self.drag * v * abs(v) / self.mass if v > 0.1 else -self.drag * v


class Settings(NamedTuple):
    limit: float
    factor: float


class Ball:
    def __init__(self, x, v, other=None):
        self.x, self.v, self.other = x, v, other

    def move(self, w):
        self.x = np.sin(self.x + w) * 0.9
        return self

    def push(self, by):
        if self.x > self.other.x:
            self.other.v = self.other.v * 0.9 + by
            self.x, self.other.x = self.other.x, self.x * 0.8

    def __add__(self, y):
        return self.x + y

    def __len__(self):
        return 3

    def __getitem__(self, k):
        return self.v * k


MODEL, NET, HALF = Filter(), Net(), Half()


def kalman(x):
    f, score = Filter(x[0] * 1.0, x[1] * 0.5 + 1.0), x[2] * 0.0
    for k in range(N):
        f.predict(x[1])
        score = score + f.update(W[k], x[2]) + f.level
    return score + f.m + 0.01 * f.updates * x[0]


def derived(x):
    f, score = Half(x[0] * 1.0, x[1] * 0.5 + 1.0), x[2] * 0.0
    for k in range(N):
        f.predict(x[1])
        score = score + f.update(W[k], x[2]) + f.soft(f.m)
    return score + f.m


def static_and_class_methods(x):
    f, s = Filter(x[0] * 1.0, x[1]), x[2]
    for k in range(N):
        s = f.soft(s + W[k]) + f.scaled(s) * 0.5
    return s * f.m


def set_properties(x):
    f, s = Filter(x[0] * 1.0, x[1]), x[2]
    for k in range(N):
        if s > f.level:
            f.level = 0.9 * f.level + 0.01 * s
        s = np.sin(s + W[k])
    return s * f.p


def of_a_global(x):
    s = x[0]
    for k in range(N):
        if s > 0.5 * x[1]:
            s = MODEL.soft(s) * 0.9 + MODEL.level
        s = np.sin(s + W[k]) + HALF.scaled(s) * 0.1
    return s


def closing(f, layer):
    def of_a_closure(x):
        s = x[0]
        for k in range(N):
            if s > 0.5 * x[1]:
                s = f.soft(s) * 0.9
            s = layer(np.sin(s + W[k]) + f.gain)
        return s

    return of_a_closure


def layers(x):
    named, s = {"first": NET.layers[0], "second": Layer(x[1])}, x[0]
    for k in range(N):
        if s > 0.4 * x[1]:
            s = NET.flux(s) * 0.9
        s = np.sin(NET.forward(s) + W[k] * x[2]) + named["second"](s)
    return s


def slots(x):
    p = Slotted(x[0])
    for k in range(N):
        p.step(W[k] * x[1])
    return p.x * x[2] + p.hits * x[1]


def dataclasses_with_methods(x):
    a, physics, v = Account(x[0], 0.1), Physics(x[1]), x[2]
    for k in range(N):
        v = v + 0.1 * physics.force(v) + 0.05 * W[k]
        v = v + 0.01 * a.grow(x[1])
        a.total = a.total + 0.01 * v
    return v + a.total + 0.1 * a.days * x[0]


def named_tuples(x):
    cfg, s = Settings(x[1], 0.5), x[0]
    for k in range(N):
        if s > cfg.limit:
            s = s * cfg.factor
        s = np.sin(s + W[k])
    return s * x[2]


def namespaces(x):
    state = SimpleNamespace(s=x[0], limit=x[1], n=0)
    for k in range(N):
        if state.s > state.limit:
            state.s = state.s * 0.5
            state.n += 1
        state.s = np.sin(state.s + W[k])
    return state.s * x[2] + state.n * x[0]


def bound_methods(x):
    f, s = Filter(x[0] * 1.0, x[1]), x[2]
    predict, update = f.predict, partial(f.update, r=x[2])
    for k in range(N):
        predict(x[1])
        s = s + update(W[k])
    return s + f.p


def two_names(x):
    a = Ball(x[0], x[1])
    b = a
    for k in range(N):
        if a.x > x[1]:
            a.x = a.x * 0.9
        b.move(W[k])
        a.v = np.sin(b.x + W[k])
    return a.x + b.v


def one_holds_the_other(x):
    a, b = Ball(x[0], x[1]), Ball(x[1], x[2])
    a.other, b.other = b, a
    for k in range(N):
        a.push(0.01 * x[0])
        b.move(W[k]).push(0.02 * W[k])
        a.move(W[k] * 0.5)
    return a.x + b.v + a.v + b.x


def helper(p, w):
    if p.x > w:
        p.x = p.x * 0.5
    return p.move(w).x


def handed_to_functions(x):
    p, s = Ball(x[0], x[1]), x[2]

    def half():
        return p.x * 0.5

    for k in range(N):
        s = 0.5 * s + helper(p, W[k] * x[1]) + half()
    return s


def operators(x):
    p, s = Ball(x[0], x[1]), x[2]
    for k in range(N):
        if p + s > len(p) * 0.2 * x[1]:
            s = s * 0.7
        s = np.sin(p[1] + s + W[k])
    return s


def taken_out_in_a_trip(x):
    ps, s = [Ball(x[0], x[1]), Ball(x[1], x[2])], x[2]
    for k in range(N):
        p = ps[0] if k % 2 else ps[1]
        if p.x > s:
            p.x = p.x * 0.9
            p.v += 0.01
        s = np.sin(s + p.move(W[k]).v)
    return s + ps[0].x + ps[1].v


class Private:
    def __init__(self, x):
        self.__x = x

    def step(self, w):
        self.__x = np.sin(self.__x + w)
        if self.__x > 0.2:
            self.__x = self.__x * 0.5
        return self.__x


def private_names(x):
    p, s = Private(x[0]), x[1]
    for k in range(N):
        s = 0.9 * s + p.step(W[k] * x[2])
    return s


def in_tails(x):
    f, s = Filter(x[0], x[1]), x[2]
    if s > 0.5:
        s = f.soft(s)
    if f.scaled(s) > 0.1:
        return s * f.level
    return s * s + f.gain


class Solver:
    def residual(self, u, x):
        return u * u * u + x[1] * u - x[0] - 1.0

    def solve(self, x):
        u = x[2]
        for _ in range(40):
            r = self.residual(u, x)
            if abs(r) < 1e-13:
                break
            u = u - r / (3.0 * u * u + x[1])
        return u


CHOOSING = (
    kalman, derived, static_and_class_methods, set_properties, of_a_global,
    closing(Filter(), Layer(0.2)), layers, slots, dataclasses_with_methods, named_tuples,
    namespaces, bound_methods, two_names, one_holds_the_other, handed_to_functions, operators,
    taken_out_in_a_trip, private_names, Solver().solve,
)  # fmt: skip


@pytest.mark.parametrize("f", [*CHOOSING, in_tails])
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [own.refusals | own.sources for own in drivers] == [{}] * len(drivers)
    assert len(traces) <= (2 if f is in_tails else 1)
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)


# ------------------------------------------------------------------------ objects of the user's


class Model:
    shared = 0.5

    def __init__(self):
        self.total, self.count, self.scale = 0.0, 0, 2.0
        self.weights, self.last = np.array([0.3, 0.4, 0.5]), None
        self.log, self.inner, self.on = [], Ball(0.25, 0.5), False
        self.single, self.whole = np.float32(0.5), np.int64(2)

    def gate(self, s):
        return s * 0.5 * self.scale if s > 0.2 else s

    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = self.step(s)
            s = np.sin(s + W[k])
        return s * (1.0 + self.total)


class Summing(Model):
    def step(self, s):
        self.total += s
        return self.gate(s)


class Counting(Model):
    def step(self, s):
        self.count += 1
        return self.gate(s)


class Flagging(Model):
    def step(self, s):
        self.on = not self.on
        return self.gate(s) * (0.9 if self.on else 1.0)


class Remembering(Model):
    def step(self, s):
        self.last = s
        return self.gate(s)


class NewAttribute(Model):
    def step(self, s):
        self.best = s
        return self.gate(s)


class Replacing(Model):
    def step(self, s):
        self.weights = self.weights * 0.9
        return self.gate(s) + self.weights[0]


class InPlace(Model):
    def step(self, s):
        self.weights[0] = s
        return self.gate(s) + self.weights[1]


class InPlaceByAnotherName(Model):
    def step(self, s):
        w = self.weights
        w *= 0.9
        return self.gate(s) + self.weights[1]


class HoldsAnothersArray(Model):
    def step(self, s):
        self.last = self.weights
        return self.gate(s) + self.last[1]


class ArraysOfTwoNames(Model):
    def loss(self, x):
        self.weights = x * 1.0
        self.inner.v = self.weights
        s = super().loss(x)
        return s + np.sum(self.weights) + np.sum(self.inner.v)

    def step(self, s):
        self.weights[0] = s
        return self.gate(s) + 0.1 * self.inner.v[0]


class ArraysMadeInside(Model):
    def loss(self, x):
        self.weights = x * 1.0
        return super().loss(x) + np.sum(self.weights)

    def step(self, s):
        self.weights[0] = 0.5 * s
        return self.gate(s) + 0.1 * self.weights[0]


class TwoNames(Model):
    def loss(self, x):
        self.friend = self
        return super().loss(x)

    def step(self, s):
        self.total += s
        return self.gate(s) + 0.01 * self.friend.total


class Inner(Model):
    def step(self, s):
        self.inner.move(s).v = s
        return self.gate(s) + 0.1 * self.inner.x


class Swapping(Model):
    def step(self, s):
        self.total, self.inner.x = self.inner.x, s
        return self.gate(s)


class ReplacingObjects(Model):
    def step(self, s):
        self.inner = Ball(s, s)
        return self.gate(s) + self.inner.x


class SwappingObjects(Model):
    def loss(self, x):
        self.other = Ball(x[0], x[1])
        return super().loss(x) + self.other.x

    def step(self, s):
        self.inner, self.other = self.other, self.inner
        self.inner.x = s
        return self.gate(s)


class Appending(Model):
    def step(self, s):
        self.log.append(s)
        return self.gate(s)


class OfClass(Model):
    def step(self, s):
        self.shared += 1.0
        return self.gate(s) * self.shared


class OnClass(Model):
    calls = 0

    def step(self, s):
        OnClass.calls += 1
        return self.gate(s)


class ByType(Model):
    def step(self, s):
        type(self).shared = 0.5
        return self.gate(s) * self.shared


class ClassMethod(Model):
    @classmethod
    def note(cls, s):
        cls.last_noted = 1
        return s

    def step(self, s):
        return self.note(self.gate(s))


class Raising(Model):
    def step(self, s):
        self.total += s
        if s > 1.01:
            raise ValueError("far")
        return self.gate(s)


class RaisingBehind(Model):
    def loss(self, x):
        s = super().loss(x)
        if self.total > 3.0:
            raise ValueError("far")
        return s

    def step(self, s):
        self.total += s
        self.count += 1
        return self.gate(s)


class Defaulting(Model):
    def __getattr__(self, name):
        if name == "missing":
            return 0.125
        raise AttributeError(name)

    def step(self, s):
        self.total += self.missing
        return self.gate(s)


class Watched(Model):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "writes", getattr(self, "writes", 0) + 1)

    def step(self, s):
        self.total = s
        return self.gate(s)


class Level:
    """A descriptor that counts."""

    def __get__(self, instance, kind=None):
        instance.__dict__["reads"] = instance.__dict__.get("reads", 0) + 1
        return 0.5


class Descriptor(Model):
    level = Level()

    def step(self, s):
        self.total = s * self.level
        return self.gate(s)


class Overridden(Model):
    def __init__(self):
        super().__init__()
        self.gate = lambda s: s * 0.25 if s > 0.2 else s * self.scale

    def step(self, s):
        self.total += s
        return self.gate(s)


class Recursive(Model):
    def halved(self, s):
        return self.halved(s * 0.5) if s > 0.3 else s

    def step(self, s):
        self.total += 0.1
        return self.halved(s)


class FunctionAttributes(Model):
    def __init__(self):
        super().__init__()
        self.rule = helper_rule

    def step(self, s):
        self.rule.calls = 1
        return self.rule(s)


def helper_rule(s):
    return s * 0.5


class OtherTypes(Model):
    def step(self, s):
        self.total = self.single * 2
        self.count = self.whole
        return self.gate(s) * self.single


class BecomesAnInt(Model):
    def step(self, s):
        self.total = 1
        return self.gate(s)


class Cached(Model):
    def step(self, s):
        if self.last is None:
            self.last = self.scale * 0.25
        return self.gate(s) * self.last


class Listed(Model):
    def loss(self, x):
        self.log = [x[0], x[1]]
        return super().loss(x) + self.log[0]

    def step(self, s):
        self.log[0] = s
        self.log[1] += 0.1
        return self.gate(s) + 0.1 * self.log[1]


class ListsOfTwoNames(Model):
    def loss(self, x):
        self.log = [x[0], x[1]]
        self.inner.v = self.log
        return super().loss(x) + self.log[0] + self.inner.v[1]

    def step(self, s):
        self.log[0] = s
        return self.gate(s) + 0.1 * self.inner.v[0]


class ObjectsInLists(Model):
    def __init__(self):
        super().__init__()
        self.log = [Ball(0.1, 0.2), Ball(0.3, 0.4)]

    def step(self, s):
        self.log[0].x, self.log[1].v = self.log[1].v, s
        for ball in self.log:
            ball.v = ball.v * 0.9
        return self.gate(s)


class ReturningItself(Model):
    def add(self, s):
        self.total = self.total + s
        return self

    def step(self, s):
        return self.gate(self.add(s).add(0.1).total)


class SlotsAndDict(Slotted):
    def __init__(self):
        super().__init__(0.5)
        self.extra = 0.0

    def loss(self, x):
        for k in range(N):
            self.step(W[k] * x[1])
            self.extra = self.extra + 0.1 * self.x
        return self.x * x[0] + self.extra


MODELS = (
    Summing, Counting, Flagging, Remembering, NewAttribute, Replacing, InPlace,
    InPlaceByAnotherName, HoldsAnothersArray, ArraysOfTwoNames, ArraysMadeInside, TwoNames, Inner,
    Swapping, ReplacingObjects, SwappingObjects, Appending, OfClass, OnClass, ByType, ClassMethod,
    Raising, RaisingBehind, Defaulting, Watched, Descriptor, Overridden, Recursive,
    FunctionAttributes, OtherTypes, BecomesAnInt, Cached, Listed, ListsOfTwoNames, ObjectsInLists,
    ReturningItself, SlotsAndDict,
)  # fmt: skip


def state(value, seen=()):
    """All that an object holds, with the types of its numbers."""
    if isinstance(value, (Model, Slotted, Ball)):
        if any(value is s for s in seen):
            return "seen"
        names = [*getattr(value, "__dict__", ()), *getattr(type(value), "__slots__", ())]
        names += ["hits", "x"] if isinstance(value, Slotted) else []
        own = {n: getattr(value, n) for n in sorted({*names}) if n not in ("gate", "rule")}
        return {name: state(v, (*seen, value)) for name, v in own.items()}
    return [state(v, seen) for v in value] if isinstance(value, list) else value


def assert_same(a, b):
    """Assert that states are equal up to rounding."""
    assert type(a) is type(b)
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key, value in a.items():
            assert_same(value, b[key])
    elif isinstance(a, list):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_same(left, right)
    elif a is not None and not isinstance(a, str):
        np.testing.assert_allclose(a, b, **CLOSE)


def outcome(call, x):
    try:
        return call(x.copy())
    except ValueError as error:
        return str(error).partition("\n")[0]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("kind", MODELS)
def test_objects_end_as_plain_code_leaves_them(kind, monkeypatch):
    counted(monkeypatch, choosing=True)
    if kind is OtherTypes:  # which gives float32
        monkeypatch.delenv("FDIFF_TIER")
    plain, own, reference = kind(), kind(), kind()
    call = fdiff.value_and_grad(own.loss)
    for x in (*POINTS, *POINTS[:2]):
        expected = outcome(plain.loss, x)
        result = outcome(call, x)
        assert_same(state(own), state(plain))
        if isinstance(result, tuple):
            np.testing.assert_allclose(result[0], expected, **CLOSE)
            slope = unrolled(fdiff.grad, reference.loss, x, monkeypatch)
            np.testing.assert_allclose(result[1], slope, rtol=1e-9, atol=1e-11)
        else:
            assert "far" in str(expected)
            assert "far" in result
            outcome(reference.loss, x)
    assert OnClass.calls == 0 or kind is OnClass
    OnClass.calls = 0
    gc.collect()


# ------------------------------------------------------------------------ operators, changes


OPERATORS = {
    "jit": (fdiff.jit, 1e-12),
    "jacfwd": (lambda f: fdiff.jacobian(f, mode="forward"), 1e-9),
    "hessian": (fdiff.hessian, 1e-8),
    "jvp": (lambda f: lambda x: fdiff.jvp(f, (x,), (np.cos(x),))[1], 1e-9),
}


OF_OPERATORS = [kalman, of_a_global, one_holds_the_other, Net().flux]


@pytest.mark.parametrize("f", OF_OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators(f, name, monkeypatch):
    operator, close = OPERATORS[name]
    g = f if f.__name__ != "flux" else lambda x: f(x[0]) * f(x[1] - 0.3) + f(x[2])
    call = operator(g)
    counted(monkeypatch, choosing=True)
    for x in POINTS:
        expected = unrolled(operator, g, x, monkeypatch)
        np.testing.assert_allclose(call(x), expected, rtol=close, atol=close)


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", [kalman, layers])
def test_vmap(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    call, xs = fdiff.vmap(fdiff.grad(f)), np.array(POINTS)
    for k in range(3):
        own = np.roll(xs, k, axis=0) * (1 + 0.1 * k)
        expected = [exact(fdiff.grad, f, x, monkeypatch) for x in own]
        np.testing.assert_allclose(call(own), expected, rtol=1e-9, atol=1e-11)


class Changing:
    factor, limit = 0.5, 0.4

    def __init__(self):
        self.shift = 0.1

    def step(self, s):
        return s * self.factor if s > self.limit else s + self.shift

    def loss(self, x):
        s = x[0]
        for k in range(N):
            s = np.sin(self.step(s) + W[k] * x[1])
        return s * x[2]


def test_changes_between_calls_are_seen(monkeypatch):
    counted(monkeypatch, choosing=True)
    own = Changing()
    call, before = fdiff.jit(own.loss), Changing.step
    changes = (
        lambda: setattr(own, "shift", 0.3),
        lambda: setattr(Changing, "limit", 0.2),
        lambda: setattr(own, "factor", 0.7),
        lambda: setattr(own, "step", lambda s: s * 0.25 + own.shift),
        lambda: delattr(own, "step"),
        lambda: setattr(Changing, "step", lambda self, s: s * 0.3 if s > 0.1 else s),
        lambda: setattr(own, "__class__", type("Other", (Changing,), {"step": before})),
        lambda: setattr(own, "shift", np.array(0.2)),
    )
    try:
        for change in changes:
            for x in POINTS[:2]:
                np.testing.assert_allclose(call(x), own.loss(x), **CLOSE)
            change()
        np.testing.assert_allclose(call(POINTS[2]), own.loss(POINTS[2]), **CLOSE)
    finally:
        Changing.step, Changing.limit = before, 0.4


def test_two_threads(monkeypatch):
    counted(monkeypatch, choosing=True)
    model, wrong = Summing(), []
    shared = Changing()
    call = fdiff.jit(shared.loss)

    def work(seed):
        own = Summing()
        each, random = fdiff.jit(own.loss), np.random.default_rng(seed)
        plain = Summing()
        for _ in range(6):
            x = random.uniform(0.2, 1.3, 3)
            wrong.append(abs(each(x) - plain.loss(x)) > 1e-10)
            wrong.append(abs(call(x) - shared.loss(x)) > 1e-10)
            wrong.append(abs(own.total - plain.total) > 1e-10)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not any(wrong)
    assert len(wrong) == 54
    assert model.total == 0.0


def test_an_error_in_a_method_leaves_objects_as_they_were(monkeypatch):
    counted(monkeypatch, choosing=True)
    own = Summing()

    class StopError(Exception):
        pass

    def stopping(self, s, step=Summing.step):
        raise StopError

    call = fdiff.jit(own.loss)
    call(POINTS[0])
    before = state(own)
    monkeypatch.setattr(Summing, "step", stopping)
    with pytest.raises(StopError):
        call(POINTS[1])
    assert_same(state(own), before)
    monkeypatch.undo()


class Sums:
    def __init__(self):
        self.width = 4

    def bound(self, k):
        return 0.5 * k if k > 40 else k

    def loss(self, x):
        s = x[0]
        for k in range(N):
            b = k // self.width
            if s > 5.0:
                b = 0.5 * k
            for j in range(b):
                if s > x[1]:
                    s = s * 0.9
                s = s + 0.001 * j * W[k]
            s = np.sin(s + W[k])
        return s

    def fails(self, x):
        s = x[0]
        for k in range(N):
            b = k // self.width
            if s > 0.9 * x[1]:
                b = 0.5 * k
            for j in range(b):
                s = s * 0.9 + 0.01 * j
            s = np.sin(s + W[k])
        return s


@pytest.mark.slow
def test_bounds_of_ranges_in_methods(monkeypatch):
    counted(monkeypatch, choosing=True)
    own = Sums()
    call = fdiff.value_and_grad(own.loss)
    for x in POINTS:
        value, slope = call(x)
        np.testing.assert_allclose(value, own.loss(x), **CLOSE)
        expected = unrolled(fdiff.grad, own.loss, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-9, atol=1e-11)
        with pytest.raises(TypeError):
            own.fails(x)
        with pytest.raises(TypeError):
            fdiff.jit(own.fails)(x)


class Shadowed:
    """An attribute of the object that a property of the class hides."""

    def __init__(self):
        self.__dict__["level"] = 3.0
        self.depth = 0.5

    @property
    def level(self):
        return self.depth

    @level.setter
    def level(self, value):
        self.depth = value

    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                self.level = 0.9 * self.level + 0.01 * s
            s = np.sin(s + W[k]) * self.level
        return s


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_properties_before_attributes(monkeypatch):
    counted(monkeypatch, choosing=True)
    plain, own = Shadowed(), Shadowed()
    call = fdiff.jit(own.loss)
    for x in POINTS:
        np.testing.assert_allclose(call(x), plain.loss(x), **CLOSE)
        assert_same(vars(own), vars(plain))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed):
    text = random_choosing_loops.program(random.Random(seed), "methods")
    assert not random_choosing_loops.failure(text, seed)


def test_other_attributes_are_not_read(monkeypatch):
    traces, _ = counted(monkeypatch, choosing=True)

    class Wide(Changing):
        unread = 1.0

        def other(self, s):
            return s * self.unread

    own = Wide()
    call = fdiff.jit(own.loss)
    for k, x in enumerate(POINTS):
        Wide.unread, own.unasked = float(k), k
        np.testing.assert_allclose(call(x), own.loss(x), **CLOSE)
    assert len(traces) == 1
