"""The layout of call descriptors in memory: 64-bit words, which the entry stub reads by position.

A descriptor begins with the words of `HEADER`. Some of these words are addresses of arrays of
records, and each record has the fields listed here; `encode` writes them all. Addresses of
functions of the C APIs of Python and NumPy are words, too, so that compiled code contains none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate

import fdiff.intact_numpy as np

from .call_descriptor import (
    BoundKernel,
    CallSignature,
    KernelInput,
    KernelOutput,
    Lookup,
    Preconditions,
    ResultStep,
    Unpack,
)
from .dict_entries import entry_of
from .interpreter_abi import NUMPY_API, WORD, numpy_api, python_api

PYTHON_API = (
    "Py_IncRef", "Py_DecRef", "PyObject_CallOneArg", "PyErr_Clear", "PyErr_Occurred",
    "PyErr_ExceptionMatches", "PyErr_NoMemory",
    "PyTuple_New", "PyTuple_SetItem", "PyTuple_Size", "PyTuple_GetItem", "PyList_New",
    "PyList_SetItem", "PyList_Size", "PyList_GetItem", "PyDict_New", "PyDict_SetItem",
    "PyDict_Next", "PyDict_Size", "PyObject_GetAttr", "PyObject_RichCompareBool",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree",
    "PyLong_FromLong", "PyObject_Vectorcall",
)  # fmt: skip

# The parts of the stub's memory on the stack, each given by the bytes before it. Before all of
# them are the addresses that the kernel is given, `data` of them.
FRAME = ("slots", "strides", "copies", "looked_up", "made", "stack", "registers")

HEADER = (
    "none", "true", "array", "str", "int", "bytes", "misses", *PYTHON_API, *NUMPY_API,
    "kernel", "ints", "floats", "arguments", "keywords", "keyword_count", "given", "unpacks",
    "unpack_count", *FRAME, "frame", "data", "spare", "size", "keep", "release", "inputs",
    "input_count",
    "constants", "constant_count", "lookups", "lookup_count", "predicates", "predicate_count",
    "outputs",
    "output_count", "first", "result", "result_count", "occupied", "fallback", "written", "guard",
    "on_flags",
)  # fmt: skip
INPUT = (
    "at", "register", "object", "descr", "rank", "dims", "mask", "copyable", "strides", "width",
    "kind", "other", "near", "written", "bytes",
)  # fmt: skip
OUTPUT = ("descr", "rank", "dims", "scalar", "made")
LOOKUP = ("function", "object", "argument", "value", "how", "into", "kind")
UNPACK = ("how", "register", "kind", "size", "what", "length", "item")
STEP = ("how", "what", "size", "names", "make", "put")

# Bits of a look-up's `how` besides OWNED and ATTRIBUTES: the object is in a register of look-ups;
# the value is kept in one. ENTRY alone: no function is called, an entry of a dict is read.
FROM_REGISTER, INTO_REGISTER, ENTRY = 4, 8, 16
LOOKUP_REGISTERS = 3
UNPACK_HOW = ("SEQUENCE", "DICT", "FIELDS", "EQUAL")
# An output that is used once is ``MOVED``, which saves counting references; ``SCALAR`` makes a
# NumPy scalar of an output without an axis.
STEP_HOW = ("MOVED", "SCALAR", "GROUP", "OUTPUT", "CONSTANT", "ARGUMENT", "MAPPING", "CALL")

PLAIN, WRITEABLE, ALIGNED = 0x101, 0x400, 0x100  # flags of ndarray: C-contiguous and aligned, ...
_NEAR = 512  # entries of a strided array that the stub copies to the stack by itself
# Words that the stub takes from the stack at most, for its parts and for all such copies: threads
# may have little of it. What needs more is on the heap.
FRAME_WORDS, COPY_WORDS = 1024, 4096
# What functions of the C API raise where something is not as it was; any other error is the user's.
MISSES = (AttributeError, LookupError, SystemError)
_NO_DICT: dict[object, None] = {}

Words = Callable[[Sequence[int]], int]


class Descriptor(np.ndarray):
    """The words of a descriptor; it holds every object whose address is among them."""

    held: list[object]


def encode(
    kernel: BoundKernel,
    signature: CallSignature,
    inputs: Sequence[KernelInput],
    outputs: Sequence[KernelOutput],
    result: Sequence[ResultStep],
    checks: Preconditions,
    guard: int | None,
) -> Descriptor:
    """The descriptor of a call, with the arguments of `stub_binding.bind_entry_stub`."""
    held: list[object] = [kernel, checks, signature, tuple(inputs), tuple(outputs), tuple(result)]

    def words(values: Sequence[int]) -> int:
        """The address of these words."""
        array = np.array(values or [0], np.int64)
        held.append(array)
        return int(array.ctypes.data)

    header = dict.fromkeys(HEADER, 0) | _fixed() | _signature(signature, words)
    header |= _kernel(kernel, words) | _checks(checks, words)
    header |= _addresses_and_stack(kernel, signature, inputs, outputs, result)
    header |= _inputs(inputs, header["first"], words) | _outputs(outputs, words)
    header |= _result(result, outputs, words)
    header["guard"] = 0 if guard is None else guard + 1
    descriptor = np.array([int(v) for v in header.values()], np.int64).view(Descriptor)
    descriptor.held = held
    return descriptor


@lru_cache(maxsize=1)
def _fixed() -> dict[str, int]:
    """The words that are the same in every descriptor."""
    out = {"none": id(None), "true": id(True), "array": id(np.ndarray), "str": id(str)}
    out |= {"int": id(int), "bytes": id(bytes), "misses": id(MISSES)}
    out |= {name: python_api(name) for name in PYTHON_API}
    return out | {name: numpy_api(k) for name, k in NUMPY_API.items()}


def _addresses_and_stack(
    kernel: BoundKernel,
    signature: CallSignature,
    inputs: Sequence[KernelInput],
    outputs: Sequence[KernelOutput],
    result: Sequence[ResultStep],
) -> dict[str, int]:
    """The kernel's addresses: inputs read, constants, results, workspace; and the stack's parts.

    Parts of the stack are given by where they begin, in bytes, the `frame` by its words.
    """
    first_result = sum(entry.written is None for entry in inputs) + len(kernel.constants)
    written_places = [1 + entry.written for entry in inputs if entry.written is not None]
    addresses = first_result + max([len(outputs), *written_places]) + 1
    sizes = {
        "data": addresses, "slots": 2 * len(outputs),
        "strides": sum(len(entry.shape) for entry in inputs if entry.strided),
        "copies": len(inputs),
        "looked_up": LOOKUP_REGISTERS, "made": len(outputs), "stack": len(result),
        "registers": _registers(signature) if signature.unpacks else 0,
    }  # fmt: skip
    begins = dict(zip(sizes, accumulate(sizes.values(), initial=0), strict=False))
    stack = {name: WORD * begins[name] for name in FRAME} | {"frame": sum(sizes.values())}
    return {"data": addresses, "first": first_result} | stack


def _inputs(inputs: Sequence[KernelInput], first_result: int, words: Words) -> dict[str, int]:
    records: list[int] = []
    strides = 0  # words on the stack for the strides of earlier inputs
    for k, entry in enumerate(inputs):
        address = k if entry.written is None else first_result + entry.written
        records += _input(entry, address, strides, words(entry.shape))
        strides += len(entry.shape) if entry.strided else 0
    written = sum(entry.written is not None for entry in inputs)
    return {"inputs": words(records), "input_count": len(inputs), "written": written}


def _outputs(outputs: Sequence[KernelOutput], words: Words) -> dict[str, int]:
    records = [
        word for entry in outputs for word in (
            id(entry.dtype), len(entry.shape), words(entry.shape),
            int(entry.scalar), int(entry.made),
        )
    ]  # fmt: skip
    return {"outputs": words(records), "output_count": len(outputs)}


def _result(
    result: Sequence[ResultStep], outputs: Sequence[KernelOutput], words: Words
) -> dict[str, int]:
    uses = Counter(step.what for step in result if step.how == "OUTPUT")
    steps = [word for step in result for word in _step(step, outputs, uses, words)]
    return {"result": words(steps), "result_count": len(result)}


def _registers(signature: CallSignature) -> int:
    count = signature.arguments + len(signature.keywords)
    return count + sum(unpack.size for unpack in signature.unpacks) + 1


def _signature(signature: CallSignature, words: Words) -> dict[str, int]:
    count = signature.arguments + len(signature.keywords)
    unpacks = signature.unpacks
    return {
        "arguments": signature.arguments,
        "keywords": words([id(name) for name in signature.keywords]),
        "keyword_count": len(signature.keywords), "given": count,
        "unpacks": words([word for unpack in unpacks for word in _unpack(unpack, words)]),
        "unpack_count": len(unpacks),
    }  # fmt: skip


def _kernel(kernel: BoundKernel, words: Words) -> dict[str, int]:
    return {
        "kernel": kernel.address, "ints": kernel.ints.ctypes.data,
        "floats": kernel.floats.ctypes.data, "spare": kernel.spare.ctypes.data,
        "size": kernel.size, "keep": kernel.keep, "release": kernel.release,
        "constants": words([a.ctypes.data for a in kernel.constants]),
        "constant_count": len(kernel.constants),
    }  # fmt: skip


def _checks(checks: Preconditions, words: Words) -> dict[str, int]:
    return {
        "lookups": words([word for lookup in checks.lookups for word in _lookup(lookup)]),
        "lookup_count": len(checks.lookups),
        "occupied": id(_NO_DICT if checks.occupied is None else checks.occupied),
        "fallback": 0 if checks.fallback is None else id(checks.fallback),
        "predicates": words([id(x) for pair in checks.predicates for x in pair]),
        "predicate_count": len(checks.predicates),
        "on_flags": id(checks.on_flags),
    }  # fmt: skip


def _input(entry: KernelInput, at: int, strides: int, dims: int) -> list[int]:
    written = entry.written is not None
    mask = ALIGNED if entry.strided else PLAIN | (WRITEABLE if written else 0)
    simple = entry.dtype.itemsize == 8 and len(entry.shape) in (1, 2) and not entry.strided
    near = entry.copyable and simple and math.prod(entry.shape) <= _NEAR
    kinds: tuple[type, ...] = ()
    if not (entry.shape or written):
        kinds = NUMBERS.get(entry.dtype, ()) if entry.exact is None else (entry.exact,)
    kind, other = [*map(id, kinds), 0, 0][:2]
    rank = len(entry.shape) if entry.exact in (None, np.ndarray) else -1  # which no array has
    return [
        at, entry.register, id(entry.array) if entry.array is not None else 0, id(entry.dtype),
        rank, dims, mask, int(entry.copyable),
        strides if entry.strided else -1, entry.dtype.itemsize,
        kind, other, int(near), int(written), math.prod(entry.shape) * entry.dtype.itemsize,
    ]  # fmt: skip


# The classes of numbers of a dtype; the value stands right after the head of such an object.
NUMBERS: dict[np.dtype, tuple[type, ...]] = {
    np.dtype("f8"): (float, np.float64), np.dtype("f4"): (np.float32,),
    np.dtype("c16"): (complex, np.complex128), np.dtype("c8"): (np.complex64,),
}  # fmt: skip


def _unpack(step: Unpack, words: Words) -> list[int]:
    length, item = _ACCESS.get(step.how) or _ACCESS[issubclass(step.kind, tuple)]
    what = id(step.names[0]) if step.how == "EQUAL" else words([id(name) for name in step.names])
    return [
        UNPACK_HOW.index(step.how), step.register, id(step.kind), step.size, what,
        python_api(length) if length else 0, python_api(item) if item else 0,
    ]  # fmt: skip


# Which functions give the length of an argument and its items; by whether it is a tuple.
_ACCESS: dict[object, tuple[str, str]] = {
    True: ("PyTuple_Size", "PyTuple_GetItem"), False: ("PyList_Size", "PyList_GetItem"),
    "DICT": ("PyDict_Size", ""), "FIELDS": ("", ""), "EQUAL": ("", ""),
}  # fmt: skip


def _step(
    step: ResultStep, outputs: Sequence[KernelOutput], uses: Counter[int], words: Words
) -> list[int]:
    """A step of the result; `uses` counts the steps that push each output."""
    how, what, make, put, names = step.how, step.what, 0, 0, 0
    word = what if how in ("OUTPUT", "ARGUMENT") else id(what)
    if how == "OUTPUT" and outputs[what].scalar:
        how, make = "SCALAR", id(outputs[what].dtype)
    elif how == "OUTPUT" and uses[what] == 1:
        how = "MOVED"
    elif how == "GROUP":
        kind = "PyTuple" if what is tuple else "PyList"
        make, put = python_api(f"{kind}_New"), python_api(f"{kind}_SetItem")
    elif how == "MAPPING":
        names = words([id(name) for name in step.names])
    elif how == "CALL" and step.names:
        names = id(step.names)
    return [STEP_HOW.index(how), word, step.size, names, make, put]


def _lookup(lookup: Lookup) -> list[int]:
    key, value, mapping = lookup.argument, lookup.value, lookup.holder
    if lookup.function == "PyDict_GetItemWithError" and type(mapping) is dict:
        entry = entry_of(mapping, key, value)
        if entry is not None:
            return [entry.keys, id(mapping), entry.address, value, ENTRY, key, entry.kind]
    in_register = type(lookup.holder) is int
    how = lookup.how | FROM_REGISTER * in_register | INTO_REGISTER * (lookup.into > 0)
    holder = lookup.holder if type(lookup.holder) is int else id(lookup.holder)
    function = python_api(lookup.function)
    return [function, holder, lookup.argument, lookup.value, how, lookup.into, 0]
