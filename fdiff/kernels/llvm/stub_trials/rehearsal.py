"""The entry stub rehearsed: its text run by Python, with memory and references accounted for.

The language of the stub is a subset of Python, so that its text runs here as it is, on objects of
this interpreter. But words are read and written only inside of what is known to lie there,
functions of the C API are models, and references are counted for the stub alone. Whatever does not
hold that a stub relies on is found this way, and cannot crash.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable
from functools import lru_cache, partial
from types import CodeType
from typing import Any

import fdiff.intact_numpy as np

from ....foreign_errors import not_foreign
from ....generated_text import Namespace
from ..stub.descriptor_layout import COPY_WORDS, FRAME_WORDS, HEADER, MISSES, PYTHON_API, Descriptor
from ..stub.interpreter_abi import NUMPY_API, WORD, numpy_api, python_api
from .known_memory import KnownMemory, Unfit, Words

_MOST_STACK = FRAME_WORDS + COPY_WORDS + 16  # words
_EQUAL = 2  # Py_EQ
_LOOKING = ("PyDict_GetItemWithError", "_PyObject_GetDictPtr")  # functions of look-ups


@lru_cache(maxsize=1)
def _addresses() -> dict[int, str]:
    """The names of functions by their addresses."""
    names = {python_api(name): name for name in (*PYTHON_API, *_LOOKING)}
    return names | {numpy_api(slot): name for name, slot in NUMPY_API.items()}


class Rehearsal(KnownMemory):
    """One call of the stub: the object behind the word ``rt`` of its text.

    `kernel` stands for the machine code, and `flag` tells what ``rt.flags`` is after it. The first
    call of the function that is `failing` fails with an error. `owned` counts references of
    the stub's by address, `rooms` is what it allocated, `released` tells that it holds no GIL.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        kernel: Callable[..., int],
        *,
        flag: bool,
        failing: tuple[str, type],
    ) -> None:
        super().__init__()
        self._stack = self.copies = 0
        self._flag, self._flags, self._failing = flag, True, failing
        self.owned, self.rooms = Counter[int](), dict[int, int]()
        self.released, self.raised = False, None
        self._descriptor = descriptor
        addresses = _addresses().copy()
        addresses[int(descriptor[HEADER.index("kernel")])] = "the kernel"
        models = self._models() | {"the kernel": partial(self._run_kernel, kernel)}
        self._functions = {place: (name, models[name]) for place, name in addresses.items()}
        for python_object in (
            descriptor,
            None,
            True,
            np.ndarray,
            MISSES,
            str,
            int,
            bytes,
            *descriptor.held,
        ):
            self.know(python_object)

    def run(self, code: CodeType, positional: tuple[object, ...], named: dict[str, object]) -> int:
        """The address of the result of ``call``; 0 for an error, which is `raised`."""
        scope: Namespace = {"rt": self}
        exec(code, scope)
        values, names = (*positional, *named.values()), tuple(named)
        self.know((values, names))
        arguments = Words(self, self.room(len(values)), ctypes.c_int64)
        for k, value in enumerate(values):
            arguments[k] = id(value)
        at = int(arguments), len(positional), id(names) if names else 0
        return int(scope["call"](id(self._descriptor), *at))

    # --- words of the text ------------------------------------------------------------------------

    def int64(self, address: int) -> Words:
        return Words(self, address, ctypes.c_int64)

    def int32(self, address: int) -> Words:
        return Words(self, address, ctypes.c_int32)

    def offset(self, words: Words, index: int) -> Words:
        return Words(self, words.address + words.size * index, words.kind)

    def stack(self, words: int) -> int:
        self._stack += words
        if self._stack > _MOST_STACK:
            raise Unfit("it takes too much of the stack")
        return self.room(words)

    def flags(self) -> int:
        return int(self._flags)

    def clear_flags(self) -> None:
        self._flags = False

    def __getattr__(self, name: str) -> object:
        if not name.startswith("call"):
            raise AttributeError(name)
        return self._call

    def _call(self, function: int, *arguments: int | Words) -> int:
        name, model = self._functions.get(function, ("", None))
        if model is None:
            raise Unfit("it calls what is no function")
        if self.released and name not in ("the kernel", "PyEval_RestoreThread"):
            raise Unfit("it calls Python without the lock")
        if name == self._failing[0]:
            self.raised = None if name == "PyMem_RawMalloc" else self._failing[1]()
            self._failing = "", MemoryError
            if name == "NewFromDescr":  # which takes a reference all the same
                self._drop(int(arguments[1]))
            return -("SetItem" in name)
        return int(model(*map(int, arguments)) or 0)

    # --- functions of C ---------------------------------------------------------------------------

    def _models(self) -> dict[str, Callable[..., int | None]]:
        read, tried = self.object_at, self._tried
        sequences: dict[str, Callable[..., int | None]] = {
            f"Py{kind.__name__.title()}_{name}": partial(model, kind)
            for kind in (tuple, list)
            for name, model in (
                ("New", self._begun), ("SetItem", self._put), ("Size", self._size),
                ("GetItem", self._item),
            )
        }  # fmt: skip
        others: dict[str, Callable[..., int | None]] = {
            "Py_IncRef": self._own, "Py_DecRef": self._drop,
            "PyObject_CallOneArg": lambda f, x: tried(lambda: read(f)(read(x))),
            "PyErr_Clear": lambda: setattr(self, "raised", None),
            "PyErr_Occurred": lambda: self.raised is not None,
            "PyErr_ExceptionMatches": lambda kinds: isinstance(self.raised, read(kinds)),
            "PyErr_NoMemory": lambda: setattr(self, "raised", MemoryError()),
            "PyDict_New": lambda: self._begun(dict, 0), "PyDict_Size": partial(self._size, dict),
            "PyDict_SetItem": self._set,
            "PyDict_Next": self._next,
            "PyObject_GetAttr": lambda x, name: tried(lambda: getattr(read(x), read(name))),
            "PyObject_RichCompareBool": lambda x, y, how: how == _EQUAL and read(x) == read(y),
            "PyEval_SaveThread": self._release, "PyEval_RestoreThread": self._take,
            "PyMem_RawMalloc": self._allocate, "PyMem_RawFree": self._free,
            "PyLong_FromLong": lambda value: tried(lambda: value),
            "PyObject_Vectorcall": self._vectorcall,
            "NewCopy": self._copy,
            "NewFromDescr": self._new_array, "Scalar": self._scalar,
            "EquivTypes": lambda a, b: read(a) == read(b),
            "PyDict_GetItemWithError": self._entry, "_PyObject_GetDictPtr": self._attributes,
        }  # fmt: skip
        return sequences | others

    def _own(self, address: int) -> None:
        if address not in self.objects:
            raise Unfit("it counts references of what is no object")
        self.owned[address] += 1

    def _drop(self, address: int) -> None:
        if self.owned[address] < 1:
            raise Unfit("it drops a reference that it does not own")
        self.owned[address] -= 1

    def _new(self, python_object: object) -> int:
        self.know(python_object)
        self._own(id(python_object))
        return id(python_object)

    def _tried(self, call: Callable[[], object]) -> int:
        """The address of a new reference to the result of a call; 0 if the call raises."""
        try:
            return self._new(call())
        except Unfit:
            raise
        except not_foreign(Exception) as error:  # kept, as the interpreter keeps it
            self.raised = error
            return 0

    def _begun(self, kind: type, size: int) -> int:
        parts: object = {} if kind is dict else [0] * size
        self.kinds[id(parts)] = kind
        return self._new(parts)

    def _parts(self, address: int, kind: type) -> Any:
        if self.kinds.get(address) is not kind:
            raise Unfit(f"it fills what is no new {kind.__name__}")
        return self.objects[address]

    def _put(self, kind: type, group: int, place: int, item: int) -> None:
        if not 0 <= place < len(self._parts(group, kind)):
            raise Unfit(f"it puts something beside a new {kind.__name__}")
        self._parts(group, kind)[place] = item
        self._drop(item)

    def _set(self, table: int, key: int, value: int) -> None:
        self._parts(table, dict)[key] = value

    def _of(self, kind: type, address: int) -> Any:
        python_object = self.object_at(address)
        if not isinstance(python_object, kind):
            raise Unfit(f"it takes a {type(python_object).__name__} for a {kind.__name__}")
        return python_object

    def _size(self, kind: type, address: int) -> int:
        return len(self._of(kind, address))

    def _item(self, kind: type, address: int, place: int) -> int:
        items = self._of(kind, address)
        if not 0 <= place < len(items):
            raise Unfit(f"it asks for an item that a {kind.__name__} has not")
        return id(items[place])

    def _next(self, table: int, *places: int) -> bool:
        state, *numbers = [self.int64(place) for place in places]
        entries = [*self._of(dict, table).items()]
        if not 0 <= state[0] < len(entries):
            return False
        for words, item in zip(numbers, entries[state[0]], strict=True):
            words[0] = id(item)
        state[0] += 1
        return True

    def _entry(self, table: int, key: int) -> int:
        value = self._of(dict, table).get(self.object_at(key), self)
        return 0 if value is self else id(value)

    def _attributes(self, address: int, _: int) -> int:
        attributes = getattr(self.object_at(address), "__dict__", None)
        if attributes is None:
            return 0
        self.know(attributes)
        slot = self.int64(self.room(1))
        slot[0] = id(attributes) if attributes else 0  # made when it is first asked for
        return int(slot)

    def _release(self) -> int:
        self.released = True
        return id(self)

    def _take(self, state: int) -> None:
        if state != id(self) or not self.released:
            raise Unfit("it takes the lock with another thread's state")
        self.released = False

    def _allocate(self, size: int) -> int:
        place = self.room(size // WORD)
        self.rooms[place] = size
        return place

    def _free(self, place: int) -> None:
        if self.rooms.pop(place, None) is None:
            raise Unfit("it frees what it has not allocated")
        self.forget(place)

    def _vectorcall(self, function: int, arguments: int, count: int, names: int) -> int:
        words, keys = self.int64(arguments), self._of(tuple, names) if names else ()
        values = [self.object_at(words[k]) for k in range(count + len(keys))]
        named = dict(zip(keys, values[count:], strict=True))
        return self._tried(lambda: self.object_at(function)(*values[:count], **named))

    def _copy(self, array: int, order: int) -> int:
        if order != 0:
            raise Unfit("it copies in another order than C's")
        self.copies += 1
        return self._new(np.array(self._of(np.ndarray, array), order="C"))

    def _new_array(self, kind: int, dtype: int, rank: int, dims: int, *rest: int) -> int:
        if any(rest) or self.object_at(kind) is not np.ndarray:
            raise Unfit("it asks for an unusual array")
        self._drop(dtype)
        shape = [self.int64(dims)[axis] for axis in range(rank)]
        return self._new(np.empty(shape, self.object_at(dtype)))

    def _scalar(self, place: int, dtype: int, base: int) -> int:
        kind = self._of(np.dtype, dtype)
        self.check(place, kind.itemsize + bool(base) * _MOST_STACK)
        return self._new(np.frombuffer(ctypes.string_at(place, kind.itemsize), kind)[0])

    def _run_kernel(self, kernel: Callable[..., int], *tables: int) -> int:
        self._flags = self._flag
        return kernel(*tables)
