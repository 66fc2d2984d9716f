"""What a function captured is freed when the user drops it: at most 8 generations stay."""

import functools
import gc
import sys
import weakref

import numpy as np
import pytest
from faults_support import LONG, of_shard

import fdiff

X = np.linspace(0.1, 0.9, 5)
MOST = 8
TIMES = of_shard(600) if LONG else 60
HERE = sys.modules[__name__]
data = None  # a global that functions read, and that is bound anew


class Watch:
    """Arrays that it made, and how many of them are alive."""

    def __init__(self):
        self.references = []
        self.others = fdiff.cache_info().retained_data  # of what other tests hold

    def array(self, number, size=5):
        made = np.full(size, float(number))
        self.references.append(weakref.ref(made))
        return made

    def alive(self):
        for _ in range(3):
            gc.collect()
        return sum(one() is not None for one in self.references)


@pytest.fixture
def watch():
    fdiff.cache_clear()
    gc.collect()  # what other tests have left
    return Watch()


def times_data(x):
    return np.sum(data * x)


PREPARED = {
    "grad": fdiff.grad,
    "jit": lambda f: fdiff.jit(fdiff.grad(f)),
    "jacobian": fdiff.jacobian,
}


@pytest.mark.parametrize("operator", ["grad", "jit", "jacobian"])
@pytest.mark.parametrize("sizes", [1, 20])
def test_a_global_that_is_rebound(operator, sizes, watch):
    """Fast paths, and what each trace compares, let go of what is there no more."""
    prepared = PREPARED[operator](lambda x: np.sum(data) * np.sum(x))
    for number in range(TIMES):
        HERE.data = watch.array(number, 5 + number % sizes)
        for _ in range(6):
            np.testing.assert_allclose(prepared(X), np.full(5, data.sum()))
    HERE.data = None
    assert watch.alive() <= MOST
    assert fdiff.cache_info().retained_data <= MOST + watch.others
    fdiff.cache_clear()
    assert watch.alive() == 0
    HERE.data = watch.array(7)
    np.testing.assert_allclose(prepared(X), np.full(5, 35.0))
    HERE.data = None
    del prepared
    assert watch.alive() == 0
    assert fdiff.cache_info().retained_data <= watch.others


def test_a_global_that_changes_to_and_fro(watch):
    """Fast paths that were dropped are not missed, and those that are kept hold."""
    prepared = fdiff.jit(fdiff.grad(times_data))
    kept = [watch.array(number) for number in range(12)]
    for number in range(40 * TIMES):
        HERE.data = kept[number * 7 % 12]
        assert np.array_equal(prepared(X), data)
    HERE.data = None


class Model:
    def __init__(self, values):
        self.values = values
        self.gradient = fdiff.grad(self.loss)
        self.compiled = fdiff.jit(self.gradient)

    def loss(self, x):
        return np.sum(self.values * x)

    def __call__(self, x):
        return np.sum(self.values * x)


def test_objects_with_a_gradient_each(watch):
    for number in range(TIMES):
        model = Model(watch.array(number))
        for _ in range(3):
            assert np.array_equal(model.gradient(X), model.values)
        if number % 20 == 0:
            assert np.array_equal(model.compiled(X), model.values)
    del model
    assert watch.alive() == 0


IMMEDIATE = {
    "default": lambda a: fdiff.grad(lambda x, a=a: np.sum(a * x))(X),
    "closure": lambda a: fdiff.value_and_grad(lambda x: np.sum(a * x))(X)[1],
    "jacobian": lambda a: np.diag(fdiff.jacobian(lambda x: a * x, X)),
    "vjp": lambda a: fdiff.vjp(lambda x: a * x, X, np.ones(5))[1],
    "method": lambda a: fdiff.jacobian(Model(a).loss, X),
    "callable": lambda a: fdiff.grad(Model(a))(X),
    "vmap": lambda a: fdiff.vmap(lambda x: a * x)(np.ones((2, 5)))[1],
}


