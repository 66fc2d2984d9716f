"""Sparse derivatives of the user's operations: declared patterns, rules of either mode."""

import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError
from fdiff.transforms.terms import mixing_ops

N = 40
ZERO = np.float32(0)
X, Y = np.random.default_rng(0).uniform(0.5, 1.5, (2, N))
MODES = ("auto", "forward", "reverse")
ARGNUMS = (0, 1, (0, 1))


def stencil(x, y):
    """Each entry reads its two neighbours in `x`, and its own place in `y`."""
    return x * x * y + np.append(ZERO, x[:-1] * y[1:]) + np.append(np.sin(x[1:]), ZERO)


def push(dots, out, x, y):
    dx, dy = dots
    left = np.append(ZERO, dx[:-1] * y[1:] + x[:-1] * dy[1:])
    return 2 * x * dx * y + x * x * dy + left + np.append(np.cos(x[1:]) * dx[1:], ZERO)


def pull(bar, out, x, y):
    neighbours = np.append(bar[1:] * y[1:], ZERO) + np.append(ZERO, bar[:-1] * np.cos(x[1:]))
    return 2 * x * y * bar + neighbours, x * x * bar + np.append(ZERO, x[:-1] * bar[1:])


def bands(x, y):
    n = x.size
    return np.eye(n) + np.eye(n, k=-1) + np.eye(n, k=1), np.eye(n)


RULES = {"jvp": push, "vjp": pull}


def operation(rule, *, declared=True):
    pattern = {"sparsity": bands} if declared else {}
    return fdiff.primitive(stencil, like=0, **pattern, **{rule: RULES[rule]})


@pytest.fixture
def colours(monkeypatch):
    """The number of colours of each block that is coloured."""
    counts, real = [], mixing_ops.colours

    def counted(*args):
        colour = real(*args)
        counts.append(int(colour.max(initial=0)) + 1)
        return colour

    monkeypatch.setattr(mixing_ops, "colours", counted)
    return counts


def flat(results):
    """The arrays of a result in nested tuples."""
    return [a for r in results for a in flat(r)] if isinstance(results, tuple) else [results]


