"""scipy.sparse: constants times traced arrays, matrices built of traced entries, solves."""

import re
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from calculus import check_calculus
from scipy.sparse.linalg import spsolve

import fdiff
from fdiff.errors import UnsupportedError

pytestmark = pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")

RNG = np.random.default_rng(0)
A = sp.random(4, 5, 0.5, format="csr", random_state=1)
Aa = sp.csr_array(A)
Q = sp.csc_matrix(np.eye(5) * 4 + sp.random(5, 5, 0.5, random_state=3).toarray())
i = np.array([0, 1, 2, 2, 3, 4, 0, 0])
j = np.array([0, 1, 2, 0, 3, 4, 4, 4])  # the last two share a place
d = RNG.normal(size=8) + 4
x, y = RNG.normal(size=5), RNG.normal(size=4)
X, Y = RNG.normal(size=(5, 3)), RNG.normal(size=(4, 2))


class Model:
    def __init__(self):
        self.A = sp.csr_matrix(A)

    def __call__(self, x):
        return self.A @ (x**2)


CASES = {
    "A@x": (lambda x: A @ x**2, x),
    "Aa@x": (lambda x: Aa @ x**2, x),
    "A*x": (lambda x: A * x**2, x),
    "Adot": (lambda x: A.dot(x**2), x),
    "A@X": (lambda X: A @ X**2, X),
    "y@A": (lambda y: y**2 @ A, y),
    "y@Aa": (lambda y: y**2 @ Aa, y),
    "Y.T@A": (lambda Y: (Y**2).T @ Aa, Y),
    "A.T@y": (lambda y: A.T @ y**2, y),
    "coo": (lambda x: A.tocoo() @ x**2, x),
    "csc": (lambda x: A.tocsc() @ x**2, x),
    "dia": (lambda x: sp.eye(5) @ x**2, x),
    "attr": (Model(), x),
    "s*A": (lambda x: (x[0] ** 2 * A) @ x, x),
    "A*s": (lambda x: (A * x[0]) @ x**2, x),
    "A/s": (lambda x: (A / x[0]) @ x**2, x),
    "A+dense": (lambda X: (sp.csr_array(Q) + X @ X.T) @ X, X),
    "mult": (lambda x: A.multiply(x**2).toarray(), x),
    "mulArr": (lambda x: (Aa * x**2).toarray(), x),
    "spsolve": (lambda x: spsolve(Q, x**2), x),
    "spsolveX": (lambda X: spsolve(Q, X**2), X),
    "csr(d)": (lambda d, x: sp.csr_matrix((d, (i, j)), shape=(5, 5)) @ x**2, d, x),
    "csr(d)T": (lambda d, x: sp.csr_matrix((d, (i, j)), shape=(5, 5)).T @ x**2, d, x),
    "csc solve": (lambda d, x: spsolve(sp.csc_matrix((d**2, (i, j)), shape=(5, 5)), x), d, x),
    "csr solve": (
        lambda d, x: spl.spsolve(sp.csr_array((d**2, (i, j)), shape=(5, 5)).T, x**2),
        d,
        x,
    ),
    "solveX": (lambda d, X: spl.spsolve(sp.csr_array((d**2, (i, j)), shape=(5, 5)), X**2), d, X),
    "indptr": (
        lambda d: (
            sp.csr_array(
                (d[:5] ** 2, np.array([0, 1, 2, 3, 4]), np.array([0, 1, 2, 4, 5])), shape=(4, 5)
            )
            @ x
        ),
        d,
    ),
    "diags": (
        lambda x: spsolve(sp.diags([x**2 + 4, x[:-1], x[1:] ** 2], [0, 1, -1], format="csc"), x),
        x,
    ),
    "sum": (lambda d: sp.coo_array((d**2, (i, j)), shape=(5, 5)).sum(axis=0), d),
    "toarray": (lambda d: sp.coo_matrix((d**2, (i, j))).toarray(), d),
    "add": (lambda d: (sp.csr_array((d**2, (i, j)), shape=(5, 5)) + Q).toarray(), d),
    "sub": (lambda d: (Q - sp.csr_array((d**2, (i, j)), shape=(5, 5))).toarray(), d),
    "data": (lambda d: sp.csc_matrix((d**2, (i, j)), shape=(5, 5)).data, d),
    "diag": (lambda d: sp.csc_matrix((d**2, (i, j)), shape=(5, 5)).diagonal(), d),
    "neg": (lambda d: (-sp.csc_matrix((d**2, (i, j)), shape=(5, 5))).toarray(), d),
    "isinst": (
        lambda d: (
            sp.csc_matrix((d**2, (i, j)), shape=(5, 5)).tocsr() @ x
            if isinstance(sp.csc_matrix((d, (i, j))), sp.csc_matrix)
            and sp.issparse(sp.csc_matrix((d, (i, j))))
            else d
        ),
        d,
    ),
    "splu": (lambda x: spl.splu(Q).solve(x**2), x),
    "splu, transposed": (lambda x: spl.splu(Q).solve(x**2, "T"), x),
    "factorized": (lambda x: spl.factorized(Q)(x**2), x),
    "splu of traced": (lambda d, x: spl.splu(sp.csc_matrix((d**2, (i, j)))).solve(x), d, x),
    "rsub": (lambda d: (sp.csr_array((d, (i, j))) - Q).T.toarray(), d),
    "scaled": (lambda d: (2.0 * sp.csr_array((d**2, (i, j))) / d[0]) @ x, d),
    "stored first": (lambda x: A @ stored(x), x),
    "inner product": (lambda x: x @ (Q @ x), x),
    "row": (lambda X: X.T @ Q @ X, X),
}


