"""The signatures of `scipy.integrate.solve_ivp` and `odeint`.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import fdiff.intact_numpy as np
from fdiff.intact_scipy import integrate as si

from ...trace import Array, TracedArray, unsupported
from ..shapes.creation import array as array_call
from .deferred_length import DeferredLength
from .ode_derivatives import fields, smooth
from .ode_derivatives import steps as primitive
from .runge_kutta import METHODS, model
from .signatures import Arguments, options_of, replaces_solver
from .solver_arguments import (
    all_captured,
    bound,
    concrete_options,
    number,
    number_types,
    site,
    value_of,
    vector,
)
from .solver_call import SolverCall, record_call
from .solver_results import TracedResult, field
from .traced_function import TracedFunction
from .user_functions import UserFunction, UserFunctions

NAME = "scipy.integrate.solve_ivp"


_IN_PLACE_OF = {
    "dense_output": "Give the times by t_eval=, of which values are differentiated.",
    "events": "Find the time by scipy.optimize.brentq on the end of an integration (docs/solvers.md).",
}


def _refused(taken: Arguments, name: str, words: Sequence[str]) -> None:
    for word in words:
        value = taken.get(word)
        if value is not None and value is not False and not (isinstance(value, (int, float)) and value == 0):
            raise unsupported(f"{name} with {word}=", _IN_PLACE_OF.get(word, ""))


def _right(function: Callable[..., object], shape: tuple[int, ...]) -> Callable[..., object]:
    """The function, with its result as an array of the shape of the state."""

    def call(t: object, y: object) -> object:
        out = array_call(function(t, y))
        return np.reshape(out, shape) if np.size(out) == np.prod(shape) else out

    return call


def _problem(functions: Sequence[Callable[..., object]], start: TracedArray, first: Callable[[], object]) -> UserFunctions:
    types = (number_types(1)[0], start.type)
    point = lambda: [first(), value_of(start)]  # noqa: E731 - a line each
    right = UserFunction(_right(functions[0], start.shape), point, types)
    return UserFunctions([right, *(UserFunction(f, point, types) for f in functions[1:])])


def _solve_ivp(taken: Arguments, plain: Callable[[], object]) -> object:
    options = options_of(taken.pop("options", {}))
    t0, tf = tuple(taken["t_span"])
    start = vector(taken["y0"])
    extra_arguments = taken["args"]
    rest = () if extra_arguments is None else tuple(extra_arguments)
    jac = options.pop("jac", None)
    both = [taken["fun"], *([jac] if callable(jac) else [])]
    functions = _problem([lambda t, y, f=f: f(t, y, *rest) for f in both], start, lambda: value_of(t0))
    explicit = [t0, tf, start if isinstance(taken["y0"], TracedArray) else None, taken["t_eval"]]
    if not functions.extras and all_captured([x for x in explicit if x is not None] + [vector(taken["y0"])]):
        return plain()
    method = taken["method"] if isinstance(taken["method"], str) else getattr(taken["method"], "__name__", "")
    if getattr(si, str(method), None) is None or start.ndim != 1:
        raise unsupported(f"{NAME} with a method of your own, or a start that is not a vector")
    _refused(taken, NAME, ("events", "dense_output"))
    if jac is not None and not callable(jac):
        options["jac"] = jac
    starts = {"t0": number(t0), "tf": number(tf), "y0": start}
    if taken["t_eval"] is not None:
        starts["t_eval"] = vector(taken["t_eval"])
    static = {**options, "method": method, **({"vectorized": True} if taken["vectorized"] else {})}
    return _solved(functions, starts, static, callable(jac))


def _solved(functions: UserFunctions, starts: dict[str, TracedArray], options: Arguments, has_jac: bool) -> TracedResult:
    here, n = site(), starts["y0"].size
    explicit, evaluated = str(options["method"]) in METHODS, starts.get("t_eval")
    function_names = ("fun", "jac") if has_jac else ("fun",)

    def make(bodies: Sequence[TracedFunction], length: int) -> SolverCall:
        static = concrete_options({**options, "length": length}, NAME)
        rows = length + 1 if evaluated is None else evaluated.size
        built = model(bodies[0], str(options["method"]), length, None if evaluated is None else rows) if explicit and length >= 0 else None
        kept = fields(length + 1, rows, n) if explicit or evaluated is None else tuple(f for f in fields(0, rows, n) if f[0] != "t")
        return SolverCall(NAME, tuple(starts), function_names, tuple(bodies), static, kept, here, built)

    def plain_run(bodies: Sequence[TracedFunction], extras: Sequence[np.ndarray]) -> Mapping[str, object]:
        return make(bodies, -1).run([*map(value_of, starts.values()), *extras])

    bodies = functions.explore(plain_run)
    count = int(plain_run(bodies, [value_of(x) for x in functions.extras])["count"])
    length = 16 * (1 + (5 * count) // 64) if explicit else count if evaluated is None else -1
    call, outputs, _ = record_call(
        primitive if explicit else smooth, functions, list(starts.values()), lambda b: make(b, length), always=True
    )
    y = np.transpose(outputs["y"])
    numbers = {k: field(outputs[k], y, k, call) for k in ("nfev", "njev", "nlu", "status", "success")}
    times = evaluated
    if evaluated is None:
        y, times = DeferredLength(y, outputs["count"], 1), DeferredLength(_times(outputs, starts, length), outputs["count"], 0)
    message = "The solver successfully reached the end of the integration interval."
    return TracedResult(NAME, {"t": times, "y": y, "sol": None, "t_events": None, "y_events": None, **numbers, "message": message}, {})


def _times(outputs: dict[str, TracedArray], starts: dict[str, TracedArray], length: int) -> Array:
    """Times of the steps; the first and the last are the ends of the interval, with their derivatives."""
    index = np.arange(length + 1)
    return np.where(index == 0, starts["t0"], np.where(index >= outputs["count"], starts["tf"], outputs["t"]))


def _odeint(taken: Arguments, plain: Callable[[], object]) -> object:
    name = "scipy.integrate.odeint"
    start, times = vector(taken["y0"]), vector(taken["t"])
    state = start.reshape((start.size,))
    rest, order = bound(taken["args"]), taken["tfirst"]

    def closed(f: Callable[..., object]) -> Callable[..., object]:
        return (lambda t, y: f(t, y, *rest)) if order else (lambda t, y: f(y, t, *rest))

    user_functions = [taken["func"], *([taken["Dfun"]] if taken["Dfun"] is not None else [])]
    functions = _problem([closed(f) for f in user_functions], state, lambda: value_of(times)[0])
    if not functions.extras and all_captured([start, times]):
        return plain()
    _refused(taken, name, ("full_output",))
    words = ("col_deriv", "ml", "mu", "rtol", "atol", "tcrit", "h0", "hmax", "hmin", "mxstep", "mxhnil", "mxordn", "mxords")
    static = concrete_options({k: taken[k] for k in words if taken[k] is not None}, name)
    here, kept = site(), tuple(f for f in fields(0, times.size, state.size) if f[0] != "t")
    names = ("fun", "Dfun")[: len(user_functions)]

    def make(bodies: tuple[TracedFunction, ...]) -> SolverCall:
        return SolverCall(name, ("y0", "t"), names, bodies, static, kept, here)

    return record_call(smooth, functions, [state, times], make)[1]["y"]


replaces_solver(si.solve_ivp, _solve_ivp)
replaces_solver(si.odeint, _odeint)
