"""IPOPT, through cyipopt or ipyopt, whichever is installed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import fdiff.intact_numpy as np
import fdiff.intact_scipy as scipy

from ..errors import InputError, failure
from ..foreign_errors import contextmanager
from ..named_tuples import NamedTuple
from ..process.forking import imported
from .counted_functions import SolveReport
from .solver_progress import iterations_shown

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

    from .problem_functions import ProblemFunctions

INFINITE = 2e19  # from which on IPOPT takes a bound for none
STOPPED = 5
WORDS = {  # names of IPOPT's IpReturnCodes_inc.h, and what it prints at its exit
    0: "Solve_Succeeded: Optimal Solution Found.",
    1: "Solved_To_Acceptable_Level: Solved To Acceptable Level.",
    2: "Infeasible_Problem_Detected: Converged to a point of local infeasibility. "
    "Problem may be infeasible.",
    3: "Search_Direction_Becomes_Too_Small: Search Direction is becoming Too Small.",
    4: "Diverging_Iterates: Iterates diverging; problem might be unbounded.",
    5: "User_Requested_Stop: Stopping optimization at current point as requested by user.",
    6: "Feasible_Point_Found: Feasible point for square problem found.",
    -1: "Maximum_Iterations_Exceeded: Maximum Number of Iterations Exceeded.",
    -2: "Restoration_Failed: Restoration Failed!",
    -3: "Error_In_Step_Computation: Error in step computation!",
    -4: "Maximum_CpuTime_Exceeded: Maximum CPU time exceeded.",
    -5: "Maximum_WallTime_Exceeded: Maximum wallclock time exceeded.",
    -10: "Not_Enough_Degrees_Of_Freedom: Too few degrees of freedom.",
    -11: "Invalid_Problem_Definition: Inconsistent bounds, or no variables.",
    -12: "Invalid_Option: Invalid option encountered.",
    -13: "Invalid_Number_Detected: Invalid number in NLP function or derivative detected.",
    -100: "Unrecoverable_Exception: Some uncaught Ipopt exception encountered.",
    -101: "NonIpopt_Exception_Thrown: Unknown Exception caught in Ipopt.",
    -102: "Insufficient_Memory: Not enough memory.",
    -199: "Internal_Error: INTERNAL ERROR: Unknown SolverReturn value.",
}
# NaNs in Jacobians and Hessians are looked for, too: values and gradients always are.
DEFAULTS = {"print_level": 0, "sb": "yes", "check_derivatives_for_naninf": "yes"}
WARM = {
    "warm_start_init_point": "yes",
    "warm_start_bound_push": 1e-9,
    "warm_start_bound_frac": 1e-9,
    "warm_start_slack_bound_push": 1e-9,
    "warm_start_slack_bound_frac": 1e-9,
    "warm_start_mult_bound_push": 1e-9,
    "mu_init": 1e-6,
}
MULTIPLIERS = ("mult_g", "mult_x_L", "mult_x_U")
INSTALL = (
    "Run `pip install ipyopt`, whose wheels have IPOPT inside, or install cyipopt "
    "with your system's IPOPT."
)


class IpoptCallbacks:
    """The functions of a problem, by the names that cyipopt asks for."""

    def __init__(self, problem: ProblemFunctions) -> None:
        evaluations = problem.evaluations
        self._value = evaluations["value_and_grad"]
        self._constraints = evaluations.get("constraints")
        self._jacobian = evaluations.get("jacobian")
        self._hessian = evaluations["hessian"]

    def objective(self, x: np.ndarray) -> float:
        return float(self._value(x)[0].item())

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self._value(x)[1]

    def constraints(self, x: np.ndarray) -> np.ndarray:
        return np.zeros(0) if self._constraints is None else self._constraints(x)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        return np.zeros(0) if self._jacobian is None else self._jacobian(x)

    def jacobianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        if self._jacobian is None:
            return np.zeros(0, np.intp), np.zeros(0, np.intp)
        return self._jacobian.rows, self._jacobian.cols

    def hessian(
        self, x: np.ndarray, multipliers: np.ndarray, objective_factor: float
    ) -> np.ndarray:
        return self._hessian(x, multipliers, np.asarray(float(objective_factor)))

    def hessianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        return self._hessian.rows, self._hessian.cols


Callback: TypeAlias = "Callable[[OptimizeResult], object] | None"  # of the user
Show = Callable[[int, float, float], object]


class _Solve(IpoptCallbacks):
    """One solve: callbacks that keep exceptions, which IPOPT cannot pass on."""

    def __init__(
        self, problem: ProblemFunctions, start: np.ndarray, callback: Callback, show: Show
    ) -> None:
        super().__init__(problem)
        self.problem, self.x, self._callback, self._show = problem, start, callback, show
        self.raised: BaseException | None = None
        self.fun, self.iterations = np.nan, 0
        sizes = {
            "gradient": problem.size,
            "constraints": problem.rows,
            "jacobian": len(self.jacobianstructure()[0]),
            "hessian": len(self.hessianstructure()[0]),
        }
        instead = {name: np.full(size, np.nan) for name, size in sizes.items()}
        for name, value in {**instead, "objective": np.nan, "intermediate": False}.items():
            setattr(self, name, self._guarded(getattr(self, name), value))

    def _guarded(self, function: Callable[..., object], instead: object) -> Callable[..., object]:
        """A callback that after an exception gives NaN, so that IPOPT ends."""

        def guard(*args: object) -> object:
            try:
                return instead if self.raised is not None else function(*args)
            except BaseException as error:  # noqa: BLE001 - raised again when IPOPT has ended
                self.raised = error
                return instead

        return guard

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """The gradient, for which IPOPT asks at the points of its iterations alone."""
        gradient = super().gradient(x)
        self.x = x.copy()
        return gradient

    def intermediate(self, *state: Any) -> bool:
        """Show an iteration, and call the user's callback."""
        self.iterations, self.fun, infeasibility = state[1:4]
        self._show(self.iterations, self.fun, infeasibility)
        if self._callback is not None:
            at = {"fun": self.fun, "nit": self.iterations, "infeasibility": infeasibility}
            self._callback(scipy.optimize.OptimizeResult(x=self.x.copy(), **at))
        return True


