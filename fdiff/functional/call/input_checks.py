"""Input checks of the calls that torch also has: accepted arguments, and errors for all others.

The rules are the rules of ``torch.autograd.functional``, with torch's messages where torch has
them. Beyond torch, arrays may be nested as in JAX: in tuples, lists, dicts and classes. Source:
torch's page ``torch.autograd``, section "Functional higher level API".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import fdiff.intact_numpy as np

from ...arraytype import ArrayType
from ...capture.non_numeric_data import is_table, refuse_lazy
from ...device_arrays import DeviceArray
from ...dispatch.arguments import TAKE_NUMBERS, WAY_OUT, Function, refuse_device_array
from ...dispatch.variant import Traced
from ...errors import DtypeError, InputError, StrictError, VectorError, called, failure
from ...process.forking import late
from ...tape import Tape
from ...trace import TracedArray
from ...trace.handler_arguments import shape_of
from ...trace.local_arrays import LocalArray
from ...tree import Spec, flatten, node_parts, paths
from ...user_lines import scipy_call, within_scipy
from ..options import refuse_argnums, refuse_position
from .complex_rules import refuse_complex
from .point_conversion import HAVE_DTYPES, as_point, holds_integers, ragged

ARRAYS = (np.ndarray, np.generic, float, int, complex, TracedArray, DeviceArray)
ARRAY_OR_TUPLE = "must be either an array or a tuple of arrays but the"
ONE_OUTPUT = "the user-provided function returns a single array with a single element"
ONE_INPUT = "the input to the user-provided function is a single array with a single element"
OUTPUTS = "outputs of the user-provided function"
NOT_STRICT = "This is not allowed in strict mode."
# Advice in errors.
RETURN_ARRAYS = "Return an array, or arrays in tuples, lists and dicts."
SCALAR = "Sum it, or write fdiff.hessian(f) for all second derivatives."
LIKE = "Pass v with the structure and shapes of the {}."
ZEROS = "Leave strict out: the derivative is then zero where there is no dependence."

dependence = late("linearity", "fdiff.transforms", "Dependence")  # strict=True alone needs it
COLUMNS = (
    "Write fdiff.optimize.curve_fit, without jac; or with SciPy's"
    " jac=lambda x, *p: np.stack(fdiff.jacobian(f, argnums=(1, 2))(x, *p), axis=-1)."
)

_EVERY = tuple([tuple(range(count)) for count in range(9)])


def check_point(
    inputs: object, argnums: object, f: object, name: str
) -> tuple[tuple[object, ...], int | tuple[int, ...]]:
    """Arguments and argnums of a call that names the point; plain arrays need no check."""
    if argnums.__class__ is int and argnums == 0:
        if inputs.__class__ is np.ndarray:
            return (inputs,), 0
        if type(inputs) is tuple and inputs:
            for array in inputs:
                if array.__class__ is not np.ndarray:
                    break
            else:
                return inputs, _EVERY[len(inputs)] if len(inputs) < 9 else tuple(range(len(inputs)))
    if inputs is not None:  # refused by an error of its own
        refuse_position(inputs, f, name)
        refuse_argnums(argnums, f, name)
    return check_inputs(inputs, f, name)


def check_inputs(
    inputs: object, f: object, name: str
) -> tuple[tuple[object, ...], int | tuple[int, ...]]:
    """Arguments and argnums of any point: a tuple holds several arguments, another value is one.

    An argument is an array, a list of numbers, or arrays in tuples, lists, dicts and classes.
    """
    call = called(name, f)
    if not isinstance(inputs, tuple):
        point = as_point(inputs, call)
        _check_arrays(point, "inputs", name, call)
        return (point,), 0
    if not inputs:
        fact = "the tuple of inputs is empty."
        raise failure(InputError, call, fact, "Pass at least one array.")
    points = tuple([as_point(x, call) for x in cast("tuple[object, ...]", inputs)])
    _check_arrays(points, "inputs", name, call)
    return points, tuple(range(len(points)))


def _check_arrays(value: object, what: str, name: str, call: str) -> None:
    """Refuse a tree with leaves other than arrays, or an argument that holds no array."""
    several = isinstance(value, tuple)
    for k, entry in enumerate(cast("tuple[object, ...]", value) if several else (value,)):
        place = f"value at index {k}" if several else f"given {what}"
        leaves, spec = flatten(entry)
        if not leaves or (type(entry) is list and not several):  # one argument, or several of them?
            raise _no_array(entry, place, what, name, call)
        for leaf, path in zip(leaves, paths(spec), strict=True):
            if not isinstance(leaf, ARRAYS):
                inside = f"value at {f'[{k}]' if several else ''}{path}"
                raise _no_array(leaf, inside if path else place, what, name, call)


def _no_array(entry: object, place: str, what: str, name: str, call: str) -> InputError:
    """The error for a value that is no array, in torch's words."""
    refuse_device_array(entry, call)
    refuse_lazy(entry, call, f"the {place}")
    ways: dict[type, str] = {
        list: f"Write numpy.array({what}) for one array, tuple({what}) for several,"
        f" ({what},) for one argument that is a list.",
        type(None): f"For a prepared function, leave {what} out: {name}(f).",
    }
    plain = "Make each an array: numpy.asarray(x)."
    if place.startswith("given"):
        plain = ways.get(type(entry), "Pass an array: numpy.asarray(x).")
    way = TAKE_NUMBERS if is_table(entry) else getattr(type(entry), WAY_OUT, plain)
    fact = f"The {what} given to {name} {ARRAY_OR_TUPLE} {place} has type {type(entry).__name__}."
    return failure(InputError, call, fact, way)


