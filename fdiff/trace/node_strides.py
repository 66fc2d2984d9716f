"""The memory layout that NumPy would give each node of a trace.

A tape says nothing about memory, but NumPy code can tell: whether a reshape is a view or a copy,
which order `ravel(order="K")` gives, what `x.strides` is. So a trace derives the strides of its
nodes, as NumPy does, from the strides of the operands. A layout is a tuple of strides counted in
entries, one for each axis; () stands for C order. Where NumPy itself has to decide, it is asked on
arrays of the same shape and strides whose memory is never touched (which costs address space
alone). Source: NumPy's reference, section "Internal memory layout of an ndarray".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import fdiff.intact_numpy as np

from ..arraytype import ArrayType, example_of
from ..device_arrays import DeviceArray
from ..tape import INPUT, Builder, Node
from .branching.guards import GuardSet, is_enclosing

Layout = tuple[int, ...]
_Flag = Literal["readonly", "writeonly", "allocate"]


class NodeLayouts:
    """Layouts of the nodes of one trace, computed when asked for.

    `of_inputs` are the layouts of inputs that decided something: the tape is valid for them alone.
    """

    def __init__(self, builder: Builder, guards: GuardSet) -> None:
        self.builder = builder
        self.guards = guards
        self.of_inputs: dict[int, Layout] = {}
        self._known: dict[int, Layout] = {}

    def of_input(self, node_id: int) -> Layout:
        """The layout of an input, which the tape relies on from now on."""
        if (layout := self.of_inputs.get(node_id)) is None:
            value = self.guards.given.get(node_id)
            if is_enclosing(value):
                value = value.example()
            layout = memory_layout(value) if isinstance(value, np.ndarray) else ()
            self.of_inputs[node_id] = layout
        return layout

    def agrees(self, constant: int, layout: Layout) -> bool:
        """Whether a constant has this layout; the first layout it is asked about decides.

        Equal constants are one node, whatever array each of them came from.
        """
        return self._known.setdefault(constant, layout) == layout

    def axes(self, node_id: int) -> list[int]:
        """The axes of a node from the slowest to the fastest in memory."""
        order = slowest_first(self.of(node_id))
        return order or list(range(self.builder.type(node_id).ndim))

    def of(self, node_id: int) -> Layout:
        """The layout of a node."""
        layouts, stack = self._known, [node_id]
        while stack:
            i = stack[-1]
            models = () if i in layouts else self._models(i)
            if missing := [a for a in models if a not in layouts]:
                stack += missing
                continue
            if i not in layouts:
                layouts[i] = self._derived(i, models) if models else self._of_leaf(i)
            stack.pop()
        return layouts[node_id]

    def _of_leaf(self, node_id: int) -> Layout:
        node = self.builder.nodes[node_id]
        return self.of_input(node_id) if node.primitive is INPUT and node.type.ndim > 1 else ()

    def _models(self, node_id: int) -> tuple[int, ...]:
        """The operands whose layouts decide the layout of a node; none where it is in C order."""
        node = self.builder.nodes[node_id]
        rule = node.primitive.structure.layout.strides
        if rule in ("first", "update", "view"):
            return node.args[:1]
        return node.args if node.type.ndim > 1 and rule in ("operands", "join") else ()

    def _derived(self, node_id: int, models: tuple[int, ...]) -> Layout:
        """The layout of a node, as NumPy derives it from the layouts of its operands."""
        layouts, node = self._known, self.builder.nodes[node_id]
        rule, shape = node.primitive.structure.layout.strides, node.type.shape
        if (
            not any(layouts[a] for a in models)
            and not node.primitive.structure.layout.leaves_c_order
        ):
            return ()
        if rule in ("first", "update"):
            return layouts[models[0]]
        examples = [example_of(self.builder.type(a), layouts[a]) for a in models]
        if rule == "join":  # NumPy is asked about the first entries alone: it touches what it joins
            joined = np.concatenate(
                [g[(slice(2),) * g.ndim] for g in examples], **dict(node.params)
            )
            return memory_layout(dense_example(node.type, slowest_first(joined.strides)))
        if rule == "view":
            view = node.primitive.rules.evaluate(*examples, **dict(node.params))
            return memory_layout(cast("np.ndarray", view))
        return _of_ufunc([np.broadcast_to(g, shape) for g in examples], node)


def _of_ufunc(operands: Sequence[np.ndarray], node: Node) -> Layout:
    """The layout of what a ufunc allocates for operands: `numpy.nditer` decides as ufuncs do."""
    read: list[_Flag] = ["readonly"]
    flags: list[list[_Flag]] = [*(read for _ in operands), ["writeonly", "allocate"]]
    dtypes = [*(a.dtype for a in operands), node.type.dtype]
    iterator = np.nditer([*operands, None], ["zerosize_ok"], flags, dtypes)
    return memory_layout(iterator.operands[-1])


def memory_layout(array: np.ndarray | DeviceArray) -> Layout:
    """Strides counted in entries; () for C order.

    A field of a structured array may have strides that are no multiple of its entries: they become
    the smallest ones with the same order and the same gaps.
    """
    if not isinstance(array, np.ndarray) or array.flags.c_contiguous:  # on a device all are
        return ()
    steps, due, step, size = [0] * array.ndim, array.itemsize, 1, array.itemsize
    whole = not any(stride % size for stride in array.strides)
    for k in reversed(slowest_first(array.strides)):
        n, stride = array.shape[k], array.strides[k]
        if n == 1:
            steps[k] = step
        elif stride:
            near = step if abs(stride) == due else 2 * step
            steps[k] = stride // size if whole else int(np.copysign(near, stride))
            due, step = abs(stride) * n, abs(steps[k]) * n
    return tuple(steps)


def slowest_first(strides: Sequence[int]) -> list[int]:
    """The axes from the slowest to the fastest in memory."""
    return sorted(range(len(strides)), key=lambda k: (-abs(strides[k]), k))


def dense_example(type_: ArrayType, axes: Sequence[int]) -> np.ndarray:
    """An array without gaps, its axes in this order, over memory that is never touched."""
    empty = np.empty([type_.shape[k] for k in axes], type_.dtype)
    return empty.transpose(sorted(range(len(axes)), key=axes.__getitem__))
