"""Dense Hessians and Jacobians of functions that gather rows, work row by row and add up."""

import numpy as np
import pytest

import fdiff

pytestmark = pytest.mark.usefixtures("one_interpreter")

N = 40
DRAW = np.random.default_rng(6)
X = DRAW.normal(size=(N, 3))
PAIRS = np.triu_indices(N, 1)
BONDS = np.arange(N - 1), np.arange(1, N)
ANGLES = np.arange(N - 2), np.arange(1, N - 1), np.arange(2, N)
CHAIN = np.arange(3 * N - 1), np.arange(1, 3 * N)  # made in a function, they would be slices
REST = 1.0 + DRAW.uniform(size=N - 1)
WEIGHTS = DRAW.uniform(size=(PAIRS[0].size, 1))


def lennard_jones(x):
    d = x[PAIRS[0]] - x[PAIRS[1]]
    inverse = 1.0 / np.sum(d * d, axis=1) ** 3
    return np.sum(4.0 * (inverse * inverse - inverse))


def springs(x):
    length = np.linalg.norm(x[BONDS[0]] - x[BONDS[1]], axis=-1)
    return 0.5 * np.sum((length - REST) ** 2)


def flat(x):
    """A vector, as minimisers have it."""
    return springs(x.reshape(-1, 3)) + np.sum(1.0 / np.sum(x.reshape(N, 3)[PAIRS[0]] ** 2, axis=1))


def molecule(x):
    """Terms of two and of three atoms, of other numbers of rows."""
    a, b, c = (x[k] for k in ANGLES)
    u, v = a - b, c - b
    cosine = np.einsum("ij,ij->i", u, v) / np.sqrt(np.sum(u * u, axis=1) * np.sum(v * v, axis=1))
    return springs(x) + np.sum((cosine + 0.3) ** 2) - lennard_jones(x)


def weighted(x):
    d = np.concatenate([x[PAIRS[0]], x[PAIRS[1]]], axis=1) * WEIGHTS
    e = np.stack([d[:, 0] * d[:, 4], d[:, 2] - d[:, 3]], axis=1)
    return np.sum(np.where(e > 0.1, np.sin(e), e[:, ::-1] * 0.5))


def numbers(x):
    """Rows are single numbers."""
    y = x.reshape(-1)
    i, j = CHAIN
    return np.sum(np.exp(-((y[i] - y[j]) ** 2)))


def met_twice(x):
    """The same places more than once, counted from the end, and a row that meets itself."""
    i, j = np.array([0, 0, -1, 5, 5, 39]), np.array([1, 1, 39, 5, -35, 0])
    return np.sum(np.exp(-np.sum(x[i] * x[j], axis=1)))


def transposed_rows(x):
    a = x[PAIRS[0]].reshape(-1, 3, 1) * x[PAIRS[1]].reshape(-1, 1, 3)
    return np.sum(a * np.sin(np.transpose(a, (0, 2, 1))))


def beside(x):
    """The input is used elsewhere, too."""
    return springs(x) + 0.5 * np.sum(x**2) + np.sum(np.exp(x[:, 0]) * x[:, 2])


def by_columns(x):
    """Coordinates one by one, as many write it."""
    i, j = PAIRS
    dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
    return np.sum(np.exp(-np.sqrt(dx * dx + dy * dy + dz * dz)) * dx)


def columns_first(x):
    a, b = x[:, 0], x[:, 1:]
    d = b[PAIRS[0]] * a[PAIRS[1]][:, None] - b[PAIRS[1], ::-1]
    return np.sum(np.sin(d)) + np.sum(a[BONDS[0]] * b[BONDS[1], 0] ** 2) + np.sum(a[:, None] * b)


def several_times(x):
    """Terms of the same rows, one after another, each with its own factor."""
    total = 0.0
    for k in range(3):
        total = total + (k + 1.0) * np.sum(np.cos(x[BONDS[0], k] * x[BONDS[1], k - 1]))
        total = total - np.sum(x[BONDS[1]] ** (k + 2))
    return total


def flat_beside(x):
    return flat(x) - np.sum(x**4)


SEPARABLE = [
    lennard_jones, springs, molecule, weighted, numbers, met_twice, transposed_rows, beside,
    by_columns, columns_first, several_times,
]  # fmt: skip


def squared(x):
    """All rows meet in one number, which is not linear."""
    return springs(x) ** 2


def across(x):
    """Each row with the one before."""
    d = x[BONDS[0]] - x[BONDS[1]]
    return np.sum(np.cos(d[1:] * d[:-1]))


def running(x):
    return np.sum(np.cumsum(x[BONDS[0]] * x[BONDS[1]], axis=0) ** 2)


def every_pair(x):
    d = x[BONDS[0]][:, None] - x[BONDS[1]][None]
    return np.sum(np.exp(-np.sum(d * d, axis=2)))


def products(x):
    y = x[BONDS[0]]
    return np.sum(np.sin(y @ y.T))


