"""Values of sparse derivatives are stored by slices that share loops, where they can."""

import numpy as np
import pytest

import fdiff
from fdiff.arraytype import ArrayType, disjoint
from fdiff.interpret import evaluate
from fdiff.kernels import compile as compiled
from fdiff.ops.shapes.view_ops import unslice
from fdiff.trace import Trace, apply
from fdiff.transforms.terms.slot_stores import stored_pieces


def split_slots(size, rng):
    """A few lists of slots, each once: runs of one step between each other, of several lengths."""
    step = int(rng.integers(1, 7))
    lists = [np.arange(k, size, step) for k in range(step)]
    lists = [s[int(rng.integers(0, 3)) : len(s) - int(rng.integers(0, 3))] for s in lists]
    if rng.random() < 0.5:  # some in another order, or at no distance in common
        k = int(rng.integers(0, step))
        lists[k] = rng.permutation(lists[k])
    if rng.random() < 0.5 and len(lists[0]) > 8:
        lists[0] = np.delete(lists[0], [1, len(lists[0]) // 2])
    return [s for s in lists if len(s) and rng.random() < 0.9]


def sum_of_windows(x, n, rng):
    """`n` values: a sum of parts of `x` with zeros around them, now and then of `x` itself."""
    total = None
    for _ in range(int(rng.integers(1, 4))):
        low, high = np.sort(rng.integers(0, n + 1, 2)) if rng.random() < 0.5 else (0, n)
        low = min(int(low), 2) if rng.random() < 0.7 else int(low)
        high = max(int(high), n - 2, low) if rng.random() < 0.7 else max(int(high), low)
        part = x[low:high] * rng.normal()
        part = apply(unslice, part, starts=(low,), steps=(1,), shape=(n,)) if high > low else x[:n]
        total = part if total is None else total + part
    return total


@pytest.mark.parametrize("seed", range(60))
def test_stored_values_are_in_their_slots(seed):
    """By NumPy as by kernels: each list in its slots, whatever lies between them stays."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 120))
    slots = split_slots(size, rng)
    x = rng.normal(size=size)
    with Trace("jacobian", lines=False) as trace:
        (node,) = [trace.input(ArrayType((size,), x.dtype))]
        values = [sum_of_windows(node, len(s), rng) for s in slots]
        data = stored_pieces(np.full(size, 7.0), list(zip(values, slots, strict=True)))
        tape = trace.builder.finish([trace.lift(v) for v in [data, *values]])
    out, *parts = evaluate(tape, x)
    expected = np.full(size, 7.0)
    for part, slot in zip(parts, slots, strict=True):
        expected[slot] = part
    np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-13)
    if seed % 4 == 0:
        np.testing.assert_allclose(compiled(tape, ("C",))(x)[0], expected, rtol=1e-13)


def test_disjoint_slices_never_meet(rng):
    """Slices said to have nothing in common have nothing; short ones are always told."""
    for _ in range(2000):
        n, m = rng.integers(0, 12, 2).tolist()
        start, begin = rng.integers(0, 30, 2).tolist()
        step, stride = (rng.integers(1, 6, 2) * rng.choice([-1, 1], 2)).tolist()
        first = {start + k * step for k in range(n)}
        second = {begin + k * stride for k in range(m)}
        apart = first.isdisjoint(second)
        told = disjoint(n, start, step, m, begin, stride)
        assert not told or apart
        assert told == apart or min(n, m) > 8


def chain(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def band(x):
    return chain(x) + np.sum(np.sin(x[2:] * x[:-2]))


@pytest.mark.parametrize("f", [chain, band])
@pytest.mark.parametrize("n", [60, 1000])
def test_bands_are_stored_in_one_loop(f, n):
    """All diagonals of a Hessian are stored by one loop, and no zeros below them."""
    x = np.linspace(0.5, 1.5, n)
    values = fdiff.hessian(f, sparse=True).data
    text = fdiff.source(values, x)
    body = text.split("def kernel")[1]
    nests = [nest for nest in body.split("    # ") if "for i0 in range" in nest]
    width = {chain: 3, band: 5}[f]
    assert next(nest.count("out0[") for nest in nests if "out0[" in nest) == width
    assert "= 0.0" not in body
    assert "np.float64(0)" not in body
    if f is chain:
        assert len(nests) == 1
        assert "work[" not in text
    rows, cols = fdiff.hessian(f, sparse=True).coordinates(x)
    np.testing.assert_allclose(values(x), fdiff.hessian(f)(x)[rows, cols], rtol=1e-13)
