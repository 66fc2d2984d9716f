"""Programs that once gave a wrong answer, each as a user might write it; NumPy is the reference."""

import contextvars
import threading

import numpy as np
import pytest

import fdiff

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


X = np.linspace(0.5, 3.0, 6)
GRID = np.arange(48.0).reshape(6, 8) / 8.0 + 0.25
LAYOUTS = {
    "C": GRID[:3, :4].copy,
    "F": lambda: np.asfortranarray(GRID[:3, :4]),
    "part": lambda: GRID.copy()[:3, :4],
    "steps": lambda: GRID.copy()[::2, ::2],
    "transposed part": lambda: GRID.copy().T[:3, :4],
    "backwards": lambda: GRID.copy()[2::-1, :4],
}


def leaves(out):
    return list(out) if isinstance(out, tuple) else [out]


def agree(f, make):
    """Value and derivative of `f` are those of NumPy and of differences; the argument is kept."""
    x = make()
    given = x.copy(order="K")
    got, want = leaves(fdiff.jit(f)(x)), leaves(f(make()))
    np.testing.assert_array_equal(x, given)
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-12)
    if x.dtype.kind == "c":
        return
    total = lambda x: sum(np.sum(out * (1.5 + k)) for k, out in enumerate(leaves(f(x))))
    v, h = np.sin(np.arange(x.size) + 1.0).reshape(x.shape), 1e-6

    def shifted(step):
        moved = make()
        moved += step * v
        return total(moved)

    slope = (shifted(h) - shifted(-h)) / (2 * h)
    np.testing.assert_allclose(np.sum(fdiff.grad(total)(x) * v), slope, rtol=1e-6, atol=1e-6)


# --- what NumPy copies ----------------------------------------------------------------------------


def stored(a, b):
    """The array after its view or copy `b` has been written to."""
    try:
        b[...] = 7.0
    except ValueError as error:
        if "read-only" not in str(error):
            raise
    return a * 1.0, b * 1.0