def close(found, expected):
    for a, b in zip(flat(found), flat(expected), strict=True):
        np.testing.assert_allclose(a.toarray(), b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("argnums", ARGNUMS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_jacobians(rule, declared, mode, argnums, colours):
    """A declared pattern is coloured in both modes; without one the rule tells the structure."""
    f = operation(rule, declared=declared)
    around = [lambda x, y, f=f: np.exp(-f(x * y, y)) * x for f in (f, stencil)]
    result = fdiff.jacobian(around[0], argnums=argnums, sparse=True, mode=mode)(X, Y)
    close(result, fdiff.jacobian(around[1], argnums=argnums)(X, Y))
    assert [a.nnz for a in flat(result)] == [3 * N - 2] * len(flat(result))
    assert set(colours) <= {1, 3}
    assert bool(colours) == declared


@pytest.mark.parametrize("argnums", ARGNUMS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("rule", RULES)
def test_hessians(rule, declared, lower, argnums, colours):
    """Entries of a result that share a row of the pattern: 5 colours for a band of 3."""
    f = operation(rule, declared=declared)
    around = [lambda x, y, f=f: np.sum(f(x * y, y) ** 2) for f in (f, stencil)]
    result = fdiff.hessian(around[0], argnums=argnums, sparse=True, lower=lower)(X, Y)
    expected = fdiff.hessian(around[1], argnums=argnums)(X, Y)
    if not lower:
        close(result, expected)
        assert all(a.nnz == 5 * N - 6 for a in flat(result))
        halves = flat(result)[:: 3 if isinstance(argnums, tuple) else 1]
        assert all((a != a.T).nnz == 0 for a in halves)
    elif not isinstance(argnums, tuple):
        close(result, np.tril(expected))
        assert result.nnz == 3 * N - 3
    assert max(colours, default=0) == (5 if declared else 0)


@pytest.mark.parametrize("rule", ["vjp", "jvp"])
def test_rules_that_call_what_has_no_rule(rule, colours):
    """A rule that calls its operation, which is linear: without a pattern the block is dense.

    Its own mode is the one there is: nothing tells the transpose.
    """
    scale = np.linspace(1.0, 2.0, N)
    rules = {"vjp": lambda bar, out, x: (mirrored(bar),), "jvp": lambda d, out, x: mirrored(d[0])}

    def reflected(x):
        return x * scale * scale[::-1]

    for pattern, count in ((None, N * N), (lambda x: np.eye(x.size), N)):
        mirrored = fdiff.primitive(reflected, like=0, sparsity=pattern, **{rule: rules[rule]})
        mode = "forward" if rule == "jvp" else "reverse"
        result = fdiff.jacobian(lambda x: mirrored(x**3), sparse=True, mode=mode)(X)
        close(result, fdiff.jacobian(lambda x: reflected(x**3))(X))
        assert result.nnz == count
    assert set(colours) == {1}


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
def test_operations_with_kernels(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    square = fdiff.primitive(
        lambda x: x * x, partials=lambda x, out: (2.0 * x,), kernel="lambda x: x * x",
        sparsity=lambda x: np.eye(x.size),
    )  # fmt: skip
    slopes = fdiff.jacobian(lambda x: square(x[1:]) * x[:-1], sparse=True)
    curvature = fdiff.hessian(lambda x: np.sum(square(x[1:]) * x[:-1] ** 2), sparse=True)
    for x in (X, Y, X, Y):
        close(slopes(x), fdiff.jacobian(lambda x: x[1:] ** 2 * x[:-1])(x))
        close(curvature(x), fdiff.hessian(lambda x: np.sum(x[1:] ** 2 * x[:-1] ** 2))(x))


def test_what_is_made_of_values():
    """Values are differentiated again, batched, and taken in single precision, with the pattern."""
    for rule in RULES:
        f = operation(rule)
        slopes = fdiff.jacobian(lambda x, f=f: f(x, x), sparse=True)
        plain = fdiff.jacobian(lambda x: stencil(x, x), sparse=True)
        total = [fdiff.grad(lambda x, s=s: np.sum(s.data(x) ** 2))(X) for s in (slopes, plain)]
        np.testing.assert_allclose(*total, rtol=1e-11)
        both = [fdiff.vmap(s.data)(np.stack([X, Y])) for s in (slopes, plain)]
        np.testing.assert_allclose(*both, rtol=1e-11)
        single = slopes(X.astype(np.float32))
        assert single.dtype == np.float32
        np.testing.assert_allclose(single.toarray(), plain(X).toarray(), rtol=1e-5)
        batched = fdiff.jacobian(lambda x, f=f: fdiff.vmap(f)(x, x).ravel(), sparse=True)
        x = np.stack([X[:5], Y[:5]])
        expected = fdiff.jacobian(lambda x: fdiff.vmap(stencil)(x, x).ravel())(x)
        np.testing.assert_allclose(batched(x).toarray(), expected.reshape(10, 10), rtol=1e-11)


def test_patterns_of_other_arguments_and_shapes():
    """One argument without a pattern, a constant one, integers, a matrix, and an empty array."""

    def weighted(x, w, k):
        return x * np.sum(w) * k

    def rule(bar, out, x, w, k):
        return bar * np.sum(w) * k, np.sum(bar * x * k) * np.ones_like(w), None

    f = fdiff.primitive(
        weighted, like=0, vjp=rule, sparsity=lambda x, w, k: (np.eye(x.size), None, None)
    )
    k = np.arange(1, 7).reshape(2, 3)
    x, w = X[:6].reshape(2, 3), Y[:4]
    for argnums in ARGNUMS:
        result = fdiff.jacobian(lambda x, w: f(x, w, k), argnums=argnums, sparse=True)(x, w)
        expected = fdiff.jacobian(lambda x, w: weighted(x, w, k), argnums=argnums)(x, w)
        for a, b in zip(flat(result), flat(expected), strict=True):
            np.testing.assert_allclose(a.toarray(), b.reshape(a.shape), rtol=1e-12)
            assert a.nnz == (6 if a.shape[1] == 6 else 24)
    empty = fdiff.jacobian(operation("vjp"), sparse=True)(X[:0], Y[:0])
    assert empty.shape == (0, 0)


def test_other_rules_around_an_operation():
    """A pattern is that of the operation's own rule, not of another function's that calls it."""
    square = fdiff.primitive(
        lambda x: x * x,
        like=0,
        jvp=lambda d, out, x: 2 * x * d[0],
        sparsity=lambda x: np.eye(x.size),
    )

    @fdiff.custom_jvp
    def averaged(x):
        return square(x)

    averaged.defjvp(lambda p, d: (averaged(*p), np.sum(d[0]) * p[0]))
    for n in (4, 200):
        x = np.arange(1.0, n + 1)
        expected = np.repeat(x[:, None], n, axis=1)
        np.testing.assert_array_equal(fdiff.jacobian(averaged)(x), expected)
        np.testing.assert_array_equal(fdiff.jacobian(averaged, x, sparse=True).toarray(), expected)


def test_a_rule_that_reads_a_large_array(colours):
    """What the rule reads besides its arguments does not count: 2,000 by 2,000 numbers here."""
    table = np.eye(2000) + np.eye(2000, k=1)
    f = fdiff.primitive(
        lambda x: table @ x**2,
        like=0,
        vjp=lambda bar, out, x: (2 * x * (table.T @ bar),),
        sparsity=lambda x: table != 0,
    )
    x = np.linspace(0.5, 1.5, 2000)
    result = fdiff.jacobian(f, sparse=True)(x)
    np.testing.assert_allclose(result.toarray(), 2 * table * x, rtol=1e-14)
    assert (result.nnz, fdiff.hessian(lambda x: np.sum(f(x)), sparse=True)(x).nnz) == (3999, 5998)
    assert set(colours) == {2, 3}


def test_a_pattern_of_another_shape():
    f = fdiff.primitive(stencil, like=0, vjp=pull, sparsity=lambda x, y: (np.eye(3), None))
    with pytest.raises(
        InputError, match=r"sparsity gave patterns of shapes \[\(3, 3\), None\], not"
    ):
        fdiff.jacobian(f, sparse=True)(X, Y)
