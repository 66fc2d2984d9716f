"""`scan` and `fori_loop`: values, derivatives to second order, and errors at the corners."""

import jax
import numpy as np
import pytest

import fdiff
from fdiff.errors import DtypeError, InputError, ShapeError, TraceError
from fdiff.tape import verify

jax.config.update("jax_enable_x64", True)
N = 6


def unrolled(f, init, xs=None, length=None, reverse=False):
    """`scan` as a loop that fdiff unrolls: what a loop node is held against."""
    n = len(xs) if length is None else length
    ys = [None] * n
    for k in reversed(range(n)) if reverse else range(n):
        init, ys[k] = f(init, None if xs is None else xs[k])
    return init, None if ys[0] is None else np.stack(ys)


def pendulum(scan, p, xs, reverse):
    """A driven pendulum: two carries, an invariant that is read in all trips, and rows."""
    weights = np.exp(p[:2])

    def step(carry, x):
        angle, speed = carry
        speed = speed - 0.1 * weights[0] * np.sin(angle) + weights[1] * x
        angle = angle + 0.1 * speed * x
        return (angle, speed), speed * np.cos(angle)

    (angle, speed), outs = scan(step, (p[2], p[3] * p[2]), xs, None, reverse)
    return angle * speed + np.sum(outs * outs)


def matrices(scan, p, xs, reverse):
    """A vector carried through products, of which the last and all are read."""

    def step(x, row):
        y = np.tanh(weights @ x + row)
        return y, y[0]

    weights = np.reshape(p, (2, 2))
    last, outs = scan(step, np.ones(2), xs[:, None] * p[:2], None, reverse)
    return np.sum(last**2) + outs[1] * np.sum(outs)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("program", [pendulum, matrices])
def test_loops_are_unrolled_loops(program, reverse, rng):
    p, xs = rng.normal(size=4) / 2, rng.normal(size=N)
    loop = lambda p, xs: program(fdiff.scan, p, xs, reverse)
    plain = lambda p, xs: program(unrolled, p, xs, reverse)
    both = {"argnums": (0, 1)}
    mapped = lambda f: fdiff.vmap(fdiff.grad(f), in_axes=(None, 0))
    for operator, rows in (
        (lambda f: f, xs),
        (fdiff.jit, xs),
        (lambda f: fdiff.grad(f, **both), xs),
        (lambda f: fdiff.hessian(f, **both), xs),
        (lambda f: fdiff.jacfwd(f, **both), xs),
        (mapped, np.stack([xs, 2 * xs])),
    ):
        found, expected = operator(loop)(p, rows), operator(plain)(p, rows)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


def test_one_node_for_any_number_of_trips():
    tapes = [
        fdiff.make_tape(
            fdiff.grad(lambda x: fdiff.scan(lambda c, x: (c * x, None), 1.0, x)[0]), np.ones(n)
        )
        for n in (10, 1000)
    ]
    assert len(verify(tapes[0])) == len(tapes[1]) < 20
    assert "    body: tape\n" in str(tapes[0])


def test_loops_in_loops(rng):
    x = rng.normal(size=(3, 4))

    def inner(scan, row, start):
        return scan(lambda c, e: (np.sin(c + e) * start, None), start, row)[0]

    def f(scan, x):
        return scan(lambda c, row: (c + inner(scan, row, c), None), x[0, 0], x)[0]

    for operator in (fdiff.grad, fdiff.hessian):
        found, expected = (operator(lambda x, s=s: f(s, x))(x) for s in (fdiff.scan, unrolled))
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)


# --- corners: what is refused, and in which words -------------------------------------------------


def fails(error, words, f, *args):
    """Both in a trace and outside of one."""
    with pytest.raises(error, match=words):
        fdiff.jit(f)(*args)
    with pytest.raises(error, match=words):
        f(*args)


def test_structure_of_the_carry():
    words = r"`step` gives a carry of another structure than init"

    def step(c, x):
        return (c["a"],), x

    fails(InputError, words, lambda x: fdiff.scan(step, {"a": 1.0}, x), np.ones(3))


def test_types_of_the_carry():
    def widens(c, x):
        return {"a": c["a"] * np.ones(2)}, x

    words = r"the carry\['a'\] is f8\[\] before a trip of `widens`, and f8\[2\] after it"
    fails(ShapeError, words, lambda x: fdiff.scan(widens, {"a": np.float64(1)}, x), np.ones(3))

    def divides(c, x):
        return c / 2, x

    words = (
        r"the carry is i8\[\] before a trip of `divides`, and f8\[\] after it(.|\n)*Start with 0.0"
    )
    fails(DtypeError, words, lambda x: fdiff.scan(divides, np.int64(1), x), np.ones(3))


@pytest.mark.parametrize("init", [0, 0.0, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.complex128])
def test_a_python_number_takes_the_dtype_of_a_trip(init, dtype):
    x = np.ones(3, dtype)
    plain = fdiff.scan(lambda c, x: (c + x, c), init, x)
    traced = fdiff.jit(lambda x: fdiff.scan(lambda c, x: (c + x, c), init, x))(x)
    for a, b in zip(plain, traced, strict=True):
        assert a.dtype == b.dtype == np.result_type(init, x)
        np.testing.assert_array_equal(a, b)