@contextmanager
def _interrupts_kept(run: _Solve) -> Generator[None]:
    """Keep the first Ctrl-C for the next iteration: IPOPT cannot pass an exception on."""

    def keep(number: int, frame: FrameType | None) -> None:
        if run.raised is not None:  # the second time
            signal.default_int_handler(number, frame)
        run.raised = KeyboardInterrupt()

    main = threading.get_ident() == threading.main_thread().ident
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    try:
        signal.signal(signal.SIGINT, keep)
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


class _Outcome(NamedTuple):
    x: np.ndarray
    status: int
    multipliers: Sequence[np.ndarray]


def _module(call: str) -> ModuleType:
    """Cyipopt or ipyopt."""
    for name in ("cyipopt", "ipyopt"):
        try:
            return imported(name)
        except ImportError:
            continue
    raise ImportError(f"{call}: neither cyipopt nor ipyopt is installed.\n{INSTALL}")


def _through_cyipopt(
    module: ModuleType, run: _Solve, multipliers: Sequence[np.ndarray], options: dict[str, object]
) -> _Outcome:
    problem = run.problem
    (low, high), (cl, cu) = problem.bounds, problem.limits
    n, m = problem.size, problem.rows
    nlp = module.Problem(n=n, m=m, problem_obj=run, lb=low, ub=high, cl=cl, cu=cu)
    for name, value in options.items():
        nlp.add_option(name, value)
    x, info = nlp.solve(run.x.copy(), *multipliers)
    return _Outcome(x, info["status"], [info[name] for name in MULTIPLIERS])


