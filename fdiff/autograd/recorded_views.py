"""Views: recorded arrays that look at another one's memory, tracked both ways.

NumPy decides what is a view. One knows the array that owns its memory (its root), and the calls
that lead from there to it. When the root gets another history by a store, wherever that was made,
the view takes its own from the root's again; a store into a view is a store into its root.

Views with a history of their own: A. Paszke et al., Automatic differentiation in PyTorch, NIPS
Autodiff Workshop 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import UnsupportedError, failure
from ..tree import flatten
from .hook_registration import move_retained
from .nodes import AccumulateGrad, Edge
from .recipes import Rebuild
from .recorded_array import RecordedArray, Version
from .thread_state import recording, state


class NumpyCall(NamedTuple):
    """A call of NumPy: what is called, known by `key`, and its operands, with their values.

    `rebuild` puts operands among the other arguments.
    """

    what: Callable[..., Any]
    key: object
    rebuild: Rebuild
    operands: Sequence[Any]
    values: Sequence[Any]


class ViewCall(NamedTuple):
    """A call that gave a view of its operand `place`, as leaf `leaf` of its result."""

    call: NumpyCall
    place: int
    leaf: int

    def on(self, x: Any) -> Any:
        """The same view of another array: recorded, plain or traced."""
        given = list(self.call.values)
        given[self.place] = x
        args, kwargs = self.call.rebuild(given)
        result = self.call.what(*args, **kwargs)
        return flatten(result)[0][self.leaf] if isinstance(result, (tuple, list)) else result

    @property
    def key(self) -> object:
        """What the call is known by."""
        return self.call.key


class ViewOfOne(NamedTuple):
    """A call ``what(x, *args, **kwargs)`` that gave a view of `x`, its only operand."""

    what: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: object

    def on(self, x: Any) -> Any:
        """The same view of another array: recorded, plain or traced."""
        return self.what(x, *self.args, **self.kwargs)


class ViewOf:
    """What a view knows of its root: the calls that lead to it, and when it was taken.

    `seen` and `stores` are the root's edge and the number of stores into its memory at that time.
    """

    __slots__ = ("calls", "free", "root", "seen", "stores")

    def __init__(self, root: RecordedArray, calls: tuple[ViewCall | ViewOfOne, ...]) -> None:
        self.root = root
        self.calls = calls
        self.seen: Edge | None = root.edge or root.edge_now()
        self.stores = root.version.stores()
        self.free = not state._grad_enabled  # it was made where nothing is recorded

    def refresh(self, array: RecordedArray) -> None:
        """Take the edge of the view from its root again, if that was stored into meanwhile.

        A gradient that is kept is that of the view as it is now, also after stores that nobody
        recorded (torch's `update_tensor_hooks_on_new_gradfn`).
        """
        edge, stores = self.root.edge_now(), self.root.version.stores()
        if edge is self.seen and stores == self.stores:
            return
        if own_leaf(array):
            if edge is not None:
                fact = "the memory of a leaf that requires a gradient got a history by a store."
                way = "Store before requires_grad_(), or make the leaf of a copy."
                raise failure(UnsupportedError, "fdiff.autograd", fact, way)
            return
        self.seen, self.stores = edge, stores
        again: Any = self.root
        with recording():
            for call in self.calls:
                again = call.on(again)
        move_retained(array, again.edge)
        array.edge = again.edge
        array.kind = again.kind

    def of(self, x: Any) -> Any:
        """The view taken of another root."""
        for call in self.calls:
            x = call.on(x)
        return x


class ViewOfRule:
    """What an output of a `Function` knows that looks at the memory of another array.

    Stores into it, or into that array, would bypass the user's rule: they are refused, as in torch.
    """

    __slots__ = ("name", "place", "stores", "version")

    def __init__(self, name: str, place: int, version: Version) -> None:
        self.name, self.place = name, place
        self.version, self.stores = version, version.stores()

    def refresh(self, _: RecordedArray) -> None:
        """Raise if there was a store."""
        if self.version.stores() != self.stores:
            raise self.refusal("its base or another view of its base has been")

    def refusal(self, what: str) -> RuntimeError:
        """The error for a store; `what` says where it was made."""
        return RuntimeError(
            f"Output {self.place} of {self.name} is a view and {what} modified inplace. This view"
            " was created inside a custom Function (or because an input was returned as-is) and the"
            " autograd logic to handle view+inplace would override the custom backward associated"
            " with the custom Function, leading to incorrect gradients. This behavior is forbidden."
            " You can fix this by cloning the output of the custom Function."
        )


def own_leaf(array: RecordedArray) -> bool:
    """Whether a view was made a leaf by `requires_grad_`: it has no gradient of its root's."""
    edge = array.edge
    return array.kind.requires_grad and (edge is None or edge[0].__class__ is AccumulateGrad)


def own_handle(leaf: Any, call: NumpyCall) -> Any:
    """What NumPy gave; where that is an operand itself, as the array that NumPy's `view` gives.

    So each result is an array of its own, whose base tells whose memory it is (torch's `view_as`).
    """
    if leaf.__class__ is np.ndarray and any(leaf is value for value in call.values):
        return leaf.view()
    return leaf


def link(out: RecordedArray, leaf: int, call: NumpyCall) -> None:
    """Make `out` a view of the operand whose memory it looks at, if it does."""
    places = [k for k, x in enumerate(call.operands) if _shares(out.value, x)]
    if len(places) > 1:
        places = [k for k in places if _follows(out.value, ViewCall(call, k, leaf))]
    if places:
        _link(out, ViewCall(call, places[0], leaf), call.operands[places[0]])


def link_to(
    out: RecordedArray,
    x: RecordedArray,
    what: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    key: object,
) -> None:
    """Make `out`, which ``what(x, *args, **kwargs)`` gave, a view of `x` if it looks at that."""
    if _shares(out.value, x):
        _join(out, ViewOfOne(what, args, kwargs, key), x)


def _shares(value: np.ndarray, x: Any) -> bool:
    """Whether an array looks at the memory of an operand that is a recorded array."""
    if x.__class__ is not RecordedArray or x.value.__class__ is not np.ndarray:
        return False
    whole, base = x.value, value.base
    if base is whole or (whole.base is not None and base is whole.base):
        return True
    return np.may_share_memory(value, whole)  # a base may be no array, as of `as_strided`


def _follows(value: np.ndarray, call: ViewCall) -> bool:
    """Whether the result looks elsewhere when the operand of `call` is a copy: it is that one's."""
    elsewhere = call.on(call.call.values[call.place].copy())
    return not np.may_share_memory(value, elsewhere)


def _link(out: RecordedArray, call: ViewCall, source: RecordedArray) -> None:
    _join(out, ViewCall(call.call._replace(operands=()), call.place, call.leaf), source)


def _join(out: RecordedArray, call: ViewCall | ViewOfOne, source: RecordedArray) -> None:
    above = source.viewing
    if isinstance(above, ViewOf) and not own_leaf(source):
        out.viewing = ViewOf(above.root, (*above.calls, call))
    else:
        out.viewing = ViewOf(source, (call,))
    out.version = source.version
