"""Values that nodes save for their rules: reads, checks, release.

Source: torch's note "Autograd mechanics", section "Saved tensors".
"""

from __future__ import annotations

from collections.abc import Callable

import fdiff.intact_numpy as np

from ...arraytype import ArrayType, type_of
from ...tracebacks import ask
from ...user_lines import Line, show_line
from ..arrays.recorded_array import Recordable, RecordedArray, Version, plain
from ..thread_state import state
from .nodes import GraphNode, Kept

FREED = (
    "Trying to backward through the graph a second time (or directly access saved tensors after"
    " they have already been freed). Saved intermediate values of the graph are freed when you call"
    " .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the"
    " graph a second time or if you need to access saved tensors after calling backward."
)
HOOKS = "fdiff.autograd.graph.saved_tensors_hooks"


class Packed:
    """The result of a pack hook for a saved value, and the hook that restores the value."""

    __slots__ = ("content", "type", "unpack")

    def __init__(self, content: object, type_: ArrayType, unpack: Callable[..., object]) -> None:
        self.content = content
        self.type = type_
        self.unpack = unpack

    def unpacked(self) -> RecordedArray | np.ndarray | np.generic:
        """The array that the unpack hook returns; it must have the type of the packed array."""
        before = state.hooks, state.entered  # the hook may enter others, or leave these
        try:
            array = ask(self.unpack, [self.content], HOOKS, "unpack_hook", "unpack_hook(packed)")
        finally:
            state.hooks, state.entered = before
        value = array.value if type(array) is RecordedArray else array
        if not isinstance(value, (np.ndarray, np.generic)):
            raise TypeError(
                "Output of saved tensor unpack_hook expected to be an array but got result of type"
                f" {type(array).__name__}"
            )
        if type_of(value) != self.type:
            raise RuntimeError(
                f"Output of saved tensor unpack_hook has the type {type_of(value)}, and what was"
                f" packed had {self.type}."
            )
        return array if type(array) is RecordedArray else value


def pack(node: GraphNode) -> None:
    """Pass the saved values of a node to the hooks in force."""
    pack_hook, unpack = state.saved_hooks[-1]
    packed: list[object] = []
    saved: tuple[Recordable, ...] = node.saved or ()
    before, state.saved_hooks = state.saved_hooks, ()
    try:
        for value, counted in zip(saved, node.counts, strict=True):
            if counted is FIXED and isinstance(value, np.generic):  # a number, no array
                packed.append(value)
                continue
            array = plain(value)
            content = ask(pack_hook, [array], HOOKS, "pack_hook", "pack_hook(array)")
            if array.version.count:
                raise RuntimeError(
                    "A saved tensor pack hook is modifying its input in place. Tensors provided as"
                    " input to pack hook can not be modified by in-place operations as this can"
                    " lead to unexpected side-effects. Please open an issue if you need to perform"
                    " in-place operations on the input to a pack hook."
                )
            packed.append(Packed(content, type_of(value), unpack))
    finally:
        state.saved_hooks = before
    node.saved = tuple(packed)
    node.counts = (FIXED,) * len(packed)
    node.own_hooks()  # such a node is not pulled back by a compiled tape


FIXED = (Version(), 0)  # of values that nobody stores into


def saved_arrays(node: GraphNode | Kept) -> tuple[object, ...]:
    """The arrays that a node saved, unpacked by hooks. Raises if one of them has changed since."""
    saved = _unchanged(node)
    return tuple([v.unpacked() if isinstance(v, Packed) else v for v in saved])


def saved_values(node: GraphNode) -> tuple[object, ...]:
    """The values that a node saved, which must be as they were."""
    if node.hooks is None:  # nothing is packed
        return _unchanged(node)
    return tuple([v.value if isinstance(v, RecordedArray) else v for v in saved_arrays(node)])


def _unchanged(node: GraphNode | Kept) -> tuple[object, ...]:
    if node.saved is None:
        raise RuntimeError(FREED)
    for version, count in node.counts:
        if version.count != count:
            raise modified(node.name(), node.line, version, count)
    return node.saved


def modified(saver: str, line: Line | None, version: Version, count: int) -> RuntimeError:
    """The error for a value that was stored into after `saver` had saved it at a `line`."""
    where = show_line(version.line)
    changed = f"\nIt was modified here:{where}" if where else ""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace"
        f" operation: an array saved by {saver} is at version {version.stores()}; expected"
        f" version {count} instead.\nIt was saved here:{show_line(line)}{changed}\nUse the"
        " array before it is modified, or store into a copy."
    )


def free(node: GraphNode) -> None:
    """Drop the saved values of a node; a node that saves none may be passed again, as in torch."""
    if node.saved or (node.__class__ is GraphNode and node.recipe.through_view):
        node.saved = None
        node.counts = ()
