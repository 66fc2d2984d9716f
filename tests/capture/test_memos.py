"""Memos of every kind: where they are kept, by which key, and how the argument is looked up.

A plain call before leaves a number, which has no derivative. Whatever the kind, the derivative is
that of what the function computes; and each call leaves behind what a plain call leaves.
"""

import collections
import itertools

import numpy as np
import pytest
from faults_support import LONG
from scipy import optimize
from test_eager import eagerly

import fdiff

PROGRAM = """
import collections

def value(x):
    return np.sum(x**3 - 2 * x)

{space}
class Memo:
    calls, s = 0, {empty}

    def __init__(self):
        self.v = {{}}
        {own}

    def __call__(self, x{default}):
        {count}
        {local}
        key = {key}
        if {missing}:
            {store}
            self.v["v"] = value(x)
        return self.v["v"]
"""
# Where the container lies: its name in the method, and where it is made.
PLACES = {
    "attribute": ("self.t", {"own": "self.t = {}"}),
    "class": ("Memo.s", {}),
    "global": ("KEPT", {"space": "KEPT = {}"}),
    "default": ("kept", {"default": ", kept={}"}),
    "function": ("value.kept", {"space": "value.kept = {}"}),
    "object": (
        "self.t.kept",
        {"space": "class Box: pass", "own": "self.t = Box(); self.t.kept = {}"},
    ),
}
# An empty container, whether it lacks the key, and how it gets it.
CONTAINERS = {
    "set": ("set()", "key not in {}", "{}.add(key)"),
    "set, update": ("set()", "key not in {}", "{}.update((key,))"),
    "set, operator": ("set()", "not {{key}} <= {}", "{}.update({{key}})"),
    "dict": ("dict()", "key not in {}", "{}[key] = 1"),
    "dict, get": ("dict()", "{}.get(key) is None", "{}[key] = 1"),
    "OrderedDict": ("collections.OrderedDict()", "key not in {}", "{}[key] = 1"),
    "Counter": ("collections.Counter()", "{}[key] == 0", "{}[key] += 1"),
    "list": ("[]", "key not in {}", "{}.append(key)"),
    "list, count": ("[]", "not {}.count(key)", "{}.insert(0, key)"),
    "list, loop": ("[]", "not any(k == key for k in {})", "{}.append(key)"),
    "deque": ("collections.deque(maxlen=3)", "key not in {}", "{}.append(key)"),
}
KEYS = [
    "x[0]", "2 * x[0] + 1", "x.tobytes()", "tuple(x)", "tuple(x.tolist())", "str(x)",
    "hash(x.tobytes())", "hash(x[0])", "f'{x[0]:.12f}'", "'%.12g' % x[0]", "np.round(x[0], 12)",
    "int(x[0] * 1e9)", "(x[0] / 3, 'key')", "np.linalg.norm(x)",
]  # fmt: skip
SAME = [
    "np.array_equal(x, {0})", "np.all(x == {0})", "not np.any(x != {0})", "np.allclose(x, {0})",
    "np.max(np.abs(x - {0})) < 1e-12", "np.linalg.norm(x - {0}) <= 1e-9 * np.linalg.norm(x)",
    "sum((x - {0})**2) == 0", "not (x - {0}).any()", "x.tolist() == {0}.tolist()",
    "x[0] == {0}[0]", "abs(x[0] - {0}[0]) < 1e-12", "np.isclose(x[0], {0}[0])",
    "not (x[0] < {0}[0] or x[0] > {0}[0])", "x[0] / {0}[0] == 1", "2 * x[0] in (7, 2 * {0}[0])",
    "all(a == b for a, b in zip(x, {0}))", "(np.array([0 * {0}, {0}]) == x).all(axis=1).any()",
    "np.round(x[0], 9) == np.round({0}[0], 9)", "x.tobytes() == {0}.tobytes()",
]  # fmt: skip
OPERATORS = {
    "grad": lambda f, x: fdiff.grad(f)(x),
    "value_and_grad": lambda f, x: fdiff.value_and_grad(f)(x)[1],
    "vjp": lambda f, x: fdiff.vjp(f, x, 1.0)[1],
    "jacobian": lambda f, x: fdiff.jacobian(f, mode="forward")(x),
    "hessian": lambda f, x: fdiff.hessian(f)(x),
    "nested": lambda f, x: fdiff.jit(fdiff.grad(f))(x),
    "eager": lambda f, x: eagerly(fdiff.grad(f), x),
}
X = np.array([3.0, 1.0])


def memo(place, empty, missing, store, key="x", count=""):
    name, parts = PLACES[place]
    fields = dict.fromkeys(("space", "own", "default", "local"), "pass")
    fields.update(space="", default="")
    fields |= {k: v.replace("{}", empty) for k, v in parts.items()}
    text = PROGRAM.format(
        **fields, empty=empty, key=key, missing=missing.format(name), store=store.format(name),
        count=count or "pass",
    )  # fmt: skip
    space = {"np": np, "__name__": "memo"}
    exec(text, space)
    return space["Memo"]()


