# pyright: strict
"""What editors and type checkers are shown: checked by pyright and mypy in their strict modes."""

from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import fdiff

Array = NDArray[np.float64]
X: Array = np.array([1.0, 2.0])


def f(x: Array, scale: float = 1.0) -> float:
    return float(scale * np.sum(x**3))


def g(x: Array) -> Array:
    out: Array = np.sin(x) * x[0]
    return out


def pair(x: Array, y: Array) -> tuple[Array, Array]:
    return x * y, x + y


class Model:
    """A class with a decorated method."""

    rate = 2.0

    @fdiff.grad
    def loss(self, x: Array) -> float:
        return float(np.sum(x) * self.rate)

    def slope(self, x: Array) -> Array:
        found: Array = fdiff.grad(self.loss_of)(x)
        return found

    def loss_of(self, x: Array) -> float:
        return float(np.sum(x * x) * self.rate)


# Prepared functions take the arguments of the user's, by position and by name.
J = fdiff.jacobian(g)
H = fdiff.hessian(f)
assert_type(J(X), NDArray[Any])
assert_type(H(X, scale=2.0), NDArray[Any])
assert_type(fdiff.value_and_grad(f)(X, 2.0), tuple[Any, Any])
slope: Array = fdiff.grad(f)(X, scale=2.0)
several: tuple[Array, float] = fdiff.grad(f, argnums=(0, 1))(X, 2.0)
assert_type(fdiff.jit(g)(X), NDArray[np.float64])
rows: Array = fdiff.vmap(g)(np.ones((3, 2)))
nested: Array = fdiff.jacobian(fdiff.grad(f))(X)
mixed: Array = fdiff.jacrev(g)(X) + fdiff.jacfwd(g)(X)

# At once.
assert_type(fdiff.hessian(f, X).shape, tuple[Any, ...])
assert_type(fdiff.jacobian(g, X), NDArray[Any])
assert_type(fdiff.jacobian(g, [1.0, 2.0]), NDArray[Any])
blocks = fdiff.jacobian(pair, (X, X))
first: Array = blocks[0][1]
value, product = fdiff.hvp(f, X, X)
out, pulled = fdiff.vjp(g)(X, X)
same: Array = fdiff.stop_gradient(X)
assert_type(fdiff.hessian_diagonal(f, X), NDArray[Any])
diagonal: Array = fdiff.hessian_diagonal(f)(X)
flat, unravel = fdiff.ravel({"w": X})
again: dict[str, Array] = unravel(flat)
at, f_jvp = fdiff.linearize(g, X)

print(J.compile("f8[2]"), fdiff.__version__)
