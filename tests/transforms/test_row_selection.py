"""Inputs that move a part of the program each; rows and entries read where they come from."""

import numpy as np
import pytest
import references
from numpy.testing import assert_allclose
from scipy import sparse
from tapes import tape_of, values

import fdiff
from fdiff.dispatch.program import Program
from fdiff.functional.operators.jit_programs import ValuePlan
from fdiff.tape import verify
from fdiff.transforms.sparsity.row_selection import rows_read

pytestmark = pytest.mark.usefixtures("one_interpreter")

A = np.random.default_rng(1).normal(size=(4, 3))
W = np.random.default_rng(2).uniform(0.5, 1.0, size=(12, 5))
FEW = np.array([3, 0, -1, 7])


def chain(x):
    """Fingers of two joints: what a joint turns depends on its own angles."""
    motions = []
    for k in range(5):
        first, second = (_turn(x[2 * k + j]) for j in range(2))
        motions += [first, first @ second]
    return np.einsum("vb,bij->vij", W[:, :5], np.stack(motions[1::2]))[FEW]


def _turn(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s], [s, c]])


def stored(x):
    u = np.zeros((4, 3))
    u[0] = x[:3] ** 2
    u[2:, 1:] = x[3:7].reshape(2, 2)
    u[1:3, :2] = x[5] * u[:2, :2]
    return u @ A.T + u[::2].sum()


def moved(x):
    u = np.concatenate([x[:2] * x[1], x[6:], 2.0 * x[2:4]])
    v = u[:6].reshape(2, 3).T - u[5:2:-1].reshape(3, 1)
    return np.where(v > 0.1, v, v**2) / np.exp(v[:1])


def mixed(x):
    """Ops that take all parts as one: a solve, sorted values, running sums."""
    m = np.eye(3) * 5.0
    m[0, 1:] = x[:2]
    m[2, 0] = x[4]
    return np.linalg.solve(m, A[:3]) @ np.cumsum(x[5:8]) + np.sort(x[2:5])


def factored(x):
    """An op of two outputs."""
    m = np.eye(2) * x[3:5] + np.array([[3.0, 0.5], [0.5, 1.0]])
    w, v = np.linalg.eigh(m)
    return w * x[0] + (v[:, 0] ** 2)


def overlapping(x):
    a, b = np.sin(x[:6]), np.cos(x[4:])
    return a[3:] + b[:3] - a[:3] * x[9], np.outer(a[1:3], b[2:4])


def unreached(x):
    u = np.zeros(8)
    u[2:4] = x[:2]
    return u[4:] + A[0, 0], u[:3] * x[2]


def half_unreached(x):
    """One of two operands of ops without a rule of their own moves with no seed, after all."""
    u = np.concatenate([x[:2], np.zeros(4)])
    return np.maximum(u[3:], x[4:7] - 0.5) + np.where(x[0] > 0, u[3:], x[1:4]), np.hypot(
        u[4:], x[2:4]
    )


CASES = (chain, stored, moved, mixed, factored, overlapping, unreached, half_unreached)
each = pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)


def taped(f, *args):
    """The tape of `f`, and what its inputs stand for."""
    variant, inputs = Program("make_tape", None, ValuePlan).trace(f, args, {})
    return variant.traced.tape, inputs


def flat(blocks, size):
    blocks = blocks if isinstance(blocks, tuple) else (blocks,)
    return np.concatenate(
        [b.toarray() if sparse.issparse(b) else b.reshape((-1, size)) for b in blocks]
    )


