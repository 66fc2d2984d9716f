"""Loops that store in place beside JAX: gradients, Hessians, products with them, jvp of grad."""

import jax
import numpy as np
import pytest
from second_order_loops import PROGRAMS, second_order

import fdiff

jax.config.update("jax_enable_x64", True)


def ours(f):
    slope = fdiff.grad(f)
    return lambda x: second_order(
        slope, fdiff.hessian(f),
        lambda x, v: (fdiff.hvp(f, x, v)[1], fdiff.jvp(slope, x, v)[1]), x,
    )  # fmt: skip


def theirs(program):
    f = program.of(jax.numpy, lambda n, step, carry: jax.lax.fori_loop(0, n, step, carry))
    slope = jax.grad(f)

    def product(x, v):
        return jax.jvp(slope, (x,), (v,))[1]

    return jax.jit(
        lambda x: second_order(slope, jax.hessian(f), lambda x, v: [product(x, v)] * 2, x)
    )(program.x)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_second_derivatives_beside_jax(name, monkeypatch):
    program = PROGRAMS[name]
    expected = [np.asarray(e) for e in theirs(program)]
    assert all(np.abs(e).max() > 1e-3 for e in expected)
    for way in ("unroll", "check"):
        monkeypatch.setenv("FDIFF_LOOPS", way)
        fdiff.cache_clear()
        loops = {i for i, _, _ in fdiff.make_tape(program.in_place, program.x).bodies()}
        assert len(loops) == (way == "check")
        for result, e in zip(ours(program.in_place)(program.x), expected, strict=True):
            np.testing.assert_allclose(result, e, rtol=1e-10, atol=1e-11 * np.abs(e).max())
