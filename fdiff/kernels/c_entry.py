"""C functions of prepared functions: machine code that needs neither Python nor Numba.

A C function has two parts. The *stub* is made for its signature: it puts the addresses of all
arguments and results into a table. `_TEXT` is the same for all: it looks for a record that holds
for these arguments, as code of Numba does (`numba.calls`), calls its kernel, and asks Python
where there is none. All that it knows of a function is in its *call data*, an array of words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import fdiff.intact_numpy as np

from .c_signature import CParameter, CSignature, CStatus
from .kernel_sequences import address_of, c_library
from .llvm.machine import Loaded
from .machine_code import function, load_unshared
from .numba.calls.records import LINE, NONE, OFFSETS, STACK, RecordTable
from .runtime.macros import NUMPY_NAMES, expand, numbered
from .runtime.status import OUT_OF_RANGE

# Words of the call data: cells of the records and their hash; where in a record the words of
# arguments and results begin, and how many there are, and likewise of constant results; how many
# there are in all; tables of the bytes of these, and of what results are where a call fails; the
# status of the first call that failed; functions.
_FIELDS = (
    "CELL", "HASH", "READ", "READ_COUNT", "PLACE", "SOURCE", "RESULT_COUNT", "VALUE",
    "VALUE_COUNT", "COUNT", "BYTES", "FAILURE", "STATUS", "PYTHON", "ALLOCATE", "FREE", "COMPARE",
    "COPY",
)  # fmt: skip
PLACES = {name: k for k, name in enumerate(_FIELDS)}
_MACROS: dict[str, int] = {
    **numbered(_FIELDS),
    **{f"R_{name}": k for name, k in OFFSETS.items()},
    **{status.name: int(status) for status in CStatus},
    "OUT_OF_RANGE": OUT_OF_RANGE,
    "NONE": NONE,
    "LINE": LINE,
    "STACK": STACK,
}

# `given` are the addresses of the arguments that the kernel reads, then the addresses of the
# results, of which the last are constants.
_OVERLAPS = """\
def overlap(a: "i8", a_bytes: "i8", b: "i8", b_bytes: "i8") -> "i8":
    return 1 if a < b + b_bytes and b < a + a_bytes else 0

# Whether a result overlaps an argument or another result.
def given_overlap(c: "i8*", given: "i8*") -> "i8":
    bytes = rt.int64(c[BYTES])
    for k in range(c[READ_COUNT], c[COUNT]):
        for other in range(k):
            if overlap(given[k], bytes[k], given[other], bytes[other]) != 0:
                return 1
    return 0

# Whether a result overlaps an array that the function reads from outside.
def fixed_overlap(c: "i8*", r: "i8*", given: "i8*") -> "i8":
    bytes = rt.int64(c[BYTES])
    fixed = rt.int64(r[R_FIXED])
    for k in range(c[READ_COUNT], c[COUNT]):
        for j in range(r[R_FIXED_COUNT]):
            if overlap(given[k], bytes[k], fixed[3 * j + 1], fixed[3 * j + 2]) != 0:
                return 1
    return 0

"""

_TABLE_OF_ADDRESSES = """\
# The table of addresses that a kernel is given.
def fill(c: "i8*", r: "i8*", given: "i8*", data: "i8*", guard: "i8") -> "i8":
    reads = c[READ_COUNT]
    for k in range(reads):
        data[r[c[READ] + k]] = given[k]
    for k in range(c[RESULT_COUNT]):
        data[r[c[PLACE] + k]] = given[reads + k]
    fixed = rt.int64(r[R_FIXED])
    for k in range(r[R_FIXED_COUNT]):
        data[fixed[3 * k]] = fixed[3 * k + 1]
    data[r[R_WORK_AT]] = rt.address(data) + r[R_WORK]
    if r[R_GUARD] != NONE:
        data[r[R_GUARD]] = guard
    return 0

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
# The status of the kernel of a record; MISS if that does not hold, unless it is known to (`sure`).
def kernel_status(c: "i8*", r: "i8*", given: "i8*", data: "i8*", sure: "i8") -> "i8":
    guard = rt.stack(1)
    rt.int64(guard)[0] = 1
    fill(c, r, given, data, guard)
    if sure == 0 and pins_hold(c, r, data) == 0:
        return MISS
    status = rt.call4(r[R_KERNEL], data, r[R_STRIDES], r[R_INTS], r[R_FLOATS])
    if status == OUT_OF_RANGE and r[R_BY_LIBM] != 0:
        status = rt.call4(r[R_BY_LIBM], data, r[R_STRIDES], r[R_INTS], r[R_FLOATS])
    if status != 0:
        return status
    if sure == 0 and rt.int64(guard)[0] & 255 == 0:
        return MISS
    bytes = rt.int64(c[BYTES])
    reads = c[READ_COUNT]
    for k in range(c[RESULT_COUNT]):
        source = r[c[SOURCE] + k]
        if source != NONE:
            rt.call3(c[COPY], given[reads + k], data[source], bytes[reads + k])
    constants = reads + c[RESULT_COUNT]
    for k in range(c[VALUE_COUNT]):
        value = rt.address(r) + 8 * (c[VALUE] + k)
        rt.call3(c[COPY], given[constants + k], value, bytes[constants + k])
    return 0

