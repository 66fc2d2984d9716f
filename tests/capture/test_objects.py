# ruff: noqa: B008, FURB192, PLW1641 - classes as they are written
"""Objects of user classes: their methods run privately, their attributes are compared."""

import abc
import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import gc
import inspect
import threading
import types
import typing
import warnings
import weakref

import numpy as np
import pytest

import fdiff
from fdiff.errors import RetraceWarning

X = np.array([0.5, 1.0, 2.0])
STEP = 1e-30


def derivative(f, x=X):
    """The gradient of `f` by complex steps or, where the code is real, by differences."""
    out = np.empty_like(x)
    for k in range(x.size):
        h = np.zeros_like(x)
        h[k] = 1e-6
        out[k] = (f(x + h) - f(x - h)) / 2e-6
    return out


def check(f, x=X, rtol=1e-7):
    """Value and gradient twice, without a warning: the second call finds the program."""
    g = fdiff.value_and_grad(f)
    expected, slope = f(x), derivative(f, x)
    for _ in range(2):
        value, found = g(x)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(found, slope, rtol=rtol, atol=1e-8)
    return g


def traces(g, x=X):
    """How often the function is traced in two calls more."""
    seen = []
    original = fdiff.dispatch.program.trace_checking_memos
    fdiff.dispatch.program.trace_checking_memos = lambda *a, **k: (
        seen.append(1),
        original(*a, **k),
    )[1]
    try:
        g(x), g(x)
    finally:
        fdiff.dispatch.program.trace_checking_memos = original
    return len(seen)


# ------------------------------------------------------------------------------------- models


class Model:
    """Parameters and a call."""

    gain = 2.0

    def __init__(self, w, power=2):
        self.w = np.asarray(w, dtype=float)
        self.power = power
        self._cache = None

    def features(self, x):
        out = np.zeros_like(x)
        out[:] = self.w * x**self.power
        return out

    def __call__(self, x):
        return self.gain * np.sum(self.features(x))


class Shifted(Model):
    def __init__(self, w, shift):
        super().__init__(w)
        self.shift = shift

    def features(self, x):
        return super().features(x) + self.shift * np.sin(x)

    @property
    def both(self):
        out = np.empty(3)
        out[:] = self.w + self.shift
        return out

    @classmethod
    def unit(cls, shift):
        return cls(np.ones(3), shift)

    @staticmethod
    def square(x):
        out = np.zeros(x.shape)
        out[...] = x * x
        return out

    @functools.cached_property
    def norm(self):
        return np.sqrt(self.w @ self.w)


class Slots:
    __slots__ = ("__hidden", "w")

    def __init__(self, w):
        self.w = w
        self.__hidden = 2.0

    def value(self, x):
        out = np.zeros(3)
        out += self.w * x**2 * self.__hidden
        return out.sum()


class Solver:
    """Work arrays made in methods."""

    def __init__(self, n, rate):
        self.rate = rate
        self.n = n
        self.steps = 4

    def rhs(self, y):
        work = np.zeros(self.n)
        work[:] = -self.rate * y**2
        return work

    def step(self, y, dt):
        k1 = self.rhs(y).copy()
        k2 = self.rhs(y + 0.5 * dt * k1)
        out = np.empty_like(y)
        out[:] = y + dt * k2
        return out

    def run(self, y):
        for _ in range(self.steps):
            y = self.step(y, 0.1)
        return y


class Stateful:
    def __init__(self):
        self.calls = 0
        self.y = np.zeros(3)

    def run(self, x):
        self.calls += 1
        self.y = np.zeros(3)
        for _ in range(3):
            self.advance(x)
        return self.y.sum()

    def advance(self, x):
        self.y = self.y + x * np.cos(self.y)


class Base(abc.ABC):
    def total(self, x):
        out = np.zeros(3)
        for k in range(3):
            out[k] = self.one(x[k])
        return np.sum(out) + self.offset

    @abc.abstractmethod
    def one(self, v): ...

    @property
    @abc.abstractmethod
    def offset(self): ...


class Cubic(Base):
    offset = 1.5

    def one(self, v):
        return v**3


class Dual:
    """Operators."""

    def __init__(self, a, b=0.0):
        self.a, self.b = a, b

    def __add__(self, other):
        other = other if isinstance(other, Dual) else Dual(other)
        return type(self)(self.a + other.a, self.b + other.b)

    __radd__ = __add__

    def __mul__(self, other):
        if not isinstance(other, Dual):
            other = Dual(other)
        return Dual(self.a * other.a, self.a * other.b + self.b * other.a)

    __rmul__ = __mul__

    def __neg__(self):
        return Dual(-self.a, -self.b)

    def __sub__(self, other):
        return self + -other

    def __getitem__(self, k):
        return (self.a, self.b)[k]

    def __len__(self):
        return 2

    def __iter__(self):
        yield self.a
        yield self.b

    def __eq__(self, other):
        return isinstance(other, Dual) and self.a is other.a and self.b is other.b

    def __contains__(self, value):
        return value in {"a", "b"}

    def __bool__(self):
        return True


