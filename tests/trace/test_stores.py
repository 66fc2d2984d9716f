"""In-place code means what it means in NumPy: random programs of views and stores, and by name.

The reference is NumPy itself, run on the same program, and differences of its values.
"""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fdiff

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def interpreted(monkeypatch):
    monkeypatch.setenv("FDIFF_TIER", "interpret")


# --- random programs ------------------------------------------------------------------------------

VIEWS = (
    lambda a, k: a[k % max(len(a), 1) :] if a.ndim else a,
    lambda a, k: a[:: (k % 3) + 1] if a.ndim else a,
    lambda a, k: a[::-1] if a.ndim else a,
    lambda a, k: a[..., : max(a.shape[-1] - k % 2, 1)] if a.ndim else a,
    lambda a, k: a[k % len(a)] if a.ndim > 1 and len(a) else a,
    lambda a, k: a.T,
    lambda a, k: a[None],
    lambda a, k: a[..., None] if a.ndim < 3 else a,
    lambda a, k: a.ravel(),
    lambda a, k: a.reshape(-1),
    lambda a, k: a.reshape((2, -1)) if a.size % 2 == 0 and a.size else a,
    lambda a, k: a.reshape(a.shape[::-1]),
    lambda a, k: np.swapaxes(a, 0, -1) if a.ndim else a,
    lambda a, k: np.squeeze(a),
    lambda a, k: np.moveaxis(a, 0, -1) if a.ndim else a,
    lambda a, k: a[...],
    lambda a, k: np.diagonal(a) if a.ndim == 2 else a,
    lambda a, k: np.split(a, [1])[k % 2] if a.ndim and len(a) > 1 else a,
    lambda a, k: np.asarray(a),
    lambda a, k: a.view() if k % 2 else np.atleast_1d(a),
)
COPIES = (
    lambda a, k: a.copy(),
    lambda a, k: a.flatten(),
    lambda a, k: a * 2.0,
    lambda a, k: np.array(a),
    lambda a, k: a.astype(float),
    lambda a, k: np.concatenate([a.ravel(), a.ravel()[:1]]),
    lambda a, k: np.sin(a),
    lambda a, k: a[[0, -1]] if a.ndim and len(a) else a + 0.0,
    lambda a, k: np.zeros_like(a) + 1.5,
    lambda a, k: np.sort(a.copy(), axis=-1) if a.ndim else a + 0.0,
    np.roll,
    lambda a, k: np.tile(a, 1),
    lambda a, k: np.zeros((2, 3)) + k,
    lambda a, k: np.arange(4.0),
    lambda a, k: np.ones(k % 4 + 1),
)


def store_scalar(a, b, k):
    a[...] = 0.5 * k


def store_other(a, b, k):
    a[...] = np.resize(np.zeros(1), a.shape) + b.ravel()[:1].sum()


def store_entry(a, b, k):
    if a.size:
        a[tuple(k % n for n in a.shape)] = b.sum() * 0.25


def add_entry(a, b, k):
    if a.size:
        a[tuple((k * 7) % n for n in a.shape)] += 1.0 + b.ravel()[:1].sum()


def scale(a, b, k):
    a *= 1.25


def add_self(a, b, k):
    if a.ndim and len(a) > 1:
        a[1:] += a[:-1]


def shift(a, b, k):
    if a.ndim and len(a) > 1:
        a[1:] = a[:-1]


def store_rows(a, b, k):
    if a.ndim and len(a):
        a[[0, -1, 0]] = b.ravel()[:1].sum() + np.arange(3.0).reshape((3,) + (1,) * (a.ndim - 1))


def store_mask(a, b, k):
    a[a > 0.8] = 0.1 * k


def scale_mask(a, b, k):
    a[a < 0.3] *= -2.0


def add_at(a, b, k):
    if a.ndim and len(a):
        a[:1] += 0.0  # NumPy's ufunc.at writes to read-only arrays
        np.add.at(a, [0, 0, k % len(a)], b.ravel()[:1].sum())


def out_of(a, b, k):
    np.multiply(a, 1.5, out=a)


