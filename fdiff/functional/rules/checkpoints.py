"""`checkpoint`: a function whose intermediate values are computed again in the backward pass.

In a traced function, a call of a checkpoint is one node of the tape
(`transforms/checkpoint_rules`). For recorded arrays, `checkpoint` is
`fdiff.autograd.functions.checkpointing`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, cast, overload

from ...errors import FdiffError, flag, name_call
from ...hooks import Args, Function, Named, hooks
from ...trace import private, tracing
from ...trace.trace_stack import stack
from ...tracebacks import public
from ...transforms.checkpoint_rules import checkpoint_rule
from ..annotations import P, R
from ..options import check_callable
from .custom_derivatives import CustomFunction
from .rule_construction import entered
from .rule_tracing import FunctionAlone
from .ruled_call import RuledCall


@overload
def checkpoint(function: Callable[P, R], /) -> Checkpointed[P, R]: ...
@overload
def checkpoint(
    function: Callable[..., R],
    /,
    *args: object,
    use_reentrant: bool | None = None,
    **kwargs: object,
) -> R: ...
@public
def checkpoint(
    function: Function, /, *args: object, use_reentrant: bool | None = None, **kwargs: object
) -> object:
    """A function, or a call of it, that keeps no intermediate values for the backward pass.

    This saves memory and costs time: the backward pass computes the intermediate values again,
    once, when it needs them. Arguments and results are kept.

    Parameters
    ----------
    function : callable
        A function of arrays, or of nested tuples, lists, dicts and dataclasses of them. It must
        compute the same values when it is called again. For this, the state of NumPy's global
        random generator is restored (of other generators it is not). The function may read
        differentiated arrays from outside.
    *args, **kwargs
        Its arguments, to call it immediately, as in torch.
    use_reentrant : bool, optional
        Accepted for compatibility with torch. Both values do what torch does with False: the other
        way gives the same derivatives, and has more limits.

    Returns
    -------
    callable or object
        Without arguments, a function that does so, as ``jax.checkpoint``. With arguments, the
        result of `function`.

    Raises
    ------
    RuntimeError
        In the backward pass, if recorded arrays are among the arguments, and one of them was stored
        into since, or the function computes other values when it is called again.
    TraceError
        In a function that is traced, if `function` stores into an array that it is given.

    Notes
    -----
    This works for recorded arrays (`fdiff.autograd`) and in functions that operators trace, in
    every operator and at every order. In a traced function, each call traces `function` once, and
    neither transforms nor kernels merge the second computation with the first. Kernels never store
    values that only need elementwise operations, so checkpoints pay for long chains of sums,
    products and the like. In other cases they only cost the time of the second computation. If no
    derivative is taken, `function` is called directly.

    References
    ----------
    Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26(1), 2000, for one level;
    ``jax.checkpoint``; ``torch.utils.checkpoint.checkpoint`` with ``use_reentrant=False``.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> @fdiff.checkpoint
    ... def layer(x, w):
    ...     return np.tanh(np.sin(w @ x))
    >>> def network(x, w):
    ...     for _ in range(3):
    ...         x = layer(x, w)
    ...     return np.sum(x)
    >>> fdiff.grad(network)(np.ones(2), np.eye(2))
    array([0.09786029, 0.09786029])

    Recorded arrays:

    >>> x = fdiff.autograd.tensor([0.0, 1.0], requires_grad=True)
    >>> fdiff.checkpoint(lambda a: np.exp(np.sin(a)), x).sum().backward()
    >>> x.grad
    tensor([1.        , 1.25338077])
    """
    check_callable(function, "checkpoint")
    if use_reentrant is not None:
        flag(use_reentrant, "use_reentrant", "checkpoint")
    if not args and not kwargs:
        return Checkpointed(function)
    if tracing():
        return Checkpointed(function)(*args, **kwargs)
    return _call_untraced(function, args, kwargs)


def _call_untraced(function: Callable[..., R], args: Args, kwargs: Named) -> R:
    """A call where nothing is traced: recorded arrays may be among what it reads."""
    recorded = hooks.recorded_checkpoint
    if recorded is None:
        return function(*args, **kwargs)
    try:
        return recorded(function, args, kwargs)
    except FdiffError as error:
        name_call(error, "checkpoint", function)
        raise


class Checkpointed(CustomFunction[P, R]):
    """A function whose every call is a checkpoint."""

    name = "checkpoint"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if not tracing():
            return _call_untraced(self.fun, args, kwargs)
        own = copy(self)
        own.fun = private(self.fun)
        if not any(trace.guards.active for trace in stack.traces):
            return cast("R", own.fun(*args, **kwargs))
        call = RuledCall(own, (args, kwargs))
        tapes = FunctionAlone(call).tapes()
        return cast("R", entered(call, checkpoint_rule(tapes.forward), tapes))

    def output(self, args: tuple[Any, ...]) -> object:
        positional, keywords = args
        return cast("Function", self.fun)(*positional, **keywords)
