"""What users of Dask meet: tokens and names of tasks, objects of Dask in and around functions."""

import functools
import types

import numpy as np
import pytest
from dask.base import tokenize
from dask.utils import funcname

import fdiff

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
