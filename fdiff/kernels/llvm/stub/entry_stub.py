"""The entry stub: the function of machine code through which Python calls every kernel.

Its ``self`` is a call descriptor (`descriptor_layout`), whose fields are macros in this text:
``D_size`` is a word of the header, ``I_rank`` a field of an input, ``O_``, ``L_``, ``U_`` and
``S_`` are fields of outputs, look-ups, unpacking and steps of the result. The stub follows
CPython's vectorcall protocol (PEP 590). Objects are read by their layout: ``PyObject_HEAD``, the
numbers after it, and NumPy's ``PyArrayObject_fields`` (numpy/_core/include/numpy/ndarraytypes.h),
which are part of binary interfaces; `interpreter_abi` compares them with the running interpreter.
"""

from __future__ import annotations

from functools import cache

from ...runtime.macros import expand, numbered, without_options
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
from .stub_inputs import COMPARE_WHAT_WAS_READ, TAKE_INPUTS

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

# Whether as many arguments were passed, with these keywords, and no trace is under way.
_FITTING_CALL = """\
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
"""

# Room for the words of one call: on the stack where it is little. Without it, a MemoryError.
_FRAME = """\
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
"""

# Arguments are registers; after them come the items of structured arguments. Then the parts of the
# frame: addresses of data, slots of scalars, strides, and arrays that are copies.
_REGISTERS = """\
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
"""

# Memory for the outputs: a new array for each, or a slot of the frame for a scalar.
_OUTPUTS = """\
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
"""

# The kernel runs with a workspace that the last call has left, or a new one; perhaps without GIL.
_KERNEL_CALL = """\
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
"""

# The guard of the trace is an output. Flags of floating point may be a warning in plain code.
_GUARD_AND_FLAGS = """\
    # +++
    if ok and status == 0 and d[D_guard] > 0:
        ok = rt.int32(data[d[D_first] + d[D_guard] - 1])[0] & 255 != 0
    # ---
    # --- flags of floating point: a hint that plain code may have warned
    if ok and status == 0 and rt.flags() != 0:
        failed = report_flags(rt.int64(self)[A_data], args, n, names) == 0
        ok = not failed
"""

# The outputs are put into the structure of the result; all that was made on the way is released.
_RESULT = """\
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
"""

# A call that does not fit, and has raised nothing, is left to the general function.
_FALLBACK = """\
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

# The stub: its pieces are the body of one function, in this order.
_CALL = (
    "\n"
    + _FITTING_CALL
    + _FRAME
    + _REGISTERS
    + TAKE_INPUTS
    + COMPARE_WHAT_WAS_READ
    + _OUTPUTS
    + _KERNEL_CALL
    + _GUARD_AND_FLAGS
    + _RESULT
    + _FALLBACK
)


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
