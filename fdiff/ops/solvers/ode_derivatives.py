"""Initial value problems as ops, and their derivatives.

Explicit Runge-Kutta methods: the derivative of the steps that SciPy accepted, a loop, in both modes; in reverse this is the
discrete adjoint (E. Hairer, S. P. Norsett, G. Wanner, "Solving Ordinary Differential Equations I", 2nd ed., Springer
1993, section I.14). Other methods (``BDF``, ``Radau``, ``LSODA``, ``odeint``): the variational equations for the
sensitivities of the solution, integrated by the same method with the same tolerances.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import fdiff.intact_numpy as np
from fdiff.intact_scipy import integrate as si

from ...arraytype import F8, ArrayType
from ...errors import ConvergenceError
from ...primitive import ZERO, LateParams, Primitive, Sample, Zero
from ...trace import Array, TracedArray, apply
from .exit_status import solver_op
from .runge_kutta import METHODS, model
from .solver_arguments import CallSite, number_types
from .solver_call import SOLVERS, SolverCall, evaluate, infer
from .traced_function import UntracedBranch, constant_body
from .variational_equations import (
    by_blocks,
    fields,
    right_side,
    sample_arrays,
    sample_call,
    variations,
    whole,
)

Arrays = Sequence[TracedArray]


class MoreSteps(UntracedBranch):
    """The solver takes more steps than the tape has rows for; the tape is then made again."""

    def __init__(self) -> None:
        Exception.__init__(self)


# --- SciPy's functions, with results as mappings ------------------------------------------------


def _solve_ivp(
    fun: object, t0: float, tf: float, y0: np.ndarray, t_eval: object = None, *,
    method: str, length: int, copies: int = 1, **options: object,
) -> dict[str, object]:
    steps = [t0]
    options.pop("vectorized", None)  # which the user's function may be, and what was traced for one state is not

    class StepRecorder(getattr(si, method)):
        """The method, which records the times of the steps that it accepts."""

        def step(self) -> object:
            message = super().step()
            if self.status != "failed":
                steps.append(self.t)
            return message

    kind = StepRecorder if method in METHODS else method
    if copies > 1:
        matrix = options.pop("jac")
        if method == "LSODA":
            options["jac"] = whole(matrix, copies)
        else:
            kind = by_blocks(getattr(si, method), matrix, copies)
    solution = si.solve_ivp(fun, (t0, tf), y0, kind, t_eval, **options)
    if not solution.success:
        raise ConvergenceError(f"scipy.integrate.solve_ivp stopped at t = {steps[-1]!r}: {solution.message}")
    steps, rows = steps if method in METHODS else list(solution.t), solution.y.T
    room = length + 1 - len(steps)
    if length < 0:
        return {**solution, "t": np.array(steps), "y": rows, "count": len(steps) - 1}
    if room < 0 or (room and method not in METHODS):
        raise MoreSteps
    if t_eval is None:  # the last step is repeated
        rows = np.concatenate([rows, np.repeat(rows[-1:], room, axis=0)])
    return {**solution, "t": np.concatenate([steps, np.full(room, steps[-1])]), "y": rows, "count": len(steps) - 1}


def _odeint(fun: object, y0: np.ndarray, t: np.ndarray, *, copies: int = 1, **options: object) -> dict[str, object]:
    if copies > 1:
        options["Dfun"] = whole(options["Dfun"], copies)
    y, about = si.odeint(fun, y0, t, tfirst=True, full_output=True, **options)
    if about["message"] != "Integration successful.":
        raise ConvergenceError(f"scipy.integrate.odeint stopped: {about['message']}")
    return {
        "t": np.zeros(0), "y": y, "count": 0, "nfev": about["nfe"][-1], "njev": about["nje"][-1], "nlu": 0, "success": True, "status": 0,
    }


SOLVERS["scipy.integrate.solve_ivp"] = _solve_ivp
SOLVERS["scipy.integrate.odeint"] = _odeint

# --- explicit Runge-Kutta methods: the derivative of the accepted steps ---------------------------


def _model_args(args: Arrays, outs: Arrays, call: SolverCall) -> list[TracedArray]:
    return [*args, outs[0], outs[call.place("count")]]


def _steps_jvp(dots: Sequence[object], args: Arrays, outs: Arrays, *, call: SolverCall, mode: str) -> list[object]:
    moving = [k for k, dot in enumerate(dots) if dot is not ZERO]
    assert call.model is not None
    pushforward = call.model.pushforward(moving)
    dot = pushforward.spliced([*_model_args(args, outs, call), *(dots[k] for k in moving)], [])[0]
    return [ZERO, dot, *[ZERO] * (len(outs) - 2)]


def _steps_vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, call: SolverCall, mode: str) -> list[object]:
    if bars[1] is ZERO:
        return [ZERO] * len(args)
    floating, model = [k for k, x in enumerate(args) if x.type.floating], call.model
    assert model is not None

    @cache  # one sweep for all arguments
    def cotangents() -> list[TracedArray]:
        return model.cotangents(floating).spliced([*_model_args(args, outs, call), bars[1]], [])

    return [partial(lambda k: cotangents()[floating.index(k)], k) if k in floating else ZERO for k in range(len(args))]


# --- all other methods: the variational equations -------------------------------------------------


def _roles(call: SolverCall, args: Arrays, outs: Arrays) -> tuple[TracedArray, TracedArray, int | None]:
    """The initial time, the times of the rows, and the index of the argument that gives these (or None)."""
    names = call.starts
    if "t" in names:  # odeint
        k = names.index("t")
        return args[k][0], args[k], k
    if "t_eval" in names:
        k = names.index("t_eval")
        return args[0], args[k], k
    return args[0], outs[0], None


def _states(call: SolverCall, outs: Arrays) -> TracedArray:
    return outs[call.place("y")]


class _Solution:
    """A solution of an initial value problem, with its arguments by their roles."""

    def __init__(self, call: SolverCall, args: Arrays, outs: Arrays) -> None:
        self.call, self.args, self.outs = call, args, outs
        self.count, self.y0 = len(call.starts), call.starts.index("y0")
        self.y, self.extras = _states(call, outs), args[len(call.starts) :]
        self.first, self.times, self.which = _roles(call, args, outs)
        self.by_span = "t" not in call.starts  # the interval is (t0, tf), and not given by the times

    def _slope(self, t: TracedArray, y: TracedArray) -> TracedArray:
        """The right-hand side at one time."""
        return self.call.bodies[0].spliced([t, y], self.extras)[0]

    def first_slope(self) -> TracedArray:
        return self._slope(self.first, self.args[self.y0])

    def last_slope(self) -> TracedArray:
        return self._slope(self.args[1], self.y[-1])

    def slopes(self) -> TracedArray:
        """The right-hand side at the times of all rows."""
        mapped = [True, True, *[False] * len(self.extras)]
        return self.call.bodies[0].batched(mapped, self.times.shape[0]).spliced([self.times, self.y], self.extras)[0]

    def sensitivities(self, start: Array, tangents: dict[int, object], directions: int) -> TracedArray:
        """Derivatives of the states in some directions: (rows, directions, n).

        `start` are the tangents of the first state, `tangents` the extras', with the directions in front.
        """
        starts = [*self.args[: self.count], *([] if self.which is not None else [self.outs[0]])]  # at the steps of the plain run
        begin = np.reshape(start, (directions, self.args[self.y0].size))
        operands = [*starts, *self.extras, begin, *tangents.values()]
        return apply(variations, *operands, call=self.call, rows=self.y.shape[0], wrt=tuple(tangents))


def _smooth_jvp(dots: Sequence[Array | Zero], args: Arrays, outs: Arrays, *, call: SolverCall, mode: str) -> list[object]:
    solution = _Solution(call, args, outs)
    when = ZERO if solution.which is None else dots[solution.which]
    tangents = {k: dot[None] for k, dot in enumerate(dots[solution.count :]) if dot is not ZERO}
    out = solution.sensitivities(_start_dot(solution, dots, when), tangents, 1)[:, 0]
    if when is not ZERO:
        out = out + solution.slopes() * when[:, None]
    if solution.which is None and dots[1] is not ZERO:  # the last step ends at tf
        last = solution.last_slope() * dots[1]
        out = np.concatenate([out[:-1], (out[-1] + last)[None]])
    return [out if k == call.place("y") else ZERO for k in range(len(outs))]


def _start_dot(solution: _Solution, dots: Sequence[Array | Zero], when: Array | Zero) -> Array:
    """The tangent of the first state, less what the solution gains where the first time moves."""
    y0 = solution.args[solution.y0]
    dot = dots[solution.y0]
    start = np.zeros(y0.shape) if dot is ZERO else dot
    begun = dots[0] if solution.by_span else ZERO if when is ZERO else when[0]
    return start if begun is ZERO else start - solution.first_slope() * begun


class _Pullback(_Solution):
    """Cotangents of the arguments from the cotangent `bar` of the states, each computed only if it is needed."""

    def __init__(self, call: SolverCall, args: Arrays, outs: Arrays, bar: TracedArray) -> None:
        super().__init__(call, args, outs)
        self.bar, self.size = bar, args[self.y0].size

    def along(self, start: object, tangents: dict[int, object], directions: int) -> Array:
        """The cotangent's products with the sensitivities in some directions."""
        return np.einsum("rn,rdn->d", self.bar, self.sensitivities(start, tangents, directions))

    def of_start(self) -> object:
        return self.along(np.eye(self.size), {}, self.size)

    def of_extra(self, k: int) -> object:
        x = self.extras[k]
        seeds = np.eye(x.size, dtype=x.dtype).reshape((x.size, *x.shape))
        return lambda: self.along(np.zeros((x.size, self.size)), {k: seeds}, x.size).reshape(x.shape).astype(x.dtype)

    def of_first(self) -> object:
        return -self.along(self.first_slope(), {}, 1)[0]

    def of_last(self) -> object:
        return np.sum(self.bar[-1] * self.last_slope())

    def of_times(self) -> object:
        along = np.sum(self.bar * self.slopes(), axis=1)
        return along if self.by_span else np.concatenate([(along[0] + self.of_first())[None], along[1:]])