class Timer:
    """A context manager."""

    def __init__(self):
        self.inside = 1.0

    def __enter__(self):
        self.scale = np.zeros(1)
        self.scale[0] = 2.0
        return self

    def __exit__(self, *error):
        del self.scale


class Network:
    """Objects in lists and dicts; functions as attributes."""

    def __init__(self, rng):
        self.layers = [Model(rng.normal(size=3), power) for power in (1, 2, 3)]
        self.named = {"out": Shifted(rng.normal(size=3), 0.3)}
        self.activation = np.tanh
        self.callback = lambda x: np.concatenate([x[:1], np.zeros(2)])
        self.log = []

    def __call__(self, x):
        for layer in self.layers:
            x = self.activation(layer.features(x))
        return self.named["out"](x) + self.callback(x).sum()


@dataclasses.dataclass
class Oscillator:
    mass: float = 1.0
    stiffness: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(3))
    history: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.half = 0.5

    def energy(self, q):
        e = np.zeros(3)
        e[:] = self.half * self.stiffness * q**2 / self.mass
        return e.sum()

    @property
    def frequency(self):
        return np.sqrt(self.stiffness / self.mass)


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    x: object
    y: object = 0.0

    def __add__(self, other):
        return Point(self.x + other.x, self.y + other.y)

    def norm2(self):
        out = np.zeros(2)
        out[0], out[1] = self.x, self.y
        return out @ out


class Dynamic:
    """Attributes made up."""

    def __init__(self, **values):
        self._values = values

    def __getattr__(self, name):
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.scale * x**2
        return out.sum() if hasattr(self, "scale") and not hasattr(self, "other") else None


class Validated:
    """A ``__setattr__`` and descriptors of the user's."""

    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner=None):
            return self if instance is None else getattr(instance, self.name)

        def __set__(self, instance, value):
            setattr(instance, self.name, value)

    rate = Positive()

    def __init__(self, rate):
        self.rate = rate

    def __setattr__(self, name, value):
        super().__setattr__(name, value)

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.rate * x**2
        return out.sum()


T = typing.TypeVar("T")