BEFORE = [[X], [X, X], [2 * X], [2 * X, X], []]  # where plain calls are made before


def check(make, k):
    """Derivatives by one operator after plain calls at one of the points; in long runs, by all."""
    pairs = [*itertools.product(BEFORE, OPERATORS)]
    for before, name in pairs if LONG else [pairs[k % len(pairs)]]:
        f = make()
        for point in before:
            f(point)
        wanted = np.diag(6 * X) if name == "hessian" else 3 * X**2 - 2
        np.testing.assert_allclose(OPERATORS[name](f, X), wanted, rtol=1e-12, err_msg=name)
        assert f(X) == 20.0
        assert type(f.v["v"]) in {np.float64, float}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("container", CONTAINERS)
def test_keys_in_containers(container):
    for k, key in enumerate(KEYS, start=5 * [*CONTAINERS].index(container)):
        place = [*PLACES][k % len(PLACES)]
        check(lambda key=key, place=place: memo(place, *CONTAINERS[container], key), k)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("same", SAME)
def test_comparisons_with_what_was_kept(same):
    for k, place in enumerate(PLACES, start=7 * SAME.index(same)):
        missing = f"not {{0}} or not ({same.replace('{0}', '{0}[0]')})"
        check(lambda place=place: memo(place, "[]", missing, "{}[:] = [x]"), k)


