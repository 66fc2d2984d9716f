"""Arrays however they lie in memory, and of whatever class: the right answer, or a clear error.

For arguments that are differentiated, arguments that are not, captured arrays and vectors, in every
operator, on both tiers; results are fresh, plain arrays, and nothing of the caller's is written to.
"""

import numpy as np
import pytest

import fdiff
from fdiff.errors import DtypeError, FdiffError, InputError

BASE = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])
SMALL = (2, 3)
LARGE = (90, 130)  # too large to be copied into C order before a kernel runs


def unaligned(a):
    raw = np.zeros(a.nbytes + 1, np.uint8)[1:]
    out = raw.view(a.dtype).reshape(a.shape)
    out[...] = a
    assert not out.flags.aligned or a.itemsize == 1
    return out


def strided(a):
    wide = np.full([3 * n for n in a.shape], np.nan if a.dtype.kind in "fc" else 7, a.dtype)
    out = wide[tuple(slice(1, None, 3) for _ in a.shape)]
    out[...] = a
    return out


def overlapping(a):
    """Windows of one line: entries that share memory."""
    line = np.resize(a.ravel(), a.shape[0] + a.shape[1] - 1)
    return np.lib.stride_tricks.sliding_window_view(line, a.shape[1])[: a.shape[0]]


def read_only(a):
    out = a.copy()
    out.flags.writeable = False
    return out


def a_field(a):
    record = np.zeros(a.shape, [("tag", "i1"), ("value", a.dtype)])
    record["value"] = a
    return record["value"]


def file_backed(a, tmp_path, mode):
    path = tmp_path / f"data{mode[0]}"
    written = np.memmap(path, a.dtype, "w+", shape=a.shape)
    written[...] = a
    written.flush()
    return np.memmap(path, a.dtype, mode, shape=a.shape)


LAYOUTS = {
    "C": lambda a: a.copy(),
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "big-endian strided": lambda a: strided(a.astype(a.dtype.newbyteorder(">"))),
    "read-only": read_only,
    "unaligned": unaligned,
    "unaligned Fortran": lambda a: unaligned(np.ascontiguousarray(a.T)).T,
    "negative strides": lambda a: np.array(a[::-1, ::-1])[::-1, ::-1],
    "one negative stride": lambda a: np.array(a[:, ::-1])[:, ::-1],
    "zero strides": lambda a: np.broadcast_to(a[:1], a.shape),
    "zero strides everywhere": lambda a: np.broadcast_to(a[0, 0], a.shape),
    "Fortran": np.asfortranarray,
    "strided": strided,
    "overlapping": overlapping,
    "field of records": a_field,
    "transposed": lambda a: np.array(a.T).T,
}
each_layout = pytest.mark.parametrize("layout", [*LAYOUTS, "memmap", "read-only memmap"])
# Captured memmaps and records are no plain arrays: `f` is traced at each call, and that is said.
pytestmark = pytest.mark.filterwarnings("ignore:.*memmap object.*:fdiff.errors.RetraceWarning")
structured = pytest.mark.filterwarnings("ignore:.*array of dtype.*:fdiff.errors.RetraceWarning")
each_tier = pytest.mark.parametrize("tier", ["interpret", "compile"])


def laid_out(layout, a, tmp_path):
    if layout in LAYOUTS:
        return LAYOUTS[layout](a)
    return file_backed(a, tmp_path, "r" if layout.startswith("read") else "r+")


def values(shape):
    return np.resize(BASE, shape) + np.linspace(0.0, 0.05, np.prod(shape)).reshape(shape)


def model(x, w):
    """Entries, slices, sums along both axes and a product of matrices."""
    return np.sum(np.sin(x) * w) + np.sum(x[1:] ** 2 * x[:-1]) + np.sum((x @ w.T) ** 2) / x.size


