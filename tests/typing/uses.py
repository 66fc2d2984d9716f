# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What editors and type checkers are shown: checked by pyright and mypy in their strict modes."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import fdiff
from fdiff.autograd import RecordedArray, tensor

Array = NDArray[np.float64]
X: Array = np.array([1.0, 2.0])


def f(x: Array, scale: float = 1.0) -> float:
    return float(scale * np.sum(x**3))


def g(x: Array) -> Array:
    out: Array = np.sin(x) * x[0]
    return out


def pair(x: Array, y: Array) -> tuple[Array, Array]:
    return x * y, x + y


def penalty(params: dict[str, Array], scale: float = 1.0) -> float:
    return float(scale * np.sum(params["w"] ** 2))


def square(t: float) -> float:
    return t * t


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
slope: Array = fdiff.grad(f)(X, scale=2.0)
several: tuple[Array, float] = fdiff.grad(f, argnums=(0, 1))(X, 2.0)
assert_type(fdiff.jit(g)(X), NDArray[np.float64])
rows: Array = fdiff.vmap(g)(np.ones((3, 2)))
nested: Array = fdiff.jacobian(fdiff.grad(f))(X)
mixed: Array = fdiff.jacrev(g)(X) + fdiff.jacfwd(g)(X)

# What comes out has the type of the point; further arguments are those of the function.
assert_type(fdiff.grad(f)(X), Array)
assert_type(fdiff.grad(f)(X, scale=2.0), Array)
assert_type(fdiff.grad(penalty)({"w": X}, scale=2.0), dict[str, Array])
assert_type(fdiff.grad(square)(1.0), np.float64)
assert_type(fdiff.grad(fdiff.grad(square))(1.0), np.float64)
assert_type(fdiff.value_and_grad(f)(X, 2.0), tuple[float, Array])
assert_type(fdiff.value_and_grad(penalty)({"w": X}), tuple[float, dict[str, Array]])
assert_type(fdiff.jacrev(g)(X), NDArray[Any])
assert_type(fdiff.jacfwd(g)(X), NDArray[Any])
assert_type(fdiff.jacobian(fdiff.grad(f))(X, scale=2.0), NDArray[Any])
assert_type(fdiff.vjp(g)(X, X), tuple[Array, Array])
assert_type(fdiff.jvp(g)(X, X), tuple[Array, Array])
assert_type(fdiff.hvp(f)(X, X, scale=2.0), Array)
assert_type(fdiff.vhp(f)(X, X), Array)
assert_type(fdiff.hessian_diagonal(f)(X, scale=2.0), Array)
assert_type(fdiff.vmap(g)(np.ones((3, 2))), NDArray[Any])
assert_type(fdiff.vmap(square)(np.ones(3)), NDArray[Any])
assert_type(fdiff.vmap(fdiff.grad(f))(np.ones((3, 2)), scale=2.0), NDArray[Any])
assert_type(fdiff.jit(fdiff.grad(f))(X, scale=2.0), Array)
assert_type(fdiff.jit(fdiff.grad(penalty))({"w": X}), dict[str, Array])
assert_type(fdiff.jit(fdiff.grad(square))(1.0), np.float64)
assert_type(fdiff.jit(fdiff.value_and_grad(f))(X), tuple[float, Array])
of_a_dict: dict[str, Array] = fdiff.grad(lambda p: p["w"].sum())({"w": X})
assert_type(fdiff.jacobian(np.sin)(X), NDArray[Any])
assert_type(fdiff.grad(f).compile("f8[2]")(X), Array)
assert_type(fdiff.grad(Model().loss_of)(X), Array)

# Wrong calls are found: each of these marks is needed.
fdiff.grad(f)(X, scael=2.0)  # type: ignore[call-overload]  # - found
fdiff.value_and_grad(f)(X, "two")  # type: ignore[call-overload]  # - found
fdiff.jacobian(f)(X, 1.0, 2.0)  # type: ignore[call-overload]  # - found
fdiff.hvp(f)(X, X, scael=2.0)  # type: ignore[call-arg]  # - found
fdiff.jit(f)()  # type: ignore[call-arg]  # - found

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
assert_type(at, Array)
assert_type(f_jvp, Callable[..., Array])
assert_type(fdiff.vjp(g, X, X), tuple[Array, Array])
assert_type(fdiff.jvp(g, X, X), tuple[Array, Array])
assert_type(fdiff.hvp(f, X, X), tuple[float, Array])

# Recorded arrays.
t, w = tensor(X, requires_grad=True), tensor(np.ones((2, 2)))
assert_type(t**2, RecordedArray)
assert_type(2.0 - t, RecordedArray)
assert_type(t @ w, RecordedArray)
assert_type(t @ X, RecordedArray)
assert_type(t > 0.0, RecordedArray)
assert_type(t == 0.0, RecordedArray)
assert_type(-t, RecordedArray)
assert_type(t[0], RecordedArray)
assert_type(t.sum(), RecordedArray)
assert_type(w.mean(axis=0, keepdims=True), RecordedArray)
assert_type(t.exp().reshape(2, 1).T, RecordedArray)
assert_type(list(t), list[RecordedArray])
assert_type(t.shape, tuple[int, ...])
assert_type(t.size + t.size(0), Any)
assert_type(t.grad, RecordedArray | None)
assert_type(t.detach().numpy(), NDArray[Any])
(t * t).sum().backward()
t += 1.0
assert_type(t, RecordedArray)
t.summ()  # type: ignore[attr-defined]  # - found

print(J.compile("f8[2]"), fdiff.__version__)
