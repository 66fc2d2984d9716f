"""Which number a condition compares with: one kept in an earlier call, or an ordinary one.

Functions that keep their last argument and value have the derivative of what they compute. Branches
on literals and on bounds stay as they are, also where the function keeps an equal number elsewhere.
"""

import numpy as np
import pytest

import fdiff

PROGRAM = """
BOUND = 1.0

def same(a, b):
    return a == b

def same_first(a, items):
    if a == items[0]:
        return True
    return False

def same_last(a, holder):
    kept = holder.last
    first = kept[0]
    return bool(a == first)

def same_inside(x, holder):
    def ask():
        if x == holder.last[0]:
            return True
        return False
    return ask()

class Bounds:
    low = 1.0

    def __init__(self):
        self.items = {"low": [1.0]}

class Kept:
    bound, half = 1.0, 0.5

    def __init__(self):
        self.last = self.one = None
        self.b, self.h, self.inner = [1.0], [], Bounds()

    @property
    def first(self):
        return self.last[0]

    @property
    def low(self):
        return self.b[0]

    def kept(self):
        return self.last[0]

    def lower(self):
        return self.b[0]

    def same(self, x):
        return x == self.last[0]

    def __call__(self, x, start=1.0):
        d = 1.0
{body}

class Indexed(Kept):
    def __getitem__(self, k):
        return self.last[k]
"""
MEMO = """
x == self.last[0]
np.array_equal(x, self.last[0])
not np.any(x != self.last[0])
abs(x - self.last[0]) < 1e-12
np.isclose(x, self.last[0])
self.first == x
self.kept() == x
self.same(x)
same(x, self.last[0])
same_first(x, self.last)
same_last(x, self)
same_inside(x, self)
any(x == k for k in [self.last[0]])
any([x == k for k in self.last[:1]])
(hit := x == self.last[0])
x in self.last[:1]
self.last[0] == x == self.last[0]
x == vars(self)['last'][0]
x == getattr(self, 'la' + 'st')[0]
x == self[0]
same(x, self[0])
same_first(x, self)
"""
ORDINARY = """
x == 1
np.all(x == 1)
np.array_equal(x, 1.0)
abs(x - 1) < 1e-12
(hit := x == 1)
x in (1, 5)
x == d
x == start
x == BOUND
x == self.bound
x == 2 * self.half
x == self.b[0]
x == len(self.b)
x == self.low
x == self.lower()
x == self.inner.low
same(x, 1)
same(x, self.b[0])
any(x == k for k in self.b)
"""
LOGS = ["h.append(x)", "h.append((x, x**3))", "last = (x, 2 * x)", "one = x"]


def program(*lines, name="Kept"):
    body = "\n".join(" " * 8 + line for line in lines)
    space = {"np": np, "__name__": "program"}
    exec(PROGRAM.replace("{body}", body), space)
    return space[name]()


def memo(condition, literal):
    return program(
        f"if x == {literal}: d = 1.0",
        f"if self.last is None or not ({condition}):",
        "    self.last = (x, d * x**3 - 2.0 * x)",
        "return self.last[1]",
        name="Indexed",
    )


def rows(text):
    return text.strip().splitlines()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("condition", rows(MEMO))
def test_kept_numbers_are_told_from_literals(condition):
    for kept, x in [(3, 3.0), (3.0, 3.0), (1.0, 1.0), (1, 1.0), (0.0, 0.0)]:
        f = memo(condition, int(x))
        f(kept)
        found = fdiff.value_and_grad(f)(x)
        expected = (x**3 - 2 * x, 3 * x**2 - 2)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=f"{kept}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("condition", rows(ORDINARY))
def test_ordinary_branches_stay_so_where_the_argument_is_kept(condition):
    branch = f"r = x**4 if {condition} else x**3 - 2 * x"
    for log in LOGS:
        for lines in [(f"self.{log}", branch), (branch, f"self.{log}")]:
            for kept in [1.0, 1]:
                f = program(*lines, "return r")
                f(kept)
                found = fdiff.value_and_grad(f)(1.0)
                np.testing.assert_allclose(found, (1.0, 4.0), err_msg=f"{lines}")
                np.testing.assert_allclose(fdiff.grad(f)(2.0), 10.0)


def in_list():
    pairs = []

    def f(x):
        for kept, v in pairs:
            if kept == x:
                return v
        pairs.append((x, x**3))
        return pairs[-1][1]

    return f


def in_keys():
    values = {}

    def f(x):
        for kept, v in values.items():
            if kept == x:
                return v
        values[x] = x**3
        return values[x]

    return f


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", [in_list, in_keys])
def test_all_that_was_kept_is_looked_at(make):
    f = make()
    for k in range(100):
        f(float(k))
    for x in [0.0, 50.0, 99.0]:
        np.testing.assert_allclose(fdiff.value_and_grad(f)(x), (x**3, 3 * x**2))
