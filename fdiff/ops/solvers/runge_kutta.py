"""The steps of SciPy's explicit Runge-Kutta methods as a differentiable loop: what `solve_ivp` computed, again.

E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed., Springer 1993: section
II.4 for the methods, II.5 for `DOP853`, II.6 for values between steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import fdiff.intact_numpy as np
from fdiff.intact_scipy import integrate as si

from ...arraytype import F8, INT, ArrayType
from ...tape import Tape
from ...trace import Array, Trace, TracedArray, apply_many
from ...transforms.pipeline import VALUE, derive
from ..control.loop import LOOP
from .solver_arguments import number_types
from .traced_function import TracedFunction, constant_body

METHODS = {"RK23": si.RK23, "RK45": si.RK45, "DOP853": si.DOP853}
Right = Callable[[Array, Array], Array]


def _combined(stages: Sequence[Array], weights: np.ndarray) -> Array:
    """A combination of stages; stages of weight zero are left out."""
    total: Array | None = None
    for stage, weight in zip(stages, weights, strict=False):
        if weight:
            term = stage * float(weight)
            total = term if total is None else total + term
    assert total is not None
    return total


def _stages(f: Right, t: Array, y: Array, h: Array, method: type) -> tuple[list[Array], Array]:
    """The derivatives at the stages of one step, and the next state."""
    stages = [f(t, y)]
    for a, c in zip(method.A[1:], method.C[1:], strict=True):
        stages.append(f(t + float(c) * h, y + _combined(stages, a) * h))
    return stages, y + h * _combined(stages, method.B)


def _interpolating_coefficients(f: Right, t: Array, y: Array, h: Array, method: type) -> object:
    """Coefficients of the interpolating polynomial of a step (dense output): by power, or as DOP853 has them."""
    stages, new = _stages(f, t, y, h, method)
    stages.append(f(t + h, new))
    if method is not si.DOP853:
        return np.stack([_combined(stages, column) for column in method.P.T])
    for a, c in zip(method.A_EXTRA, method.C_EXTRA, strict=True):
        stages.append(f(t + float(c) * h, y + _combined(stages, a) * h))
    rise = new - y
    first = [rise, h * stages[0] - rise, 2 * rise - h * (stages[len(method.A)] + stages[0])]
    return np.stack([*first, *(h * _combined(stages, row) for row in method.D)])


def _interpolated_change(method: type, coefficients: TracedArray, x: TracedArray, h: Array) -> object:
    """The change of the state at the fraction `x` of each step, from the coefficients of `_interpolating_coefficients`."""
    x, h = x[:, None], h[:, None]
    count = coefficients.shape[1]
    out: object = 0.0
    if method is not si.DOP853:
        for k in range(count - 1, -1, -1):
            out = (out + coefficients[:, k]) * x
        return h * out
    for i in range(count):
        out = (out + coefficients[:, count - 1 - i]) * (x if i % 2 == 0 else 1 - x)
    return out


@lru_cache(maxsize=64)
def step(fun: TracedFunction, name: str, dense: bool) -> Tape:
    """One step as the body of a loop: ``(y, *extras, t, t_new) -> (y_new, *outs)``.

    NaN where the function takes a branch that has not been traced: SciPy's own run has looked.
    """
    method, state = METHODS[name], fun.tape.input_types[1]
    with Trace("solve_ivp", lines=False) as trace:
        y, *extras, t, new = [trace.input(x) for x in (state, *fun.tape.input_types[2:], *number_types(2))]

        def right(at: object, z: object) -> object:
            slope, holds = fun.spliced([at, z], extras)[0], fun.holds([at, z], extras)
            return slope if holds is None else np.where(holds, slope, np.nan)

        h = new - t
        ahead = _stages(right, t, y, h, method)[1]
        outs = [ahead, y, _interpolating_coefficients(right, t, y, h, method)] if dense else [ahead, ahead]
        return derive(VALUE, trace.builder.finish([*map(trace.lift, outs)]))


@lru_cache(maxsize=64)
def model(fun: TracedFunction, name: str, length: int, places: int | None) -> TracedFunction:
    """``(t0, tf, y0, [t_eval], *extras, times, count) -> states`` at the places, or at all steps.

    The times of the steps that SciPy accepted are constants, except for the first and the last.
    """
    own = [*number_types(2), fun.tape.input_types[1], *([ArrayType((places,), F8)] if places is not None else [])]
    extras = fun.tape.input_types[2:]

    def results(operands: list[TracedArray], _: list[TracedArray]) -> list[object]:
        t0, tf, y0 = operands[:3]
        shared, (times, count) = operands[len(own) : -2], operands[-2:]
        index = np.arange(length + 1)
        moving = np.where(index == 0, t0, np.where(index >= count, tf, times))
        body = step(fun, name, places is not None)
        loop = {"body": body, "carries": 1, "length": length, "reverse": False, "rows": 2}
        last, *outs = apply_many(LOOP, count, y0, *shared, moving[:-1], moving[1:], **loop)
        if places is None:
            return [np.where(index[:, None] <= count, np.concatenate([y0[None], outs[0]]), last)]
        ahead = np.where(tf >= t0, 1.0, -1.0)
        at = np.clip(np.searchsorted(ahead * times, ahead * operands[3]) - 1, 0, count - 1)
        h = (moving[1:] - moving[:-1])[at]
        x = (operands[3] - moving[at]) / h
        return [outs[0][at] + _interpolated_change(METHODS[name], outs[1][at], x, h)]

    return constant_body(results, [*own, *extras, ArrayType((length + 1,), F8), ArrayType((), INT)], [])
