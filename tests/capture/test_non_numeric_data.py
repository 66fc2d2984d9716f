"""Ordinary data in functions: tables, sparse matrices, structured arrays; Numba's other decorators.

Data is compared by its content: no warning, no new trace while it stays what it is, and a change is
seen, of any kind and from anywhere.
"""

import copy
import operator
import warnings

import numba
import numpy as np
import pytest
import scipy.sparse as sp

import fdiff
from fdiff.dispatch.tiers import tiered_execution
from fdiff.errors import InputError, RetraceWarning, TraceError

X = np.array([0.5, 1.0, 2.0])
RECORDS = np.array([(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)], dtype=[("a", float), ("b", float)])

# --- data that is compared -----------------------------------------------------------------------


def texts():
    return (
        np.array(["a", "b"]),
        lambda d: 2.0 if d[0] == "a" else 3.0,
        lambda d: d.__setitem__(0, "b"),
    )


def dates():
    days = np.array(["2020-01-01", "2020-01-03"], dtype="M8[D]")
    change = lambda d: d.__setitem__(1, np.datetime64("2020-01-05"))
    return days, lambda d: float((d[1] - d[0]) / np.timedelta64(1, "D")), change


def records():
    return RECORDS.copy(), lambda d: d["a"], lambda d: d["a"].__setitem__(1, 7.0)


def record_array():
    return RECORDS.copy().view(np.recarray), lambda d: d.b, lambda d: d.b.__setitem__(2, 7.0)


def masked():
    data = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    return data, lambda d: d.filled(0.0), lambda d: d.__setitem__(0, np.ma.masked)


def sparse(kind):
    def make():
        matrix = getattr(sp, kind)(np.array([[1.0, 2, 0], [0, 3, 0], [4, 0, 5]]))
        return matrix, lambda d: d @ np.ones(3), lambda d: d.data.__setitem__(0, 9.0)

    return make


def table(change):
    def make():
        import pandas as pd

        frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "k": [1, 2, 3], "name": ["x", "y", "z"]})
        use = lambda d: d["a"].to_numpy() * d["k"].to_numpy() * (d["name"] == "y").sum()
        return frame, use, change

    return make


def series():
    import pandas as pd

    values = operator.attrgetter("values")
    return pd.Series([1.0, 2.0, 3.0]), values, lambda d: d.__setitem__(1, 7.0)


def labels(frame):
    frame.index = [3, 4, 5]
    frame.loc[4, "a"] = 9.0


