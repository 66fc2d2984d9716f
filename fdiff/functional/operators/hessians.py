"""Second derivatives: `hessian`, and the products `hvp` and `vhp` of scalar functions.

Second derivatives are forward over reverse: tangents are pushed through the tape of the gradient.
`dense_plans` chooses the seeds and the sparsity of a dense Hessian; `transforms.pipeline` lists the
methods in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product as product_of
from typing import TYPE_CHECKING, Literal, Unpack, overload

from ...device_arrays import DEVICES
from ...dispatch.arguments import Function
from ...errors import called
from ...tracebacks import trim
from ..annotations import (
    A,
    Array,
    AtPoint,
    Derivatives,
    Entries,
    HessianKeywords,
    P,
    Places,
    Point,
    ProductKeywords,
    R,
)
from ..call.operator_call import Operator
from ..call.prepared import Prepared
from ..options import LEFT_OUT, check_chunk, check_device, check_flags, mode_of, refuse_lower
from ..unknown_options import refuse_others, without_catch_alls
from .dense_plans import check_hessian, hessian_plan
from .jacobians import dense, sparse_derivative
from .products import TWO_SWEEPS, HvpPlan, product, refused

if TYPE_CHECKING:
    from ..call.prepared import Blocks, Hvp


@overload
def hvp(
    f: AtPoint[P, object], *, argnums: Literal[0] = ..., **keywords: Unpack[ProductKeywords]
) -> Hvp[P]: ...
@overload
def hvp(
    f: Function, *, argnums: Places = ..., **keywords: Unpack[ProductKeywords]
) -> Prepared[..., Derivatives]: ...
@overload
def hvp(
    f: Callable[..., R], inputs: A, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, A]: ...
@overload
def hvp(
    f: Callable[..., R], inputs: object, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, Derivatives]: ...
@without_catch_alls
def hvp(
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
    """Product of the Hessian of a scalar function with a vector: ``(output, H v)``.

    Parameters
    ----------
    f : callable
        Function of arrays that returns a single array with one element.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. Without it, the prepared function ``(x, v, *args)`` is returned. It
        returns only the product, as SciPy's ``hessp`` does.
    v : array or tuple of arrays, optional
        A vector with exactly the structure and shapes of the inputs.
    create_graph : bool
        Accepted for compatibility with torch.
    strict : bool
        Raise `StrictError` if the gradient does not depend on an input.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.

    Returns
    -------
    tuple
        The output of `f`, and an array of the shape of each input (the prepared function gives the
        latter), in units of ``f`` times ``v`` per squared unit of the input.
        Forward over reverse mode: costs a small multiple of one gradient; no Hessian is formed.

    Raises
    ------
    VectorError
        If `v` or the output has the wrong size.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.

    References
    ----------
    Pearlmutter, "Fast exact multiplication by the Hessian", Neural Comput. 6(1), 1994, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    >>> value, product = fdiff.hvp(lambda x: np.sum(x**3), x, v)
    >>> print(value, product)
    9.0 [ 6. 12.]
    """
    try:
        if further or unknown:
            refuse_others(hvp, f, further, unknown)
        place = device if device.__class__ is str else ""
        if strict is not False or create_graph is not False:
            check_flags("hvp", f, strict=strict, create_graph=create_graph)
        operator = _HVP.get((bool(strict), inputs is not LEFT_OUT, place))
        return product(operator or refused(hvp, f, device), f, inputs, v, argnums)
    except BaseException as error:
        trim(error, "hvp", f)
        raise


@overload
def vhp(
    f: AtPoint[P, object], *, argnums: Literal[0] = ..., **keywords: Unpack[ProductKeywords]
) -> Hvp[P]: ...
@overload
def vhp(
    f: Function, *, argnums: Places = ..., **keywords: Unpack[ProductKeywords]
) -> Prepared[..., Derivatives]: ...
@overload
def vhp(
    f: Callable[..., R], inputs: A, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, A]: ...
@overload
def vhp(
    f: Callable[..., R], inputs: object, v: object = ..., **keywords: Unpack[ProductKeywords]
) -> tuple[R, Derivatives]: ...
@without_catch_alls
def vhp(
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
    """Product of a vector with the Hessian of a scalar function: ``(output, v^T H)``.

    The Hessian is symmetric, so this is another name for `hvp`.

    Parameters
    ----------
    f : callable
        Function of arrays that returns a single array with one element.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. Without it, the prepared function ``(x, v, *args)`` is returned.
    v : array or tuple of arrays, optional
        A vector with exactly the structure and shapes of the inputs.
    create_graph, strict, argnums, device
        As for `hvp`.

    Returns
    -------
    tuple
        The output of `f`, and an array of the shape of each input (the prepared function gives the
        latter), in units of ``f`` times ``v`` per squared unit of the input. Costs a small
        multiple of one gradient; no Hessian is formed.

    Raises
    ------
    VectorError, InputError, DtypeError, DeviceError
        As `hvp` does.

    References
    ----------
    Pearlmutter, "Fast exact multiplication by the Hessian", Neural Comput. 6(1), 1994, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    >>> value, product = fdiff.vhp(lambda x: np.sum(x**3), x, v)
    >>> print(value, product)
    9.0 [ 6. 12.]
    """
    try:
        if further or unknown:
            refuse_others(vhp, f, further, unknown)
        place = device if device.__class__ is str else ""
        if strict is not False or create_graph is not False:
            check_flags("vhp", f, strict=strict, create_graph=create_graph)
        operator = _VHP.get((bool(strict), inputs is not LEFT_OUT, place))
        return product(operator or refused(vhp, f, device), f, inputs, v, argnums)
    except BaseException as error:
        trim(error, "vhp", f)
        raise


@overload
def hessian(
    f: AtPoint[P, Entries], *, argnums: Literal[0] = ..., **keywords: Unpack[HessianKeywords]
) -> Blocks[P]: ...
@overload
def hessian(
    f: Callable[P, Entries], *, argnums: int, **keywords: Unpack[HessianKeywords]
) -> Prepared[P, Array]: ...
@overload
def hessian(
    f: Callable[P, object], *, argnums: Places = ..., **keywords: Unpack[HessianKeywords]
) -> Prepared[P, Derivatives]: ...
@overload
def hessian(
    f: Callable[P, object],
    *,
    argnums: Places = ...,
    sparse: bool | str,
    lower: bool = ...,
    **keywords: Unpack[HessianKeywords],
) -> Prepared[P, Derivatives]: ...
@overload
def hessian(
    f: Function,
    inputs: object,
    *,
    sparse: bool | str,
    lower: bool = ...,
    **keywords: Unpack[HessianKeywords],
) -> Derivatives: ...
@overload
def hessian(f: Function, inputs: Point, **keywords: Unpack[HessianKeywords]) -> Array: ...
@overload
def hessian(f: Function, inputs: object, **keywords: Unpack[HessianKeywords]) -> Derivatives: ...
@without_catch_alls
def hessian(
    f: Function,
    inputs: object = LEFT_OUT,
    *further: object,
    argnums: int | tuple[int, ...] = 0,
    sparse: bool | str = False,
    lower: bool = False,
    strict: bool = False,
    chunk_size: int | str = "auto",
    device: str = "cpu",
    create_graph: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str | None = None,
    **unknown: object,
) -> object:
    """Hessian of `f` at `inputs`, or without `inputs` the function that computes it.

    Parameters
    ----------
    f : callable
        Pure function of arrays, which returns an array, or arrays in tuples, lists and dicts.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    sparse : {False, True, "csr", "csc", "coo"}
        Return SciPy sparse arrays of this format, as `jacobian` does. The function must have one
        output.
    lower : bool
        Return only the lower triangle of a sparse Hessian.
    strict : bool
        Raise `StrictError` if the gradient does not depend on an input.
    chunk_size : int or "auto"
        How many columns are computed at a time; ``"auto"`` keeps intermediate values below 256 MiB.
    device : {"cpu", "cuda"}
        Where to run, as for `grad`.
    create_graph, vectorize : bool
        Accepted for compatibility with torch. Results nest and are batched in any case.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}, optional
        The outer mode, by its name in torch. Values are computed forward over reverse, and are the
        same for both. If inputs have different dtypes, a block ``H[i][j]`` has the dtype of input
        `j`, or of input `i` with "forward-mode".

    Returns
    -------
    array or callable
        An array of shape ``inn + inn``, exactly symmetric; for a tuple of inputs ``H[i][j]`` of
        shape ``inn_i + inn_j``. Entry ``[i, j]`` is in units of ``f`` per unit of ``x[i]`` per unit
        of ``x[j]``. Costs about ``size(inn)`` times a small multiple of one gradient.

        For an output of shape ``out`` with several elements, the result has shape ``out + inn +
        inn``, as in JAX. It is nested like the outputs, then twice like the inputs, and costs
        ``size(inn)`` times as much as the Jacobian. An output array with a single element counts as
        a scalar, as in torch: ``out`` is left out for any shape of it.

    Raises
    ------
    InputError
        If inputs or outputs contain anything but arrays, or are ragged lists of numbers.
    DeviceError
        With ``device="cuda"``, if there is no GPU, no driver or no package for it.
    StructureError
        With `sparse`, if the structure cannot be determined, or has too many entries.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 5.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.hessian(lambda x: np.sum(x**3), np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    >>> fdiff.hessian(lambda x: x**3, np.array([1.0, 2.0])).shape
    (2, 2, 2)
    >>> h = fdiff.hessian(lambda x: np.sum(x[1:] * x[:-1]), sparse="coo", lower=True)
    >>> rows, cols = h.coordinates(np.zeros(3))
    >>> rows, cols, h.data(np.zeros(3))
    (array([1, 2], dtype=int32), array([0, 1], dtype=int32), array([1., 1.]))
    """
    try:
        if further or unknown:
            refuse_others(hessian, f, further, unknown)
        if sparse is not False:
            return sparse_derivative(
                hessian, f, inputs, argnums,
                {"sparse": sparse, "lower": lower, "device": device, "strict": strict},
                {"chunk_size": chunk_size, "create_graph": create_graph,
                 "outer_jacobian_strategy": outer_jacobian_strategy},
            )  # fmt: skip
        if lower is not False:
            refuse_lower(lower, called("hessian", f))
        if strict is not False or create_graph is not False or vectorize is not False:
            flags = {"strict": strict, "create_graph": create_graph, "vectorize": vectorize}
            strict, *_ = check_flags("hessian", f, **flags)
        kind = chunk_size.__class__
        settings = (hessian, kind, device, outer_jacobian_strategy, chunk_size, strict)
        return dense(settings, f, inputs, argnums, _operator)
    except BaseException as error:
        trim(error, "hessian", f)
        raise


def _operator(
    f: Function,
    device: object,
    strategy: object,
    chunk_size: object,
    strict: bool,  # noqa: FBT001 - a setting like the others
) -> Operator:
    """The operator `hessian` with these settings, which are checked."""
    call = called("hessian", f)
    check_device(device, call)
    keyword = "outer_jacobian_strategy"
    mode = mode_of(strategy, keyword, call)
    plan = partial(hessian_plan, mode=mode, chunk_size=check_chunk(chunk_size, call))
    settings = {"device": device, keyword: strategy, "chunk_size": chunk_size, "strict": strict}
    return Operator(hessian, settings, plan, partial(check_hessian, strict=strict))


@dataclass(frozen=True)
class WithValue:
    """A product in the form that immediate calls use: its prepared functions return the value."""

    function: Function

    @property
    def __name__(self) -> str:
        return self.function.__name__

    def __call__(self, f: Function, *, strict: bool, device: str, argnums: object) -> object:
        operators = _HVP if self.function is hvp else _VHP
        return product(operators[strict, True, device], f, LEFT_OUT, None, argnums)


def _products(function: Function) -> dict[tuple[bool, bool, str], Operator]:
    """The operator of a product with these settings."""
    operators: dict[tuple[bool, bool, str], Operator] = {}
    for strict, value, device in product_of((False, True), (False, True), DEVICES):
        plan = partial(HvpPlan, name=function.__name__, value=value)
        settings: dict[str, object] = {"strict": strict, "device": device}
        check = partial(check_hessian, strict=strict)
        maker = WithValue(function) if value else function
        operators[strict, value, device] = Operator(maker, settings, plan, check, TWO_SWEEPS)
    return operators


_HVP, _VHP = _products(hvp), _products(vhp)
