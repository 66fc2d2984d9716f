"""Sparse matrices with traced entries: results of SciPy, and derivatives by the complex step."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

import fdiff
from fdiff.errors import UnsupportedError

RNG = np.random.default_rng(0)
N = 5
PLACES = {
    "sorted": ([0, 0, 1, 2, 2, 3, 4], [0, 3, 1, 0, 2, 3, 4]),
    "unsorted": ([4, 0, 2, 1, 2, 3, 0], [4, 3, 2, 1, 0, 3, 0]),
    "repeated": ([4, 0, 2, 1, 2, 3, 0, 0, 2], [4, 3, 2, 1, 0, 3, 0, 3, 0]),
    "none": (np.zeros(0, int), np.zeros(0, int)),
}
CONSTANT = sp.csc_array((np.arange(1.0, 8.0), PLACES["unsorted"]), shape=(N, N))
DENSE = np.arange(25.0).reshape(5, 5) - 3
free = np.array([3, 0, 2])
mask = np.array([True, False, True, True, False])


def after(name, matrix):
    """The matrix after a method that changes it in place."""
    getattr(matrix, name)()
    return matrix


def kinds(matrix):
    asked = isinstance(matrix, sp.csr_matrix), isinstance(matrix, sp.coo_array)
    older = sp.isspmatrix(matrix), sp.isspmatrix_csr(matrix)
    return 1.0 + sp.issparse(matrix) + np.array([*asked, *older]) @ [10, 100, 1000, 0.5]


# Programs of one matrix; none is refused.
PROGRAMS = {
    "itself": lambda K: K,
    "transpose": lambda K: K.T,
    "copy": lambda K: K.copy(),
    "csr": lambda K: K.tocsr(),
    "csc": lambda K: K.tocsc(),
    "coo": lambda K: K.tocoo(),
    "lil": lambda K: K.tolil(),
    "dia": lambda K: K.todia(),
    "converted": lambda K: K.asformat("csc").tocsr(),
    "class": lambda K: sp.csc_matrix(K),
    "newer class": lambda K: sp.csr_array(K),
    "rows": lambda K: K.tocsr()[free],
    "free": lambda K: K.tocsr()[free][:, free],
    "free, csc": lambda K: K.tocsc()[:, free][free, :],
    "mask": lambda K: K.tocsr()[mask][:, mask],
    "ix_": lambda K: K.tocsr()[np.ix_(free, mask)],
    "slices": lambda K: K.tocsr()[1:4, ::2],
    "backwards": lambda K: K.tocsr()[::-1, 3:0:-1],
    "repeated rows": lambda K: K.tocsr()[[2, 2, 0]],
    "ellipsis": lambda K: K.tocsr()[..., 1:3],
    "row": lambda K: K.tocsr()[[2]],
    "getrow": lambda K: K.tocsr().getrow(2) if sp.isspmatrix(K) else K.tocsr()[[2], :],
    "entry": lambda K: K.tocsr()[2, 0],
    "no entry": lambda K: K.tocsr()[1, 0],
    "reshaped": lambda K: K.reshape((25, 1)),
    "diagonal": lambda K: K.diagonal(),
    "another diagonal": lambda K: K.diagonal(-2),
    "trace": lambda K: K.trace(),
    "sum": lambda K: K.sum(),
    "sums": lambda K: sp.csr_array(K).sum(axis=0),
    "row sums": lambda K: sp.coo_array(K).sum(axis=-1),
    "mean": lambda K: sp.csc_array(K).mean(axis=0) + K.mean(),
    "negative": lambda K: -K,
    "times number": lambda K: K * 2.5,
    "number times": lambda K: np.float64(2.5) * K,
    "over number": lambda K: K / 3,
    "square": lambda K: K.power(2),
    "**2": lambda K: K**2,
    "sine": lambda K: K.sin(),
    "plus": lambda K: K + CONSTANT,
    "plus, reflected": lambda K: CONSTANT + K,
    "minus": lambda K: K - CONSTANT,
    "minus, reflected": lambda K: CONSTANT - K,
    "plus its transpose": lambda K: K + K.T,
    "identity minus": lambda K: sp.eye(5) * 2 - K,
    "product": lambda K: K @ CONSTANT,
    "product, reflected": lambda K: CONSTANT @ K,
    "squared": lambda K: K @ K,
    "Gram": lambda K: K.T @ K,
    "*": lambda K: K * CONSTANT,
    "*, reflected": lambda K: CONSTANT * K,
    "dot": lambda K: K.dot(CONSTANT),
    "multiply": lambda K: K.multiply(CONSTANT),
    "multiply itself": lambda K: K.multiply(K),
    "multiply, reflected": lambda K: CONSTANT.multiply(K),
    "multiply dense": lambda K: K.multiply(DENSE),
    "multiply row": lambda K: K.multiply(DENSE[0]),
    "multiply column": lambda K: K.multiply(DENSE[:, :1]),
    "over dense": lambda K: K / (DENSE + 100),
    "* dense": lambda K: K * DENSE,
    "vector": lambda K: K @ DENSE[1],
    "dense": lambda K: K @ DENSE,
    "vector, reflected": lambda K: DENSE[1] @ K,
    "dense, reflected": lambda K: DENSE @ K,
    "plus dense": lambda K: sp.csr_array(K) + DENSE,
    "dense minus": lambda K: DENSE - sp.coo_array(K),
    "toarray": lambda K: K.toarray(),
    "hstack": lambda K: sp.hstack([K, CONSTANT, K]),
    "vstack": lambda K: sp.vstack([K, CONSTANT], format="csr"),
    "bmat": lambda K: sp.bmat([[K, None], [None, CONSTANT]]),
    "block_diag": lambda K: sp.block_diag([K, CONSTANT, [[1.0, 2.0]]]),
    "kron": lambda K: sp.kron(K, CONSTANT),
    "kron, reflected": lambda K: sp.kron([[1.0, 0.0], [2.0, 3.0]], K, format="csr"),
    "kron of a small one": lambda K: sp.kron(CONSTANT, sp.csr_array(K)[:2, [0, 3]]),
    "tril": lambda K: sp.tril(K),
    "triu": lambda K: sp.triu(K, 1, format="csc"),
    "in place": lambda K: K.copy().__imul__(3.0),
    "eliminate_zeros": lambda K: after("eliminate_zeros", K),
    "sum_duplicates": lambda K: after("sum_duplicates", K),
    "sort_indices": lambda K: after("sort_indices", K.tocsr()[:, free]),
}
# What tells how a matrix is stored.
STORAGE = {
    "data": lambda K: K.data,
    "data of the product with a number": lambda K: (K * 2).tocsr().data,
    "indices": lambda K: K.tocsr().indices * 1.0,
    "indptr": lambda K: K.tocsr().indptr * 1.0,
    "nnz": lambda K: K.nnz * K.sum(),
    "row and col": lambda K: K.tocoo().row * 1.0 + K.tocoo().col,
    "data of columns": lambda K: K.tocsr()[:, free].data,
    "data of sorted columns": lambda K: after("sort_indices", K.tocsr()[:, free]).data,
    "data of a product": lambda K: (K @ CONSTANT).data,
    "data of a sum": lambda K: (K + CONSTANT).data,
    "data of a difference": lambda K: (K - CONSTANT).data,
    "data of a product with a dense array": lambda K: K.multiply(DENSE).data,
    "data without duplicates": lambda K: after("sum_duplicates", K).data,
    "kinds": lambda K: K * kinds(K),
    "dtype": lambda K: K.astype(np.float32),
}
AFTER_SUMS = [k for k in STORAGE if k.startswith("data of a")]
FORMS = [(form, kind) for form in ("csr", "csc", "coo") for kind in ("array", "matrix")]
each_form = pytest.mark.parametrize(("form", "kind"), FORMS)
each_place = pytest.mark.parametrize("places", PLACES)


def built(form, kind, places):
    """What makes a matrix of entries at places."""
    make = getattr(sp, f"{form}_{kind}")
    if places in PLACES:
        return lambda d: make((d, PLACES[places]), shape=(N, N))
    lines = [3, 0, 3, 1, 4, 2, 0, 3, 1], [0, 3, 4, 6, 7, 9]
    return lambda d: make((d * 1, *lines), shape=(N, N))  # SciPy sorts in place


def check_same(found, plain):
    """The class, shape, dtype, order and entries of SciPy's own result."""
    assert type(found) is type(plain) or not sp.issparse(plain)
    assert np.shape(found) == np.shape(plain)
    assert np.asarray(found).dtype == np.asarray(plain).dtype
    if sp.issparse(plain):
        assert found.dtype == plain.dtype
        if plain.format in ("csr", "csc"):
            np.testing.assert_array_equal(found.indices, plain.indices)
        found, plain = found.toarray(), plain.toarray()
    np.testing.assert_allclose(found, plain, rtol=1e-14, atol=1e-14)


