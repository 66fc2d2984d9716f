"""C functions of prepared functions: machine code that needs neither Python nor Numba.

A C function has two parts. The *stub* is made for its signature: it puts the addresses of all
arguments and results into a table. `_CALL` is the same for all: it looks for a record that holds
for these arguments, calls its kernel (`record_calls`), and asks Python where there is none. All
that it knows of a function is in its *call data*, an array of words.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import fdiff.intact_numpy as np

from . import record_calls
from .c_signature import CParameter, CSignature, CStatus
from .kernel_sequences import address_of
from .llvm.machine import Loaded
from .machine_code import function, load_unshared
from .numba.calls.records import RecordTable
from .runtime.macros import NUMPY_NAMES, expand

# Words of the call data beside those of `record_calls`: the cell of the records and their hash; the
# bytes of results, and what results are where a call fails; the status of the first call that
# failed; a function of Python.
_FIELDS = (*record_calls.PLACES, "CELL", "HASH", "SIZES", "FAILURE", "STATUS", "PYTHON")
PLACES = {name: k for k, name in enumerate(_FIELDS)}
_MACROS = {**record_calls.MACROS, **PLACES}

_SEARCH = """\
# Try one record after the other; where none holds, or one fails, Python says what to try.
def search(c: "i8*", given: "i8*") -> "i8":
    memory = COPIED if c[PYTHON] != 0 else REFUSED
    chains = rt.int64(rt.int64(c[CELL])[0])
    record = chains[1 + (c[HASH] & chains[0])]
    found = MISS
    while record != 0:
        status = call_record(c, rt.int64(record), given, 0, memory)
        while status != 0 and status != MISS and c[PYTHON] != 0:
            answer = rt.call4(c[PYTHON], rt.address(given), record, status, 0)
            if answer == FAILED:
                return FAILED
            status = MISS
            if answer != 0:
                status = call_record(c, rt.int64(record), given, 0, memory)
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
    status = call_record(c, rt.int64(record), given, 1, memory)
    while status != 0:
        if rt.call4(c[PYTHON], rt.address(given), record, status, 1) == FAILED:
            return FAILED
        status = call_record(c, rt.int64(record), given, 1, memory)
    return status

"""

_CALL_AND_NOTE = """\
# 0, or the status of a call that failed: it is noted, and all results become NaN.
def c_call(call_data: "i8", table: "i8") -> "i8":
    c = rt.int64(call_data)
    given = rt.int64(table)
    status = search(c, given)
    if status != 0:
        rt.compare_exchange(c, STATUS, 0, status)
        sizes = rt.int64(c[SIZES])
        failure = rt.int64(c[FAILURE])
        reads = c[READ_COUNT]
        for k in range(c[COUNT] - reads):
            rt.call3(c[COPY], given[reads + k], failure[k], sizes[k])
    return status
"""


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
        results = signature.table[len(signature.given) :]
        failed = [_failure(parameter) for parameter in results]
        self._python = None if python is None else _ASK(python)
        sizes = np.array([parameter.size for parameter in results] or [0], np.int64)
        failure = np.array([a.ctypes.data for a in failed] or [0], np.int64)
        table = {
            **record_calls.call_data(records, constants=True),
            "CELL": records.cell.ctypes.data, "HASH": chain,
            "SIZES": sizes.ctypes.data, "FAILURE": failure.ctypes.data, "STATUS": 0,
            "PYTHON": address_of(self._python),
        }  # fmt: skip
        self.words = np.array([table[name] for name in _FIELDS], np.int64)
        self._held = records, failed, sizes, failure
        self._call = function(_CALL, "glue")

    def load(self, signature: CSignature) -> Loaded:
        """The C function of a signature."""
        text = stub_text(signature, self._call, int(self.words.ctypes.data))
        return load_unshared(text)

    def take_status(self) -> int:
        """The status of the first call that failed since the last time, or 0."""
        status = int(self.words[PLACES["STATUS"]])
        if status:  # machine code notes one where there is none, as soon as this is 0
            self.words[PLACES["STATUS"]] = 0
        return status


_ASK = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)
_CALL = expand(record_calls.TEXT + _SEARCH + _CALL_AND_NOTE, _MACROS)


def _failure(parameter: CParameter) -> np.ndarray:
    """The value of a result where a call fails: NaN, or the smallest integer."""
    number = np.nan if parameter.dtype.kind == "f" else np.iinfo(parameter.dtype).min
    return np.full(parameter.shape, number, parameter.dtype)
