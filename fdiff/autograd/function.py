"""`Function`: operations with the user's rules, on recorded arrays and in traced functions.

On recorded arrays ``apply`` runs the forward rule at once and enters one node in the graph, whose
rule is ``backward`` (`recorded_functions.py`). In a function that an operator of fdiff traces,
``apply`` is a call of a function made by `fdiff.custom_vjp` (`traced_functions.py`). Source:
torch's note "Extending PyTorch", section "Extending torch.autograd".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import fdiff.intact_numpy as np

from ..errors import InputError, failure
from ..foreign_errors import not_foreign, wraps
from ..trace import TracedArray, tracing
from ..tracebacks import trim
from ..transforms.custom_rules import refusing_derivatives
from .argument_checks import require_function
from .arrays.recorded_array import RecordedArray
from .functions.custom_nodes import custom_node
from .functions.function_context import FunctionCtx, positional, rule_of_class, run_forward
from .functions.recorded_functions import apply_recorded
from .functions.traced_functions import apply_traced
from .thread_state import not_recording, state

TWICE = "trying to differentiate twice a function that was marked with @once_differentiable"


class Function(FunctionCtx):
    """Base class of operations with user-defined rules, as ``torch.autograd.Function``.

    Subclasses define static methods:

    - ``forward(ctx, *args)``, or ``forward(*args)`` beside ``setup_context(ctx, inputs, output)``;
    - ``backward(ctx, *grad_outputs)``, which returns a gradient or None for each argument; ``vjp``
      is another name for it;
    - ``jvp(ctx, *grad_inputs)``, optionally: the tangents of the outputs;
    - ``vmap(info, in_dims, *args)``, optionally: the outputs for all elements of a batch.

    and are used by ``apply``.

    Notes
    -----
    In functions that operators of fdiff trace, forward mode is the transpose of ``backward``, or
    ``jvp`` if there is no ``backward``. `fdiff.vmap` calls ``vmap`` for the outputs; the class then
    needs a ``setup_context``. Without ``vmap``, it batches the operations of the rules, as torch
    does with ``generate_vmap_rule``. It batches ``backward``, ``jvp``, and calls inside of the
    rules of other functions in the same way. ``vmap`` must compute the values that ``forward``
    computes for each element, because these decide which branches are taken.

    Second derivatives use ``backward`` again, as in torch, even if ``backward`` is not the
    derivative of ``forward`` (straight-through estimators).

    References
    ----------
    https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff.autograd
    >>> class Exp(fdiff.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, i):
    ...         result = np.exp(i)
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         (result,) = ctx.saved_tensors
    ...         return grad_output * result
    >>> x = fdiff.autograd.tensor([0.0, 1.0], requires_grad=True)
    >>> Exp.apply(x).sum().backward()
    >>> x.grad
    tensor([1.        , 2.71828183])
    >>> fdiff.grad(lambda x: np.sum(Exp.apply(x)))(np.zeros(2))
    array([1., 1.])
    """

    generate_vmap_rule: ClassVar[bool] = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> object:
        """Compute the operation; to be defined by subclasses."""
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> object:
        """Save in `ctx` what the rules need, if ``forward`` takes no `ctx`."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **kwargs: Any) -> object:  # with any names of theirs
        """Return the gradients of the arguments; to be defined by subclasses."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function"
            " to use it with backward mode AD."
        )

    vjp = backward  # its other name: subclasses define one of both

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **kwargs: Any) -> object:  # likewise
        """Return the tangents of the outputs; may be defined by subclasses."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with"
            " forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[object, object]:
        """Compute the operation for all elements of a batch; may be defined by subclasses.

        Parameters
        ----------
        info : object
            ``info.batch_size`` is the number of elements.
        in_dims : tuple
            For each argument, the axis that `fdiff.vmap` maps, or None.
        *args
            The arguments of ``apply``, whole.

        Returns
        -------
        tuple
            The outputs, and the axis of the elements in each of them (None: the same for all).
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or"
            " set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call ``forward`` with these arguments, and record the call.

        Parameters
        ----------
        *args, **kwargs
            Arrays, recorded arrays, and any other objects. Rules get all of them by position;
            ``setup_context`` also gets defaults of ``forward``.

        Returns
        -------
        array or tuple
            The result of ``forward``. An object in a tuple that is not an array is returned
            unchanged, and its entry of ``grad_outputs`` is None.

        Raises
        ------
        RuntimeError
            In the backward pass, if ``backward`` returns a wrong number of gradients, or one with a
            wrong shape.
        TypeError
            If ``forward`` does not take these arguments.
        """
        rule = rule_of_class(cls, Function)
        try:
            if kwargs or (rule.setup is not None and getattr(cls.forward, "__defaults__", None)):
                args = positional(rule, cls.__name__, args, kwargs)
        except not_foreign(TypeError) as error:  # it says what is wrong with them
            raise TypeError(f"{cls.__name__}.apply: {error}") from None
        recorded = any(type(a) is RecordedArray for a in args)
        if tracing() and not recorded:
            return apply_traced(cls, rule, args)
        try:
            if recorded:
                if rule.pullback is None:
                    rule = rule._replace(pullback=cls.backward)  # which says that there is none
                return apply_recorded(rule, cls.__name__, args)
            with not_recording():  # as torch: what is not an argument has no gradient
                return run_forward(rule, FunctionCtx(), args)
        except BaseException as error:
            trim(error, f"{cls.__name__}.apply")
            raise

    def __call__(self, *_: object) -> None:
        """Refused: an operation is called by ``apply``, a method of its class."""
        name = type(self).__name__
        fact, way = "an object of the class was called.", f"Write {name}.apply(...)."
        raise failure(InputError, name, fact, way)


def once_differentiable(fn: Callable[..., object]) -> Callable[..., object]:
    """Decorator of ``backward``: its results cannot be differentiated again.

    It runs without recording; a derivative of its result raises an error.

    Parameters
    ----------
    fn : callable
        The static method ``backward``.

    Returns
    -------
    callable
        The same, for one derivative.

    Examples
    --------
    >>> import fdiff.autograd
    >>> from fdiff.autograd.function import once_differentiable
    >>> class Double(fdiff.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, bar):
    ...         return 2 * bar
    >>> x = fdiff.autograd.tensor(1.0, requires_grad=True)
    >>> Double.apply(x).backward()
    >>> print(x.grad.item())
    2.0
    """
    require_function(fn, "what is decorated", "function.once_differentiable")

    @wraps(fn)
    def once(ctx: FunctionCtx, *bars: object) -> object:
        with not_recording():
            result = fn(ctx, *bars)
        several = isinstance(result, tuple)
        gradients = list(result) if several else [result]
        sources = [b for b in bars if type(b) is RecordedArray]
        sources += [s for s in ctx.saved_tensors if type(s) is RecordedArray]
        done = [None if g is None else _only_once(g, sources) for g in gradients]
        return tuple(done) if several else done[0]

    return once


def _only_once(gradient: object, sources: Sequence[RecordedArray]) -> object:
    """A gradient whose derivative is refused."""
    if isinstance(gradient, TracedArray):
        return refusing_derivatives(gradient, TWICE)
    if not state.grad_enabled or not any(s.requires_grad for s in sources):
        return gradient
    value = gradient.value if type(gradient) is RecordedArray else np.asarray(gradient)
    return custom_node("DelayedErrorBackward", sources, [value], _refused)[0]


def _refused(*_: object) -> object:
    raise RuntimeError(TWICE)
