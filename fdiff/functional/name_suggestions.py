"""Names that users of other libraries look for in `fdiff`, and what stands for them here."""

from __future__ import annotations

_WAYS = {
    "numpy": "Write `import numpy as np`: fdiff differentiates functions of NumPy itself.",
    "scipy": "Write `import scipy`: fdiff differentiates functions of SciPy itself.",
    "lax": "Write Python's `if`, `for` and `x[i] = y`: fdiff differentiates them.",
    "random": "Draw numbers with `numpy.random`.",
    "nn": "fdiff has no layers of neural networks: use JAX or PyTorch.",
    "tree_util": "Arguments may be nested: see `fdiff.register_pytree` and `fdiff.ravel`.",
    "flatten_util": "Write `fdiff.ravel(params)`.",
    "make_jaxpr": "Write `fdiff.make_tape(f, x)`.",
    "elementwise_grad": "Write `fdiff.grad(lambda x: np.sum(f(x)))`.",
    "sparse_jacobian": "Write `fdiff.jacobian(f, sparse=True)`.",
    "sparse_hessian": "Write `fdiff.hessian(f, sparse=True)`.",
    "derivative": "Write `fdiff.grad(f)`.",
    "gradient": "Write `fdiff.grad(f)`.",
    "hessian_vector_product": "Write `fdiff.hvp(f)(x, v)`.",
    "make_hvp": "Write `fdiff.hvp(f)(x, v)`.",
    "make_vjp": "Write `fdiff.vjp(f)(x, v)`.",
    "make_jvp": "Write `fdiff.jvp(f)(x, v)`.",
    "jtimes": "Write `fdiff.jvp(f)(x, v)`.",
    "checkpoint_policies": "Write `fdiff.checkpoint(f)`.",
    "remat": "Write `fdiff.checkpoint(f)`.",
    "pmap": "Write `fdiff.vmap(f)`; threads share large loops.",
    "device_put": 'Write `fdiff.jit(f, device="cuda")`.',
    "tensor": "Write `fdiff.autograd.tensor(data)`.",
    "Tensor": "Write `fdiff.autograd.RecordedArray`.",
    "no_grad": "Write `fdiff.autograd.no_grad()`.",
    "enable_grad": "Write `fdiff.autograd.enable_grad()`.",
    "backward": "Write `y.backward()` for a recorded array `y`: see `fdiff.autograd`.",
}


def missing(name: str) -> AttributeError:
    """The error for a name that `fdiff` does not have, with the way out if one is known."""
    fact = f"module 'fdiff' has no attribute {name!r}"
    return AttributeError(f"{fact}. {_WAYS[name]}" if name in _WAYS else fact, name=name)
