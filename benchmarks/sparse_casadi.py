"""Programs of `benchmarks.sparse` in CasADi's symbols, and calls that compute their values.

The graphs are graphs of scalars (SX), which ran faster than graphs of matrices (MX) here. Values
go into an array of the caller's through CasADi's buffers, which is its fastest call.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import casadi as ca
import numpy as np
import scipy.sparse as sp

LARGEST = 100_000  # variables: a graph of a million takes minutes


def chain(x: Any) -> Any:
    return ca.sumsqr(10 * (x[1:] - x[:-1] ** 2)) + ca.sumsqr(1 - x[:-1])


def band(x: Any) -> Any:
    return chain(x) + ca.sum1(ca.sin(x[:-2] * x[2:]))


def brusselator(w: Any) -> Any:
    """Two species on a torus; the neighbours of a place are found by their numbers."""
    size = w.numel() // 2
    places = np.arange(size).reshape(math.isqrt(size), -1)
    near = [np.roll(places, s, axis).ravel().tolist() for s in (1, -1) for axis in (0, 1)]
    u, v = w[:size], w[size:]

    def flow(a: Any) -> Any:
        return sum((a[neighbour] for neighbour in near), -4 * a)

    reaction = u * u * v
    return ca.vertcat(1 + reaction - 4.4 * u + 0.1 * flow(u), 3.4 * u - reaction + 0.1 * flow(v))


def values_of(
    name: str, x: np.ndarray, expected: sp.csr_array, *, hessian: bool
) -> tuple[Callable[[], object], float]:
    """The call that computes the values at `x`, and the seconds to the first result.

    The result of the first call is compared with the matrix `expected`.
    """
    begin = time.perf_counter()
    w = ca.SX.sym("w", x.size)
    result = globals()[name](w)
    derivative = ca.hessian(result, w)[0] if hessian else ca.jacobian(result, w)
    function = ca.Function(name, [w], [derivative])
    out = np.empty(function.nnz_out(0))
    buffer, call = function.buffer()
    buffer.set_arg(0, memoryview(x))
    buffer.set_res(0, memoryview(out))
    call()
    cold = time.perf_counter() - begin
    starts, rows = function.sparsity_out(0).get_ccs()
    theirs = sp.csc_array((out, rows, starts), shape=expected.shape)
    difference = abs(theirs.tocsr() - expected).max()
    np.testing.assert_array_less(difference, 1e-9 * max(1.0, abs(expected).max()))
    return partial(_called, call, out, (function, buffer, x)), cold


def _called(call: Callable[[], None], out: np.ndarray, memory: object) -> np.ndarray:
    """The values; `memory` is what the call reads and writes, which CasADi does not keep alive."""
    call()
    return out
