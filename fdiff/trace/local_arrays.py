"""Arrays made inside a traced function: plain memory until a traced value is stored into them.

A `LocalArray` is an ndarray and behaves as one. When a traced value is stored into it, the array
and every view of its memory change their class to `TracedLocalArray`: still an ndarray, but every
use of it is passed on to a traced array, its `handle`. The dtype of its memory is then void, so
that no C code can read numbers there, which would be out of date.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

import fdiff.intact_numpy as np

from ..foreign_errors import hiding
from ..primitive import FUNCTIONS
from .recorder import ARRAY_CLASSES
from .shared_memory import Key, constant, handles_of, memory_key, read_only, whole_of
from .trace_stack import current
from .traced_array import TracedArray

NUMERIC = "biufc"
_PLAIN = (int, slice, type(...), type(None), str)
# Sets the dtype of an array; NumPy 2.5 deprecates doing so by an assignment.
_set_dtype: Callable[[np.ndarray, np.dtype], None] = getattr(
    np.ndarray, "_set_dtype", vars(np.ndarray)["dtype"].__set__
)


# By id of an array that owns memory: weak references to it, then to all local arrays that view it.
_families: dict[int, list[weakref.ref[np.ndarray]]] = {}


def _owner(array: np.ndarray) -> np.ndarray:
    """The array that owns the memory of `array`."""
    base: object = array
    while base is not None:
        if isinstance(base, np.ndarray):
            array = base
        base = getattr(base, "base", None)  # `as_strided` puts an object of its own in between
    return array


class LocalArray(np.ndarray):
    """An ndarray that notices traced values stored into it; made by ``.view(LocalArray)``."""

    __slots__ = ("handle",)

    handle: TracedArray

    def __array_finalize__(self, source: object) -> None:
        owner = _owner(self)
        family = _families.get(id(owner))
        if family is None:
            key = id(owner)
            _families[key] = [weakref.ref(owner, partial(_families.pop, key))]
            _families[key].append(weakref.ref(self))
            return
        if len(family) & (len(family) - 1) == 0:  # at each power of two
            family[1:] = [view for view in family[1:] if view() is not None]
        family.append(weakref.ref(self))

    def __array_wrap__(  # type: ignore[override] - NumPy takes a scalar, too
        self,
        array: np.ndarray,
        context: object = None,
        return_scalar: bool = False,  # noqa: FBT001, FBT002 - NumPy calls it by position
    ) -> object:
        return array[()] if return_scalar else array.view(LocalArray)

    def __array_function__(  # type: ignore[override] - NumPy gives a tuple and a dict
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        # NumPy asks local arrays first, as they are of a subclass of ndarray.
        if holds_traced(args) or holds_traced(list(kwargs.values())):
            return TracedArray.__array_function__(self, func, types, args, kwargs)
        return localised(super().__array_function__(func, types, args, kwargs), args)

    def __setitem__(self, key: Any, value: object) -> None:
        if holds_traced(value) or (type(key) not in _PLAIN and holds_traced(key)):
            make_traced(self)[key] = value
        else:
            super().__setitem__(key, value)

    def __getitem__(self, key: Any) -> Any:
        if type(key) not in _PLAIN and holds_traced(key):
            return constant(self)[key]
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[Any]:  # that of NumPy ends at any IndexError
        return (self[i] for i in range(len(self))) if self.ndim else super().__iter__()

    def fill(self, value: object) -> None:
        if holds_traced(value):
            cast("np.ndarray", make_traced(self)).fill(value)
        else:
            super().fill(value)

    def put(self, indices: object, values: object, mode: str = "raise") -> None:
        if holds_traced((indices, values)):
            FUNCTIONS[np.put](self, indices, values, mode)
        else:
            super().put(indices, values, mode)  # type: ignore[arg-type,call-overload] - passed on as given: NumPy checks it

    @property
    def flat(self) -> LocalFlat:  # type: ignore[override] - it does what a flatiter does
        return LocalFlat(self)

    @flat.setter
    def flat(self, value: object) -> None:
        self.flat[...] = value

    def view(self, *args: object, **keywords: object) -> Any:
        return localised(super().view(*args, **keywords))

    def resize(self, *shape: object, **keywords: object) -> None:
        fact = "an array made in the function was resized in place."
        raise current().fail(fact, "Make a new one: `a = np.concatenate([a, np.zeros(n)])`.")

    def __reduce__(self) -> str | tuple[object, ...]:
        return np.asarray(self).view(np.ndarray).__reduce__()


def _part_property(name: str) -> property:
    """The property `real` or `imag` of a local array, to which traced values may be assigned."""
    plain_part = getattr(np.ndarray, name)

    def store(self: LocalArray, value: object) -> None:
        if holds_traced(value):
            setattr(make_traced(self), name, value)
        else:
            plain_part.__set__(self, value)

    return property(plain_part.__get__, store)


LocalArray.real, LocalArray.imag = _part_property("real"), _part_property("imag")  # type: ignore[misc,assignment] - in place of the stubs' properties


ARRAY_CLASSES.add(LocalArray)


class LocalFlat:
    """``a.flat`` of a local array, which notices stores as the array does."""

    __slots__ = ("array",)

    def __init__(self, array: LocalArray) -> None:
        self.array = array

    def __setitem__(self, key: object, value: object) -> None:
        if type(self.array) is TracedLocalArray or holds_traced(value):
            entries: Any = make_traced(self.array).flat
            entries[... if key is ... else key] = value
        else:
            self._iterator()[key] = value

    @hiding
    def __getattr__(self, name: str) -> object:
        return getattr(self._iterator(), name)

    def _iterator(self) -> Any:
        array, traced = self.array, type(self.array) is TracedLocalArray
        return array.handle.flat if traced else np.ndarray.flat.__get__(array)

    def __getitem__(self, key: object) -> object:
        return self._iterator()[key]

    def __iter__(self) -> Iterator[object]:
        return iter(self._iterator())

    def __len__(self) -> int:
        return self.array.size

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:  # noqa: FBT001 - NumPy calls it by position
        return np.asarray(self._iterator(), dtype)


def _method(name: str) -> Callable[..., object]:
    """A method of local arrays: the method of a traced array where an argument is traced."""
    plain: Callable[..., object] = getattr(np.ndarray, name)

    def call(self: LocalArray, *args: object, **keywords: object) -> object:
        if holds_traced(args) or holds_traced(list(keywords.values())):
            return getattr(constant(self), name)(*args, **keywords)
        return localised(plain(self, *args, **keywords), (*args, *keywords.values()))

    call.__name__ = name
    return call


_METHODS = (  # those that take arrays or scalars, so that an argument may be traced
    "all any choose clip compress cumprod cumsum dot max mean min prod repeat std sum take var"
)
for _name in _METHODS.split():
    setattr(LocalArray, _name, _method(_name))


def _operator(name: str) -> Callable[..., object]:
    """An operator like ``+=`` of local arrays, which notices a list that holds traced values."""
    plain: Callable[..., object] = getattr(np.ndarray, name)

    def store(self: LocalArray, other: object) -> object:
        if (type(other) is list or type(other) is tuple) and holds_traced(other):
            return getattr(make_traced(self), name)(other)
        return plain(self, other)

    return store


_IN_PLACE = "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor ilshift irshift"
for _name in _IN_PLACE.split():
    setattr(LocalArray, f"__{_name}__", _operator(f"__{_name}__"))


class TracedLocalArray(LocalArray):
    """Stands for a traced array where an ndarray is wanted; every use goes to `handle`."""

    __slots__ = ()

    def __array_finalize__(self, source: object) -> None:
        pass

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object
    ) -> object:
        return self.handle.__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(
        self,
        func: Callable[..., object],
        types: Iterable[type],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> object:
        return self.handle.__array_function__(func, types, args, kwargs)

    def __setitem__(self, key: object, value: object) -> None:
        self.handle[key] = value

    def __getitem__(self, key: object) -> object:
        return self.handle[key]


def _passed_on(name: str) -> Callable[..., object]:
    """A method that calls the one of the traced array."""

    def call(self: TracedLocalArray, *args: object, **kwargs: object) -> object:
        return getattr(self.handle, name)(*args, **kwargs)

    call.__name__ = name
    return call


def _attribute(name: str) -> property:
    """A property that is the one of the traced array."""
    return property(
        lambda self: getattr(self.handle, name),
        lambda self, value: setattr(self.handle, name, value),
    )


# Special methods that would otherwise look at the memory, whose dtype is void. All other operators
# are ufuncs.
_SPECIAL = f"""
iter len contains array copy deepcopy reduce bool float int complex index round
repr str format divmod rdivmod eq ne lt le gt ge {_IN_PLACE}
"""
for _name in (
    *(f"__{name}__" for name in _SPECIAL.split()),
    *(name for name in dir(np.ndarray) if not name.startswith("_")),
):
    _member = getattr(np.ndarray, _name, _passed_on)
    setattr(TracedLocalArray, _name, _passed_on(_name) if callable(_member) else _attribute(_name))


def holds_traced(value: object) -> bool:
    """Whether a value is traced, or a sequence or object array that holds such a value."""
    kind = type(value)
    if kind is TracedLocalArray or issubclass(kind, TracedArray):
        return True
    if isinstance(value, np.ndarray):
        return value.dtype == object and any(map(holds_traced, value.flat))
    return isinstance(value, (tuple, list)) and any(map(holds_traced, value))


def localised(result: object, args: object = ()) -> object:
    """A result of NumPy with its arrays viewed as local arrays, in tuples and lists too.

    An array that may share memory with one in `args` that is not local may be the caller's, and is
    not changed.
    """
    if type(result) is np.ndarray:
        own = result.dtype.kind in NUMERIC and not _shares(result, args)
        return result.view(LocalArray) if own else result
    if type(result) is list:
        return [localised(part, args) for part in result]
    if type(result) is tuple:
        return tuple([localised(part, args) for part in result])
    if isinstance(result, tuple) and (make := getattr(type(result), "_make", None)) is not None:
        return make([localised(part, args) for part in result])  # a named tuple
    return result


def _shares(array: np.ndarray, args: object) -> bool:
    """Whether `array` may share memory with an array in `args` that is not local."""
    if type(args) is tuple or type(args) is list:
        return any(_shares(array, part) for part in args)
    foreign = isinstance(args, np.ndarray) and type(args) is not LocalArray
    return foreign and np.may_share_memory(array, args)


def plain(value: object) -> object:
    """A local array for a caller: the traced array, or an ordinary copy."""
    if type(value) is TracedLocalArray:
        return value.handle
    return np.array(value).view(np.ndarray) if type(value) is LocalArray else value


# ------------------------------------------------------------------------------------------ stores


def make_traced(array: LocalArray) -> TracedArray:
    """Turn a local array, and all that share its memory, into traced ones; its traced array."""
    if type(array) is TracedLocalArray:
        return array.handle
    log = current().calls
    return _make_traced(array) if log is None else log.converted(array, _make_traced)


def parts_of(array: LocalArray) -> tuple[np.ndarray, list[tuple[LocalArray, Key]]] | None:
    """The memory of a local array, and all local arrays there: each a view by a key.

    The key is () for one that is all of it. None where keys do not tell what they are.
    """
    owner = _owner(array)
    family = _family(owner)
    alike = [part for part in family if (part.size, part.dtype) == (owner.size, owner.dtype)]
    whole = np.ndarray.view(next(iter(alike), owner), np.ndarray)
    if not whole.flags.c_contiguous or not all(part.flags.writeable for part in family):
        return None
    parts: list[tuple[LocalArray, Key]] = []
    for part in family:
        key = memory_key(whole, np.ndarray.view(part, np.ndarray))
        if key is None:
            return None
        parts.append((part, key))
    return whole, parts


def _family(owner: np.ndarray) -> list[LocalArray]:
    """The local arrays that view some memory and are not traced."""
    views = [view() for view in _families[id(owner)][1:]]
    return [view for view in views if type(view) is LocalArray]


def _make_traced(array: LocalArray) -> TracedArray:
    if not array.flags.writeable:
        raise ValueError("assignment destination is read-only")
    owner = _owner(array)
    family = _family(owner)
    # the real or imaginary part of complex memory is a part of a traced array
    wholes = [(part, "") if part.dtype == owner.dtype else whole_of(owner, part) for part in family]
    parts = [whole for whole in wholes if whole is not None]
    if len(parts) < len(wholes):
        fact = "a traced value was stored into memory that is viewed as several dtypes."
        raise current().fail(fact, "Make arrays of their own: `z = a + 1j * b`.")
    memory = [np.ndarray.view(w, np.ndarray) for w in (owner, *(w for w, _ in parts))]
    names = [name for _, name in parts]
    for part, name, whole in zip(family, names, handles_of(memory)[1:], strict=True):
        handle: TracedArray = getattr(whole, name) if name else whole
        stand_for(part, handle if part.flags.writeable else read_only(handle))
    blank(memory[0])
    return array.handle


def stand_for(array: LocalArray, handle: TracedArray) -> None:
    """Let a local array stand for a traced one."""
    array.handle = handle
    np.ndarray.setflags(array, write=False)
    size = array.dtype.itemsize
    array.__class__ = TracedLocalArray
    _set_dtype(array, np.dtype(f"V{size}"))  # so that C code finds no numbers


def blank(memory: np.ndarray) -> None:
    """Let memory that traced arrays stand for hold no numbers."""
    if memory.dtype.kind in "fc" and memory.flags.writeable:
        memory.fill(np.nan)