COPIES = [
    lambda a: a.ravel(),
    lambda a: a.ravel("K"),
    lambda a: a.ravel("F"),
    lambda a: np.ravel(a, "A"),
    lambda a: a.reshape(-1),
    lambda a: np.reshape(a, -1, copy=True),
    lambda a: a.reshape(a.size, copy=True),
    np.ascontiguousarray,
    np.asfortranarray,
    lambda a: np.asarray(a, order="F"),
    lambda a: np.asarray(a, order="C"),
    lambda a: np.asarray(a, copy=True),
    lambda a: np.array(a, order="F", copy=None),
    lambda a: np.require(a, requirements="F"),
    lambda a: a.astype(float, order="F", copy=False),
    lambda a: a.T.reshape(-1),
    lambda a: a[::2].ravel(),
    lambda a: a[:, ::2].reshape(-1),
    lambda a: a[::-1].ravel("K"),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("copy", COPIES, ids=range(len(COPIES)))
def test_what_is_copied_depends_on_how_an_argument_lies_in_memory(copy, layout):
    agree(lambda x: stored(x, copy(x)), LAYOUTS[layout])


@pytest.mark.parametrize("copy", COPIES[:15], ids=range(15))
def test_what_is_copied_of_an_array_of_one_axis(copy):
    agree(lambda x: stored(x, copy(x)), lambda: np.linspace(0.0, 1.0, 12)[::2])
    agree(lambda x: stored(x, copy(x[::-2])), X.copy)


RESULTS = [
    lambda a: a + a[0],
    lambda a: a * a[0, 0],
    lambda a: np.where(a > 1.05, a, a[:, :1]),
    lambda a: np.sort(a, axis=0),
    lambda a: np.cumsum(a, axis=0),
    lambda a: a + np.ones(a.shape),
    lambda a: np.copy(a[:, None])[:, 0],
    lambda a: np.asfortranarray(np.ones(a.shape)) * a,
    lambda a: np.array(a, order="F"),
    lambda a: np.sin(a.T),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("result", RESULTS, ids=range(len(RESULTS)))
def test_results_lie_in_memory_as_numpy_lays_them(result, layout):
    agree(lambda x: (result(x).ravel("K"), *stored(r := result(x), r.reshape(-1))), LAYOUTS[layout])


def filled(make, a):
    """An array made like `a`, all of whose entries have been stored."""
    out = make(a)
    out[...] = a * 2.0 if out.shape == a.shape else a[0, 0]
    return out


WHOLE = [
    lambda a: np.full_like(a, a[0, 0]),
    lambda a: np.full_like(a, a[0]),
    lambda a: np.full(a.shape, a[0, 0], order="F"),
    lambda a: np.full(a.shape, a[0, 0], order="C"),
    lambda a: filled(np.empty_like, a),
    lambda a: filled(np.zeros_like, a.T).T,
    lambda a: filled(lambda a: np.ones((4, 3)).T, a),
    lambda a: filled(lambda a: np.empty(a.shape, order="F"), a),
    lambda a: filled(lambda a: np.empty((2, *a.shape), order="F"), a),
    lambda a: filled(lambda a: np.empty(a.shape, order="F")[::-1, ::2], a),
    lambda a: np.add(a, a[0], out=np.empty_like(a)),
    lambda a: np.add(a, a[0], out=np.empty(a.shape, order="F")),
    lambda a: np.sin(np.ascontiguousarray(a), out=np.empty_like(a)),
    lambda a: np.copy(np.add(np.ones((4, 3)), a[0, 0], out=np.ones((4, 3), order="F"))),
    lambda a: (np.zeros((3, 4)) + a[0, 0], np.zeros((3, 4), order="F") + a[0, 0])[1],
    lambda a: np.concatenate([a, a[:1] * 2.0]),
    lambda a: np.concatenate([np.asfortranarray(a), a.copy()], axis=1),
    lambda a: a.ravel("F").reshape(a.shape),
    lambda a: a.reshape(-1).reshape(a.shape),
    lambda a: a[::-1].reshape(2, 3, 2),
    lambda a: a[:, :2].T.reshape(2, 3, 1).copy("K"),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", WHOLE, ids=range(len(WHOLE)))
def test_an_array_stored_into_as_a_whole_lies_as_it_was_made(make, layout):
    """What is computed of it lies so too: a flattening of that is a view where NumPy's is one."""

    def f(x):
        for store in (lambda b: b, copied_into, scaled):
            b = store(make(x)) * 2.0
            flat = b.reshape(-1)
            flat[1] = 7.0 * x[0, 1]
            yield b * 1.0
            yield flat * 1.0
            yield b.ravel("K") * 1.0

    agree(lambda x: tuple(f(x)), LAYOUTS[layout])


def copied_into(b):
    np.copyto(b, np.sin(b).copy("C"))
    return b


def scaled(b):
    b *= b.sum()
    return b


def test_a_whole_store_of_numbers_keeps_the_layout():
    def f(x):
        b = np.empty((2, 3), order="F")
        b[...] = x[0]
        b[...] = np.arange(6.0).reshape(2, 3)
        c = b.T * 2.0
        flat = c.reshape(-1)
        flat[1] = x[1]
        return c, flat

    agree(f, X.copy)


def test_equal_constants_that_lie_otherwise_in_memory():
    def f(x):
        a, b = np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))
        return *stored(c := x[0] * a, c.reshape(-1)), *stored(d := x[0] * b, d.reshape(-1))

    agree(f, X.copy)


def test_an_argument_that_is_sliced_so_that_its_gaps_close():
    def f(x):  # strides (32, 8), then (32, 16) by two entries: side by side again
        return stored(x, x[:, ::2].reshape(-1))

    agree(f, lambda: GRID[:3, :4].copy()[:, :3])
    agree(f, lambda: GRID[:3, :4].copy()[::-1, 2::-1])
    agree(lambda x: stored(x, x[::-1].reshape(-1)), lambda: GRID[:3, :4].copy()[::-1])


def test_results_of_arrays_that_were_stored_into_lie_as_before():
    def f(x):
        x[0, 0] *= 2.0
        y = x * x[1, 1]
        y[1, 1] = x[0, 2]
        return y.ravel("K"), *stored(y, y.ravel())

    agree(f, LAYOUTS["F"])
    agree(f, LAYOUTS["C"])


def test_a_captured_array_in_fortran_order():
    k = np.asfortranarray(np.arange(12.0).reshape(3, 4))

    def f(x):
        return k.ravel("K") * x[0], (k + x[0]).ravel("K"), np.copy(k).ravel("A")

    agree(f, X.copy)
    call = fdiff.jit(f)
    call(X)
    k = np.ascontiguousarray(k)  # the same program must not be used for the other layout
    for a, b in zip(call(X), f(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_function_differentiated_inside_another_sees_the_layout_of_its_argument():
    w = np.arange(12.0)
    inner = fdiff.grad(lambda b: np.sum(b.ravel("K") * w))
    a = LAYOUTS["F"]()
    np.testing.assert_array_equal(fdiff.jit(inner)(a), inner(a))
    np.testing.assert_array_equal(inner(a), w.reshape(3, 4, order="F"))


def test_the_layout_of_a_long_chain_is_found_without_recursion():
    def f(x):
        for _ in range(2000):
            x = x + x * 1e-4
        flat = x.reshape(-1)
        flat[0] = 1.0
        return x

    agree(f, LAYOUTS["C"])


# --- parts of complex arrays are views ------------------------------------------------------------


def parts(x):
    z = x + 1j * x[::-1]
    z.real[0] = 5.0 * x[1]
    z.imag += x
    np.real(z)[1] = x[2]
    r = z.real
    z *= 2.0
    z.imag = x**2
    return z.real, z.imag, r, np.abs(z)


def parts_made_inside(x):
    z = np.zeros(6, complex)
    r = z.real
    z.imag[2] = 4.0
    z.imag += x
    r[1:] = x[1:] ** 2
    z[0] = x[3] * 1j
    z.real[3] = x[0]
    return z.real, z.imag, r


def parts_laid_out(x):
    z = (x + 1j * x).reshape(2, 3).T
    stored(z, z.real.ravel())
    stored(z, z.imag.T.reshape(-1))
    return z.real, z.imag


def real_of_real(x):
    x.real[0] = x[1]
    x.real = x * 2.0
    return x


@pytest.mark.parametrize("f", [parts, parts_made_inside, parts_laid_out, real_of_real])
def test_real_and_imaginary_parts_are_views(f):
    agree(f, X.copy)


def test_parts_of_a_complex_argument():
    def f(z):
        z.real[0] = 5.0
        z.imag *= 2.0
        return z

    agree(f, lambda: X + 1j)


def test_the_imaginary_part_of_a_real_array_cannot_be_written_to():
    def f(x):
        x.imag[0] = 3.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        fdiff.jit(f)(X)


# --- keywords that were not listened to -----------------------------------------------------------

KEYWORDS = [
    lambda x: np.zeros_like(x, shape=(2, 2)) + x[0],
    lambda x: np.ones_like(x, shape=5),
    lambda x: np.full_like(x, x[0], shape=(2,)),
    lambda x: np.full_like(x, 2.5, dtype=int),
    lambda x: np.trace(np.outer(x, x), dtype=np.float32).astype(float),
    lambda x: np.array_equal(x / 0.0 * 0.0, x * np.nan, equal_nan=True) * x,
    lambda x: np.array_equal(x, x + 0.0, equal_nan=True) * x,
    lambda x: stored(x, np.meshgrid(x, x, sparse=True)[0]),
    lambda x: stored(x, np.meshgrid(x, x[:2])[1]),
    lambda x: np.outer(x, x).item((0, 1)) * x,
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("f", KEYWORDS, ids=range(len(KEYWORDS)))
def test_keywords_are_listened_to(f):
    got, want = leaves(fdiff.jit(f)(X)), leaves(f(X.copy()))
    for a, b in zip(got, want, strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_ends_of_differences_take_the_dtype_of_the_array():
    f = lambda x: np.ediff1d(x, to_begin=[9.0, 1.0], to_end=1.0)
    assert fdiff.jit(f)(X.astype(np.float32)).dtype == np.float32


def test_reshape_that_may_not_copy():
    with pytest.raises(ValueError, match="Unable to avoid"):
        fdiff.jit(lambda x: np.reshape(x.T, -1, copy=False))(LAYOUTS["C"]())


# --- integers of Python ---------------------------------------------------------------------------


def test_integers_beyond_64_bits_and_of_no_number():
    f = lambda a: int(a) / 3 + a
    for a in (2.5, 1e300, -1e19, 2.5):
        assert fdiff.jit(f)(a) == f(a)
    with pytest.raises(OverflowError):
        fdiff.jit(f)(np.inf)
    with pytest.raises(ValueError, match="NaN"):
        fdiff.jit(f)(np.nan)


# --- what Python sees of a scalar -----------------------------------------------------------------


def test_scalars_have_the_attributes_of_scalars():
    def f(x):
        kinds = [hasattr(v, n) for v in (x, x[0], float(x[0])) for n in ("__len__", "shape", "hex")]
        return sum(2.0**k for k, has in enumerate(kinds) if has) * x

    agree(f, X.copy)


# --- what `f` keeps for its thread or its context -------------------------------------------------


class ThreadState(threading.local):
    scale = 3.0

    def __init__(self):
        self.table = {}

    def put(self, value):
        self.last = value


def keeps_in_local(x):
    LOCAL.value = x * 2
    LOCAL.table["all"] = [x * 3, np.sum(x)]
    return np.sum(LOCAL.value**2)


def keeps_in_derived_class(x):
    STATE.put(x * 2)
    STATE.table["all"] = (x * 3, np.sum(x))
    return np.sum(STATE.last**2)


def keeps_in_context_variable(x):
    VARIABLE.set({"value": x * 2, "all": [x * 3, np.sum(x)]})
    return np.sum(VARIABLE.get()["value"] ** 2)


def resets_context_variable(x):
    token = VARIABLE.set(x * 2)
    total = np.sum(VARIABLE.get() ** 2)
    VARIABLE.reset(token)
    return total


LOCAL, STATE = threading.local(), ThreadState()
LOCAL.table = {}
VARIABLE = contextvars.ContextVar("VARIABLE")


def kept():
    """What `f` has left, in plain containers."""
    state = {**vars(LOCAL), **vars(STATE), "variable": VARIABLE.get(None)}
    found = leaves_of(state)
    return [type(leaf) for leaf in found], [np.asarray(leaf) for leaf in found]


def leaves_of(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [x for v in value for x in leaves_of(v)] if isinstance(value, list | tuple) else [value]


@pytest.mark.filterwarnings("ignore::fdiff.errors.RetraceWarning")
@pytest.mark.parametrize(
    "f",
    [
        keeps_in_local,
        keeps_in_derived_class,
        keeps_in_context_variable,
        resets_context_variable,
    ],
)
def test_numbers_are_kept_for_a_thread_or_a_context(f):
    x = np.array([1.0, 2.0])
    for operator in (fdiff.grad(f), fdiff.jit(f)):
        for point in (x, 3 * x):
            value = f(point)
            kinds, arrays = kept()
            out = operator(point)
            np.testing.assert_allclose(out, 8 * point if np.ndim(out) else value)
            assert kept()[0] == kinds
            for own, expected in zip(kept()[1], arrays, strict=True):
                np.testing.assert_array_equal(own, expected)