def _through_ipyopt(
    module: ModuleType, run: _Solve, multipliers: Sequence[np.ndarray], options: dict[str, object]
) -> _Outcome:
    def filled(function: Callable[..., object]) -> Callable[..., None]:
        def fill(*args: Any) -> None:
            args[-1][...] = function(*args[:-1])

        return fill

    problem = run.problem
    bounds, limits = (np.clip(p, -INFINITE, INFINITE) for p in (problem.bounds, problem.limits))
    places = [
        tuple([p.tolist() for p in s]) for s in (run.jacobianstructure(), run.hessianstructure())
    ]
    functions = map(filled, (run.gradient, run.constraints, run.jacobian, run.hessian))
    nlp = module.Problem(
        problem.size, *bounds, problem.rows, *limits, *places, run.objective, *functions,
        run.intermediate, ipopt_options=options,
    )  # fmt: skip
    x, _, status = nlp.solve(run.x.copy(), **dict(zip(MULTIPLIERS, multipliers, strict=True)))
    return _Outcome(x, status, multipliers)


def solve(
    problem: ProblemFunctions,
    start: np.ndarray,
    options: dict[str, object],
    warm_start: OptimizeResult | None,
    callback: Callback,
    progress: object,
) -> OptimizeResult:
    """Solve a compiled problem with IPOPT."""
    call = f"{problem.name}.ipopt"
    module = _module(call)
    asked = {**DEFAULTS, **(WARM if warm_start is not None else {}), **options}
    multipliers = _multipliers(problem, warm_start, call)
    through = _through_cyipopt if module.__name__ == "cyipopt" else _through_ipyopt
    problem.restart()
    begin = perf_counter()
    with iterations_shown(progress, call) as show:
        run = _Solve(problem, start, callback, show)
        outcome = _Outcome(start, STOPPED, multipliers)
        try:
            with _interrupts_kept(run):
                outcome = through(module, run, multipliers, asked)
        except (KeyboardInterrupt, SystemError) as error:  # raised between two callbacks
            run.raised = run.raised or error.__cause__ or error
            outcome = outcome._replace(x=run.x)
        except (TypeError, ValueError, RuntimeError) as error:
            if run.raised is not None:
                raise run.raised from None
            fact = f"IPOPT refused the options {options}: {error}"
            raise failure(InputError, call, fact, "Look the names up in IPOPT's manual.") from error
    report = problem.report = SolveReport(problem.evaluations, perf_counter() - begin)
    stopped = isinstance(run.raised, (KeyboardInterrupt, StopIteration))
    if run.raised is not None and not stopped:
        raise run.raised
    return _result(run, outcome._replace(status=STOPPED) if stopped else outcome, report.counts)


def _multipliers(problem: ProblemFunctions, earlier: object, call: str) -> list[np.ndarray]:
    """Multipliers to start from: zeros, or the multipliers of an earlier result."""
    sizes = (problem.rows, problem.size, problem.size)
    if earlier is None:
        return [np.zeros(size) for size in sizes]
    taken = [np.array(getattr(earlier, name, ()), np.float64) for name in MULTIPLIERS]
    if [a.size for a in taken] != list(sizes):
        fact = "warm_start must be a result of this method, for a problem of the same size."
        raise failure(InputError, call, fact, "Pass what ipopt(x0) returned.")
    return taken


def _result(run: _Solve, outcome: _Outcome, counts: dict[str, int]) -> OptimizeResult:
    problem, status = run.problem, int(outcome.status)
    x = outcome.x if np.all(np.isfinite(outcome.x)) else run.x
    problem.constraints(x)
    value, gradient = problem.value_and_grad(x)
    return scipy.optimize.OptimizeResult(
        x=x, fun=value, jac=gradient, success=status in (0, 1, 6), status=status,
        message=WORDS.get(status, f"status {status}"), nit=run.iterations,
        nfev=counts.get("value_and_grad", 0), nhev=counts.get("hessian", 0),
        infeasibility=problem.infeasibility() or 0.0,
        **dict(zip(MULTIPLIERS, outcome.multipliers, strict=True)),
    )  # fmt: skip
