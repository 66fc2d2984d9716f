"""What a caller holds is freed with its frame, without a collection of garbage.

Code that looks at frames, or keeps an error, easily makes a cycle of them: then arrays of the
caller, and those of its callers, stay until the collector runs.
"""

import gc
import logging
import os
import weakref
from contextlib import suppress

import numpy as np
import pytest

import fdiff
from fdiff import autograd
from fdiff.process.interruptible import interruptibly, interruptibly_without_lock

X = np.array([1.5, 0.7])
RNG = np.random.default_rng(0)


class Local:
    """What a frame of the user holds."""


def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def value(x):
    return np.sum(np.sin(x) * x)


def recorded():
    x = autograd.tensor(X, requires_grad=True)
    np.sum(x * x).backward()


def checkpoint():
    fdiff.checkpoint(value, autograd.tensor(X, requires_grad=True)).backward()


def backward_without_vector():
    (autograd.tensor(X, requires_grad=True) * 2).backward()


def anomaly():
    with autograd.detect_anomaly():
        np.sum(np.sqrt(autograd.tensor(X * 0, requires_grad=True)) * 0).backward()


def kink():
    with fdiff.kinks("raise"):
        fdiff.grad(lambda x: np.sum(np.abs(x)))(X * 0)


def profile():
    with autograd.profiler.profile():
        fdiff.grad(lambda x: np.sum(x**3))(X)


def tangent():
    with autograd.forward_ad.dual_level():
        autograd.forward_ad.unpack_dual(autograd.forward_ad.make_dual(X, X))


def fails():
    raise ZeroDivisionError


def raises(x):
    raise ZeroDivisionError


def logs(x):
    logging.getLogger("frames").info("value %s", np.sum(x))
    return np.sum(x * x)


CALLS = {
    "fork": fork,
    "grad": lambda: fdiff.grad(lambda x: np.sum(x**2))(X),
    "hessian": lambda: fdiff.hessian(value)(X),
    "vmap": lambda: fdiff.vmap(value)(np.ones((3, 2))),
    "vjp": lambda: fdiff.vjp(value, X),
    "sparse": lambda: fdiff.jacobian(lambda x: x * x, sparse=True)(X),
    "branches": lambda: [fdiff.grad(lambda x: x[0] if x[1] > 0 else x[1])(s * X) for s in (1, -1)],
    "writes": lambda: fdiff.grad(logs)(X),
    "draws": lambda: fdiff.grad(lambda x: np.sum(x) * RNG.random())(X),
    "raises": lambda: fdiff.grad(raises)(X),
    "to a number": lambda: fdiff.grad(lambda x: float(x[0]) * x[1])(X),
    "to a number of NumPy": lambda: fdiff.grad(lambda x: np.float64(x[0]) * x[1])(X),
    "to an array": lambda: fdiff.grad(lambda x: np.asarray(x, float)[0] * x[1])(X),
    "caught": lambda: fdiff.grad(lambda x: next(filter(None, map(float, x))) * x[1])(X),
    "unsupported": lambda: fdiff.grad(lambda x: np.linalg.eig(np.outer(x, x))[0][0])(X),
    "bad argument": lambda: fdiff.grad(value)("text"),
    "kink": kink,
    "recorded": recorded,
    "recorded error": backward_without_vector,
    "anomaly": anomaly,
    "profile": profile,
    "tangent": tangent,
    "checkpoint": checkpoint,
    "gradcheck": lambda: fdiff.gradcheck(value, (X,)),
    "wrong derivative": lambda: fdiff.gradcheck(lambda x: fdiff.stop_gradient(x) * x, (X,)),
    "interruptible": lambda: interruptibly(list),
    "interruptible without lock": lambda: interruptibly_without_lock(list),
    "interruptible error": lambda: interruptibly(fails),
    "interruptible without lock error": lambda: interruptibly_without_lock(fails),
}  # fmt: skip


def held(call):
    """Call with an object in the frame; a reference to it."""
    mine = Local()
    with suppress(Exception):
        call()
    return weakref.ref(mine)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", CALLS)
def test_frames_of_callers_end_with_them(kind):
    if kind == "fork" and not hasattr(os, "fork"):
        pytest.skip("this system has no fork")
    gc.disable()
    try:
        refs = [held(CALLS[kind]), held(CALLS[kind])]
        assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


@pytest.mark.parametrize("run", [interruptibly, interruptibly_without_lock])
def test_what_runs_in_a_thread_ends_with_it(run):
    gc.disable()
    try:
        work = Local()
        ref = weakref.ref(work)
        run(lambda work=work: None)
        del work
        assert ref() is None
    finally:
        gc.enable()
