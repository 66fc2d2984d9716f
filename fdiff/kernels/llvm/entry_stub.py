"""The entry stub: the function of machine code through which Python calls every kernel.

Its ``self`` is a call descriptor (`descriptor_layout`), whose fields are macros in this text:
``D_size`` is a word of the header, ``I_rank`` a field of an input, ``O_``, ``L_``, ``U_`` and
``S_`` are fields of outputs, look-ups, unpacking and steps of the result. The stub follows
CPython's vectorcall protocol (PEP 590). Objects are read by their layout: ``PyObject_HEAD``, the
numbers behind it, and NumPy's ``PyArrayObject_fields`` (numpy/_core/include/numpy/ndarraytypes.h),
which are part of binary interfaces; `interpreter_abi` compares them with the running interpreter.
"""

from __future__ import annotations

from functools import cache

from ..runtime.macros import expand, numbered, without_options
from .call_descriptor import ATTRIBUTES, OWNED
from .descriptor_layout import (
    COPY_WORDS,
    ENTRY,
    FRAME_WORDS,
    FROM_REGISTER,
    HEADER,
    INPUT,
    INTO_REGISTER,
    LOOKUP,
    OUTPUT,
    STEP,
    STEP_HOW,
    UNPACK,
    UNPACK_HOW,
)
from .dict_entries import KEYS, KIND, KIND_MASK
from .interpreter_abi import ARRAY, ARRAY_HALVES, CLASS, LENGTH, VALUE
from .structured_arguments import BUILD_RESULT, UNPACK_ARGUMENTS

# The call of what reports floating-point flags; 0 if that raised an exception.
_REPORT_FLAGS = """
def report_flags(descriptor: "i8", args: "i8", n: "i8", names: "i8") -> "i8":
    d = rt.int64(descriptor)
    rt.clear_flags()
    reported = rt.call4(d[D_PyObject_Vectorcall], d[D_on_flags], args, n, names)
    if reported == 0:
        return 0
    rt.call1(d[D_Py_DecRef], reported)
    return 1
"""