def out_where(a, b, k):
    np.add(a, 1.0, out=a, where=a > 0.5)


def copy_to(a, b, k):
    np.copyto(a, b.ravel()[:1].sum())


def swap(a, b, k):
    if a.ndim and len(a) > 1:
        a[0], a[-1] = a[-1].copy(), a[0].copy()


def fill(a, b, k):
    a.fill(float(k))


def put(a, b, k):
    if a.size:
        np.put(a, [0, -1], b.ravel()[:1] * 3.0 if b.size else 2.0)


def sort(a, b, k):
    a.sort()


def clip(a, b, k):
    np.clip(a, 0.1, 2.0, out=a)


def diagonal(a, b, k):
    if a.ndim == 2 and min(a.shape) > 1:
        np.fill_diagonal(a, 0.25 * k)


STORES = (
    store_scalar, store_other, store_entry, add_entry, scale, add_self, shift, store_rows,
    store_mask, scale_mask, add_at, out_of, out_where, copy_to, swap, fill, put, sort, clip,
    diagonal,
)  # fmt: skip


def play(x, program):
    """Run a program of views, copies and stores on a pool of arrays; all of them at the end."""
    pool = [x, np.zeros((3, 4)), np.linspace(0.0, 1.0, 6)]
    for kind, which, i, j, k in program:
        a, b = pool[i % len(pool)], pool[j % len(pool)]
        if kind == 2:
            try:
                STORES[which % len(STORES)](a, b, k)
            except ValueError as error:
                if "read-only" not in str(error):
                    raise
        else:
            table = VIEWS if kind == 0 else COPIES
            pool.append(table[which % len(table)](a, k))
    return sum(np.sum(a * (1.0 + n)) for n, a in enumerate(pool)), np.concatenate(
        [np.ravel(a) for a in pool]
    )


steps = st.tuples(
    st.sampled_from([0, 0, 1, 2, 2]), st.integers(0, 19), st.integers(0, 9), st.integers(0, 9),
    st.integers(0, 6),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=50)
@given(st.lists(steps, min_size=2, max_size=14), st.sampled_from(["C", "F"]))
def test_random_programs_of_views_and_stores(program, order):
    assert_right(program, order)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(steps, min_size=2, max_size=14), st.sampled_from(["C", "F"]))
def test_many_random_programs_of_views_and_stores(program, order):
    assert_right(program, order)


def assert_right(program, order):
    """Assert that values and derivatives in both modes are those of NumPy and of differences."""
    rng = np.random.default_rng(len(program))
    x = np.asarray(rng.uniform(0.2, 1.4, (4, 3)), order=order)
    given_ = x.copy(order="K")
    want = play(x.copy(order="K"), program)[1]
    f = lambda x: play(x, program)[1]
    got = fdiff.jit(f)(x)
    np.testing.assert_array_equal(x, given_)
    np.testing.assert_allclose(got, want, rtol=1e-14, atol=1e-14)
    v = rng.normal(size=x.shape)
    out, tangent = fdiff.jvp(f, x, v)
    np.testing.assert_allclose(out, want, rtol=1e-14, atol=1e-14)
    h = 1e-5
    ahead, back = (play(np.asarray(x + s * h * v, order=order), program)[1] for s in (1, -1))
    np.testing.assert_allclose(tangent, (ahead - back) / (2 * h), rtol=1e-6, atol=1e-6)
    bar = rng.normal(size=out.shape)
    pulled = fdiff.vjp(f, x, bar)[1]
    np.testing.assert_allclose(np.sum(pulled * v), np.sum(bar * tangent), rtol=1e-10, atol=1e-10)


# --- what is a view -------------------------------------------------------------------------------

