"""Loops and statements that choose their branches, and store attributes of objects."""

import dataclasses
import gc
from abc import ABC

import numpy as np
import pytest
from test_choosing_loops import POINTS, N, W, counted, exact, unrolled

import fdiff

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


class Particle:
    def __init__(self, x, v):
        self.x, self.v, self.hits = x, v, 0


@dataclasses.dataclass
class Record:
    x: float
    total: float = 0.0


class Shape(ABC):  # noqa: B024 - it has an empty ``__slots__``
    def __init__(self, side):
        self.side = side


@dataclasses.dataclass(frozen=True)
class Settings:
    limit: float
    factor: float = 0.5


def particle(x):
    p = Particle(x[0], x * 1.0)
    for k in range(N):
        if p.x > x[1]:
            p.x = p.x * 0.5
            p.hits += 1
        p.v = np.cos(p.v) * 0.9
        p.v[0] = p.x * 0.1
        p.x = np.sin(p.x + W[k]) + p.v[1]
    return p.x + np.sum(p.v) + 0.1 * p.hits * x[2]


def record(x):
    d = Record(x[0], x[1] * 0.0)
    for k in range(N):
        if d.x > x[1]:
            d.x = d.x * 0.5
            d.total += d.x
        d.x = np.sin(d.x + W[k])
    return d.x * x[2] + d.total


def two_particles(x):
    a, b = Particle(x[0], x[1]), Particle(x[1], x[2])
    for k in range(N):
        if a.x > b.x:
            a.x, b.x = b.x, a.x * 0.9
        a.v = np.sin(a.v + W[k]) * b.v
    return a.x + 2.0 * b.x + a.v


def particles_in_a_list(x):
    ps = [Particle(x[0], x[1]), Particle(x[1], x[2])]
    for k in range(N):
        if ps[0].x > ps[1].x:
            ps[0].x = ps[0].x * 0.9
        ps[1].v = np.sin(ps[0].v + W[k]) + 0.1 * ps[0].x
    return ps[0].x + ps[1].v


def parts(x):
    p = Particle(Particle(x[0], x[1]), x[2])
    for k in range(N):
        if p.x.x > p.v:
            p.x.x = p.x.x * 0.5
        p.x.v = np.sin(p.x.x + W[k])
        p.v = 0.9 * p.v + 0.1 * p.x.v
    return p.x.x + p.x.v + p.v


def settings(x):
    cfg, p = Settings(x[1]), Particle(x[0], x[2])
    for k in range(N):
        if p.x > cfg.limit:
            p.x = p.x * cfg.factor
        p.x = np.sin(p.x + W[k]) * p.v
    return p.x + p.v


def while_moving(x):
    s = Shape(x[0] + 1.5)
    while s.side > 0.2 * x[1]:
        s.side = s.side * 0.7 if s.side > 0.5 else s.side - 0.05
    return s.side * x[2]


def statements(x):
    p = Particle(x[0], x[1])
    if p.x > 0.5:
        p.hits += 1
        p.x = p.x * 2
    if p.x > 0.7:
        p.v = p.x * 3
    for k in range(N):
        p.x = np.sin(p.x + W[k]) if p.x > p.v else p.x * 0.9
    return p.x + p.v + p.hits * x[2]


class Tank:
    def __init__(self, level):
        self.level, self.inflow = level, np.zeros(3)

    def fill(self, more):
        self.level = 0.9 * self.level + more
        self.inflow.fill(more)


def tanks(x):
    tank, s, seen = Tank(x[0]), x[1], np.zeros(2)
    for k in range(N):
        if s > 0.3:
            tank.fill(0.1 * s)
            tank.inflow[k % 3] += 0.1 * x[2]
        elif s < 0.0:
            tank.inflow.fill(0.1)
            seen.fill(s)
        s = np.sin(s + W[k]) + 0.1 * tank.inflow[1]
    return s + tank.level + np.sum(seen)


class Ball:
    def __init__(self, q, v, mass):
        self.q, self.v, self.mass = q, v, mass

    def update(self, dt, stiffness):
        self.q = self.q + dt * self.v
        if self.q > 0.6:
            self.q, self.v = 1.2 - self.q, -self.v
        self.v = self.v - dt * stiffness * self.q / self.mass

    def energy(self):
        return 0.5 * self.mass * self.v**2


def balls_in_a_list(x):
    balls = [Ball(x[0], x[1], 1.0), Ball(x[1], x[2], 1.5)]
    for _ in range(N):
        for ball in balls:
            ball.update(0.05, x[1])
    return sum(ball.energy() for ball in balls)


