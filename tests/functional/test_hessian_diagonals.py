"""The diagonal of a Hessian: that of the whole Hessian and of JAX's, by few sweeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdiff
from fdiff.errors import InputError, VectorError

jax.config.update("jax_enable_x64", True)

RNG = np.random.default_rng(0)
N = 12
M = RNG.normal(size=(N, N))
X = 0.4 * RNG.normal(size=N)
FIXED = RNG.normal(size=N)

# A function in terms of NumPy or JAX, and how many sweeps its diagonal takes.
FUNCTIONS = {
    "of single entries": (lambda x, np: np.sum(x**4 + np.sin(FIXED * x)), 1),
    "of single entries, weighted": (lambda x, np: np.sum(np.exp(x) * M[0]), 1),
    "linear": (lambda x, np: np.sum(FIXED * x), 1),
    "of neighbours": (
        lambda x, np: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
        2,
    ),
    "of every third": (lambda x, np: np.sum(x[:-2] * x[1:-1] ** 2 * x[2:] ** 3), 3),
    "of two halves": (lambda x, np: np.sum(np.tanh(x[: N // 2] * x[N // 2 :])), 2),
    "of the first with all": (lambda x, np: x[0] * np.sum(x[1:] ** 3), 2),
    "a quadratic form": (lambda x, np: x @ (M @ x), N),
    "dense": (lambda x, np: np.log(np.sum(np.exp(x))) * x[0], N),
    "of one element": (lambda x, np: np.sum(x**3, keepdims=True), 1),
}
every = pytest.mark.parametrize("name", FUNCTIONS)


def ours(name):
    return lambda x: FUNCTIONS[name][0](x, np)


def diagonal(name, x=X):
    """JAX's."""
    f = lambda x: jnp.reshape(FUNCTIONS[name][0](x, jnp), ())
    return np.diagonal(jax.hessian(f)(x))


def plan_of(prepared):
    (variants,) = prepared.program.variants.values()
    return variants[0].plan


@pytest.fixture(params=["interpret", "evaluate", "compile"])
def _tier(request, monkeypatch):
    fdiff.cache_clear()
    monkeypatch.setenv("FDIFF_TIER", request.param)
    yield
    fdiff.cache_clear()


