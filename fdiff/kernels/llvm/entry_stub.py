"""The function of machine code that Python calls, and the table of words it is told by.

Layouts: CPython's ``PyObject_HEAD``, the numbers behind it, and NumPy's ``PyArrayObject_fields``
(numpy/_core/include/numpy/ndarraytypes.h), which are part of their binary interfaces;
`interpreter_abi` compares them with the running interpreter before anything is called.
"""

from __future__ import annotations

from ..runtime.macros import expand, numbered, without_options
from .call_descriptor import ATTRIBUTES, OWNED
from .structured_arguments import BUILD, UNPACK

HEAD = object.__basicsize__ // 8  # words before the contents of an object; its type is the last
NUMPY_API = {"NewCopy": 85, "NewFromDescr": 94, "Scalar": 60, "EquivTypes": 182}
PYTHON_API = (
    "Py_IncRef", "Py_DecRef", "PyObject_CallOneArg", "PyErr_Clear", "PyErr_Occurred",
    "PyTuple_New", "PyTuple_SetItem", "PyTuple_Size", "PyTuple_GetItem", "PyList_New",
    "PyList_SetItem", "PyList_Size", "PyList_GetItem", "PyDict_New", "PyDict_SetItem",
    "PyDict_Next", "PyDict_Size", "PyObject_GetAttr", "PyObject_RichCompareBool",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree",
    "PyLong_FromLong", "PyObject_Vectorcall",
)  # fmt: skip

# Parts of the stub's memory on the stack, each by the bytes before it; the first are the addresses
# that the kernel is given, `data` of them.
ROOMS = ("slots", "strides", "copies", "known", "made", "stack")

# What a table holds, word by word.
WORDS = (
    "none", "true", "array", "text", "whole", "bytes", *PYTHON_API, *NUMPY_API, "kernel", "ints",
    "floats", "arguments", "keywords", "keyword_count", "given", "registers", "unpacks",
    "unpack_count", *ROOMS, "room", "data", "cell", "size", "keep", "release", "inputs",
    "input_count",
    "constants", "constant_count", "reads", "read_count", "places", "place_count", "outputs",
    "output_count", "first", "result", "result_count", "occupied", "general", "written", "guard",
    "hinted",
)  # fmt: skip
INPUTS = (
    "at", "source", "object", "descr", "rank", "dims", "mask", "most", "strides", "width", "kind",
    "other", "near", "written", "bytes",
)  # fmt: skip
OUTPUTS = ("descr", "rank", "dims", "scalar", "made")
READS = ("function", "object", "argument", "value", "how", "into")
UNPACKS = ("how", "source", "kind", "size", "what", "length", "item")
RESULTS = ("how", "what", "size", "names", "make", "put")
# How a value is returned: with a reference; as where a dict may be. Only in the table: what is
# looked at is in a register; the value is kept in one. Most reads are none of these.
FROM, INTO = 4, 8
REGISTERS = 3  # what was read on the way, and first of all the first argument

# How an argument is unpacked into its parts, or compared.
UNPACK_HOW = ("SEQUENCE", "DICT", "FIELDS", "SAME")
# What a step of the result's recipe puts on the stack: ``MADE`` is ``MOVED`` where an array stands
# nowhere else, and ``SCALAR`` where the output is one.
RESULT_HOW = ("MOVED", "SCALAR", "GROUP", "MADE", "CONSTANT", "GIVEN", "TABLE", "CALLED")

# Tell of flags; 0 if that has raised an error.
_HEARD = """
def heard(table: "i8", args: "i8", n: "i8", names: "i8") -> "i8":
    d = rt.int64(table)
    rt.clear_flags()
    told = rt.call(d[D_PyObject_Vectorcall], d[D_hinted], args, n, names)
    if told == 0:
        return 0
    rt.call(d[D_Py_DecRef], told)
    return 1
"""

