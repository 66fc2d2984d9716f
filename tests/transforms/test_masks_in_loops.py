"""Infinite slopes in trips that a `where`, an index or a later trip leaves out have no part."""

import numpy as np
import pytest

import fdiff


def unrolled(f, init, xs):
    outs = [None] * len(xs)
    for k in range(len(xs)):
        init, outs[k] = f(init, xs[k])
    return init, None if outs[0] is None else np.stack(outs)


def within_a_trip(scan, x):
    return scan(lambda c, r: (np.sin(c) + np.where(r > 0, np.sqrt(r), 0.0), None), 0.0, x)[0]


def rows_by_where(scan, x):
    rows = scan(lambda c, r: (np.sin(c + r), np.sqrt(r) * c), 1.0, x)[1]
    return np.sum(np.where(x > 0, rows, 0.0))


def rows_by_index(scan, x):
    rows = scan(lambda c, r: (np.sin(c + r), np.sqrt(r)), 0.0, x)[1]
    return np.sum(rows[1:] ** 3)


def carry_that_a_later_trip_leaves_out(scan, x):
    return scan(lambda c, r: (np.where(r > 2, r * 1.0, np.sqrt(c * r)), None), 1.0, x)[0]


def carry_that_the_next_trip_leaves_out(scan, x):
    def step(c, r):
        total, root = c
        return (np.sin(total) + np.where(r > 3, 0.0, root), np.sqrt(r)), None

    return scan(step, (0.0, 0.0), x)[0][0]


def elements_that_are_done(scan, x):
    def step(c, r):
        y, done = c
        return (np.where(done, y, np.sin(y) - 0.1 * np.sqrt(r)), np.logical_or(done, r >= 4)), None

    return scan(step, (1.0, False), x)[0][0]


def loop_as_a_whole(scan, x):
    last, rows = scan(lambda c, r: (c + np.sqrt(r) * c, np.sqrt(r)), 1.0, x)
    return np.where(x[0] + x[2] > 2, last + np.sum(rows), np.sum(x))


def invariant(scan, x):
    return scan(lambda c, r: (np.sin(c) + np.where(r > 0, np.sqrt(x[2]) * r, 1.0), None), 0.0, x)[0]


def outside_by_where(scan, x):
    roots = np.sqrt(x)
    return scan(
        lambda c, r: (np.sin(c) + np.where(r[0] > 0, r[1], 0.0), None), 0.0, np.stack([x, roots], 1)
    )[0]


def outside_by_index(scan, x):
    roots, places = np.log(x + 1e-300), np.array([1, 1, 3, 1])
    return scan(lambda c, k: (c * roots[k] + 1.0, None), 1.0, places[: len(x)])[0]


def outside_by_a_later_trip(scan, x):
    norm = np.linalg.norm(x[:1] * 0.0)
    return scan(lambda c, r: (np.where(r > 0, r, c), None), norm, x)[0]


def two_loops_behind(scan, x):
    roots = np.sqrt(x)
    first = scan(lambda c, r: (c + r, np.where(r > 0, r, 0.0)), 0.0, roots)[1]
    return scan(lambda c, r: (np.where(r > 0, c * r, c), None), 1.0, first)[0]


PROGRAMS = [
    outside_by_where, outside_by_index, outside_by_a_later_trip, two_loops_behind,
    within_a_trip, rows_by_where, rows_by_index, carry_that_a_later_trip_leaves_out,
    carry_that_the_next_trip_leaves_out, elements_that_are_done, loop_as_a_whole, invariant,
]  # fmt: skip
POINTS = [np.array(p) for p in ([0.0, 4.0, 1.0, 9.0], [1.0, 9.0, 0.0, 5.0], [1.0, 4.0, 0.0, 0.0])]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_slopes_that_are_left_out_have_no_part(program):
    ours, plain = (lambda x, s=s: program(s, x) for s in (fdiff.scan, unrolled))
    some = 0
    for x in POINTS:
        expected = fdiff.grad(plain)(x)
        some += bool(np.isfinite(expected).all())
        for operator in (fdiff.grad, lambda f: fdiff.jit(fdiff.grad(f)), fdiff.jacrev):
            np.testing.assert_allclose(operator(ours)(x), expected, rtol=1e-12)
    assert some  # not all of them are NaN
    mapped = fdiff.vmap(fdiff.grad(ours))(np.stack(POINTS))
    np.testing.assert_allclose(mapped, [fdiff.grad(plain)(x) for x in POINTS], rtol=1e-12)
    safe = np.array([1.0, 4.0, 2.0, 0.5])
    np.testing.assert_allclose(
        fdiff.hessian(ours)(safe), fdiff.hessian(plain)(safe), rtol=1e-11, atol=1e-13
    )