SPARSE = ("csr_matrix", "csc_array", "coo_array", "dia_array", "bsr_array")
DATA = {
    "texts": texts, "dates": dates, "records": records, "recarray": record_array, "masked": masked,
    **{kind: sparse(kind) for kind in SPARSE},
    "value of a frame": table(lambda d: d.loc.__setitem__((1, "a"), 7.0)),
    "column of a frame": table(lambda d: d.__setitem__("a", [4.0, 5.0, 6.0])),
    "text in a frame": table(lambda d: d.loc.__setitem__((0, "name"), "y")),
    "labels of a frame": table(labels), "series": series,
}  # fmt: skip
CALLS = {
    "jit": lambda f: fdiff.jit(f),
    "grad": lambda f: fdiff.grad(f),
    "jacobian": lambda f: fdiff.jacobian(f),
    "hvp": lambda f: lambda x: fdiff.hvp(f)(x, x),
    "vmap": lambda f: lambda x: fdiff.vmap(f)(np.stack([x, 2 * x])),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("name", DATA)
def test_data_is_compared_by_content(name, call):
    data, use, change = DATA[name]()
    of = lambda data: lambda x: np.sum(use(data) * x**2)
    derivative = CALLS[call](of(data))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        before = derivative(X)
        np.testing.assert_array_equal(derivative(X), before)
    change(data)
    after = derivative(X)
    np.testing.assert_array_equal(after, CALLS[call](of(copy.deepcopy(data)))(X))
    assert not np.array_equal(before, after)


def traces(g, *args):
    """How often the function is traced in one call more."""
    seen = []
    original = fdiff.dispatch.program.trace_checking_memos
    fdiff.dispatch.program.trace_checking_memos = lambda *a, **k: (
        seen.append(1),
        original(*a, **k),
    )[1]
    try:
        g(*args)
    finally:
        fdiff.dispatch.program.trace_checking_memos = original
    return len(seen)


@pytest.mark.parametrize("name", DATA)
def test_what_stays_as_it_is_is_not_traced_again(name):
    fdiff.dispatch.program.forget_programs()  # equal data of another test
    data, use, change = DATA[name]()
    g = fdiff.grad(lambda x: np.sum(use(data) * x**2))
    assert traces(g, X) == 1
    assert traces(g, X) == traces(g, X) == 0
    change(data)
    assert traces(g, X) == 1
    if name not in {"recarray", "masked"}:  # which are refused as arguments
        h = fdiff.grad(lambda x, d: np.sum(use(d) * x**2))
        assert traces(h, X, data) == 1
        assert traces(h, X, data) == traces(h, X, copy.deepcopy(data)) == 0


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("name", [name for name in DATA if name != "masked"])  # no result
def test_data_that_is_a_result_is_that_of_the_call(name):
    """The result was what an earlier call with equal data had, which its owner may have changed."""
    passed = fdiff.jit(lambda x, data: (np.sin(x), data))
    captured = fdiff.value_and_grad(lambda x: (np.sum(np.sin(x)), own), has_aux=True)
    fresh = fdiff.jit(lambda x: (np.sin(x), DATA[name]()[0]))
    for _ in range(3):
        own, use, change = DATA[name]()
        result = fresh(X)[1]
        np.testing.assert_array_equal(use(result), use(own))
        assert captured(X)[0][1] is own
        assert name == "recarray" or passed(X, own)[1] is own  # which is no argument
        change(own)
        change(result)


def test_data_that_cannot_be_compared_says_so():
    lil = sp.lil_matrix(np.eye(3))
    with pytest.warns(RetraceWarning, match="attributes of the lil_matrix object"):
        fdiff.grad(lambda x: np.sum(lil.toarray() @ x))(X)


# --- pandas --------------------------------------------------------------------------------------


def test_tables_in_arithmetic_say_what_to_write():
    import pandas as pd

    column, frame = pd.Series(X), pd.DataFrame({"a": X, "b": X})
    meetings = [
        lambda x: np.sum(column * x), lambda x: np.sum(x - column), lambda x: np.sum(x @ frame),
        lambda x: np.sum(np.add(x, column)), lambda x: np.sum(np.add(column, x)),
        lambda x: np.sum(frame.T * x), lambda x: np.sum(frame["a"] < x),
        lambda x: np.sum(column.index * x),
    ]  # fmt: skip
    for f in meetings:
        with pytest.raises(
            TraceError,
            match=r"a pandas \w+ met a traced array.*\n.*test_non_numeric.*\n.*to_numpy\(\)",
        ):
            fdiff.grad(f)(X)
    for f in (
        lambda x: np.dot(x, column),
        lambda x: np.sum(np.asarray(column) * x),
        lambda x: np.sum(frame.to_numpy().T @ x) / 2,
        lambda x: np.sum(x * np.where(frame["a"] > 0, column, 0.0)),
    ):
        np.testing.assert_allclose(fdiff.grad(f)(X), X)


def test_tables_as_arguments():
    import pandas as pd

    column, frame = pd.Series(X), pd.DataFrame({"a": X})
    f = lambda x, d: np.sum(x**2 * d["a"].to_numpy())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RetraceWarning)
        np.testing.assert_allclose(fdiff.grad(f)(X, frame), 2 * X**2)
        np.testing.assert_allclose(fdiff.grad(f)(X, frame * 2), 4 * X**2)
        np.testing.assert_allclose(
            fdiff.vmap(f, in_axes=(0, None))(np.stack([X, X]), frame), [9.125] * 2
        )
    for call in (
        fdiff.grad(np.sum),
        lambda d: fdiff.jacobian(np.sin, d),
        lambda d: fdiff.hessian(np.sum, d),
    ):
        for d in (column, frame):
            with pytest.raises(InputError, match=r"to_numpy\(\)"):
                call(d)


def test_what_is_stored_in_a_table():
    import pandas as pd

    frame = pd.DataFrame({"a": X})

    def f(x):
        frame["b"] = x * 2
        return np.sum(x**2)

    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RetraceWarning)
            np.testing.assert_allclose(fdiff.grad(f)(X), 2 * X)
        assert frame["b"].dtype == float
        assert frame["b"].tolist() == (2 * X).tolist()


def test_random_rows_are_drawn_at_each_call():
    import pandas as pd

    frame = pd.DataFrame({"a": np.arange(1000.0)})
    f = lambda x: x[0] * frame.sample(1)["a"].to_numpy()[0]
    g = fdiff.grad(f)
    with pytest.warns(RetraceWarning, match="sample"):
        drawn = {g(X)[0] for _ in range(8)}
    assert len(drawn) > 1


# --- random generators ---------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize("call", [c for c in CALLS if c != "vmap"])
def test_generators_go_on_as_in_plain_code(call):
    class Noisy:
        def __init__(self):
            self.rng = np.random.default_rng(3)

        def f(self, x):
            return np.sum(x * self.rng.normal(size=3))

    noisy, plain = Noisy(), Noisy()
    derivative = CALLS[call](noisy.f)
    for _ in range(3):
        found = derivative(X)
        draw = plain.rng.normal(size=3)
        wanted = {"jit": np.sum(X * draw), "hvp": np.zeros(3)}.get(call, draw)
        np.testing.assert_allclose(found, wanted)


