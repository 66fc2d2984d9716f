"""Dense Jacobians: `jacobian`, `jacrev` and `jacfwd`, in the cheaper mode or the one asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from ..dispatch.arguments import Function, called
from ..dispatch.fast_path import known_fast_path
from ..dispatch.plans import OperatorPlan
from ..dispatch.program import MakePlan
from ..dispatch.variant import Variant
from ..errors import InputError, failure
from ..tracebacks import public, trim
from .annotations import Array, P, Point
from .complex_rules import check_choice, check_complex
from .dense_blocks import jacobian_plan
from .input_checks import check_point
from .invocation import immediate_call, prepared_operator
from .options import (
    LEFT_OUT,
    check_argnums,
    check_callable,
    check_chunk,
    check_device,
    check_mode,
    named,
)
from .prepared import Origin, Prepared
from .products import with_checks


@overload
def jacobian(
    f: Callable[P, object],
    *,
    argnums: int = ...,
    strict: bool = ...,
    mode: str = ...,
    chunk_size: int | str = ...,
    complex_inputs: str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    strategy: str | None = ...,
) -> Prepared[P, Array]: ...
@overload
def jacobian(
    f: Callable[P, object],
    *,
    argnums: tuple[int, ...],
    strict: bool = ...,
    mode: str = ...,
    chunk_size: int | str = ...,
    complex_inputs: str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    strategy: str | None = ...,
) -> Prepared[P, Any]: ...
@overload
def jacobian(
    f: Function,
    inputs: Point,
    *,
    strict: bool = ...,
    mode: str = ...,
    chunk_size: int | str = ...,
    complex_inputs: str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    strategy: str | None = ...,
) -> Array: ...
@overload
def jacobian(
    f: Function,
    inputs: object,
    *,
    strict: bool = ...,
    mode: str = ...,
    chunk_size: int | str = ...,
    complex_inputs: str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    strategy: str | None = ...,
) -> Any: ...
def jacobian(
    f: Function,
    inputs: object = LEFT_OUT,
    *,
    argnums: int | tuple[int, ...] = 0,
    strict: bool = False,
    mode: str = "auto",
    chunk_size: int | str = "auto",
    complex_inputs: str = "error",
    device: str = "cpu",
    create_graph: bool = False,
    vectorize: bool = False,
    strategy: str | None = None,
) -> object:
    """Jacobian of `f` at `inputs`; with `inputs` left out, the function that computes it.

    Parameters
    ----------
    f : callable
        Pure function of arrays, which returns an array or a tuple of arrays. Its output has shape
        ``out``, the differentiated argument shape ``inn``. A list of numbers counts as an array,
        as it does for SciPy's solvers; so does a tuple of numbers, unless `inputs` or `argnums`
        is a tuple.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. Python ints are floats.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    strict : bool
        Raise `StrictError` if any output does not depend on any input.
    mode : {"auto", "forward", "reverse"}
        Forward costs about ``size(inn)`` tangent passes, reverse ``size(out)`` cotangent passes,
        ``"auto"`` the fewer; both run batched in one kernel.
    chunk_size : int or "auto"
        How many columns or rows are computed at a time; ``"auto"`` keeps intermediate values
        below 256 MiB.
    complex_inputs : {"error", "conjugate", "holomorphic"}
        What the derivative with respect to a complex input is: ``df/dRe + i df/dIm`` of a real
        output ("conjugate"), or the complex derivative of a complex output ("holomorphic").
    device : {"cpu"}
        Where to run.
    create_graph, vectorize : bool
        Accepted for those who come from torch: results nest and are batched anyway.
    strategy : {"reverse-mode", "forward-mode"}, optional
        Torch's name of the mode.

    Returns
    -------
    array or callable
        An array of shape ``out + inn`` (nested in tuples: outputs first, then inputs, where either
        is a tuple), or a function of the arguments of `f` that gives it. Entry ``[i, j]`` is in
        units of ``f[i]`` per unit of ``x[j]``. The dtype is that of the input; that of the output
        where `mode` (or `strategy`) asks for forward mode; complex where input or output is (a
        complex output of real inputs has a complex derivative in both modes).

    Raises
    ------
    InputError
        If inputs or outputs are not arrays, or a setting is unknown.
    DtypeError
        If a differentiated argument is not floating point, or is complex and has no derivative of
        the kind that `complex_inputs` asks for.
    TraceError
        If `f` hands a traced array to code that takes numbers or memory alone, for instance
        ``memoryview(x)`` or ``decimal.Decimal(x[0])``. ``float(x[0])`` and `math` work.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jacobian(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    try:
        kind = chunk_size.__class__  # 1.0 is no 1
        settings = (kind, device, mode, strategy, chunk_size, complex_inputs, not strict)
        try:
            options, make_plan = _by_settings[settings]
        except (KeyError, TypeError):  # met for the first time, or not hashable
            check_callable(f, "jacobian")
            options, make_plan = _by_settings[settings] = _checked_settings(f, *settings)
        return dense(f, "jacobian", inputs, argnums, options, make_plan, jacobian, settings)
    except BaseException as error:
        trim(error)
        raise


_by_settings: dict[object, tuple[tuple[object, ...], MakePlan]] = {}  # by settings that are valid


def _checked_settings(
    f: Function,
    _: type,
    device: object,
    mode: object,
    strategy: object,
    chunk_size: object,
    complex_inputs: object,
    loose: bool,  # noqa: FBT001 - a setting like the others: not `strict`
) -> tuple[tuple[object, ...], MakePlan]:
    """The options that settings of `jacobian` stand for, and what makes the plan; checks them."""
    call = called("jacobian", f)
    check_device(device, call)
    way, chunk = check_mode(mode, strategy, call), check_chunk(chunk_size, call)
    choice = check_choice(complex_inputs, call)
    plan = lambda variant: jacobian_plan(variant, way, chunk)  # noqa: E731 - its choices bound
    make_plan = with_checks(plan, "jacobian", strict=not loose, choice=choice)
    return (way, chunk, not loose, choice), make_plan


def dense(
    f: Function,
    name: str,
    inputs: object,
    argnums: object,
    options: tuple[object, ...],
    make_plan: MakePlan,
    operator: Function,
    settings: tuple[object, ...],
) -> object:
    """The dense derivative at `inputs`; with `inputs` left out, the prepared function.

    `settings` are what `operator` was given, in the order of `options.named`; `options` what they
    stand for, which `make_plan` knows already.
    """
    if argnums.__class__ is int and argnums == 0 and inputs is not LEFT_OUT:
        result = known_fast_path(f, inputs, make_plan)(f, inputs)
        if result is not None:
            return result
    check_callable(f, name)
    if inputs is LEFT_OUT:
        origin = Origin(operator, {"argnums": argnums, **named(name, settings)})
        return prepared_operator(
            f, name, check_argnums(argnums, f, name), options, make_plan, origin
        )
    return immediate_call(
        f, name, inputs, options, make_plan, check_point(inputs, argnums, f, name)
    )


def _check_numeric(variant: Variant) -> None:
    """Refuse results with leaves that are neither numbers nor arrays."""
    bad = [type(out[0]).__name__ for out in variant.outs if out is not None]
    if bad or not variant.outs:
        fact = f"the function must return arrays, not {bad[0] if bad else 'nothing'}."
        raise failure(InputError, variant.call, fact)


def _jac(
    f: Function, name: str, mode: str, argnums: object, chunk_size: object, complex_inputs: object
) -> Prepared[..., Any]:
    check_callable(f, name)
    chunk = check_chunk(chunk_size, called(name, f))
    choice = check_choice(complex_inputs, called(name, f))

    def make_plan(variant: Variant) -> OperatorPlan:
        _check_numeric(variant)
        check_complex(variant, choice)
        return jacobian_plan(variant, mode, chunk)

    operator = jacfwd if mode == "forward" else jacrev
    settings = {"argnums": argnums, "chunk_size": chunk_size, "complex_inputs": complex_inputs}
    origin = Origin(operator, settings)
    return prepared_operator(
        f, name, check_argnums(argnums, f, name), (chunk, choice), make_plan, origin
    )


@public
def jacrev(
    f: Callable[P, object],
    argnums: int | tuple[int, ...] = 0,
    *,
    chunk_size: int | str = "auto",
    complex_inputs: str = "error",
) -> Prepared[P, Any]:
    """Function that computes the Jacobian of `f` row by row, in reverse mode.

    Parameters are those of `jacobian`; arguments and results may be nested tuples, lists, dicts
    and dataclasses: the result has the structure of the outputs, and each entry that of the
    inputs.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> slopes = fdiff.jacrev(lambda p: {"y": p["a"] * p["b"]})
    >>> slopes({"a": np.array([1.0, 2.0]), "b": 3.0})["y"]["b"]
    array([1., 2.])
    """
    return _jac(f, "jacrev", "reverse", argnums, chunk_size, complex_inputs)


@public
def jacfwd(
    f: Callable[P, object],
    argnums: int | tuple[int, ...] = 0,
    *,
    chunk_size: int | str = "auto",
    complex_inputs: str = "error",
) -> Prepared[P, Any]:
    """Function that computes the Jacobian of `f` column by column, in forward mode.

    Parameters and structure of results are those of `jacrev`.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jacfwd(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _jac(f, "jacfwd", "forward", argnums, chunk_size, complex_inputs)