OPERATORS = {
    "grad": lambda x, w, v: fdiff.grad(model)(x, w),
    "grad of both": lambda x, w, v: fdiff.grad(model, (0, 1))(x, w),
    "value_and_grad": lambda x, w, v: fdiff.value_and_grad(model)(x, w),
    "captured": lambda x, w, v: fdiff.grad(lambda x: model(x, w))(x),
    "captured alone": lambda x, w, v: fdiff.grad(lambda s: s * model(x, w))(2.0),
    "vjp": lambda x, w, v: fdiff.vjp(lambda x: np.sin(x) * w, x, v),
    "jvp": lambda x, w, v: fdiff.jvp(lambda x: np.sin(x) * w, x, v),
    "hvp": lambda x, w, v: fdiff.hvp(lambda x: model(x, w), x, v),
    "vhp": lambda x, w, v: fdiff.vhp(lambda x: model(x, w), x, v),
    "jit": lambda x, w, v: fdiff.jit(model)(x, w),
    "vmap": lambda x, w, v: fdiff.vmap(lambda x, w: np.sum(np.sin(x) * w))(x, w),
    "identity": lambda x, w, v: fdiff.jit(lambda x, w: (x, w, x.T))(x, w),
}
DENSE = {
    "jacobian": lambda x, w, v: fdiff.jacobian(lambda x: np.sin(x) @ w.T)(x),
    "jacfwd": lambda x, w, v: fdiff.jacfwd(lambda x: np.sum(np.sin(x) * w, axis=0))(x),
    "hessian": lambda x, w, v: fdiff.hessian(model)(x, w),
}


def leaves(tree):
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, tuple) else [tree]


def check(run, layout, shape, tmp_path):
    plain = [values(shape), values(shape)[::-1] * 0.5 + 0.1, values(shape) - 0.2]
    given = [laid_out(layout, np.ascontiguousarray(a), tmp_path) for a in plain]
    kept = [np.array(a, order="C") for a in given]
    expected = leaves(run(*[np.array(a, float) for a in kept]))
    got = leaves(run(*given))
    for out, want in zip(got, expected, strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-14)
        if isinstance(out, np.ndarray):
            assert type(out) is np.ndarray
            assert out.dtype == np.float64
            assert out.flags.writeable
            assert not any(np.shares_memory(out, a) for a in given)
    for a, b in zip(given, kept, strict=True):
        np.testing.assert_array_equal(a, b)


