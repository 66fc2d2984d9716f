"""Input checks of the torch-style calls: what they accept, and errors for the rest.

The rules are those of ``torch.autograd.functional``, word for word where torch has words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from ..arraytype import ArrayType
from ..capture.data import is_table
from ..device_arrays import DeviceArray
from ..dispatch.arguments import TAKE_NUMBERS, WAY_OUT, refuse_device_array
from ..dispatch.variant import Variant
from ..errors import DtypeError, InputError, StrictError, VectorError, called, failure
from ..process.forking import no_fork
from ..trace import TracedArray
from ..trace.local_arrays import LocalArray
from ..tree import Spec, flatten
from .complex_rules import refuse_complex
from .options import refuse_argnums, refuse_position
from .points import as_point

ARRAYS = (np.ndarray, np.generic, float, int, complex, TracedArray, DeviceArray)
ARRAY_OR_TUPLE = "must be either an array or a tuple of arrays but the"
ONE_OUTPUT = "the user-provided function returns a single array with a single element"
ONE_INPUT = "the input to the user-provided function is a single array with a single element"
OUTPUTS = "outputs of the user-provided function"
NOT_STRICT = "This is not allowed in strict mode."
# Ways out.
RETURN_ARRAYS = "Return an array, a tuple of arrays, or a list of numbers of one shape."
SCALAR = "Sum it, or write fdiff.jacobian(fdiff.jacobian(f)) for all second derivatives."
LIKE = "Pass v, built and shaped like the {}."
ZEROS = "Leave strict out: then derivatives that do not depend on the inputs are zeros."

_EVERY = tuple([tuple(range(count)) for count in range(9)])


def check_point(
    inputs: object, argnums: object, f: object, name: str
) -> tuple[tuple[object, ...], int | tuple[int, ...]]:
    """Arguments and argnums of a call that names the point; plain arrays need no check."""
    if argnums.__class__ is int and argnums == 0:
        if inputs.__class__ is np.ndarray:
            return (inputs,), 0
        if inputs.__class__ is tuple and inputs:
            for one in inputs:  # type: ignore[attr-defined] - its class was looked at
                if one.__class__ is not np.ndarray:
                    break
            else:
                return inputs, _EVERY[len(inputs)] if len(inputs) < 9 else tuple(range(len(inputs)))  # type: ignore[return-value,arg-type] - its class was looked at
    if inputs is not None:  # which is refused in words of its own
        refuse_position(inputs, f, name)
        refuse_argnums(argnums, f, name)
    return check_inputs(inputs, f, name)


def check_inputs(
    inputs: object, f: object, name: str
) -> tuple[tuple[object, ...], int | tuple[int, ...]]:
    """Arguments and argnums of any point: also lists of numbers, dicts, dataclasses, tuples."""
    if not isinstance(inputs, tuple):
        point = as_point(inputs)
        return (point,) if _is_tree(point) else _entries(point, "inputs", name, called(name, f)), 0
    points = tuple(map(as_point, cast("tuple[object, ...]", inputs)))
    if not points:
        fact = "the tuple of inputs is empty."
        raise failure(InputError, called(name, f), fact, "Pass at least one array.")
    _entries(tuple(p for p in points if not _is_tree(p)), "inputs", name, called(name, f))
    return points, tuple(range(len(points)))


def _is_tree(value: object) -> bool:
    """Whether a value is a dict or a dataclass, perhaps nested, whose leaves are all arrays."""
    if value is None or isinstance(value, (*ARRAYS, tuple, list)):
        return False
    leaves, spec = flatten(value)
    return spec.kind is not None and bool(leaves) and all(isinstance(x, ARRAYS) for x in leaves)


def _entries(value: object, what: str, name: str, call: str) -> tuple[object, ...]:
    """The arrays of an array or a tuple of arrays."""
    stem = f"The {what} given to {name} {ARRAY_OR_TUPLE}"
    if isinstance(value, tuple):
        entries = cast("tuple[object, ...]", value)
        for k, entry in enumerate(entries):
            if not isinstance(entry, ARRAYS):
                refuse_device_array(entry, call)
                fact = f"{stem} value at index {k} has type {type(entry).__name__}."
                way = getattr(type(entry), WAY_OUT, "Make each an array: numpy.asarray(x).")
                raise failure(InputError, call, fact, way)
        return entries
    if not isinstance(value, ARRAYS):
        refuse_device_array(value, call)
        ways: dict[type, str] = {
            list: f"Write numpy.array({what}) for one array, tuple({what}) for several.",
            type(None): f"For the function that computes it, leave {what} out: {name}(f).",
        }
        fact = f"{stem} given {what} has type {type(value).__name__}."
        way = ways.get(
            type(value), getattr(type(value), WAY_OUT, "Pass an array: numpy.asarray(x).")
        )
        way = TAKE_NUMBERS if is_table(value) else way
        raise failure(InputError, call, fact, way)
    return (value,)


def check_outputs(variant: Variant, name: str) -> None:
    """Refuse results that are neither an array nor a non-empty tuple of arrays."""
    stem = f"The {OUTPUTS} given to {name} {ARRAY_OR_TUPLE}"
    spec = variant.out_spec
    if spec.kind is tuple and not spec.children:
        fact = f"{stem} given {OUTPUTS} is an empty tuple."
        raise failure(InputError, variant.call, fact, RETURN_ARRAYS)
    if spec.kind is not None and spec.kind is not tuple:
        fact = f"{stem} given {OUTPUTS} has type {spec.kind.__name__}."
        nested = " Or use fdiff.jacrev, whose results are nested as those of the function are."
        raise failure(InputError, variant.call, fact, RETURN_ARRAYS + nested * (name == "jacobian"))
    for k, child in enumerate(spec.children if spec.kind is tuple else (spec,)):
        fixed = variant.outs[k] if child.kind is None else None
        if child.kind is not None or fixed:
            kind = child.kind or type(cast("tuple[object]", fixed)[0])
            which = f"value at index {k}" if spec.kind is tuple else f"given {OUTPUTS}"
            fact = f"{stem} {which} has type {kind.__name__}."
            raise failure(InputError, variant.call, fact, RETURN_ARRAYS)


def check_one_element(variant: Variant, name: str) -> None:
    """Refuse results that are no single array with a single element."""
    check_outputs(variant, name)
    refuse_complex(variant)
    if variant.out_spec.kind is not None:
        fact = f"The function given to {name} should return a single array."
        raise failure(VectorError, variant.call, fact, SCALAR)
    type_ = variant.tape.output_types[0]
    if type_.size != 1:
        fact = (
            f"The array returned by the function given to {name} should contain a single element,"
            f" but it has shape {type_.shape}."
        )
        raise failure(VectorError, variant.call, fact, SCALAR)


# --- the vector v ---------------------------------------------------------------------------------


def check_vector(
    v: object, types: Sequence[ArrayType], variant: Variant, name: str, *, like: str
) -> list[object]:
    """The entries of `v` as arrays of exactly these types; ones where `v` may be left out.

    `like` tells what `v` is shaped like: "inputs" or "outputs".
    """
    if len(types) == 1 and _fits(v, types[0]):
        return [v]
    if v is None:
        if len(types) == 1 and types[0].size == 1:
            return [np.ones(types[0].shape, types[0].dtype)[()]]
        what = ONE_INPUT if like == "inputs" else ONE_OUTPUT
        fact = f"The vector v can only be None if {what}."
        raise failure(VectorError, variant.call, fact, LIKE.format(like))
    spec = variant.in_spec if like == "inputs" else variant.out_spec
    if any(child.kind for child in (spec.children if spec.kind is tuple else (spec,))):
        entries = _leaves(v, spec, like, variant.call)
    elif isinstance(v, tuple):
        entries = _entries(
            tuple(map(as_point, cast("tuple[object, ...]", v))), "v", name, variant.call
        )
    else:
        entries = _entries(as_point(v), "v", name, variant.call)
    if len(entries) != len(types):
        fact = f"v is a tuple of invalid length: should be {len(types)} but got {len(entries)}."
        if spec.kind is None:
            fact = "The given v should contain a single array."
        raise failure(VectorError, variant.call, fact, LIKE.format(like))
    places = [f"Entry {k} in v" for k in range(len(types))] if spec.kind is not None else ["v"]
    return [_entry(*each, like, variant.call) for each in zip(entries, types, places, strict=True)]


def _in_order(v: object, spec: Spec) -> object:
    """`v` with the keys of its dicts in the order that `spec` has them in."""
    if type(v) is dict and spec.kind is dict and set(v) == set(spec.keys):
        return {k: _in_order(v[k], c) for k, c in zip(spec.keys, spec.children, strict=True)}
    if (type(v) is tuple or type(v) is list) and len(v) == len(spec.children):
        return type(v)([_in_order(x, c) for x, c in zip(v, spec.children, strict=True)])
    return v


def _leaves(v: object, spec: Spec, like: str, call: str) -> tuple[object, ...]:
    """The entries of a `v` that is built like the inputs or outputs: dicts, lists, dataclasses."""
    leaves, own = flatten(_in_order(v, spec))
    if own != spec:
        raise failure(VectorError, call, f"v is not built like the {like}.", LIKE.format(like))
    return tuple(leaves)


def _fits(entry: object, type_: ArrayType) -> bool:
    """Whether an entry of `v` is an array of exactly this type, as in most calls."""
    if not isinstance(entry, np.ndarray) or not type_.shape:
        return False
    return entry.shape == type_.shape and entry.dtype == type_.dtype and type(entry) is np.ndarray


def _entry(entry: object, type_: ArrayType, place: str, like: str, call: str) -> object:
    """An entry of `v`, converted to the dtype of what it is multiplied with."""
    if isinstance(entry, np.ndarray) and type(entry) not in (np.ndarray, np.memmap, LocalArray):
        fact = f"{place} is an array of type {type(entry).__name__}, which is not supported."
        raise failure(InputError, call, fact, "Pass a plain array: numpy.asarray(v).")
    typed = isinstance(entry, (TracedArray, DeviceArray))
    dtype = entry.dtype if typed else np.asarray(entry).dtype
    if dtype.kind not in ("biufc" if type_.dtype.kind == "c" else "biuf"):
        fact = f"{place} must hold real numbers, not {dtype}."
        raise failure(DtypeError, call, fact, f"Pass v of the dtype of the {like}.")
    shape = entry.shape if typed else np.shape(entry)  # type: ignore[arg-type,attr-defined] - a traced array has one
    if shape != type_.shape:
        fact = f"{place} has invalid size: should be {type_.shape} but got {shape}."
        raise failure(VectorError, call, fact, LIKE.format(like))
    if isinstance(entry, TracedArray):
        return entry.astype(type_.dtype)  # type: ignore[attr-defined] - entered by fdiff.ops
    if isinstance(entry, DeviceArray):
        if dtype != type_.dtype:
            fact = f"{place} is of {dtype}, and lies on a GPU: it is not converted."
            raise failure(DtypeError, call, fact, f"Pass v of the dtype {type_.dtype}.")
        return entry
    array = np.asarray(entry, type_.dtype)
    return array if shape else array[()]


# --- strict=True ----------------------------------------------------------------------------------


def check_strict(variant: Variant, *, each_pair: bool) -> None:
    """Refuse outputs that do not depend on the inputs, as torch does with ``strict=True``."""
    with no_fork:
        from ..transforms.linearity import Dependence  # noqa: PLC0415 - strict=True alone needs it

    matrix = Dependence(variant.tape, variant.wrt).differentiable
    for o, row in enumerate(matrix):
        if not any(row):
            fact = (
                f"Output {o} of the user-provided function does not require gradients. The outputs"
                " must be computed in a differentiable manner from the input when running in"
                " strict mode."
            )
            raise failure(StrictError, variant.call, fact, ZEROS)
    for i in range(len(variant.wrt)):
        if not any(row[i] for row in matrix):
            fact = f"The output of the user-provided function is independent of input {i}."
            raise failure(StrictError, variant.call, f"{fact} {NOT_STRICT}", ZEROS)
        for o, row in enumerate(matrix):
            if each_pair and not row[i]:
                fact = f"Output {o} of the user-provided function is independent of input {i}."
                raise failure(StrictError, variant.call, f"{fact} {NOT_STRICT}", ZEROS)


def check_strict_gradient(
    slope_depends: Sequence[Sequence[bool]], variant: Variant, name: str
) -> None:
    """Refuse functions whose gradient with respect to some input is constant."""
    for i, row in enumerate(slope_depends):
        if not any(row):
            fact = (
                f"While computing the {name}, found that the jacobian of the user-provided function"
                f" with respect to input {i} is independent of the input. {NOT_STRICT} You should"
                " ensure that your function is twice differentiable and that the jacobian depends"
                " on the inputs (this would be violated by a linear function for example)."
            )
            raise failure(StrictError, variant.call, fact, ZEROS)