@pytest.mark.slow
@each_form
@each_place
def test_results_are_those_of_scipy(form, kind, places):
    make = built(form, kind, places)
    d = RNG.normal(size=len(PLACES[places][0]))
    programs = PROGRAMS | STORAGE
    refused = form == "coo" and places == "repeated"  # SciPy computes with sums, in another order
    names = [k for k in programs if not (refused and k in AFTER_SUMS)]
    result = fdiff.jit(lambda d: {k: programs[k](make(d)) for k in names})(d)
    for k in names:
        check_same(result[k], programs[k](make(d)))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_lines_that_are_not_in_order(form, kind):
    """Entries as they are given by lines: repeated, and in any order."""
    make, d = built(form, kind, "lines"), RNG.normal(size=9)
    result = fdiff.jit(lambda d: {k: f(make(d)) for k, f in PROGRAMS.items()})(d)
    for k, f in PROGRAMS.items():
        plain = f(make(d))
        mine, plain = (x.toarray() if sp.issparse(x) else x for x in (result[k], plain))
        np.testing.assert_allclose(mine, plain, rtol=1e-14, atol=1e-14)
    stored = {k: STORAGE[k] for k in ("data", "nnz", "indices", "indptr", "row and col")}
    if form == "csr":
        stored["data of sorted columns"] = lambda K: after("sort_indices", K).data
    result = fdiff.jit(lambda d: {k: f(make(d)) for k, f in stored.items()})(d)
    for k, f in stored.items():
        check_same(result[k], f(make(d)))


