"""``functools.cached_property``, first touched inside `f`, is kept on the user's object.

The reference is plain Python: the same calls of the same function, on an object of its own.
"""

import dataclasses
import functools
import threading
import types
import typing
import warnings

import numpy as np
import pytest

import fdiff
from fdiff.errors import RetraceWarning

X = np.array([0.5, 1.0, 2.0])
W = np.array([1.0, 2.0, 4.0])


class Pair(typing.NamedTuple):
    one: object
    two: object


@dataclasses.dataclass
class Record:
    one: object
    two: object


class Made:
    def __init__(self, one):
        self.one = one


class Model:
    """Cached properties of all kinds of results, and how `f` uses them."""

    def __init__(self):
        self.w = W.copy()
        self.count = 0

    array = functools.cached_property(lambda self: self.w * 2)
    scalar = functools.cached_property(lambda self: self.w @ self.w)
    number = functools.cached_property(lambda self: float(self.w[1]) + 0.5)
    itself = functools.cached_property(lambda self: self.w)
    view = functools.cached_property(lambda self: self.w[::2])
    several = functools.cached_property(lambda self: (self.w + 1, self.w @ self.w))
    named = functools.cached_property(lambda self: Pair(self.w + 1, self.w[0]))
    mixed = functools.cached_property(lambda self: [self.w * 2, {"k": (self.w, 3.0)}, "text"])
    record = functools.cached_property(lambda self: Record(self.w * 2, 1))
    made = functools.cached_property(lambda self: Made(self.w * 2))
    zeros = functools.cached_property(lambda self: np.zeros(3))
    function = functools.cached_property(lambda self: lambda x: x * self.w)
    gradient = functools.cached_property(lambda self: fdiff.grad(lambda y: np.sum(y**3))(self.w))
    chained = functools.cached_property(lambda self: self.array + self.scalar)

    @functools.cached_property
    def counted(self):
        self.count += 1
        return self.w * self.count

    @functools.cached_property
    def filled(self):
        out = np.empty(3)
        for i in range(3):
            out[i] = self.w[i] ** 2
        return out


class Derived(Model):
    @functools.cached_property
    def array(self):
        return super().array + 1

    @functools.cached_property
    def other(self):
        return super().scalar


@dataclasses.dataclass
class Data(Model):
    w: np.ndarray = dataclasses.field(default_factory=W.copy)
    count: int = 0


@dataclasses.dataclass(frozen=True)
class Frozen(Model):
    w: np.ndarray = dataclasses.field(default_factory=W.copy)
    counted = functools.cached_property(lambda self: self.w)


class Roomy(Model):
    __slots__ = ("place",)

    def __init__(self):
        super().__init__()
        self.place = 1


USES = {
    "array": lambda m, x: np.sum(m.array * x**2),
    "scalar": lambda m, x: m.scalar * np.sum(x**2),
    "number": lambda m, x: m.number * np.sum(x**2),
    "itself": lambda m, x: np.sum(m.itself * x**2),
    "view": lambda m, x: m.view @ m.view * np.sum(x**2),
    "several": lambda m, x: m.several[1] * np.sum(m.several[0] * x**2),
    "named": lambda m, x: m.named.two * np.sum(m.named.one * x**2),
    "mixed": lambda m, x: np.sum(m.mixed[0] * m.mixed[1]["k"][0] * x**2),
    "record": lambda m, x: np.sum(m.record.one * x**2) * m.record.two,
    "made": lambda m, x: np.sum(m.made.one * x**2),
    "zeros": lambda m, x: np.sum(m.zeros + x**2),
    "function": lambda m, x: np.sum(m.function(x) * x),
    "gradient": lambda m, x: np.sum(m.gradient * x**2),
    "chained": lambda m, x: np.sum(m.chained * x**2),
    "counted": lambda m, x: np.sum(m.counted * x**2),
    "filled": lambda m, x: np.sum(m.filled * x**2),
}
KINDS = {
    "plain": Model, "derived": Derived, "dataclass": Data, "frozen": Frozen,
    "slots and dict": Roomy,
}  # fmt: skip
OPERATORS = {
    "grad": (fdiff.grad, lambda g: g(X)),
    "jit": (fdiff.jit, lambda g: g(X)),
    "jitted": (lambda f: fdiff.jit(fdiff.grad(f)), lambda g: g(X)),
    "hessian": (fdiff.hessian, lambda g: g(X)),
    "jacobian at once": (lambda f: f, lambda f: fdiff.jacobian(f, X)),
    "hvp": (fdiff.hvp, lambda g: g(X, W)),
    "nested": (lambda f: fdiff.grad(lambda x: fdiff.grad(f)(x) @ W + f(x)), lambda g: g(X)),
    "vmap": (fdiff.vmap, lambda g: g(np.stack([X, W]))),
}


