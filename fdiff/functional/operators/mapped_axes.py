"""The mapped axis of each array: how `vmap` reads `in_axes` and `out_axes`.

Source: J. Bradbury et al., JAX, 2018: entry ``jax.vmap``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...errors import InputError, failure, shown
from ...trace import TracedArray
from ...tree import Spec, flatten, node_parts
from ..options import is_int

Axis = int | None


def axes_of_arguments(
    in_axes: object, args: tuple[object, ...], kwargs: dict[str, object], call: str
) -> list[Axis]:
    """One axis (or None) for each leaf of the arguments; 0 for leaves of keyword arguments."""
    axes = (
        cast("tuple[object, ...]", in_axes)
        if isinstance(in_axes, tuple)
        else (in_axes,) * len(args)
    )
    if len(axes) != len(args):
        fact = f"in_axes has {len(axes)} entries for {len(args)} arguments."
        raise failure(InputError, call, fact, "Give an entry for each positional argument.")
    pairs = [(axis, flatten(arg)[1]) for axis, arg in zip(axes, args, strict=True)]
    leaf_axes = [
        axis for prefix, spec in pairs for axis in axis_of_each_leaf(prefix, spec, "in_axes", call)
    ]
    leaf_axes += [0] * len(flatten(kwargs)[0])
    if all(axis is None for axis in leaf_axes):
        none = "in_axes is None for all." if leaf_axes else "the call has none."
        fact = f"no argument is mapped: {none}"
        raise failure(InputError, call, fact, "Call the function itself, or map an argument.")
    return leaf_axes


def axis_of_each_leaf(axes: object, spec: Spec, name: str, call: str) -> list[Axis]:
    """The axis of each leaf of `spec`; a single axis stands for all leaves below it."""
    if axes is None or is_int(axes):
        return [axes] * spec.leaves
    own = flatten(axes)[1]
    if (
        own.kind is not spec.kind
        or own.keys != spec.keys
        or len(own.children) != len(spec.children)
    ):
        fact = f"{name}={shown(axes)} does not fit the structure it describes."
        raise failure(
            InputError, call, fact, "Give one axis, or the structure with an axis for each array."
        )
    _, children = cast("tuple[object, Sequence[object]]", node_parts(axes))
    pairs = zip(children, spec.children, strict=True)
    return [axis for child, below in pairs for axis in axis_of_each_leaf(child, below, name, call)]


def mapped_axis_first(leaf: object, axis: int, name: str, call: str) -> TracedArray:
    """The leaf with its mapped axis moved to the front."""
    if not isinstance(leaf, TracedArray):
        fact = f"cannot map axis {axis} of a value of type {type(leaf).__name__}"
        way = "Pass it whole: in_axes=(0, None), for instance."
        raise failure(InputError, call, f"{fact} ({name}).", way)
    return axis_to_front(leaf, axis, name, call)


def axis_to_front(
    x: TracedArray, axis: int, name: str, call: str, given_by: str = "in_axes"
) -> TracedArray:
    """An array with an axis moved to the front."""
    if not -x.ndim <= axis < x.ndim:
        fact = f"cannot map axis {axis} of an array of shape {x.shape} ({name})."
        way = f"Give {given_by} an axis that the array has, or None to pass it whole."
        if not x.ndim and "[" in name.removeprefix("argument "):
            way = f"{way} A list of numbers is mapped as numpy.array(x)."
        raise failure(InputError, call, fact, way)
    return _moveaxis(x, axis, 0)


_moveaxis = cast("Callable[[TracedArray, int, int], TracedArray]", np.moveaxis)


def common_size(mapped: Sequence[TracedArray], call: str) -> int:
    """The common length of the mapped axes; raises if they differ."""
    sizes = sorted({x.shape[0] for x in mapped})
    if len(sizes) == 1:
        return sizes[0]
    if not sizes:
        raise failure(InputError, call, "there is no array to map over.", "Pass an array.")
    fact = f"the mapped axes have different sizes: {', '.join(map(str, sizes))}."
    way = "An argument that is not mapped has the axis None: in_axes=(0, None)."
    raise failure(InputError, call, fact, way)


def axis_moved_to(
    out: TracedArray, element: ArrayType, axis: Axis, size: int, call: str
) -> TracedArray:
    """The result with its mapped axis at `axis`; in `out` it is the first axis, if any."""
    mapped = out.ndim > len(element.shape)
    if axis is None:
        if mapped:
            fact = "out_axes is None for a result that differs from element to element."
            raise failure(InputError, call, fact, "Give the axis that it shall have in the result.")
        return out
    if not -element.ndim - 1 <= axis <= element.ndim:
        fact = f"out_axes={axis} does not fit a result of shape {element.shape} for each element."
        raise failure(InputError, call, fact, f"Give an axis from 0 to {element.ndim}.")
    if not mapped:
        out = cast("TracedArray", np.broadcast_to(cast("np.ndarray", out), (size, *element.shape)))
    return _moveaxis(out, 0, axis)
