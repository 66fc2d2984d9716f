"""What users of Dask meet: tokens and names of tasks, objects of Dask in and around functions."""

import functools
import types

import dask
import dask.array as da
import dask.bag
import numpy as np
import pandas as pd
import pytest
from dask.base import tokenize
from dask.utils import funcname

import fdiff
from fdiff.capture.non_numeric_data import TAKE_VALUES
from fdiff.errors import InputError, TraceError
from fdiff.trace.trace_stack import occupied

X = np.arange(1.0, 4.0)

# ------------------------------------------------------------------------------ tokens of functions

OPERATORS = {
    "grad": ((fdiff.grad, {}), (X,)),
    "value_and_grad": ((fdiff.value_and_grad, {}), (X,)),
    "jacobian": ((fdiff.jacobian, {"mode": "forward"}), (X,)),
    "hessian": ((fdiff.hessian, {}), (X,)),
    "hvp": ((fdiff.hvp, {}), (X, X)),
    "jit": ((fdiff.jit, {}), (X,)),
}


def loss_of(scale):
    def loss(x):
        return np.sum(scale * x**3)

    return loss


@pytest.fixture(autouse=True)
def _nobody_asked_for_errors_at_kinks(monkeypatch):
    """After `fdiff.kinks("raise")`, by another test, a process has no fast path."""
    monkeypatch.delitem(occupied, "kinks", raising=False)


def hot(prepared, args):
    """The function after calls of the same kind, which a builtin of machine code runs by now."""
    for _ in range(5):
        prepared(*args)
    assert isinstance(prepared.implementation, types.BuiltinFunctionType)
    return prepared


