"""Dense Jacobians: `jacobian`, `jacrev` and `jacfwd`, in the cheaper mode or the requested one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Literal, Unpack, overload

from ...dispatch.arguments import Function
from ...dispatch.fast_paths.fast_path import known_fast_path
from ...dispatch.program import MOST_PROGRAMS
from ...errors import called
from ...foreign_errors import not_foreign
from ...tracebacks import public, trim
from ..annotations import (
    Array,
    AtPoint,
    BlockKeywords,
    Derivatives,
    Entries,
    JacobianKeywords,
    P,
    Places,
    Point,
)
from ..call.complex_rules import check_choice, check_leaves
from ..call.invocation import immediate_call, prepared_operator
from ..call.late_functions import late
from ..call.operator_call import Operator
from ..call.prepared import AnyPrepared, Prepared
from ..options import (
    LEFT_OUT,
    check_argnums,
    check_callable,
    check_chunk,
    check_device,
    check_flags,
    check_mode,
)
from ..unknown_options import refuse_others, without_catch_alls
from .dense_plans import check_jacobian, jacobian_plan

if TYPE_CHECKING:
    from ..call.prepared import Blocks

sparse_derivative = late("operators.sparse_derivatives", "sparse_derivative")


@overload
def jacobian(
    f: AtPoint[P, Entries], *, argnums: Literal[0] = ..., **keywords: Unpack[JacobianKeywords]
) -> Blocks[P]: ...
@overload
def jacobian(
    f: Callable[P, Entries], *, argnums: int, **keywords: Unpack[JacobianKeywords]
) -> Prepared[P, Array]: ...
@overload
def jacobian(
    f: Callable[P, object], *, argnums: Places = ..., **keywords: Unpack[JacobianKeywords]
) -> Prepared[P, Derivatives]: ...
@overload
def jacobian(
    f: Callable[P, object],
    *,
    argnums: Places = ...,
    sparse: bool | str,
    **keywords: Unpack[JacobianKeywords],
) -> Prepared[P, Derivatives]: ...
@overload
def jacobian(
    f: Function, inputs: object, *, sparse: bool | str, **keywords: Unpack[JacobianKeywords]
) -> Derivatives: ...
@overload
def jacobian(f: Function, inputs: Point, **keywords: Unpack[JacobianKeywords]) -> Array: ...
@overload
def jacobian(f: Function, inputs: object, **keywords: Unpack[JacobianKeywords]) -> Derivatives: ...
@without_catch_alls
def jacobian(
    f: Function,
    inputs: object = LEFT_OUT,
    *further: object,
    argnums: int | tuple[int, ...] = 0,
    sparse: bool | str = False,
    strict: bool = False,
    mode: str = "auto",
    chunk_size: int | str = "auto",
    complex_inputs: str = "error",
    device: str = "cpu",
    create_graph: bool = False,
    vectorize: bool = False,
    **unknown: object,
) -> object:
    """Jacobian of `f` at `inputs`, or without `inputs` the function that computes it.

    Parameters
    ----------
    f : callable
        Pure function of arrays, which returns an array, or arrays in tuples, lists and dicts. Its
        output has shape ``out``, the differentiated argument shape ``inn``. A list of numbers
        counts as an array, as it does for SciPy's solvers; so does a tuple of numbers, unless
        `inputs` or `argnums` is a tuple.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate: a tuple holds several arguments, which may be nested. Python ints are
        floats.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    sparse : {False, True, "csr", "csc", "coo"}
        Return SciPy sparse arrays of this format (True: "csr") with only the structural entries, of
        shape ``(size of output, size of input)``. The prepared function then has `data`, `pattern`
        and `coordinates`, functions of the same arguments (docs/sparse.md).
    strict : bool
        Raise `StrictError` if any output does not depend on any input.
    mode : {"auto", "forward", "reverse"}
        Forward mode costs about ``size(inn)`` tangent passes, reverse mode ``size(out)`` cotangent
        passes. ``"auto"`` chooses the smaller number. Passes run as one batch in one kernel.
    chunk_size : int or "auto"
        How many columns or rows are computed at a time; ``"auto"`` keeps intermediate values
        below 256 MiB.
    complex_inputs : {"error", "conjugate", "holomorphic"}
        The meaning of the derivative with respect to a complex input: ``df/dRe + i df/dIm`` for a
        real output ("conjugate"), or the complex derivative for a complex output ("holomorphic").
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.
    create_graph, vectorize : bool
        Accepted for compatibility with torch. Results nest and are batched in any case.

    Returns
    -------
    array or callable
        An array of shape ``out + inn``, or a function of the arguments of `f` that returns it. If
        the outputs or inputs are structures, the result is nested like the outputs, and inside like
        the inputs. Entry ``[i, j]`` is in units of ``f[i]`` per unit of ``x[j]``. The dtype is the
        dtype of the input, or of the output if `mode` requests forward mode. It is
        complex if the input or the output is (a complex output of real inputs has a complex
        derivative in both modes).

    Raises
    ------
    InputError
        If inputs or outputs contain anything but arrays, or are ragged lists of numbers, or if an
        option is unknown.
    DtypeError
        If a differentiated argument is not floating point, or is complex and has no derivative of
        the kind that `complex_inputs` names.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.
    StructureError
        With `sparse`, if the structure cannot be determined, or has too many entries.
    TraceError
        If `f` passes a traced array to code that only takes numbers or memory, for instance
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
    >>> slopes = fdiff.jacobian(np.diff, sparse=True)
    >>> slopes(np.array([1.0, 2.0, 4.0])).indices
    array([0, 1, 1, 2], dtype=int32)
    >>> slopes.data(np.array([1.0, 2.0, 4.0]))
    array([-1.,  1., -1.,  1.])
    """
    try:
        if further or unknown:
            refuse_others(jacobian, f, further, unknown)
        if sparse is not False:
            return sparse_derivative(
                jacobian, f, inputs, argnums,
                {"sparse": sparse, "mode": mode, "device": device,
                 "complex_inputs": complex_inputs, "strict": strict},
                {"chunk_size": chunk_size, "create_graph": create_graph},
            )  # fmt: skip
        if strict is not False or create_graph is not False or vectorize is not False:
            strict, *_ = check_flags(
                "jacobian", f, strict=strict, create_graph=create_graph, vectorize=vectorize
            )
        settings = (
            jacobian, chunk_size.__class__, device, mode, chunk_size, complex_inputs, strict,
        )  # fmt: skip
        return dense(settings, f, inputs, argnums, _operator)
    except BaseException as error:
        trim(error, "jacobian", f)
        raise


def _operator(
    f: Function,
    device: object,
    mode: object,
    chunk_size: object,
    complex_inputs: object,
    strict: bool,  # noqa: FBT001 - a setting like the others
) -> Operator:
    """The operator `jacobian` with these settings, which are checked."""
    call = called("jacobian", f)
    check_device(device, call)
    way, chunk = check_mode(mode, call), check_chunk(chunk_size, call)
    choice = check_choice(complex_inputs, call)
    plan = partial(jacobian_plan, mode=way, chunk_size=chunk)
    settings = {
        "device": device,
        "mode": mode,
        "chunk_size": chunk_size,
        "complex_inputs": complex_inputs,
        "strict": strict,
    }
    check = partial(check_jacobian, strict=strict, choice=choice)
    return Operator(jacobian, settings, plan, check)


_known: dict[tuple[object, ...], Operator] = {}  # by settings that are valid


def dense(
    settings: tuple[Function, *tuple[object, ...]],
    f: Function,
    inputs: object,
    argnums: object,
    check: Callable[..., Operator],
) -> object:
    """The dense derivative at `inputs`; with `inputs` left out, the prepared function.

    `settings` begin with the public function and the class of `chunk_size`, because 1.0 equals 1
    and is not valid. ``check(f, *others)`` checks the others, and gives the operator.
    """
    try:
        operator = _known[settings]
    except not_foreign(Exception, again=lambda: _known[settings]):  # new, or without a hash
        check_callable(f, settings[0].__name__)
        operator = _known[settings] = check(f, *settings[2:])
    if inputs is LEFT_OUT:
        check_callable(f, operator.name)
        return prepared_operator(operator, f, check_argnums(argnums, f, operator.name))
    if argnums.__class__ is int and argnums == 0:
        result = known_fast_path(f, inputs, operator)(f, inputs)
        if result is not None:
            return result
    return immediate_call(operator, f, inputs, argnums)


def _prepare(
    function: Function,
    f: Function,
    argnums: object,
    chunk_size: object,
    complex_inputs: object,
    device: object,
) -> AnyPrepared:
    """Check the settings of `jacrev` or `jacfwd`, and make the prepared function."""
    name = function.__name__
    check_callable(f, name)
    chunk = check_chunk(chunk_size, called(name, f))
    choice = check_choice(complex_inputs, called(name, f))
    operator = _one_mode(function, chunk, choice, check_device(device, called(name, f)))
    return prepared_operator(operator, f, check_argnums(argnums, f, name))


@lru_cache(maxsize=MOST_PROGRAMS)
def _one_mode(function: Function, chunk: int | None, choice: str, device: str) -> Operator:
    """The operator `jacrev` or `jacfwd`."""
    mode = "forward" if function is jacfwd else "reverse"
    plan = partial(jacobian_plan, mode=mode, chunk_size=chunk)
    settings: dict[str, object] = {
        "chunk_size": chunk or "auto",
        "complex_inputs": choice,
        "device": device,
    }
    return Operator(function, settings, plan, partial(check_leaves, choice=choice))


@overload
def jacrev(
    f: AtPoint[P, Entries], argnums: Literal[0] = ..., **keywords: Unpack[BlockKeywords]
) -> Blocks[P]: ...
@overload
def jacrev(
    f: Callable[P, Entries], argnums: int, **keywords: Unpack[BlockKeywords]
) -> Prepared[P, Array]: ...
@overload
def jacrev(
    f: Callable[P, object], argnums: Places = ..., **keywords: Unpack[BlockKeywords]
) -> Prepared[P, Derivatives]: ...
@public
def jacrev(
    f: Callable[P, object],
    argnums: int | tuple[int, ...] = 0,
    *,
    chunk_size: int | str = "auto",
    complex_inputs: str = "error",
    device: str = "cpu",
) -> Prepared[P, object]:
    """Function that computes the Jacobian of `f` row by row, in reverse mode.

    Parameters
    ----------
    f : callable
        Function of arrays; arguments and results may be nested tuples, lists, dicts, dataclasses.
    argnums : int or tuple of int
        The arguments that are differentiated.
    chunk_size, complex_inputs, device
        As for `jacobian`.

    Returns
    -------
    callable
        A function of the arguments of `f`. Its result has the structure of the outputs, and each
        leaf of it has the structure of the inputs. The arrays have shape ``out + inn``, in units of
        the output per unit of the input. Costs one sweep for each entry of the outputs, in batches.

    Raises
    ------
    InputError, DtypeError, TraceError, DeviceError
        As `jacobian` does.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> slopes = fdiff.jacrev(lambda p: {"y": p["a"] * p["b"]})
    >>> slopes({"a": np.array([1.0, 2.0]), "b": 3.0})["y"]["b"]
    array([1., 2.])
    """
    return _prepare(jacrev, f, argnums, chunk_size, complex_inputs, device)


@overload
def jacfwd(
    f: AtPoint[P, Entries], argnums: Literal[0] = ..., **keywords: Unpack[BlockKeywords]
) -> Blocks[P]: ...
@overload
def jacfwd(
    f: Callable[P, Entries], argnums: int, **keywords: Unpack[BlockKeywords]
) -> Prepared[P, Array]: ...
@overload
def jacfwd(
    f: Callable[P, object], argnums: Places = ..., **keywords: Unpack[BlockKeywords]
) -> Prepared[P, Derivatives]: ...
@public
def jacfwd(
    f: Callable[P, object],
    argnums: int | tuple[int, ...] = 0,
    *,
    chunk_size: int | str = "auto",
    complex_inputs: str = "error",
    device: str = "cpu",
) -> Prepared[P, object]:
    """Function that computes the Jacobian of `f` column by column, in forward mode.

    Parameters
    ----------
    f : callable
        Pure function of arrays, which returns an array, or arrays in tuples, lists, dicts or
        dataclasses.
    argnums : int or tuple of int
        The arguments that are differentiated.
    chunk_size, complex_inputs, device
        As for `jacobian`.

    Returns
    -------
    callable
        A function of the arguments of `f`. Its result has the structure of the outputs, and each
        leaf of it has the structure of the inputs. The arrays have shape ``out + inn``, in units of
        the output per unit of the input. Costs one sweep for each entry of the inputs, in batches.

    Raises
    ------
    InputError, DtypeError, TraceError, DeviceError
        As `jacobian` does.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 3.1.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.jacfwd(np.square)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    return _prepare(jacfwd, f, argnums, chunk_size, complex_inputs, device)
