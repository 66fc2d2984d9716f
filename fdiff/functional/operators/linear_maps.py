"""`linearize`: the derivative at one point as a function of the tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dispatch.plans import Arrays, OperatorPlan, PlanStep, Run, execute, replay
from ...dispatch.variant import Traced
from ...trace import tracing
from ...tracebacks import public, trim
from ...transforms.linear_part import split
from ...transforms.pipeline import LINEAR, derive
from ..annotations import Derivatives, R
from ..call.input_checks import check_inputs, check_outputs, check_vector, refuse_integers
from ..call.operator_call import Operator, OperatorCall
from ..call.results import results, tangents
from ..call.stages import result_of_call
from ..options import check_callable


class LinearPlan(OperatorPlan):
    """The plan of a linearisation: values and residuals at the point, then the linear part.

    The linear part is one step for all points, compiled like any other step once compilation pays
    off.
    """

    guards = True

    def __init__(self, traced: Traced) -> None:
        self.traced = traced = traced.ordinary()
        tape = traced.tape
        self.count = len(tape.outputs)
        pushed = derive(LINEAR, tape, wrt=traced.wrt)
        values, rest = split(pushed, len(tape.inputs), self.count)
        self.values = traced.step(values)
        self.linear = PlanStep(rest, call=traced.call)

    def steps(self) -> list[PlanStep]:
        return [self.values, self.linear]

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        outs = run(self.values, arrays)
        linear_map = LinearMap(self.traced, self.linear, tuple(outs[self.count :]))
        return results(self.traced, outs[: self.count]), linear_map


class LinearMap:
    """The derivative of a function at one point: called with tangents of the arguments.

    A traced function that reads a linear map compares it by identity, because its contents never
    change. A linear map has no hash, so that no cache of programs keeps its arrays alive.
    """

    __fdiff__ = "linearize"
    __hash__ = None  # type: ignore[assignment] - Python's mark of objects that cannot be hashed

    def __init__(self, traced: Traced, step: PlanStep, residuals: tuple[object, ...]) -> None:
        self._traced = traced
        self._step = step
        self._residuals = residuals

    def __call__(self, *tangents_in: object) -> Derivatives:
        """The tangents of the outputs, in their structure."""
        traced = self._traced
        try:
            v = check_vector(tangents_in, traced.wrt_types, traced, "linearize", like="inputs")
            run = replay if tracing() else execute
            return tangents(traced, run(self._step, [*self._residuals, *v]))
        except BaseException as error:
            trim(error, traced.call, None)
            raise

    def __repr__(self) -> str:
        size = len(self._step.tape)
        return f"<linear map of {self._traced.call}: {size} nodes, {self._step.runner.state()}>"


@public
def linearize(f: Callable[..., R], *primals: object) -> tuple[R, Callable[..., R]]:
    """Value of `f` at a point, and the derivative there as a function of the tangents.

    Parameters
    ----------
    f : callable
        Function of arrays that returns an array, or arrays in tuples, lists and dicts.
    *primals : arrays, or arrays in structures
        The arguments of `f`: where to evaluate.

    Returns
    -------
    tuple
        The outputs of `f`, and a function ``f_jvp(*tangents)``. The tangents have the structure and
        shapes of the primals. The function returns the tangents of the outputs, with the structure
        and shapes of the outputs, in units of ``f`` times the tangent per unit of the input.

        `f` is evaluated once, and the values that the linear part needs are kept. This pays if
        `f_jvp` is called several times at one point, as in Krylov methods. For a single product,
        `jvp` needs less memory.

    Raises
    ------
    VectorError
        Raised by `f_jvp` if the tangents do not have the structure and shapes of the primals.
    InputError
        If inputs or outputs contain anything but arrays, or are ragged lists of numbers.
    DtypeError
        If an input is not floating point.
    TraceError
        If `f` takes a traced value out of NumPy.

    References
    ----------
    ``jax.linearize``; Frostig, Johnson, Maclaurin, Paszke and Radul, "Decomposing reverse-mode
    automatic differentiation", LAFI 2021: the whole abstract.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> out, f_jvp = fdiff.linearize(lambda x: np.sin(x) * x[0], np.array([1.0, 2.0]))
    >>> f_jvp(np.array([1.0, 0.0])).round(3)
    array([1.382, 0.909])
    """
    check_callable(f, "linearize")
    args, argnums = check_inputs(primals, f, "linearize")
    refuse_integers(args, "linearize", f)
    return result_of_call(OperatorCall(_OPERATOR.program(f, argnums), f, args, {}))  # type: ignore[return-value] - what the plan gives


_OPERATOR = Operator(linearize, {}, LinearPlan, check_outputs)
