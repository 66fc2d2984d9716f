"""Loops of Python that compute alike and join the results: one computation, the same numbers."""

import jax
import numpy as np
import pytest

import fdiff
from benchmarks import styles
from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.tape import verify
from fdiff.transforms.prepare import loop_rerolling as module

jax.config.update("jax_enable_x64", True)

K, N, D = 9, 40, 5


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


A, B, X = drawn(K, D), 0.5 * drawn(K, D, D), drawn(N, D)


def rows(np, a, b, x):
    return np.stack([np.sum(((x - a[k]) * np.exp(a[k])) ** 2, axis=1) for k in range(K)])


def columns(np, a, b, x):
    return np.stack([np.tanh((x - a[k]) @ b[k].T).sum(1) for k in range(K)], axis=1)


def middle(np, a, b, x):
    return np.stack([np.sin(x * a[k]) + b[k, 1] for k in range(K)], axis=1)


def blocks(np, a, b, x):
    """Parts with many entries along the axis that they are joined along."""
    return np.concatenate([np.cos(x @ b[k]) for k in range(K)], axis=0)


def wide(np, a, b, x):
    return np.concatenate([x * a[k] for k in range(K)], axis=1)


def stencil(np, a, b, x):
    """Entries one by one, several slices of one array that overlap."""
    v = a[:, 0]
    return np.stack([100 * (v[i + 1] - v[i] ** 2) ** 2 + (1 - v[i]) ** 2 for i in range(K - 1)])


def distant(np, a, b, x):
    """Every fourth entry, and pieces of four: strides and blocks of slices."""
    each = [np.exp(x[4 * k, 0]) * np.sum(x[4 * k : 4 * k + 4, 1] ** 2) for k in range(K)]
    return np.stack(each)


def inner_axis(np, a, b, x):
    return np.stack([b[:, :, 0] @ x[k, :] + a[:, 1] * x[k, 2] for k in range(K)])


def of_columns(np, a, b, x):
    return np.stack([np.max(x.T[:, k] * a[:, 0].sum()) for k in range(K)])


def stored_columns(np, a, b, x):
    s = empty((N, K))
    for k in range(K):
        s = stored(np, s, (slice(None), k), np.sum((x - a[k]) ** 2, axis=1))
    return s


def stored_backwards(np, a, b, x):
    """Rows and blocks of them, from the last."""
    s = empty((K, N, D))
    for k in range(K - 1, -1, -1):
        s = stored(np, s, k, np.sin(x * a[k]))
    t = empty((2 * K, D))
    for k in range(K):
        t = stored(np, t, slice(2 * k, 2 * k + 2), b[k][:2] * a[k])
    return np.sum(s, axis=1) + t.reshape(K, 2, D)[:, 1]


def total(np, a, b, x):
    t = 0.0
    for k in range(K):
        t = t + np.sum(np.exp(x * a[k])) * a[k, 0]
    return t


def total_of_arrays(np, a, b, x):
    """From the first term, and from something else."""
    t, u = np.tanh((x - a[0]) @ b[0]).sum(1), np.cos(x[:, 0])
    for k in range(K):
        if k:
            t = t + np.tanh((x - a[k]) @ b[k]).sum(1)
        u = u + np.exp(-np.sum(x * a[k], axis=1))
    return t * u


def empty(shape):
    return np.zeros(shape)


def stored(module, s, at, values):
    """Stored in place in NumPy's code."""
    if module is not np:
        return module.asarray(s).at[at].set(values)
    s[at] = values
    return s


ALIKE = [rows, columns, middle, blocks, wide, stencil, distant, inner_axis, of_columns,
         stored_columns, stored_backwards, total, total_of_arrays]  # fmt: skip


def reversed_slices(np, a, b, x):
    return np.stack([np.sin(a[K - 1 - k]) for k in range(K)])


def uneven(np, a, b, x):
    return np.stack([np.sin(x[k * k]) for k in range(6)] + [np.sin(x[39]), np.sin(x[38])])


def windows(np, a, b, x):
    return np.stack([np.sum(np.sin(x[k : k + 3])) for k in range(K)])


def recurrent(np, a, b, x):
    h, found = x[0], []
    for k in range(K):
        h = np.tanh(b[k] @ h + a[k])
        found.append(h)
    return np.stack(found)


def read_elsewhere(np, a, b, x):
    parts = [np.sin(x * a[k]) for k in range(K)]
    return np.stack([p * 2 for p in parts]) * parts[3]


def of_constants(np, a, b, x):
    return np.stack([np.sin(x * (k + 0.5)) for k in range(K)])


def one_is_other(np, a, b, x):
    return np.stack([np.sin(a[k]) if k != 5 else np.cos(a[k]) for k in range(K)])