@pytest.mark.parametrize(
    ("form", "kind", "places"),
    [
        *((form, kind, "repeated") for form, kind in FORMS),
        ("csr", "array", "lines"),
        ("csc", "matrix", "lines"),
        ("coo", "array", "unsorted"),
    ],
)
def test_derivatives_are_those_of_the_complex_step(form, kind, places):
    """Both modes, of all programs together; second derivatives by differences."""
    make, d = built(form, kind, places), RNG.normal(size=9 if places != "unsorted" else 7)
    v = RNG.normal(size=d.shape)

    def f(d):
        result = [program(make(d)) for program in PROGRAMS.values()]
        parts = [x.toarray() if sp.issparse(x) else x for x in result]
        return np.concatenate([np.reshape(x, -1) for x in parts])

    expected = f(d + 1e-30j * v).imag * 1e30
    _, tangent = fdiff.jvp(f, d, v)
    np.testing.assert_allclose(tangent, expected, rtol=1e-12, atol=1e-12)
    w = RNG.normal(size=expected.shape)
    slope = fdiff.grad(lambda d: f(d) @ w)(d)
    np.testing.assert_allclose(slope @ v, w @ expected, rtol=1e-12, atol=1e-12)
    third = (f(d + 1e-3 * v) - 2 * f(d) + f(d - 1e-3 * v)) / 1e-6
    bent = fdiff.hvp(lambda d: f(d) @ w, d, v)[1]
    np.testing.assert_allclose(bent @ v, w @ third, rtol=1e-6, atol=1e-5)


