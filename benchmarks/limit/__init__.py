"""The limit: each derivative of the cases written by hand in Numba, as an expert would.

One loop nest where one will do, no temporaries, outputs allocated in Python (the cheapest way to
call), reductions free to be reordered, the gradient of overlapping slices gathered, mathematical
functions that vectorise (`maths`), products of matrices and factorisations by BLAS and LAPACK.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

# Module and function, by the derivative and the function of the case.
KERNELS = {
    ("value_and_grad", "sum_of_squares"): ("sums", "squares_value_and_grad"),
    ("value_and_grad", "chain"): ("sums", "chain_value_and_grad"),
    ("value_and_grad", "black_scholes"): ("sums", "black_scholes_value_and_grad"),
    ("value_and_grad", "rosenbrock"): ("rosenbrock", "rosenbrock_value_and_grad"),
    ("hessian", "rosenbrock"): ("rosenbrock", "rosenbrock_hessian"),
    ("hvp", "rosenbrock"): ("rosenbrock", "rosenbrock_hvp"),
    ("value_and_grad", "bratu"): ("stencil", "bratu_value_and_grad"),
    ("value_and_grad", "logistic"): ("regression", "logistic_value_and_grad"),
    ("hessian", "logistic"): ("regression", "logistic_hessian"),
    ("value_and_grad", "mlp_loss"): ("network", "mlp_loss_value_and_grad"),
    ("jacobian", "mlp"): ("network", "mlp_jacobian"),
    ("jacobian", "dense"): ("network", "dense_jacobian"),
    ("value_and_grad", "lennard_jones"): ("molecule", "cluster_value_and_grad"),
    ("hessian", "lennard_jones"): ("molecule", "cluster_hessian"),
    ("value_and_grad", "gaussian_process"): ("process", "process_value_and_grad"),
    ("jacobian", "MGH10"): ("nist", "mgh10_jacobian"),
    ("jacobian", "Hahn1"): ("nist", "hahn_jacobian"),
    ("jacobian", "Gauss1"): ("nist", "gauss_jacobian"),
    ("jacobian", "ENSO"): ("nist", "enso_jacobian"),
    ("fresh_jacobian", "MGH10"): ("nist", "mgh10_jacobian"),
    ("fresh_jacobian", "Hahn1"): ("nist", "hahn_jacobian"),
    ("value_and_grad", "gmm"): ("mixture", "gmm_value_and_grad"),
    ("vjp", "bundle"): ("bundle", "bundle_vjp"),
    ("value_and_grad", "lstm"): ("sequence", "lstm_value_and_grad"),
    ("jacobian", "hand"): ("tracking", "hand_jacobian"),
}


def kernel(call: str, name: str) -> Callable[..., object]:
    """The kernel, of whose module nothing else is loaded."""
    module, function = KERNELS[call, name]
    return getattr(importlib.import_module(f".{module}", __package__), function)