def test_no_trips():
    x = np.zeros((0, 2), np.float32)
    f = lambda x: fdiff.scan(lambda c, x: (c + x.sum() * 2, c * x), 1, x)
    for last, rows in (f(x), fdiff.jit(f)(x)):
        assert last == 1
        assert last.dtype == np.float32
        assert rows.shape == (0, 2)
    assert fdiff.grad(lambda w: fdiff.scan(lambda c, x: (c * w, None), 1.0, x)[0])(2.0) == 0


def test_what_a_scan_is_given():
    pair = lambda c, x: (c, x)
    x, y = np.ones(3), np.ones(4)
    one = r"xs must have one length along axis 0: xs\['a'\] has 3, xs\['b'\] has 4"
    fails(ShapeError, one, lambda x, y: fdiff.scan(pair, 0.0, {"a": x, "b": y}), x, y)
    fails(ShapeError, r"xs\[1\] has no axis", lambda x: fdiff.scan(pair, 0.0, (x, 1.0)), x)
    fails(InputError, "xs is None, and length too", lambda x: fdiff.scan(pair, x), x)
    fails(ShapeError, "length is 4, and xs have 3 rows", lambda x: fdiff.scan(pair, 0.0, x, 4), x)
    fails(
        InputError, "length must be a number of trips", lambda x: fdiff.scan(pair, x, None, -1), x
    )
    fails(InputError, "must return a pair", lambda x: fdiff.scan(lambda c, x: c + x, 0.0, x), x)
    fails(
        InputError,
        r"init\[1\] must be a number or an array, not 'a'(.|\n)*close over it",
        lambda x: fdiff.scan(pair, (0.0, "a"), x),
        x,
    )
    fails(
        InputError, "lower must be an int", lambda x: fdiff.fori_loop(0.5, 2, lambda i, c: c, x), x
    )


def test_looking_at_a_carry():
    def step(c, x):
        return (c + x if c > 0 else c), None

    words = r"`step` branches on a value that a loop carries(.|\n)*if c > 0(.|\n)*fdiff.cond"
    with pytest.raises(TraceError, match=words):
        fdiff.jit(lambda x: fdiff.scan(step, 0.0, x))(np.ones(3))


def test_a_branch_on_what_is_known_outside():
    def f(x, p):
        def step(c, x):
            return (c + x if p > 0 else c - x), None

        return fdiff.scan(step, 0.0, x)[0]

    assert [fdiff.jit(f)(np.ones(3), p) for p in (1.0, -1.0)] == [3, -3]


def test_bodies_may_store_into_their_arguments(rng):
    x = rng.normal(size=(4, 3))

    def f(scan, x):
        table = np.zeros(3)

        def step(c, row):
            row[1] = c[0] * row[0]
            c[0] += row[1]
            return c, row

        last, rows = scan(step, np.array([1.0, 2.0]), x)
        return last[0] * np.sum(rows) + np.sum(table)

    copied = lambda f, init, xs: unrolled(lambda c, x: f(np.array(c), np.array(x)), init, xs)
    np.testing.assert_allclose(
        fdiff.grad(lambda x: f(fdiff.scan, x))(x), fdiff.grad(lambda x: f(copied, x))(x)
    )
    kept = x.copy()
    np.testing.assert_allclose(f(fdiff.scan, x), f(copied, x))
    np.testing.assert_array_equal(x, kept)


log, TOTALS = [], {"n": 0}


def appends(x):
    return fdiff.scan(lambda c, e: (log.append(1), (c + e, None))[1], 0.0, x)[0]


def adds_to_a_dict(x):
    def step(c, e):
        TOTALS["n"] += 1
        return c + e, None

    return fdiff.scan(step, 0.0, x)[0]


def binds_a_variable(x):
    n = 0

    def step(c, e):
        nonlocal n
        n += 1
        return c + e, None

    return fdiff.scan(step, 0.0, x)[0] + n


def stores_numbers(x):
    a = np.zeros(3)

    def step(c, e):
        a[0] += 1
        return c + e, None

    return fdiff.scan(step, 0.0, x)[0] + a[0]


def stores_traced(x):
    a = np.zeros(3)

    def step(c, e):
        a[0] += e
        return c + e, None

    return fdiff.scan(step, 0.0, x)[0] + a[0]


def stores_into_traced(x):
    a = 2 * x

    def step(c, e):
        a[0] += e
        return c + e, None

    return fdiff.scan(step, 0.0, x)[0] + a[0]


def sets_an_attribute(x):
    counter = Counter()

    def step(c, e):
        counter.n += 1
        return c + e, None

    return fdiff.scan(step, 0.0, x)[0] + counter.n


class Counter:
    n = 0

    def __init__(self):
        self.weight = 2.0

    def step(self, c, e):
        return c + e * self.weight, None