_CALL = """
def call(self: "i8", args: "i8", n: "i8", names: "i8"):
    d = rt.int64(rt.int64(self)[A_data])
    ok = n == d[D_arguments]
    if d[D_keyword_count] == 0:
        ok = ok and names == 0
    # +++
    elif ok:
        ok = names != 0
        if ok:
            ok = match_keywords(rt.int64(self)[A_data], names) == 1
    # ---
    # +++
    if ok:
        ok = rt.int64(d[D_occupied])[LENGTH] == 0
    # ---
    heap = 0
    frame = 0
    if d[D_frame] > FRAME_WORDS:
        heap = rt.call1(d[D_PyMem_RawMalloc], 8 * d[D_frame])
        if heap == 0:
            return rt.call0(d[D_PyErr_NoMemory])
        frame = heap
    else:
        frame = rt.stack(d[D_frame])
    # +++
    # Python's partial only borrows what it calls, and may be given something else meanwhile.
    rt.call1(d[D_Py_IncRef], self)
    # ---
    room = COPY_WORDS
    failed = False
    filled = d[D_given]
    registers = args
    # +++
    if ok and d[D_unpack_count] != 0:
        registers = frame + d[D_registers]
        for k in range(filled):
            rt.int64(registers)[k] = rt.int64(args)[k]
        filled = unpack(rt.int64(self)[A_data], registers)
        if filled < 0:
            ok = False
            filled = -1 - filled
    # ---
    given = rt.int64(registers)
    data = rt.int64(frame)
    slots = frame + d[D_slots]
    strides = rt.int64(frame + d[D_strides])
    copies = rt.int64(frame + d[D_copies])
    copied = 0
    # --- what is given
    for k in range(d[D_input_count]):
        if not ok:
            break
        r = rt.int64(d[D_inputs] + 8 * INPUT_WORDS * k)
        x = r[I_object]
        if r[I_register] >= 0:
            x = given[r[I_register]]
        o = rt.int64(x)
        if o[CLASS] == d[D_array]:
            begin = o[A_data]
            ok = rt.int32(x)[A_rank] == r[I_rank]
            if ok and o[A_descr] != r[I_descr]:
                ok = rt.call2(d[D_EquivTypes], o[A_descr], r[I_descr]) & 255 != 0
            if ok:
                dims = rt.int64(o[A_dims])
                wanted = rt.int64(r[I_dims])
                for axis in range(r[I_rank]):
                    if dims[axis] != wanted[axis]:
                        ok = False
            if ok and rt.int32(x)[A_flags] & r[I_mask] != r[I_mask]:
                ok = r[I_copyable] > 0
                packed = 0
                if ok and r[I_near] and begin & 7 == 0:
                    width = rt.int64(o[A_dims])[r[I_rank] - 1]
                    along = rt.int64(o[A_strides])[r[I_rank] - 1]
                    rows = rt.int64(o[A_dims])[0] if r[I_rank] == 2 else 1
                    across = rt.int64(o[A_strides])[0] if r[I_rank] == 2 else 0
                    if (along | across) & 7 == 0 and rows * width < room:
                        room = room - rows * width - 1
                        packed = rt.stack(rows * width + 1)
                        for j in range(rows):
                            row = rt.int64(packed + 8 * width * j)
                            place = begin + across * j
                            for m in range(0, width - 3, 4):
                                row[m] = rt.int64(place)[0]
                                row[m + 1] = rt.int64(place + along)[0]
                                row[m + 2] = rt.int64(place + 2 * along)[0]
                                row[m + 3] = rt.int64(place + 3 * along)[0]
                                place = place + 4 * along
                            for m in range(width & -4, width):
                                row[m] = rt.int64(begin + across * j + along * m)[0]
                        begin = packed
                if ok and packed == 0:
                    x = rt.call2(d[D_NewCopy], x, 0)
                    ok = x != 0
                    if ok:
                        copies[copied] = x
                        copied = copied + 1
                        o = rt.int64(x)
                        begin = o[A_data]
                    failed = not ok
            if ok and r[I_strides] >= 0:
                steps = rt.int64(o[A_strides])
                for axis in range(r[I_rank]):
                    strides[r[I_strides] + axis] = steps[axis] // r[I_width]
                    if steps[axis] % r[I_width] != 0:
                        ok = False
            if ok:
                data[r[I_at]] = begin
        elif o[CLASS] == r[I_kind] or o[CLASS] == r[I_other]:
            data[r[I_at]] = x + VALUE
        else:
            ok = False
    # +++
    if ok and d[D_written] != 0:
        ok = disjoint(rt.int64(self)[A_data], rt.offset(data, 0)) == 1
    # --- what was read from outside
    if ok:
        looked_up = rt.int64(frame + d[D_looked_up])
        looked_up[0] = rt.int64(args)[0] if n > 0 else 0
        for k in range(d[D_lookup_count]):
            r = rt.int64(d[D_lookups] + 8 * LOOKUP_WORDS * k)
            how = r[L_how]
            if how == ENTRY:  # key and value in the table that the dict had
                ok = rt.int64(r[L_object])[KEYS] == r[L_function]
                if ok:
                    ok = rt.int32(r[L_function])[KIND] & KIND_MASK == r[L_kind]
                if ok:
                    entry = rt.int64(r[L_argument])
                    ok = entry[0] == r[L_into] and entry[1] == r[L_value]
            elif how == 0:
                ok = rt.call2(r[L_function], r[L_object], r[L_argument]) == r[L_value]
            else:
                x = r[L_object]
                if how & FROM_REGISTER:
                    x = looked_up[x]
                found = rt.call2(r[L_function], x, r[L_argument])
                if how & ATTRIBUTES and found != 0:
                    found = rt.int64(found)[0]
                    if found != 0:
                        found = rt.int64(found)[LENGTH]
                if how & INTO_REGISTER:
                    looked_up[r[L_into]] = found
                    ok = found != 0
                else:
                    ok = found == r[L_value]
                if how & OWNED and found != 0:
                    rt.call1(d[D_Py_DecRef], found)
            if not ok:
                break
        for k in range(d[D_predicate_count]):
            r = rt.int64(d[D_predicates] + 16 * k)
            if ok:
                found = rt.call2(d[D_PyObject_CallOneArg], r[0], r[1])
                ok = found == d[D_true]
                failed = found == 0
                if found != 0:
                    rt.call1(d[D_Py_DecRef], found)
    # ---
    # --- memory for what comes out
    made = rt.int64(frame + d[D_made])
    count = 0
    out = 0
    for k in range(d[D_output_count]):
        if not ok:
            break
        r = rt.int64(d[D_outputs] + 8 * OUTPUT_WORDS * k)
        made[k] = 0
        if r[O_scalar]:
            data[d[D_first] + k] = slots + 16 * k
        elif r[O_made]:
            rt.call1(d[D_Py_IncRef], r[O_descr])
            x = rt.call8(
                d[D_NewFromDescr], d[D_array], r[O_descr], r[O_rank], r[O_dims], 0, 0, 0, 0
            )
            made[k] = x
            if x == 0:
                ok = False
                failed = True
            else:
                data[d[D_first] + k] = rt.int64(x)[A_data]
        count = k + 1
    for k in range(d[D_constant_count]):
        data[d[D_first] - d[D_constant_count] + k] = rt.int64(d[D_constants])[k]
    # --- the kernel
    raw = 0
    if ok and d[D_size]:
        raw = rt.int64(d[D_spare])[0]
        rt.int64(d[D_spare])[0] = 0
        if raw == 0:
            raw = rt.call1(d[D_PyMem_RawMalloc], d[D_size] + 64)
        ok = raw != 0
        data[d[D_data] - 1] = raw + 63 & -64
    status = 0
    if ok:
        state = 0
        if d[D_release]:
            state = rt.call0(d[D_PyEval_SaveThread])
        status = rt.call4(d[D_kernel], data, strides, rt.int64(d[D_ints]), rt.int64(d[D_floats]))
        if d[D_release]:
            rt.call1(d[D_PyEval_RestoreThread], state)
        if raw != 0 and d[D_keep] != 0 and rt.int64(d[D_spare])[0] == 0:
            rt.int64(d[D_spare])[0] = raw
        elif raw != 0:
            rt.call1(d[D_PyMem_RawFree], raw)
    # +++
    if ok and status == 0 and d[D_guard] > 0:
        ok = rt.int32(data[d[D_first] + d[D_guard] - 1])[0] & 255 != 0
    # ---
    # --- flags of floating point: a hint that plain code may have warned
    if ok and status == 0 and rt.flags() != 0:
        failed = report_flags(rt.int64(self)[A_data], args, n, names) == 0
        ok = not failed
    # --- the result
    if ok and status == 0 and d[D_result_count] != 0:
        descriptor = rt.int64(self)[A_data]
        stack = frame + d[D_stack]
        out = build(descriptor, rt.offset(made, 0), rt.offset(data, 0), registers, stack)
        failed = out == 0
    elif ok and d[D_result_count] == 0:
        out = rt.call1(d[D_PyLong_FromLong], status)
    for k in range(count):
        if made[k] != 0:
            rt.call1(d[D_Py_DecRef], made[k])
    for k in range(copied):
        rt.call1(d[D_Py_DecRef], copies[k])
    # +++
    for k in range(d[D_given], filled):
        rt.call1(d[D_Py_DecRef], given[k])
    # ---
    if heap != 0:
        rt.call1(d[D_PyMem_RawFree], heap)
    # --- what is missing is no error: the call does not fit
    if out == 0 and not failed and rt.call0(d[D_PyErr_Occurred]) != 0:
        failed = rt.call1(d[D_PyErr_ExceptionMatches], d[D_misses]) & 255 == 0
        if not failed:
            rt.call0(d[D_PyErr_Clear])
    if out == 0 and not failed:
        if d[D_fallback] != 0:
            out = rt.call4(d[D_PyObject_Vectorcall], d[D_fallback], args, n, names)
        else:
            out = d[D_none]
            rt.call1(d[D_Py_IncRef], out)
    # +++
    rt.call1(d[D_Py_DecRef], self)
    # ---
    return out
"""