def repeated(np, a, b, x):
    return np.stack([np.sin(x)] * K) + np.stack([np.sin(a[k // 2]).sum() for k in range(K)]).sum()


def other_arrays(np, a, b, x):
    return np.stack([np.sin((a if k % 2 else 2 * a)[k]) for k in range(K)])


def large(np, a, b, x):
    m = x[:20, :1] * x[:20, 1]
    return np.stack([m @ (m * a[k, 0]) for k in range(K)])


def stored_in_part(np, a, b, x):
    s = empty((N, K + 1))
    for k in range(K):
        s = stored(np, s, (slice(None), k), np.sum((x - a[k]) ** 2, axis=1))
    return s


def stored_and_read(np, a, b, x):
    s, t = empty((K, N)), 0.0
    for k in range(K):
        s = stored(np, s, k, np.sum((x - a[k]) ** 2, axis=1))
        t = t + np.sum(s) * a[0, 0]
    return s * t


def twice_in_one_place(np, a, b, x):
    s = empty((K, N))
    for k in range(K):
        s = stored(np, s, k - (k == 4), np.sum((x - a[k]) ** 2, axis=1))
    return s


def running_total(np, a, b, x):
    t, found = 0.0, 0.0
    for k in range(K):
        t = t + np.sum(np.exp(x * a[k]))
        found = found * 0.5 + t
    return found


def elementwise_total(np, a, b, x):
    """Best added up in registers."""
    t = x[:, 0]
    for k in range(K):
        t = t + np.sin(x[:, 1] * a[k, 0])
    return t


def few_components(np, a, b, x):
    """Sums of so few entries stay in registers."""
    return np.stack([np.sum(np.exp(x[:, :3] * a[k, :3]), axis=1) for k in range(K)], axis=1)


DIFFERENT = [few_components, stored_in_part, stored_and_read, twice_in_one_place, running_total,
             elementwise_total, reversed_slices, uneven, windows, recurrent, read_elsewhere,
             of_constants, one_is_other, repeated, other_arrays, large]  # fmt: skip


def bound(f, of=np):
    return lambda a, b, x: f(of, a, b, x)


def tapes(f):
    """The tape as it is, and as it was recorded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fdiff.transforms.pipeline.reroll_loops", lambda tape: tape)
        plain = fdiff.make_tape(bound(f), A, B, X)
    return module.reroll_loops(plain), plain


@pytest.mark.parametrize("f", ALIKE, ids=lambda f: f.__name__)
def test_equal_parts_are_computed_at_once(f):
    found, plain = tapes(f)
    verify(found)
    assert len(found) < len(plain) / 3
    assert not any(node.primitive.name == "concatenate" for node in found.nodes)
    assert found.input_types == plain.input_types
    assert found.output_types == plain.output_types
    assert any("test_loop_rerolling" in str(line) for at in found.lines.values() for line in at)


@pytest.mark.parametrize("f", DIFFERENT, ids=lambda f: f.__name__)
def test_other_parts_are_left_as_they_are(f):
    found, plain = tapes(f)
    assert found is plain


@pytest.mark.slow
@pytest.mark.parametrize("f", [*ALIKE, *DIFFERENT], ids=lambda f: f.__name__)
def test_values_and_derivatives(f):
    """Beside NumPy and JAX, interpreted, and compiled where anything has changed."""
    (found,) = evaluate(tapes(f)[0], A, B, X)
    want = f(np, A, B, X)
    np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-13)
    weights = np.cos(np.arange(want.size)).reshape(want.shape)

    def loss(a, b, x):
        return np.sum(weights * f(np, a, b, x))

    def loss_of_jax(a, b, x):
        return jax.numpy.sum(weights * f(jax.numpy, a, b, x))

    slopes = jax.grad(loss_of_jax, argnums=(0, 1, 2))(A, B, X)
    ours = fdiff.grad(loss, argnums=(0, 1, 2))
    for g in (ours, fdiff.jit(ours)) if f in ALIKE else (ours,):
        for got, true in zip(g(A, B, X), slopes, strict=True):
            np.testing.assert_allclose(got, true, rtol=1e-9, atol=1e-11)


def test_single_precision_and_infinities_stay():
    x = np.array([1.0, np.inf, -np.inf, np.nan, 0.0, 2.0, -1.0, 3.0], "f4")

    def f(x):
        return np.stack([np.exp(-x[k]) * x[k] for k in range(8)])

    with np.errstate(invalid="ignore"):
        want = f(x)
        (found,) = kernels.compile(fdiff.make_tape(f, x), ("C",))(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, want, rtol=1e-6)


def test_too_few_and_too_much(monkeypatch):
    few = module.FEWEST - 1
    tape = fdiff.make_tape(lambda a: np.stack([np.sin(a[k]) for k in range(few)]), A)
    assert any(node.primitive.name == "concatenate" for node in tape.nodes)
    monkeypatch.setattr(module, "MOST", 8 * K * N)
    found, plain = tapes(middle)
    assert found is plain


def entries(np, a, b, x):
    """Slices that are joined as they are, and one of them that all parts share."""
    v = a[:, 0]
    return np.stack([v[k] for k in range(K)]) * np.stack([np.sin(v[k]) - v[0] for k in range(K)])


def stored_in_a_number(np, a, b, x):
    s = empty(())
    for k in range(K):
        s = stored(np, s, (), 2 * a[k, 0])
    return s


@pytest.mark.parametrize("f", [entries, stored_in_a_number], ids=lambda f: f.__name__)
def test_places_without_axes_and_slices_alone(f):
    (found,) = evaluate(tapes(f)[0], A, B, X)
    np.testing.assert_allclose(found, f(np, A, B, X), rtol=1e-14)


def test_a_loop_over_components_is_as_long_for_any_number():
    lengths = set()
    for k in (8, 25):
        given = drawn(k), drawn(k, D), 0.2 * drawn(k, D), X
        lengths.add(len(fdiff.make_tape(styles.diag_loop, *given)))
    assert len(lengths) == 1


def test_steps_of_a_long_recurrence_are_not_alike():
    """Each is a part of the next: walked for as long as the op is the same, then given up."""
    steps = 3000

    def f(x):
        found = [x]
        for _ in range(steps):
            found.append(np.sin(found[-1]))
        return np.stack(found[1:])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fdiff.transforms.pipeline.reroll_loops", lambda tape: tape)
        tape = fdiff.make_tape(f, A[0])
    assert module.reroll_loops(tape) is tape
