"""The limit: each derivative of the cases written by hand in Numba, as an expert would.

One loop nest where one will do, no temporaries, outputs allocated in Python (the cheapest way to
call), reductions free to be reordered, the gradient of overlapping slices gathered. Mathematical
functions are `math`'s: an expert who writes vectorised polynomials would do better still.
"""

from .bundle import bundle_vjp
from .mixture import gmm_value_and_grad
from .nist import gauss_jacobian, hahn_jacobian, mgh10_jacobian
from .rosenbrock import rosenbrock_hessian, rosenbrock_hvp, rosenbrock_value_and_grad
from .sums import chain_value_and_grad, squares_value_and_grad

# By the derivative and the function of the case.
KERNELS = {
    ("value_and_grad", "sum_of_squares"): squares_value_and_grad,
    ("value_and_grad", "chain"): chain_value_and_grad,
    ("value_and_grad", "rosenbrock"): rosenbrock_value_and_grad,
    ("value_and_grad", "gmm"): gmm_value_and_grad,
    ("vjp", "bundle"): bundle_vjp,
    ("hessian", "rosenbrock"): rosenbrock_hessian,
    ("hvp", "rosenbrock"): rosenbrock_hvp,
    ("jacobian", "MGH10"): mgh10_jacobian,
    ("jacobian", "Hahn1"): hahn_jacobian,
    ("jacobian", "Gauss1"): gauss_jacobian,
    ("fresh_jacobian", "MGH10"): mgh10_jacobian,
    ("fresh_jacobian", "Hahn1"): hahn_jacobian,
}
