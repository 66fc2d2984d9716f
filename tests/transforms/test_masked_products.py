"""Products with masked operands: masks are moved, weights not copied, the numbers the same."""

import re

import jax
import numpy as np
import pytest

import fdiff
from fdiff import kernels
from fdiff.interpret import evaluate
from fdiff.kernels.ir.small_sizes import small_sizes
from fdiff.tape import verify
from fdiff.transforms.pipeline import TO_GRAPH, derive

jax.config.update("jax_enable_x64", True)

ROWS, INNER, HIDDEN, OUTPUTS = 6, 9, 11, 5


def drawn(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def with_masks_moved(tape):
    """The tape as a kernel graph is made of it."""
    return derive(TO_GRAPH, tape, small_sizes=small_sizes)


# --- the numbers of a product, whatever stands behind the mask -----------------------------------

# The mask has the axes of `m`, the weights those of `w`, the other operand those of `a`.
PRODUCTS = ["sai,si,ij->saj", "sia,si,ij->saj", "sai,si,ji->saj", "sai,si,ji->jsa", "sa,sa,ab->sb",
            "tsai,si,tij->tsaj", "sai,a,ij->saj", "sai,sai,ij->saj", "ais,si,ij->saj"]  # fmt: skip
ODD = [np.inf, -np.inf, np.nan, 0.0, -0.0]


def masked_product(subscripts, *, swapped):
    inputs, out = subscripts.split("->")
    a, m, w = inputs.split(",")
    both = "".join(dict.fromkeys(m + w))
    places = [[slice(None) if x in own else None for x in both] for own in (m, w)]
    order = [sorted(own, key=both.index) for own in (m, w)]

    def f(np, x, mask, weights):
        axes = [[own.index(k) for k in kept] for own, kept in zip((m, w), order, strict=True)]
        wide = np.transpose(mask, axes[0])[tuple(places[0])]
        other = np.transpose(weights, axes[1])[tuple(places[1])]
        there = np.where(wide > 0, other, 0.0)
        if swapped:
            return np.einsum(f"{both},{a}->{out}", there, x)
        return np.einsum(f"{a},{both}->{out}", x, there)

    return f, (a, m, w)


def operands(labels, size, dtype):
    """Arrays with a few entries that are not finite, or zeros of either sign."""
    rng = np.random.default_rng(size)
    sizes = dict(zip("stabij", (size, 5, size - 2, size + 1, size + 3, size + 5), strict=True))
    out = []
    for own in labels:
        x = rng.normal(size=[sizes[k] for k in own]).astype(dtype)
        odd = rng.random(x.shape) < min(0.05, 6 / x.size)
        x[odd] = rng.choice(ODD, odd.sum())
        out.append(x)
    out[1] = np.where(rng.random(out[1].shape) < 0.4, -1, 1).astype(dtype)
    return out


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("subscripts", PRODUCTS)
def test_what_is_not_finite(subscripts, swapped):
    """A kernel for all sizes (rows, blocks, BLAS): the numbers of the product of masked copies."""
    f, labels = masked_product(subscripts, swapped=swapped)
    for dtype in ("f8", "f4") if not swapped else ("f8",):
        for size in (7, 12, 24):
            x, mask, weights = operands(labels, size, dtype)
            tape = fdiff.make_tape(lambda *xs: f(np, *xs), x, mask, weights)
            verify(with_masks_moved(tape))
            executable = kernels.compile(tape, ("C",) * 3)
            with np.errstate(all="ignore"):
                (want,) = evaluate(tape, x, mask, weights)
                (found,) = executable(x, mask, weights)
                (moved,) = evaluate(with_masks_moved(tape), x, mask, weights)
            assert not np.isfinite(want).all()
            assert np.isfinite(want).any()
            tolerance = (
                {"rtol": 1e-4, "atol": 1e-4} if dtype == "f4" else {"rtol": 1e-11, "atol": 1e-11}
            )
            np.testing.assert_allclose(found, want, **tolerance)
            hidden = ~np.isfinite(moved) & np.isfinite(want)
            assert "masked" not in executable.source or hidden.any()  # the routine had work to do


def test_all_of_these_are_moved():
    for subscripts in PRODUCTS:
        f, labels = masked_product(subscripts, swapped=False)
        tape = fdiff.make_tape(lambda *xs, f=f: f(np, *xs), *operands(labels, 12, "f8"))
        assert with_masks_moved(tape) is not tape


@pytest.mark.parametrize(
    "subscripts", ["ai,ij,ij->aj", "sai,si,i->sa", "sa,sa,a->sa", "si,ai,ij->saj"]
)
def test_others_are_left(subscripts):
    """No weights without an axis of the mask, no product of matrices, no such axis in the other."""
    f, labels = masked_product(subscripts, swapped=False)
    tape = fdiff.make_tape(lambda *xs: f(np, *xs), *operands(labels, 12, "f8"))
    assert with_masks_moved(tape) is tape


# --- networks: a batch of Jacobians, however a unit is switched off ------------------------------


def stored(h):
    h = h.copy()
    h[h < 0] = 0.0
    return h


UNITS = {
    "where": lambda np, h: np.where(h > 0, h, 0.0),
    "other branch": lambda np, h: np.where(h <= 0, 0.0, h),
    "clip": lambda np, h: np.clip(h, 0, None),
    "leaky": lambda np, h: np.where(h > 0, h, 0.01 * h),
    "elu": lambda np, h: np.where(h > 0, h, np.exp(np.minimum(h, 0)) - 1),
    "maximum": lambda np, h: np.maximum(h, 0),
    "product": lambda np, h: h * (h > 0),
    "stored": lambda module, h: stored(h) if module is np else module.where(h < 0, 0.0, h),
}
STACK = (
    r"rt\.call\d+\(ints\[\d+\](?:, (?:\w+|rt\.offset\(.+?\))){3}, (.+?), "  # behind three arrays
)


def network(np, unit, x, v, b, w):
    return unit(np, unit(np, x @ v + b) @ w) @ v[:INNER, :OUTPUTS]


def parameters():
    v, w = drawn(INNER, HIDDEN) / 3, drawn(HIDDEN, INNER) / 3
    return drawn(ROWS, INNER), v, drawn(HIDDEN), w


@pytest.mark.parametrize("name", UNITS)
def test_a_batch_is_one_product(name):
    """Beside JAX; each product is one of matrices, and no weights are copied for each row."""
    given, unit = parameters(), UNITS[name]
    f = fdiff.vmap(
        fdiff.jacobian(lambda *xs: network(np, unit, *xs)), in_axes=(0, None, None, None)
    )
    compiled = fdiff.jit(f)
    g = jax.vmap(
        jax.jacrev(lambda *xs: network(jax.numpy, unit, *xs)), in_axes=(0, None, None, None)
    )
    np.testing.assert_allclose(compiled(*given), g(*given), rtol=1e-10, atol=1e-12)
    stacks = re.findall(STACK, fdiff.source(f, *given))
    assert len(stacks) >= 4
    assert set(stacks) == {"1"}


@pytest.mark.parametrize("name", ["where", "other branch", "clip", "stored"])
def test_an_infinite_weight_of_a_unit_that_is_off(name):
    """Off for all rows, or for some; where it is on, what depends on it is not finite."""
    x, v, b, w = parameters()
    unit = UNITS[name]
    f = fdiff.vmap(
        fdiff.jacobian(lambda *xs: network(np, unit, *xs)), in_axes=(0, None, None, None)
    )
    b[2], infinite = -50.0, v.copy()
    infinite[3, 2] = -np.inf  # never on
    x[:, 3] = 1.0
    expected = f(x, np.where(np.isfinite(infinite), infinite, 0.0), b, w)
    infinite[4, 5], x[:, 4] = -np.inf, [1.0, 1.0, -1.0, 1.0, -1.0, 1.0]  # on in two rows
    off = x[:, 4] > 0
    for g in (f, fdiff.jit(f)):
        with np.errstate(all="ignore"):
            found = g(x, infinite, b, w)
        assert np.isfinite(found[off]).all()
        assert not np.isfinite(found[~off]).all(axis=(1, 2)).any()
    assert np.isfinite(expected).all()