def same(ours, plain, source=(), plain_source=()):
    """Equal values of the same classes, arrays of the object being the same in both; no traces."""
    assert type(ours) is type(plain)
    if isinstance(plain, np.ndarray):
        np.testing.assert_array_equal(ours, plain)
        assert np.shares_memory(ours, source) == np.shares_memory(plain, plain_source)
        assert ours.flags.writeable == plain.flags.writeable
    elif isinstance(plain, tuple | list):
        for a, b in zip(ours, plain, strict=True):
            same(a, b, source, plain_source)
    elif isinstance(plain, dict):
        assert list(ours) == list(plain)
        for key in plain:
            same(ours[key], plain[key], source, plain_source)
    elif isinstance(plain, types.FunctionType):
        same(ours(X), plain(X), source, plain_source)
    elif hasattr(plain, "__dict__"):
        same(vars(ours), vars(plain), source, plain_source)
    else:
        assert ours == plain


@pytest.fixture(autouse=True)
def _no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        yield


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", OPERATORS)
def test_objects_are_as_plain_python_leaves_them(name, use, kind):
    prepare, call = OPERATORS[name]
    ours, plain = KINDS[kind](), KINDS[kind]()
    body = USES[use]
    g = prepare(lambda x: body(ours, x))
    h = prepare(lambda x: body(plain, x))
    with warnings.catch_warnings():
        if use in {"function", "gradient", "mixed"}:  # kept things that cannot be compared, perhaps
            warnings.simplefilter("ignore", RetraceWarning)
        call(g)
        body(plain, X)
        same(vars(ours), vars(plain), ours.w, plain.w)
        for change in (None, lambda m: m.w.__setitem__(0, 7.0), lambda m: vars(m).pop(use)):
            if change is not None:
                change(ours)
                change(plain)
            np.testing.assert_allclose(call(g), call(h), rtol=1e-12)
            body(plain, X)
            same(vars(ours), vars(plain), ours.w, plain.w)


def test_the_value_stays_though_its_source_changes():
    m = Model()
    g = fdiff.grad(lambda x: np.sum(m.array * x))
    np.testing.assert_allclose(g(X), 2 * W)
    m.w[:] = 9.0
    m.w = m.w + 1
    np.testing.assert_allclose(g(X), 2 * W)  # as in plain code
    del m.array
    np.testing.assert_allclose(g(X), [20.0] * 3)
    m.array[:] = 1.0
    np.testing.assert_allclose(g(X), [1.0] * 3)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_it_is_traced_once_and_then_compiled(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    fdiff.cache_clear()
    m = Model()
    g = fdiff.grad(lambda x: np.sum(m.array * x))
    for _ in range(4):
        np.testing.assert_allclose(g(X), 2 * W)
    assert len(g.program.variants) == 1
    assert [len(kept) for kept in g.program.variants.values()] == [1]


def test_a_new_object_at_each_call():
    models = [Model() for _ in range(5)]
    for k, m in enumerate(models):
        m.w *= k
        np.testing.assert_allclose(fdiff.grad(lambda x: np.sum(m.array * x))(X), 2 * k * W)
        np.testing.assert_array_equal(vars(m)["array"], 2 * k * W)


def test_an_object_among_the_arguments():
    g = fdiff.grad(lambda x, m: np.sum(m.array * x))
    for k in (1, 2):
        m = Model()
        m.w *= k
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RetraceWarning)
            np.testing.assert_allclose(g(X, m), 2 * k * W)
        np.testing.assert_array_equal(vars(m)["array"], 2 * k * W)


def test_what_is_read_by_it_is_read_once(tmp_path):
    class Loaded:
        @functools.cached_property
        def w(self):
            return np.load(tmp_path / "w.npy")

    np.save(tmp_path / "w.npy", W)
    loaded = Loaded()
    g = fdiff.grad(lambda x: np.sum(loaded.w * x))
    np.testing.assert_array_equal(g(X), W)
    np.save(tmp_path / "w.npy", 2 * W)
    np.testing.assert_array_equal(g(X), W)  # as in plain code
    del loaded.w
    np.testing.assert_array_equal(g(X), 2 * W)


def test_errors_are_those_of_plain_code():
    class Slots:
        __slots__ = ("w",)
        k = functools.cached_property(lambda self: self.w)

    class Broken:
        @functools.cached_property
        def k(self):
            raise KeyError("mine")

    slots = Slots()
    slots.w = W
    with pytest.raises(TypeError, match="No '__dict__' attribute on 'Slots' instance"):
        fdiff.grad(lambda x: np.sum(slots.k * x))(X)
    broken = Broken()
    with pytest.raises(KeyError, match="mine"):
        fdiff.grad(lambda x: np.sum(broken.k * x))(X)
    assert vars(broken) == {}


