"""What bodies of loops and branches are given and may do: each row of the table of corners."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import fdiff
from fdiff.errors import DtypeError, InputError, ShapeError, TraceError

XS = np.array([0.3, 0.7, 1.1])


class Pair(NamedTuple):
    x: Any
    y: Any


@dataclass
class State:
    x: object
    y: object


def both(f):
    """In a trace and outside of one."""
    return pytest.mark.parametrize("run", [lambda f: f, fdiff.jit], ids=["plain", "traced"])(f)


# --- carries --------------------------------------------------------------------------------------

KINDS = {
    "tuple": (lambda x, y: (x, y), lambda c: c),
    "list": (lambda x, y: [x, y], lambda c: c),
    "dict": (lambda x, y: {"x": x, "y": y}, lambda c: (c["x"], c["y"])),
    "named tuple": (Pair, lambda c: (c.x, c.y)),
    "dataclass": (State, lambda c: (c.x, c.y)),
    "None": (lambda x, y: (x, None, (y, None)), lambda c: (c[0], c[2][0])),
}


@both
@pytest.mark.parametrize("kind", KINDS)
def test_carries_of_any_structure(run, kind):
    build, parts = KINDS[kind]

    def f(x):
        def step(c, r):
            a, b = parts(c)
            return build(a * r, b + a), build(b, r)

        def next_(c):
            a, b = parts(c)
            return build(a * 2, b + a)

        last, outs = fdiff.scan(step, build(1.0, x[0]), x)
        looped = fdiff.while_loop(lambda c: parts(c)[0] < 9, next_, build(1.0, x[1]))
        counted = fdiff.fori_loop(0, 2, lambda i, c: next_(c), build(1.0, x[2]))
        chosen = fdiff.cond(x[0] > 0, next_, lambda c: c, last)
        assert all(type(y) is type(last) for y in (outs, looped, counted, chosen))
        a, b = parts(last)
        total = a * b + np.sum(parts(outs)[0] * parts(outs)[1])
        for more in (looped, counted, chosen):
            total = total + parts(more)[0] * parts(more)[1]
        return total

    def expected(x):
        a, b, total = 1.0, x[0], 0.0
        for r in x:
            total, (a, b) = total + b * r, (a * r, b + a)
        p, q = x[1] + 15.0, x[2] + 3.0
        return total + a * b + 16 * p + 4 * q + 2 * a * (b + a)

    np.testing.assert_allclose(run(f)(XS), expected(XS), rtol=1e-14)
    np.testing.assert_allclose(fdiff.grad(f)(XS), fdiff.grad(expected)(XS), rtol=1e-13)


@both
@pytest.mark.parametrize("leaf", ["text", object()])
def test_leaves_that_are_no_numbers_are_named(run, leaf):
    words = r"init\['a'\]\[1\] must be a number or an array, not (.|\n)*close over it"
    init = {"a": (0.0, leaf)}
    for loop in (
        lambda x: fdiff.scan(lambda c, r: (c, r), init, x),
        lambda x: fdiff.fori_loop(0, 3, lambda i, c: c, init),
        lambda x: fdiff.while_loop(lambda c: False, lambda c: c, init),
    ):
        with pytest.raises(InputError, match=words):
            run(loop)(XS)


@both
def test_carries_of_another_type_are_named(run):
    before = r"the carry\[0\] is f8\[3\] before"
    other = r"another structure than init: the leaves are carry\[0\] and carry\['a'\]"
    for kind, words, step in (
        (ShapeError, before + r"(.|\n)*Start with np.zeros", lambda c: (c[0][:2],)),
        (DtypeError, before, lambda c: (c[0].astype(np.float32),)),
        (InputError, other, lambda c: {"a": c[0]}),
    ):
        for loop in (
            lambda x, step=step: fdiff.scan(lambda c, r: (step(c), r), (x,), x),
            lambda x, step=step: fdiff.fori_loop(0, 3, lambda i, c: step(c), (x,)),
            lambda x, step=step: fdiff.while_loop(lambda c: np.sum(c[0]) < 99, step, (x,)),
        ):
            with pytest.raises(kind, match=words):
                run(loop)(XS)


@both
@pytest.mark.parametrize("dtype", [np.bool_, np.int64, np.int8, np.float32, np.complex128])
def test_carries_of_any_dtype(run, dtype):
    x = np.array([1, 0, 1]).astype(dtype)
    loop = lambda x: fdiff.scan(
        lambda c, r: (c ^ r if dtype is np.bool_ else c * r + r, c), x[0], x
    )
    last, outs = run(loop)(x)
    assert last.dtype == outs.dtype == dtype
    assert outs.shape == (3,)


def test_whole_numbers_have_no_cotangent_and_the_others_have_theirs():
    def f(x, n):
        def step(c, r):
            k, flag, single, wide = c
            return (k + n, ~flag, single * np.float32(2), wide * r * k), np.where(flag, r, single)

        start = (np.int64(1), np.bool_(True), np.float32(1.5), 1.0)
        (k, _, single, wide), outs = fdiff.scan(step, start, x)
        return wide * k + np.sum(outs) + single

    expected = lambda x, n: (
        np.prod(x) * (1 + n) * (1 + 2 * n) * (1 + 3 * n) + x[0] + x[2] + 3.0 + 12.0
    )
    for run in (lambda f: f, fdiff.grad, fdiff.jacfwd, fdiff.hessian):
        found, wanted = run(f)(XS, np.int64(2)), run(expected)(XS, np.int64(2))
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_derivatives_of_complex_carries():
    f = lambda x: np.abs(fdiff.scan(lambda c, r: (c * np.exp(1j * r) + r, None), 1 + 0j, x)[0])

    def expected(x):
        c = 1 + 0j
        for r in x:
            c = c * np.exp(1j * r) + r
        return np.abs(c)

    np.testing.assert_allclose(fdiff.grad(f)(XS), fdiff.grad(expected)(XS), rtol=1e-13)


# --- what a body looks at -------------------------------------------------------------------------

LOOKS = {
    "if": lambda c: c if c > 0 else -c,
    "int": lambda c: c * int(c),
    "while": lambda c: while_(c),
    "range": lambda c: c * sum(k for k in range(int(c))),
    "mask": lambda c: c * len(XS[np.stack([c, c, c]) > 1]),
    "nonzero": lambda c: c + len(np.flatnonzero(np.stack([c, c]))),
}  # fmt: skip


def while_(c):
    while c < 3:
        c = c + 1
    return c


@pytest.mark.parametrize("name", LOOKS)
def test_what_decides_by_a_carried_value_is_refused(name):
    look = LOOKS[name]
    for loop in (
        lambda x: fdiff.scan(lambda c, r: (look(c) + r, None), x[0], x)[0],
        lambda x: fdiff.fori_loop(0, 3, lambda i, c: look(c) * 1.0, x[0]),
        lambda x: fdiff.while_loop(lambda c: c < 9, lambda c: look(c) + 1.0, x[0]),
    ):
        with pytest.raises(TraceError) as raised:
            fdiff.jit(loop)(XS)
        text = str(raised.value)
        assert "branches on a value that a loop carries" in text
        assert "Use numpy.where, fdiff.cond or fdiff.while_loop." in text


# --- what stands inside of bodies -----------------------------------------------------------------


def test_everything_nests():
    @fdiff.checkpoint
    def kept(y):
        return np.sin(y) * y

    jitted = fdiff.jit(lambda y: y * y)

    def f(x):
        def inner(j, y):
            return fdiff.cond(y > 0.5, kept, jitted, y)

        def step(c, r):
            slope = fdiff.grad(lambda y: kept(y) * r)(c)
            curve = fdiff.hessian(lambda y: np.sum(y**3))(np.stack([c, r]))
            rows = fdiff.vmap(lambda y: fdiff.fori_loop(0, 2, inner, y))(x)
            return np.tanh(slope + np.sum(rows)) + 0.01 * np.sum(curve), None

        return fdiff.scan(step, x[0], x)[0]

    def plain(x):
        c = x[0]
        for r in x:
            total = 0.0
            for y in x:
                for _ in range(2):
                    y = np.sin(y) * y if y > 0.5 else y * y  # noqa: PLW2901 - a carry
                total = total + y
            slope = r * (np.cos(c) * c + np.sin(c))
            c = np.tanh(slope + total) + 0.06 * (c + r)
        return c

    for operator in (fdiff.jit, fdiff.grad, fdiff.hessian):
        found, expected = operator(f)(XS), operator(plain)(XS)
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)


@both
def test_map_is_a_loop_in_pieces(run):
    xs = np.linspace(0, 1, 11)
    f = lambda r: {"a": np.sin(r) * r, "b": (r, None)}
    whole = run(lambda x: fdiff.map(f, x))(xs)
    for size in (1, 3, 11, 50):
        found = run(lambda x, size=size: fdiff.map(f, x, batch_size=size))(xs)
        np.testing.assert_array_equal(found["a"], whole["a"])
        assert found["b"][1] is None


@both
def test_bounds_of_fori_loop(run):
    body = lambda i, c: c + i
    assert run(lambda x: fdiff.fori_loop(5, 2, body, x))(0.0) == 0
    assert run(lambda x: fdiff.fori_loop(-2, 2, body, x))(0.0) == -2
    for bounds in ((0.0, 3), (0, 3.0), (0, np.ones(2, int)), (None, 3)):
        with pytest.raises(TypeError, match="must be an int, not"):
            run(lambda x, b=bounds: fdiff.fori_loop(*b, body, x))(0.0)


@both
def test_a_store_into_what_lies_outside_is_refused_and_one_into_an_argument_is_not(run):
    def own(x):
        def step(c, r):
            r[0] = c
            return r[0] + r[1], r

        return fdiff.scan(step, 0.0, np.stack([x, x]))

    x = XS.copy()
    last, rows = run(own)(x)
    np.testing.assert_array_equal(x, XS)
    np.testing.assert_allclose((last, *rows[:, 0]), (1.4, 0.0, 0.7))


def test_zero_trips_everywhere():
    empty = np.zeros((0, 2))
    f = lambda w, x: (
        np.sum(fdiff.scan(lambda c, r: (c * w, r * w), 1.0, x)[1])
        + np.sum(fdiff.map(lambda r: r * w, x))
    )
    assert fdiff.grad(f)(2.0, empty) == 0
    g = lambda w: fdiff.fori_loop(3, 3, lambda i, c: c * w, 2)
    for found in (g(1.5), fdiff.jit(g)(1.5)):
        assert (found, found.dtype) == (2, np.float64)
    assert fdiff.grad(g)(1.5) == 0