@pytest.mark.parametrize("call", IMMEDIATE)
def test_functions_that_are_made_for_one_call(call, watch):
    for number in range(TIMES):
        array = watch.array(number)
        np.testing.assert_allclose(IMMEDIATE[call](array), array)
    del array
    assert watch.alive() <= MOST
    fdiff.cache_clear()
    assert watch.alive() == 0


def own_vjp(a):
    @fdiff.custom_vjp
    def f(x):
        return a * x

    f.defvjp(lambda x: (a * x, x), lambda x, bar: (a * bar,))
    return f


def own_jvp(a):
    @fdiff.custom_jvp
    def f(x):
        return a * x

    f.defjvp(lambda primals, tangents: (a * primals[0], a * tangents[0]))
    return f


def own_operation(a):
    return fdiff.primitive(lambda x: a * x, partials=lambda x, out: (a,))


def recorded(f):
    x = fdiff.autograd.tensor(X, requires_grad=True)
    f(x).sum().backward()
    return np.asarray(x.grad)


USES = {
    "lambda": lambda f: fdiff.grad(lambda x: np.sum(f(x)))(X),
    "jit": lambda f: fdiff.jit(fdiff.grad(lambda x: np.sum(f(x) * 1.0)))(X),
    "itself": lambda f: np.diag(fdiff.jacobian(f)(X)),
    "at once": lambda f: fdiff.vjp(f, X, np.ones(5))[1],
    "mapped": lambda f: fdiff.vmap(f)(np.ones((2, 5)))[1],
    "recorded": recorded,
    "second": lambda f: np.diag(fdiff.hessian(lambda x: np.sum(f(x) * x))(X)) / 2,
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("made", [own_vjp, own_jvp, own_operation])
def test_functions_with_rules_are_freed(made, use, watch):
    """Those made inside of a function, as closures over data."""
    many = of_shard(3000) if LONG and use not in ("jit", "second") else 30
    for number in range(many):
        array = watch.array(number)
        np.testing.assert_allclose(USES[use](made(array)), array)
    del array
    assert watch.alive() <= 2 * MOST
    fdiff.cache_clear()
    assert watch.alive() == 0


def test_a_function_of_a_dropped_operation_still_works():
    """One that is made while a function is traced belongs to what was traced."""

    def f(x):
        return np.sum(fdiff.primitive(lambda y: 2.0 * y, partials=lambda y, out: (2.0,))(x))

    prepared = fdiff.grad(f)
    for _ in range(20):
        gc.collect()
        assert np.array_equal(prepared(X), np.full(5, 2.0))


class Opaque(np.ndarray):
    """An array that may have any attributes, so that what reads it is traced at each call."""


class Sums:
    def __init__(self, a):
        self.a = a

    def __call__(self, x):
        return np.sum(x) * float(self.a[3])

    def method(self, x):
        return self(x)


def partial_of(a):
    return functools.partial(lambda a, x: np.sum(x) * float(a[3]), a)


def with_rule(a):
    f = fdiff.custom_jvp(Sums(a).method)
    f.defjvp(lambda primals, tangents: (Sums(a)(*primals), np.sum(tangents[0]) * float(a[3])))
    return f


OPERATORS = {
    "grad": lambda f: fdiff.grad(f),
    "jit": lambda f: fdiff.jit(fdiff.grad(f)),
    "nested": lambda f: fdiff.grad(lambda x: fdiff.grad(f)(x) @ x),
    "lambda": lambda f: fdiff.jacobian(lambda x: f(x)),
}


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("kind", [Sums, lambda a: Sums(a).method, partial_of, with_rule])
def test_functions_that_are_traced_at_each_call_are_freed(kind, operator, watch):
    for number in range(2 * MOST):
        array = watch.array(number).view(Opaque)
        watch.references[-1] = weakref.ref(array)
        np.testing.assert_allclose(OPERATORS[operator](kind(array))(X), number)
    del array
    assert watch.alive() <= MOST
    fdiff.cache_clear()
    assert watch.alive() == 0
