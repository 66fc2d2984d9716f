"""Alarms in hot loops, over 32 kinds of functions: none is lost, and the next call is right.

    python interrupted_loops.py COUNT KIND...

`COUNT` alarms for each kind, at other moments each.
"""

import collections
import dataclasses
import functools
import signal
import sys
import types
import warnings

import numpy as np

import fdiff
from fdiff.errors import DefectWarning
from fdiff.process.background import worker
from fdiff.trace.trace_stack import tracing

X = np.linspace(0.1, 0.9, 5)


class StopError(Exception):
    """What the alarm raises."""


FIRED = [0]
ARMED = [False]


def alarm(*_):
    if ARMED[0]:
        FIRED[0] += 1
        raise StopError


class Parameters:
    of_class = 2.0

    def __init__(self):
        self.k = self._hidden = 2.0

    @property
    def shown(self):
        return self._hidden

    def method(self, x):
        return np.sum(x**2) * self.k

    def __call__(self, x):
        return np.sum(x**2) * self.k

    @classmethod
    def by_class(cls, x):
        return np.sum(x**2) * cls.of_class

    @staticmethod
    def static(x):
        return np.sum(x**2) * 2.0


class Child(Parameters):
    def method(self, x):
        return super().method(x)


class Slots:
    __slots__ = ("k",)

    def __init__(self):
        self.k = 2.0


@dataclasses.dataclass
class Data:
    k: float = 2.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    k: float = 2.0


Named = collections.namedtuple("Named", "k")  # noqa: PYI024 - as users write them
G, TABLE, LIST, TUPLE, SET = 2.0, {"a": 2.0, 1: 2.0, (1, 2): 2.0}, [2.0], (2.0,), {2.0}
P, C, S, D, F, N = Parameters(), Child(), Slots(), Data(), Frozen(), Named(2.0)
SPACE, ARRAY = types.SimpleNamespace(k=2.0), np.array(2.0)
ORDERED, DEFAULT = collections.OrderedDict(a=2.0), collections.defaultdict(float, a=2.0)


def closure():
    k = 2.0
    return lambda x: np.sum(x**2) * k


def defaults(x, k=2.0):
    return np.sum(x**2) * k


def keyword(x, *, k=2.0):
    return np.sum(x**2) * k


def own_attribute(x):
    return np.sum(x**2) * own_attribute.k


own_attribute.k = 2.0

KINDS = {
    "plain": lambda x: np.sum(x**2) * 2.0, "global": lambda x: np.sum(x**2) * G,
    "closure": closure(), "defaults": defaults, "keyword": keyword, "own": own_attribute,
    "method": P.method, "callable": P, "classmethod": P.by_class, "static": P.static,
    "super": C.method, "slots": lambda x: np.sum(x**2) * S.k,
    "instance": lambda x: np.sum(x**2) * P.k, "property": lambda x: np.sum(x**2) * P.shown,
    "class": lambda x: np.sum(x**2) * Parameters.of_class, "data": lambda x: np.sum(x**2) * D.k,
    "frozen": lambda x: np.sum(x**2) * F.k, "named": lambda x: np.sum(x**2) * N.k,
    "namespace": lambda x: np.sum(x**2) * SPACE.k, "text": lambda x: np.sum(x**2) * TABLE["a"],
    "integer": lambda x: np.sum(x**2) * TABLE[1], "pair": lambda x: np.sum(x**2) * TABLE[(1, 2)],
    "list": lambda x: np.sum(x**2) * LIST[0], "tuple": lambda x: np.sum(x**2) * TUPLE[0],
    "partial": functools.partial(defaults, k=2.0), "array": lambda x: np.sum(x**2) * ARRAY,
    "ordered": lambda x: np.sum(x**2) * ORDERED["a"],
    "default": lambda x: np.sum(x**2) * DEFAULT["a"],
    "scan": lambda x: fdiff.scan(lambda c, row: (c + row * row * G, None), 0.0, x)[0],
    "while": lambda x: np.sum(x**2) * fdiff.while_loop(lambda c: c < G, lambda c: 2 * c, 1.0),
    "cond": lambda x: fdiff.cond(x[0] < G, lambda x: np.sum(x**2) * G, np.sum, x),
    "set": lambda x: np.sum(x**2) * (2.0 if 2.0 in SET else 0.0),
}  # fmt: skip


def right(call):
    value, slope = call(X)
    return np.isclose(value, 2 * np.sum(X**2)) and np.allclose(slope, 4 * X)


def loop(name, count):
    """How many alarms were lost, or left anything wrong behind."""
    call, wrong = fdiff.value_and_grad(KINDS[name]), 0
    for calls in (20, 150):
        for _ in range(calls):
            call(X)
        worker.wait()
    for k in range(count):
        FIRED[0], caught = 0, 0
        try:
            ARMED[0] = True
            signal.setitimer(signal.ITIMER_REAL, 3e-4 + 1e-5 * (k % 97))
            while not FIRED[0]:
                call(X)
        except StopError:
            caught = 1
        ARMED[0] = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        wrong += caught != FIRED[0] or tracing() or not right(call)
    return wrong


def noted(message, *_, **__):
    """In place of `warnings.showwarning`: a kernel that failed is one that an alarm has ended."""
    if isinstance(message, DefectWarning):
        defects.append(str(message))


defects = []


def main(count, *names):
    warnings.showwarning = noted
    signal.signal(signal.SIGALRM, alarm)
    found = {name: wrong for name in names or KINDS if (wrong := loop(name, count))}
    print(found, *defects)
    sys.exit(1 if found or defects else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