def stored(x):
    out = np.zeros(5)
    out[:] = x**2
    return out


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives_to_second_order(name):
    f, *xs = CASES[name]
    check_calculus(f, *xs)


def test_jacobians_and_batches_are_the_matrix():
    np.testing.assert_allclose(fdiff.jacobian(lambda x: A @ x, x), A.toarray())
    np.testing.assert_allclose(
        fdiff.jacobian(lambda x: spsolve(Q, x), x), np.linalg.inv(Q.toarray()), rtol=1e-13
    )
    rows = fdiff.vmap(lambda x: A @ x)(X.T)
    np.testing.assert_allclose(rows, (A @ X).T)


def test_a_changed_matrix_is_seen():
    matrix = sp.csr_matrix(np.diag([1.0, 2.0]))
    gradient = fdiff.grad(lambda x: np.sum(matrix @ x))
    np.testing.assert_array_equal(gradient(np.ones(2)), [1.0, 2.0])
    matrix.data[:] = 5.0
    np.testing.assert_array_equal(gradient(np.ones(2)), [5.0, 5.0])


def test_changed_entries_are_seen_without_a_new_trace():
    entries = np.array([1.0, 2.0])
    places = np.array([0, 1])
    gradient = fdiff.grad(lambda x: np.sum(sp.csr_matrix((entries, (places, places))) @ x))
    np.testing.assert_array_equal(gradient(np.ones(2)), [1.0, 2.0])
    entries[:] = 5.0
    np.testing.assert_array_equal(gradient(np.ones(2)), [5.0, 5.0])


@pytest.mark.filterwarnings("error::fdiff.errors.RetraceWarning")
def test_a_captured_matrix_is_compared_by_its_content():
    matrix = A.copy()
    slope = fdiff.grad(lambda x: np.sum(matrix @ x))
    for _ in range(2):
        np.testing.assert_allclose(slope(x), A.toarray().sum(0))
    matrix.data *= 2.0
    np.testing.assert_allclose(slope(x), 2.0 * A.toarray().sum(0))


def test_plain_code_finds_scipy_as_it_was():
    fdiff.grad(lambda x: np.sum(A @ x))(x)
    np.testing.assert_allclose(A @ x, A.toarray() @ x, rtol=1e-14)
    assert isinstance(A @ A.T, sp.csr_matrix)
    assert type(A * 2) is sp.csr_matrix
    assert sp.csr_matrix((d, (i, j))).shape == (5, 5)


