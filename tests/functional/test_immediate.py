"""Calls that name the function each time: short for siblings, and never stale."""

import types
from collections import namedtuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fdiff
from fdiff.capture.dependencies import siblings
from fdiff.errors import InputError, KinkError
from fdiff.trace.trace_stack import occupied

X = np.array([1.0, 2.0, 3.0])
FACTOR = 2.0


@pytest.fixture(autouse=True)
def _compiled(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "compile")


def test_siblings_lead_to_the_same_objects():
    def make(a, b=X, *, c=None, globals_=None):
        f = (lambda x, b=b, *, c=c: a * x * b) if c else (lambda x, b=b: a * x * b)
        return types.FunctionType(f.__code__, globals_ or globals(), "f", (b,), f.__closure__)

    one = make(X)
    assert siblings(one, one)
    assert siblings(make(X), one)
    assert not siblings(make(X.copy()), one)  # another cell
    assert not siblings(make(X, X.copy()), one)  # another default
    assert not siblings(make(X, globals_=dict(globals())), one)
    assert not siblings(make(X, c=1.0), one)  # other code
    marked = make(X)
    marked.note = 1
    assert not siblings(marked, one)
    assert siblings(np.sin, np.sin)
    assert not siblings(np.sin, np.cos)


def test_an_empty_cell_is_no_sibling():
    def make():
        f = lambda x: x * late
        if FACTOR < 0:
            late = 1.0
        return f

    assert not siblings(make(), make())


@pytest.fixture
def general(monkeypatch):
    """How often the general way was gone, in a process that never asked for errors at kinks."""
    calls = []
    monkeypatch.delitem(occupied, "kinks", raising=False)
    from fdiff.functional.call import invocation as module

    old = module.result_of_call
    monkeypatch.setattr(module, "result_of_call", lambda *a: calls.append(a) or old(*a))
    return calls


def test_fresh_lambdas_go_the_short_way(general):
    data = X + 1.0
    for _ in range(20):
        found = fdiff.jacobian(lambda x: np.sin(x) * data, X)
        assert_allclose(found, np.diag(np.cos(X) * data))
    assert len(general) <= 4


def product(operator, f, x, v):
    return operator(f, x) if v is None else operator(f, x, v)


OPERATORS = [
    (fdiff.hessian, None, lambda a: np.diag(6.0 * a * X)),
    (fdiff.hvp, X, lambda a: (a * np.sum(X**3), 6.0 * a * X * X)),
    (fdiff.vjp, np.array(2.0), lambda a: (a * np.sum(X**3), 6.0 * a * X**2)),
    (fdiff.jvp, X, lambda a: (a * np.sum(X**3), a * np.sum(3.0 * X**3))),
    (fdiff.jacobian, None, lambda a: 3.0 * a * X**2),
]


@pytest.mark.parametrize(("operator", "v", "wanted"), OPERATORS)
def test_every_operator_sees_what_changed(operator, v, wanted):
    """A number, then an array, then an entry of it; in turns, after the short way was found."""
    data = np.array(1.0)
    for round_ in range(3):
        for scale in (1.0, 2.0, 5.0 + round_):
            for _ in range(5):
                found = product(operator, lambda x: scale * data * np.sum(x**3), X, v)
            _same(found, wanted(scale * float(data)))
        data = np.array(2.0 + round_)
        for _ in range(5):
            found = product(operator, lambda x: data * np.sum(x**3), X, v)
        _same(found, wanted(float(data)))
        data[()] = 7.0
        found = product(operator, lambda x: data * np.sum(x**3), X, v)
        _same(found, wanted(7.0))


def _same(found, wanted):
    for a, b in zip(_flat(found), _flat(wanted), strict=True):
        assert_allclose(a, b, rtol=1e-13)


def _flat(value):
    return value if isinstance(value, tuple) else (value,)


def test_globals_and_defaults_are_seen(monkeypatch):
    def jac(power):
        return fdiff.jacobian(lambda x, p=power: FACTOR * x**p, X)

    for _ in range(6):
        assert_allclose(jac(2), np.diag(4.0 * X))
    assert_allclose(jac(3), np.diag(6.0 * X**2))
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert_allclose(jac(2), np.diag(6.0 * X))


