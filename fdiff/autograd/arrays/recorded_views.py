"""Views: recorded arrays that share another array's memory, tracked both ways.

NumPy decides which results are views. A view knows the array that owns its memory (its root), and
the calls that lead from the root to the view. When the root gets another history by a store,
wherever the store was made, the view derives its own history from the root's again; a store into a
view is a store into its root.

Views with a history of their own: A. Paszke et al., Automatic differentiation in PyTorch, NIPS
Autodiff Workshop 2017, section on in-place operations, "Aliasing".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from ...errors import UnsupportedError, failure
from ...named_tuples import NamedTuple
from ...tree import flatten
from ..backward_passes.hook_registration import move_retained
from ..backward_passes.nodes import AccumulateGrad, Edge
from ..calls.recipes import Rebuild
from ..thread_state import recording, state
from .recorded_array import Recordable, RecordedArray


class NumpyCall(NamedTuple):
    """A call of NumPy: the function and its `key`, and its operands with their values.

    `rebuild` puts operands among the other arguments.
    """

    what: Callable[..., object]
    key: object
    rebuild: Rebuild
    operands: Sequence[Recordable]
    values: Sequence[Recordable]


class ViewCall(NamedTuple):
    """A call that returned a view of its operand `place`, as leaf `leaf` of its result."""

    call: NumpyCall
    place: int
    leaf: int

    def on(self, x: object) -> object:
        """Take this view of another array: recorded, plain or traced."""
        values = list(self.call.values)
        values[self.place] = x
        args, kwargs = self.call.rebuild(values)
        result = self.call.what(*args, **kwargs)
        return flatten(result)[0][self.leaf] if isinstance(result, (tuple, list)) else result

    @property
    def key(self) -> object:
        """The key of the call."""
        return self.call.key


class ViewOfOne(NamedTuple):
    """A call ``what(x, *args, **kwargs)`` that returned a view of `x`, its only operand."""

    what: Callable[..., object]
    args: tuple[object, ...]
    kwargs: dict[str, object]
    key: object

    def on(self, x: object) -> object:
        """Take this view of another array: recorded, plain or traced."""
        return self.what(x, *self.args, **self.kwargs)


class ViewOf:
    """The relation of a view to its root: the calls that lead to the view, and when it was taken.

    `seen` and `stores` are the root's edge and the number of stores into its memory at that time.
    `made_in` is the mode in which nothing was recorded then; empty where recording was on.
    """

    __slots__ = ("calls", "made_in", "root", "seen", "stores")

    def __init__(self, root: RecordedArray, calls: tuple[ViewCall | ViewOfOne, ...]) -> None:
        self.root = root
        self.calls = calls
        self.seen: Edge | None = root.edge or root.edge_now()
        self.stores = root.version.stores()
        self.made_in = "" if state._grad_enabled else "inference" if state.inference else "no_grad"

    def refresh(self, array: RecordedArray) -> None:
        """Take the edge of the view from its root again, if that was stored into meanwhile.

        A gradient that is kept belongs to the view as it is now, also after stores that nobody
        recorded (torch's ``update_tensor_hooks_on_new_gradfn``). Where the root was detached and
        not stored into, the view keeps its own history.
        """
        edge, stores = self.root.edge_now(), self.root.version.stores()
        if stores == self.stores and (edge is self.seen or self.seen is not None):
            return
        if self.made_in and stores != self.stores and edge is not None:
            if state.grad_enabled:
                raise view_of_mode(self.made_in, _INDIRECT)
            if own_leaf(array):  # in inference mode, where nothing is recorded
                return
        if own_leaf(array):
            if edge is not None:
                fact = "the memory of a leaf that requires a gradient got a history by a store."
                way = "Store before requires_grad_(), or make the leaf of a copy."
                raise failure(UnsupportedError, "fdiff.autograd", fact, way)
            return
        self.seen, self.stores = edge, stores
        again: Recordable = self.root
        with recording():
            for call in self.calls:
                again = call.on(again)
        move_retained(array, again.edge)
        array.edge = again.edge
        array.kind = again.kind

    def of(self, x: object) -> Recordable:
        """The view taken of another root."""
        for call in self.calls:
            x = call.on(x)
        return x


class ViewOfRule:
    """The relation of a `Function` output to the array, its `root`, whose memory the output shares.

    Stores into the output, or into that array, would bypass the user's rule: they are refused, as
    in torch. An output that requires no gradient has no rule (`ruled`); its stores are refused
    where they are recorded.
    """

    __slots__ = ("made_in", "name", "place", "root", "ruled", "stores", "version")

    def __init__(self, name: str, place: int, root: RecordedArray, *, ruled: bool) -> None:
        self.name, self.place, self.root, self.ruled = name, place, root, ruled
        self.version, self.stores = root.version, root.version.stores()
        self.made_in = "inference" if state.inference else "no_grad"

    def refresh(self, _: RecordedArray) -> None:
        """Raise if there was a store."""
        if self.version.stores() == self.stores:
            return
        if self.ruled or (state.grad_enabled and self.root.requires_grad):
            raise self._refusal(_INDIRECT)

    def check_store(self, *, moves: bool) -> None:
        """Raise for a store of values that require a gradient (`moves`), or of others."""
        if self.ruled or moves or self.root.requires_grad:
            raise self._refusal("is being")

    def _refusal(self, what: str) -> RuntimeError:
        if not self.ruled:
            return view_of_mode(self.made_in, what, _OF_RULE)
        return RuntimeError(
            f"Output {self.place} of {self.name} is a view and {what} modified inplace.{_OF_RULE}"
        )


_INDIRECT = "its base or another view of its base has been"
_OF_RULE = (
    " This view was created inside a custom Function (or because an input was returned as-is) and"
    " the autograd logic to handle view+inplace would override the custom backward associated with"
    " the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix"
    " this by cloning the output of the custom Function."
)
_MODES = {
    "no_grad": ("with grad mode enabled", "no_grad"),
    "inference": ("in normal mode", "inference_mode"),
}


def view_of_mode(made_in: str, what: str, reason: str = "") -> RuntimeError:
    """The error for a store, recorded, into memory that a view looks at which no mode recorded.

    `what` says where it was made; `reason` why it is refused, with the way out, where not as usual.
    """
    now, block = _MODES[made_in]
    usual = (
        " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify"
        " your code by moving both the view and the inplace either both inside the"
        f" {block} block (if you don't want the inplace to be tracked) or both outside (if you want"
        " the inplace to be tracked)."
    )
    return RuntimeError(
        f"A view was created in {made_in} mode and {what} modified inplace {now}.{reason or usual}"
    )


def own_leaf(array: RecordedArray) -> bool:
    """Whether a view was made a leaf by `requires_grad_`: it has no gradient of its root's."""
    edge = array.edge
    return array.kind.requires_grad and (edge is None or edge[0].__class__ is AccumulateGrad)


def own_handle(leaf: np.ndarray | np.generic, call: NumpyCall) -> np.ndarray | np.generic:
    """The array that NumPy returned; a view of it where it is an operand itself.

    Each result is an array of its own, whose base tells whose memory it is (torch's ``view_as``).
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
    what: Callable[..., object],
    args: tuple[object, ...],
    kwargs: dict[str, object],
    key: object,
) -> None:
    """Make `out`, which ``what(x, *args, **kwargs)`` gave, a view of `x` if it looks at that."""
    if _shares(out.value, x):
        _join_view(out, ViewOfOne(what, args, kwargs, key), x)


def _shares(value: np.ndarray, x: object) -> bool:
    """Whether an array looks at the memory of an operand that is a recorded array."""
    if type(x) is not RecordedArray or x.value.__class__ is not np.ndarray:
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
    _join_view(out, ViewCall(call.call._replace(operands=()), call.place, call.leaf), source)


def _join_view(out: RecordedArray, call: ViewCall | ViewOfOne, source: RecordedArray) -> None:
    above = source.viewing
    if isinstance(above, ViewOf) and (state.inference or not own_leaf(source)):
        out.viewing = ViewOf(above.root, (*above.calls, call))
    else:
        out.viewing = ViewOf(source, (call,))
    out.version = source.version
