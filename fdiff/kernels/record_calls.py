"""Calls of a record's kernel: machine code that code of Numba and C functions share.

The caller has found a record for its arguments, and gives the addresses of all arguments and
results. The call fills the table of addresses that the kernel is given, compares pinned inputs,
runs the kernel (by libm where an argument is out of range) and looks at its guard. The text is the
same for all functions: an array of words, the *call data*, says where a record has what.
"""

from __future__ import annotations

import ctypes

import fdiff.intact_numpy as np

from .c_signature import CStatus
from .kernel_sequences import address_of, c_library
from .machine_code import function
from .numba.calls.records import (
    COPIED,
    LINE,
    NEW,
    NONE,
    OFFSETS,
    REFUSED,
    STACK,
    RecordCaller,
    RecordTable,
)
from .runtime.macros import expand, numbered

# Words of the call data: where in a record the words of arguments, results, constant results and of
# the bytes of all these begin, and how many there are; functions.
_FIELDS = (
    "PLACE", "PLACED", "READ_COUNT", "VALUE", "VALUE_COUNT", "BYTES", "COUNT", "ALLOCATE", "FREE",
    "COMPARE", "COPY",
)  # fmt: skip
PLACES = {name: k for k, name in enumerate(_FIELDS)}
MACROS: dict[str, int] = {
    **PLACES,
    **numbered(OFFSETS, "R_"),
    **{status.name: int(status) for status in CStatus},
    "NONE": NONE,
    "LINE": LINE,
    "STACK": STACK,
    "NEW": NEW,
    "COPIED": COPIED,
    "REFUSED": REFUSED,
}

# `given` are the addresses of the arguments that the kernel reads, then the addresses of the
# results, of which the last are constants.
_OVERLAP = """\
# Whether a result lies over an argument, another result, or an array that is read from outside.
def overlap(c: "i8*", r: "i8*", given: "i8*") -> "i8":
    fixed = rt.int64(r[R_FIXED])
    bytes = rt.int64(rt.address(r) + 8 * c[BYTES])
    for k in range(c[READ_COUNT], c[COUNT]):
        begin = given[k]
        end = begin + bytes[k]
        for other in range(k):
            if begin < given[other] + bytes[other] and given[other] < end:
                return 1
        for j in range(r[R_FIXED_COUNT]):
            if begin < fixed[3 * j + 1] + fixed[3 * j + 2] and fixed[3 * j + 1] < end:
                return 1
    return 0

"""

_PINS_HOLD = """\
# Whether the inputs that a record relies on have the bytes that they had.
def pins_hold(c: "i8*", r: "i8*", data: "i8*") -> "i8":
    pins = rt.int64(r[R_PINS])
    for k in range(r[R_PIN_COUNT]):
        order = rt.call3(c[COMPARE], data[pins[3 * k]], pins[3 * k + 1], pins[3 * k + 2])
        if order & 0xFFFFFFFF != 0:
            return 0
    return 1

"""

_KERNEL_STATUS = """\
# Copies of results that are one output of the kernel, and results that are constant.
def copies(c: "i8*", r: "i8*", given: "i8*", data: "i8*") -> "i8":
    bytes = rt.int64(rt.address(r) + 8 * c[BYTES])
    twins = rt.int64(r[R_TWINS])
    for j in range(r[R_TWIN_COUNT]):
        k = twins[2 * j]
        rt.call3(c[COPY], given[k], data[twins[2 * j + 1]], bytes[k])
    for j in range(c[VALUE_COUNT]):
        k = c[PLACED] + j
        rt.call3(c[COPY], given[k], rt.address(r) + 8 * (c[VALUE] + j), bytes[k])
    return 0

# The status of the kernel of a record; MISS if that does not hold, unless it is known to (`sure`).
def kernel_status(c: "i8*", r: "i8*", given: "i8*", data: "i8*", sure: "i8") -> "i8 inline":
    guard = rt.stack(1)
    rt.int64(guard)[0] = 1
    places = rt.int64(rt.address(r) + 8 * c[PLACE])
    for k in range(c[PLACED]):
        data[places[k]] = given[k]
    fixed = rt.int64(r[R_FIXED])
    for k in range(r[R_FIXED_COUNT]):
        data[fixed[3 * k]] = fixed[3 * k + 1]
    data[r[R_WORK_AT]] = rt.address(data) + r[R_WORK]
    if r[R_GUARD] != NONE:
        data[r[R_GUARD]] = guard
    if r[R_PIN_COUNT] != 0 and sure == 0 and pins_hold(c, r, data) == 0:
        return MISS
    status = rt.call4(r[R_KERNEL], data, r[R_STRIDES], r[R_INTS], r[R_FLOATS])
    if status != 0 and r[R_BY_LIBM] != 0:
        status = rt.call4(r[R_BY_LIBM], data, r[R_STRIDES], r[R_INTS], r[R_FLOATS])
    if status != 0:
        return status
    if sure == 0 and rt.int64(guard)[0] & 255 == 0:
        return MISS
    if r[R_TWIN_COUNT] + c[VALUE_COUNT] != 0:
        copies(c, r, given, data)
    return 0

"""

