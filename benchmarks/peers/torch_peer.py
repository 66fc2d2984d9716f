"""torch on the CPU in float64, eager, from NumPy and back without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

Function = Callable[..., object]
Array = np.ndarray

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)


def _on_floats(name: str) -> Function:
    """torch's function, which does not take Python floats; NumPy's, which does."""
    ours, theirs = getattr(torch, name), getattr(np, name)
    return lambda x: ours(x) if isinstance(x, torch.Tensor) else theirs(x)


class NAMESPACE:
    """The names that the cases use, where torch calls them otherwise."""

    pi = np.pi
    zeros, einsum, sum, diag = torch.zeros, torch.einsum, torch.sum, torch.diag
    linalg = torch.linalg
    exp, log, log1p, sqrt = map(_on_floats, ("exp", "log", "log1p", "sqrt"))
    sin, cos, tanh, arctan = map(_on_floats, ("sin", "cos", "tanh", "arctan"))

    @staticmethod
    def concatenate(parts, axis=0):
        return torch.cat(tuple(parts), dim=axis)

    @staticmethod
    def stack(parts, axis=0):
        return torch.stack(tuple(parts), dim=axis)

    @staticmethod
    def max(x, axis=None):
        return torch.amax(x, dim=axis if axis is not None else ())

    @staticmethod
    def cross(a, b):
        return torch.linalg.cross(a, b)


SPECIAL = {"erf": "torch"}


def constant(value: object) -> object:
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _numpy(f: Function) -> Function:
    """`f` from one or more NumPy arrays to one."""
    return lambda *args: f(*map(torch.from_numpy, args)).numpy()


def value_and_grad(f: Function, count: int) -> Function:
    def call(*args: Array):
        xs = [torch.from_numpy(x).requires_grad_() for x in args]
        out = f(*xs)
        slopes = [g.numpy() for g in torch.autograd.grad(out, xs)]
        return out.item(), slopes[0] if count == 1 else slopes

    return call


def jacobian(f: Function) -> Function:
    return _numpy(torch.func.jacfwd(f))


def fresh_jacobian(f: Function, data: Sequence[object]) -> Function:
    return lambda b: torch.func.jacfwd(lambda b: f(b, *data))(torch.from_numpy(b)).numpy()


def hessian(f: Function) -> Function:
    return _numpy(torch.func.hessian(f))


def hvp(f: Function) -> Function:
    """By two reverse passes, which is faster here than `torch.func.jvp` of the gradient."""
    return _numpy(lambda x, v: torch.autograd.functional.vhp(f, x, v)[1])


def vjp(f: Function) -> Function:
    def call(x: Array, v: Array):
        x = torch.from_numpy(x).requires_grad_()
        out = f(x)
        (slope,) = torch.autograd.grad(out, x, torch.from_numpy(v))
        return out.detach().numpy(), slope.numpy()

    return call