@pytest.mark.parametrize("name", OPERATORS)
def test_the_token_of_a_hot_function_sees_what_changes(name, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    (operator, options), args = OPERATORS[name]
    scale = np.ones(3)
    loss = loss_of(scale)
    prepared = hot(operator(loss, **options), args)
    token = tokenize(prepared)
    assert token == tokenize(prepared) == tokenize(operator(loss, **options))
    scale[1] = 100.0
    assert tokenize(prepared) != token
    scale[1] = 1.0
    assert tokenize(prepared) == token
    prepared(*args)
    assert tokenize(prepared) == token


def test_tokens_tell_operators_options_and_functions_apart(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    loss, other = loss_of(np.ones(3)), loss_of(np.full(3, 7.0))
    prepared = [
        hot(operator(f, **options), args)
        for f in (loss, other)
        for (operator, options), args in OPERATORS.values()
    ]
    prepared += [fdiff.grad(loss, argnums=(0,)), fdiff.grad(fdiff.grad(np.sin))]
    prepared += [fdiff.njit(fdiff.grad(loss), X), fdiff.njit(fdiff.grad(other), X)]
    tokens = {tokenize(g) for g in prepared}
    assert len(tokens) == len(prepared)


def test_tasks_are_named_after_operator_and_function(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")
    loss = loss_of(np.ones(3))
    for name, ((operator, options), args) in OPERATORS.items():
        cold = operator(loss, **options)
        assert funcname(cold) == funcname(hot(cold, args)) == f"{name}(loss)"
    assert funcname(fdiff.hessian(fdiff.grad(loss))) == "hessian(grad(loss))"
    assert funcname(fdiff.njit(fdiff.grad(loss), X)) == "grad(loss)"


def test_what_is_found_in_the_partial_can_be_called():
    prepared = fdiff.grad(loss_of(np.ones(3)))
    np.testing.assert_array_equal(prepared.func(X), prepared(X))
    assert functools.partial(prepared, X)().tolist() == prepared(X).tolist()


# ------------------------------------------------------------- classes with names that `type` keeps

NAMES = sorted({*dir(type), *dir(object), "__len__", "__array_priority__", "_fields", "name"})
UNUSABLE = {  # Python calls them for every class or instance, or keeps instances there
    "__abstractmethods__", "__class__", "__delattr__", "__dict__", "__getattribute__", "__init__",
    "__init_subclass__", "__new__", "__qualname__", "__setattr__",
}  # fmt: skip


def members(name):
    """A property, a method and a value of this name, and the text that reads it of `a`."""
    yield property(lambda self: self.factor), f"a.{name}"
    yield lambda self: self.factor, f"a.{name}()"
    yield 2.0, f"a.{name}"


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # of objects as arguments
@pytest.mark.parametrize("name", sorted({*NAMES} - UNUSABLE))
def test_a_class_may_have_a_member_of_any_name(name):
    for member, text in members(name):
        kind = type("Kind", (), {name: member, "factor": 2.0})
        before, a = dict(vars(kind)), kind()
        scope = {"np": np, "a": a}
        exec(f"def captured(x): return np.sum({text} * x**2)\n"
             f"def passed(x, a): return np.sum({text} * x**2)", scope)  # fmt: skip
        for f, args in ((scope["captured"], (X,)), (scope["passed"], (X, a))):
            slope = fdiff.grad(f)
            np.testing.assert_array_equal(slope(*args), 4.0 * X)
            np.testing.assert_array_equal(slope(*args), 4.0 * X)
            assert dict(vars(kind)) == before
            if member != 2.0:
                kind.factor = 5.0
                np.testing.assert_array_equal(slope(*args), 10.0 * X)
                kind.factor = 2.0


def own_name(self):
    return self.own


def set_own_name(self, value):
    self.own = value


class Named:
    """Its name is a property, as in `dask.delayed`, and instances may hide a method."""

    own = 3.0
    __name__ = property(own_name, set_own_name)

    def __flags__(self):
        return 1.0


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")  # a function is written
def test_members_of_such_names_are_set_as_python_sets_them():
    named = Named()

    def loss(x):
        named.__name__ = 2.0 * named.__name__
        named.__flags__ = lambda: 10.0
        return np.sum(named.__name__ * named.__flags__() * x)

    np.testing.assert_array_equal(fdiff.grad(loss)(X), np.full(3, 60.0))
    assert named.own == 6.0
    assert named.__flags__() == 10.0
    assert type(vars(Named)["__name__"]) is property


class Elsewhere:
    """Its ``__dict__`` is a property, as of objects that stand for others."""

    factor = 2.0
    __dict__ = property(lambda self: {"factor": self.factor})


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("kind", [Elsewhere, type("Derived", (Elsewhere,), {})])
def test_a_class_may_have_its_own_namespace_of_instances(kind):
    a = kind()
    for f, args in ((lambda x: np.sum(a.factor * x), (X,)), (lambda x, a: a.factor * x[0], (X, a))):
        kind.factor = 2.0
        slope = fdiff.grad(f)
        assert slope(*args)[0] == slope(*args)[0] == 2.0
        kind.factor = 5.0
        assert slope(*args)[0] == 5.0


# ------------------------------------------------------------------------ what is not computed yet


def computed():
    raise AssertionError("Dask has computed something")


class Future:
    """As `distributed.Future` is: without a graph."""


Future.__module__ = "distributed.client"
ARRAY = da.from_delayed(dask.delayed(computed, pure=True)(), (3,), float)
DELAYED = dask.delayed(computed)()
BAG = dask.bag.from_delayed([dask.delayed(computed)()])
FUTURE = Future()


class Frame:
    """As a table of xarray over arrays of Dask, or over arrays of NumPy."""

    def __init__(self, graph):
        self.graph = graph
        self.numbers = np.ones(3)

    def __dask_graph__(self):
        return self.graph


LAZY = {
    "Dask Array": ARRAY,
    "Dask Delayed": DELAYED,
    "Dask Bag": BAG,
    "Dask Future": FUTURE,
    "Frame of Dask arrays": Frame({}),
}


def product(x, y, *rest, **more):
    return np.sum(x**2)


def elementwise(x):
    return x**2


ARGUMENTS = {
    "argument 0": lambda lazy: fdiff.grad(product)(lazy, X),
    "argument 1": lambda lazy: fdiff.grad(product)(X, lazy),
    "argument 2[0]": lambda lazy: fdiff.value_and_grad(product)(X, X, (lazy, X)),
    "argument 2['rate']": lambda lazy: fdiff.jit(product)(X, X, {"rate": lazy}),
    "argument 'y'": lambda lazy: fdiff.hessian(product)(X, y=lazy),
    "argument 'more'": lambda lazy: fdiff.vmap(product)(X, X, more=lazy),
    "the given v": lambda lazy: fdiff.jvp(elementwise)(X, lazy),
    "the given inputs": lambda lazy: fdiff.jacobian(elementwise, lazy),
    "the value at index 0": lambda lazy: fdiff.linearize(elementwise, lazy),
}


@pytest.mark.parametrize("kind", LAZY)
@pytest.mark.parametrize("place", ARGUMENTS)
def test_what_is_not_computed_is_refused_as_an_argument(place, kind):
    with pytest.raises(InputError) as caught:
        ARGUMENTS[place](LAZY[kind])
    assert f": {place} is a {kind}, whose values are not known yet.\n" in str(caught.value)
    assert "test_dask.py:" in str(caught.value)
    assert str(caught.value).endswith(TAKE_VALUES)


def test_the_way_out_names_what_computes():
    assert "`numpy.asarray(x)`" in TAKE_VALUES
    assert "`x.compute()`" in TAKE_VALUES
    assert "`fdiff.distributed.sum_over(f, x)`" in TAKE_VALUES


class Model:
    def __init__(self, data):
        self.data = data
        self.plain = np.ones(3)

    def loss(self, x):
        return np.sum(x * self.data)

    def other(self, x):
        return np.sum(x * self.plain)


def readers(lazy):
    """Functions that meet what is not computed, by the name that the error has for it."""
    box, model = {"data": lazy, "plain": X}, Model(lazy)
    yield "`lazy`", lambda x: np.sum(x * lazy)
    yield "`lazy`", lambda x: np.sum(np.multiply(lazy, x))
    yield "`lazy`", lambda x: np.sum(np.asarray(lazy) * x)
    yield "`lazy`", lambda x: np.sum(x) * lazy.compute()
    yield "`box['data']`", lambda x: np.sum(x * box["data"])
    yield "`loss.data`", model.loss


@pytest.mark.parametrize("kind", LAZY)
def test_what_is_not_computed_is_refused_where_f_meets_it(kind):
    for name, f in readers(LAZY[kind]):
        with pytest.raises(InputError) as caught:
            fdiff.grad(f)(X)
        assert f": {name} is a {kind}, whose values are not known yet.\n" in str(caught.value)
        assert str(caught.value).endswith(TAKE_VALUES)


def test_what_f_does_not_read_may_be_anything():
    box, model = {"data": ARRAY, "plain": X}, Model(ARRAY)
    np.testing.assert_array_equal(fdiff.grad(model.other)(X), np.ones(3))
    np.testing.assert_array_equal(fdiff.grad(lambda x: np.sum(box["plain"] * x))(X), X)


def test_labelled_arrays_without_dask_are_not_refused():
    table = Frame(None)
    np.testing.assert_array_equal(fdiff.grad(lambda x: np.sum(table.numbers * x))(X), np.ones(3))


@pytest.mark.parametrize(("name", "f"), [
    ("from_array", lambda x: da.from_array(x).sum()),
    ("sum", lambda x: da.sum(x)),
    ("wrap_func_shape_as_first_arg", lambda x: np.sum(x * da.ones(3))),
    ("delayed", lambda x: dask.delayed(np.sum)(x).compute()),
])  # fmt: skip
def test_functions_of_dask_are_refused_in_f(name, f):
    with pytest.raises(InputError, match=rf"`dask\.\S*{name}`, which makes what Dask computes"):
        fdiff.grad(f)(X)


@pytest.mark.parametrize("kind", LAZY)
def test_recorded_arrays_refuse_what_is_not_computed(kind):
    x = fdiff.autograd.tensor(X, requires_grad=True)
    for call in (lambda lazy: x * lazy, lambda lazy: np.multiply(x, lazy)):
        with pytest.raises(InputError, match=f"a traced array met a {kind}, whose values"):
            call(LAZY[kind])


@pytest.mark.parametrize("table", [pd.Series(X), pd.DataFrame({"a": X}), pd.Index(X)])
def test_recorded_arrays_say_what_to_take_of_a_table(table):
    x = fdiff.autograd.tensor(X, requires_grad=True)
    for call in (lambda: x * table, lambda: np.add(x, table), lambda: np.dot(x, table)):
        with pytest.raises(TraceError, match=f"a pandas {type(table).__name__} met"):
            call()
