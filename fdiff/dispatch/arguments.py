"""Arguments of a call: their signature, how each leaf is traced, and which leaves are refused.

Float arrays and floats are traced. All other leaves (ints, strings, objects) are passed to the
function unchanged, and their values are part of the signature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import fdiff.intact_numpy as np

from ..arraytype import type_of
from ..capture.non_numeric_data import data_key, is_table, refuse_lazy
from ..capture.value_kinds import leaf_key as value_key
from ..device_arrays import DeviceArray, lies_on_device
from ..errors import DtypeError, InputError, failure
from ..trace import ArgumentSpec, TracedArray
from ..trace.local_arrays import LocalArray, TracedLocalArray
from ..trace.recorder import leaked
from ..tree import Spec, flatten, paths

Argnums = int | tuple[int, ...] | None
Function = Callable[..., object]
Body = Callable[[Function, tuple[object, ...], dict[str, object]], object]
STATIC = (bool, int, str, bytes, type(None))
NUMBERS = (bool, int, float, complex)
LEAVE_OUT = "Leave it out of argnums, or pass it as an argument of its own."
ARRAYS_ALONE = (
    "Differentiate by an array, or a tuple, list, dict or dataclass of arrays: argnums names the"
    " argument. Other classes of yours take part once fdiff.register_pytree knows them."
)
WAY_OUT = "__fdiff_way_out__"  # attribute of fdiff's classes that operators refuse: advice
TAKE_NUMBERS = "Pass its numbers: `series.to_numpy()`, `frame.to_numpy()`."
ONCE = "Name each argument once; -1 is the last one."
NUMERIC = "biufc"  # kinds of dtypes that are traced; strings, dates, records and objects are not


def leaf_key(leaf: object) -> object:
    """A leaf in a signature: the type of arrays and floats, the value of everything else."""
    kind = type(leaf)
    if type(leaf) is np.ndarray:
        if leaf.dtype.kind in NUMERIC:
            return leaf.dtype, leaf.shape
        return id(leaf) if leaf.dtype.hasobject else (leaf.dtype, leaf.shape, leaf.tobytes())
    if kind is float or kind is complex:
        return kind
    if kind in STATIC:
        return kind, leaf
    if isinstance(leaf, np.inexact):
        return "scalar", leaf.dtype
    if isinstance(leaf, np.generic):
        return "scalar", leaf.dtype, leaf.tobytes()
    if isinstance(leaf, (np.ndarray, DeviceArray)):
        return kind, leaf.dtype, leaf.shape
    key = data_key(leaf)
    return (kind, id(leaf)) if key is None else (kind, key)


def flat_key(args: tuple[object, ...]) -> tuple[object, ...] | None:
    """The signature of arguments that are leaves themselves, as in most calls; else None."""
    key: list[object] = []
    for arg in args:
        kind = type(arg)
        if type(arg) is np.ndarray and arg.dtype.kind in NUMERIC:
            key.append((arg.dtype, arg.shape))
        elif kind is float or kind is complex:
            key.append(kind)
        elif kind in STATIC and arg is not None:  # None is no leaf
            key.append((kind, arg))
        elif type(arg) is DeviceArray:
            key.append((kind, arg.dtype, arg.shape))
        else:
            return None
    return tuple(key)


def is_static(leaf: object) -> bool:
    """Whether a leaf is handed to the function as it is."""
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind not in NUMERIC
    return not isinstance(leaf, (float, complex, np.inexact, TracedArray, DeviceArray))


def is_direct(leaf: object) -> bool:
    """Whether `leaf` is an input of the tape as it stands."""
    return (
        isinstance(leaf, np.ndarray)
        and type(leaf) is np.ndarray
        and leaf.ndim > 0
        and leaf.dtype.isnative
    )


def native(leaf: object) -> np.ndarray:
    """An argument as an input of the tape: in native byte order; without axes, a scalar."""
    if isinstance(leaf, np.ndarray):
        array = np.asarray(leaf)  # a plain array in place of a memmap
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        return array if array.ndim else array[()]
    plain = isinstance(leaf, (float, complex, np.generic, DeviceArray))
    return leaf if plain else np.asarray(leaf)  # type: ignore[return-value] - a scalar serves as an array without axes


def differentiated(args: tuple[object, ...], argnums: Argnums, call: str) -> tuple[list[int], Spec]:
    """The numbers of the differentiated leaves, in the order of `argnums`, and their spec."""
    if argnums is None:
        return [], Spec(tuple)
    counts, specs = [], []
    for arg in args:
        leaves, spec = flatten(arg)
        counts.append(len(leaves))
        specs.append(spec)
    places = [
        position(n, len(args), call) for n in ((argnums,) if isinstance(argnums, int) else argnums)
    ]
    if len(set(places)) < len(places):
        fact = f"argnums={argnums} names one of {len(args)} arguments twice."
        raise failure(InputError, call, fact, ONCE)
    order = [sum(counts[:p]) + k for p in places for k in range(counts[p])]
    spec = (
        specs[places[0]]
        if isinstance(argnums, int)
        else Spec(tuple, (), tuple(specs[p] for p in places))
    )
    return order, spec


def position(argnum: int, count: int, call: str) -> int:
    """`argnum` counted from the front, or an error that says how many arguments there are."""
    if not -count <= argnum < count:
        needed = argnum + 1 if argnum >= 0 else -argnum
        fact = f"argnums={argnum} requires at least {needed} positional arguments, but got {count}."
        way = "Arguments are counted from 0; keyword arguments do not count."
        raise failure(InputError, call, fact, way)
    return argnum % count


class ResultNumber:
    """A number of the class `python` in a result, which the tape computes."""

    def __init__(self, traced: TracedArray, python: type) -> None:
        self.traced, self.python = traced, python


def traceable(out: object) -> bool:
    """Whether `out` is a number or an array of numbers."""
    if isinstance(out, (np.ndarray, np.generic)):
        entries = out.flat if isinstance(out, np.ndarray) else ()
        return out.dtype.kind in NUMERIC or any(isinstance(e, TracedArray) for e in entries)
    return isinstance(out, (TracedArray, ResultNumber, *NUMBERS))


def as_input(leaf: object, *, differentiate: bool) -> ArgumentSpec:
    """How a leaf is traced."""
    if isinstance(leaf, TracedArray):
        return ArgumentSpec(leaf.type, leaf.scalar, leaf.weak, leaf, differentiate)
    if isinstance(leaf, DeviceArray):  # copied to the host where Python asks for values
        return ArgumentSpec(type_of(leaf), value=cache(leaf.host), active=differentiate)
    array = np.asarray(leaf)
    value = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    scalar = isinstance(leaf, (float, complex, np.generic))
    return ArgumentSpec(
        type_of(array), scalar, type(leaf) in (float, complex), value, differentiate
    )


def check_leaf(leaf: object, call: str, spec: Spec, k: int, *, differentiate: bool) -> None:
    """Refuse a leaf that cannot be traced or differentiated, before the function runs."""
    if type(leaf) is TracedLocalArray:
        raise leaked(leaf.handle)
    if isinstance(leaf, TracedArray):
        if differentiate:
            _check_dtype(leaf, leaf.dtype, call, spec, k)
        return
    refuse_device_array(leaf, call)
    refuse_lazy(leaf, call, argument(spec, k))
    if (
        isinstance(leaf, np.ndarray)
        and type(leaf) is not np.ndarray
        and not isinstance(leaf, (np.memmap, LocalArray))  # a traced function may keep a LocalArray
    ):
        way = "Pass a plain array: numpy.asarray(x), or x.filled(...)."
        fact = f"arrays of type {type(leaf).__name__} are not supported."
        raise failure(InputError, call, fact, way)
    if not differentiate:
        return
    if not isinstance(leaf, (np.ndarray, np.generic, int, float, complex, DeviceArray)):
        fact = f"cannot differentiate with respect to a value of type {type(leaf).__name__}"
        inside = _inside(spec, k)
        own = f"Pass dict(x). {ARRAYS_ALONE}" if isinstance(leaf, Mapping) else ARRAYS_ALONE
        way = getattr(type(leaf), WAY_OUT, LEAVE_OUT if inside else own)
        raise failure(InputError, call, f"{fact}{inside}.", TAKE_NUMBERS if is_table(leaf) else way)
    dtype = leaf.dtype if isinstance(leaf, DeviceArray) else np.asarray(leaf).dtype
    _check_dtype(leaf, dtype, call, spec, k)


def _check_dtype(leaf: object, dtype: np.dtype, call: str, spec: Spec, k: int) -> None:
    if dtype.kind not in "fc":  # complex inputs are judged by the operator
        fact = f"only floating-point inputs can be differentiated, not {dtype}{_inside(spec, k)}."
        raise failure(DtypeError, call, fact, _as_float(leaf, dtype, spec))


def refuse_device_array(leaf: object, call: str) -> None:
    """Refuse an array that lies on a GPU, given to a function that runs on the CPU."""
    if lies_on_device(leaf):
        name, _, rest = call.partition("(")
        fact = (
            f"an array of type {type(leaf).__name__} lies on a GPU, and the call runs on the CPU."
        )
        way = f"Write {name}({rest.rstrip(')')}, device='cuda'), or copy the array to the host."
        raise failure(InputError, call, fact, way)


def _as_float(leaf: object, dtype: np.dtype, spec: Spec) -> str:
    """Advice for an argument that is not floating point: convert it, or leave it out."""
    if dtype.kind == "O":
        return "Convert it with x.astype(float), if it holds numbers alone."
    if dtype.kind not in NUMERIC:
        return LEAVE_OUT if spec.leaves > 1 else ARRAYS_ALONE
    how = "with x.astype(float)" if isinstance(leaf, np.ndarray) else ": float(x)"
    others = ", or leave it out of argnums" if spec.leaves > 1 else ""
    return f"Convert it {how}{others}.".replace(" :", ":")


def argument(spec: Spec, k: int) -> str:
    """Name of leaf `k` of ``(args, kwargs)``: ``argument 0['rate']``, ``argument 'scale'``."""
    head, _, rest = paths(spec)[k][len("[0][") :].partition("]")
    return f"argument {head}{rest}"


def _inside(spec: Spec, k: int) -> str:
    """The name of leaf `k` in parentheses, if it is inside an argument."""
    name = argument(spec, k)
    return f" ({name})" if name.endswith("]") or "." in name else ""


def fixed(leaf: object) -> bool:
    """Whether an object that is no array of numbers is compared by value, or cannot change."""
    if isinstance(leaf, np.ndarray):
        return not leaf.dtype.hasobject
    if isinstance(leaf, (*STATIC, np.generic)) or value_key(leaf) is not None:
        return True
    return data_key(leaf) is not None


def immutable(leaf: object) -> bool:
    """Whether one object may be the result of several calls, because nobody can change it."""
    return value_key(leaf) is not None or isinstance(leaf, (*STATIC, type))
