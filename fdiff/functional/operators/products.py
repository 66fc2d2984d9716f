"""Products of Jacobians with vectors: `vjp` by a reverse sweep, `jvp` by a forward sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal, Unpack, cast, overload

from ...device_arrays import DEVICES
from ...dispatch.arguments import ONCE, Argnums, Function
from ...dispatch.fast_paths.fast_path import known_fast_path
from ...dispatch.plans import Arrays, Effort, OperatorPlan, Run, derived_step
from ...dispatch.program import MakePlan
from ...dispatch.variant import Traced
from ...errors import InputError, called, failure
from ...tracebacks import trim
from ...transforms.pipeline import HVP, JVP, VJP
from ..annotations import A, AtPoint, Derivatives, P, Places, ProductKeywords, R
from ..call.input_checks import check_outputs, check_strict, check_vector
from ..call.invocation import Arguments, immediate_call, prepared_function
from ..call.late_functions import late
from ..call.operator_call import Operator
from ..call.prepared import Prepared
from ..call.results import deliver, gradients, results, tangents
from ..options import LEFT_OUT, check_argnums, check_callable, check_device, check_flags
from ..unknown_options import refuse_others, without_catch_alls
from .gradients import SWEEP

if TYPE_CHECKING:
    from ..call.prepared import Jvp, Vjp

vjp_values, jvp_values = (
    late("operators.eager_results", "vjp_values"),
    late("operators.eager_results", "jvp_values"),
)
hvp_values = late("operators.eager_results", "hvp_values")
TWO_SWEEPS = Effort(seconds=7e-5, sweeps=4.0)


class VjpPlan(OperatorPlan):
    """The plan of a vector-Jacobian product: outputs, and the vector pulled back to the inputs."""

    guards = True

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self.count = len(traced.tape.outputs)
        self.types = traced.tape.output_types
        self.step = derived_step(traced, VJP, vjp_values, wrt=traced.wrt)

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        v = check_vector(vectors[0], self.types, self.traced, "vjp", like="outputs")
        floating = [x for x, t in zip(v, self.types, strict=True) if t.floating]
        outs = run(self.step, [*arrays, *floating])
        return results(self.traced, outs[: self.count]), gradients(self.traced, outs[self.count :])


class JvpPlan(OperatorPlan):
    """The plan of a Jacobian-vector product: outputs, and the vector pushed forward to them."""

    guards = True

    def __init__(self, traced: Traced) -> None:
        self.traced = traced
        self.count = len(traced.tape.outputs)
        self.types = traced.wrt_types
        self.step = derived_step(traced, JVP, jvp_values, wrt=traced.wrt)

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        v = check_vector(vectors[0], self.types, self.traced, "jvp", like="inputs")
        outs = run(self.step, [*arrays, *v])
        return results(self.traced, outs[: self.count]), tangents(self.traced, outs[self.count :])


class HvpPlan(OperatorPlan):
    """The plan of a Hessian-vector product, with the value where it is requested."""

    guards = True
    order = 2

    def __init__(self, traced: Traced, name: str, *, value: bool) -> None:
        self.traced = traced
        self.name = name
        self.value = value
        self.types = traced.wrt_types
        count = len(traced.tape.outputs) + len(traced.wrt)
        keep = [*[0] * value, *range(count + 1, 2 * count)]
        eager = partial(hvp_values, count=int(value))
        self.step = derived_step(traced, HVP, eager, wrt=traced.wrt, keep=keep)

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        v = check_vector(vectors[0], self.types, self.traced, self.name, like="inputs")
        outs = run(self.step, [*arrays, *v])
        if not self.value:
            return gradients(self.traced, outs)
        return deliver(outs[0], self.traced.scalars[0]), gradients(self.traced, outs[1:])


def _check_product_exists(traced: Traced, name: str, *, strict: bool) -> None:
    """Refuse functions that have no such product."""
    check_outputs(traced, name)
    if strict:
        check_strict(traced, each_pair=False)


def refused(function: Function, f: Function, device: object) -> Operator:
    """The error for a device that fdiff does not know."""
    call = called(function.__name__, f)
    check_device(device, call)
    raise AssertionError(call)  # there are operators for the devices that it knows


def product(operator: Operator, f: Function, inputs: object, v: object, argnums: object) -> object:
    """The result of a product at `inputs`; with `inputs` left out, the prepared function."""
    if inputs is not LEFT_OUT:
        if argnums.__class__ is int and argnums == 0:
            result = known_fast_path(f, inputs, operator)(f, inputs, v)
            if result is not None:
                return result
        return immediate_call(operator, f, inputs, argnums, (v,))
    name = operator.name
    check_callable(f, name)
    if v is not None:
        fact = "v is given without inputs."
        raise failure(InputError, called(name, f), fact, f"Write {name}(f)(x, v).")
    nums = check_argnums(argnums, f, name)

    def split(args: tuple[object, ...]) -> tuple[tuple[object, ...], tuple[object, ...]]:
        if not args:
            fact = "the point and the vector are missing."
            raise failure(InputError, called(name, f), fact, "Give an example or a type of each.")
        return arguments_at(args[0], args[2:], nums, f, name), args[1:2] or (None,)

    program, origin = operator.program(f, nums), operator.origin(nums)
    return prepared_function(program, f, split, origin, arrange=_arrange)


def _arrange(x: object, /, v: object = None, *args: object, **kwargs: object) -> Arguments:
    """The arguments of a product: the point, the vector, the other arguments of the function."""
    return (x, v, *args), kwargs


def arguments_at(
    x: object, args: tuple[object, ...], argnums: Argnums, f: object, name: str
) -> tuple[object, ...]:
    """The arguments of `f`: `x` at the positions `argnums`, the others in their order."""
    if argnums == 0:
        return (x, *args)
    chosen = (argnums,) if isinstance(argnums, int) else argnums or ()
    parts = (x,) if isinstance(argnums, int) else x
    if not isinstance(parts, (tuple, list)) or len(cast("Sequence[object]", parts)) != len(chosen):
        fact = f"x must be a tuple of {len(chosen)} arguments, as argnums={argnums} says."
        raise failure(
            InputError, called(name, f), fact, "Pass a tuple of the arguments that argnums names."
        )
    total = len(args) + len(chosen)
    spots = {
        n % total: part for n, part in zip(chosen, cast("Sequence[object]", parts), strict=True)
    }
    if len(spots) < len(chosen) or not all(-total <= n < total for n in chosen):
        fact = f"argnums={argnums} does not fit {total} arguments: x and {len(args)} after v."
        raise failure(InputError, called(name, f), fact, ONCE)
    rest = iter(args)
    return tuple(spots[k] if k in spots else next(rest) for k in range(total))


@overload
def vjp(
    f: AtPoint[P, R], *, argnums: Literal[0] = ..., **keywords: Unpack[ProductKeywords]
) -> Vjp[P, R]: ...
@overload
def vjp(
    f: Function, *, argnums: Places = ..., **keywords: Unpack[ProductKeywords]
) -> Prepared[..., tuple[Derivatives, Derivatives]]: ...
@overload
def vjp(
    f: Callable[..., R], inputs: A, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, A]: ...
@overload
def vjp(
    f: Callable[..., R], inputs: object, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, Derivatives]: ...
@without_catch_alls
def vjp(
    f: Function,
    inputs: object = LEFT_OUT,
    v: object = None,
    *further: object,
    create_graph: bool = False,
    strict: bool = False,
    argnums: int | tuple[int, ...] = 0,
    device: str = "cpu",
    **unknown: object,
) -> object:
    """Product of a vector with the Jacobian of `f`: ``(outputs, v^T J)``.

    Parameters
    ----------
    f : callable
        Function of arrays that returns an array, or arrays in tuples, lists and dicts. A list of
        numbers counts as an array.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. A tuple holds several arguments, which may be nested. Without it, the
        prepared function ``(x, v, *args)`` is returned.
    v : array, or arrays in a structure, optional
        A vector with exactly the structure and shapes of the outputs. It may be left out for a
        single output with one element.
    create_graph : bool
        Accepted for compatibility with torch. Results can be differentiated in any case.
    strict : bool
        Raise `StrictError` if no output depends on an input.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    tuple
        The outputs of `f`, and an array for each input in the structure, shape and dtype of
        `inputs`, in units of ``f`` times ``v`` per unit of the input. Costs a small multiple of
        one evaluation.

        Complex outputs and inputs follow torch: the result is the gradient ``dL/dRe(x) + i
        dL/dIm(x)`` of ``L = Re(sum(conj(v) * f(x)))``, so that for a holomorphic `f` it is
        ``conj(f'(x)) * v`` (JAX returns its conjugate for the conjugate of `v`).

    Raises
    ------
    VectorError
        If `v` has the wrong size, or is left out where it is needed.
    InputError
        If inputs or outputs contain anything but arrays, or are ragged lists of numbers.
    DtypeError
        If an input is not floating point.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> out, slope = fdiff.vjp(np.square, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    >>> print(out, slope)
    [1. 4.] [ 2. 40.]
    """
    try:
        if further or unknown:
            refuse_others(vjp, f, further, unknown)
        if strict is not False or create_graph is not False:
            check_flags("vjp", f, strict=strict, create_graph=create_graph)
        operator = _VJP.get((bool(strict), device if device.__class__ is str else ""))
        return product(operator or refused(vjp, f, device), f, inputs, v, argnums)
    except BaseException as error:
        trim(error, "vjp", f)
        raise


@overload
def jvp(
    f: AtPoint[P, R], *, argnums: Literal[0] = ..., **keywords: Unpack[ProductKeywords]
) -> Jvp[P, R]: ...
@overload
def jvp(
    f: Function, *, argnums: Places = ..., **keywords: Unpack[ProductKeywords]
) -> Prepared[..., tuple[Derivatives, Derivatives]]: ...
@overload
def jvp(
    f: Callable[..., R], inputs: object, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, R]: ...
@without_catch_alls
def jvp(
    f: Function,
    inputs: object = LEFT_OUT,
    v: object = None,
    *further: object,
    create_graph: bool = False,
    strict: bool = False,
    argnums: int | tuple[int, ...] = 0,
    device: str = "cpu",
    **unknown: object,
) -> object:
    """Product of the Jacobian of `f` with a vector: ``(outputs, J v)``, in forward mode.

    Parameters
    ----------
    f : callable
        Function of arrays that returns an array, or arrays in tuples, lists and dicts. A list of
        numbers counts as an array.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. A tuple holds several arguments, which may be nested. Without it, the
        prepared function ``(x, v, *args)`` is returned.
    v : array, or arrays in a structure, optional
        The tangents, with exactly the structure and shapes of the inputs. They may be left out for
        a single input with one element.
    create_graph : bool
        Accepted for compatibility with torch. Results can be differentiated in any case.
    strict : bool
        Raise `StrictError` if an output depends on no input.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    tuple
        The outputs of `f`, and the tangents in the same structure and shapes, in units of ``f``
        times ``v`` per unit of the input. Costs a small multiple of one evaluation.

        For complex inputs, `v` is complex, and the tangent is the derivative of ``f(x + t * v)`` at
        ``t = 0``.

    Raises
    ------
    VectorError, InputError, DtypeError, DeviceError
        As `vjp` does.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> out, tangent = fdiff.jvp(np.square, np.array([1.0, 2.0]), np.array([1.0, 10.0]))
    >>> print(out, tangent)
    [1. 4.] [ 2. 40.]
    """
    try:
        if further or unknown:
            refuse_others(jvp, f, further, unknown)
        if strict is not False or create_graph is not False:
            check_flags("jvp", f, strict=strict, create_graph=create_graph)
        operator = _JVP.get((bool(strict), device if device.__class__ is str else ""))
        return product(operator or refused(jvp, f, device), f, inputs, v, argnums)
    except BaseException as error:
        trim(error, "jvp", f)
        raise


def _operators(function: Function, plan: MakePlan) -> dict[tuple[bool, str], Operator]:
    """The operator of a product with these settings."""
    return {
        (strict, device): Operator(
            function,
            {"strict": strict, "device": device},
            plan,
            partial(_check_product_exists, strict=strict),
            SWEEP,
        )
        for strict in (False, True)
        for device in DEVICES
    }


_VJP, _JVP = _operators(vjp, VjpPlan), _operators(jvp, JvpPlan)