@each
def test_columns_are_those_of_all_seeds(f, rng):
    x = rng.uniform(0.2, 1.0, size=10)
    wanted = flat(fdiff.jacobian(f, mode="forward", chunk_size=3)(x), x.size)
    for options in ({}, {"sparse": True}):
        found = flat(fdiff.jacobian(f, mode="forward", **options)(x), x.size)
        assert_allclose(found, wanted, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("tier", ["interpret", "evaluate", "compile"])
@pytest.mark.parametrize("f", [chain, stored, unreached], ids=lambda f: f.__name__)
def test_columns_are_those_of_the_complex_step(f, tier, monkeypatch, rng):
    monkeypatch.setenv("FDIFF_TIER", tier)
    x = rng.uniform(0.2, 1.0, size=10)
    found = flat(fdiff.jacobian(f, mode="forward")(x), x.size)
    assert_allclose(found, references.jacobian(f, (x,), 0), rtol=1e-12, atol=1e-13)


def program(rng):
    """A function of random slices, stores, joins and products of a vector of 12."""
    steps = [(rng.integers(13), *rng.integers(0, 1 << 30, size=4)) for _ in range(12)]

    def f(x):
        pool = [x[:3], x[3:6], x[4:10], x[::4] * x[11]]
        for op, i, j, k, m in steps:
            u, v = pool[i % len(pool)], pool[j % len(pool)]
            pool.append(_step(op, u, v, k, m))
        return np.concatenate([np.ravel(p) for p in pool])

    return f


def _step(op, u, v, k, m):
    if op == 0:
        return u.reshape(-1)[k % 2 if u.size > 1 else 0 :: 1 + m % 2]
    if op == 1:
        return np.concatenate([u.reshape(-1)[: 2 + k % 5], np.sin(v.reshape(-1)[: 1 + m % 4])])
    if op == 2:
        w = np.zeros((3, 4))
        row = u.reshape(-1)[:2]
        w[k % 3, m % 3 : m % 3 + row.size] = row
        w[:2, k % 4] += v.reshape(-1)[0]
        return w
    if op == 3:
        flat = u.reshape(-1)
        return np.outer(flat[:3], v.reshape(-1)[:4])
    if op == 4:
        return u.reshape(u.shape[::-1]).T * (1.0 + 0.1 * k % 3)
    if op == 5:
        return u - v.reshape(-1)[:1]
    if op == 6:
        return A[:, : u.shape[0]] @ u if u.shape[0] <= 3 else u[::-1]
    if op == 7:
        return u.reshape(-1)[np.array([0, -1, 0, 1])] if u.size > 1 else u
    if op == 8:
        return np.hypot(u.reshape(-1)[:2], 0.5 + v.reshape(-1)[-2:][::-1])
    if op == 9:
        return np.cumsum(u, axis=-1)
    if op == 10:
        return np.where(np.arange(2) > k % 2, u.reshape(-1)[-2:], v.reshape(-1)[:2])
    if op == 11:
        return np.concatenate([np.zeros(3), u.reshape(-1)])[k % 3 : 5]
    return np.sum(u, axis=0, keepdims=True) / (2.0 + np.abs(v.reshape(-1)[0]))


@pytest.mark.parametrize("seed", range(80))
def test_columns_of_random_programs(seed):
    rng = np.random.default_rng(seed)
    f, x = program(rng), rng.uniform(0.2, 1.0, size=12)
    wanted = fdiff.jacobian(f, mode="forward", chunk_size=5)(x)
    found = fdiff.jacobian(f, mode="forward", sparse=True)(x)
    assert_allclose(found.toarray(), wanted, rtol=1e-12, atol=1e-13)


def test_no_product_is_taken_for_all_seeds(structures):
    fdiff.jacobian(chain, mode="forward")(np.ones(10))
    (found,) = structures
    sizes = [n.type.size for n in found.tape.nodes if n.primitive.name == "contract"]
    assert max(sizes) < 10 * 4 * 4


def test_seeds_that_do_not_reach_an_entry_are_no_factors_of_it():
    x = np.array([0.5, 2.0, 0.3, 0.4, 0.1, 0.2, 0.7, 0.8])

    def f(x):
        return np.stack([x[k] * np.full(3, np.inf if k == 1 else 2.0) for k in range(8)])

    found = fdiff.jacobian(f, mode="forward")(x)
    assert_allclose(found[1, :, 1], np.inf)
    assert not np.isnan(found).any()


# --- rows that are read -------------------------------------------------------------------------


PICKS = {
    "product": lambda w, m, c, k: (w @ m + c)[k],
    "both sides": lambda w, m, c, k: np.einsum("vb,vc->vbc", w, 2.0 * w)[k],
    "turned": lambda w, m, c, k: np.sum(np.exp((m.T @ w.T).T.reshape(12, 1, 3)), axis=1)[k],
    "rows twice": lambda w, m, c, k: (w @ m * np.sum(w, axis=1, keepdims=True))[k],
    "cut": lambda w, m, c, k: (w @ m)[:, 1:][k] - c[1:],
}


@pytest.mark.parametrize("f", PICKS.values(), ids=PICKS)
def test_rows_are_picked_before_they_are_computed(f, rng):
    args = W, rng.normal(size=(5, 3)), rng.normal(size=3), FEW
    tape = tape_of(f, *args)
    found = verify(rows_read(tape))
    assert all(
        12 not in n.type.shape for n in found.nodes if n.primitive.name in ("contract", "exp")
    )
    assert_allclose(values(found, *args)[0], f(*args), rtol=1e-14)


KEPT = {
    "read elsewhere too": lambda w, k: ((y := np.exp(w))[k], y),
    "more rows than there are": lambda w, k: np.exp(w)[np.concatenate([k, k, k])],
    "rows that meet": lambda w, k: np.cumsum(w, axis=0)[k],
    "nothing to compute": lambda w, k: w[::-1][k],
}


@pytest.mark.parametrize("f", KEPT.values(), ids=KEPT)
def test_what_else_is_read_stays(f, rng):
    w = rng.normal(size=(12, 12))
    tape = tape_of(f, w, FEW)
    found = rows_read(tape)
    first, *_ = values(verify(found), w, FEW)
    wanted = f(w, FEW)
    assert_allclose(first, wanted[0] if isinstance(wanted, tuple) else wanted, rtol=1e-14)
    assert found == tape


def test_what_all_rows_are_read_of_is_computed_for_all(rng):
    f = lambda w, k: (np.exp(w) @ np.exp(w).T)[k]
    args = rng.normal(size=(12, 5)), FEW
    found = verify(rows_read(tape_of(f, *args)))
    shapes = {n.primitive.name: n.type.shape for n in found.nodes}
    assert shapes["exp"] == (12, 5)
    assert shapes["contract"] == (4, 12)
    assert_allclose(values(found, *args)[0], f(*args), rtol=1e-14)


# --- entries that are read where they come from ---------------------------------------------------


def entries_stored(x):
    p = np.zeros((4, 3))
    p[0, :] = x[:3]
    p[1] = 1.0
    for k in range(3):
        p[2 + k % 2, k] = x[3 + k]
    p[3, -1] = np.exp(x[6])
    return p


def test_entries_read_of_an_array_they_were_stored_to_come_from_where_those_came_from():
    def f(x):
        p = entries_stored(x)
        return p[0], p[2][2], p[3, 1] * p[2][0], np.cos(p[3][0]), p[1] * x[0], p[3][1:]

    x = np.linspace(0.2, 1.4, 7)
    tape, inputs = taped(f, x)
    for mine, right in zip(values(verify(tape), *inputs), f(x), strict=True):
        assert_allclose(mine, right, rtol=1e-15)
    short, _ = taped(lambda x: f(x)[:5], x)
    assert not {"scatter_set", "update", "cos"} & {n.primitive.name for n in short.nodes}


def test_entries_stored_twice_are_the_last(rng):
    def f(x):
        u = np.zeros(4)
        u[np.array([1, 2, 1])] = x[:3]
        v = u[::-1].copy()
        u[2] = x[3]
        return v[2], v[1], u[2], u[0], v[1:3]

    x = rng.normal(size=4)
    tape, inputs = taped(f, x)
    for mine, right in zip(values(tape, *inputs), f(x), strict=True):
        assert_allclose(mine, right)


# --- indices that are numbers ---------------------------------------------------------------------


def climbed(x, parents):
    a = np.zeros((parents.size, 2))
    for k in range(parents.size):
        a[k] = x[k] if parents[k] == -1 else a[parents[k]] * x[k]
    return a


def test_an_index_the_trace_relies_on_anyway_is_a_number():
    x = np.arange(8.0).reshape(4, 2) + 1.0
    jac = fdiff.jacobian(climbed)
    for parents in np.array([[-1, 0, 1, 1], [-1, 0, 0, 2], [-1, -1, 1, 0], [-1, 0, 1, 1]]):
        found = jac(x, parents)
        moved = [
            (climbed(x + h, parents) - climbed(x - h, parents)) / 2.0
            for h in np.eye(8).reshape(8, 4, 2)  # exact: each entry is linear in each
        ]
        assert_allclose(found.reshape(8, 8), np.stack(moved, axis=-1).reshape(8, 8), rtol=1e-13)
    tape, _ = taped(climbed, x, parents)
    assert not any(node.primitive.name == "gather" for node in tape.nodes)
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        jac(x, np.array([-1, 0, 4, 1]))


def test_rows_of_parts_that_overlap():
    places, spans = np.array([0, 2, 1, 3, 3, 0]), ((0, 1), (0, 2), (0, 4))

    def f(t):
        total = np.zeros((4, 4))
        for k, (low, high) in enumerate(spans):
            a = np.zeros((4, 4))
            a[:, low:high] = t[k]
            total = total + a
        return total[places] * 2.0

    t = np.arange(1.0, 41.0)
    forward, reverse = (fdiff.jacobian(f, t, mode=mode) for mode in ("forward", "reverse"))
    np.testing.assert_array_equal(forward, reverse)
