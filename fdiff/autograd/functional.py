"""``torch.autograd.functional``: the operators of fdiff with torch's signatures and its graph.

Arrays may be recorded or plain, and so are the results. `func` may use the methods of recorded
arrays. `func` is traced, so that results come from compiled kernels, and may be differentiated
again whatever `create_graph` says: `create_graph` decides whether `backward` goes through the
results. Source: torch's page ``torch.autograd``, section "Functional higher level API".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .. import functional as operators
from ..errors import StrictError, called, flag
from ..functional.options import mode_of
from ..tracebacks import public
from ..tree import flatten, map_leaves
from .arrays.recorded_array import RecordedArray, tensor
from .thread_state import ported

if TYPE_CHECKING:
    from ..functional.annotations import Derivatives

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

Func = Callable[..., object]


@public
def jacobian(
    func: Func,
    inputs: object,
    create_graph: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    strict: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    vectorize: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    strategy: str = "reverse-mode",
) -> Derivatives:
    """The Jacobian of `func` at `inputs`: `fdiff.jacobian`, as torch calls it.

    Parameters
    ----------
    func : callable
        A function of arrays that returns an array or a tuple of them.
    inputs : array or tuple of arrays
        Where to evaluate.
    create_graph : bool
        Whether the result can be differentiated by `backward` with respect to inputs that require
        gradients.
    strict : bool
        Raise an error if an output does not depend on an input; with `create_graph`, also if the
        Jacobian does not depend on any input.
    vectorize : bool
        Accepted. Rows are always computed at once.
    strategy : {"reverse-mode", "forward-mode"}
        Which mode.

    Returns
    -------
    array, or tuples of them
        Arrays of shape ``out + inn``. If outputs or inputs are tuples, the result is nested like
        the outputs, and inside like the inputs. They are recorded arrays if some of `inputs` are.

    Raises
    ------
    StrictError
        With `strict`, as described there.

    References
    ----------
    ``torch.autograd.functional.jacobian``.

    Examples
    --------
    >>> from fdiff.autograd import tensor
    >>> from fdiff.autograd.functional import jacobian
    >>> jacobian(lambda x: x.exp() * x, tensor([0.0, 1.0]))
    tensor([[1.        , 0.        ],
            [0.        , 5.43656366]])
    """
    call = called("fdiff.autograd.functional.jacobian", func)
    options = {"vectorize": vectorize, "mode": mode_of(strategy, "strategy", call)}
    return _call_operator("jacobian", func, (inputs,), create_graph, strict, **options)


@public
def hessian(
    func: Func,
    inputs: object,
    create_graph: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    strict: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    vectorize: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    outer_jacobian_strategy: str = "reverse-mode",
) -> Derivatives:
    """The Hessian of a function with one output entry: `fdiff.hessian`, as torch calls it.

    Parameters
    ----------
    func : callable
        A function of arrays that returns one number.
    inputs : array or tuple of arrays
        Where to evaluate.
    create_graph, strict, vectorize
        As for `jacobian`.
    outer_jacobian_strategy : {"reverse-mode", "forward-mode"}
        Accepted: forward over reverse is exact either way.

    Returns
    -------
    array, or tuples of tuples of them
        Of shape ``inn + inn``.

    Raises
    ------
    StrictError
        With `strict`, as for `jacobian`.

    References
    ----------
    ``torch.autograd.functional.hessian``.

    Examples
    --------
    >>> from fdiff.autograd import tensor
    >>> from fdiff.autograd.functional import hessian
    >>> hessian(lambda x: x.pow(3).sum(), tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    options = {"vectorize": vectorize, "outer_jacobian_strategy": outer_jacobian_strategy}
    return _call_operator("hessian", func, (inputs,), create_graph, strict, **options)


def _product(name: str, what: str, example: str) -> Func:
    """The operator of a product, with torch's signature; `what` it gives is told in a line."""

    def call(
        func: Func,
        inputs: object,
        v: object = None,
        create_graph: bool = False,  # noqa: FBT001,FBT002 - torch's signature
        strict: bool = False,  # noqa: FBT001,FBT002 - torch's signature
    ) -> tuple[Derivatives, Derivatives]:
        return _call_operator(name, func, (inputs, v), create_graph, strict)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = _DOCUMENTATION.format(name=name, what=what, example=example)
    return public(call)


_DOCUMENTATION = """{what}: `fdiff.{name}`, as torch calls it.

    Parameters
    ----------
    func : callable
        A function of arrays that returns an array or a tuple of them.
    inputs : array or tuple of arrays
        Where to evaluate.
    v : array or tuple of arrays, optional
        The vector. It may be left out if it is one number.
    create_graph, strict : bool
        As for `jacobian`.

    Returns
    -------
    tuple
        The outputs of `func`, and the product. They are recorded arrays if some of `inputs` are.

    Raises
    ------
    StrictError
        With `strict`, as for `jacobian`.
    VectorError
        If `v` does not fit.

    References
    ----------
    ``torch.autograd.functional.{name}``.

    Examples
    --------
    >>> from fdiff.autograd import functional, tensor
    >>> x, v = tensor([1.0, 2.0]), tensor([1.0, 10.0])
    {example}
    """

vjp = _product(
    "vjp",
    "The outputs of `func`, and a vector times its Jacobian",
    """>>> functional.vjp(lambda x: x * x, x, v)
    (tensor([1., 4.]), tensor([ 2., 40.]))""",
)
jvp = _product(
    "jvp",
    "The outputs of `func`, and its Jacobian times a vector",
    """>>> functional.jvp(lambda x: x.sum() * x, x, v)
    (tensor([3., 6.]), tensor([14., 52.]))""",
)
vhp = _product(
    "vhp",
    "The value of `func`, and a vector times its Hessian",
    """>>> functional.vhp(lambda x: x.pow(3).sum(), x, v)
    (tensor(9.), tensor([  6., 120.]))""",
)
hvp = _product(
    "hvp",
    "The value of `func`, and its Hessian times a vector",
    """>>> functional.hvp(lambda x: x.pow(3).sum(), x, v)
    (tensor(9.), tensor([  6., 120.]))""",
)


def _call_operator(
    name: str,
    func: Func,
    args: tuple[object, ...],
    create_graph: object,
    strict: object,
    **options: object,
) -> Derivatives:
    """Call the operator on `args`: the inputs and perhaps a vector."""
    call = called(f"fdiff.autograd.functional.{name}", func)
    create, strict = flag(create_graph, "create_graph", call), flag(strict, "strict", call)
    recorded = any(isinstance(x, RecordedArray) for x in flatten(args)[0])
    watched = create and strict
    if watched:
        args = (map_leaves(_leaf, args[0]), *args[1:])
    with ported():
        result = getattr(operators, name)(func, *args, strict=strict, **options)
    if watched:
        _refuse_constant(name, result if len(args) == 1 else result[1], args[0])
    if not recorded:
        return map_leaves(lambda x: x.value if isinstance(x, RecordedArray) else x, result)
    if not create:
        return map_leaves(lambda x: x.detach() if isinstance(x, RecordedArray) else x, result)
    return result


def _leaf(x: object) -> RecordedArray:
    """An input that requires a gradient, so that a result tells whether it depends on it."""
    if isinstance(x, RecordedArray):
        return x if x.requires_grad else x.detach().requires_grad_()
    return tensor(x, requires_grad=True)


def _refuse_constant(name: str, derivatives: object, inputs: object) -> None:
    """Refuse derivatives that depend on no input: they cannot be differentiated again."""
    order = "hessian" if name in ("hessian", "hvp", "vhp") else "jacobian"
    count = len(inputs) if isinstance(inputs, tuple) else 1
    for k, x in enumerate(flatten(derivatives)[0]):
        if not (isinstance(x, RecordedArray) and x.requires_grad):
            raise StrictError(
                f"The {order} of the user-provided function is independent of input {k % count}."
                " This is not allowed in strict mode when create_graph=True."
            )