def pairs_of_balls(x):
    balls = [Ball(x[0], x[1], 1.0), Ball(x[1], x[2], 1.5), Ball(x[2], x[0], 2.0)]
    total = 0.0
    for k in range(N // 4):
        for i, ball in enumerate(balls):
            force = 0.0
            for j, other in enumerate(balls):
                if i != j:
                    d = other.q - ball.q
                    force = force + (d if abs(d) < 0.5 else 0.25 / d)
            ball.v = ball.v + 0.02 * force / ball.mass
        for ball in balls:
            ball.update(0.02, x[1] * W[k])
        total = total + sum(ball.energy() for ball in balls)
    return total


CHOOSING = (
    particle, record, two_particles, particles_in_a_list, parts, settings, while_moving, statements,
    tanks,
    balls_in_a_list, pairs_of_balls,
)  # fmt: skip


@pytest.mark.parametrize("f", CHOOSING)
def test_one_trace_holds_for_all_paths(f, monkeypatch):
    traces, drivers = counted(monkeypatch, choosing=True)
    both = fdiff.value_and_grad(f)
    results = [both(x) for x in POINTS]
    assert [own.refusals for own in drivers] == [{}] * len(drivers)
    assert len(traces) <= (2 if f is statements else 1)
    for x, (value, slope) in zip(POINTS, results, strict=True):
        np.testing.assert_allclose(value, f(x), **CLOSE)
        expected = exact(fdiff.grad, f, x, monkeypatch)
        np.testing.assert_allclose(slope, expected, rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------------ objects of the user's


class Model:
    shared = 0

    def __init__(self):
        self.total, self.count, self.scale = 0.0, 0, 2.0
        self.weights, self.last = np.array([0.3, 0.4, 0.5]), None
        self.log, self.inner = [], Particle(0.25, 0.5)


class Summing(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5 * self.scale
                self.total += s
            s = np.sin(s + W[k]) + self.weights[1]
        return s * self.total


class Counting(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.count += 1
            s = np.sin(s + W[k])
        return s * (1.0 + 0.1 * self.count)


class OneArm(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > 1.2 * x[1]:
                s = s * 0.5
                self.best = s
            s = np.sin(s + W[k])
        return s


class Both(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                self.best = s * 0.5
            else:
                self.best = s + 0.1
            s = np.sin(self.best + W[k])
        return s * self.best


class InPlace(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.weights[0] = 0.9 * self.weights[0]
            self.weights *= 0.99
            s = np.sin(s + W[k]) + self.weights[0]
        return s


class Replacing(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.weights = self.weights * 0.9
            s = np.sin(s + W[k]) + self.weights[0]
        return s


class OfClass(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.shared += 1
            s = np.sin(s + W[k])
        return s


class Aliased(Model):
    def loss(self, x):
        s, other = x[0], self
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.total += s
            s = np.sin(s + W[k]) + 0.01 * other.total
        return s


class AliasedArrays(Model):
    def loss(self, x):
        s = x[0]
        self.inner.x = self.weights
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.weights[0] = s
            s = np.sin(s + W[k]) + 0.01 * self.inner.x[0]
        return s


class Inner(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.inner.x = self.inner.x + s
            s = np.sin(s + W[k]) + 0.01 * self.inner.x
        return s


class Appending(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
            s = np.sin(s + W[k])
            self.log.append(s)
        return s


class ListInPlace(Model):
    def loss(self, x):
        s = x[0]
        self.log[:] = [s, s]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.log[0] = s
            s = np.sin(s + W[k]) + 0.1 * self.log[0]
        return s


class Calling(Model):
    def note(self, s):
        self.total += s
        return s

    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = self.note(s) * 0.5
                self.count += 1
            s = np.sin(s + W[k])
        return s * self.total


class Property(Model):
    @property
    def level(self):
        return self.total

    @level.setter
    def level(self, value):
        self.total = value
        self.count += 1

    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.level = s
            s = np.sin(s + W[k])
        return s


class Watched(Model):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "writes", getattr(self, "writes", 0) + 1)

    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.total = s
            s = np.sin(s + W[k])
        return s


class Defaulting(Model):
    def __getattr__(self, name):
        if name == "missing":
            return 0.125
        raise AttributeError(name)

    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5 + self.missing
                self.total = s
            s = np.sin(s + W[k])
        return s


class Slots:
    __slots__ = ("count", "total")

    def __init__(self):
        self.total, self.count = 0.0, 0

    loss = Summing.loss


class Slotted(Slots):
    __slots__ = ("scale", "weights")

    def __init__(self):
        super().__init__()
        self.scale, self.weights = 2.0, np.array([0.3, 0.4, 0.5])


class Raising(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            self.total += s
            if s > 2.4 * x[1]:
                raise ValueError("far")
            s = np.sin(s + W[k]) + 0.3
        return s


class Flags(Model):
    def loss(self, x):
        s = x[0]
        self.on = False
        for k in range(N):
            if s > x[1]:
                self.on = not self.on
            s = np.sin(s + W[k]) * (0.9 if self.on else 1.0)
        return s


class Statement(Model):
    def loss(self, x):
        if x[0] > x[1]:
            self.total = x[0] * 2.0
            self.count += 1
        if x[2] > 0.6:
            self.last = x[2]
        return self.total * x[1]


class NewTypes(Model):
    def loss(self, x):
        s = x[0]
        for k in range(N):
            if s > x[1]:
                s = s * 0.5
                self.last = k
            s = np.sin(s + W[k])
        return s


MODELS = (
    Summing, Counting, OneArm, Both, InPlace, Replacing, OfClass, Aliased, AliasedArrays, Inner,
    Appending, ListInPlace, Calling, Property, Watched, Defaulting, Slotted, Raising, Flags,
    Statement, NewTypes,
)  # fmt: skip


def state(value):
    """All that an object holds, with the types of its numbers."""
    if isinstance(value, (Model, Slots, Particle)):
        names = [*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())]
        names += ["total", "count"] if isinstance(value, Slots) else []
        return {name: state(getattr(value, name)) for name in sorted(names)}
    return [state(v) for v in value] if isinstance(value, list) else value


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
    elif a is not None:
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
    plain, own, reference = kind(), kind(), kind()
    arrays = getattr(own, "weights", None)
    call = fdiff.value_and_grad(own.loss)
    for x in POINTS * 2:
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
    if kind is not Replacing:
        assert getattr(own, "weights", None) is arrays
    gc.collect()


# ------------------------------------------------------------------------ objects made in `f`


def aliased(x):
    a = Particle(x[0], x[1])
    b = a
    for k in range(N):
        if a.x > x[1]:
            a.x = a.x * 0.9
        a.v = np.sin(b.x + W[k])
    return a.x, b.v, a.hits


def shared_array(x):
    a, b = Particle(x[0], x * 1.0), Particle(x[1], x[2])
    b.v = a.v
    for k in range(N):
        if a.x > x[1]:
            a.v[0] = a.x * 0.9
        a.x = np.sin(b.v[0] + W[k])
    return a.x, a.v, b.v


def swapped(x):
    a, b = Particle(x[0], x[1]), Particle(x[1], x[2])
    first = a
    for k in range(N):
        if a.x > b.x:
            a, b = b, a
        a.x = np.sin(a.x + W[k])
    return a.x, b.x, first.x


def swapped_parts(x):
    a = Particle(Particle(x[0], x[1]), Particle(x[1], x[2]))
    for k in range(N):
        if a.x.x > a.v.x:
            a.x, a.v = a.v, a.x
        a.x.x = np.sin(a.x.x + W[k])
    return a.x.x, a.v.x


def twice_in_a_list(x):
    p = Particle(x[0], x[1])
    ps = [p, p]
    for k in range(N):
        if ps[0].x > x[1]:
            ps[0].x = ps[0].x * 0.9
        ps[1].v = np.sin(ps[1].x + W[k])
    return p.x, p.v


def loop_over_objects(x):
    ps = [Particle(x[k % 3] * W[k], x[1]) for k in range(N)]
    s = x[0]
    for p in ps:
        if p.x > s:
            p.x = p.x * 0.5
            p.hits += 1
        s = np.sin(s + p.x)
    return s, ps[3].x, sum(p.hits for p in ps)


def given_to_a_function(x):
    p = Particle(x[0], x[1])

    def grown(q):
        return q.x * 0.5

    for k in range(N):
        if p.x > x[1]:
            p.x = grown(p)
        p.x = np.sin(p.x + W[k])
    return p.x


def read_by_a_function(x):
    p = Particle(x[0], x[1])

    def half():
        return p.x * 0.5

    for k in range(N):
        if p.x > x[1]:
            p.x = half()
        p.x = np.sin(p.x + W[k])
    return p.x, p.hits


def keeps_the_object(x):
    p, kept = Particle(x[0], x[1]), []
    kept.append(p)
    for k in range(N):
        if p.x > x[1]:
            p.x = p.x * 0.5
        p.x = np.sin(p.x + W[k]) + 0.1 * kept[0].x
    return p.x, kept[0].x


def list_with_another_name(x):
    p, s = Particle([x[0], x[1]], x[2]), x[2]
    ys = p.x
    for k in range(N):
        if s > x[1]:
            ys[0] = s * 0.5
        s = np.sin(s + p.x[0] + W[k])
    return p.x[0], ys[1], s


def grown_by_another_name(x):
    p, s = Particle([x[0], x[1]], x[2]), x[2]
    ys = p.x
    for k in range(N):
        if s > x[1]:
            s = s * 0.5
        s = np.sin(s + p.x[-1] + W[k])
        ys.append(s)
    return p.x[-1], ys[1], len(p.x), s


def array_with_another_name(x):
    p, s = Particle(x * 1.0, x[2]), x[2]
    u = p.x
    for k in range(N):
        if s > x[1]:
            u[0] = s * 0.5
        s = np.sin(s + p.x[0] + W[k])
    return p.x, u, s


def tuple_of_objects(x):
    ps = (Particle(x[0], x[1]), Particle(x[1], x[2]))
    q = ps[1]
    for k in range(N):
        if ps[0].x > x[1]:
            ps[1].x = ps[0].x * 0.5
        ps[0].x = np.sin(ps[1].x + W[k])
    return q.x, ps[0].x


def read_through_a_list(x):
    p = Particle(x[0], x[1])
    ps = [p, Particle(x[2], x[0])]
    for k in range(N):
        if ps[0].x > ps[1].x:
            p.x = p.x * 0.5
        ps[1].x = np.sin(ps[0].x + W[k])
    return p.x, ps[0].x, ps[1].x


def missing_at_first(x):
    p = Particle(x[0], x[1])
    for k in range(N):
        if p.x > x[1]:
            p.x = p.x * 0.5
            p.best = p.x
        p.x = np.sin(p.x + W[k])
    return p.x, getattr(p, "best", None)


def becomes_another_type(x):
    p = Particle(x[0], 1)
    for k in range(N):
        if p.x > x[1]:
            p.x = p.x * 0.5
            p.v = p.v + 0.5
        p.x = np.sin(p.x + W[k])
    return p.x, p.v


def attribute_of_an_array(x):
    u, s = x * 1.0, x[0]
    for k in range(N):
        if s > x[1]:
            u.flat[1] = s * 0.5
        s = np.sin(s + u[1] + W[k])
    return s, u


def unread_but_missing(x):
    p, s = Particle(x[0], x[1]), x[2]
    for k in range(N):
        if s > 50.0:
            s = p.nothing
        s = np.sin(s + W[k] + p.x)
    return s


def balls_that_leave(x):
    balls = [Ball(x[0], x[1], 1.0 + k) for k in range(3)]
    for k in range(N // 4):
        for ball in balls:
            ball.update(0.05, x[1] + W[k])
        if len(balls) > 2 and balls[-1].q > 0.5:
            balls.pop()
    return sum(ball.energy() for ball in balls) + len(balls)


def updates_dicts(x):
    rows = [{"a": x[0]}, {"a": x[1]}]
    for k in range(N):
        for row in rows:
            row.update(a=0.5 * row["a"] if row["a"] > x[2] else row["a"] + 0.1 * W[k])
    return rows[0]["a"] + rows[1]["a"]


def last_ball(x):
    balls, ball = [Ball(x[0], x[1], 1.0), Ball(x[1], x[2], 1.5)], None
    for k in range(N):
        for ball in balls:
            ball.update(0.05, x[1])
        ball.v = ball.v * 0.9 if ball.q > x[2] * W[k] else ball.v
    return ball.energy() + balls[0].q


OTHERS = (
    balls_that_leave, updates_dicts, last_ball,
    aliased, shared_array, swapped, swapped_parts, twice_in_a_list, loop_over_objects,
    list_with_another_name, grown_by_another_name, array_with_another_name, tuple_of_objects,
    read_through_a_list, given_to_a_function, read_by_a_function, keeps_the_object,
    missing_at_first, becomes_another_type, attribute_of_an_array, unread_but_missing,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("f", OTHERS)
def test_what_python_may_tell_apart_is_right(f, monkeypatch):
    counted(monkeypatch, choosing=True)
    call = fdiff.jit(f)
    total = lambda x: sum(np.sum(v * np.float64(1.0)) for v in parts_of(f(x)))
    slope = fdiff.grad(total)
    for x in POINTS:
        expected = f(x.copy())
        assert_same([*parts_of(call(x.copy()))], [*parts_of(expected)])
        if None not in [v for v in parts_of(expected) if v is None]:
            expected = exact(fdiff.grad, total, x, monkeypatch)
            np.testing.assert_allclose(slope(x), expected, rtol=1e-9, atol=1e-11)


def parts_of(result):
    return result if isinstance(result, tuple) else (result,)


def test_objects_that_a_closure_holds(monkeypatch):
    counted(monkeypatch, choosing=True)

    def run(operator):
        model = Model()

        def f(x):
            s = x[0]
            for k in range(N):
                if s > x[1]:
                    s = s * 0.5
                    model.total += s
                s = np.sin(s + W[k])
            return s * model.total

        call = operator(f)
        return [call(x) for x in POINTS], state(model)

    plain, own = run(lambda f: f), run(fdiff.jit)
    np.testing.assert_allclose(own[0], plain[0], **CLOSE)
    assert_same(own[1], plain[1])