REFUSED = {
    "`todense`": lambda K: sp.csr_matrix(K).todense(),
    "`sum` along an axis": lambda K: sp.coo_matrix(K).sum(axis=0),
    "a sum with a dense array": lambda K: sp.csr_matrix(K) + DENSE,
    "a row of a sparse array": lambda K: sp.csr_array(K)[1],
    "by two lists, which are a numpy.matrix": lambda K: sp.csr_matrix(K)[[0, 1], [1, 0]],
    "`data` of a matrix that SciPy stores in another order": lambda K: K.tolil().tocsr().data,
    "or without the entries that are zero": lambda K: (K - K).data,
    "a store into a matrix": lambda K: K.tocsr().__setitem__((0, 0), 1.0),
    "`setdiag` of a matrix": lambda K: K.setdiag(1.0),
    "the quotient of two sparse matrices": lambda K: K / K,
    "a comparison of matrices": lambda K: (K != K.T).nnz,
    "a power of a sparse matrix": lambda K: sp.csr_matrix(K) ** 3,
    "with an exponent that is not a positive number": lambda K: K.power(-1),
    "`max` of a matrix": lambda K: K.max(),
    "format 'bsr' of a matrix": lambda K: K.asformat("bsr"),
    "`tobsr` of a matrix": lambda K: K.tobsr(),
    r"scipy\.sparse\.bsr_array of traced entries": lambda K: sp.bsr_array(K),
    r"scipy\.sparse\.kronsum": lambda K: sp.kronsum(K, CONSTANT),
}


@pytest.mark.parametrize("words", REFUSED)
def test_refusals(words):
    with pytest.raises(UnsupportedError) as caught:
        fdiff.jit(lambda d: REFUSED[words](built("coo", "array", "unsorted")(d)))(np.ones(7))
    assert re.search(words, str(caught.value).partition("\n")[0])  # the line of code has the words


def test_results_that_scipy_leaves_out_when_they_are_zero():
    """The entries of a sum as long as none of them is zero; an error at a point where one is."""
    values = fdiff.jit(lambda d: (built("csr", "array", "sorted")(d) - CONSTANT).data)
    np.testing.assert_array_equal(values(np.zeros(7)), (-CONSTANT.tocsr()).data)
    with pytest.raises(UnsupportedError, match="without the entries that are zero"):
        values(CONSTANT.tocsr().data)


def test_infinite_entries_stay_in_their_place():
    d = np.array([np.inf, 1.0, 2.0, np.nan, 3.0, 4.0, 5.0])
    make = built("csr", "array", "sorted")
    for name in ("toarray", "diagonal", "sums", "plus", "tril"):
        f = lambda d, name=name: PROGRAMS[name](make(d))
        plain = f(d)
        check_same(fdiff.jit(f)(d), plain)
    slopes = fdiff.jacobian(lambda d: (make(d) + CONSTANT).toarray(), d)
    assert np.isfinite(slopes).all()


def test_no_dense_matrix_is_made():
    """A matrix of 200,000 rows: all that is done takes memory by entries."""
    n = 200_000
    rows = np.arange(n)
    inner = np.arange(1, n - 1)

    def f(d):
        K = sp.coo_matrix((d, (rows, rows)), shape=(n, n)).tocsr() + sp.eye(n, k=1, format="csr")
        cut = K[inner][:, inner]
        scaled = (cut @ cut.T).multiply(np.ones(n - 2))
        return np.sum(scaled.diagonal() ** 2) + np.sum(cut.diagonal(1))

    d = np.linspace(1.0, 2.0, n)
    expected = 4 * d * (d**2 + 1)
    expected[-2] = 4 * d[-2] ** 3
    expected[[0, -1]] = 0
    np.testing.assert_allclose(fdiff.grad(f)(d), expected, rtol=1e-12)