_CALL = """
def call(self: "i8", args: "i8", n: "i8", names: "i8"):
    d = rt.int64(rt.int64(self)[HEAD])
    ok = n == d[D_arguments]
    if d[D_keyword_count] == 0:
        ok = ok and names == 0
    # +++
    elif ok:
        ok = names != 0
        if ok:
            ok = named(rt.int64(self)[HEAD], names) == 1
    # ---
    # +++
    if ok:
        ok = rt.int64(d[D_occupied])[HEAD] == 0
    # ---
    filled = d[D_given]
    registers = args
    # +++
    if ok and d[D_unpack_count] != 0:
        registers = rt.stack(d[D_registers])
        for k in range(filled):
            rt.int64(registers)[k] = rt.int64(args)[k]
        filled = unpacked(rt.int64(self)[HEAD], registers)
        if filled < 0:
            ok = False
            filled = -1 - filled
    # ---
    given = rt.int64(registers)
    room = rt.stack(d[D_room])
    data = rt.int64(room)
    slots = room + d[D_slots]
    strides = rt.int64(room + d[D_strides])
    copies = rt.int64(room + d[D_copies])
    copied = 0
    # --- what is given
    for k in range(d[D_input_count]):
        if not ok:
            break
        r = rt.int64(d[D_inputs] + 8 * INPUT * k)
        x = r[I_object]
        if r[I_source] >= 0:
            x = given[r[I_source]]
        o = rt.int64(x)
        begin = o[HEAD]
        if o[HEAD - 1] == d[D_array]:
            ok = rt.int32(x)[2 * HEAD + 2] == r[I_rank]
            if ok and o[HEAD + 5] != r[I_descr]:
                ok = rt.call(d[D_EquivTypes], o[HEAD + 5], r[I_descr]) & 255 != 0
            if ok:
                dims = rt.int64(o[HEAD + 2])
                wanted = rt.int64(r[I_dims])
                for axis in range(r[I_rank]):
                    if dims[axis] != wanted[axis]:
                        ok = False
            if ok and rt.int32(x)[2 * HEAD + 12] & r[I_mask] != r[I_mask]:
                ok = r[I_most] > 0
                moved = 0
                if ok and r[I_near] and begin & 7 == 0:
                    width = rt.int64(o[HEAD + 2])[r[I_rank] - 1]
                    along = rt.int64(o[HEAD + 3])[r[I_rank] - 1]
                    rows = rt.int64(o[HEAD + 2])[0] if r[I_rank] == 2 else 1
                    across = rt.int64(o[HEAD + 3])[0] if r[I_rank] == 2 else 0
                    if (along | across) & 7 == 0:
                        moved = rt.stack(rows * width + 1)
                        for j in range(rows):
                            row = rt.int64(moved + 8 * width * j)
                            place = begin + across * j
                            for m in range(0, width - 3, 4):
                                row[m] = rt.int64(place)[0]
                                row[m + 1] = rt.int64(place + along)[0]
                                row[m + 2] = rt.int64(place + 2 * along)[0]
                                row[m + 3] = rt.int64(place + 3 * along)[0]
                                place = place + 4 * along
                            for m in range(width & -4, width):
                                row[m] = rt.int64(begin + across * j + along * m)[0]
                        begin = moved
                if ok and moved == 0:
                    x = rt.call(d[D_NewCopy], x, 0)
                    ok = x != 0
                    if ok:
                        copies[copied] = x
                        copied = copied + 1
                        o = rt.int64(x)
                        begin = o[HEAD]
                    else:
                        rt.call(d[D_PyErr_Clear])
            if ok and r[I_strides] >= 0:
                steps = rt.int64(o[HEAD + 3])
                for axis in range(r[I_rank]):
                    strides[r[I_strides] + axis] = steps[axis] // r[I_width]
                    if steps[axis] % r[I_width] != 0:
                        ok = False
            if ok:
                data[r[I_at]] = begin
        elif o[HEAD - 1] == r[I_kind] or o[HEAD - 1] == r[I_other]:
            data[r[I_at]] = x + 8 * HEAD
        else:
            ok = False
    # +++
    if ok and d[D_written] != 0:
        ok = apart(rt.int64(self)[HEAD], rt.offset(data, 0)) == 1
    # --- what was read from outside
    if ok:
        known = rt.int64(room + d[D_known])
        known[0] = rt.int64(args)[0] if n > 0 else 0
        for k in range(d[D_read_count]):
            r = rt.int64(d[D_reads] + 8 * READ * k)
            how = r[R_how]
            if how == 0:
                ok = rt.call(r[R_function], r[R_object], r[R_argument]) == r[R_value]
            else:
                x = r[R_object]
                if how & FROM:
                    x = known[x]
                held = rt.call(r[R_function], x, r[R_argument])
                if how & ATTRIBUTES and held != 0:
                    held = rt.int64(held)[0]
                    if held != 0:
                        held = rt.int64(held)[HEAD]
                if how & INTO:
                    known[r[R_into]] = held
                    ok = held != 0
                else:
                    ok = held == r[R_value]
                if how & OWNED and held != 0:
                    rt.call(d[D_Py_DecRef], held)
            if not ok:
                break
        for k in range(d[D_place_count]):
            r = rt.int64(d[D_places] + 16 * k)
            if ok:
                held = rt.call(d[D_PyObject_CallOneArg], r[0], r[1])
                ok = held == d[D_true]
                if held != 0:
                    rt.call(d[D_Py_DecRef], held)
        if not ok:
            rt.call(d[D_PyErr_Clear])
    # ---
    # --- memory for what comes out
    made = rt.int64(room + d[D_made])
    count = 0
    out = 0
    failed = False
    for k in range(d[D_output_count]):
        if not ok:
            break
        r = rt.int64(d[D_outputs] + 8 * OUTPUT * k)
        made[k] = 0
        if r[O_scalar]:
            data[d[D_first] + k] = slots + 16 * k
        elif r[O_made]:
            rt.call(d[D_Py_IncRef], r[O_descr])
            x = rt.call(
                d[D_NewFromDescr], d[D_array], r[O_descr], r[O_rank], r[O_dims], 0, 0, 0, 0
            )
            made[k] = x
            if x == 0:
                ok = False
                failed = True
            else:
                data[d[D_first] + k] = rt.int64(x)[HEAD]
        count = k + 1
    for k in range(d[D_constant_count]):
        data[d[D_first] - d[D_constant_count] + k] = rt.int64(d[D_constants])[k]
    # --- the kernel
    raw = 0
    if ok and d[D_size]:
        raw = rt.int64(d[D_cell])[0]
        rt.int64(d[D_cell])[0] = 0
        if raw == 0:
            raw = rt.call(d[D_PyMem_RawMalloc], d[D_size] + 64)
        ok = raw != 0
        data[d[D_data] - 1] = raw + 63 & -64
    status = 0
    if ok:
        state = 0
        if d[D_release]:
            state = rt.call(d[D_PyEval_SaveThread])
        status = rt.call(d[D_kernel], data, strides, rt.int64(d[D_ints]), rt.int64(d[D_floats]))
        if d[D_release]:
            rt.call(d[D_PyEval_RestoreThread], state)
        if raw != 0 and d[D_keep] != 0 and rt.int64(d[D_cell])[0] == 0:
            rt.int64(d[D_cell])[0] = raw
        elif raw != 0:
            rt.call(d[D_PyMem_RawFree], raw)
    # +++
    if ok and status == 0 and d[D_guard] > 0:
        ok = rt.int32(data[d[D_first] + d[D_guard] - 1])[0] & 255 != 0
    # ---
    # --- flags of floating point: a hint that plain code may have warned
    if ok and status == 0 and rt.flags() != 0:
        failed = heard(rt.int64(self)[HEAD], args, n, names) == 0
        ok = not failed
    # --- the result
    if ok and status == 0 and d[D_result_count] != 0:
        table = rt.int64(self)[HEAD]
        out = built(table, rt.offset(made, 0), rt.offset(data, 0), registers, room + d[D_stack])
        failed = out == 0
    elif ok and d[D_result_count] == 0:
        out = rt.call(d[D_PyLong_FromLong], status)
    for k in range(count):
        if made[k] != 0:
            rt.call(d[D_Py_DecRef], made[k])
    for k in range(copied):
        rt.call(d[D_Py_DecRef], copies[k])
    # +++
    for k in range(d[D_given], filled):
        rt.call(d[D_Py_DecRef], given[k])
    # ---
    if out == 0 and not failed:
        if d[D_general] != 0:
            out = rt.call(d[D_PyObject_Vectorcall], d[D_general], args, n, names)
        else:
            out = d[D_none]
            rt.call(d[D_Py_IncRef], out)
    return out
"""


def text(*, full: bool = True) -> str:
    """The stub's text, with every field of the call descriptor as its position.

    What is not `full` takes positional arguments as they are and checks nothing outside: all that
    a kernel needs alone, in half the time to compile.
    """
    template = UNPACK + BUILD + _HEARD + _CALL
    if not full:
        template = without_options(BUILD + _HEARD + _CALL)
    return expand(template, _MACROS)


_MACROS: dict[str, int] = {
    "HEAD": HEAD, "INPUT": len(INPUTS), "OUTPUT": len(OUTPUTS), "READ": len(READS),
    "UNPACK": len(UNPACKS), "RESULT": len(RESULTS),
    "OWNED": OWNED, "ATTRIBUTES": ATTRIBUTES, "FROM": FROM, "INTO": INTO,
    **numbered(UNPACK_HOW), **numbered(RESULT_HOW), **numbered(WORDS, "D_"),
    **numbered(INPUTS, "I_"), **numbered(OUTPUTS, "O_"), **numbered(READS, "R_"),
    **numbered(UNPACKS, "U_"), **numbered(RESULTS, "S_"),
}  # fmt: skip