def test_while_loops_and_branches():
    x = POINTS[0]

    def f(x):
        step = lambda s: (s[0] + 1, np.where(x[s[0]] > 2, x[s[0]], np.sqrt(s[1] * x[s[0]])))
        return fdiff.while_loop(lambda s: s[0] < 4, step, (0, 1.0))[1]

    np.testing.assert_allclose(fdiff.grad(f)(x), [0.0, 0.0, 0.0, 1.0])

    def g(x):
        y, z = fdiff.cond(x[1] > 0, lambda x: (np.sqrt(x[0]), x[1]), lambda x: (x[0], x[1]), x)
        return np.where(x[0] > 0, y * z, x[1])

    np.testing.assert_allclose(fdiff.grad(g)(x), [0.0, 1.0, 0.0, 0.0])


def test_slopes_before_branches():
    """A branch that does not read a value, or only some entries of it, leaves the others out."""

    def chosen(x):
        root = np.sqrt(x[0])
        return fdiff.cond(x[0] > 0, lambda r, x: r * x[1], lambda r, x: x[1] * x[2], root, x)

    def entries(x):
        roots = np.sqrt(x)
        parts = [lambda r: np.sum(r), lambda r: np.sum(r[1:] ** 3), lambda r: r[1] * r[3]]
        return fdiff.switch(np.where(x[0] > 0, 0, 1), parts, roots) * x[1]

    def nested(x):
        root = np.sqrt(x[0] * 2.0)
        inner = lambda r, x: fdiff.cond(x[1] > 1, lambda r, x: x[3], lambda r, x: r, r, x)
        return fdiff.cond(x[2] > 100, lambda r, x: r * 2.0, inner, root, x) ** 2

    x = POINTS[0]
    np.testing.assert_allclose(fdiff.grad(chosen)(x), [0.0, 1.0, 4.0, 0.0])
    np.testing.assert_allclose(fdiff.grad(entries)(x), [0.0, 48.0, 6.0, 18.0])
    np.testing.assert_allclose(fdiff.grad(nested)(x), [0.0, 0.0, 0.0, 18.0])
    for f in (chosen, entries, nested):
        np.testing.assert_allclose(fdiff.jit(fdiff.grad(f))(x), fdiff.jacfwd(f)(x))
        both = fdiff.vmap(fdiff.grad(f))(np.stack(POINTS[:2]))
        np.testing.assert_allclose(both, [fdiff.grad(f)(p) for p in POINTS[:2]])
        np.testing.assert_allclose(fdiff.hessian(f)(x), fdiff.jacfwd(fdiff.jacfwd(f))(x))


def test_operations_with_several_results():
    def f(x):
        w, v = np.linalg.eigh(np.eye(2) * x[0])
        return np.where(x[0] > 0, w[0] * v[0, 1], x[1])

    np.testing.assert_allclose(fdiff.grad(f)(POINTS[0]), [0.0, 1.0, 0.0, 0.0])


def test_bodies_without_poles_carry_no_masks():
    """Products alone: memory and time of the reverse loop are as before."""
    f = lambda x: np.sum(fdiff.scan(lambda c, r: (np.sin(c * r), c), 1.0, x)[1][1:])
    tape = fdiff.make_tape(fdiff.grad(f), POINTS[0])
    loops = [node for node in tape.nodes if node.primitive.name == "loop"]
    kinds = {t.dtype.kind for n in loops for t in (*n.param("body").input_types, *n.types)}
    assert kinds == {"f"}
