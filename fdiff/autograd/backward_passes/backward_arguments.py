"""The ends of backward passes: the user's outputs, cotangents and inputs."""

from __future__ import annotations

from collections.abc import Iterable

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...errors import InputError, failure
from ..argument_checks import MAKE
from ..arrays.recorded_array import Recordable, RecordedArray, plain
from .graph_structure import Root
from .nodes import AccumulateGrad, CustomNode, Edge, GradientEdge
from .recorded_anomalies import check_output


def sequence(x: object, call: str) -> tuple[Recordable, ...]:
    """One array, or several, as a tuple."""
    if isinstance(x, (RecordedArray, GradientEdge, np.ndarray, np.generic, float, int)):
        return (x,)
    if not isinstance(x, Iterable):
        fact = f"recorded arrays are needed, not {type(x).__name__}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, MAKE)
    return tuple(x)


def edge_of(x: object, call: str) -> Edge:
    """Where gradients of an input arrive."""
    if isinstance(x, GradientEdge):
        return x.node, x.output_nr
    if type(x) is not RecordedArray:
        fact = f"inputs must be recorded arrays, not {type(x).__name__}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, MAKE)
    edge = x.edge_now()
    if edge is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return edge


def roots_of(outputs: tuple[object, ...], seeds: tuple[object, ...], call: str) -> list[Root]:
    """Where a pass begins, with the cotangents checked."""
    if not outputs:
        fact, way = "there are no outputs to differentiate.", "Give at least one recorded array."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, way)
    if len(outputs) != len(seeds):
        raise RuntimeError(
            f"Expected the same number of tensors and gradients, got {len(outputs)} and"
            f" {len(seeds)}"
        )
    return [_root(x, seed, k, call) for k, (x, seed) in enumerate(zip(outputs, seeds, strict=True))]


def batches_of_roots(
    outputs: tuple[Recordable, ...], seeds: tuple[Recordable, ...], call: str
) -> tuple[list[list[Root]], int]:
    """Where the passes of a batch begin, one for each entry of the leading axis of the cotangents.

    Their number comes with them. Where it is 0, there is one pass still, with cotangents of zeros:
    it tells which inputs were not used.
    """
    shapes = [None if s is None else np.shape(s) for s in seeds]
    sizes = {shape[:1] for shape in shapes if shape is not None}
    if len(sizes) != 1 or () in sizes:
        raise RuntimeError(
            "is_grads_batched=True needs grad_outputs with one leading axis of the same length,"
            f" not of the shapes {', '.join(str(s if s is None else list(s)) for s in shapes)}."
        )
    ((count,),) = sizes
    for k, (x, shape) in enumerate(zip(outputs, shapes, strict=False)):
        expected = _type_of_edge(x).shape if isinstance(x, GradientEdge) else np.shape(x)
        if shape is not None and shape[1:] != expected:
            raise RuntimeError(
                f"Mismatch in shape: is_grads_batched=True takes the first axis of grad_output[{k}]"
                f" as that of the batch, so its shape must be {[count, *expected]}, not"
                f" {list(shape)}: output[{k}] has a shape of {list(expected)}."
            )
    if not count:
        seeds = tuple([s if s is None else np.zeros((1, *np.shape(s)[1:])) for s in seeds])
    rows = [tuple([None if s is None else s[k] for s in seeds]) for k in range(max(count, 1))]
    return [roots_of(outputs, row, call) for row in rows], count


def _root(x: object, seed: object, k: int, call: str) -> Root:
    if isinstance(x, GradientEdge):
        return _root_of_edge(x, seed, k)
    if type(x) is not RecordedArray:
        fact = f"gradients are taken of recorded arrays, not of {type(x).__name__}."
        raise failure(InputError, f"fdiff.autograd.{call}", fact, MAKE)
    node, nr = x.edge_now() or (None, 0)
    if node is None:
        raise RuntimeError(
            f"element {k} of tensors does not require grad and does not have a grad_fn"
        )
    check_output(x, node)
    type_ = x.kind.type
    if seed is None:
        if x.value.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if type_.dtype.kind != "f":
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {type_.dtype}"
            )
        return Root(node, nr, None, type_)
    return Root(node, nr, _cotangent(seed, type_, k), type_)


def _cotangent(seed: object, type_: ArrayType, k: int) -> RecordedArray:
    """The user's cotangent of output `k`, in the type of the output."""
    cotangent = seed if type(seed) is RecordedArray else plain(np.asarray(seed))
    if cotangent.value.shape != type_.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{k}] has a shape of {list(cotangent.value.shape)} and"
            f" output[{k}] has a shape of {list(type_.shape)}."
        )
    dtype = cotangent.value.dtype
    if dtype == type_.dtype:
        return cotangent
    if dtype.kind not in "biuf" and (dtype.kind != "c" or type_.dtype.kind != "c"):
        raise RuntimeError(
            f"Mismatch in dtype: grad_output[{k}] has a dtype of {dtype} and output[{k}] has a"
            f" dtype of {type_.dtype}."
        )
    return cotangent.astype(type_.dtype)


def _root_of_edge(edge: GradientEdge, seed: object, k: int) -> Root:
    (node, nr), type_ = edge, _type_of_edge(edge)
    if seed is None:
        if type_.size != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        return Root(node, nr, None, type_)
    return Root(node, nr, _cotangent(seed, type_, k), type_)


def _type_of_edge(edge: GradientEdge) -> ArrayType:
    node, nr = edge
    if isinstance(node, CustomNode):
        return node.output_kinds[nr].type
    if type(node) is AccumulateGrad:
        return node.kind.type
    return node.recipe.tape.output_types[nr]