"""

_ATTEMPT = """\
# The same with memory for the kernel: on the stack where it is little.
def attempt(c: "i8*", r: "i8*", given: "i8*", sure: "i8") -> "i8":
    if fixed_overlap(c, r, given) != 0:
        return OVERLAP
    if r[R_TOTAL] <= STACK:
        here = rt.stack((STACK + LINE) // 8)
        return kernel_status(c, r, given, rt.int64((here + LINE - 1) & -LINE), sure)
    workspace = rt.call1(c[ALLOCATE], r[R_TOTAL] + LINE)
    if workspace == 0:
        return NO_MEMORY
    status = kernel_status(c, r, given, rt.int64((workspace + LINE - 1) & -LINE), sure)
    rt.call1(c[FREE], workspace)
    return status

"""

_SEARCH = """\
# Try one record after the other; where none holds, or one fails, Python says what to try.
def search(c: "i8*", given: "i8*") -> "i8":
    if given_overlap(c, given) != 0:
        return OVERLAP
    chains = rt.int64(rt.int64(c[CELL])[0])
    record = chains[1 + (c[HASH] & chains[0])]
    found = MISS
    while record != 0:
        status = attempt(c, rt.int64(record), given, 0)
        while status != 0 and status != MISS and status != OVERLAP and c[PYTHON] != 0:
            answer = rt.call4(c[PYTHON], rt.address(given), record, status, 0)
            if answer == FAILED:
                return FAILED
            status = MISS
            if answer != 0:
                status = attempt(c, rt.int64(record), given, 0)
        if status == 0 or status == OVERLAP:
            return status
        if found == MISS:
            found = status
        record = rt.int64(record)[R_NEXT]
    if c[PYTHON] == 0:
        return found
    record = rt.call4(c[PYTHON], rt.address(given), 0, MISS, 0)
    if record == FAILED:
        return FAILED
    status = attempt(c, rt.int64(record), given, 1)
    while status != 0 and status != OVERLAP:
        if rt.call4(c[PYTHON], rt.address(given), record, status, 1) == FAILED:
            return FAILED
        status = attempt(c, rt.int64(record), given, 1)
    return status

"""

_CALL_AND_NOTE = """\
# 0, or the status of a call that failed: it is noted, and all results become NaN.
def c_call(call_data: "i8", table: "i8") -> "i8":
    c = rt.int64(call_data)
    given = rt.int64(table)
    status = search(c, given)
    if status == OVERLAP and c[PYTHON] != 0:
        status = rt.call4(c[PYTHON], table, 0, OVERLAP, 0)
    if status != 0:
        rt.compare_exchange(c, STATUS, 0, status)
        bytes = rt.int64(c[BYTES])
        failure = rt.int64(c[FAILURE])
        reads = c[READ_COUNT]
        for k in range(reads, c[COUNT]):
            rt.call3(c[COPY], given[k], failure[k - reads], bytes[k])
    return status
"""

_TEXT = (
    "\n" + _OVERLAPS + _TABLE_OF_ADDRESSES + _KERNEL_STATUS + _ATTEMPT + _SEARCH + _CALL_AND_NOTE
)


def stub_text(signature: CSignature, call: int, call_data: int) -> str:
    """The text of a stub: it makes the table of addresses, and goes to `call`."""
    arguments, results = signature.given, signature.made
    parameters = [*arguments, *[parameter for parameter in results if parameter.pointer]]
    declared = [f'{parameter.name}: "{parameter.type}"' for parameter in parameters]
    numbers = sum(not parameter.pointer for parameter in arguments)
    if signature.packed:
        declared = ['n: "i4"', 'xx: "f8*"', *declared[numbers or 1 :]]
    out = signature.returned
    lines = [f'def {signature.name}({", ".join(declared)}) -> "{out.type if out else "i8"}":']
    if signature.packed:
        lines += [f"    if n != {signature.variables}:", f"        c = rt.int64({call_data})"]
        place, status = PLACES["STATUS"], int(CStatus.WRONG_COUNT)
        lines += [f"        rt.compare_exchange(c, {place}, 0, {status})", "        return np.nan"]
    count = len(arguments) + len(results)
    lines += [f"    words = rt.stack({2 * count})", "    table = rt.int64(words)"]
    for k, parameter in enumerate(signature.table):
        slot = f"words + {8 * (count + k)}"
        if signature.packed and k < (numbers or 1):
            lines.append(f"    table[{k}] = rt.address(xx) + {8 * k}")
        elif parameter.pointer:
            lines.append(f"    table[{k}] = rt.address({parameter.name})")
        else:
            lines.append(f"    table[{k}] = {slot}")
            if k < len(arguments):
                lines.append(f"    rt.{NUMPY_NAMES[parameter.type]}({slot})[0] = {parameter.name}")
    lines.append(f"    status = rt.call2({call}, {call_data}, words)")
    if out is None:
        lines.append("    return status")
    else:
        slot = f"words + {8 * (count + signature.table.index(out))}"
        lines.append(f"    return rt.{NUMPY_NAMES[out.type]}({slot})[0]")
    return "\n".join(lines) + "\n"


Ask = Callable[[int, int, int, int], int]


class CEntry:
    """The call data of the C functions of one signature, and owners of the memory it refers to.

    `python` is asked where no record holds or one fails; without it the status is noted. It is
    given the address of the table of addresses, a record, its status, and whether the record is
    known to hold. It returns a record to be tried, 0 for the next one, or `CStatus.FAILED`.
    """

    def __init__(
        self, records: RecordTable, chain: int, signature: CSignature, python: Ask | None
    ) -> None:
        words = records.words
        parameters = signature.table
        failed = [_failure(parameter) for parameter in parameters[len(signature.given) :]]
        self._python = None if python is None else _ASK(python)
        bytes_ = np.array([parameter.size for parameter in parameters] or [0], np.int64)
        failure = np.array([a.ctypes.data for a in failed] or [0], np.int64)
        table = {
            "CELL": records.cell.ctypes.data, "HASH": chain,
            "READ": min(words.read.values(), default=0), "READ_COUNT": len(words.read),
            "PLACE": min(words.place.values(), default=0),
            "SOURCE": min(words.source.values(), default=0), "RESULT_COUNT": len(words.place),
            "VALUE": min(words.value.values(), default=0), "VALUE_COUNT": len(words.value),
            "COUNT": len(parameters),
            "BYTES": bytes_.ctypes.data, "FAILURE": failure.ctypes.data, "STATUS": 0,
            "PYTHON": address_of(self._python), **_system(),
        }  # fmt: skip
        self.words = np.array([table[name] for name in _FIELDS], np.int64)
        self._held = records, failed, bytes_, failure
        self._call = function(_CALL, "glue")

    def load(self, signature: CSignature) -> Loaded:
        """The C function of a signature."""
        text = stub_text(signature, self._call, int(self.words.ctypes.data))
        return load_unshared(text)

    def call(self, addresses: Sequence[int]) -> int:
        """The status of a call with these addresses of arguments and results."""
        table = np.array(addresses, np.int64)
        run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 2)(self._call)
        return int(run(self.words.ctypes.data, table.ctypes.data))

    def take_status(self) -> int:
        """The status of the first call that failed since the last time, or 0."""
        status = int(self.words[PLACES["STATUS"]])
        if status:  # machine code notes one where there is none, as soon as this is 0
            self.words[PLACES["STATUS"]] = 0
        return status


_ASK = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)
_CALL = expand(_TEXT, _MACROS)


def _failure(parameter: CParameter) -> np.ndarray:
    """What a result is where a call fails: NaN, or the smallest integer."""
    number = np.nan if parameter.dtype.kind == "f" else np.iinfo(parameter.dtype).min
    return np.full(parameter.shape, number, parameter.dtype)


def _system() -> dict[str, int]:
    """Addresses of functions that take and free memory without the GIL, compare and copy it."""
    python, library = ctypes.pythonapi, c_library()
    return {
        "ALLOCATE": address_of(python.PyMem_RawMalloc), "FREE": address_of(python.PyMem_RawFree),
        "COMPARE": address_of(library.memcmp), "COPY": address_of(library.memmove),
    }  # fmt: skip
