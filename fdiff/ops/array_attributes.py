"""Attributes and methods of `ndarray` that concern memory: ``view``, ``flags``, ``strides``, ``flat``, ``tolist``."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator

import fdiff.intact_numpy as np

from ..foreign_errors import hiding
from ..trace import Array, TracedArray, current, guarded_value, implements, unsupported
from ..trace.traced_keys import TracedKey
from .shapes.in_place_functions import put
from .shapes.item_assignment import assign, read_only
from .shapes.shaping import imag, real, traced
from .shapes.take_functions import item


@implements(method="view")
def view_method(x: TracedArray, dtype: object = None, type: object = None) -> TracedArray:
    """View the memory as another array."""
    dtype, type = (None, dtype) if dtype is np.ndarray else (dtype, type)  # noqa: A001 - NumPy's name
    if type is np.ndarray and dtype is None:
        return traced(x)
    if type is not None or (
        dtype is not None
        and (not isinstance(dtype, (str, np.dtype, builtins.type)) or np.dtype(dtype) != x.dtype)
    ):
        raise current().fail(
            "a traced array was viewed as another dtype or class, whose entries are other numbers.",
            "Use `.astype`.",
        )
    return traced(x)


@implements(method="tolist")
def tolist(x: TracedArray) -> object:
    """Nested lists of Python numbers; floats stay traced."""
    if x.ndim:
        return [tolist(part) for part in x]
    return item(x)


@implements(method="tobytes")
def tobytes(x: TracedArray, order: str = "C") -> bytes | TracedKey:
    """The bytes of the entries; of a differentiated array they may only be used as a key (`TracedKey`)."""
    trace = current(x)
    moving = trace.guards.depends(trace.own(x))
    content = guarded_value(x, "took the bytes of a traced array").tobytes(order)
    return TracedKey(content) if moving else content


class TracedFlags:
    """``x.flags`` as NumPy would report them; none can be set."""

    __slots__ = ("_array",)

    def __init__(self, array: TracedArray) -> None:
        object.__setattr__(self, "_array", array)

    @hiding
    def __getattr__(self, name: str) -> object:
        if name == "writeable":
            return not read_only(self._array)
        if name not in ("c_contiguous", "f_contiguous", "contiguous", "forc", "fnc", "aligned"):
            raise unsupported(f"ndarray.flags.{name}")
        return getattr(self._array.example().flags, name)

    def __getitem__(self, name: str) -> object:
        return getattr(self, _FLAGS.get(name, name.lower()))

    def __setattr__(self, name: str, value: object) -> None:
        raise current().fail(
            f"the flag {name!r} of a traced array was set.",
            "Leave the line out, or set it outside of the function.",
        )

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, _FLAGS.get(name, name.lower()), value)


_FLAGS = {
    "C": "c_contiguous",
    "F": "f_contiguous",
    "CONTIGUOUS": "c_contiguous",
    "W": "writeable",
    "A": "aligned",
}
TracedArray.flags = property(hiding(TracedFlags))


def _set_strides(x: TracedArray, strides: object) -> None:
    raise current(x).fail(
        "the strides of a traced array were set in place.",
        "Use numpy.lib.stride_tricks.as_strided.",
    )


TracedArray.strides = property(hiding(lambda self: self.example().strides), _set_strides)
TracedArray.__copy__ = np.copy
TracedArray.__deepcopy__ = lambda self, memo: np.copy(self)


class TracedFlatiter:
    """``x.flat``: the entries in C order, to read, store and iterate over."""

    __slots__ = ("array",)

    def __init__(self, array: TracedArray) -> None:
        self.array = array

    def __len__(self) -> int:
        return self.array.size

    def __iter__(self) -> Iterator[object]:
        return iter(np.reshape(self.array, -1))

    def __getitem__(self, key: object) -> object:
        out = np.reshape(self.array, -1)[key]
        return out if out.scalar else TracedArray(out.home, out.id, out.type)

    def __setitem__(self, key: object, value: object) -> None:
        x = self.array
        index = np.arange(x.size)[key]
        put(x, index, value) if np.size(value) else None

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return np.reshape(self.array, -1).__array__(dtype)

    def copy(self) -> Array:
        return np.ravel(self.array).copy()


TracedArray.flat = property(
    hiding(TracedFlatiter),
    lambda self, value: assign(self, np.resize(traced(value), self.shape))
)

TracedArray.real = property(hiding(real), lambda self, value: assign(real(self), value))


def _store_imag(x: TracedArray, value: object) -> None:
    if x.dtype.kind != "c":
        raise TypeError("array does not have imaginary part to set")
    assign(imag(x), value)


TracedArray.imag = property(hiding(imag), _store_imag)


def _text(function: Callable[..., str]) -> None:
    """Register a function that prints an array."""
    implements(function)(lambda a, *args, **keywords: a.printed(lambda value: function(value, *args, **keywords)))


for _function in (np.array_repr, np.array_str, np.array2string):
    _text(_function)


@implements(np.may_share_memory)
def may_share_memory(*arrays: object, **options: object) -> bool:
    """Refused: `permutation` of numpy.random asks it of what it is given."""
    fact = "numpy.may_share_memory was given a traced array, which has no memory; `permutation` of numpy.random calls it."
    raise current().fail(fact, "For rng.permutation(x) write x[rng.permutation(len(x))], which draws the same order.")