_ATTEMPT = """\
# The same with memory for the kernel: on the stack where it is little.
def attempt(c: "i8*", r: "i8*", given: "i8*", sure: "i8") -> "i8 inline":
    here = rt.stack((STACK + LINE) // 8)
    workspace = 0
    if r[R_TOTAL] > STACK:
        workspace = rt.call1(c[ALLOCATE], r[R_TOTAL] + LINE)
        if workspace == 0:
            return NO_MEMORY
        here = workspace
    status = kernel_status(c, r, given, rt.int64((here + LINE - 1) & -LINE), sure)
    if workspace != 0:
        rt.call1(c[FREE], workspace)
    return status

# The same with memory of their own for the results, which are copied after the kernel.
def attempt_apart(c: "i8*", r: "i8*", given: "i8*", sure: "i8") -> "i8":
    bytes = rt.int64(rt.address(r) + 8 * c[BYTES])
    size = 0
    for k in range(c[READ_COUNT], c[COUNT]):
        size = size + ((bytes[k] + LINE - 1) & -LINE)
    memory = rt.call1(c[ALLOCATE], size + LINE)
    if memory == 0:
        return NO_MEMORY
    own = rt.int64(rt.stack(c[COUNT]))
    place = (memory + LINE - 1) & -LINE
    for k in range(c[COUNT]):
        own[k] = given[k]
        if k >= c[READ_COUNT]:
            own[k] = place
            place = place + ((bytes[k] + LINE - 1) & -LINE)
    status = attempt(c, r, own, sure)
    if status == 0:
        for k in range(c[READ_COUNT], c[COUNT]):
            rt.call3(c[COPY], given[k], own[k], bytes[k])
    rt.call1(c[FREE], memory)
    return status

"""

_CALL = """\
# The same. Results that are not in NEW memory may lie over what the kernel reads.
def call_record(c: "i8*", r: "i8*", given: "i8*", sure: "i8", memory: "i8") -> "i8":
    if memory == NEW or overlap(c, r, given) == 0:
        return attempt(c, r, given, sure)
    if memory == COPIED:
        return attempt_apart(c, r, given, sure)
    return OVERLAP

"""

TEXT = "\n" + _OVERLAP + _PINS_HOLD + _KERNEL_STATUS + _ATTEMPT + _CALL


def record_caller(records: RecordTable) -> RecordCaller:
    """The code that calls the records of a table, for code of Numba."""
    words = np.array([*call_data(records, constants=False).values()], np.int64)
    return RecordCaller(records, function(expand(TEXT, MACROS), "glue"), words)


def call_data(records: RecordTable, *, constants: bool) -> dict[str, int]:
    """The call data of a table, whose `constants` are copied to results, or are left out."""
    words, python, library = records.words, ctypes.pythonapi, c_library()
    values = words.value if constants else {}
    return {
        "PLACE": min([*words.read.values(), *words.place.values()], default=0),
        "PLACED": len(words.read) + len(words.place), "READ_COUNT": len(words.read),
        "VALUE": min(values.values(), default=0), "VALUE_COUNT": len(values),
        "BYTES": words.bytes, "COUNT": len(words.read) + len(words.place) + len(values),
        "ALLOCATE": address_of(python.PyMem_RawMalloc), "FREE": address_of(python.PyMem_RawFree),
        "COMPARE": address_of(library.memcmp), "COPY": address_of(library.memmove),
    }  # fmt: skip
