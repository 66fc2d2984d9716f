"""Dense Jacobians and Hessians from terms: sparse ones, those of rules, exact zeros."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fdiff
from fdiff.dispatch.program import Program
from fdiff.functional.operators.structured_steps import CHANGES, STRUCTURES
from fdiff.transforms.patterns.column_colouring import colours
from fdiff.transforms.terms import dense_tapes
from fdiff.transforms.terms.gathered_rows import columns_of_gathered_rows

N = 40
X = 0.5 + np.random.default_rng(4).uniform(0.1, 0.9, N)


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def burgers(x):
    y = np.zeros_like(x)
    y[1:-1] = x[1:-1] * (x[2:] - x[:-2]) + 0.1 * (x[2:] - 2.0 * x[1:-1] + x[:-2])
    y[0], y[-1] = x[0], x[-1] ** 2
    return y


def elementwise(x):
    return np.exp(-x) * np.log(x)


def periodic(x):
    return np.roll(x, 1) * x + np.concatenate([x[-1:], x[:-1]])


def plane(x):
    u = x.reshape(8, 5)
    inner = u[1:-1, 1:-1]
    return (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inner) + np.sin(inner)


def over_a_plane(x):
    return np.sum(plane(x) ** 2)


def rows(x):
    return np.sum(x.reshape(8, 5).T ** 2 * np.arange(8.0), axis=0)


def band(n, lower, upper):
    """Entries of a band matrix."""
    pairs = [(i, j) for i in range(n) for j in range(max(0, i - lower), min(n, i + upper + 1))]
    return (n, n), pairs


def five_points(n):
    """The Laplacian of a grid with n points on each side."""
    steps = [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
    inside = [(i, j, i + p, j + q) for i in range(n) for j in range(n) for p, q in steps]
    pairs = [
        (n * i + j, n * k + m) for i, j, k, m in inside if 0 <= k < n and 0 <= m < n
    ]  # fmt: skip
    return (n * n, n * n), pairs


# The least numbers of colours: as many as a row has entries for a band matrix (A. R. Curtis,
# M. J. D. Powell, J. K. Reid, "On the estimation of sparse Jacobian matrices", IMA J. Appl. Math.
# 13, 1974); all columns where a row is dense; 2 where the first column is, beside a diagonal. The
# grid has rows of 5, and 5 colours do for it, diagonally repeated; in the order of its columns
# algorithm 3.2 takes more, at most one more than the columns that share a row with one: 12.
COLOURS = {
    "diagonal": (band(20, 0, 0), 1, 1),
    "two diagonals": (band(20, 0, 1), 2, 2),
    "three diagonals": (band(20, 1, 1), 3, 3),
    "five diagonals": (band(20, 2, 2), 5, 5),
    "lopsided band": (band(20, 3, 1), 5, 5),
    "dense row": (((20, 20), [(i, i) for i in range(20)] + [(19, j) for j in range(19)]), 20, 20),
    "dense column": (
        ((20, 20), [(i, i) for i in range(20)] + [(i, 0) for i in range(1, 20)]),
        2,
        2,
    ),
    "grid": (five_points(8), 5, 13),
}


@pytest.mark.parametrize("name", COLOURS)
def test_as_manycolours_as_are_known_to_be_needed(name):
    (shape, pairs), least, most = COLOURS[name]
    rows, columns = np.array(sorted(pairs, key=lambda pair: pair[::-1])).T
    colour = colours(shape, rows, columns)
    shared = {(i, colour[j]) for i, j in pairs}
    assert len(shared) == len(pairs)  # no row has two columns of one colour
    assert least <= len({*colour}) <= most


def with_arrow(x):
    """One dense row."""
    return np.concatenate([x[:-1] ** 2, np.sum(x)[None]])


def product(x):
    return np.outer(x, x) @ x


def chosen(x):
    return x[1:] ** 2 if x[0] > 0.9 else x[:-1] * x[1:]


SPARSE = [burgers, elementwise, periodic, plane, rows, chosen, with_arrow]


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("f", [*SPARSE, product])
def test_jacobians(f, tier, structures, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    slow = fdiff.jacobian(f, chunk_size=7)
    for fast in (fdiff.jacfwd(f), fdiff.jacrev(f)):
        for x in (X, X[::-1].copy(), 2.0 * X):
            found = fast(x)
            assert found.flags.writeable
            np.testing.assert_allclose(found, slow(x), rtol=1e-13, atol=1e-14)
    assert len(structures) > 1
    assert f is product or None not in structures


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize(
    "f", [rosenbrock, lambda x: np.sum(np.cos(x) ** 3), lambda x: np.sum(plane(x) ** 2)]
)
def test_hessians(f, tier, structures, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    fast, slow = fdiff.hessian(f), fdiff.hessian(f, chunk_size=7)
    for x in (X, 2.0 * X):
        found = fast(x)
        np.testing.assert_allclose(found, slow(x), rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(found, found.T)
    assert structures
    assert None not in structures


def test_arrays_of_more_axes_and_other_dtypes(structures):
    def f(u):
        return u[1:] * u[:-1] ** 2

    for u in (X.reshape(10, 4), X.reshape(10, 4).astype(np.float32)):
        found = fdiff.jacobian(f, u)
        assert found.shape == (9, 4, 10, 4)
        assert found.dtype == u.dtype
        wanted = fdiff.jacobian(f, chunk_size=7)(u)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert structures
    assert None not in structures


def test_an_infinite_slope_stays_in_its_row():
    """Elsewhere there is nothing that could depend on it."""
    x = X.copy()
    x[3] = 0.0
    found = fdiff.jacobian(np.sqrt, x)
    wanted = np.zeros((N, N))
    with np.errstate(divide="ignore"):
        np.fill_diagonal(wanted, 0.5 / np.sqrt(x))
    np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize("derivative", [fdiff.jacobian, fdiff.jacfwd, fdiff.jacrev])
def test_an_infinity_stays_where_there_is_an_entry(derivative):
    """Of a few entries, of several arguments, of results in a structure."""
    x = np.array([np.inf, 2.0, np.nan])
    square = np.diag(2.0 * x)
    np.testing.assert_array_equal(derivative(lambda x: x * x)(x), square)
    both = derivative(lambda x, y: {"p": x * y, "q": y[:1] ** 2}, argnums=(0, 1))(x, x)
    np.testing.assert_array_equal(both["p"], (np.diag(x), np.diag(x)))
    np.testing.assert_array_equal(both["q"][0], np.zeros((1, 3)))
    np.testing.assert_array_equal(both["q"][1], square[:1])


def test_an_infinity_stays_in_a_hessian():
    x = np.array([np.inf, 2.0, np.nan, 1.0])
    found = fdiff.hessian(lambda x: np.sum(x**3) + x[1] * x[3])(x)
    wanted = np.diag(6.0 * x)
    wanted[1, 3] = wanted[3, 1] = 1.0
    np.testing.assert_array_equal(found, wanted)
    (xx, xy), (yx, yy) = fdiff.hessian(lambda x, y: np.sum(x**2 * y), argnums=(0, 1))(x, x)
    np.testing.assert_array_equal(xx, np.diag(2.0 * x))
    np.testing.assert_array_equal(xy, np.diag(2.0 * x))
    np.testing.assert_array_equal(yx, xy.T)
    np.testing.assert_array_equal(yy, np.zeros((4, 4)))


def test_blocks_of_rows_are_found(structures):
    """The Jacobian of a network for a batch has a block for each row; by its weights, too."""
    rng = np.random.default_rng(0)
    weights, last, batch = rng.normal(size=(3, 5)), rng.normal(size=(5, 2)), rng.normal(size=(6, 3))

    def network(x, w):
        return np.tanh(x @ w) @ last

    for k in (0, 1):
        found = fdiff.jacobian(network, argnums=k)(batch, weights)
        wanted = fdiff.jacobian(network, argnums=k, chunk_size=7)(batch, weights)
        np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)
    assert len(structures) == 2
    assert None not in structures


def test_complex_inputs_have_terms(structures):
    z = X[:6] + 0.5j
    for choice, f in (("holomorphic", lambda z: z[1:] * z[:-1]), ("conjugate", lambda z: abs(z))):
        for derivative in (fdiff.jacfwd, fdiff.jacrev):
            slopes = derivative(f, complex_inputs=choice)
            wanted = derivative(f, complex_inputs=choice, chunk_size=2)(z)
            np.testing.assert_allclose(slopes(z), wanted, rtol=1e-13, atol=1e-15)
    assert len(structures) == 4
    assert None not in structures


def test_index_arrays_that_change_at_each_call_are_right():
    """Of a few structures each is kept; of many, those that are new are swept."""
    f = lambda x, i: x[i] ** 2 * np.sin(x[::2])
    slopes, rng = fdiff.jacobian(f), np.random.default_rng(0)
    for _ in range(CHANGES + 3):
        i = rng.integers(-8, 8, 4)
        wanted = np.zeros((4, 8))
        np.add.at(wanted, (np.arange(4), i % 8), 2.0 * X[i % 8] * np.sin(X[:8:2]))
        np.add.at(wanted, (np.arange(4), np.arange(0, 8, 2)), X[i % 8] ** 2 * np.cos(X[:8:2]))
        np.testing.assert_allclose(slopes(X[:8], i), wanted, rtol=1e-13, atol=1e-15)
    (kept,) = [v.plan.derivative.terms for (v,) in slopes.program.variants.values()]
    assert len(kept.structures.kept) == STRUCTURES


def test_inside_another_trace():
    second = fdiff.jacobian(lambda x: np.sum(fdiff.jacobian(burgers, x) ** 2, axis=1))(X)
    wanted = fdiff.jacrev(lambda x: np.sum(fdiff.jacrev(burgers)(x) ** 2, axis=1))(X)
    np.testing.assert_allclose(second, wanted, rtol=1e-12, atol=1e-13)


def squares(x):
    return x * x


def cubes(x):
    return np.sum(x**3)


def diagonal(values):
    """No zero is multiplied by an infinity."""
    return np.where(np.eye(len(values)) > 0, values, 0.0)


def second_of_cubes(x):
    return np.where((np.eye(4)[:, :, None] * np.eye(4)) > 0, 6.0 * x, 0.0)


NESTED = {
    "jit": (fdiff.jit(fdiff.jacobian(squares)), lambda x: diagonal(2.0 * x)),
    "jit of a Hessian": (fdiff.jit(fdiff.hessian(cubes)), lambda x: diagonal(6.0 * x)),
    "of a gradient": (fdiff.jacobian(fdiff.grad(cubes)), lambda x: diagonal(6.0 * x)),
    "vmap": (
        lambda x: fdiff.vmap(fdiff.jacobian(squares))(np.stack([x, x]))[1],
        lambda x: diagonal(2.0 * x),
    ),
    "vmap of a Hessian": (
        lambda x: fdiff.vmap(fdiff.hessian(cubes))(np.stack([x, x]))[1],
        lambda x: diagonal(6.0 * x),
    ),
    "twice": (fdiff.jacobian(fdiff.jacobian(lambda x: x**3)), second_of_cubes),
    "an index": (
        fdiff.jit(lambda x: fdiff.jacobian(lambda x, i: x[i] ** 2)(x, np.array([1, 0, 2]))),
        lambda x: diagonal(2.0 * x)[[1, 0, 2]],
    ),
    "read one by one": (
        fdiff.jit(fdiff.jacobian(lambda x: np.stack([x[k] ** 2 for k in range(4)]))),
        lambda x: diagonal(2.0 * x),
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_an_infinity_stays_in_its_place_inside_of_another_trace(name):
    derivative, wanted = NESTED[name]
    x = np.array([np.inf, 2.0, np.nan, 0.0])
    np.testing.assert_array_equal(derivative(x), wanted(x))


def ordered(x):
    """Two results, one of which has no structure."""
    return x * x, x[np.argsort(x)]


SWEPT = {
    "Jacobian": (fdiff.jacobian, squares, lambda x: diagonal(2.0 * x)),
    "Hessian": (fdiff.hessian, cubes, lambda x: diagonal(6.0 * x)),
    "Hessian of several outputs": (
        fdiff.hessian,
        lambda x: x**3,
        lambda x: np.swapaxes(second_of_cubes(x), 0, 2),
    ),
    "one block of two": (
        lambda f, **options: lambda x: fdiff.jacobian(f, **options)(x)[0],
        ordered,
        lambda x: diagonal(2.0 * x),
    ),
}


@pytest.mark.parametrize(
    "options", [{}, {"chunk_size": 1}, {"chunk_size": 3}, {"chunk_size": 99}], ids=str
)
@pytest.mark.parametrize("name", SWEPT)
def test_an_infinity_stays_in_its_place_where_sweeps_are_taken(name, options):
    derivative, f, wanted = SWEPT[name]
    x = np.array([np.inf, 2.0, np.nan, 0.5])
    np.testing.assert_array_equal(derivative(f, **options)(x), wanted(x))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_an_infinity_stays_in_its_place_in_an_eager_trace(mode, monkeypatch):
    def find(program, f, args, kwargs, *, sure=False):
        return program.trace(f, args, kwargs, eager=True)

    monkeypatch.setattr(Program, "find", find)
    x = np.array([np.inf, 2.0, np.nan, 0.5])
    for options in ({}, {"chunk_size": 2}):
        found = fdiff.jacobian(lambda x: np.stack([v * v for v in x]), mode=mode, **options)(x)
        np.testing.assert_array_equal(found, diagonal(2.0 * x))
    found = fdiff.hessian(lambda x: sum(v**3 for v in x))(x)
    np.testing.assert_array_equal(found, diagonal(6.0 * x))


def test_a_jacobian_that_vanishes():
    np.testing.assert_array_equal(fdiff.jacobian(np.floor, X), np.zeros((N, N)))


TERMS = (np.sin, np.exp, np.square, lambda z: z * np.cos(z), np.tanh)
drawn = st.lists(
    st.tuples(st.integers(0, 6), st.sampled_from(range(len(TERMS))), st.integers(1, 3)),
    min_size=1,
    max_size=5,
)


@given(terms=drawn, seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_sums_of_products_of_neighbours(terms, seed):
    """Jacobians of sums and products of neighbours, against complex steps, column by column."""
    weights = np.random.default_rng(seed).normal(size=len(terms))

    def f(x):
        n = x.shape[0] - 6
        total = np.zeros(n, x.dtype) if x.dtype.kind == "c" else np.zeros(n)
        for weight, (shift, term, power) in zip(weights, terms, strict=True):
            total = total + weight * TERMS[term](x[shift : shift + n]) * x[3 : 3 + n] ** power
        return total

    found = fdiff.jacfwd(f)(X)
    steps = [f(X + 1e-30j * column).imag / 1e-30 for column in np.eye(N)]
    np.testing.assert_allclose(found, np.stack(steps, axis=1), rtol=1e-13, atol=1e-14)


# --- functions with rules of the user's -----------------------------------------------------------


def neighbours(x):
    return x * np.roll(x, 1)


def reverse_rule():
    """Its rule reads other entries than the function: a pattern of the function would be wrong."""

    @fdiff.custom_vjp
    def f(x):
        return np.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, bar: (np.cos(x) * bar + 0.5 * np.roll(bar, 3),))
    return lambda x: neighbours(f(x))


def forward_rule():
    @fdiff.custom_jvp
    def f(x, y):
        return np.sin(x) + y, x * 2.0

    def rule(primals, tangents):
        (x, y), (x_dot, y_dot) = primals, tangents
        return f(x, y), (np.roll(x_dot, 1) * np.cos(x), np.flip(y_dot) * x)

    f.defjvp(rule)
    return lambda x: f(neighbours(x), x)[0] * f(x, x)[1]


def linear_rule():
    """A linear function, which its rule calls with the tangent."""

    @fdiff.custom_jvp
    def f(x):
        return np.roll(x, 2) - x

    f.defjvp(lambda primals, tangents: (f(primals[0]), f(tangents[0])))
    return lambda x: np.exp(f(x)) * x


def stopped_rule():
    """The tangent is read where a derivative would not pass."""

    @fdiff.custom_jvp
    def f(x):
        return np.floor(x)

    f.defjvp(lambda p, t: (f(p[0]), fdiff.stop_gradient(t[0]) + np.roll(t[0], 1)))
    return lambda x: f(4.0 * x) ** 2


def torch_rule():
    class Scaled(fdiff.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**2

        @staticmethod
        def backward(ctx, bar):
            (x,) = ctx.saved_tensors
            return 3.0 * x * bar

    return lambda x: neighbours(Scaled.apply(x))


def full_rule():
    @fdiff.custom_jvp
    def f(x):
        return x * x

    f.defjvp(lambda p, t: (f(p[0]), 2.0 * p[0] * t[0] + np.sum(t[0])))
    return f


def sorted_rule():
    """A triangle."""

    @fdiff.custom_jvp
    def f(x):
        return x * x

    f.defjvp(lambda p, t: (f(p[0]), np.cumsum(t[0])))
    return f


# A call on a tangent, and what stops one, are not taken as linear.
WITH_TERMS = [reverse_rule, forward_rule, torch_rule, full_rule, sorted_rule]
WITH_RULES = [*WITH_TERMS, linear_rule, stopped_rule]


@pytest.mark.parametrize("program", WITH_RULES)
def test_the_pattern_is_that_of_the_rule(program, structures):
    f = program()
    found = fdiff.jacfwd(f)(X)
    assert (structures[-1] is not None) == (program in WITH_TERMS)
    dense = fdiff.jacfwd(f, chunk_size=7)(X)
    np.testing.assert_allclose(found, dense, rtol=1e-13, atol=1e-14)
    if program is stopped_rule:  # what is stopped has no transpose
        return
    np.testing.assert_allclose(fdiff.jacrev(f)(X), dense, rtol=1e-13, atol=1e-14)
    loss = lambda x: np.sum(f(x) ** 2)
    hessian = fdiff.jacfwd(fdiff.grad(loss))(X)
    np.testing.assert_allclose(hessian, fdiff.jacrev(fdiff.grad(loss))(X), rtol=1e-12, atol=1e-12)


def test_a_rule_without_a_transpose_says_so_still():
    @fdiff.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda _, bar: (np.clip(bar, -1.0, 1.0),))
    with pytest.raises(fdiff.errors.TraceError, match="not linear in the cotangent"):
        fdiff.jacfwd(clipped)(X)
    assert np.array_equal(fdiff.jacrev(clipped)(X), np.eye(N))


OF_NOTHING = {
    "itself": lambda x: x,
    "reversed": lambda x: x[::-1],
    "no entry": lambda x: x[:0],
    "multiples": lambda x: 2.0 * x,
    "entry by entry": np.sin,
    "twice": lambda x: np.concatenate([x, x * x]),
    "rows": lambda x: x.reshape(0, 3) @ np.ones((3, 2)),
    "columns": lambda x: x.reshape(0, 3).T,
    "sum": lambda x: np.ones(3) + np.sum(x),
}


@pytest.mark.parametrize("name", OF_NOTHING)
@pytest.mark.parametrize("operator", [fdiff.jacfwd, fdiff.jacrev])
def test_derivatives_of_empty_arrays(name, operator):
    """Those of views were an error: there is no least of no columns."""
    f = OF_NOTHING[name]
    shape = np.shape(f(np.ones(0)))
    found = operator(f)(np.ones(0))
    assert found.shape == (*shape, 0)
    np.testing.assert_array_equal(operator(lambda x: f(x[:0]))(np.ones(4)), np.zeros((*shape, 4)))
    squares = lambda x: np.sum(f(x) ** 2)
    assert fdiff.hessian(squares)(np.ones(0)).shape == (0, 0)


# --- rows that are gathered ---------------------------------------------------------------------

CORNERS = np.random.default_rng(7).normal(size=(9, 3))
PICKED = np.random.default_rng(8).integers(-9, 9, 40)


def moved(t):
    """Corners that move, read more often than there are corners: constants stand in between."""
    grown = CORNERS * np.exp(t[1] * CORNERS[:, :1]) + np.sin(t[0] * CORNERS[:, ::-1])
    return (grown * t[5] + t[2:5])[PICKED]


GATHERED = {
    "as they are": moved,
    "flat": lambda t: (1.0 - moved(t)).ravel(),
    "scaled by rows": lambda t: moved(t) * np.arange(40.0)[:, None],
    "twice": lambda t: moved(t)[PICKED % 7].reshape(3, 40),
    "one column": lambda t: moved(t)[:, 1],
    "with another term": lambda t: moved(t) + t[3] * t[5],
    "infinite": lambda t: moved(t) * np.where(np.arange(40) == 3, np.inf, 1.0)[:, None],
}


@pytest.mark.parametrize("name", GATHERED)
def test_rows_that_are_gathered_are_those_of_sweeps(name, monkeypatch):
    f, t = GATHERED[name], np.array([0.3, -0.2, 0.5, 1.0, -1.5, 0.7])
    uses = []

    def columns(*args):
        uses.append(columns_of_gathered_rows(*args))
        return uses[-1]

    monkeypatch.setattr(dense_tapes, "columns_of_gathered_rows", columns)
    terms = fdiff.jacobian(f)(t)
    used = any(use is not None for use in uses)
    assert used == (name not in ("one column", "with another term"))
    with np.errstate(invalid="ignore"):
        columns = [fdiff.jvp(f, t, v)[1] for v in np.eye(6)]
    sweeps = np.stack(columns, axis=-1)
    finite = np.isfinite(sweeps)
    assert finite.all() or name == "infinite"
    np.testing.assert_allclose(terms[finite], sweeps[finite], rtol=1e-13, atol=1e-15)
    apart = terms.reshape(-1, 3, 6) if name in ("as they are", "flat", "infinite") else None
    if apart is not None:  # the corner moves along each axis by its own entry of `t`
        assert not apart[:, ~np.eye(3, 6, 2, dtype=bool) & (np.arange(6) % 5 > 1)].any()
