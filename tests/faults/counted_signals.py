"""Signals whose handler raises, at any moment of a program: as many are seen as were raised.

    python counted_signals.py PROGRAMS COUNT [CLASS [SEED]]

Their class derives from `CLASS`. Prints how many of each, and where one was lost; ends with
status 1 then.
"""

import builtins
import collections
import contextlib
import gc
import importlib
import math
import os
import pkgutil
import random
import signal
import sys
import time
import traceback
import types
import warnings

import numpy as np
from faults_support import loops_of_any_length

import fdiff
from fdiff import autograd, profiler
from fdiff.errors import DefectWarning, RetraceWarning

X = np.linspace(0.1, 0.9, 5)


BASE = getattr(builtins, sys.argv[3]) if __name__ == "__main__" and sys.argv[3:] else Exception


class StopError(BASE):
    """What the alarm raises."""


raised = [0]
place = []  # where the last one came
ignored = collections.Counter()  # by what Python shows of exceptions that it ignores


def in_handler_of_forks(frame):
    """Whether `frame` is in a handler of Python's own library, in which Python drops exceptions."""
    names = []
    while frame is not None and frame.f_code is not forks.__code__:
        names.append(frame.f_globals.get("__name__"))
        frame = frame.f_back
    return bool(frame and names and names[-1] in ("logging", "random", "threading"))


def alarm(_, frame):
    if in_handler_of_forks(frame):
        signal.setitimer(signal.ITIMER_REAL, 1e-5)
        return
    raised[0] += 1
    place[:] = traceback.format_stack(frame, 6)
    raise StopError


def ignore(one):
    where = traceback.format_tb(one.exc_traceback)[:1]
    ignored[f"{one.object!r:.60} {''.join(where)}"] += 1


class Model:
    def __init__(self):
        self.scale = 2.0

    def loss(self, x):
        return np.sum(x**2) * self.scale


def fresh(k):
    """A function that no call has met before."""
    return eval(f"lambda x: np.sum(np.sin(x) * x) * {k}.0", {"np": np})


def first(k):
    fdiff.grad(fresh(k))(X)


def dropped(_):
    model = Model()
    slope = fdiff.grad(model.loss)
    for _ in range(3):
        slope(X)
    del model, slope
    gc.collect(0)


def jit(k):
    fdiff.cache_clear()
    fdiff.jit(fdiff.grad(fresh(1 + k % 3)))(X)


def cold(k):
    fdiff.cache_clear(disk=True)
    fdiff.jit(fdiff.grad(fresh(1 + k % 3)))(X)


def profile(k):
    with profiler.profile():
        fdiff.jit(fdiff.grad(fresh(k % 5)))(X)


def backward(_):
    x = autograd.tensor(X, requires_grad=True)
    with autograd.no_grad():
        (x * x).sum()
    (np.sin(x) * x).sum().backward()


def lookups(_):
    """NumPy looks for protocols, and Python for attributes, of recorded arrays."""
    x = autograd.tensor(X, requires_grad=True)
    rows = np.array([x.data, autograd.tensor(X)])
    y = X @ x + (rows @ np.asarray(x.detach())).sum()
    assert not y.is_leaf
    y.backward()
    assert x.grad.requires_grad is y.grad_fn.next_functions[0][0].metadata.get("none", False)


class Base:
    kind = "sum"
    __name__ = "base"  # which Python keeps elsewhere in other classes

    def total(self, x):
        return np.sum(x**2)


class Asked(Base):
    """What functions ask for by name, of an object, of its class, by ``super`` and of a module."""

    __slots__ = ("scale",)

    def __init__(self):
        self.scale, self.shift = 2.0, 1.0

    def total(self, x):
        for _ in range(50):
            hasattr(super(), "kind") and hasattr(super(), "nothing")
        return super().total(x) * self.scale


MODULE = types.ModuleType("asked_module")
MODULE.one = 1.0


def attributes(_):
    """Proxies: `hasattr` drops any AttributeError, and so does `getattr` with a default."""
    asked = Asked()

    def loss(x):
        for _ in range(50):
            all(hasattr(asked, name) for name in ("scale", "shift", "total", "__name__", "nothing"))
            all(hasattr(Asked, name) for name in ("scale", "kind", "total", "nothing"))
            all(hasattr(MODULE, name) for name in ("one", "__class__", "nothing"))
        factor = getattr(MODULE, "one", None)
        return asked.total(x) * getattr(asked, "shift", None) * getattr(Asked, "none", factor)

    assert fdiff.grad(loss)(X).tolist() == (4 * X).tolist()


