"""Second derivatives of scalar functions: `hessian`, and products `hvp` and `vhp` with vectors.

Forward mode over reverse mode: a tangent is pushed through the tape of the gradient. Which seeds
and which sparsity a dense Hessian uses is decided in `dense_blocks`; the ways, in order, stand in
`transforms.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, overload

from ..dispatch.arguments import Function, called
from ..dispatch.plans import Arrays, EagerStep, OperatorPlan, Run
from ..dispatch.program import MakePlan
from ..dispatch.variant import Variant
from ..tracebacks import trim
from ..transforms.forward import depends
from ..transforms.pipeline import HVP, derive
from .annotations import Array, P, Point
from .dense_blocks import gradient_tape, hessian_plan
from .eager_results import hvp_values
from .input_checks import check_one_element, check_strict, check_strict_gradient, check_vector
from .invocation import deliver, gradients
from .jacobians import dense
from .options import LEFT_OUT, check_callable, check_chunk, check_device, check_mode
from .prepared import Prepared
from .products import product


def _second_order(plan: MakePlan, name: str, *, strict: bool) -> MakePlan:
    """What makes the plan, after the checks of second derivatives."""

    def checked(variant: Variant) -> OperatorPlan:
        check_one_element(variant, name)
        if strict:
            check_strict(variant, each_pair=True)
            check_strict_gradient(depends(gradient_tape(variant), variant.wrt), variant, name)
        return plan(variant)

    return checked


class HvpPlan(OperatorPlan):
    """The plan of a Hessian-vector product, with the value if that is asked for."""

    guards = True
    order = 2

    def __init__(self, variant: Variant, name: str, *, value: bool) -> None:
        self.variant = variant
        self.name = name
        self.value = value
        self.types = [variant.tape.input_types[k] for k in variant.wrt]
        if variant.eager is not None:
            self.step = EagerStep(partial(hvp_values, variant, int(value)))
        else:
            count = len(variant.tape.outputs) + len(variant.wrt)
            keep = [*[0] * value, *range(count + 1, 2 * count)]
            self.step = variant.step(derive(HVP, variant.tape, wrt=variant.wrt, keep=keep))

    def call(self, arrays: Arrays, vectors: Sequence[object], run: Run) -> object:
        v = check_vector(vectors[0], self.types, self.variant, self.name, like="inputs")
        outs = run(self.step, [*arrays, *v])
        if not self.value:
            return gradients(self.variant, outs)
        return deliver(outs[0], self.variant.scalars[0]), gradients(self.variant, outs[1:])


def _hvp_plan(name: str, *, strict: bool, value: bool) -> MakePlan:
    def plan(variant: Variant) -> OperatorPlan:
        return HvpPlan(variant, name, value=value)

    return _second_order(plan, name, strict=strict)


_PRODUCTS = {
    (name, (strict, value)): _hvp_plan(name, strict=strict, value=value)
    for name in ("hvp", "vhp") for strict in (False, True) for value in (False, True)
}  # fmt: skip


@overload
def hvp(
    f: Function,
    *,
    create_graph: bool = ...,
    strict: bool = ...,
    argnums: int | tuple[int, ...] = ...,
) -> Prepared[..., Any]: ...
@overload
def hvp(
    f: Function,
    inputs: object,
    v: object = ...,
    *,
    create_graph: bool = ...,
    strict: bool = ...,
) -> tuple[Any, Any]: ...
def hvp(
    f: Function,
    inputs: object = LEFT_OUT,
    v: object = None,
    *,
    create_graph: bool = False,
    strict: bool = False,
    argnums: int | tuple[int, ...] = 0,
) -> object:
    """Product of the Hessian of a scalar function with a vector: ``(output, H v)``.

    Parameters
    ----------
    f : callable
        Function of arrays that returns a single array with one element.
    inputs : array, list of numbers, dict, dataclass, or tuple of these, optional
        Where to evaluate. Left out, the prepared function ``(x, v, *args)`` is returned, which
        gives the product alone: what SciPy takes as ``hessp``.
    v : array or tuple of arrays, optional
        Built and shaped exactly like the inputs.
    create_graph : bool
        Accepted for those who come from torch.
    strict : bool
        Raise `StrictError` if the gradient does not depend on an input.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.

    Returns
    -------
    tuple
        The output of `f`, and an array for each input (the prepared function gives the latter).
        Forward over reverse mode: costs a small multiple of one gradient; no Hessian is formed.

    Raises
    ------
    VectorError
        If `v` or the output has the wrong size.

    References
    ----------
    Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6(1), 1994.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    >>> value, product = fdiff.hvp(lambda x: np.sum(x**3), x, v)
    >>> print(value, product)
    9.0 [ 6. 12.]
    """
    value = inputs is not LEFT_OUT
    options = bool(strict), value
    try:
        return product(f, "hvp", inputs, v, argnums, options, _PRODUCTS["hvp", options], hvp)
    except BaseException as error:
        trim(error)
        raise


@overload
def vhp(
    f: Function,
    *,
    create_graph: bool = ...,
    strict: bool = ...,
    argnums: int | tuple[int, ...] = ...,
) -> Prepared[..., Any]: ...
@overload
def vhp(
    f: Function,
    inputs: object,
    v: object = ...,
    *,
    create_graph: bool = ...,
    strict: bool = ...,
) -> tuple[Any, Any]: ...
def vhp(
    f: Function,
    inputs: object = LEFT_OUT,
    v: object = None,
    *,
    create_graph: bool = False,
    strict: bool = False,
    argnums: int | tuple[int, ...] = 0,
) -> object:
    """Product of a vector with the Hessian of a scalar function: ``(output, v^T H)``.

    The Hessian is symmetric, so that this is `hvp` by another name, with the same parameters,
    cost and errors.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    >>> value, product = fdiff.vhp(lambda x: np.sum(x**3), x, v)
    >>> print(value, product)
    9.0 [ 6. 12.]
    """
    value = inputs is not LEFT_OUT
    options = bool(strict), value
    try:
        return product(f, "vhp", inputs, v, argnums, options, _PRODUCTS["vhp", options], vhp)
    except BaseException as error:
        trim(error)
        raise


@overload
def hessian(
    f: Callable[P, object],
    *,
    argnums: int = ...,
    strict: bool = ...,
    chunk_size: int | str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    outer_jacobian_strategy: str | None = ...,
) -> Prepared[P, Array]: ...
@overload
def hessian(
    f: Callable[P, object],
    *,
    argnums: tuple[int, ...],
    strict: bool = ...,
    chunk_size: int | str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    outer_jacobian_strategy: str | None = ...,
) -> Prepared[P, Any]: ...
@overload
def hessian(
    f: Function,
    inputs: Point,
    *,
    strict: bool = ...,
    chunk_size: int | str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    outer_jacobian_strategy: str | None = ...,
) -> Array: ...
@overload
def hessian(
    f: Function,
    inputs: object,
    *,
    strict: bool = ...,
    chunk_size: int | str = ...,
    device: str = ...,
    create_graph: bool = ...,
    vectorize: bool = ...,
    outer_jacobian_strategy: str | None = ...,
) -> Any: ...
def hessian(
    f: Function,
    inputs: object = LEFT_OUT,
    *,
    argnums: int | tuple[int, ...] = 0,
    strict: bool = False,
    chunk_size: int | str = "auto",
    device: str = "cpu",
    create_graph: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str | None = None,
) -> object:
    """Hessian of a scalar function at `inputs`; with `inputs` left out, the function that gives it.

    Parameters
    ----------
    f : callable
        Pure function of arrays that returns a single array with one element.
    inputs : array or tuple of arrays, optional
        Where to evaluate.
    argnums : int or tuple of int
        In the prepared form, the arguments that are differentiated.
    strict : bool
        Raise `StrictError` if the gradient does not depend on an input.
    chunk_size : int or "auto"
        How many columns are computed at a time; ``"auto"`` keeps intermediate values below 256 MiB.
    device : {"cpu"}
        Where to run.
    create_graph, vectorize : bool
        Accepted for those who come from torch: results nest and are batched anyway.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}, optional
        Torch's name of the outer mode. Values are the same, computed forward over reverse; inputs
        of mixed dtypes give a block ``H[i][j]`` the dtype of input `j`, or of input `i` with
        "forward-mode".

    Returns
    -------
    array or callable
        An array of shape ``inn + inn``, exactly symmetric; for a tuple of inputs ``H[i][j]`` of
        shape ``inn_i + inn_j``. Costs about ``size(inn)`` times a small multiple of one gradient.

    Raises
    ------
    VectorError
        If the output does not have exactly one element.
    InputError
        If an input is not an array.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, section 5.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> fdiff.hessian(lambda x: np.sum(x**3), np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    try:
        kind = chunk_size.__class__  # 1.0 is no 1
        settings = (kind, device, outer_jacobian_strategy, chunk_size, not strict)
        try:
            options, make_plan = _by_settings[settings]
        except (KeyError, TypeError):  # met for the first time, or not hashable
            check_callable(f, "hessian")
            options, make_plan = _by_settings[settings] = _checked_settings(f, *settings)
        return dense(f, "hessian", inputs, argnums, options, make_plan, hessian, settings)
    except BaseException as error:
        trim(error)
        raise


_by_settings: dict[object, tuple[tuple[object, ...], MakePlan]] = {}  # by settings that are valid


def _checked_settings(
    f: Function,
    _: type,
    device: object,
    strategy: object,
    chunk_size: object,
    loose: bool,  # noqa: FBT001 - a setting like the others: not `strict`
) -> tuple[tuple[object, ...], MakePlan]:
    """The options that settings of `hessian` stand for, and what makes the plan; checks them."""
    call = called("hessian", f)
    check_device(device, call)
    way = check_mode("auto", strategy, call, "outer_jacobian_strategy")
    chunk = check_chunk(chunk_size, call)

    def plan(variant: Variant) -> OperatorPlan:
        return hessian_plan(variant, way, chunk)

    return (way, chunk, not loose), _second_order(plan, "hessian", strict=not loose)