# --- Numba's decorators --------------------------------------------------------------------------


@numba.vectorize
def product(a, b):
    return a * b + a**2


@numba.vectorize(["float64(float64,float64)"])
def bent(a, b):
    return a * b + a**2 if a > 0.7 else b - a


@numba.vectorize(["float32(float32)", "float64(float64)"])
def wave(a):
    return np.sin(a)


@numba.guvectorize(["void(float64[:],float64[:],float64[:])"], "(n),(n)->()")
def inner(a, b, out):
    out[0] = 0.0
    for i in range(a.shape[0]):
        out[0] += a[i] * b[i]


@numba.guvectorize(["void(float64[:],float64,float64[:],float64[:])"], "(n),()->(n),()")
def scaled(a, k, out, top):
    for i in range(a.shape[0]):
        out[i] = a[i] * k
    top[0] = k**3


@numba.guvectorize("(n),()->(n)")
def dynamic(a, k, out):
    for i in range(a.shape[0]):
        out[i] = a[i] * k


def filled(x):
    out = np.zeros((3, 3))
    dynamic(np.outer(x, x), x, out)
    return out


SCALED = {
    "product": (lambda x: product(x, 2.0), lambda x: x * 2.0 + x**2),
    "broadcast": (lambda x: product(x, np.outer(x, x)), lambda x: x * np.outer(x, x) + x**2),
    "scalar": (lambda x: product(x[0], x[1]), lambda x: x[0] * x[1] + x[0] ** 2),
    "branches": (lambda x: bent(x, x), lambda x: np.where(x > 0.7, x * x + x**2, 0.0)),
    "integers": (
        lambda x: bent(x, [1, 2, 3]),
        lambda x: np.where(x > 0.7, x * [1, 2, 3] + x**2, [1, 2, 3] - x),
    ),
    "single": (lambda x: wave(x.astype(np.float32)), lambda x: np.sin(x.astype(np.float32))),
    "out=": (lambda x: product(x, x, np.zeros(3)), lambda x: 2 * x**2),
    "inner": (lambda x: inner(x, x), lambda x: x @ x),
    "rows": (lambda x: inner(np.outer(x, x), x), lambda x: np.outer(x, x) @ x),
    "two results": (lambda x: np.add(*scaled(x, x[1])), lambda x: x * x[1] + x[1] ** 3),
    "loops": (lambda x: scaled(x, np.outer(x, x))[0], lambda x: x * np.outer(x, x)[..., None]),
    "dynamic": (filled, lambda x: np.outer(x, x) * x[:, None]),
}  # fmt: skip


@pytest.mark.parametrize("tier", ["interpret", "compile"])
@pytest.mark.parametrize("name", SCALED)
def test_ufuncs_made_by_numba(name, tier, monkeypatch):
    monkeypatch.setenv(tiered_execution.VARIABLE, tier)
    f, numpy = SCALED[name]
    close = {"rtol": 1e-6} if name == "single" else {"rtol": 1e-12}
    found, plain = fdiff.jit(f)(X), f(X)
    assert (np.shape(found), np.asarray(found).dtype) == (np.shape(plain), np.asarray(plain).dtype)
    np.testing.assert_allclose(found, plain, **close)
    np.testing.assert_allclose(fdiff.jacobian(f)(X), fdiff.jacobian(numpy)(X), **close)
    if tier == "interpret":
        total = lambda x: np.sum(f(x))
        wanted = lambda x: np.sum(numpy(x))
        np.testing.assert_allclose(fdiff.grad(total)(X), fdiff.grad(wanted)(X), **close)
        np.testing.assert_allclose(fdiff.hvp(total)(X, X), fdiff.hvp(wanted)(X, X), **close)
        stack = np.stack([X, X + 1.0])
        np.testing.assert_allclose(fdiff.vmap(f)(stack), [f(row) for row in stack], **close)


def test_numba_s_own_errors():
    for f in (lambda x: inner(x, x[:2]), lambda x: wave(x * 1j)):
        with pytest.raises((TypeError, ValueError)):
            f(X)
        with pytest.raises((TypeError, ValueError)):
            fdiff.jit(f)(X)


@numba.experimental.jitclass([("k", numba.float64)])
class Spring:
    def __init__(self, k):
        self.k = k

    def energy(self, u):
        return 0.5 * self.k * u**2


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
def test_objects_of_jitclasses():
    spring = Spring(2.0)
    for f in (lambda x: spring.energy(x[0]), lambda x: Spring(x[0]).energy(x[1])):
        with pytest.raises(
            TraceError,
            match=r"@jitclass was given a traced array.*\n.*test_non_numeric.*\n.*plain classes",
        ):
            fdiff.grad(f)(X)
    np.testing.assert_array_equal(fdiff.grad(lambda x, s: s.k * np.sum(x))(X, spring), 2.0)