EXPRESSIONS = """
a; a[...]; a[1:]; a.T; a.reshape(-1); a.reshape(4, 3); a.ravel(); a.ravel('F'); a.ravel('K')
a.flatten(); a.copy(); np.copy(a); np.array(a); np.array(a, copy=False); np.asarray(a)
a.astype(float); a.astype(float, copy=False); np.atleast_2d(a); np.atleast_3d(a); np.squeeze(a)
np.expand_dims(a, 0); np.swapaxes(a, 0, 1); np.moveaxis(a, 0, 1); np.rollaxis(a, 1)
np.broadcast_to(a, (2, 3, 4)); np.flip(a); np.fliplr(a); np.rot90(a); np.rot90(a, 2)
np.rot90(a, 0); np.split(a, 2, axis=1)[1]; np.vsplit(a, 3)[0]; np.diagonal(a); np.diag(a)
np.roll(a, 0); np.roll(a, 1); np.tile(a, 1); np.repeat(a, 1); a[[0, 1]]
a[np.array([True, False, True])]; np.real(a); a.real; a.view(); np.ascontiguousarray(a)
np.ascontiguousarray(a.T); np.asfortranarray(a); np.asfortranarray(a.T); np.transpose(a)
a.transpose(1, 0); a.squeeze(); a.swapaxes(0, 1); np.matrix_transpose(a); a.mT
np.concatenate([a]); np.stack([a]); np.vstack([a]); np.hstack([a]); np.sort(a); np.round(a)
np.positive(a); +a; np.clip(a, 0, 9); np.where(a > 0, a, a); np.take(a, [0, 1, 2], axis=0)
np.pad(a, 0); np.nan_to_num(a); np.nan_to_num(a, copy=False); np.reshape(a.T, (3, 4))
np.reshape(a.T, -1); a.T.ravel(); a.T.T.reshape(-1); a[:, 1:].reshape(-1); a[1:].reshape(-1)
np.triu(a); np.unstack(a)[0]; np.resize(a, a.shape); np.delete(a, []); np.append(a, [])
np.einsum('ij->ji', a); np.array_split(a, 2)[0]; np.diff(a, 0); np.ravel(a)
np.array(a, ndmin=3); np.array(a.T); np.maximum(a, a); np.full_like(a, 1.0) * a; np.require(a)
np.linalg.matrix_transpose(a); np.fmax(a, a)
"""


@pytest.mark.parametrize("made", [False, True], ids=["argument", "made inside"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("text", re.split(r";\s|\n", EXPRESSIONS.strip()))
def test_what_is_a_view_and_what_a_copy_is_what_numpy_says(text, order, made):
    """Both ways: a store into the array is seen by the result, and the other way round."""

    def f(x):
        a = np.zeros((3, 4), order=order) if made else x
        if made:
            a[...] = x
        b = eval(text, {"np": np, "a": a})
        a[0, 1] = 50.0
        a[2] += x[0, 0]
        seen = b.sum()
        try:
            b[...] = 7.0
        except ValueError as error:
            if "read-only" not in str(error):
                raise
            return seen, a, b, 1.0
        return seen, a, b, 0.0

    x = np.asarray(np.arange(12.0).reshape(3, 4) + 1.0, order=order)
    for got, want in zip(fdiff.jit(f)(x), f(x.copy(order="K")), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", [(3,), (2, 3)])
def test_an_entry_as_a_view_of_its_array_changed_in_place(shape):
    def f(t):
        w = t * 1.0
        w[(0,) * (t.ndim - 1) + (..., -1)] *= 2.0
        w[..., 0] += w[..., -1]
        w[(..., *(0,) * t.ndim)] **= 2.0
        return w

    x = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    np.testing.assert_array_equal(fdiff.jit(f)(x), f(x))
    slope = fdiff.jvp(f, x, np.ones(shape))[1]
    np.testing.assert_allclose(slope, (f(x + 1e-6) - f(x - 1e-6)) / 2e-6, rtol=1e-8)


@pytest.mark.parametrize(
    "made", [np.atleast_1d, lambda s: s.reshape(-1), lambda s: np.expand_dims(s, 0), np.ravel]
)
def test_an_array_made_of_a_scalar_is_no_view_of_it(made):
    def f(x):
        total = np.sum(x)
        own = made(total)
        own[0] = 7.0 * x[0]
        return total * x[1], own

    x = np.array([2.0, 3.0])
    for got, want in zip(fdiff.jit(f)(x), f(x), strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(fdiff.grad(lambda x: f(x)[0])(x), [3.0, 8.0])