@pytest.mark.filterwarnings("ignore")
def test_memos_that_are_made_and_called_inside():
    def f(x):
        inner = memo("attribute", *CONTAINERS["set"], "x[0]")
        inner(np.array([3.0, 1.0]))
        return inner(x)

    def kept(x):
        last = (np.array([3.0, 1.0]), 20.0)
        return last[1] if np.array_equal(x, last[0]) else np.sum(x**3 - 2 * x)

    for g, name in itertools.product([f, kept], OPERATORS):
        wanted = np.diag(6 * X) if name == "hessian" else 3 * X**2 - 2
        np.testing.assert_allclose(OPERATORS[name](g, X), wanted, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
def test_a_call_leaves_what_a_plain_call_leaves(capsys):
    count = "self.calls += 1; LOG.append(self.calls); print(self.calls); TABLE[str(self.calls)] = x"
    log, table = [], {}
    f = memo("attribute", *CONTAINERS["set"], "x[0]", count)
    vars(__import__("builtins")).update(LOG=log, TABLE=table)
    try:
        f(X)
        np.testing.assert_allclose(fdiff.grad(f)(X), 3 * X**2 - 2)
    finally:
        del __import__("builtins").LOG, __import__("builtins").TABLE
    assert f.calls == 2
    assert log == [1, 2]
    assert f.t == {3.0}
    assert [*table] == ["1", "2"]
    assert capsys.readouterr().out == "1\n2\n"


class Kept:
    """Keeps its last argument and value, and more."""

    def __init__(self):
        self.x = self.v = None
        self.scale, self.hits, self.misses = 1.0, 0, 0

    def hit(self, x):
        return self.x is not None and np.all(x == self.x)

    def stale(self, x):
        if not self.hit(x):
            self.x, self.v = x, np.sum(self.scale * x**2)
        return self.v

    def only_before(self, x):
        if not self.hit(x):
            raise RuntimeError("evaluate first")
        return self.v

    def counted(self, x):
        if self.hit(x):
            self.hits += 1
            return self.v
        self.misses += 1
        self.x, self.v = x, np.sum(x**2)
        return self.v

    def parameters(self, x):
        """As libraries of models do: one method takes `x`, others compute."""
        if not self.hit(x):
            self.x, self.v = np.copy(x), None
        if self.v is None:
            self.v = np.sum(self.x**2)
        return self.v * 3


def test_what_is_not_computed_again_is_refused():
    f = Kept()
    f.stale(X)
    f.scale = 2.0
    with pytest.raises(fdiff.errors.TraceError, match=r"kept in `stale\.v`.*\n.*\n.*stop_gradient"):
        fdiff.grad(f.stale)(X)
    f = Kept()
    f.x, f.v = X, 10.0
    with pytest.raises(fdiff.errors.TraceError, match="does not compute the same value again") as e:
        fdiff.grad(f.only_before)(X)
    assert isinstance(e.value.__cause__, RuntimeError)
    stopped = lambda x: f.only_before(fdiff.stop_gradient(x)) * np.sum(x)
    np.testing.assert_array_equal(fdiff.grad(stopped)(X), [10.0, 10.0])


@pytest.mark.filterwarnings("ignore")
def test_hits_and_misses_are_counted_as_by_plain_calls():
    f = Kept()
    for k in range(1, 4):
        f.counted(X)
        np.testing.assert_array_equal(fdiff.grad(f.counted)(X), 2 * X)
        np.testing.assert_array_equal(fdiff.grad(f.parameters)(X), 6 * X)
        assert (f.hits, f.misses) == (2 * k - 1, 1)


def twice(x):
    """Two memos, one inside of the other, and a branch at a point that is none."""
    total = OUTER(x)
    return total + np.sum(x**2) if np.all(x == LOWER) else total


INNER, LOWER = memo("attribute", *CONTAINERS["set"], "x[0]"), X.copy()


class Outer:
    last = None

    def __call__(self, x):
        if self.last is None or np.any(x != self.last[0]):
            self.last = (x, INNER(x))
        return self.last[1]


OUTER = Outer()


@pytest.mark.filterwarnings("ignore")
def test_memos_in_memos_beside_an_ordinary_branch():
    for _ in range(2):
        twice(X)
        np.testing.assert_allclose(fdiff.grad(twice)(X), 3 * X**2 - 2 + 2 * X)


def root(a, x):
    """Newton's iteration, which ends where the iterates are equal, or near."""
    for _ in range(50):
        new = 0.5 * (x + a / x)
        if new == x or abs(new - x) < 1e-14 * abs(x):
            break
        x = new
    return x


def norm(v):
    square = v @ v
    return 0.0 if square == 0 else np.sqrt(square)


SCALE, TWO = np.array([2.0, 2.0]), 2.0
ORDINARY = {
    "converged": (lambda x: root(x[0], 1.0), [4.0, 1.0], [0.25, 0.0]),
    "norm": (lambda x: norm(SCALE * x), [0.0, 0.0], [0.0, 0.0]),
    "norm of a difference": (lambda x: norm(x - SCALE), [2.0, 2.0], [0.0, 0.0]),
    "limit": (lambda x: max(x[0], TWO) + min(x[1], TWO), [2.0, 2.0], [1.0, 1.0]),
    "region": (lambda x: x[0] if abs(x[0] - TWO) < 0.3 else 0.0, [2.0, 2.0], [1.0, 0.0]),
    "sinc": (lambda x: 1.0 if x[0] == 0 else np.sin(x[0]) / x[0], [0.0, 2.0], [0.0, 0.0]),
    "table": (lambda x: {2.0: 3.0}.get(x[0], 0.0) * x[1], [2.0, 2.0], [0.0, 3.0]),
    "mask": (lambda x: np.sum(np.where(x == SCALE, 3 * x, x)), [2.0, 1.0], [3.0, 1.0]),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_branches_are_traced_once(name):
    f, x, slope = ORDINARY[name]
    found = fdiff.grad(f)
    for _ in range(2):  # a warning that it is traced again would be an error
        np.testing.assert_allclose(found(np.array(x)), slope, atol=1e-15)


@pytest.mark.filterwarnings("ignore")
def test_single_precision_and_rows():
    class History:
        def __init__(self):
            self.xs, self.vs = np.full((4, 2), np.nan, np.float32), collections.deque(maxlen=4)

        def __call__(self, x):
            hit = (self.xs == x).all(axis=1)
            if not hit.any():
                self.xs = np.roll(self.xs, 1, axis=0)
                self.xs[0] = x
                self.vs.appendleft(np.sum(x**3))
                hit = (self.xs == x).all(axis=1)
            return self.vs[int(np.argmax(hit))]

    f, x = History(), X.astype(np.float32)
    for point in (x, 2 * x):
        f(point)
    for point in (x, 2 * x, 3 * x):
        np.testing.assert_allclose(fdiff.grad(f)(point), 3 * point**2, rtol=1e-6)


class Limits:
    """Compares with numbers that it counts, or that lie in a list, while it stores others."""

    def __init__(self):
        self.n, self.kept, self.limits = 0, [0.0, 0.0], [1.0, 2.0]

    def counter(self, x):
        self.n += 1
        return x**4 if x == self.n else x**3 - 2 * x

    def limit(self, x):
        self.kept[0] = x
        return x**4 if x == self.limits[0] else x**3 - 2 * x

    def smallest(self, x):
        self.kept[0] = x
        return x**4 if x == min(self.limits) else x**3 - 2 * x


@pytest.mark.filterwarnings("ignore")
def test_counters_and_limits_are_ordinary_branches():
    f = Limits()
    assert [fdiff.grad(f.counter)(1.0) for _ in range(3)] == [4.0, 1.0, 1.0]
    for name in ("limit", "smallest"):
        for _ in range(2):
            assert getattr(f, name)(1.0) == 1.0
            assert [fdiff.grad(getattr(f, name))(x) for x in (1.0, 2.0)] == [4.0, 10.0]


@pytest.mark.filterwarnings("ignore")
def test_solvers_that_call_memos_plainly():
    """A solver inside of `f` fills the memo, at the point where its theorem needs derivatives."""

    class Cube:
        last = None

        def __call__(self, z):
            if self.last is None or np.any(z != self.last[0]):
                self.last = (z, z**3)
            return self.last[1]

    def roots(x):
        cube = Cube()
        return np.sum(optimize.root(lambda z: cube(z) - x, np.ones(2)).x)

    np.testing.assert_allclose(fdiff.grad(roots)(X), X ** (-2 / 3) / 3, rtol=1e-8)
