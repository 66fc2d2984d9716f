"""A stand-in for Knitro, which needs a licence: the functions of its Python package, over IPOPT.

Signatures and calls of callbacks are those of version 16.0 (`knitro/wrapper.py`): five arguments,
of which the request and the result have lists, and an integer that is returned.
"""

# ruff: noqa: N802 - Knitro's names

from types import SimpleNamespace

import ipyopt
import numpy as np

KN_DENSE = -1


def KN_new():
    return SimpleNamespace(lower=None, upper=None, calls=0)


def KN_add_vars(kc, nV):
    kc.n = nV
    return [*range(nV)]


def KN_add_cons(kc, nC):
    kc.m, kc.lower, kc.upper = nC, [-np.inf] * nC, [np.inf] * nC
    return [*range(nC)]


def KN_set_var_lobnds(kc, indexVars=None, xLoBnds=None):
    kc.low = xLoBnds


def KN_set_var_upbnds(kc, indexVars=None, xUpBnds=None):
    kc.high = xUpBnds


def KN_set_var_primal_init_values(kc, indexVars=None, xInitVals=None):
    kc.start = xInitVals


def KN_set_con_upbnds(kc, indexCons=None, cUpBnds=None):
    kc.upper = cUpBnds


def KN_add_eval_callback(kc, evalObj=None, indexCons=None, funcCallback=None):
    assert evalObj is True
    assert len(indexCons) == kc.m
    kc.values = funcCallback
    return "callback"


def _places(first, second):
    """As two tuples; Knitro wants both of one type."""
    assert type(first) is type(second)
    return tuple([tuple(map(int, places)) for places in (first, second)])


def KN_set_cb_grad(
    kc, cb, objGradIndexVars=None, jacIndexCons=None, jacIndexVars=None, gradCallback=None
):
    assert objGradIndexVars == KN_DENSE
    kc.slopes, kc.jac = gradCallback, _places(jacIndexCons, jacIndexVars)


def KN_set_cb_hess(kc, cb, hessIndexVars1=None, hessIndexVars2=None, hessCallback=None):
    kc.curvature, kc.hess = hessCallback, _places(hessIndexVars1, hessIndexVars2)
    assert all(row <= col for row, col in zip(*kc.hess, strict=True)), "the upper triangle"


def _asked(kc, function, x, **more):
    """What a callback writes to the lists of its result."""
    sizes = {"c": kc.m, "objGrad": kc.n, "jac": len(kc.jac[0]), "hess": len(kc.hess[0])}
    result = SimpleNamespace(obj=0.0, **{name: [0.0] * size for name, size in sizes.items()})
    request = SimpleNamespace(type=0, threadID=0, x=x.tolist(), vec=None, **more)
    assert function(kc, "callback", request, result, None) == 0
    assert {name: len(getattr(result, name)) for name in sizes} == sizes
    assert type(result.obj) is float
    return result


def KN_solve(kc):
    def filled(function, name):
        def fill(x, out):
            out[:] = getattr(_asked(kc, function, x), name)

        return fill

    def curvature(x, multipliers, factor, out):
        duals = [*multipliers.tolist(), *[0.0] * kc.n]
        out[:] = _asked(kc, kc.curvature, x, lambda_=duals, sigma=factor).hess

    ends = [np.clip(np.array(e), -2e19, 2e19) for e in (kc.low, kc.high, kc.lower, kc.upper)]
    problem = ipyopt.Problem(
        kc.n, ends[0], ends[1], kc.m, ends[2], ends[3], kc.jac, kc.hess,
        lambda x: _asked(kc, kc.values, x).obj, filled(kc.slopes, "objGrad"),
        filled(kc.values, "c"), filled(kc.slopes, "jac"), curvature,
        ipopt_options={"print_level": 0, "sb": "yes"},
    )  # fmt: skip
    kc.x, kc.optimum, kc.status = problem.solve(np.array(kc.start))
    return kc.status


def KN_get_solution(kc):
    return kc.status, kc.optimum, kc.x.tolist(), [0.0] * (kc.m + kc.n)