# ------------------------------------------------------------- where it depends on the arguments


class Fitted:
    """Keeps something made of the argument, which `f` has stored in the object before."""

    def __init__(self):
        self.x = None
        self.w = W.copy()

    square = functools.cached_property(lambda self: self.x**2)
    several = functools.cached_property(lambda self: (self.x * 2, [self.x[0], {"w": self.w}]))
    made = functools.cached_property(lambda self: Made(self.x * 2))
    record = functools.cached_property(lambda self: Record(self.x * 2, self.w))

    def run(self, x, use):
        self.x = x
        try:
            return use(self, x)
        finally:
            self.x = None


DEPENDENT = {
    "square": lambda m, x: np.sum(m.square * x),
    "several": lambda m, x: np.sum(m.several[0] * m.several[1][1]["w"] * x) * m.several[1][0],
    "made": lambda m, x: np.sum(m.made.one * x),
    "record": lambda m, x: np.sum(m.record.one * m.record.two * x),
}


def step(f, x, d=1e-7):
    """Central differences; each value of a function that forgets."""
    return np.array([(f(x + d * e) - f(x - d * e)) / (2 * d) for e in np.eye(x.size)])


@pytest.mark.parametrize("use", DEPENDENT)
def test_the_first_call_goes_through_it_and_later_ones_use_its_numbers(use):
    body = DEPENDENT[use]
    m, plain = Fitted(), Fitted()
    g = fdiff.grad(lambda x: m.run(x, body))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        first = g(X)
        np.testing.assert_allclose(first, step(lambda x: Fitted().run(x, body), X), rtol=1e-6)
        plain.run(X, body)
        same(vars(m)[use], vars(plain)[use], m.w, plain.w)
        for x in (X, 2 * X, W):  # plain code uses what it has kept
            np.testing.assert_allclose(g(x), step(lambda x: plain.run(x, body), x), rtol=1e-6)
            same(vars(m)[use], vars(plain)[use], m.w, plain.w)
        del m.__dict__[use]
        np.testing.assert_allclose(g(W), step(lambda x: Fitted().run(x, body), W), rtol=1e-6)


def test_of_a_batch_no_value_is_kept():
    m = Fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        for k in (1.0, 2.0):
            batch = k * np.stack([X, W])
            out = fdiff.vmap(lambda x: m.run(x, DEPENDENT["square"]))(batch)
            np.testing.assert_allclose(out, np.sum(batch**3, axis=1))
    assert "square" not in vars(m)


def test_of_zeros_that_stand_for_types_no_value_is_kept():
    m = Fitted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        g = fdiff.grad(lambda x: m.run(x, DEPENDENT["square"])).compile("f8[3]")
        assert "square" not in vars(m)
        np.testing.assert_allclose(g(X), 3 * X**2)


def test_made_of_captured_data_alone_it_is_kept_by_compile():
    m = Model()
    g = fdiff.grad(lambda x: np.sum(m.array * x)).compile("f8[3]")
    np.testing.assert_array_equal(vars(m)["array"], 2 * W)
    np.testing.assert_array_equal(g(X), 2 * W)


@pytest.mark.parametrize(
    "make",
    [
        lambda w: (w * 2, w + 1), lambda w: Pair(w * 2, 1), lambda w: [(w * 2,)],
        lambda w: {"k": (w * 2, [w])}, lambda w: Record(w * 2, (w,)),
        lambda w: types.SimpleNamespace(a=w * 2), lambda w: Made((w * 2,)),
    ],
)  # fmt: skip
def test_what_methods_keep_of_captured_data_is_plain(make):
    """The same of any write: nothing made of captured data alone outlives the run as a trace."""

    class Keeper:
        def __init__(self):
            self.w, self.kept = W.copy(), None

        def f(self, x):
            self.kept = make(self.w)
            return np.sum(self.w * x)

    ours, plain = Keeper(), Keeper()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        fdiff.grad(ours.f)(X)
    plain.f(X)
    same(ours.kept, plain.kept, ours.w, plain.w)


def test_two_threads_compute_one_property():
    m, out = Model(), []

    def work():
        out.append(fdiff.grad(lambda x: np.sum(m.counted * x))(X))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(out) == 4
    for result in out:
        np.testing.assert_allclose(result, W * (result[0] / W[0]))
    np.testing.assert_array_equal(vars(m)["counted"], W * m.count)