FLAT = [flat, flat_beside]
OTHERS = [squared, across, running, every_pair, products]


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("f", [*SEPARABLE, *FLAT, *OTHERS], ids=lambda f: f.__name__)
def test_hessians(f, tier, structures, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    fast, slow = fdiff.hessian(f), fdiff.hessian(f, chunk_size=50)
    x = X.ravel() if f in FLAT else X
    for given in (x, 1.3 * x[::-1].copy()):
        found = fast(given)
        scale = np.max(np.abs(slow(given)))
        np.testing.assert_allclose(found, slow(given), rtol=1e-10, atol=1e-13 * scale)
        matrix = found.reshape(X.size, X.size)
        np.testing.assert_array_equal(matrix, matrix.T)
        assert found.flags.writeable
    assert f in OTHERS or None not in structures


@pytest.mark.parametrize("f", SEPARABLE, ids=lambda f: f.__name__)
def test_hessians_are_differences_of_gradients(f):
    slope, hessian = fdiff.grad(f), fdiff.hessian(f)(X)
    v = DRAW.normal(size=X.shape)
    v /= np.linalg.norm(v)
    along = np.tensordot(hessian, v, 2)
    x, step = X, 1e-4 * np.min(np.linalg.norm(X[PAIRS[0]] - X[PAIRS[1]], axis=1))
    ahead = [slope(x + k * step * v) for k in (-2, -1, 1, 2)]
    wanted = (ahead[0] - 8 * ahead[1] + 8 * ahead[2] - ahead[3]) / (12 * step)
    np.testing.assert_allclose(along, wanted, rtol=1e-5, atol=1e-6 * np.max(np.abs(wanted)))


def test_jacobians_of_sums_of_rows(structures):
    """Forces are not a gradient here: what a pair says to its atoms differs."""

    def forces(x):
        out = np.zeros((N, 2))
        d = x[BONDS[0]] - x[BONDS[1]]
        np.add.at(out, BONDS[0], np.sin(d[:, :2]))
        np.subtract.at(out, BONDS[1], d[:, 1:] ** 2)
        return out

    found = fdiff.jacfwd(forces)(X)
    assert found.shape == (N, 2, N, 3)
    np.testing.assert_allclose(found, fdiff.jacrev(forces)(X), rtol=1e-12, atol=1e-13)


def test_jacobians_of_rows(structures):
    """What is not added up is in its place."""

    def stretched(x):
        return np.linalg.norm(x[PAIRS[0]] - x[PAIRS[1]], axis=1)

    def moved(x):
        return x[np.roll(np.arange(N), 1)] * np.sin(x) - x[::1, ::-1]

    for f in (stretched, moved):
        np.testing.assert_allclose(fdiff.jacfwd(f)(X), fdiff.jacrev(f)(X), rtol=1e-12, atol=1e-13)
    assert structures
    assert None not in structures


def test_index_vectors_may_change():
    def energy(x, i, j):
        d = x[i] - x[j]
        return np.sum(np.exp(-np.sum(d * d, axis=1)))

    hessian, slow = fdiff.hessian(energy), fdiff.hessian(energy, chunk_size=50)
    for i, j in (PAIRS, PAIRS[::-1], BONDS, (BONDS[0] - N, BONDS[1]), (BONDS[0][:0],) * 2):
        np.testing.assert_allclose(hessian(X, i, j), slow(X, i, j), rtol=1e-10, atol=1e-13)
    for wrong in (N, -N - 1):
        with pytest.raises(IndexError):
            hessian(X, np.append(BONDS[0], wrong), np.append(BONDS[1], 0))


def test_index_vectors_read_from_outside_may_change():
    at = {"i": PAIRS[0].copy()}

    def energy(x):
        return np.sum(np.cos(x[at["i"]] * x[PAIRS[1]]))

    hessian, slow = fdiff.hessian(energy), fdiff.hessian(energy, chunk_size=50)
    first = hessian(X)
    at["i"][:] = at["i"][::-1].copy()
    second = hessian(X)
    np.testing.assert_allclose(second, slow(X), rtol=1e-10, atol=1e-13)
    assert not np.allclose(first, second)


def test_other_dtypes_and_layouts(structures):
    for x in (X.astype(np.float32), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        found = fdiff.hessian(springs)(x)
        assert found.dtype == x.dtype
        wanted = fdiff.hessian(springs, chunk_size=50)(X)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert None not in structures


def test_what_is_infinite_stays_with_its_atoms():
    x = X.copy()
    x[1] = x[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        found = fdiff.hessian(lennard_jones)(x)
    assert not np.isfinite(found[0, :, 1]).any()
    assert np.isfinite(found[2:, :, 2:]).all()


def test_few_atoms_and_several_arguments(structures):
    def energy(x, y):
        return np.sum((x[BONDS[0]] - y[BONDS[1]]) ** 4)

    few = lambda x: np.sum((x[[0, 1]] - x[[1, 2]]) ** 4)
    found = [*fdiff.hessian(energy, argnums=(0, 1))(X, X), fdiff.hessian(few)(X[:5])]
    slow = fdiff.hessian(energy, argnums=(0, 1), chunk_size=50)(X, X)
    for got, want in zip(found, [*slow, fdiff.hessian(few, chunk_size=4)(X[:5])], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
    assert len(structures) == 2
    assert None not in structures


def test_inside_another_trace():
    def total(x):
        return np.sum(fdiff.hessian(springs)(x) ** 2)

    wanted = fdiff.grad(lambda x: np.sum(fdiff.hessian(springs, chunk_size=50)(x) ** 2))(X)
    np.testing.assert_allclose(fdiff.grad(total)(X), wanted, rtol=1e-10, atol=1e-11)