class Boxed(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.value * x
        return (out**2).sum()


class Force(typing.Protocol):
    def f(self, x): ...


class Spring(Force):
    def __init__(self, k):
        self.k = k

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.k * x**2
        return out.sum()


class Left:
    def __init__(self, **keywords):
        self.left = keywords.pop("left")
        super().__init__(**keywords)

    def f(self, x):
        return self.left * np.sum(x)


class Right:
    def __init__(self, **keywords):
        self.right = keywords.pop("right")
        super().__init__(**keywords)

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.right * x**2
        return out.sum()


class Diamond(Left, Right):
    def f(self, x):
        return super().f(x) + super(Left, self).f(x)


class Registered:
    known: typing.ClassVar = []

    def __init_subclass__(cls, **keywords):
        super().__init_subclass__(**keywords)
        cls.known.append(cls)


class Plugin(Registered):
    def f(self, x):
        out = np.zeros(3)
        out[:] = x**2
        return out.sum()


class Sized(collections.abc.Mapping):
    def __init__(self, values):
        self.values_ = values

    def __getitem__(self, key):
        out = np.zeros(3)
        out[:] = self.values_[key]
        return out

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


class Iterated:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        self.i = 0
        return self

    def __next__(self):
        if self.i == self.n:
            raise StopIteration
        self.i += 1
        return self.i


class Tree:
    def __init__(self, value, *children):
        self.value, self.children, self.parent = value, children, None
        for child in children:
            child.parent = self

    def total(self, x):
        out = np.zeros(3)
        out[:] = self.value * x**2
        for child in self.children:
            assert child.parent is self
            out += child.total(x)
        return out


def rng():
    return np.random.default_rng(0)


W = np.array([1.0, -2.0, 3.0])
model, shifted, solver = Model(W), Shifted(W, 0.7), Solver(3, 0.3)
net, oscillator = Network(rng()), Oscillator(2.0, W**2)
old_w = model.w
tree = Tree(1.0, Tree(2.0, Tree(3.0)), Tree(W))
step = solver.step
table = {"m": model, "f": shifted.features, "list": [model, [shifted]]}

WORK = {
    "an object with a call": model,
    "a bound method": shifted.__call__,
    "a method in a lambda": lambda x: np.sum(model.features(x)),
    "inheritance": lambda x: np.sum(shifted.features(x)),
    "a property": lambda x: np.sum(shifted.both * x**2),
    "a static method": lambda x: np.sum(shifted.square(x)) + np.sum(Shifted.square(x)),
    "a class method": lambda x: np.sum(Shifted.unit(0.2).features(x)),
    "a class method of an object": lambda x: np.sum(shifted.unit(0.2).features(x)),
    "a cached property": lambda x: shifted.norm * np.sum(x**2),
    "a method through the class": lambda x: np.sum(Model.features(shifted, x)),
    "an attribute of the class": lambda x: np.sum(x**2) * Model.gain,
    "an object made inside": lambda x: Model(x)(x) + Shifted(x, 0.5)(x),
    "a bound method passed around": lambda x: np.sum(step(x, 0.2)),
    "a partial of a method": lambda x: np.sum(functools.partial(solver.step, dt=0.2)(x)),
    "a method under map": lambda x: np.sum(list(map(model.features, [x, x**2]))[1]),
    "slots": lambda x, s=Slots(W): s.value(x),
    "slots made inside": lambda x: Slots(x).value(x),
    "a solver with work arrays": lambda x: np.sum(solver.run(x)),
    "an abstract base": lambda x: Cubic().total(x) + isinstance(Cubic(), Base),
    "operators": lambda x: sum(Dual(x[0], 1.0) * 3.0 + 2.0 * Dual(x[1], x[2]) - Dual(x[0])),
    "operators of captured objects": lambda x, d=Dual(2.0, 3.0): (d * Dual(x[0], x[1]))[1] ** 2,
    "a network": net,
    "a dataclass": lambda x: oscillator.energy(x) + np.sum(oscillator.frequency * x**2),
    "a dataclass made inside": lambda x: Oscillator(2.0, x).energy(x) + Oscillator().energy(x),
    "replace": lambda x: dataclasses.replace(oscillator, stiffness=x).energy(x),
    "a frozen dataclass with slots": lambda x: (Point(x[0], x[1]) + Point(x[2])).norm2(),
    "made-up attributes": lambda x, d=Dynamic(scale=W): d.f(x),
    "a setattr and descriptors": lambda x, v=Validated(W): v.f(x) + Validated(x).f(x),
    "a generic class": lambda x: Boxed[int](2.0).f(x) + Boxed(W).f(x),
    "a protocol": lambda x, s=Spring(2.0): s.f(x) + isinstance(s, Spring),
    "several bases": lambda x, d=Diamond(left=2.0, right=3.0): d.f(x),
    "several bases made inside": lambda x: Diamond(left=x[0], right=x[1]).f(x),
    "a base that registers": lambda x, p=Plugin(): p.f(x),
    "a mapping": lambda x, m=Sized({"a": 1.0}): np.sum(m["a"] * x) + m.get("a")[0] + len(m),
    "an iterator made inside": lambda x: sum(x[0] ** k for k in Iterated(3)),
    "a tree": lambda x: np.sum(tree.total(x)),
    "objects in containers": lambda x: table["m"](x) + table["list"][1][0](x) + table["f"](x)[0],
    "copies": lambda x: copy.copy(model)(x) + copy.deepcopy(shifted)(x),
    "vars": lambda x: np.sum(vars(model)["w"] * x**2) + len(vars(model)),
    "getattr": lambda x: getattr(model, "feat" + "ures")(x)[0] + getattr(model, "nothing", 1.0),
    "type": lambda x: np.sum(x) * (type(model) is Model) + type(shifted)(x, 1.0).both[0],
    "class": lambda x: model.__class__(x)(x) + (model.__class__ is Model),
    "issubclass": lambda x: np.sum(x) * (issubclass(Shifted, Model) + isinstance(shifted, Model)),
    "a method as an attribute": lambda x, n=types.SimpleNamespace(f=model.features): np.sum(n.f(x)),
}


@pytest.mark.parametrize("name", WORK)
def test_classes_as_they_are_written(name):
    f = WORK[name]
    assert traces(check(f)) == 0


def test_hessians_and_jacobians_of_methods():
    np.testing.assert_allclose(fdiff.hessian(model, X), np.diag(4 * W))
    jacobian = np.diag(2 * W * X + 0.7 * np.cos(X))
    np.testing.assert_allclose(fdiff.jacobian(shifted.features, X), jacobian)
    np.testing.assert_allclose(fdiff.vmap(model)(np.stack([X, 2 * X])), [model(X), model(2 * X)])
    nested = fdiff.grad(lambda x: np.sum(fdiff.grad(model)(x) ** 2))
    np.testing.assert_allclose(nested(X), 2 * (4 * W) ** 2 * X)


def test_a_gradient_taken_in_a_method():
    class Newton:
        def __init__(self, loss):
            self.loss = loss
            self.slope = fdiff.grad(loss)

        def step(self, x):
            out = np.zeros(3)
            out[:] = x - 0.1 * fdiff.grad(self.loss)(x) - 0.1 * self.slope(x)
            return out

    newton = Newton(model)
    check(lambda x: np.sum(newton.step(x) ** 2))


def test_classes_made_inside():
    def f(x):
        class Local(Shifted):
            def features(self, y):
                out = np.zeros(3)
                out[:] = super().features(y) * 2
                return out

        made = Local(x, 0.1)
        assert isinstance(made, Model)
        assert type(made) is Local
        return np.sum(made.features(x))

    check(f)


def test_a_class_of_numbers_and_functions():
    class Config:
        n, data = 3, W
        sub = types.SimpleNamespace(k=2.0)

        class Inner:
            scale = 4.0

            def apply(self, x):
                out = np.zeros(Config.n)
                out[:] = self.scale * x
                return out

    check(lambda x: np.sum(Config.Inner().apply(x) ** Config.sub.k * Config.data))


def test_named_tuples_enumerations_and_exceptions_are_as_ever():
    class Pair(typing.NamedTuple):
        a: object
        b: float = 2.0

    class Mode(enum.Enum):
        UP = 1
        DOWN = 2

    class RangeError(ValueError):
        pass

    holder = types.SimpleNamespace(mode=Mode.UP)

    def refuse(error):
        if holder.mode is Mode.UP:
            raise error("x")

    def f(x):
        pair = Pair(x)
        try:
            refuse(RangeError)
        except RangeError:
            return np.sum(pair.a**pair.b)

    check(f)


def test_context_managers():
    timer = Timer()

    def f(x):
        with timer as t, Timer() as u, contextlib.nullcontext(model) as m:
            return m(x) * t.scale[0] * u.scale[0]

    check(f)  # what is stored and deleted again is no write
    assert vars(timer) == {"inside": 1.0}
    check(lambda x: contextlib.ExitStack().enter_context(Timer()).scale[0] * np.sum(x**2))


# --------------------------------------------------------------------------- never a stale answer


class Fresh:
    """A class for one test alone, which changes it."""

    def __new__(cls):
        class Inner:
            k = 1.0

            def helper(self, x):
                return self.k * x

        class Law:
            scale = 1.0

            def __init__(self, w, inner):
                self.w, self.inner, self.items, self.table = w, inner, [1.0, inner], {"k": 1.0}

            def rhs(self, x):
                out = np.zeros(3)
                out[:] = self.w * self.inner.helper(x) ** 2 * self.scale
                return out

            @property
            def extra(self):
                return self.items[0] * self.table["k"]

        class Special(Law):
            def __call__(self, x):
                return np.sum(self.rhs(x)) * self.extra * self.items[1].k

        made = Special(W.copy(), Inner())
        made.Law, made.Special, made.Inner = Law, Special, Inner
        return made


def other_rhs(self, x):
    return self.w * x**3


def other_init(self, *args):
    super(type(self), self).__init__(*args)


def replaced_dict(m):
    m.__dict__ = {**m.__dict__, "w": W + 1}


def other_class(m):
    class Other(m.Law):
        def __call__(self, x):
            return np.sum(self.rhs(x)) * 7.0

    m.__class__ = Other


def other_base(m):
    class Between(m.Law):
        scale = 5.0

    m.Special.__bases__ = (Between,)


def other_inner(m):
    m.inner = type(m.inner)()
    m.inner.k = 4.0


def new_code(m):
    m.Law.rhs.__code__ = other_rhs.__code__


CHANGES = {
    "rebound": lambda m: setattr(m, "w", W + 1),
    "in place": lambda m: m.w.__setitem__(0, 9.0),
    "of another shape": lambda m: setattr(m, "w", 2.0),
    "nested": lambda m: setattr(m.inner, "k", 3.0),
    "another object": other_inner,
    "a list in an attribute": lambda m: m.items.__setitem__(0, 3.0),
    "a dict in an attribute": lambda m: m.table.update(k=2.0),
    "an attribute of the class": lambda m: setattr(m.Law, "scale", 3.0),
    "an attribute of the class, in the derived": lambda m: setattr(m.Special, "scale", 3.0),
    "an attribute of the class, in the object": lambda m: setattr(m, "scale", 3.0),
    "a method": lambda m: setattr(m.Law, "rhs", other_rhs),
    "a method in the derived": lambda m: setattr(m.Special, "rhs", other_rhs),
    "a method in the object": lambda m: setattr(m, "rhs", lambda x: x**3),
    "a method of a nested object": lambda m: setattr(m.Inner, "helper", lambda self, x: x**3),
    "a property": lambda m: setattr(m.Law, "extra", property(lambda self: 6.0)),
    "a property in place of an attribute": lambda m: setattr(
        m.Law, "w", property(lambda self: 6.0 * W)
    ),
    "the call": lambda m: setattr(m.Special, "__call__", lambda self, x: np.sum(x**4)),
    "the code of a method": new_code,
    "the class of the object": other_class,
    "the bases of the class": other_base,
    "the dict of the object": replaced_dict,
}


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("way", ["object", "lambda", "method", "list"])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_noticed(name, way):
    m = Fresh()
    box = [m]
    f = {
        "object": m,
        "lambda": lambda x: m(x),
        "method": lambda x: m.__call__(x),
        "list": lambda x: box[0](x),
    }[way]
    g = fdiff.grad(f)
    for _ in range(2):
        np.testing.assert_allclose(g(X), derivative(m), rtol=1e-6)
    assert traces(g) == 0
    before = m(X)
    CHANGES[name](m)
    assert m(X) != before
    for _ in range(2):
        np.testing.assert_allclose(g(X), derivative(m), rtol=1e-6)


def test_arrays_are_read_by_reference():
    m = Fresh()
    g = fdiff.grad(m)
    g(X)
    m.w[:] = 5.0
    assert traces(g) == 0
    np.testing.assert_allclose(g(X), 10 * X)
    m.w = np.full(3, 6.0)
    assert traces(g) == 0
    np.testing.assert_allclose(g(X), 12 * X)


def test_attributes_that_are_not_read_may_change():
    m = Fresh()
    g = fdiff.grad(m)
    g(X)
    m.notes, m.open = "text", object()
    assert traces(g) == 0


def test_another_object_of_the_class_is_compared_by_its_own_contents():
    def make(m):
        return fdiff.grad(lambda x: np.sum(m.features(x)))

    first, second, third = Model(W), Model(W + 1), Model(W, 3)
    g = make(first)
    g(X)
    assert traces(make(second)) == 0
    np.testing.assert_allclose(make(second)(X), 2 * (W + 1) * X)
    np.testing.assert_allclose(make(third)(X), 3 * W * X**2)
    np.testing.assert_allclose(make(first)(X), 2 * W * X)


def test_two_objects_may_become_one():
    a, b = Model(W), Model(W + 1)
    pair = [a, b]
    g = fdiff.grad(lambda x: pair[0](x) if pair[0] is pair[1] else pair[0](x) + pair[1](x))
    for _ in range(2):
        pair[1] = b
        np.testing.assert_allclose(g(X), 4 * (2 * W + 1) * X)
        pair[1] = a
        np.testing.assert_allclose(g(X), 4 * W * X)


def test_a_bound_method_taken_anew_finds_its_program():
    m = Model(W)
    fdiff.grad(m.__call__)(X)
    g = lambda x: fdiff.grad(m.__call__)(x)
    assert traces(g) == 0
    m.w = W + 1
    np.testing.assert_allclose(g(X), 4 * (W + 1) * X)


def test_what_cannot_be_compared_still_warns():
    class Logged:
        def __init__(self):
            self.rng = np.random.default_rng(0)
            self.w = W

        def quiet(self, x):
            return np.sum(self.w * x**2)

        def loud(self, x):
            return np.sum(self.w * x**2) + 0.0 * self.rng.normal()

    logged = Logged()
    check(logged.quiet)
    with pytest.warns(RetraceWarning, match=r"attributes of the Generator object `loud\.rng`"):
        fdiff.grad(logged.loud)(X)


# ----------------------------------------------------------------------------------------- writes


def test_writes_go_to_the_user_s_object():
    class Counter:
        total = 0

        def __init__(self):
            self.calls, self.old, self.log, self.child = 0, 1, [], None

        def f(self, x):
            self.calls += 1
            self.log.append("called")
            self.child = Model(W)
            self.new = [Model(W), {"m": self.child}]
            del self.old
            self.old = self.calls
            Counter.total += 1
            return self.child(x) + self.calls

    counter = Counter()
    g = fdiff.grad(counter.f)
    np.testing.assert_allclose(g(X), 4 * W * X)
    g(X)
    assert (counter.calls, counter.old, Counter.total) == (2, 2, 2)
    assert counter.log == ["called"] * 2
    assert type(counter.child) is Model
    assert type(counter.new[0]) is Model
    assert counter.new[1]["m"] is counter.child
    assert counter.child.w is W or type(counter.child.w) is np.ndarray
    assert counter.child(X) == model(X)
    assert counter.f(X) == model(X) + 3


def test_stateful_objects_change_at_each_call():
    stateful = Stateful()
    g = fdiff.grad(stateful.run)
    expected = derivative(Stateful().run)
    np.testing.assert_allclose(g(X), expected, rtol=1e-6)
    np.testing.assert_allclose(g(X), expected, rtol=1e-6)
    assert stateful.calls == 2
    fresh = Stateful()
    assert stateful.run(X) == fresh.run(X)
    np.testing.assert_array_equal(stateful.y, fresh.y)


def test_a_concrete_work_array_is_the_user_s_afterwards():
    class Lazy:
        grid = None

        def f(self, x):
            if self.grid is None:
                self.grid = np.linspace(0.0, 1.0, 3)
            return np.sum(self.grid * x**2)

    lazy = Lazy()
    g = fdiff.grad(lazy.f)
    g(X)
    assert type(lazy.grid) is np.ndarray
    assert traces(g) == 1  # it is there now
    np.testing.assert_allclose(g(X), 2 * lazy.grid * X)


def test_a_value_that_is_stored_again_is_no_write():
    class Clock:
        __slots__ = ("done", "t")

        def __init__(self):
            self.t, self.done = 0.0, None

        def f(self, x):
            self.t, self.done = 0.0, False
            out = np.zeros(3)
            while self.t < 1.0:
                out += x**2
                self.t += 0.25
            self.done = True
            return out.sum()

    class Stopwatch(Clock):
        def f(self, x):
            self.mode = "run"
            return super().f(x)

    for clock in (Clock(), Stopwatch()):
        g = fdiff.grad(clock.f)
        g(X)
        assert clock.t == 1.0
        assert traces(g) == 0
        clock.t = 5.0
        np.testing.assert_allclose(g(X), 8 * X)
        assert clock.t == 1.0
        g(X)
        clock.__class__.f(clock, X)
        assert traces(g) == 0
        if clock.__class__ is Stopwatch:
            clock.mode = "stopped"
            g(X)
            assert clock.mode == "run"


def test_an_attribute_that_is_made_is_a_write_even_of_none():
    class Maker:
        def f(self, x):
            self.made = None
            return np.sum(x)

    maker = Maker()
    g = fdiff.grad(maker.f)
    g(X)
    assert vars(maker) == {"made": None}
    del maker.made
    assert traces(g) == 0
    assert vars(maker) == {"made": None}


def test_parameters_put_in_and_taken_out_again_are_no_write():
    def loss(w):
        old, model.w = model.w, w
        try:
            return model(X)
        finally:
            model.w = old

    assert traces(check(loss)) == 0
    assert model.w is old_w


def test_a_cached_property_is_kept_and_no_write():
    s = Shifted(W, 0.7)
    g = fdiff.grad(lambda x: s.norm * np.sum(x))
    np.testing.assert_allclose(g(X), np.linalg.norm(W))
    value = vars(s)["norm"]
    np.testing.assert_allclose(value, np.linalg.norm(W))
    s.w = W + 1  # the value is kept, as ever in Python
    np.testing.assert_allclose(g(X), value)
    del s.norm
    np.testing.assert_allclose(g(X), np.linalg.norm(W + 1))


def test_properties_that_are_set():
    class Scaled:
        def __init__(self):
            self._k = 1.0

        @property
        def k(self):
            return self._k

        @k.setter
        def k(self, value):
            self._k = 2 * value

        def f(self, x):
            self.k = 3.0
            return self.k * np.sum(x**2)

    scaled = Scaled()
    np.testing.assert_allclose(fdiff.grad(scaled.f)(X), 12 * X)
    assert vars(scaled) == {"_k": 6.0}


def test_results_are_of_the_user_s_classes():
    box = {}

    def f(x):
        box["made"] = Model(W)
        return Oscillator(x[0], x), Point(x[1]), model

    with pytest.warns(RetraceWarning, match="cannot be compared"):
        result = fdiff.jit(f)(X)
    assert type(result[0]) is Oscillator
    assert type(result[1]) is Point
    assert result[2] is model
    assert type(box["made"]) is Model
    assert box["made"](X) == model(X)
    np.testing.assert_allclose(result[0].stiffness, X)


def test_arguments_of_user_classes():
    def f(o, x):
        assert type(o) is Oscillator
        return o.energy(x)

    g = fdiff.grad(f)
    for _ in range(2):
        found = g(Oscillator(2.0, W), X)
        assert type(found) is Oscillator
        np.testing.assert_allclose(found.stiffness, X**2 / 4)
        np.testing.assert_allclose(found.mass, -np.sum(W * X**2) / 8)
    with pytest.warns(RetraceWarning, match="an argument of type Model"):
        np.testing.assert_allclose(fdiff.grad(lambda x, m: m(x))(X, model), 4 * W * X)
    with pytest.warns(RetraceWarning, match="an argument of type function"):
        slope = fdiff.grad(lambda x, h: h(x))(X, lambda x: Shifted.square(x).sum())
    np.testing.assert_allclose(slope, 2 * X)


# --------------------------------------------------------------------------- nothing else notices


def test_other_threads_see_nothing():
    m, started, go = Fresh(), threading.Event(), threading.Event()
    m.state, before = 0, dict(vars(m))
    seen = []

    def f(x):
        m.state = 5
        m.Law.scale = 2.0
        started.set()
        go.wait(10)
        return m(x)

    def work():
        seen.append(fdiff.grad(f)(X))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        thread = threading.Thread(target=work)
        thread.start()
        started.wait(10)
        assert all(vars(m)[name] is value for name, value in before.items())
        assert m.Law.scale == 1.0
        assert type(m(X)) is np.float64
        go.set()
        thread.join()
    np.testing.assert_allclose(seen[0], 4 * W * X)
    assert m.state == 5
    assert m.Law.scale == 2.0


def test_the_user_s_classes_are_as_they_were():
    known, names = list(Registered.known), {k: dict(vars(k)) for k in (Model, Shifted, Plugin)}
    for name in ("inheritance", "a base that registers", "a class method"):
        fdiff.grad(WORK[name])(X)
    gc.collect()
    assert Registered.known == known
    assert {k: dict(vars(k)) for k in names} == names
    assert [k.__name__ for k in Model.__subclasses__()] == ["Shifted"]


def test_nothing_of_the_run_is_kept_alive():
    fdiff.cache_clear()
    m = Model(np.arange(3.0))
    ref = weakref.ref(m.w)
    fdiff.grad(lambda x: m(x))(X)
    fdiff.cache_clear()
    m.w = W
    gc.collect()
    assert ref() is None


def test_printed_listed_and_hashed():
    def f(x):
        assert "Model object" in repr(model)
        assert repr(Point(1.0)) == "Point(x=1.0, y=0.0)"
        assert set(dir(model)) >= {"w", "features", "gain"}
        assert set(dir(Shifted)) >= {"both", "features", "gain"}
        assert model in [model, shifted]
        assert {model: 1}[model] == 1
        assert Shifted.__mro__[1] is Model
        return np.sum(x**2)

    check(f)


def test_wrong_use_raises_python_s_own_errors():
    for bad, words in [
        (lambda x: model.nothing, "'Model' object has no attribute 'nothing'"),
        (lambda x: Model(), "missing 1 required positional argument"),
        (lambda x: Base(), "Can't instantiate abstract class Base"),
        (lambda x: Model.nothing, "type object 'Model' has no attribute 'nothing'"),
        (lambda x: Point(1.0).__setattr__("x", 2.0), "cannot assign to field 'x'"),
        (lambda x: Slots(W).nothing, "no attribute 'nothing'"),
    ]:
        with pytest.raises((AttributeError, TypeError), match=words):
            fdiff.grad(bad)(X)


# ------------------------------------------------------------------------------- odder classes


class Ordered:
    def __init__(self, k):
        self.k = k

    def __eq__(self, other):
        return self.k == other.k

    def __lt__(self, other):
        return self.k < other.k

    def __hash__(self):
        return hash(self.k)


Ordered = functools.total_ordering(Ordered)


class Single:
    """One object for all."""

    one = None

    def __new__(cls):
        if cls.one is None:
            cls.one = super().__new__(cls)
            cls.one.w = W
        return cls.one

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.w * x
        return np.sum(out**2)


class Child:
    def __init__(self, parent):
        self.parent = weakref.ref(parent)

    def f(self, x):
        return self.parent()(x)


class Decorated:
    def logged(function):  # noqa: N805 - a decorator, no method
        @functools.wraps(function)
        def call(self, *args):
            out = np.zeros(1)
            out[0] = function(self, *args)
            return out[0]

        return call

    @logged
    def f(self, x):
        return sum(self.table(2)) * np.sum(x**2)

    @functools.lru_cache  # noqa: B019 - as users write it
    def table(self, n):
        return tuple(range(n + 1))

    twice = functools.partialmethod(lambda self, k, x: self.f(x) * k, 2.0)


class Field(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, value):
        self.value = value

    def __array_ufunc__(self, ufunc, method, *inputs, **keywords):
        given = [i.value if isinstance(i, Field) else i for i in inputs]
        return Field(getattr(ufunc, method)(*given, **keywords))


class Half:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Whole(Half):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b

    def f(self, x):
        out = np.zeros(3)
        out[:] = self.a * x**2 + self.b
        return out.sum()


@typing.runtime_checkable
class HasW(typing.Protocol):
    w: object

    def features(self, x): ...


class Body:
    def __init__(self, mass):
        self.mass = mass

    def force(self, x, bodies):
        out = np.zeros(3)
        for other in bodies:
            if other is not self:
                out += self.mass * other.mass * np.sin(x)
        return out


@functools.singledispatch
def energy(thing, x):
    return 0.0 * np.sum(x)


@energy.register
def _(thing: Model, x):
    out = np.zeros(3)
    out[:] = thing.features(x)
    return out.sum()


@energy.register
def _(thing: Boxed, x):
    return thing.f(x)


class Generic:
    @functools.singledispatchmethod
    def f(self, thing, x):
        return 0.0 * np.sum(x)

    @f.register
    def _(self, thing: Model, x):
        out = np.zeros(3)
        out[:] = thing.features(x)
        return out.sum()


HANDLERS = {Model: lambda m, x: 1.0 * m(x), Shifted: lambda m, x: 2.0 * m(x)}


class Deep:
    def __init__(self, below):
        self.below = below


class Local(threading.local):
    k = 2.0


chain = functools.reduce(lambda below, _: Deep(below), range(2000), None)
bodies, many = [Body(float(k)) for k in range(3)], [Body(1.0) for _ in range(300)]
members, keyed = {Ordered(1), Ordered(2)}, {Ordered(1): W}
linked, single = Child(model), Single()
solver_ = Solver(3, 0.3)
solver_.__dict__.update(rhs=lambda y: y * 2.0)


def depth():
    n, node = 0, chain
    while node is not None:
        n, node = n + 1, node.below
    return n


ODD = {
    "total ordering": lambda x, a=Ordered(1), b=Ordered(2): np.sum(x) * (a <= b) * (b > a),
    "one object for all": lambda x: Single().f(x) + (Single() is single),
    "a weak reference": linked.f,
    "decorated methods": lambda x, d=Decorated(): d.f(x) + d.twice(x),
    "decorated methods of an object made inside": lambda x: Decorated().twice(x),
    "an array-like class": lambda x, f=Field(W): np.sum((f * Field(x) + f).value ** 2),
    "slots and a dict": lambda x, w=Whole(W, 2.0): w.f(x) + Whole(x, x[0]).f(x),
    "a protocol that is asked": lambda x: (
        np.sum(x) * isinstance(model, HasW) + isinstance(Spring(1.0), HasW)
    ),
    "a static lookup": lambda x: (
        np.sum(x) * (inspect.getattr_static(model, "w", None) is not None)
        + callable(inspect.getattr_static(Spring(1.0), "f", None))
    ),
    "bodies": lambda x: sum(b.force(x, bodies) for b in bodies).sum(),
    "a generic function": lambda x: energy(shifted, x) + energy(Boxed(W), x) + energy(2, x),
    "a generic method": lambda x, g=Generic(): g.f(shifted, x) + g.f(2, x),
    "functions by class": lambda x: HANDLERS[type(shifted)](shifted, x) + HANDLERS[Model](model, x),
    "members of a set": lambda x: np.sum(x) * sum(o.k for o in members) * (Ordered(2) in members),
    "keys of a dict": lambda x: np.sum(keyed[Ordered(1)] * x),
    "a method put into an object": lambda x: np.sum(solver_.run(x) ** 2),
    "a match": lambda x: _matched(model, x),
    "sorted": lambda x: x[0] * sorted([Ordered(2), Ordered(1)])[0].k + max(members).k,
}


def _matched(value, x):
    match value:
        case Shifted():
            return 0.0
        case Model(w=w, power=2):
            return np.sum(w * x**2)


@pytest.mark.parametrize("name", ODD)
def test_odder_classes(name):
    assert traces(check(ODD[name])) == 0


def test_more_objects_than_are_compared():
    f = lambda x: sum(b.force(x, many[:3]) for b in many[:2]).sum()
    g = fdiff.grad(f)
    with pytest.warns(RetraceWarning, match="the list of 300 items `many`"):
        np.testing.assert_allclose(g(X), derivative(f), rtol=1e-7)
    many[0].mass = 3.0
    np.testing.assert_allclose(g(X), derivative(f), rtol=1e-7)
    many[0].mass = 1.0


def test_objects_linked_a_thousand_deep():
    np.testing.assert_allclose(fdiff.grad(lambda x: depth() * np.sum(x))(X), 2000.0)


def test_an_object_that_python_cannot_give_another_class():
    box = []

    def f(x):
        box.append(Whole(W, 2.0))
        return box[-1].f(x)

    g = fdiff.grad(f)
    g(X)
    assert traces(g) == 0
    for made in box:
        assert isinstance(made, Whole)
        assert made.f(X) == Whole(W, 2.0).f(X)


def test_another_method_of_a_generic_function_is_noticed():
    @functools.singledispatch
    def g(thing, x):
        return np.sum(x)

    slope = fdiff.grad(lambda x: g(model, x))
    np.testing.assert_allclose(slope(X), 1.0)
    assert traces(slope) == 0
    g.register(Model)(lambda thing, x: thing(x))
    np.testing.assert_allclose(slope(X), 4 * W * X)


def test_identity_is_compared():
    two = [Body(1.0), Body(1.0)]
    f = lambda x: two[0].force(x, two).sum()
    g = fdiff.grad(f)
    first = two[1]
    for _ in range(2):
        two[1] = first
        np.testing.assert_allclose(g(X), np.cos(X))
        two[1] = two[0]
        np.testing.assert_allclose(g(X), 0 * X)


def test_the_class_of_an_object_set_inside():
    class One:
        def f(self, x):
            self.__class__ = Two
            return self.f(x)

    class Two:
        def f(self, x):
            out = np.zeros(3)
            out[:] = x**2
            return out.sum()

    one = One()
    with pytest.warns(RetraceWarning, match="__class__"):
        np.testing.assert_allclose(fdiff.grad(lambda x: one.f(x))(X), 2 * X)
    assert type(one) is Two


def test_classes_that_stay_as_they_are():
    class Meta(type):
        pass

    class Odd(metaclass=Meta):
        def f(self, x):
            return np.sum(x**2)

    class Watched:
        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

        def f(self, x):
            return np.sum(x**2)

    class Closing:
        closed: typing.ClassVar = []

        def f(self, x):
            return np.sum(x**2)

        def __del__(self):
            self.closed.append(1)

    closing = Closing()
    for odd in (Odd(), Watched(), closing):
        with pytest.warns(RetraceWarning, match=f"attributes of the {type(odd).__name__} object"):
            np.testing.assert_allclose(fdiff.grad(odd.f)(X), 2 * X)
    assert not Closing.closed


def test_writes_of_an_error_are_kept():
    class Fails:
        def f(self, x):
            self.tried = True
            raise ValueError("no")

    fails = Fails()
    with pytest.raises(ValueError, match="no") as caught:
        fdiff.grad(fails.f)(X)
    assert caught.traceback[-1].name == "f"
    assert fails.tried is True
