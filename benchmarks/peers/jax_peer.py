"""JAX on the CPU in float64, jitted, results brought back to NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np

Function = Callable[..., object]

# A result that is wanted at once gains nothing from a thread of its own, which takes up to 30 µs.
jax.config.update("jax_cpu_enable_async_dispatch", False)

NAMESPACE = jax.numpy
SPECIAL = {"erf": "jax.scipy.special"}


def constant(value: object) -> object:
    """Integers stay NumPy's: under `jit` JAX's own could not decide which way a function goes."""
    floats = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return jax.numpy.asarray(value) if floats else value


def _numpy(f: Function) -> Function:
    """`f` jitted, from NumPy to NumPy."""
    jitted = jax.jit(f)
    return lambda *args: jax.tree.map(np.asarray, jitted(*args))


def value_and_grad(f: Function, count: int) -> Function:
    return _numpy(jax.value_and_grad(f, argnums=0 if count == 1 else tuple(range(count))))


def jacobian(f: Function) -> Function:
    return _numpy(jax.jacfwd(f))


def fresh_jacobian(f: Function, data: Sequence[object]) -> Function:
    """Not jitted: a jitted fresh lambda is compiled at each call, which takes longer."""
    return lambda b: np.asarray(jax.jacfwd(lambda b: f(b, *data))(b))


def hessian(f: Function) -> Function:
    return _numpy(jax.hessian(f))


def hvp(f: Function) -> Function:
    return _numpy(lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1])


def vjp(f: Function) -> Function:
    def product(x, v):
        out, pull = jax.vjp(f, x)
        return out, pull(v)[0]

    return _numpy(product)
