"""Random programs of loops and branches beside JAX: values, both modes, first and second order."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from faults_support import LONG

import fdiff

jax.config.update("jax_enable_x64", True)
OURS = SimpleNamespace(
    scan=fdiff.scan, fori=fdiff.fori_loop, loop=fdiff.while_loop, cond=fdiff.cond,
    switch=fdiff.switch, np=np,
)  # fmt: skip
THEIRS = SimpleNamespace(
    scan=jax.lax.scan, fori=jax.lax.fori_loop, loop=jax.lax.while_loop, cond=jax.lax.cond,
    switch=jax.lax.switch, np=jnp,
)  # fmt: skip


def elementwise(lib, c, s, x, w):
    return lib.np.sin(c * w + x) + 0.1 * s, s + lib.np.sum(c * x)


def mixing(lib, c, s, x, w):
    return lib.np.tanh(lib.np.outer(w, x) @ c) * s, lib.np.cos(s) + c[0]


def branching(lib, c, s, x, w):
    new = lib.cond(s > lib.np.sum(x), lambda c: c * lib.np.sqrt(1 + s * s), lambda c: c - w * s, c)
    return new, s * 0.9 + new[1]


def choosing(lib, c, s, x, w):
    ways = [lambda c: c * x, lambda c: lib.np.exp(-c * c), lambda c: c + lib.np.sum(w)]
    return lib.switch(lib.np.argmax(c), ways, c), lib.np.sin(s)


def looping(lib, c, s, x, w):
    return c, lib.fori(0, 3, lambda i, s: lib.np.sin(s * w[i]) + x[i] * c[2 - i], s)


def scanning(lib, c, s, x, w):
    inner = lambda state, e: (state * lib.np.cos(e) + s * w, state[0] * e)
    c, ys = lib.scan(inner, c, x)
    return c, lib.np.sum(ys * w)


def halving(lib, c, s, x, w):
    far = lambda state: lib.np.sum(state[0] ** 2) > 0.5
    c, s = lib.loop(far, lambda state: (state[0] * 0.6, lib.np.sin(state[1] + state[0][0])), (c, s))
    return c + w * x, s


STEPS = [elementwise, mixing, branching, choosing, looping, scanning, halving]


def program(seed):
    """A scan of one to three of these steps, forwards or backwards, and what is read of it."""
    rng = np.random.default_rng(seed)
    steps = rng.choice(len(STEPS), size=rng.integers(1, 4))
    reverse, kept = bool(rng.integers(2)), rng.integers(3)

    def f(lib, p):
        w, xs = p[:3], lib.np.reshape(p[3:], (-1, 3))

        def body(carry, x):
            c, s = carry
            for k in steps:
                c, s = STEPS[k](lib, c, s, x, w)
            return (c, s), (c * x, s) if kept else None

        (c, s), ys = lib.scan(body, (lib.np.ones(3) * p[0], p[1] * p[2]), xs, reverse=reverse)
        out = lib.np.sum(c) * s
        if kept == 1:
            return out + lib.np.sum(ys[0]) * ys[1][-1]
        return lib.np.sum(ys[0] ** 2) if kept else out

    return f, rng.normal(size=3 + 3 * int(rng.integers(1, 4)))


@pytest.mark.parametrize("seed", range(300 if LONG else 3))
def test_random_programs(seed):
    f, p = program(seed)
    ours, theirs = (lambda p: f(OURS, p)), jax.jit(lambda p: f(THEIRS, jnp.asarray(p)))
    gradient = jax.jit(jax.jacfwd(theirs))
    expected = theirs(p), gradient(p), jax.jit(jax.jacfwd(gradient))(p)
    found = [ours(p), fdiff.jit(ours)(p)]
    slopes = [fdiff.grad(ours)(p), fdiff.jacfwd(ours)(p)]
    curvatures = [fdiff.hessian(ours)(p), fdiff.jacrev(fdiff.grad(ours))(p)]
    mapped = fdiff.vmap(fdiff.grad(ours))(np.stack([p, p / 2]))
    slopes.append(mapped[0])
    np.testing.assert_allclose(mapped[1], gradient(p / 2), rtol=1e-9, atol=1e-11)
    for group, reference in zip((found, slopes, curvatures), expected, strict=True):
        scale = np.max(np.abs(reference), initial=1e-3)
        for result in group:
            np.testing.assert_allclose(result, reference, rtol=1e-11, atol=1e-12 * scale)