def test_other_types_shapes_and_tuples():
    f = lambda *xs: sum(x**2 for x in xs)
    for _ in range(6):
        assert_allclose(fdiff.jacobian(f, X), np.diag(2 * X))
    assert fdiff.jacobian(f, X.astype(np.float32)).dtype == np.float32
    assert_allclose(fdiff.jacobian(f, X[:2]), np.diag(2 * X[:2]))
    for _ in range(6):
        (one,) = fdiff.jacobian(f, (X,))
        assert_allclose(one, np.diag(2 * X))
        first, second = fdiff.jacobian(f, (X, X + 1.0))
        assert_allclose(second - first, 2 * np.eye(3))
    with pytest.raises(InputError):
        fdiff.jacobian(f, [X])


def test_inside_a_trace_and_under_kinks_raise():
    def f(x):
        return np.abs(x)

    for _ in range(6):
        fdiff.jacobian(f, X)
    outer = fdiff.jacobian(lambda x: np.diagonal(fdiff.jacobian(lambda y: y**3, x)), X)
    assert_allclose(outer, np.diag(6 * X))
    with fdiff.kinks("raise"), pytest.raises(KinkError):
        fdiff.jacobian(f, np.array([0.0, 1.0, 2.0]))


def test_machine_code_knows_siblings(general):
    factor = X + 1.0

    def make(data=factor, b=2.0, where=None):
        f = lambda x, b=b: b * data * x  # another function each time
        return (
            f if where is None else types.FunctionType(f.__code__, where, "f", (b,), f.__closure__)
        )

    fast_path = None
    for _ in range(8):
        fdiff.jacobian(make(), X)
    fast_path = fast_path_of(make())
    assert isinstance(fast_path.builtin, types.BuiltinFunctionType)
    assert_allclose(fast_path.builtin(make(), X), np.diag(2.0 * factor))
    two = 2.0
    marked, empty, named = make(), make(), make()
    marked.note = 1
    assert empty.__dict__ == {}
    named.__kwdefaults__ = {"b": 1.0}
    assert fast_path.builtin(empty, X) is not None
    for other in (
        make(factor.copy()), make(b=two + 1.0), make(where=dict(globals())), marked, named,
        lambda x: x, np.sin, fdiff.grad(np.sum), None,
    ):  # fmt: skip
        assert fast_path.builtin(other, X) is None
    assert fast_path.builtin(make()) is None
    assert fast_path.builtin(make(), X, X) is None


def fast_path_of(f):
    from fdiff.dispatch.fast_paths.fast_path import _immediate

    return next(found for key, found in _immediate.items() if key[0] == id(f.__code__))


def summed(*xs):
    return sum((np.sum(x * x * (k + 1.0)) for k, x in enumerate(xs)), 0.0 * xs[0][0])


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - as users write it


def test_points_of_every_kind_and_length_alternate(general):
    points = [X, (X,), (X, 2 * X), (X, X, X), Pair(X, 3 * X), X.astype(np.float32), X[::-1]]
    for turn in range(40):
        if turn == 32:
            general.clear()
        for point in points:
            found, tuples = fdiff.hessian(summed, point), isinstance(point, tuple)
            parts = point if tuples else (point,)
            rows = found if tuples else ((found,),)
            for i, row in enumerate(rows):
                for j, block in enumerate(row):
                    size = parts[i].size
                    assert_allclose(
                        block, 2.0 * (i + 1) * np.eye(size) if i == j else np.zeros((size, size))
                    )
                    assert block.dtype == parts[j].dtype
            assert len(rows) == len(parts)
    assert not general


def test_settings_that_cannot_be_looked_up_mean_what_they_mean():
    for _ in range(6):
        assert_allclose(fdiff.hessian(square, X, strict=np.bool_(False)), 2 * np.eye(3))
        with pytest.raises(InputError, match="strict must be True or False"):
            fdiff.hessian(square, X, strict=np.array(0))
        with pytest.raises(InputError, match="strict must be True or False"):
            fdiff.jacobian(np.square, X, strict=[])
        with pytest.raises(InputError, match="chunk_size"):
            fdiff.jacobian(np.square, X, chunk_size=[])
        with pytest.raises(InputError, match="expects a function first, not float"):
            fdiff.jacobian(2.0, X, mode="none")
        with pytest.raises(InputError, match="argnums"):
            fdiff.jacobian(np.square, X, argnums=1)
        with pytest.raises(InputError, match="argnums"):
            fdiff.vjp(np.square, X, X, argnums=True)


def square(x):
    return np.sum(x * x)
