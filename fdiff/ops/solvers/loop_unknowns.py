"""Unknowns of loops on the tape that solve equations, with the function of the user.

See docs/decisions/solvers.md.
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...trace import Array, TracedArray, apply, current
from ...trace.handler_arguments import resolve
from ..entrywise.composite_functions import stop_gradient
from ..shapes.creation import array as array_call
from ..shapes.shaping import traced
from .implicit_loops import Equation, solution
from .implicit_systems import dense_solution
from .root_finder_signatures import RootProblem
from .solver_arguments import numpy_scalar, value_of, vector
from .traced_function import TracedFunction, constant_body

NO_START = "must be a number or a vector of real numbers, and has shape {} and dtype {}."


def way_to_start(dtype: np.dtype) -> str:
    """The way out for a start that is refused."""
    if dtype.kind in "fiub":
        return "Pass x0.ravel(), and reshape it inside of the function."
    return "Pass real numbers: for complex unknowns, pass their real and imaginary parts."


class Unknown:
    """The unknown of a loop in a trace: its start, next value, and result with derivatives.

    `f` is a function of the unknown and of `args`; for a `fixed` point it gives the unknown, else what is to be zero.
    """

    def __init__(self, f: Callable[..., object], x0: object, args: tuple[object, ...], name: str, *, fixed: bool) -> None:
        start = traced(array_call(resolve(x0)))
        if start.dtype.kind not in "fiub" or start.ndim > 1 or not start.size:
            raise current().fail(f"x0 of {name} {NO_START.format(start.shape, start.dtype)}", way_to_start(start.dtype))
        self.start = stop_gradient(vector(start))
        problem = RootProblem(name, {"f": (f, 1)}, {}, self.start.type, args, lambda: value_of(start))
        (self.body,) = problem.functions.bodies()
        self.extras, self.fixed = problem.functions.extras, fixed
        self._held = [traced(stop_gradient(x)) if x.type.floating else x for x in self.extras]
        if (shape := self.body.types[0].shape) != self.start.shape:
            fact = f"{name} was given an unknown of shape {self.start.shape} and a function that returns an array of shape {shape}."
            raise current().fail(fact, "Return as many numbers as there are unknowns.")
        if self.body.has_branches:
            fact = f"the function that is given to {name} branches on its unknown."
            raise current().fail(fact, "Use numpy.where, or fdiff.optimize.root.")

    def next(self, x: Array) -> Array:
        """The value after one step."""
        value = self.body.spliced([x], self._held)[0]
        if self.fixed:
            return value
        matrix = self.body.jacobian().spliced([x], self._held)[0]
        return x - dense_solution(matrix if x.ndim else matrix.reshape(()), value)

    def result(self, x: object) -> TracedArray:
        """The result, with the derivative of the solution."""
        body = _residual(self.body) if self.fixed else self.body
        return numpy_scalar(apply(solution, stop_gradient(x), *self.extras, equation=Equation(body)))


def _residual(body: TracedFunction) -> TracedFunction:
    """The residual of a fixed point."""
    types = body.tape.input_types
    return constant_body(lambda own, extras: [own[0] - body.spliced(own, extras)[0]], types[:1], types[1:])