def _smooth_vjp(bars: Sequence[object], args: Arrays, outs: Arrays, *, call: SolverCall, mode: str) -> list[object]:
    if (bar := bars[call.place("y")]) is ZERO:
        return [ZERO] * len(args)
    pullback = _Pullback(call, args, outs, bar)
    cotangents: list[object] = [ZERO] * pullback.count
    cotangents[pullback.y0] = pullback.of_start
    if pullback.by_span:
        cotangents[0] = pullback.of_first
    if pullback.which is None:
        cotangents[1] = pullback.of_last
    else:
        cotangents[pullback.which] = pullback.of_times
    return [*cotangents, *(pullback.of_extra(k) if x.type.floating else ZERO for k, x in enumerate(pullback.extras))]


# --- samples ------------------------------------------------------------------------------------


def _steps_sample() -> dict[str, object]:
    """Steps so short that the order of the method, 8, leaves no error: where they end does not matter then."""
    two, name, length, rows = ArrayType((2,), F8), "scipy.integrate.solve_ivp", 6, 3
    body = constant_body(right_side, [*number_types(1), two], [two])
    options = (("first_step", 0.1), ("length", length), ("max_step", 0.1), ("method", "DOP853"), ("rtol", 1e-10))
    kept, starts = fields(length + 1, rows, 2), ("t0", "tf", "y0", "t_eval")
    call = SolverCall(name, starts, ("fun",), (body,), options, kept, CallSite("sample", ""), model(body, "DOP853", length, rows))
    return {"call": call, "mode": "value"}


_SMOOTH = Sample(sample_arrays, LateParams(lambda: {"call": sample_call(), "mode": "value"}))
_STEPS = Sample(
    lambda rng: (np.asarray(0.1), np.asarray(0.5), rng.normal(size=2), np.array([0.2, 0.3, 0.4]), rng.normal(size=2)),
    LateParams(_steps_sample), constant=(0,),
)
smooth: Primitive = solver_op("scipy.ode", infer, evaluate, _smooth_jvp, _smooth_vjp, _SMOOTH)
steps: Primitive = solver_op("scipy.steps", infer, evaluate, _steps_jvp, _steps_vjp, _STEPS)