@each_layout
@each_tier
@pytest.mark.parametrize("name", [*OPERATORS, *DENSE])
def test_layouts_of_small_arrays(name, layout, tier, tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    check({**OPERATORS, **DENSE}[name], layout, SMALL, tmp_path)


@each_layout
@each_tier
@pytest.mark.parametrize("name", OPERATORS)
def test_layouts_of_large_arrays(name, layout, tier, tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    check(OPERATORS[name], layout, LARGE, tmp_path)


@each_layout
@each_tier
def test_captured_arrays_are_read_at_each_call(layout, tier, tmp_path, monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", tier)
    data = laid_out(layout, values(SMALL), tmp_path)
    slope = fdiff.grad(lambda s: np.sum(s * data))
    np.testing.assert_allclose(slope(1.0), np.sum(data), rtol=1e-14)
    if data.flags.writeable:
        data[...] = 5.0
        np.testing.assert_allclose(slope(1.0), np.sum(data), rtol=1e-14)


@each_layout
@pytest.mark.parametrize("kind", ["i4", "u2", "?", "f4", "c16"])
def test_layouts_of_other_dtypes(layout, kind, tmp_path):
    data = laid_out(layout, np.ascontiguousarray(values(SMALL) * 4).astype(kind), tmp_path)
    x = np.linspace(0.5, 1.5, 3)
    run = fdiff.grad(lambda x, w: np.sum(np.real(w * np.sin(x))))
    np.testing.assert_allclose(run(x, data), np.sum(np.real(data), axis=0) * np.cos(x), rtol=1e-6)
    captured = fdiff.grad(lambda x: np.sum(np.real(data * np.sin(x))))(x)
    np.testing.assert_allclose(captured, np.sum(np.real(data), axis=0) * np.cos(x), rtol=1e-6)


# ------------------------------------------------------------------------------------ other classes


class Labelled(np.ndarray):
    """A subclass with a memory of its own."""


class Dispatching(np.ndarray):
    """A subclass that answers for NumPy's functions."""

    def __array_function__(self, func, types, args, kwargs):
        raise AssertionError("asked for a function")

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        raise AssertionError("asked for a ufunc")


class Duck:
    """No array, but answers for one."""

    def __init__(self, array):
        self.array = array
        self.shape = array.shape
        self.dtype = array.dtype

    def __array__(self, dtype=None, copy=None):
        return self.array

    def __array_function__(self, func, types, args, kwargs):
        raise AssertionError("asked for a function")


CLASSES = {
    "masked array": lambda a: np.ma.masked_array(a, mask=a > 1),
    "masked array without mask": np.ma.masked_array,
    "matrix": np.matrix,
    "subclass": lambda a: a.view(Labelled),
    "dispatching subclass": lambda a: a.view(Dispatching),
    "records": lambda a: np.array([(1.0, 2.0)], [("a", float), ("b", float)]).view(np.recarray),
}
each_class = pytest.mark.parametrize("name", CLASSES)
quiet = pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
PLAIN = values(SMALL)


@quiet
@each_class
def test_other_classes_are_refused_as_arguments(name):
    given = CLASSES[name](PLAIN)
    refused = pytest.raises(
        (InputError, DtypeError), match=rf"(arrays of type {type(given).__name__} are not|dtype)"
    )
    for run in (
        lambda: fdiff.grad(np.sum)(given),
        lambda: fdiff.grad(lambda x, w: np.sum(x))(PLAIN, given),
        lambda: fdiff.jacobian(np.sin, given),
        lambda: fdiff.vmap(np.sin)(given),
        lambda: fdiff.jit(np.sin)(given),
        lambda: fdiff.hvp(np.sum, given, PLAIN),
        lambda: fdiff.grad(lambda t: np.sum(t["x"]))({"x": given}),
    ):
        with refused:
            run()


@quiet
@each_class
def test_other_classes_are_refused_as_vectors(name):
    given = CLASSES[name](PLAIN)
    for run in (fdiff.vjp, fdiff.jvp):
        with pytest.raises(FdiffError, match=rf"v is an array of type {type(given).__name__}"):
            run(np.sin, PLAIN, given)


@quiet
@each_class
@each_tier
def test_other_classes_are_refused_where_captured(name, tier, monkeypatch):
    """Whether fdiff refuses it or the class: a mask or a unit is never dropped."""
    monkeypatch.setenv("FDIFF_TIER", tier)
    given = CLASSES[name](PLAIN)
    x = np.linspace(0.5, 1.5, 3)
    for f in (lambda x: np.sum(np.sin(x) * given), lambda x: np.sum(np.add(x, given))):
        with pytest.raises((FdiffError, AssertionError, TypeError)):
            fdiff.grad(f)(x)


def test_objects_that_are_no_arrays_are_refused():
    with pytest.raises(InputError, match="of type Duck"):
        fdiff.grad(np.sum)(Duck(PLAIN))
    with pytest.raises(InputError, match="type Duck"):
        fdiff.jacobian(np.sin, Duck(PLAIN))
    with pytest.raises(InputError, match="type Duck"):
        fdiff.vjp(np.sin, PLAIN, Duck(PLAIN))


@pytest.mark.parametrize("dtype", ["U3", "S3", "M8[s]", "m8[s]", "O", "V8", [("a", float)]])
def test_arrays_that_hold_no_numbers_are_refused_where_they_are_differentiated(dtype):
    given = np.zeros(2, dtype)
    with pytest.raises((DtypeError, InputError), match=r"only floating-point inputs|dtype|type"):
        fdiff.grad(lambda x: 1.0)(given)
    with pytest.raises((DtypeError, InputError)):
        fdiff.jvp(lambda x: x * 1.0, np.zeros(2), given)


@structured
def test_structured_arrays_may_stand_beside_what_is_differentiated():
    table = np.array([(1.0, 2), (3.0, 4)], [("x", ">f8"), ("n", "i4")])
    expected = np.cos(0.5) * 7.0
    got = fdiff.grad(lambda s, t: np.sum(np.sin(s) * t["x"] * [1.0, 2.0]))(0.5, table)
    np.testing.assert_allclose(got, expected, rtol=1e-14)
    slope = fdiff.grad(lambda s: np.sum(np.sin(s) * table["x"] * [1.0, 2.0]))
    np.testing.assert_allclose(slope(0.5), expected, rtol=1e-14)
    table["x"] = 1.0
    np.testing.assert_allclose(slope(0.5), np.cos(0.5) * 3.0, rtol=1e-14)


@pytest.mark.parametrize("order", "CF")
def test_arrays_without_entries_or_axes(order):
    empty = np.zeros((0, 3), order=order)
    assert fdiff.grad(np.sum)(empty).shape == (0, 3)
    assert fdiff.jacobian(np.sin, empty).shape == (0, 3, 0, 3)
    point = np.array(0.5, dtype=">f8")
    got = fdiff.grad(np.sin)(point)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, np.cos(0.5), rtol=1e-15)
    np.testing.assert_allclose(fdiff.grad(np.sin)(np.broadcast_to(point, ())), np.cos(0.5))