@cache
def text(*, full: bool = True) -> str:
    """The stub's text, with every field of the call descriptor as its position.

    What is not `full` takes positional arguments as they are and revalidates nothing: all that a
    kernel needs alone, in half the time to compile.
    """
    return expand(template(full=full), MACROS)


def template(*, full: bool) -> str:
    """The text before macros are replaced."""
    whole = BUILD_RESULT + _REPORT_FLAGS + _CALL
    return UNPACK_ARGUMENTS + whole if full else without_options(whole)


MACROS: dict[str, int] = {
    "CLASS": CLASS, "LENGTH": LENGTH, "VALUE": VALUE,
    **{f"A_{name}": place for name, place in (ARRAY | ARRAY_HALVES).items()},
    "INPUT_WORDS": len(INPUT), "OUTPUT_WORDS": len(OUTPUT),
    "LOOKUP_WORDS": len(LOOKUP), "UNPACK_WORDS": len(UNPACK), "STEP_WORDS": len(STEP),
    "OWNED": OWNED, "ATTRIBUTES": ATTRIBUTES, "FROM_REGISTER": FROM_REGISTER,
    "INTO_REGISTER": INTO_REGISTER, "FRAME_WORDS": FRAME_WORDS, "COPY_WORDS": COPY_WORDS,
    "ENTRY": ENTRY, "KEYS": KEYS, "KIND": KIND, "KIND_MASK": KIND_MASK,
    **numbered(UNPACK_HOW), **numbered(STEP_HOW),
    **numbered(HEADER, "D_"), **numbered(INPUT, "I_"), **numbered(OUTPUT, "O_"),
    **numbered(LOOKUP, "L_"), **numbered(UNPACK, "U_"), **numbered(STEP, "S_"),
}  # fmt: skip
