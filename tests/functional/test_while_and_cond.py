"""`while_loop`, `cond`, `switch`, `map`, `associative_scan`: derivatives, errors at the corners."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import ConvergenceError, DtypeError, InputError, ShapeError, TraceError
from fdiff.functional.loops import parallel_loops


def both(f):
    """In a trace and outside of one."""
    return pytest.mark.parametrize("run", [lambda f: f, fdiff.jit], ids=["plain", "traced"])(f)


def root(a):
    """Newton's method, whose number of trips depends on `a`."""
    far = lambda x: np.abs(x * x - a) > 1e-13 * a
    return fdiff.while_loop(far, lambda x: 0.5 * (x + a / x), 1.0)


A = np.array([4.0, 9.0, 2.0, 1e4])
SLOPE, CURVATURE = 0.5 * A**-0.5, -0.25 * A**-1.5


def test_reverse_mode_of_while():
    np.testing.assert_allclose(fdiff.grad(root)(4.0), 0.25)
    np.testing.assert_allclose(fdiff.hessian(root)(4.0), CURVATURE[0], rtol=1e-9)
    third = fdiff.grad(fdiff.grad(fdiff.grad(root)))
    np.testing.assert_allclose(third(4.0), 0.375 * 4**-2.5, rtol=1e-7)


@pytest.mark.parametrize(
    ("derivative", "expected"),
    [
        (lambda a: fdiff.vmap(root)(a), A**0.5),
        (lambda a: fdiff.vmap(fdiff.grad(root))(a), SLOPE),
        (lambda a: fdiff.grad(lambda a: np.sum(fdiff.vmap(root)(a)))(a), SLOPE),
        (lambda a: np.diag(fdiff.jacfwd(fdiff.vmap(root))(a)), SLOPE),
        (lambda a: np.diag(fdiff.hessian(lambda a: np.sum(fdiff.vmap(root)(a)))(a)), CURVATURE),
    ],
)
def test_elements_of_a_batch_end_at_their_own_trips(derivative, expected):
    np.testing.assert_allclose(derivative(A), expected, rtol=1e-9)


@both
def test_limit(run):
    f = lambda a: fdiff.while_loop(lambda x: x > 0, lambda x: x + a, 1.0, limit=10)
    with pytest.raises(ConvergenceError, match="still holds after limit=10 trips"):
        run(f)(1.0)
    assert (
        run(lambda a: fdiff.while_loop(lambda x: x < 9, lambda x: x + a, 0.0, limit=10))(1.0) == 9
    )
    with pytest.raises(InputError, match="limit must be a number of trips"):
        run(lambda a: fdiff.while_loop(lambda x: x > 0, lambda x: x + a, 1.0, limit=0.5))(1.0)


def test_no_trips_of_while():
    f = lambda a: fdiff.while_loop(lambda x: x < 0, lambda x: x * a, a)
    assert fdiff.value_and_grad(f)(2.0) == (2.0, 1.0)


def test_conditions_give_one_truth_value():
    words = r"`cond` must return one truth value, not b1\[3\](.|\n)*numpy.all or numpy.any"

    def cond(x):
        return x > 0

    with pytest.raises(ShapeError, match=words):
        fdiff.jit(lambda x: fdiff.while_loop(cond, lambda x: x - 1, x))(np.ones(3))


def test_integers_in_a_while():
    def collatz(n):
        def step(state):
            n, trips, y = state
            return (
                fdiff.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n),
                trips + 1,
                y * 1.01,
            )

        return fdiff.while_loop(lambda state: state[0] != 1, step, (n, 0, 1.0))[1:]

    assert collatz(27)[0] == fdiff.jit(collatz)(np.int64(27))[0] == 111
    found = fdiff.vmap(collatz)(np.arange(1, 8))
    np.testing.assert_array_equal(found[0], [0, 1, 7, 2, 5, 8, 16])


# --- branches -------------------------------------------------------------------------------------


def guarded(x):
    """A square root whose slope at 0 is infinite, beside a branch that is not."""
    return fdiff.cond(x > 0, np.sqrt, lambda x: 0.0 * x, x)


def test_the_branch_that_is_not_taken_has_no_part():
    x = np.array([-1.0, 0.0, 4.0])
    for found in (
        fdiff.vmap(fdiff.grad(guarded))(x),
        fdiff.grad(lambda x: np.sum(fdiff.vmap(guarded)(x)))(x),
        np.array([fdiff.grad(guarded)(v) for v in x]),
    ):
        np.testing.assert_array_equal(found, [0.0, 0.0, 0.25])


