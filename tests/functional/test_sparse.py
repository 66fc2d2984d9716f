"""``sparse=`` of `jacobian` and `hessian`: results, structures, parts, refusals, solvers."""

import os
import pickle
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.sparse as sp

import fdiff
from fdiff.errors import DtypeError, InputError, StrictError, StructureError
from fdiff.functional.operators import structured_steps
from fdiff.transforms.terms import sparse_tapes

X = np.array([1.0, 2.0, -3.0, 0.5, 4.0])
LONG = "FDIFF_LONG_TESTS" in os.environ
FORMATS = ("csr", "csc", "coo")


def products(x):
    return x[1:] * x[:-1]


def banana(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


@pytest.fixture
def sweeps(monkeypatch):
    """How many structures are made: one entry for each."""
    result, real = [], structured_steps.sparse_tape
    monkeypatch.setattr(structured_steps, "sparse_tape", lambda *a: result.append(1) or real(*a))
    return result


# --- results -----------------------------------------------------------------------------------


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("form", FORMATS)
def test_results_are_canonical_arrays(form, tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    slopes = fdiff.jacobian(lambda x: products(x) + 1, sparse=form)
    for _ in range(3):
        result = slopes(X)
    assert type(result) is getattr(sp, f"{form}_array")
    assert result.has_canonical_format
    assert (result.shape, result.dtype, result.nnz) == ((4, 5), np.float64, 8)
    np.testing.assert_array_equal(result.toarray(), fdiff.jacobian(products)(X))
    np.testing.assert_array_equal(slopes.data(X), result.data)
    rows, cols = slopes.coordinates(X)
    assert rows.dtype == cols.dtype == np.int32
    again = sp.coo_array((result.data, (rows, cols)), shape=result.shape)
    np.testing.assert_array_equal(again.toarray(), result.toarray())
    pattern = slopes.pattern(X)
    assert isinstance(pattern, type(result))
    assert (pattern.dtype, pattern.nnz) == (np.bool_, 8)
    fresh = getattr(sp, f"{form}_array")(result.toarray())
    for mine, scipys in (
        (result @ X, fresh @ X),
        ((result + fresh).toarray(), 2 * fresh.toarray()),
    ):
        np.testing.assert_array_equal(mine, scipys)


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
def test_hessians(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    expected = fdiff.hessian(banana)(X)
    for form in FORMATS:
        result = fdiff.hessian(banana, sparse=form)(X)
        np.testing.assert_allclose(result.toarray(), expected, rtol=1e-14)
        assert abs(result - result.T).max() == 0
        lower = fdiff.hessian(banana, sparse=form, lower=True)(X)
        np.testing.assert_array_equal(lower.toarray(), np.tril(result.toarray()))
        assert lower.nnz == 9


def test_structural_entries_are_stored_though_they_are_zero():
    result = fdiff.jacobian(products, np.zeros(5), sparse=True)
    assert result.nnz == 8
    assert not result.data.any()


def test_results_in_structures():
    """A sparse array in each place of the nested dense result; blocks without entries have none."""
    point = {"a": np.array([1.0, 2.0]), "b": 3.0}
    f = lambda p, q: ({"u": p["a"] * p["b"]}, np.sum(q * q) * p["b"])
    result = fdiff.jacobian(f, argnums=(0, 1), sparse=True)(point, X)
    dense = fdiff.jacobian(f, argnums=(0, 1))(point, X)
    sizes = {"u": 2, "a": 2, "b": 1}
    for first, rows in ((result[0]["u"], 2), (result[1], 1)):
        expected = dense[0]["u"] if rows == 2 else dense[1]
        for k in ("a", "b"):
            np.testing.assert_array_equal(
                first[0][k].toarray(), np.reshape(expected[0][k], (rows, sizes[k]))
            )
        np.testing.assert_array_equal(first[1].toarray(), np.reshape(expected[1], (rows, 5)))
    assert result[0]["u"][1].nnz == 0
    (a, b), (c, d) = fdiff.hessian(lambda x, y: np.sum(x * y**2), (X, X), sparse=True)
    assert (a.nnz, b.nnz, c.nnz, d.nnz) == (0, 5, 5, 5)
    np.testing.assert_array_equal(b.toarray(), c.toarray().T)
    lower = fdiff.hessian(lambda x, y: np.sum(x * y**2), (X, X), sparse=True, lower=True)
    assert [block.nnz for row in lower for block in row] == [0, 0, 5, 5]


@pytest.mark.parametrize("lower", [False, True])
def test_hessians_of_several_outputs(lower):
    """In the structure of the outputs, then twice in that of the inputs; each exactly symmetric."""
    point = {"a": X[:3], "b": 0.5}

    def f(p, q):
        a, b = p["a"], p["b"]
        one = np.sum(a[1:] * a[:-1]) * b + q @ q * a[0]
        return {"u": one, "v": (np.sum(q**3), [b * b * q[0]]), "n": np.argmax(a)}

    dense = fdiff.hessian(f, argnums=(0, 1))(point, X)
    result = fdiff.hessian(f, argnums=(0, 1), sparse=True, lower=lower)(point, X)
    sizes, triangle = [3, 1, 5], np.tril if lower else np.asarray
    for own, expected in zip(
        (result["u"], result["v"][0], result["v"][1][0], result["n"]),
        (dense["u"], dense["v"][0], dense["v"][1][0], dense["n"]),
        strict=True,
    ):
        flat, blocks = fdiff.tree.flatten(own)[0], fdiff.tree.flatten(expected)[0]
        places = [(r, c) for r in range(3) for c in range(3)]
        for (r, c), mine, block in zip(places, flat, blocks, strict=True):
            whole = np.reshape(block, (sizes[r], sizes[c]))
            want = triangle(whole) if r == c else whole * (not lower or r > c)
            np.testing.assert_allclose(mine.toarray(), want, rtol=1e-13)
            if not lower:
                np.testing.assert_array_equal(mine.toarray(), flat[3 * c + r].toarray().T)
    one = fdiff.hessian(lambda x: (banana(x), x[0] * x[1]), sparse=True)
    assert [h.nnz for h in one(X)] == [13, 2]
    assert [len(v) for v in one.data(X)] == [13, 2]
    buffers = (np.empty(13), np.empty(2))
    assert one.data(X, out=buffers)[1] is buffers[1]


def test_small_and_empty():
    assert fdiff.jacobian(np.sin, 2.0, sparse=True).toarray() == [[np.cos(2.0)]]
    assert fdiff.hessian(np.sin, 2.0, sparse=True).toarray() == [[-np.sin(2.0)]]
    assert fdiff.jacobian(np.sin, np.zeros(0), sparse=True).shape == (0, 0)
    assert fdiff.jacobian(lambda x: np.ones(3), np.zeros(0), sparse="csc").shape == (3, 0)
    assert fdiff.jacobian(lambda x: np.ones(3), X, sparse=True).nnz == 0
    counts = fdiff.jacobian(lambda x: (x * 2, np.argsort(x)), X, sparse=True)
    assert (counts[0].nnz, counts[1].nnz, counts[1].shape) == (5, 0, (5, 5))


def test_float32():
    x = X.astype(np.float32)
    assert fdiff.jacobian(products, x, sparse=True).dtype == np.float32
    assert fdiff.hessian(banana, x, sparse=True).dtype == np.float32
    mixed = fdiff.jacobian(lambda x: x * np.ones(5), sparse=True)
    assert mixed.data(x).dtype == fdiff.jacobian(lambda x: x * np.ones(5))(x).dtype


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_complex_conventions(mode):
    z = X + 1j * X[::-1]
    cases = [
        (lambda z: z[1:] * z[:-1] + np.cumsum(z)[1:], "holomorphic", z),
        (lambda z: np.real(z[1:] * np.conj(z[:-1])), "conjugate", z),
        (lambda z: np.abs(np.fft.fft(z)) ** 2, "conjugate", z),
        (lambda x: np.exp(1j * x), "error", X),
        (lambda x: np.real(np.fft.ifft(np.fft.fft(x) * np.exp(1j * x[0]))), "error", X),
    ]
    for f, choice, point in cases:
        expected = fdiff.jacobian(f, complex_inputs=choice, mode=mode)(point)
        result = fdiff.jacobian(f, complex_inputs=choice, mode=mode, sparse=True)(point)
        assert result.dtype == expected.dtype
        np.testing.assert_allclose(result.toarray(), expected, atol=1e-13)
    with pytest.raises(DtypeError, match="without a choice of convention"):
        fdiff.jacobian(lambda z: z * z, z, sparse=True)


# --- values and shared indices -------------------------------------------------------------------


def test_data_is_the_callers_and_indices_are_shared():
    slopes = fdiff.jacobian(np.diff, sparse=True)
    first, second = slopes(X), slopes(X)
    first.data[:] = 7
    slopes.data(X)[:] = 8
    np.testing.assert_array_equal(second.toarray(), fdiff.jacobian(np.diff)(X))
    np.testing.assert_array_equal(slopes(X).data, second.data)
    assert first.indices is second.indices
    with pytest.raises(ValueError, match="read-only"):
        first.eliminate_zeros()
    copy = second.copy()
    copy.data[0] = 0
    copy.eliminate_zeros()
    assert (copy.nnz, second.nnz) == (7, 8)
    rows, _ = slopes.coordinates(X)
    rows[:] = 0
    assert slopes.coordinates(X)[0].any()


def test_values_into_buffers():
    slopes = fdiff.jacobian(products, sparse="csc")
    buffer = np.empty(8)
    for _ in range(4):
        assert slopes.data(X, out=buffer) is buffer
        np.testing.assert_array_equal(buffer, slopes(X).data)
    for wrong, kind in (
        (np.empty(7), InputError),
        (np.empty(8, np.float32), DtypeError),
        (np.empty((2, 4)), InputError),
        ([0.0] * 8, InputError),
    ):
        with pytest.raises(kind, match="out"):
            slopes.data(X, out=wrong)


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_buffers_are_contiguous(tier, monkeypatch):
    """Also where machine code fills them."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    slopes, memory = fdiff.jacobian(products, sparse=True), np.zeros(16)
    for _ in range(4):
        np.testing.assert_array_equal(slopes.data(X, out=memory[:8]), slopes(X).data)
        for strided in (memory[::2], memory[7::-1]):
            with pytest.raises(InputError, match=r"jacobian\(products\).*not contiguous"):
                slopes.data(X, out=strided)
    assert not memory[8:].any()
    several = fdiff.jacobian(lambda x: (products(x), x * x), sparse=True)
    with pytest.raises(InputError, match="not contiguous"):
        several.data(X, out=(memory[:8], memory[::3][:5]))
    own = fdiff.jacobian(lambda x, out: x * out, sparse=True)  # an argument of the function
    np.testing.assert_array_equal(own.data(X, out=np.arange(10.0)[::2]), np.arange(10.0)[::2])


# --- programs ----------------------------------------------------------------------------------


def brusselator(w):
    u, v = w.reshape(2, 6, 6)
    flow = lambda a: sum(np.roll(a, s, k) for s in (1, -1) for k in (0, 1)) - 4 * a
    return np.stack(
        [1 + u * u * v - 4.4 * u + 0.1 * flow(u), 3.4 * u - u * u * v + 0.1 * flow(v)]
    ).ravel()


def neo_hookean(u, triangles, slopes, area):
    """The energy of a mesh; volumes are averaged at nodes, and read by elements again."""
    f = np.eye(2) + np.einsum("eia,eib->eab", u.reshape(-1, 2)[triangles], slopes)
    j = f[:, 0, 0] * f[:, 1, 1] - f[:, 0, 1] * f[:, 1, 0]
    volume, weight = np.zeros(u.size // 2), np.zeros(u.size // 2)
    np.add.at(volume, triangles, (area * j)[:, None] * np.ones(3))
    np.add.at(weight, triangles, area[:, None] * np.ones(3))
    pressure = np.mean((volume / weight)[triangles], axis=1)
    return np.sum(area * (np.sum(f * f, axis=(1, 2)) - 2 * np.log(j) + (pressure - 1) ** 2))


def mesh(n):
    """A square of triangles: their nodes, slopes of their hat functions, and areas."""
    k = np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
    a, b, c, d = k[:-1, :-1].ravel(), k[1:, :-1].ravel(), k[1:, 1:].ravel(), k[:-1, 1:].ravel()
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    places = np.stack(np.divmod(np.arange((n + 1) ** 2), n + 1), -1) / n
    corner = places[triangles]
    sides = np.stack([corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]], -1)
    inverse = np.linalg.inv(sides)
    slopes = np.stack([-inverse[:, 0] - inverse[:, 1], inverse[:, 0], inverse[:, 1]], 1)
    return triangles, slopes, np.abs(np.linalg.det(sides)) / 2


def test_reactions_and_finite_elements():
    """Stencils with roll, and meshes that alternate: exactly the entries there are."""
    w = np.random.default_rng(0).uniform(0.5, 1.5, 72)
    result = fdiff.jacobian(brusselator, w, sparse=True)
    np.testing.assert_allclose(result.toarray(), fdiff.jacobian(brusselator)(w), atol=1e-14)
    assert result.nnz == 12 * 36
    second = fdiff.hessian(neo_hookean, sparse=True)
    for n in (2, 3, 2):
        u = 0.05 * np.random.default_rng(n).normal(size=2 * (n + 1) ** 2)
        expected = fdiff.hessian(neo_hookean)(u, *mesh(n))
        result = second(u, *mesh(n))
        np.testing.assert_allclose(result.toarray(), expected, atol=1e-12 * np.abs(expected).max())
        assert result.nnz < expected.size


# --- index arrays --------------------------------------------------------------------------------


def test_changed_indices_make_other_structures(sweeps):
    """Meshes that alternate are looked up; eight are kept; there is no trace but for lengths."""
    slopes = fdiff.jacobian(lambda x, i: x[i] ** 2, sparse=True)
    rng = np.random.default_rng(0)
    meshes = [rng.integers(0, 5, 6) for _ in range(9)]
    for i in meshes[:8] * 2:
        np.testing.assert_array_equal(slopes(X, i).toarray(), 2 * X[i][:, None] * np.eye(5)[i])
        np.testing.assert_array_equal(slopes.coordinates(X, i)[1], i)
    assert len(sweeps) == 8
    slopes(X, meshes[8])
    slopes(X, meshes[7])
    assert len(sweeps) == 9
    slopes(X, meshes[0])
    assert len(sweeps) == 10
    assert slopes(X, meshes[0][:3]).shape == (3, 5)
    assert [len(kept) for kept in slopes.program.variants.values()] == [1, 1]


@pytest.mark.parametrize("guarded", [False, True])
def test_kernels_compare_small_index_arrays(guarded, monkeypatch):
    """Calls in machine code are right when another mesh comes, or its entries change in place."""
    monkeypatch.setenv("FDIFF_TIER", "compile")
    f = (lambda x, i: x[i] ** 2 if x[0] > 0 else x[i] ** 3) if guarded else (lambda x, i: x[i] ** 2)
    slopes = fdiff.jacobian(f, sparse=True)
    first, second = np.array([0, 2, 2]), np.array([4, 1, 3])
    for k in range(400):
        i = first if k % 3 else second
        x = -X if guarded and k % 5 == 0 else X
        expected = 3 * x[i] ** 2 if x is not X else 2 * x[i]
        np.testing.assert_array_equal(slopes.data(x, i), expected)
        if k % 50 == 0:
            first[:] = (first + 1) % 5
            assert slopes(x, first).indices.tolist() == first.tolist()


def test_captured_indices():
    places = np.array([0, 1, 2])
    slopes = fdiff.jacobian(lambda x: x[places] ** 2, sparse=True)
    assert slopes(X).indices.tolist() == [0, 1, 2]
    places[:] = [4, 3, 0]
    assert slopes(X).indices.tolist() == [4, 3, 0]


def test_indices_computed_from_floats_that_do_not_move():
    slopes = fdiff.jacobian(lambda x, p: x[np.argsort(p)] ** 2, sparse=True)
    for p in (X, -X, X):
        assert slopes(X, p).indices.tolist() == np.argsort(p).tolist()
        np.testing.assert_array_equal(slopes.data(X, p), 2 * X[np.argsort(p)])


def test_structures_found_without_values_are_not_kept():
    """Inside a trace an index of floats is not there: the block is dense, for that trace alone."""
    slopes = fdiff.jacobian(lambda x, p: x[np.argsort(p)] ** 2, sparse=True)
    outer = fdiff.jit(lambda x, p: slopes(x, p) @ x)
    for p in (X, -X):
        np.testing.assert_array_equal(outer(X, p), 2 * X[np.argsort(p)] ** 2)
        assert slopes(X, p).nnz == 5


def test_indices_that_depend_on_what_is_differentiated():
    slopes = fdiff.jacobian(lambda x: x[np.argsort(x)] ** 2, sparse=True)
    for x in (X, -X):
        assert slopes(x).nnz == 25
        np.testing.assert_array_equal(
            slopes(x).toarray(), fdiff.jacobian(lambda x: np.sort(x) ** 2)(x)
        )


@pytest.mark.parametrize("tier", ["interpret", "compile"])
def test_captured_sparse_matrices(tier, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    matrix = sp.random_array((5, 5), density=0.4, rng=1, format="csr")
    slopes = fdiff.jacobian(lambda x: matrix @ np.tanh(x) + x * (matrix.T @ x**2), sparse=True)

    def expected(x):
        a = matrix.toarray()
        return a / np.cosh(x) ** 2 + np.diag(a.T @ x**2) + x[:, None] * a.T * 2 * x

    np.testing.assert_allclose(slopes(X).toarray(), expected(X), rtol=1e-13)
    assert ("compiled" in repr(slopes)) == (tier == "compile")
    matrix.data *= 3
    np.testing.assert_allclose(slopes(X).toarray(), expected(X), rtol=1e-13)
    matrix = sp.random_array((5, 5), density=0.6, rng=2, format="csr")
    np.testing.assert_allclose(slopes(X).toarray(), expected(X), rtol=1e-13)


def test_branches_have_structures_of_their_own():
    slopes = fdiff.jacobian(lambda x: x[1:] * x[0] if x[0] > 0 else x[1:] ** 2, sparse=True)
    assert [slopes(x).nnz for x in (X, -X, X, -X)] == [8, 4, 8, 4]
    assert len(slopes.data(-X)) == 4


def two_branches(x):
    if x[0] > 0:
        return x[:3] * x[1] if x[1] > 0 else np.array([x[2] * x[3], x[0], 1.0])
    return x[1:4] ** 2 + x[0]


@pytest.mark.parametrize("order", [1, 2])
def test_all_parts_tell_the_branch_that_is_taken(order):
    """In whatever order branches were met, and however often they alternated."""
    derivative = fdiff.jacobian if order == 1 else fdiff.hessian
    f = two_branches if order == 1 else lambda x: np.sum(two_branches(x) ** 2)
    sparse, dense = derivative(f, sparse=True), derivative(f)
    for x in np.random.default_rng(0).normal(size=(60, 4)):
        expected = dense(x)
        entries = np.zeros(expected.shape)
        entries[sparse.coordinates(x)] = sparse.data(x)
        np.testing.assert_allclose(entries, expected, rtol=1e-12)
        np.testing.assert_allclose(sparse(x).toarray(), expected, rtol=1e-12)
        assert not np.any(expected[~sparse.pattern(x).toarray()])


def upwind(x):
    """A loop whose branches depend on values."""
    out = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        if x[i] > 0:
            out[i] = x[i] * x[i + 1]
        else:
            out[i] = x[i] * x[i - 1]
    return out


@pytest.mark.parametrize(("f", "size"), [(two_branches, 4), (upwind, 16)])
def test_parts_agree_whatever_was_called_before(f, size):
    """Values have the places that `coordinates` tells, which was called less often."""
    sparse, dense = fdiff.jacobian(f, sparse=True), fdiff.jacobian(f)
    points = np.random.default_rng(1).normal(size=(20, size))
    for x in points:
        sparse.data(x)
    for x in points[:6]:
        entries = np.zeros(dense(x).shape)
        rows, columns = sparse.coordinates(x)
        assert len(rows) < entries.size / 2 or f is two_branches
        entries[rows, columns] = sparse.data(x)
        np.testing.assert_allclose(entries, dense(x), rtol=1e-12)


def test_a_branch_that_is_not_taken_refuses_nothing(monkeypatch):
    monkeypatch.setattr(sparse_tapes, "DENSE", 10)
    slopes = fdiff.jacobian(lambda x: x * x if x[0] > 0 else x[np.argsort(x)], sparse=True)
    for taken in (True, False, True, False, True, True, False, False, True):
        if taken:
            assert slopes(abs(X)).nnz == 5
        else:
            with pytest.raises(StructureError, match="has no known structure"):
                slopes(-abs(X))


def test_half_precision_has_values_alone():
    """SciPy would make an array that none of its functions takes."""
    x, slopes = np.ones(3, np.float16), fdiff.jacobian(np.square, sparse=True)
    assert slopes.data(x).dtype == np.float16
    assert slopes.pattern(x).nnz == 3
    with pytest.raises(DtypeError, match="no sparse arrays of float16"):
        slopes(x)


# --- beside other operators -----------------------------------------------------------------------


def test_inside_traced_functions():
    slopes = fdiff.jacobian(products, sparse="csc")
    np.testing.assert_array_equal(fdiff.jit(lambda x: slopes(x) @ x)(X), 2 * products(X))
    np.testing.assert_array_equal(
        fdiff.grad(lambda x: np.sum(slopes(x) @ x))(X),
        fdiff.grad(lambda x: 2 * np.sum(products(x)))(X),
    )
    for _ in range(2):
        compiled = fdiff.jit(slopes)(X)
        assert type(compiled) is sp.csc_array
        np.testing.assert_array_equal(compiled.toarray(), slopes(X).toarray())
    gathered = fdiff.jacobian(lambda x, i: x[i] ** 2, sparse=True)
    for i in (np.array([0, 2]), np.array([1, 1])):
        np.testing.assert_array_equal(
            fdiff.jit(lambda x, i: gathered(x, i) @ x)(X, i), 2 * X[i] ** 2
        )


def test_other_forms_of_calls():
    """Keyword arguments, functions that branch at each call, lists of numbers, several argnums."""
    f = lambda x, *, power=2: x[1:] ** power * x[:-1]
    slopes = fdiff.jacobian(f, sparse=True)
    for power in (2, 3):
        expected = fdiff.jacobian(f)(X, power=power)
        np.testing.assert_array_equal(slopes(X, power=power).toarray(), expected)
        np.testing.assert_array_equal(slopes.data(X, power=power), expected[expected != 0])
    np.testing.assert_array_equal(slopes([1.0, 2.0]).toarray(), [[4.0, 4.0]])

    def branching(x):
        return np.array([v * x[0] if v > 0 else v**2 + x[-1] for v in x])

    slopes = fdiff.jacobian(branching, sparse=True)
    for seed in range(12):
        x = np.random.default_rng(seed).normal(size=6)
        np.testing.assert_array_equal(slopes(x).toarray(), fdiff.jacobian(branching)(x))


@pytest.mark.skipif(not LONG, reason="takes seconds and gigabytes")
def test_a_million_variables():
    """The structure of a chain takes less than 0.8 GB, and ends within 0.2 s of Ctrl-C."""
    program = """if True:
        import numpy as np, fdiff, resource, signal, time
        f = lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2) + np.sum((x[2:] - x[:-2]) ** 4)
        fdiff.hessian(f, sparse=True)(np.ones(10))
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        h = fdiff.hessian(f, sparse=True)
        begin = time.process_time()
        try:
            h.pattern(np.ones(1_000_000))
        except KeyboardInterrupt:
            print(time.process_time() - begin)
        assert h.pattern(np.ones(1_000_000)).nnz == 4_999_994
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *seconds, kilobytes = done.stdout.split()
    assert float(kilobytes) < 1.0e6
    assert all(float(s) < 1.0 for s in seconds)


def test_batches_have_values_alone():
    slopes = fdiff.jacobian(products, sparse=True)
    batch = np.stack([X, -X, 2 * X])
    np.testing.assert_array_equal(fdiff.vmap(slopes.data)(batch), [slopes.data(x) for x in batch])
    with pytest.raises(InputError, match=r"fdiff\.vmap\(J\.data\)"):
        fdiff.vmap(slopes)(batch)


def test_recorded_arrays():
    slopes = fdiff.jacobian(products, sparse=True)
    x = fdiff.autograd.tensor(X, requires_grad=True)
    with pytest.raises(InputError, match=r"x\.detach\(\)"):
        slopes(x)
    with pytest.raises(InputError, match=r"x\.detach\(\)"):
        fdiff.jacobian(products, x, sparse=True)
    values = slopes.data(x)
    (values**2).sum().backward()
    np.testing.assert_array_equal(
        np.asarray(x.grad), fdiff.grad(lambda x: np.sum(slopes.data(x) ** 2))(X)
    )


def test_pickles_compiled_kernels_and_signatures():
    slopes = fdiff.jacobian(products, sparse="csc")
    for result in (slopes, slopes.data, slopes.pattern, slopes.coordinates):
        again = pickle.loads(pickle.dumps(result))
        assert repr(again(X)) == repr(result(X))
    assert slopes.data is slopes.data
    assert "compiled" in repr(slopes.data.compile("f8[1000]"))
    assert str(slopes.__signature__).startswith("(x)")


@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning")  # of JAX, which other tests import
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of Python, where threads run
def test_threads_and_forks():
    slopes = fdiff.jacobian(lambda x: np.sin(x[1:]) * x[:-1], sparse=True)
    expected = fdiff.jacobian(lambda x: np.sin(x[1:]) * x[:-1])(X)
    result = []
    workers = [
        threading.Thread(target=lambda: result.append(slopes(X).toarray())) for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(result) == 8
    for one in result:
        np.testing.assert_allclose(one, expected, rtol=1e-15)
    if hasattr(os, "fork"):
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writing, slopes.data(X).tobytes())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert os.read(reading, 1000) == slopes.data(X).tobytes()
        os.close(reading)
        os.close(writing)


def test_an_interrupted_structure_leaves_nothing(monkeypatch):
    slopes = fdiff.jacobian(lambda x: np.cos(x[1:]) * x[:-1], sparse=True)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sparse_tapes, "places_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            slopes(X)
    np.testing.assert_allclose(
        slopes(X).toarray(), fdiff.jacobian(lambda x: np.cos(x[1:]) * x[:-1])(X)
    )


# --- refusals ----------------------------------------------------------------------------------


BESIDE = "for dense results"
sparse = partial(fdiff.jacobian, sparse=True)
REFUSED = [
    (lambda: fdiff.jacobian(products, sparse="bsr"), InputError, "or 'coo', not 'bsr'"),
    (lambda: fdiff.jacobian(products, X, sparse=1), InputError, "sparse must be"),
    (lambda: sparse(products, chunk_size=2), InputError, f"chunk_size=2 is {BESIDE}"),
    (lambda: sparse(banana, create_graph=True), InputError, f"create_graph=True is {BESIDE}"),
    (lambda: fdiff.hessian(banana, lower=True), InputError, "lower=True is for sparse Hessians"),
    (lambda: fdiff.hessian(banana, sparse=True, lower=""), InputError, "lower must be True or"),
    (
        lambda: fdiff.hessian(products, X, sparse=True),
        InputError,
        r"outputs of one element, not of shape \(4,\)",
    ),
    (lambda: sparse(products)(X > 0), DtypeError, "not bool"),
    (lambda: sparse(products)(X, out=X), InputError, r"\.data\(x, out="),
    (lambda: sparse(np.ones_like, X, strict=True), StrictError, "independent"),
    (lambda: fdiff.jacobian(products).pattern, AttributeError, r"\(products\).*sparse=True"),
    (lambda: fdiff.hessian(banana).data, AttributeError, "sparse=True"),
    (lambda: fdiff.grad(banana).data, AttributeError, "no attribute 'data'$"),
    (lambda: sparse(products).data.pattern, AttributeError, "'pattern'$"),
]


@pytest.mark.parametrize(("ask", "kind", "words"), REFUSED)
def test_refusals(ask, kind, words):
    with pytest.raises(kind, match=words):
        ask()


# --- solvers of SciPy take the prepared functions ---------------------------------------------


def reaction(t, y):
    return np.concatenate([[0.0], y[2:] - 2 * y[1:-1] + y[:-2], [0.0]]) - y**3


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_implicit_integrators(method):
    y = np.linspace(0, 1, 20)
    slopes = fdiff.jacobian(reaction, argnums=1, sparse="csc")
    result = scipy.integrate.solve_ivp(
        reaction, (0, 1), y, method=method, jac=slopes, rtol=1e-8, atol=1e-8
    )
    dense = scipy.integrate.solve_ivp(reaction, (0, 1), y, method="DOP853", rtol=1e-10, atol=1e-10)
    assert result.success
    np.testing.assert_allclose(result.y[:, -1], dense.y[:, -1], atol=1e-6)


def test_optimisers():
    """Least squares, constraints with the Hessian of a Lagrangian, and a Newton method."""

    def residuals(x):
        return np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])

    start = np.full(6, 0.5)
    result = scipy.optimize.least_squares(
        residuals, start, jac=fdiff.jacobian(residuals, sparse=True)
    )
    np.testing.assert_allclose(result.x, 1, atol=1e-6)
    curved = lambda x: x[1:] ** 2 + x[:-1]
    second = fdiff.hessian(lambda x, v: v @ curved(x), sparse=True)
    limits = scipy.optimize.NonlinearConstraint(
        curved,
        -np.inf,
        1.5,
        jac=fdiff.jacobian(curved, sparse=True),
        hess=lambda x, v: second(x, v),
    )
    result = scipy.optimize.minimize(
        banana, start, jac=fdiff.grad(banana), hess=fdiff.hessian(banana, sparse=True),
        method="trust-constr", constraints=[limits],
    )  # fmt: skip
    assert result.success
    assert np.all(curved(result.x) <= 1.5 + 1e-6)
    result = scipy.optimize.minimize(
        banana,
        start,
        jac=fdiff.grad(banana),
        hess=fdiff.hessian(banana, sparse=True),
        method="Newton-CG",
    )
    np.testing.assert_allclose(result.x, 1, atol=1e-4)


