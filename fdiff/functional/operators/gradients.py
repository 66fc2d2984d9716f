"""Gradients of scalar functions: `grad` and `value_and_grad`, by one reverse sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

from ...dispatch.arguments import Function
from ...dispatch.plans import Arrays, Effort, OperatorPlan, Run, derived_step
from ...dispatch.variant import Traced
from ...errors import DtypeError, InputError, called, failure, flag
from ...tracebacks import public
from ...transforms.pipeline import GRADIENT, KEEP, derive
from ..annotations import AtPoint, Derivatives, GradientKeywords, P, Places, R
from ..call.complex_rules import check_choice, check_complex
from ..call.invocation import prepared_operator
from ..call.late_functions import late
from ..call.operator_call import Operator
from ..call.prepared import AnyPrepared, Prepared
from ..call.results import deliver, gradients, results
from ..options import check_argnums, check_callable, check_device

if TYPE_CHECKING:
    from ..call.prepared import Gradient, ValueAndGradient

gradient_values = late("operators.eager_results", "gradient_values")
SWEEP = Effort(seconds=2.9e-5, sweeps=1.1)  # of one sweep in either mode
SEVERAL = "Use fdiff.jacobian for several outputs."
_ONE_NUMBER: dict[type, str] = {
    type(None): "Return a number: is a `return` missing?",
    str: "Return a number.",
    list: "Return the number in it, or use fdiff.jacobian for several outputs.",
}


class GradPlan(OperatorPlan):
    """The plan of a gradient, with the value and the auxiliary results (`aux`) where they are
    requested.
    """

    guards = True
    of = (0,)

    def __init__(self, traced: Traced, *, value: bool, has_aux: bool) -> None:
        self.traced = traced
        self.value = value
        self.has_aux = has_aux
        self.count = len(traced.tape.outputs)
        self.first = 0 if value or has_aux else self.count
        wrt, eager = traced.wrt, partial(gradient_values, count=self.count - self.first)
        keep = range(self.first, self.count + len(wrt))
        self.step = derived_step(traced, GRADIENT, eager, wrt=wrt, keep=keep)
        leaf = traced.in_spec.kind is None and not traced.input_scalars[traced.wrt[0]]
        self.plain = value and not has_aux and leaf

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        outs = run(self.step, arrays)
        if self.plain:
            return deliver(outs[0], self.traced.scalars[0]), outs[1]
        slope = gradients(self.traced, outs[self.count - self.first :])
        if not self.has_aux:
            return (deliver(outs[0], self.traced.scalars[0]), slope) if self.value else slope
        _, aux = cast("tuple[object, object]", results(self.traced, outs[: self.count]))
        out = deliver(outs[0], self.traced.scalars[0])
        return ((out, aux), slope) if self.value else (slope, aux)


def _check_scalar_output(traced: Traced, _: str, *, has_aux: bool, choice: str) -> None:
    """Refuse functions that have no gradient."""
    spec, outs, call = traced.out_spec, traced.outs, traced.call
    if has_aux:
        if spec.kind is not tuple or len(spec.children) != 2:
            fact = "with has_aux=True the function must return a pair (output, aux)."
            raise failure(InputError, call, fact, "Return a pair, or leave has_aux out.")
        spec = spec.children[0]
    fixed = outs[0] if outs else None
    if spec.kind is not None or fixed:
        kind = spec.kind or type(cast("tuple[object]", fixed)[0])
        fact = f"the function must return a scalar, not {kind.__name__}."
        raise failure(InputError, call, fact, _ONE_NUMBER.get(kind, SEVERAL))
    type_ = traced.tape.output_types[0]
    if type_.size != 1:
        fact = (
            f"Gradient only defined for scalar-output functions. Output had shape: {type_.shape}."
        )
        raise failure(InputError, call, fact, "Sum it, or use fdiff.jacobian.")
    real = [t for t in traced.wrt_types if t.dtype.kind != "c"]
    if len(real) < len(traced.wrt):
        check_complex(traced._replace(tape=derive((KEEP,), traced.tape, keep=(0,))), choice)
    if type_.dtype.kind == "c" and real:
        fact = f"complex outputs ({type_.dtype}) are not supported with real inputs."
        way = "Return the real part, or the absolute value, or use fdiff.jacobian."
        raise failure(DtypeError, call, fact, way)
    if not type_.floating:
        fact = f"the output must be floating point, not {type_.dtype}."
        way = "Leave out the conversion, x.astype(int), or the comparison; store values into"
        way += " np.zeros(n), not into np.zeros(n, int); write 0.0 for 0."
        raise failure(DtypeError, call, fact, way)


def _prepare(
    function: Function,
    f: Function,
    argnums: object,
    has_aux: object,
    complex_inputs: object,
    device: object,
) -> AnyPrepared:
    """Check the settings of `grad` or `value_and_grad`, and make the prepared function."""
    name = function.__name__
    check_callable(f, name)
    nums = check_argnums(argnums, f, name)
    choice = check_choice(complex_inputs, called(name, f))
    aux = flag(has_aux, "has_aux", called(name, f))
    operator = _operator(function, aux, choice, check_device(device, called(name, f)))
    return prepared_operator(operator, f, nums)


@cache
def _operator(function: Function, has_aux: bool, choice: str, device: str) -> Operator:  # noqa: FBT001 - a key
    settings: dict[str, object] = {"has_aux": has_aux, "complex_inputs": choice, "device": device}
    plan = partial(GradPlan, value=function is value_and_grad, has_aux=has_aux)
    check = partial(_check_scalar_output, has_aux=has_aux, choice=choice)
    return Operator(function, settings, plan, check, SWEEP)


@overload
def grad(
    f: AtPoint[P, object],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[False] = ...,
    **keywords: Unpack[GradientKeywords],
) -> Gradient[P]: ...
@overload
def grad(
    f: Callable[P, object],
    argnums: Places = ...,
    *,
    has_aux: bool = ...,
    **keywords: Unpack[GradientKeywords],
) -> Prepared[P, Derivatives]: ...
@public
def grad(
    f: Callable[P, object],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    complex_inputs: str = "error",
    device: str = "cpu",
) -> Prepared[P, object]:
    """Gradient of a scalar function.

    Parameters
    ----------
    f : callable
        Pure function of arrays whose output has one element: shape ``()``, ``(1,)``, ``(1, 1)``.
    argnums : int or tuple of int
        Which positional arguments are differentiated; negative numbers count from the end.
    has_aux : bool
        Whether `f` returns ``(output, aux)``. `aux` is returned unchanged.
    complex_inputs : {"error", "conjugate", "holomorphic"}
        The meaning of the gradient with respect to a complex argument. "conjugate", for a real
        output: ``df/dRe + i df/dIm``, the direction of steepest ascent, as in torch (JAX returns
        its conjugate). "holomorphic", for a complex output: the complex derivative; a function that
        takes conjugates, parts or absolute values raises an error. "error": a complex argument
        raises an error.
    device : {"cpu", "cuda"}
        Where to run. With "cuda" the whole call runs on a GPU. NumPy arrays are copied to it,
        results are returned where the arguments were, and an operation without a CUDA kernel raises
        an error (docs/cuda.md).

    Returns
    -------
    callable
        Takes the arguments of `f`. Returns the gradient in their structure (arrays, nested tuples,
        lists, dicts, dataclasses) and dtype; a tuple of gradients for a tuple of `argnums`;
        ``(gradient, aux)`` with `has_aux`. Entry ``i`` is in units of the output per unit of
        ``x[i]``. Costs at most a small multiple of one evaluation, for any number of inputs.

    Raises
    ------
    InputError
        If the output does not have exactly one element, or an argument has a type without
        derivatives.
    DtypeError
        If a differentiated argument is not floating point, or is complex and has no gradient of the
        kind that `complex_inputs` names.
    TraceError
        If `f` takes a traced value out of NumPy.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0, 3.0]))
    array([2., 4., 6.])
    """
    return _prepare(grad, f, argnums, has_aux, complex_inputs, device)


@overload
def value_and_grad(
    f: AtPoint[P, R],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[False] = ...,
    **keywords: Unpack[GradientKeywords],
) -> ValueAndGradient[P, R]: ...
@overload
def value_and_grad(
    f: Callable[P, object],
    argnums: Places = ...,
    *,
    has_aux: bool = ...,
    **keywords: Unpack[GradientKeywords],
) -> Prepared[P, tuple[Derivatives, Derivatives]]: ...
@public
def value_and_grad(
    f: Callable[P, object],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    complex_inputs: str = "error",
    device: str = "cpu",
) -> Prepared[P, tuple[Derivatives, Derivatives]]:
    """Value and gradient of a scalar function, from one evaluation.

    Parameters
    ----------
    f : callable
        Pure function of arrays whose output has one element: shape ``()``, ``(1,)``, ``(1, 1)``.
    argnums : int or tuple of int
        Which positional arguments are differentiated; negative numbers count from the end.
    has_aux : bool
        Whether `f` returns ``(output, aux)``. `aux` is returned unchanged.
    complex_inputs : {"error", "conjugate", "holomorphic"}
        The meaning of the gradient with respect to a complex argument, as for `grad`.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    callable
        Takes the arguments of `f`. Returns ``(value, gradient)``, or ``((value, aux), gradient)``
        with `has_aux`. The value is what `f` returns. Gradients have the shape and dtype of the
        arguments, in units of the output per unit of the argument. Costs as much as `grad`.

    Raises
    ------
    InputError, DtypeError, TraceError, DeviceError
        As `grad` does.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> value, slope = fdiff.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0, 3.0]))
    >>> print(value, slope)
    14.0 [2. 4. 6.]
    """
    return _prepare(value_and_grad, f, argnums, has_aux, complex_inputs, device)
