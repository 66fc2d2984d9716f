"""Stores into recorded arrays: operators like ``+=``, ``x[key] = v``, methods, ``out=``.

NumPy stores into the memory. In the graph the array gets a new history: the result of a node whose
operand is the array before the store. The root of a view gets that history too
(`recorded_views.py`). Version counters tell nodes that saved the array before; a store into a leaf
that requires a gradient is refused, as in torch. Source: torch's note "Autograd mechanics", section
"In-place operations with autograd".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import TapeError, UnsupportedError, failure, message
from ...user_lines import Line, user_line
from ..backward_passes.hook_registration import move_retained
from ..backward_passes.nodes import GraphNode
from ..calls.node_construction import enter, new_object
from ..calls.recipes import Recipe, recipe
from ..thread_state import state
from .array_kinds import array_kind_of
from .recorded_array import RecordedArray, Version, new_array
from .recorded_views import ViewOf, ViewOfRule, own_leaf, view_of_mode
from .versions import InferenceVersion

_LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
_VIEW_OF_LEAF = (
    "a view of a leaf Variable that requires grad is being used in an in-place operation."
)
_INFERENCE = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. Make a copy by"
    " array.clone() before the update."
)


def check_store(x: RecordedArray, name: str, *, moves: bool) -> None:
    """Refuse to store into a leaf that requires a gradient, where operations are recorded.

    `moves` says that what is stored requires a gradient.
    """
    if x.version.__class__ is InferenceVersion and not state.inference:
        raise RuntimeError(_INFERENCE)
    if not state.grad_enabled:
        return
    view, root = x.viewing, _root_of(x)
    if isinstance(root.viewing, ViewOfRule):
        root.viewing.check_store(moves=moves)
    moves = moves or root.requires_grad
    if moves and isinstance(view, ViewOf) and view.made_in:
        raise view_of_mode(view.made_in, "is being")
    if root is not x and x.kind.requires_grad and (own_leaf(x) or not root.requires_grad):
        raise _with_way_out(_VIEW_OF_LEAF)  # which it was made itself, or its root by detach_()
    if root.requires_grad and root.is_leaf:  # to torch, ``x[key] = v`` is a store into a view
        raise _with_way_out(_LEAF if root is x and name != "SetItem" else _VIEW_OF_LEAF)


def _with_way_out(words: str) -> RuntimeError:
    """The error of torch; a note has the user's line and the way out."""
    error = RuntimeError(words)
    way = "Update it under `with fdiff.autograd.no_grad():`, or store into a copy."
    error.add_note(message("fdiff.autograd", "this line raised the error:", way, user_line()))
    return error


def stored(
    call_recipe: Recipe,
    operands: Sequence[RecordedArray],
    values: Sequence[object],
    perform: Callable[[], object],
    line: Line | None,
) -> object:
    """A call that stores into some of its operands: the results of NumPy, with their histories.

    `perform` lets NumPy compute.
    """
    targets = [operands[k] for k in call_recipe.stored]
    for x in targets:
        check_store(x, call_recipe.name, moves=True)
    if state.copies is not None:
        for x in targets:
            state.copies.keep(x.version)
    befores = [_old_operand(call_recipe, k, x, targets) for k, x in enumerate(operands)]
    result = perform()
    node = new_object(GraphNode)
    node.hooks = None
    first = len(call_recipe.outputs) - len(call_recipe.stored)
    for x in targets:
        x.version.bump(line)
    enter(node, call_recipe, befores, [None] * first + targets, line)
    for k, x in enumerate(targets):
        rebase(
            x, new_array(x.value, array_kind_of(x.value, True), (node, first + k), x.version), line
        )
    for x, value in zip(operands, values, strict=True):
        if result is value:
            return x
    return result


def stored_without_graph(
    call_recipe: Recipe,
    operands: Sequence[RecordedArray],
    values: Sequence[object],
    perform: Callable[[], object],
    line: Line | None,
) -> object:
    """A store where nothing is recorded, in a level of forward mode: tangents alone change."""
    targets = [_root_of(operands[k]) for k in call_recipe.stored]
    behind = [x.edge_now() for x in targets]
    if any(x.is_leaf and x.requires_grad for x in targets):
        fact = "values that have a tangent were stored into a leaf that requires a gradient."
        way = "Store into a copy, or store what forward_ad.unpack_dual gives as the primal."
        raise failure(UnsupportedError, "fdiff.autograd", fact, way)
    result = stored(call_recipe, operands, values, perform, line)
    for x, edge in zip(targets, behind, strict=True):
        state.dual.cut(x, edge)
        move_retained(x, x.edge)
    return result


def _root_of(x: RecordedArray) -> RecordedArray:
    """The array whose memory is stored into: of a view, the one it looks at."""
    return x.viewing.root if isinstance(x.viewing, ViewOf) else x


def _old_operand(call_recipe: Recipe, k: int, x: object, targets: list[RecordedArray]) -> object:
    """An operand as it was before the store: copied if the node saves it."""
    if type(x) is not RecordedArray or all(x is not t for t in targets):
        return x
    if k in call_recipe.saved:
        return new_array(x.value.copy(), x.kind, x.edge_now(), Version())
    return new_array(x.value, x.kind, x.edge_now(), x.version)


def rebase(x: RecordedArray, history: RecordedArray, line: Line | None) -> None:
    """Give an array, and the root of the view, the history of the stored values."""
    view = x.viewing
    if not isinstance(view, ViewOf):
        move_retained(x, history.edge)
        x.kind, x.edge = history.kind, history.edge
        return
    root = view.root
    if not (root.requires_grad or history.requires_grad):
        return
    put = _Put(view)
    operands = [root, history]
    kinds = [root.kind, history.kind]
    values = [root.value, history.value]
    key = ("put", root.value.strides, *[c.key for c in view.calls], *kinds)
    put_recipe = recipe(
        key, put, "copy_slices", kinds, values, lambda arguments: (tuple(arguments), {})
    )
    if put_recipe.stored != (0,):
        raise TapeError("a store through a view did not reach the array that it looks at")
    node = new_object(GraphNode)
    node.hooks = None
    enter(node, put_recipe, operands, (root,), line)
    edge = node, 0
    move_retained(root, edge)
    root.kind, root.edge = array_kind_of(root.value, True), edge
    view.refresh(x)


class _Put:
    """``put(root, part)``: stores `part` into the view of `root`."""

    def __init__(self, view: ViewOf) -> None:
        self.view = view

    def __call__(self, root: object, part: object) -> None:
        self.view.of(root)[...] = part