def test_explained(monkeypatch, capsys):
    """Reports tell mode, terms, cuts with their lines, products, entries and price."""
    places = np.array([0, 2, 2, 1])

    def f(x):
        y = np.zeros(4)
        np.add.at(y, places, x[:4] ** 2)
        return y[places] * x[1:5]

    slopes = fdiff.jacobian(f, sparse=True)
    monkeypatch.setenv("FDIFF_DUMP", "tapes")
    for told in (str(fdiff.explain(slopes.data, X)), capsys.readouterr().err):
        assert "forward mode, 10 terms, 1 cuts: 9 entries of 10 listed, 6 products; price" in told
        assert "np.add.at(y, places, x[:4] ** 2)" in told


def test_rules_of_users_and_one_mode_alone():
    """Structure comes from the rule; an op that has a rule for one mode is met by that mode."""

    @fdiff.custom_jvp
    def halves(x):
        return np.sin(x[::2])

    halves.defjvp(lambda p, d: (halves(*p), d[0][::2] * np.cos(p[0][::2])))
    result = fdiff.jacobian(lambda x: halves(x) * x[0], X, sparse=True)
    np.testing.assert_allclose(result.toarray(), fdiff.jacobian(lambda x: np.sin(x[::2]) * x[0], X))
    assert result.nnz == 5

    def shifted(x):
        return np.append(x[1:], 0.0)

    shift = fdiff.primitive(shifted, like=0, jvp=lambda dots, out, x: shift(dots[0]))
    result = fdiff.jacobian(lambda x: shift(x) * x, X, sparse=True)
    np.testing.assert_allclose(result.toarray(), fdiff.jacobian(lambda x: shifted(x) * x, X))


@pytest.mark.parametrize("part", ["coordinates", "pattern", "data", None])
@pytest.mark.parametrize("operator", [fdiff.jacobian, fdiff.hessian])
def test_places_are_those_of_the_branch_and_of_the_indices(operator, part):
    """At every call, also after many of one kind."""

    def model(x, order):
        y = x[order]
        return y[0] * y[1] if x[0] > 0 else y[1] * y[2] + y[0] ** 2

    def answer(derivative, *args):
        result = (derivative if part is None else getattr(derivative, part))(*args)
        if part in ("coordinates", "data"):
            return np.atleast_2d(result)
        return np.vstack([result.nonzero(), result.data])

    prepared = operator(model, sparse=True)
    rng = np.random.default_rng(3)
    for k in range(60):
        x = rng.uniform(0.5, 2.0, 3)
        x[0] *= 1.0 if k < 20 or k % 3 else -1.0
        order = np.arange(3) if k < 30 else rng.permutation(3)
        anew = operator(model, sparse=True)  # knows nothing of earlier calls
        np.testing.assert_array_equal(answer(prepared, x, order), answer(anew, x, order), str(k))