def check_outputs(traced: Traced, name: str) -> None:
    """Refuse results without arrays, with other leaves, or with ragged lists of numbers."""
    stem = f"The {OUTPUTS} given to {name} {ARRAY_OR_TUPLE}"
    spec, outs = traced.out_spec, traced.outs
    if not outs:
        holds = "holds no array" if spec.children else f"has type {_name(spec.kind)}"
        holds = "is an empty tuple" if spec == Spec(tuple) else holds
        fact = f"{stem} given {OUTPUTS} {holds}."
        raise failure(InputError, traced.call, fact, RETURN_ARRAYS)
    for k, (fixed, path) in enumerate(zip(outs, paths(spec), strict=True)):
        if fixed is not None:
            flat = spec.kind is tuple and spec.leaves == len(spec.children)
            which = f"value at {f'index {k}' if flat else path}" if path else f"given {OUTPUTS}"
            fact = f"{stem} {which} has type {type(fixed[0]).__name__}."
            raise failure(InputError, traced.call, fact, RETURN_ARRAYS)
    if spec.kind is list and all(traced.scalars) and _of_lists(spec):
        raise ragged(f"the {OUTPUTS} are", traced.call)


def _name(kind: type | None) -> str:
    return "" if kind is None else kind.__name__


def _of_lists(spec: Spec) -> bool:
    """Whether a structure consists of lists and tuples only."""
    return spec.kind in {None, list, tuple} and all(map(_of_lists, spec.children))


def check_one_element(traced: Traced, name: str) -> None:
    """Refuse results other than a single array with a single element."""
    check_outputs(traced, name)
    refuse_complex(traced)
    if traced.out_spec.kind is not None:
        fact = f"The function given to {name} should return a single array."
        raise failure(VectorError, traced.call, fact, SCALAR)
    type_ = traced.tape.output_types[0]
    if type_.size != 1:
        fact = (
            f"The array returned by the function given to {name} should contain a single element,"
            f" but it has shape {type_.shape}."
        )
        raise failure(VectorError, traced.call, fact, SCALAR)


# --- the vector v ---------------------------------------------------------------------------------


def check_vector(
    v: object, types: Sequence[ArrayType], traced: Traced, name: str, *, like: str
) -> list[object]:
    """The entries of `v` as arrays of exactly these types; ones if `v` is left out and may be.

    `like` tells what `v` is shaped like: "inputs" or "outputs".
    """
    if len(types) == 1 and _has_exact_type(v, types[0]):
        return [v]
    if v is None:
        if len(types) == 1 and types[0].size == 1:
            return [np.ones(types[0].shape, types[0].dtype)[()]]
        what = ONE_INPUT if like == "inputs" else ONE_OUTPUT
        fact = f"The vector v can only be None if {what}."
        raise failure(VectorError, traced.call, fact, LIKE.format(like))
    spec = traced.in_spec if like == "inputs" else traced.out_spec
    if any(child.kind for child in (spec.children if spec.kind is tuple else (spec,))):
        entries = _leaves(v, spec, like, traced.call)
    else:
        entries = [as_point(x, traced.call) for x in (v if isinstance(v, tuple) else (v,))]
        checked = tuple(entries) if isinstance(v, tuple) else entries[0]
        _check_arrays(checked, "v", name, traced.call)
    if len(entries) != len(types):
        fact = f"v is a tuple of invalid length: should be {len(types)} but got {len(entries)}."
        if spec.kind is None:
            fact = "The given v should contain a single array."
        raise failure(VectorError, traced.call, fact, LIKE.format(like))
    places = [f"Entry {k} in v" for k in range(len(types))] if spec.kind is not None else ["v"]
    return [_entry(*each, like, traced.call) for each in zip(entries, types, places, strict=True)]


def _leaves(v: object, spec: Spec, like: str, call: str) -> list[object]:
    """The entries of a `v` that is built like the inputs or outputs; dicts may be in any order."""
    if spec.kind is None:
        entry = as_point(v, call)
        if isinstance(entry, ARRAYS):
            return [entry]
    elif (parts := node_parts(v)) is not None and flatten(v)[1].kind is spec.kind:
        keys, children = parts
        if spec.kind is dict and isinstance(v, dict) and set(keys) == set(spec.keys):
            keys, children = spec.keys, [v[k] for k in spec.keys]
        if keys == spec.keys and len(children) == len(spec.children):
            pairs = zip(children, spec.children, strict=True)
            return [x for child, below in pairs for x in _leaves(child, below, like, call)]
    raise failure(VectorError, call, f"v is not built like the {like}.", LIKE.format(like))


