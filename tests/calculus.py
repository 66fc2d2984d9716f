"""What a new op is held to: plain code, differences, and one mode against the other."""

import numpy as np

import fdiff


def check_calculus(f, *xs):
    """Value, dtype and shape of plain code; both modes against differences; second order too."""
    rng = np.random.default_rng(5)
    plain = np.asarray(f(*xs))
    weights, ways = rng.normal(size=plain.shape), tuple(rng.normal(size=x.shape) for x in xs)
    argnums = tuple(range(len(xs)))

    def total(*args):
        return np.sum(f(*args) * weights)

    def at(t):
        return tuple(x + t * v for x, v in zip(xs, ways, strict=True))

    out, pulled = fdiff.vjp(f, xs, weights)
    assert np.shape(out) == plain.shape
    assert out.dtype == plain.dtype
    np.testing.assert_allclose(out, plain, rtol=1e-11, atol=1e-12)
    slope = sum(np.sum(p * v) for p, v in zip(pulled, ways, strict=True))
    np.testing.assert_allclose(fdiff.jvp(total, xs, ways)[1], slope, rtol=1e-10, atol=1e-12)
    h = 2.0**-11
    coarse, fine = (
        (np.sum(f(*at(s)) * weights) - np.sum(f(*at(-s)) * weights)) / (2 * s) for s in (h, h / 2)
    )
    np.testing.assert_allclose(slope, (4 * fine - coarse) / 3, rtol=1e-7, atol=1e-7)
    grad = fdiff.grad(total, argnums=argnums)
    bent = fdiff.hvp(total, xs, ways)[1]
    for b, up, down in zip(bent, grad(*at(h / 16)), grad(*at(-h / 16)), strict=True):
        measured = (np.asarray(up) - down) / (h / 8)
        np.testing.assert_allclose(
            b, measured, rtol=2e-5, atol=2e-5 * max(1.0, np.max(np.abs(measured)))
        )