def test_entries_that_share_memory_do_so_under_trace():
    def f(d):
        K = built("csr", "array", "sorted")(d)
        other = K.T
        K.data[0] = 7.0
        K *= 2.0
        shared = built("coo", "matrix", "sorted")(d)
        shared *= 3.0
        return K.toarray(), other.toarray(), K.copy().toarray(), shared.toarray(), d * 1.0

    d = np.arange(1.0, 8.0)
    for mine, plain in zip(fdiff.jit(f)(d.copy()), f(d), strict=True):
        np.testing.assert_array_equal(mine, plain)


def test_changed_structures_are_seen():
    """Index arrays that are captured, and given as arguments."""
    rows, cols = np.array([0, 1, 2]), np.array([0, 1, 2])

    def f(d, keep):
        matrix = sp.coo_array((d**2, (rows, cols)), shape=(3, 3)).tocsr()
        return (matrix[keep] @ np.arange(1.0, 4.0))[0]

    slope = fdiff.grad(f)
    d = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(slope(d, np.array([1, 0])), [0, 8, 0])
    np.testing.assert_array_equal(slope(d, np.array([2, 0])), [0, 0, 18])
    cols[:] = [2, 2, 2]
    np.testing.assert_array_equal(slope(d, np.array([0, 1])), [6, 0, 0])


def test_dtypes_and_dense_arrays():
    make = built("csr", "matrix", "sorted")
    narrow = fdiff.jit(lambda d: make(d) @ make(d))
    assert narrow(np.ones(7, np.float32)).dtype == np.float32
    f = lambda x: sp.csr_array(np.outer(x, x) * (DENSE > 0))
    check_same(fdiff.jit(f)(np.arange(1.0, 6.0)), f(np.arange(1.0, 6.0)))
    z = RNG.normal(size=7) + 1j * RNG.normal(size=7)
    g = lambda z: (built("csc", "matrix", "unsorted")(z).conj().T @ make(z)).toarray()
    check_same(fdiff.jit(g)(z), g(z))
    v = RNG.normal(size=7) + 1j * RNG.normal(size=7)
    measured = (g(z + 1e-5 * v) - g(z - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(fdiff.jvp(g, z, v)[1], measured, rtol=1e-8, atol=1e-8)


def test_batches_and_recorded_arrays():
    make = built("coo", "array", "repeated")
    cut = lambda K: K.tocsr()[free][:, free]
    f = lambda d: (cut(make(d)) @ cut(make(d).tocsc())).toarray()
    batch = RNG.normal(size=(3, 9))
    np.testing.assert_allclose(fdiff.vmap(f)(batch), [f(d) for d in batch], rtol=1e-14)
    x = fdiff.autograd.tensor(batch[0], requires_grad=True)
    K = make(x).tocsr()
    ((K[free][:, free] @ K.T[free][:, free]).diagonal() ** 2).sum().backward()
    g = lambda d: np.sum((cut(make(d)) @ cut(make(d).T)).diagonal() ** 2)
    np.testing.assert_allclose(np.asarray(x.grad), fdiff.grad(g)(batch[0]), rtol=1e-13)


@pytest.mark.parametrize("divisor", [2, 3.0, np.float32(3.0), np.float64(3.0), 2j])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_quotients_by_numbers_have_the_dtype_of_scipy(divisor, dtype):
    places = (np.array([0, 1, 1]), np.array([1, 0, 0]))

    def quotient(x):
        return (sp.csr_array((x, places), shape=(2, 2)) / divisor).toarray()

    x = np.array([1.0, 2.0, 3.0], dtype)
    expected, result = quotient(x), fdiff.jit(quotient)(x)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=1e-6)