def _has_exact_type(entry: object, type_: ArrayType) -> bool:
    """Whether an entry of `v` is an array of exactly this type, as in most calls."""
    if not isinstance(entry, np.ndarray) or not type_.shape:
        return False
    return entry.shape == type_.shape and entry.dtype == type_.dtype and type(entry) is np.ndarray


def _entry(entry: object, type_: ArrayType, place: str, like: str, call: str) -> object:
    """An entry of `v`, converted to the dtype of the array that it multiplies."""
    if isinstance(entry, np.ndarray) and type(entry) not in (np.ndarray, np.memmap, LocalArray):
        fact = f"{place} is an array of type {type(entry).__name__}, which is not supported."
        raise failure(InputError, call, fact, "Pass a plain array: numpy.asarray(v).")
    typed = isinstance(entry, (TracedArray, DeviceArray))
    dtype = entry.dtype if typed else np.asarray(entry).dtype
    if dtype.kind not in ("biufc" if type_.dtype.kind == "c" else "biuf"):
        fact = f"{place} must hold real numbers, not {dtype}."
        raise failure(DtypeError, call, fact, f"Pass v of the dtype of the {like}.")
    shape = entry.shape if typed else shape_of(entry)
    if shape != type_.shape:
        fact = f"{place} has invalid size: should be {type_.shape} but got {shape}."
        raise failure(VectorError, call, fact, LIKE.format(like))
    if isinstance(entry, TracedArray):
        return entry.astype(type_.dtype)
    if isinstance(entry, DeviceArray):
        if dtype != type_.dtype:
            fact = f"{place} is of {dtype}, and lies on a GPU: it is not converted."
            raise failure(DtypeError, call, fact, f"Pass v of the dtype {type_.dtype}.")
        return entry
    array = np.asarray(entry, type_.dtype)
    return array if shape else array[()]


def check_columns(traced: Traced) -> None:
    """Refuse a tuple of derivatives: SciPy's `curve_fit` would make it an array of equal rows."""
    if traced.in_spec.kind is not None and scipy_call() == "scipy.optimize.curve_fit":
        fact = "curve_fit takes one array, and the derivative by several arguments is a tuple."
        raise failure(InputError, traced.call, fact, COLUMNS)


# --- strict=True ----------------------------------------------------------------------------------


def check_strict(traced: Traced, *, each_pair: bool) -> None:
    """Refuse outputs that do not depend on the inputs, as torch does with ``strict=True``."""
    matrix = dependence(traced.tape, traced.wrt).differentiable
    for o, row in enumerate(matrix):
        if not any(row):
            fact = (
                f"Output {o} of the user-provided function does not require gradients. The outputs"
                " must be computed in a differentiable manner from the input when running in"
                " strict mode."
            )
            raise failure(StrictError, traced.call, fact, ZEROS)
    for i in range(len(traced.wrt)):
        if not any(row[i] for row in matrix):
            fact = f"The output of the user-provided function is independent of input {i}."
            raise failure(StrictError, traced.call, f"{fact} {NOT_STRICT}", ZEROS)
        for o, row in enumerate(matrix):
            if each_pair and not row[i]:
                fact = f"Output {o} of the user-provided function is independent of input {i}."
                raise failure(StrictError, traced.call, f"{fact} {NOT_STRICT}", ZEROS)


def check_strict_gradient(gradient: Tape, traced: Traced, name: str) -> None:
    """Refuse functions whose gradient with respect to some input is constant."""
    for k, row in enumerate(dependence(gradient, traced.wrt).differentiable):
        i = k % len(traced.wrt)  # one output after the other
        if not any(row):
            fact = (
                f"While computing the {name}, found that the jacobian of the user-provided function"
                f" with respect to input {i} is independent of the input. {NOT_STRICT} You should"
                " ensure that your function is twice differentiable and that the jacobian depends"
                " on the inputs (this would be violated by a linear function for example)."
            )
            raise failure(StrictError, traced.call, fact, ZEROS)


def refuse_integers(args: tuple[object, ...], name: str, f: Function) -> None:
    """Refuse NumPy integers in calls that pass `f` and the point together, as torch does."""
    one_array = len(args) == 1 and args[0].__class__ is np.ndarray
    for leaf in args if one_array else flatten(args)[0]:
        if isinstance(leaf, HAVE_DTYPES) and holds_integers(leaf) and not within_scipy():
            dtype, how = leaf.dtype, "with x.astype(float)" if leaf.ndim else ": float(x)"
            fact = f"only floating-point inputs can be differentiated, not {dtype}."
            way = f"Convert it {how}.".replace(" :", ":")
            raise failure(DtypeError, called(name, f), fact, way)
