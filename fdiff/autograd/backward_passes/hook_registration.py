"""Hooks of recorded arrays: functions called when a gradient is ready.

Source: torch's note "Autograd mechanics", section "Backward Hooks execution".
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, Self

from ...foreign_errors import whole_exit
from ...generated_text import Namespace
from ...tracebacks import public
from ..argument_checks import recorded_arrays, require_function
from ..arrays.recorded_array import RecordedArray
from ..thread_state import state
from .nodes import AccumulateGrad, Edge, RemovableHandle, add_hook


@public
def register_hook(self: RecordedArray, hook: Callable[[Any], object]) -> RemovableHandle:
    """Call ``hook(grad)`` when the gradient of this array has been computed.

    The hook may return another gradient, which replaces it. The ``remove()`` of the returned handle
    removes the hook.

    Returns
    -------
    RemovableHandle

    Raises
    ------
    RuntimeError
        If the array requires no gradient.
    InputError
        If `hook` is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.autograd import tensor
    >>> x = tensor(np.ones(2), requires_grad=True)
    >>> handle = x.register_hook(lambda grad: 2.0 * grad)
    >>> (x * 3.0).sum().backward()
    >>> x.grad.numpy()
    array([6., 6.])
    """
    node, nr = _edge_for_hooks(self)
    require_function(hook, "hook", "RecordedArray.register_hook")
    return add_hook(node.own_hooks().outputs.setdefault(nr, {}), hook)


@public
def register_post_accumulate_grad_hook(
    self: RecordedArray, hook: Callable[[Any], object]
) -> RemovableHandle:
    """Call ``hook(array)`` after `backward` has added to the ``grad`` of this leaf.

    Returns
    -------
    RemovableHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    RuntimeError
        If the array is no leaf that requires a gradient.
    InputError
        If `hook` is not callable.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.autograd import tensor
    >>> x = tensor(np.ones(2), requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad.numpy()))
    >>> (x * 3.0).sum().backward()
    [3. 3.]
    """
    node, _ = _edge_for_hooks(self)
    if not isinstance(node, AccumulateGrad):
        raise RuntimeError(  # noqa: TRY004 - as in torch
            "post accumulate grad hooks cannot be registered on non-leaf tensors"
        )
    require_function(hook, "hook", "RecordedArray.register_post_accumulate_grad_hook")
    return add_hook(node.post_hooks, hook)


def _edge_for_hooks(array: RecordedArray) -> Edge:
    edge = array.edge_now()
    if edge is None:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return edge


@public
def retain_grad(self: RecordedArray) -> None:
    """Let `backward` fill the ``grad`` of this array even if it is not a leaf.

    Raises
    ------
    RuntimeError
        If the array requires no gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from fdiff.autograd import tensor
    >>> x = tensor(np.ones(2), requires_grad=True)
    >>> y = x * 3.0
    >>> y.retain_grad()
    >>> y.sum().backward()
    >>> y.grad.numpy()
    array([1., 1.])
    """
    edge = self.edge_now()
    if edge is None:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if not isinstance(edge[0], AccumulateGrad) and not self.retains_grad:
        _retain(self, edge)


def _retain(array: RecordedArray, edge: Edge) -> None:
    """Store the cotangent that arrives at `edge` as the gradient of an array."""
    kept = weakref.ref(array)
    node, nr = edge

    def keep(bar: RecordedArray) -> None:
        leaf = kept()
        if leaf is not None:
            gradient: object = leaf._grad
            leaf._grad = bar.copy() if gradient is None else gradient + bar

    array.extra()["retains"] = add_hook(node.own_hooks().retained.setdefault(nr, {}), keep)


def move_retained(array: RecordedArray, edge: Edge | None) -> None:
    """Let an array that retains its gradient do so at `edge`, where a store gave it a history."""
    if array.retains_grad and edge is not None:
        array.extra().pop("retains").remove()
        _retain(array, edge)


class MultiHandle:
    """Removes the hooks that `register_multi_grad_hook` has added."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Remove the hook; a second time does nothing."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    @whole_exit
    def __exit__(self, *_: object) -> None:
        self.remove()


@public
def register_multi_grad_hook(
    tensors: Sequence[RecordedArray], fn: Callable[[Any], object], *, mode: str = "all"
) -> MultiHandle:
    """Call a function when the gradients of several arrays have been computed.

    Parameters
    ----------
    tensors : sequence of RecordedArray
        Arrays that require gradients.
    fn : callable
        With ``mode="all"``, ``fn(grads)`` is called once in each backward pass that reaches one of
        the arrays, after the last gradient. Entries are None for arrays without a gradient in that
        pass. With ``"any"``, ``fn(grad)`` is called with the first gradient. Its result is ignored.
    mode : {"all", "any"}
        When to call.

    Returns
    -------
    MultiHandle
        Its ``remove()`` removes the hook.

    Raises
    ------
    ValueError
        If `mode` is neither.
    InputError
        If `fn` is not a function, or `tensors` are not recorded arrays.

    References
    ----------
    torch.autograd.graph.register_multi_grad_hook

    Examples
    --------
    >>> import fdiff.autograd
    >>> a = fdiff.autograd.tensor(2.0, requires_grad=True)
    >>> b = fdiff.autograd.tensor(3.0, requires_grad=True)
    >>> handle = fdiff.autograd.graph.register_multi_grad_hook(
    ...     (a, b), lambda grads: print([float(g) for g in grads])
    ... )
    >>> (a * b).backward()
    [3.0, 2.0]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    call = "graph.register_multi_grad_hook"
    require_function(fn, "fn", call)
    tensors = recorded_arrays(tensors, call)
    passes: Namespace = {"now": None, "grads": [], "expected": 0}
    edges = [_edge_for_hooks(x) for x in tensors]

    def arrived(k: int) -> Callable[[object], None]:
        def hook(grad: object) -> None:
            now = state.running  # the nodes of the pass
            if passes["now"] is not now:
                passes.update(now=now, grads=[None] * len(edges), called=False)
                passes["expected"] = sum(node in now for node, _ in edges)
            passes["grads"][k] = grad
            if mode == "any":
                if not passes["called"]:
                    passes["called"] = True
                    fn(grad)
                return
            passes["expected"] -= 1
            if not passes["expected"]:
                fn(list(passes["grads"]))

        return hook

    return MultiHandle(tuple([x.register_hook(arrived(k)) for k, x in enumerate(tensors)]))