@pytest.mark.parametrize(
    ("f", "name"),
    [
        (appends, "a variable or an object"),
        (adds_to_a_dict, "a variable or an object"),
        (binds_a_variable, "`n`"),
        (stores_numbers, "`a`"),
        (stores_traced, "`a`"),
        (stores_into_traced, "an array"),
        (sets_an_attribute, "`counter`"),
    ],
)
def test_bodies_with_side_effects_are_refused(f, name):
    words = rf"the body of `fdiff.scan` stores into {name},? made outside(.|\n)*make it a carry"
    with pytest.raises(TraceError, match=words):
        fdiff.jit(f)(np.ones(3))


def test_bodies_may_read_anything():
    kept = Counter()

    def f(x):
        table, box, own = [x[1], np.zeros(3)], {"k": 2 * x}, Counter()
        table[1][1] = x[0]

        def step(c, e):
            return c + (table[0] + table[1][1] * own.weight + box["k"][2]) * e, None

        return fdiff.scan(step, 0.0, x)[0] + fdiff.scan(kept.step, 0.0, x)[0]

    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(fdiff.grad(f)(x), [24.0, 18.0, 24.0])
    assert fdiff.jit(f)(x) == f(x)


@fdiff.custom_vjp
def scaled(x):
    return np.sin(x)


scaled.defvjp(lambda x: (np.sin(x), x), lambda x, bar: (7 * bar * np.cos(x),))


def test_rules_of_users_in_bodies(rng):
    x = rng.normal(size=4)
    f = lambda scan: lambda x: scan(lambda c, e: (scaled(c + e), c), x[0], x)[0]
    second = lambda f: fdiff.jacrev(fdiff.grad(f))
    mapped = lambda f: fdiff.vmap(fdiff.grad(f))
    for operator, given in ((fdiff.grad, x), (second, x), (mapped, np.stack([x, -x]))):
        found, expected = (operator(f(scan))(given) for scan in (fdiff.scan, unrolled))
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_bodies_with_rules_of_users_are_compiled(rng):
    x = rng.normal(size=4)

    def f(x):
        step = lambda c, e: (fdiff.cond(e > 0, scaled, np.cos, c + e), None)
        return fdiff.scan(step, x[0], x)[0]

    value = fdiff.jit(f)
    np.testing.assert_allclose(value(x), f(x), rtol=1e-14)
    assert "compiled" in repr(value)


def test_kinks_in_bodies_are_found():
    f = lambda x: fdiff.scan(lambda c, e: (np.abs(c - c) * e, None), x[0], x)[0]
    with fdiff.kinks("raise"), pytest.raises(fdiff.errors.KinkError, match="absolute has no"):
        fdiff.grad(f)(np.ones(3))


def test_recorded_arrays():
    x = fdiff.autograd.tensor([0.3, 0.6, 0.9], requires_grad=True)
    fdiff.scan(lambda c, e: (c * np.sin(e), c), 1.0, x)[0].backward()
    expected = fdiff.grad(lambda x: np.prod(np.sin(x)))(np.array([0.3, 0.6, 0.9]))
    np.testing.assert_allclose(x.grad.numpy(), expected)


def test_a_row_picked_by_a_traced_integer_is_a_view(rng):
    x = rng.normal(size=(3, 4))

    def f(x, k):
        x = x.copy()
        row = x[k]
        row *= 3
        column = x[:, k]
        column += row[0]
        x[k][::2][0] = x[0, 1] * 2
        return x, row * 1, column * 1

    picked = lambda x: f(x, np.argmax(np.abs(x[:, 0])))
    for a, b in zip(fdiff.jit(picked)(x), picked(x), strict=True):
        np.testing.assert_allclose(a, b)
    k = int(np.argmax(np.abs(x[:, 0])))
    known = fdiff.jacfwd(lambda x: f(x, k)[0])(x)
    np.testing.assert_allclose(fdiff.jacfwd(lambda x: picked(x)[0])(x), known)


def test_what_nobody_reads_is_not_computed(rng):
    """Outs, carries and rows that no output needs are taken out of loops, and of their reverse."""

    def f(w, xs, ys, *, more):
        def step(carry, row):
            x, unread = carry
            new = np.sin(x * w) + row[0]
            return (new, np.tanh(unread) * row[1]), (np.exp(x) if more else None)

        return fdiff.scan(step, (w, w), (xs, ys))[0][0]

    def loops(tape):
        return [node for node in tape.nodes if node.primitive.name == "loop"]

    w, xs = 0.5, rng.normal(size=5)
    whole, part = (
        fdiff.make_tape(fdiff.grad(lambda *a, m=m: f(*a, more=m)), w, xs, xs) for m in (True, False)
    )
    assert [node.params for node in loops(whole)] == [node.params for node in loops(part)]
    forward, back = loops(part)
    assert [len(n.args) for n in (forward, back)] == [1 + 1 + 1 + 1, 1 + 2 + 1 + 1]
    assert forward.param("carries") == 1
