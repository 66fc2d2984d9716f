"""Functions that keep their last argument and value, in every kind of place.

A plain call with the same argument before leaves a number there, which has no derivative: that of
what `f` computes around the argument is taken.
"""

import collections
from typing import NamedTuple

import numpy as np
import pytest
from scipy.optimize._root_scalar import MemoizeDer

import fdiff


def value(x):
    return np.sum(x**3 - 2 * x)


def attributes():
    class Kept:
        x = v = None

        def __call__(self, x):
            if self.x is None or np.any(x != self.x):
                self.x, self.v = x, value(x)
            return self.v

    return Kept()


def in_attribute(make, of):
    """A container that is replaced, in an attribute."""

    class Kept:
        last = None

        def __call__(self, x):
            if self.last is None or not np.array_equal(x, of(self.last)[0]):
                self.last = make(x, value(x))
            return of(self.last)[1]

    return Kept()


class Pair(NamedTuple):
    x: object
    v: object


class State:
    def __init__(self, x, v):
        self.x, self.v = x, v


def class_attribute():
    class Kept:
        last = None

        def __call__(self, x):
            if Kept.last is None or np.any(x != Kept.last[0]):
                Kept.last = (x, value(x))
            return Kept.last[1]

    return Kept()


def changed(empty, store, read):
    """A container that is changed in place, of an object."""

    class Kept:
        def __init__(self):
            self.last = empty()

        def __call__(self, x):
            if not self.last or np.any(x != read(self.last)[0]):
                store(self.last, x, value(x))
            return read(self.last)[1]

    return Kept()


def replaces(last, x, v):
    last[:] = [x, v]


def items(last, x, v):
    last["x"], last["v"] = x, v


def appends(last, x, v):
    last.append((x, v))


def rows():
    class Kept:
        def __init__(self):
            self.xs, self.vs = {}, np.zeros(3)

        def __call__(self, x):
            xs = self.xs.setdefault(np.shape(x), np.full((3, *np.shape(x)), np.nan))
            if not np.array_equal(x, xs[0]):
                xs[0], self.vs[0] = x, value(x)
            return self.vs[0]

    return Kept()


def histories():
    class Kept:
        def __init__(self):
            self.xs, self.vs = [], []

        def __call__(self, x):
            if not self.xs or np.any(x != self.xs[-1]):
                self.xs.append(x)
                self.vs.append(value(x))
            return self.vs[-1]

    return Kept()


def enclosing():
    last = None

    def f(x):
        nonlocal last
        if last is None or np.any(x != last[0]):
            last = (x, value(x))
        return last[1]

    return f


def enclosing_list():
    last = [None, None]

    def f(x):
        if last[0] is None or np.any(x != last[0]):
            last[0], last[1] = x, value(x)
        return last[1]

    return f


def default():
    def f(x, last=[]):  # noqa: B006 - kept on purpose
        if not last or np.any(x != last[0]):
            last[:] = [x, value(x)]
        return last[1]

    return f


def of_function():
    def f(x):
        if not hasattr(f, "last") or np.any(x != f.last[0]):
            f.last = (x, value(x))
        return f.last[1]

    return f


LAST = (None, None)


def by_global():
    def f(x):
        global LAST  # noqa: PLW0603 - kept on purpose
        if LAST[0] is None or np.any(x != LAST[0]):
            LAST = (x, value(x))
        return LAST[1]

    return f


def of_library():
    return MemoizeDer(lambda x: (value(x), 0))


KINDS = {
    "attributes": attributes,
    "tuple": lambda: in_attribute(lambda x, v: (x, v), lambda last: last),
    "list": lambda: in_attribute(lambda x, v: [x, v], lambda last: last),
    "dict": lambda: in_attribute(
        lambda x, v: {"x": x, "v": v}, lambda last: (last["x"], last["v"])
    ),
    "named tuple": lambda: in_attribute(Pair, lambda last: last),
    "object": lambda: in_attribute(State, lambda last: (last.x, last.v)),
    "nested": lambda: in_attribute(
        lambda x, v: {"p": (x, 2), "q": [v]}, lambda last: (last["p"][0], last["q"][0])
    ),
    "class": class_attribute,
    "list in place": lambda: changed(list, replaces, lambda last: last),
    "dict in place": lambda: changed(dict, items, lambda last: (last["x"], last["v"])),
    "list of pairs": lambda: changed(list, appends, lambda last: last[-1]),
    "deque": lambda: changed(
        lambda: collections.deque(maxlen=2), appends, lambda last: last[-1]
    ),
    "rows": rows,
    "histories": histories,
    "enclosing": enclosing,
    "enclosing list": enclosing_list,
    "default": default,
    "function": of_function,
    "global": by_global,
    "library": of_library,
}  # fmt: skip
OPERATORS = {
    "grad": lambda f, x: fdiff.grad(f)(x),
    "value_and_grad": lambda f, x: fdiff.value_and_grad(f)(x)[1],
    "jvp": lambda f, x: fdiff.jacobian(f, mode="forward")(x),
    "hessian": lambda f, x: fdiff.hessian(f)(x),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_was_kept_is_computed_again(kind, op):
    for x in [np.array([3.0, 1.0]), 1.5]:
        if kind == "library" and np.ndim(x):
            continue  # it asks whether arrays differ, as numbers
        f, second = KINDS[kind](), op == "hessian"
        expected = 6 * x * (np.eye(2) if np.ndim(x) else 1) if second else 3 * x**2 - 2
        for point in [x, x, 2 * x, x]:
            f(point)
            scale = point / x if second else 1
            wanted = expected * scale if second else 3 * point**2 - 2
            np.testing.assert_allclose(OPERATORS[op](f, point), wanted, rtol=1e-12)
            np.testing.assert_allclose(f(point), value(point))


@pytest.mark.parametrize("hold", [tuple, list], ids=["tuple", "list"])
def test_bounds_that_are_never_stored_are_ordinary_branches(hold):
    class Bounded:
        def __init__(self):
            self.bounds = hold([np.array([3.0, 1.0]), 1])
            self.calls, self.log = 0, []

        def __call__(self, x):
            self.calls += 1
            self.log.append(value(x))
            return np.sum(x**4) if np.all(x == self.bounds[0]) else value(x)

    f, x = Bounded(), np.array([3.0, 1.0])
    for _ in range(3):
        f(x)
        np.testing.assert_allclose(fdiff.grad(f)(x), 4 * x**3)
        np.testing.assert_allclose(fdiff.grad(f)(2 * x), 12 * x**2 - 2)


def test_what_is_not_stored_again_is_computed_too():
    class Once:
        last = None

        def __call__(self, x):
            if self.last is not None and np.all(x == self.last[0]):
                return self.last[1]
            if self.last is None:
                self.last = (x, value(x))
            return value(x)

    f, x = Once(), np.array([3.0, 1.0])
    f(x)
    with pytest.warns(fdiff.errors.RetraceWarning, match="a value that it has kept"):
        np.testing.assert_allclose(fdiff.grad(f)(x), 3 * x**2 - 2)