TABLE, HISTORY = {"a": 2.0, "b": 1.0}, [1.0, 2.0]


def containers(_):
    """Proxies of containers, local arrays: what is looked for in C in plain ones is Python code."""
    table, history = {**TABLE, **dict.fromkeys(range(30), 1.0)}, [*HISTORY]

    def loss(x):
        for k in range(60):
            sum(table.get(k, 0.0) for k in range(30))
            table.pop("nothing", None)
            k in table, table.setdefault(k % 30, 0.0)
        sum(1 for _ in np.zeros(100))
        history.append(0.0)
        history.index(2.0)
        return np.sum(x**2) * table.get("a", 0.0) * history[1]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RetraceWarning)
        assert fdiff.grad(loss)(X).tolist() == (8 * X).tolist()


def primitive(k):
    """An operation of its own, whose tapes are kept weakly."""
    double = fdiff.custom_vjp(lambda x: x * float(k))
    double.defvjp(lambda x: (x * float(k), x), lambda x, bar: (bar * float(k),))
    slope = fdiff.grad(lambda x: np.sum(double(x)))
    for _ in range(3):
        slope(X)


def loops(k):
    """On the tape: their bodies are traced, kept apart, and compiled; one is a plain loop."""
    fdiff.cache_clear()

    def plain(x):
        s = x[1]
        for _ in range(30):
            s = np.sin(s) * 0.5 + x[0] * float(k)
        return s

    with loops_of_any_length():
        fdiff.grad(plain)(X)
    trip = lambda carry, row: (carry + np.sin(row) * float(k), None)
    far = lambda c: np.abs(c * c - 2.0) > 1e-13
    f = lambda x: fdiff.scan(trip, 0.0, x)[0]
    fdiff.grad(lambda x: f(x) * fdiff.while_loop(far, lambda c: 0.5 * (c + 2.0 / c), x[0]))(X)
    fdiff.jit(fdiff.grad(f))(X)


def forks(k):
    """Python drops what arrives in handlers of forks: fdiff's may run no Python code there."""
    parent = os.getpid()
    try:
        os.fork()
    finally:
        if os.getpid() != parent:
            os._exit(0)
    first(k)


PROGRAMS = {
    one.__name__: one
    for one in (
        first, dropped, jit, cold, profile, backward, lookups, attributes, containers, primitive,
        loops, forks,
    )
}  # fmt: skip


def count(name, times):
    """Whether every exception was seen: that of an alarm at another moment of each run."""
    program, rng = PROGRAMS[name], random.Random(name + "".join(sys.argv[4:]))
    seen, before = 0, raised[0]
    for k in range(3):
        program(k)
    shortest = math.inf  # of runs: others were delayed by what else the machine does
    for k in range(3):
        begin = time.perf_counter()
        program(k)
        shortest = min(shortest, time.perf_counter() - begin)
    for k in range(times):
        lost = raised[0] - seen
        try:
            signal.setitimer(signal.ITIMER_REAL, max(shortest * rng.random(), 1e-5))
            try:
                program(k)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except StopError:
            seen += 1
        if raised[0] - seen > lost:
            print(f"lost at\n{''.join(place)}")
    print(f"{name}: {raised[0] - before} raised, {seen} seen")
    return seen == raised[0] - before


def import_all():
    """Import what programs import late.

    Python's import drops any OSError as it reads bytecode, and any exception that arrives in the
    callback of the lock of a module.
    """
    for module in pkgutil.walk_packages(fdiff.__path__, "fdiff."):
        if ".cuda" not in module.name:
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def noted(message, *_, **__):
    """In place of `warnings.showwarning`: a kernel that failed is one that an alarm has ended."""
    if isinstance(message, DefectWarning):
        ignored[str(message)] += 1


if __name__ == "__main__":
    warnings.showwarning = noted
    import_all()
    signal.signal(signal.SIGALRM, alarm)
    sys.unraisablehook = ignore
    whole = [count(name, int(sys.argv[2])) for name in sys.argv[1].split(",")]
    for where, times in ignored.most_common():
        print(times, where)
    sys.exit(0 if all(whole) and not ignored else 1)