@every
@pytest.mark.usefixtures("_tier")
def test_it_is_the_diagonal(name):
    f, want = ours(name), diagonal(name)
    for chunk_size in ("auto", 1, 5):
        prepared = fdiff.hessian_diagonal(f, chunk_size=chunk_size)
        for _ in range(4):
            np.testing.assert_allclose(prepared(X), want, rtol=1e-11, atol=1e-13)
        assert plan_of(prepared).counts == [FUNCTIONS[name][1]]
    np.testing.assert_allclose(fdiff.hessian_diagonal(f, X), want, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
@every
def test_in_other_transforms(name):
    f, want = ours(name), diagonal(name)
    found = fdiff.vmap(fdiff.hessian_diagonal(f))(np.stack([X, 2 * X]))
    np.testing.assert_allclose(found, [want, diagonal(name, 2 * X)], rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(
        fdiff.jit(fdiff.hessian_diagonal(f))(X), want, rtol=1e-11, atol=1e-13
    )
    total = lambda x: np.sum(fdiff.hessian_diagonal(f)(x) * FIXED)
    third = jax.grad(
        lambda x: jnp.diagonal(jax.hessian(lambda y: FUNCTIONS[name][0](y, jnp).sum())(x)) @ FIXED
    )(X)
    np.testing.assert_allclose(fdiff.grad(total)(X), third, rtol=1e-10, atol=1e-11)


def test_structures_dtypes_and_shapes():
    f = lambda p, s: np.sum(p["w"] ** 3 * p["b"]) * s**2
    p = {"w": np.arange(6.0).reshape(2, 3), "b": 2.0}
    found = fdiff.hessian_diagonal(f)(p, 3.0)
    np.testing.assert_allclose(found["w"], 6 * p["w"] * 2.0 * 9.0)
    assert found["b"] == 0.0
    assert type(found["b"]) is np.float64
    both = fdiff.hessian_diagonal(f, argnums=(1, 0))(p, 3.0)
    np.testing.assert_allclose(both[0], 2 * np.sum(p["w"] ** 3) * 2.0)
    np.testing.assert_allclose(both[1]["w"], found["w"])
    assert fdiff.hessian_diagonal(lambda x: x**3)(2.0) == 12.0
    assert fdiff.hessian_diagonal(np.sum)(np.zeros(0)).shape == (0,)
    single = fdiff.hessian_diagonal(ours("of neighbours"))(X.astype("f4"))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, diagonal("of neighbours"), rtol=1e-4)
    out = np.empty(N)
    assert fdiff.hessian_diagonal(ours("dense"))(X, out=out) is out
    np.testing.assert_allclose(out, diagonal("dense"), rtol=1e-11)
    np.testing.assert_array_equal(
        fdiff.hessian_diagonal(lambda x: [x[0] ** 2 * x[1]])([3, 4]), [8, 0]
    )


def test_other_entries_do_not_reach_an_entry():
    """Entries of one colour are infinite, or no numbers, and the others are as they are."""
    x = np.array([0.0, 1.0, -1.0, 4.0])
    with np.errstate(all="ignore"):
        found = fdiff.hessian_diagonal(lambda x: np.sum(x**1.5))(x)
        want = np.diagonal(fdiff.hessian(lambda x: np.sum(x**1.5))(x))
    np.testing.assert_array_equal(found, want)
    np.testing.assert_allclose(found[[1, 3]], [0.75, 0.375])
    assert np.isnan(found[2])


def test_functions_that_are_differentiated_as_they_run():
    def f(x):
        return sum(v**3 if v > 0 else np.sin(v) * x[0] for v in x)

    prepared, hess = fdiff.hessian_diagonal(f), fdiff.hessian(f)
    for _ in range(30):
        x = RNG.normal(size=9)
        np.testing.assert_allclose(prepared(x), np.diagonal(hess(x)), rtol=1e-12, atol=1e-14)
    assert prepared.program.stability, "some calls were eager"


@pytest.mark.parametrize("chunk_size", ["auto", 1, 2])
def test_branches_that_alternate(chunk_size):
    def f(x):
        return sum(a**3 * x[0] if a > 0 else np.sin(a) for a in x)

    prepared, hess = fdiff.hessian_diagonal(f, chunk_size=chunk_size), fdiff.hessian(f)
    points = RNG.normal(size=(3, 3))
    for k in range(30):
        x = points[k % 3]
        np.testing.assert_allclose(prepared(x), np.diagonal(hess(x)), rtol=1e-12, atol=1e-14)


def test_long_vectors_take_one_sweep_where_entries_do_not_meet():
    x = RNG.normal(size=200_000)
    prepared = fdiff.hessian_diagonal(lambda x: np.sum(np.cos(x)))
    np.testing.assert_allclose(prepared(x), -np.cos(x), rtol=1e-13)
    assert plan_of(prepared).counts == [1]


def test_random_patterns_take_few_sweeps_and_lose_nothing():
    rng = np.random.default_rng(7)
    for _ in range(25):
        n = int(rng.integers(2, 30))
        size = int(rng.integers(1, n))
        pairs = rng.integers(n - size + 1, size=(int(rng.integers(1, 4)), 2)).tolist()

        def f(x, pairs=pairs, size=size):
            return sum(np.sum(np.sin(x[a : a + size]) * x[b : b + size] ** 2) for a, b in pairs)

        fdiff.cache_clear()
        x = rng.normal(size=n)
        prepared, hess = fdiff.hessian_diagonal(f), fdiff.hessian(f)(x)
        np.testing.assert_allclose(prepared(x), np.diagonal(hess), rtol=1e-11, atol=1e-12)
        degree = max(np.count_nonzero(row) for row in hess - np.diag(np.diagonal(hess)))
        assert plan_of(prepared).counts[0] <= degree + 1  # as any greedy colouring


def test_recorded_arrays():
    z = fdiff.autograd.tensor(X, requires_grad=True)
    found = fdiff.hessian_diagonal(lambda x: np.sum(x**4))(z)
    np.sum(found).backward()
    np.testing.assert_allclose(z.grad, 24 * X)


def test_wrong_arguments_are_refused():
    with pytest.raises(VectorError) as caught:
        fdiff.hessian_diagonal(lambda x: x**2)(X)
    assert str(caught.value).splitlines()[0] == (
        "hessian_diagonal(<lambda>): The array returned by the function given to hessian_diagonal"
        " should contain a single element, but it has shape (12,)."
    )
    with pytest.raises(InputError, match="chunk_size must be a positive int or 'auto', not 0"):
        fdiff.hessian_diagonal(np.sum, chunk_size=0)
    with pytest.raises(InputError, match="device must be one of 'cpu', 'cuda', not 'tpu'"):
        fdiff.hessian_diagonal(np.sum, device="tpu")
    with pytest.raises(InputError, match=r"^hessian_diagonal: expects a function first, not float"):
        fdiff.hessian_diagonal(1.0)
