"""What the torch-style calls accept, and the words they refuse the rest with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..arraytype import ArrayType
from ..errors import InputError, StrictError, VectorError, message, user_line
from ..program import Variant
from ..trace import TracedArray
from ..transforms.forward import depends

ARRAYS = (np.ndarray, np.floating, float, TracedArray)


def check_inputs(inputs: object, name: str) -> tuple[tuple[object, ...], int | tuple[int, ...]]:
    """Arguments of the function, and the argnums that say how results are nested."""
    if isinstance(inputs, tuple):
        if not inputs:
            raise InputError(message(name, "the tuple of inputs is empty.", "Pass at least one array.", user_line()))
        for k, value in enumerate(inputs):
            if not isinstance(value, (*ARRAYS, np.generic, int)):
                raise InputError(
                    message(
                        name,
                        f"The inputs given to {name} must be either an array or a tuple of arrays but the"
                        f" value at index {k} has type {type(value).__name__}.", "", user_line(),
                    )
                )  # fmt: skip
        return inputs, tuple(range(len(inputs)))
    if not isinstance(inputs, (*ARRAYS, np.generic, int)):
        way = "Write tuple(inputs) to pass several arrays." if isinstance(inputs, list) else ""
        raise InputError(
            message(
                name,
                f"The inputs given to {name} must be either an array or a tuple of arrays but the given"
                f" inputs have type {type(inputs).__name__}.", way, user_line(),
            )
        )  # fmt: skip
    return (inputs,), 0


def check_outputs(variant: Variant, name: str) -> None:
    """An array, or a tuple of arrays that is not empty."""
    spec = variant.out_spec
    if spec.kind is None:
        if variant.outs[0] is None:
            return
        kind = type(variant.outs[0][0]).__name__
    elif spec.kind is tuple:
        bad = [k for k, (c, out) in enumerate(zip(spec.children, variant.outs, strict=False)) if c.kind is not None or out]
        if spec.children and not bad:
            return
        kind = f"tuple with an entry that is no array (at index {bad[0]})" if bad else "empty tuple"
    else:
        kind = spec.kind.__name__
    raise InputError(
        message(
            variant.call,
            f"The outputs of the user-provided function given to {name} must be either an array or a tuple"
            f" of arrays but the given outputs have type {kind}.", "", user_line(),
        )
    )  # fmt: skip


def check_one_element(variant: Variant, name: str) -> None:
    """A single array with a single element, whatever its shape."""
    check_outputs(variant, name)
    if variant.out_spec.kind is not None:
        raise VectorError(message(variant.call, f"The function given to {name} should return a single array.", "", user_line()))
    type_ = variant.tape.output_types[0]
    if type_.size != 1:
        raise VectorError(
            message(variant.call, f"The array returned by the function given to {name} should contain a single element, not shape {type_.shape}.", "", user_line())
        )


def check_vector(v: object, types: Sequence[ArrayType], single: bool, call: str, what: str) -> list[object]:  # noqa: FBT001 - private
    """The entries of `v` as arrays of exactly these types; ones where `v` may be left out."""
    if v is None:
        if len(types) == 1 and types[0].size == 1:
            return [np.ones(types[0].shape, types[0].dtype)[()]]
        raise VectorError(
            message(call, f"The vector v can only be None if the user-provided function {what}.", "Pass v, shaped like what it multiplies.", user_line())
        )
    entries = list(v) if isinstance(v, (tuple, list)) else [v]
    if len(entries) != len(types):
        fact = "The given v should contain a single array." if single else f"v is a tuple of invalid length: should be {len(types)} but got {len(entries)}."
        raise VectorError(message(call, fact, "", user_line()))
    return [_entry(e, t, k, call, isinstance(v, (tuple, list))) for k, (e, t) in enumerate(zip(entries, types, strict=True))]


def _entry(entry: object, type_: ArrayType, k: int, call: str, in_tuple: bool) -> object:  # noqa: FBT001 - private
    if not isinstance(entry, (*ARRAYS, np.generic, int)):
        raise InputError(message(call, f"v must hold arrays, not {type(entry).__name__}.", "", user_line()))
    shape = np.shape(entry)  # type: ignore[arg-type]
    if shape != type_.shape:
        who = f"Entry {k} in v" if in_tuple else "v"
        raise VectorError(message(call, f"{who} has invalid size: should be {type_.shape} but got {shape}.", "", user_line()))
    if isinstance(entry, TracedArray):
        return entry.astype(type_.dtype)
    return np.asarray(entry, type_.dtype)[()] if not shape else np.asarray(entry, type_.dtype)


def check_strict(variant: Variant, name: str, *, each_pair: bool) -> None:
    """Refuse outputs that do not depend on the inputs, as torch does with ``strict=True``."""
    matrix = depends(variant.tape, variant.wrt)
    for o, row in enumerate(matrix):
        if not any(row):
            raise StrictError(
                message(variant.call, f"Output {o} of the user-provided function does not require gradients: it depends on no input. {name} must be given a differentiable function in strict mode.", "", user_line())
            )
        for i, linked in enumerate(row):
            if not linked and (each_pair or not any(r[i] for r in matrix)):
                raise StrictError(
                    message(variant.call, f"Output {o} of the user-provided function is independent of input {i}. This is not allowed in strict mode.", "", user_line())
                )


def check_strict_gradient(slope_depends: Sequence[Sequence[bool]], variant: Variant, name: str) -> None:
    """Refuse functions whose gradient with respect to some input is constant."""
    for i, row in enumerate(slope_depends):
        if not any(row):
            raise StrictError(
                message(variant.call, f"While computing the {name}, found that the jacobian of the user-provided function with respect to input {i} is independent of the input. This is not allowed in strict mode.", "", user_line())
            )