def test_derivatives_of_branches(rng):
    """Beside the same program with Python's branches, which become guards."""
    x = rng.normal(size=3)

    def f(x, cond, switch):
        y = cond(x[0] > x[1], lambda x: np.sin(x) * x[0], lambda x: x * x, x)
        return switch(np.argmax(y), [np.sum, np.prod, lambda y: np.sum(y**3)], y)

    ours = lambda x: f(x, fdiff.cond, fdiff.switch)
    plain = lambda x: f(
        x, lambda p, a, b, x: a(x) if p else b(x), lambda k, branches, x: branches[int(k)](x)
    )
    for k in range(4):
        at = np.roll(x, k) * (-1) ** k
        for operator in (fdiff.grad, fdiff.hessian, fdiff.jacfwd):
            np.testing.assert_allclose(
                operator(ours)(at), operator(plain)(at), rtol=1e-12, atol=1e-14
            )
    rows = rng.normal(size=(6, 3))
    found = fdiff.vmap(fdiff.hessian(ours))(rows)
    expected = [fdiff.hessian(plain)(row) for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_one_branch_is_run():
    def f(x):
        picked = fdiff.cond(
            x[0] > 0, lambda x: x[0], lambda x: np.linalg.inv(x[1:].reshape(2, 2))[0, 0], x
        )
        return picked * x[0]

    assert fdiff.grad(f)(np.array([3.0, 0, 0, 0, 0]))[0] == 6  # the other matrix is singular


def test_what_is_known_calls_one_branch_alone():
    def fails(x):
        raise AssertionError("it is not called")

    assert fdiff.jit(lambda x: fdiff.cond(True, np.sin, fails, x))(0.0) == 0
    assert fdiff.jit(lambda x: fdiff.switch(7, [fails, np.cos], x))(0.0) == 1
    assert fdiff.switch(-3, [np.cos, fails], 0.0) == 1


@pytest.mark.parametrize(
    ("error", "words", "f"),
    [
        (
            ShapeError,
            r"pred has shape \(3,\)(.|\n)*numpy.where",
            lambda x: fdiff.cond(x > 0, np.sin, np.cos, x),
        ),
        (ShapeError, "index has shape", lambda x: fdiff.switch(np.argsort(x), [np.sin], x)),
        (InputError, "index must be an int", lambda x: fdiff.switch(x[0], [np.sin], x)),
        (InputError, "there are no branches", lambda x: fdiff.switch(np.argmax(x), [], x)),
        (
            ShapeError,
            r"the result is f8\[3\] of `sin`, and f8\[\] of `sum`",
            lambda x: fdiff.cond(x[0] > 0, np.sum, np.sin, x),
        ),
        (
            DtypeError,
            r"the result\[0\] is f8\[3\] of `<lambda>`, and i8\[3\] of `<lambda>`",
            lambda x: fdiff.cond(x[0] > 0, lambda x: (x.astype(int),), lambda x: (x,), x),
        ),
        (
            InputError,
            "return different structures",
            lambda x: fdiff.cond(x[0] > 0, lambda x: (x,), lambda x: x, x),
        ),
        (
            TraceError,
            "branches on a value that a loop carries",
            lambda x: fdiff.while_loop(lambda c: c < 3, lambda c: c + 1 if c > 0 else c, x[0]),
        ),
        (InputError, "upper must be an int", lambda x: fdiff.fori_loop(0, x[0], lambda i, c: c, x)),
    ],
)
def test_what_is_refused(error, words, f):
    with pytest.raises(error, match=words):
        fdiff.jit(f)(np.array([1.0, 3.0, 2.0]))


def test_a_python_number_takes_the_dtype_of_the_other_branch():
    x = np.float32(2.0)
    f = lambda x: fdiff.cond(x > 0, lambda x: 0.5, lambda x: x * x, x)
    assert fdiff.jit(f)(x).dtype == np.float32
    assert fdiff.jit(f)(-x) == 4


# --- bounds that depend on data -------------------------------------------------------------------


def test_traced_bounds(rng):
    x = rng.uniform(1.0, 2.0, 5)
    f = lambda x, n: fdiff.fori_loop(1, n, lambda i, y: y * np.sin(x[i]), 1.0)
    for n in range(6):
        expected = fdiff.grad(lambda x, n=n: np.prod(np.sin(x[1:n])))(x)
        np.testing.assert_allclose(fdiff.grad(f)(x, np.int64(n)), expected)
    picked = lambda x: f(x, np.argmax(x) + 1)
    n = int(np.argmax(x)) + 1
    expected = fdiff.hessian(lambda x: np.prod(np.sin(x[1:n])))(x)
    np.testing.assert_allclose(fdiff.hessian(picked)(x), expected, rtol=1e-12, atol=1e-14)
    found = fdiff.vmap(fdiff.grad(f), in_axes=(None, 0))(x, np.arange(4))
    np.testing.assert_allclose(found, [fdiff.grad(f)(x, np.int64(n)) for n in range(4)])


# --- map and associative_scan ---------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 1, 2, 5, 9])
def test_map(size, rng):
    xs = {"a": rng.normal(size=(5, 2)), "b": rng.normal(size=5)}
    f = lambda row: (np.sin(row["a"]) * row["b"], row["b"] ** 2)
    mapped = lambda xs: fdiff.map(f, xs, batch_size=size)
    for found in (mapped(xs), fdiff.jit(mapped)(xs)):
        np.testing.assert_allclose(found[0], np.sin(xs["a"]) * xs["b"][:, None])
        np.testing.assert_allclose(found[1], xs["b"] ** 2)
    found = fdiff.grad(lambda xs: np.sum(mapped(xs)[0] ** 2))(xs)
    expected = fdiff.grad(lambda xs: np.sum((np.sin(xs["a"]) * xs["b"][:, None]) ** 2))(xs)
    np.testing.assert_allclose(found["a"], expected["a"])
    np.testing.assert_allclose(found["b"], expected["b"])


def test_what_map_is_given():
    with pytest.raises(InputError, match="batch_size must be a number of rows"):
        fdiff.map(np.sin, np.ones(3), batch_size=0)
    with pytest.raises(ShapeError, match="xs must have one length"):
        fdiff.map(np.sin, (np.ones(3), np.ones(4)))
    assert fdiff.map(lambda x: x[0], np.ones((0, 2))).shape == (0,)


@both
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scans(run, n, reverse, rng):
    def affine(a, b):
        """The composition of affine maps."""
        return np.matmul(b[0], a[0]), np.matmul(b[0], a[1][..., None])[..., 0] + b[1]

    def by_loop(xs):
        rows = [(m[None], v[None]) for m, v in zip(*xs, strict=True)]
        rows = rows[::-1] if reverse else rows
        out = rows[:1]
        for row in rows[1:]:
            out.append(affine(out[-1], row))
        return [np.concatenate(part) for part in zip(*(out[::-1] if reverse else out), strict=True)]

    xs = rng.normal(size=(n, 2, 2)), rng.normal(size=(n, 2))
    f = lambda xs: fdiff.associative_scan(affine, xs, reverse)
    if n:
        for a, b in zip(run(f)(xs), by_loop(xs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)
        slopes = [fdiff.grad(lambda xs, g=g: np.sum(g(xs)[1] ** 2))(xs) for g in (f, by_loop)]
        for a, b in zip(*slopes, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    else:
        assert run(f)(xs)[0].shape == (0, 2, 2)


def test_associative_scan_along_another_axis(rng):
    x = rng.normal(size=(2, 5))
    found = fdiff.associative_scan(np.maximum, x, axis=1)
    np.testing.assert_array_equal(found, np.maximum.accumulate(x, axis=1))
    with pytest.raises(ShapeError, match="another structure or shape"):
        fdiff.associative_scan(lambda a, b: a[:1], x.T)


@both
@pytest.mark.parametrize("axis", [1, -2, 0.5])
def test_axes_of_associative_scans(run, axis):
    kind, words = (
        (InputError, r"associative_scan\(add\): axis must be an int, not 0.5")
        if axis == 0.5
        else (ShapeError, rf"associative_scan\(add\): axis {axis} is out of bounds for xs\['a'\]")
    )
    with pytest.raises(kind, match=words):
        run(lambda x: fdiff.associative_scan(np.add, {"a": x}, axis=axis))(np.ones(3))


def test_associative_scans_are_loops_on_few_threads(rng, monkeypatch):
    f = lambda x: fdiff.associative_scan(lambda a, b: a + b + a * b, x)
    halved = lambda x: fdiff.associative_scan(lambda a, b: (a + b) / 2, x)  # gives other dtypes
    x = rng.uniform(0.5, 1.5, 9)
    slope = lambda: fdiff.make_tape(fdiff.grad(lambda x: np.sum(f(x))), x)
    names = lambda: {node.primitive.name for node in slope().nodes}
    assert "loop" in names()
    found, whole = fdiff.jit(f)(x), fdiff.jit(halved)(np.arange(5))
    monkeypatch.setattr(parallel_loops, "LARGE", 0)
    monkeypatch.setattr(parallel_loops, "FEW_THREADS", 0)
    assert "loop" not in names()
    np.testing.assert_allclose(found, fdiff.jit(lambda x: f(x))(x), rtol=1e-14)
    np.testing.assert_array_equal(whole, halved(np.arange(5)))


def test_source_and_repr_of_a_reverse_loop_show_its_parts():
    """How many trips there are is told by a run: its kernel has the text of all lengths."""
    slope = fdiff.jit(fdiff.grad(root))
    text = fdiff.source(slope, 4.0)
    assert text.startswith("# part 1 of 2\ndef kernel(")
    assert text.count("while True:") == 1
    assert text.count("for trip") == 2  # forwards again, and backwards
    assert "loop[" in fdiff.source(slope, 4.0, stage="fuse")
    slope(4.0)
    assert "run in 2 parts, which are compiled when that pays" in repr(slope)


@pytest.mark.parametrize(
    "run", [lambda f: f, fdiff.jit, fdiff.jacobian], ids=["plain", "jit", "jacobian"]
)
def test_conditions_that_are_no_truth_value_are_refused_by_plain_loops_too(run):
    words = r"`<lambda>` must return one truth value, not b1\[2\](.|\n)*numpy.all or numpy.any"
    with pytest.raises(ShapeError, match=words):
        run(lambda x: fdiff.while_loop(lambda y: y < 2.0, lambda y: 2.0 * y, x))(np.ones(2))
    with pytest.raises(InputError, match="pred must be one truth value, not None"):
        run(lambda x: fdiff.cond(None, np.sin, np.cos, x))(np.ones(2))