def test_single_precision_stays_single():
    narrow = sp.csr_array(A.astype(np.float32))
    assert fdiff.jacobian(lambda x: narrow @ x, x.astype(np.float32)).dtype == np.float32
    single = x.astype(np.float32)
    assert fdiff.jvp(lambda x: A @ x, single, single)[0].dtype == np.float64


ERRORS = {
    "`power` with an exponent": lambda x: np.sum(sp.diags(x).power(-1) @ x),
    "numpy.matrix": lambda x: np.sum(Q + np.outer(x, x)),
    r"scipy\.sparse\.kronsum": lambda x: np.sum(sp.kronsum(sp.diags(x), Q) @ np.ones(25)),
    r"scipy\.sparse\.linalg\.qmr": lambda x: np.sum(spl.qmr(Q, x)[0]),
    "sparse right-hand side": lambda x: np.sum(spsolve(Q, sp.csc_matrix((x, (i[:5], j[:5]))))),
}


@pytest.mark.parametrize("words", ERRORS)
def test_what_has_no_rule_is_named(words):
    with pytest.raises(UnsupportedError) as caught:
        fdiff.grad(ERRORS[words])(x)
    assert re.search(words, str(caught.value).partition("\n")[0])  # the line of code has the words


def test_a_traced_entry_is_not_lost_in_a_matrix_of_scipy():
    def f(x):
        matrix = sp.lil_matrix((5, 5))
        matrix[0, 0] = x[0]
        return np.sum(matrix @ x)

    with pytest.raises(UnsupportedError, match="__setitem__ has no derivative rule"):
        fdiff.grad(f)(x)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="dimension mismatch"):
        fdiff.grad(lambda y: np.sum(A @ y))(y)
    with pytest.raises(ValueError, match="must be square"):
        fdiff.grad(lambda y: np.sum(spsolve(A, y)))(y)
    with pytest.raises(ValueError, match="exceeds matrix dimension"):
        fdiff.grad(lambda d: np.sum(sp.csr_matrix((d, (i, j)), shape=(3, 3)) @ np.ones(3)))(d)
    with pytest.raises(ValueError, match="inconsistent shapes"):
        fdiff.grad(lambda d: np.sum((sp.csr_matrix((d, (i, j))) + A).data))(d)


def test_the_table_is_imported_with_the_first_trace_after_scipy_sparse():
    code = (
        "import sys, fdiff, numpy as np\n"
        "fdiff.grad(lambda x: np.sin(x))(1.0)\n"
        "table = 'fdiff.ops.scipy_ops.sparse.sparse_functions'\n"
        "print(table in sys.modules, 'scipy' in sys.modules)\n"
        "import scipy.sparse as sp\n"
        "class M: A = sp.eye(2, format='csr')\n"
        "m = M()\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "print(*fdiff.grad(lambda x: np.sum(m.A @ x))(np.ones(2)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "1.0", "1.0"]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("columns", [None, 0, 3])
def test_products_with_captured_matrices_are_compiled(transposed, columns, monkeypatch):
    """A kernel gives what SciPy gives, and so do kernels of its derivatives; rows may be empty."""
    monkeypatch.setenv("FDIFF_TIER", "compile")
    matrix = sp.random_array((7, 5), density=0.3, rng=3, format="csr")
    whole = matrix.T if transposed else matrix
    x = np.linspace(-1.0, 2.0, whole.shape[1])
    x = x if columns is None else np.multiply.outer(x, np.arange(1.0, 1 + columns))
    product = fdiff.jit(lambda x: whole @ x)
    np.testing.assert_allclose(product(x), whole @ x, rtol=1e-14, atol=1e-15)
    assert "compiled" in repr(product)
    slope = fdiff.grad(lambda x: np.sum((whole @ x) ** 2))
    np.testing.assert_allclose(slope(x), 2 * whole.T @ (whole @ x), rtol=1e-13, atol=1e-14)
    assert "compiled" in repr(slope)
