"""Parts of the entry stub that unpack structured arguments and build structured results.

`UNPACK_ARGUMENTS` fills registers with the items of tuples, lists, dicts and dataclasses, and
compares objects that must be equal; it also tells whether arrays that are written overlap others.
`BUILD_RESULT` is a stack machine, whose instructions are the steps of the result.
"""

# Whether an object is the wanted one: the same, or an equal string, int or bytes.
_EQUAL = """\
def equal(descriptor: "i8", x: "i8", wanted: "i8"):
    d = rt.int64(descriptor)
    kind = rt.int64(x)[CLASS]
    same = 0
    if x == wanted:
        same = 1
    elif kind == rt.int64(wanted)[CLASS]:
        if kind == d[D_str] or kind == d[D_int] or kind == d[D_bytes]:
            same = rt.call3(d[D_PyObject_RichCompareBool], x, wanted, 2) & 255
    return same

"""

# Whether arguments were passed by these keywords, in this order.
_MATCH_KEYWORDS = """\
def match_keywords(descriptor: "i8", names: "i8"):
    d = rt.int64(descriptor)
    same = 0
    if rt.call1(d[D_PyTuple_Size], names) == d[D_keyword_count]:
        same = 1
    for k in range(d[D_keyword_count]):
        if same == 1:
            wanted = rt.int64(d[D_keywords])[k]
            same = equal(descriptor, rt.call2(d[D_PyTuple_GetItem], names, k), wanted)
    return same

"""

# The number of registers that are filled; where something does not fit, that number
# counted down from -1, for the objects to be released.
_UNPACK = """\
def unpack(descriptor: "i8", registers: "i8"):
    d = rt.int64(descriptor)
    at = rt.int64(registers)
    filled = d[D_given]
    where = rt.stack(3)
    entry = rt.int64(where)
    ok = True
    for k in range(d[D_unpack_count]):
        if not ok:
            break
        r = rt.int64(d[D_unpacks] + 8 * UNPACK_WORDS * k)
        x = at[r[U_register]]
        how = r[U_how]
        size = r[U_size]
        if how == EQUAL:
            ok = equal(descriptor, x, r[U_what]) == 1
        elif rt.int64(x)[CLASS] != r[U_kind]:
            ok = False
"""

# Fields of a dataclass.
_UNPACK_FIELDS = """\
        elif how == FIELDS:
            for j in range(size):
                if ok:
                    y = rt.call2(d[D_PyObject_GetAttr], x, rt.int64(r[U_what])[j])
                    ok = y != 0
                    if ok:
                        at[filled] = y
                        filled = filled + 1
"""

# Items of a tuple or list, then items of a dict, whose keys must be in the same order.
_UNPACK_ITEMS = """\
        elif rt.call1(r[U_length], x) != size:
            ok = False
        elif how == SEQUENCE:
            for j in range(size):
                y = rt.call2(r[U_item], x, j)
                rt.call1(d[D_Py_IncRef], y)
                at[filled] = y
                filled = filled + 1
        else:
            entry[0] = 0
            for j in range(size):
                if ok:
                    more = rt.call4(d[D_PyDict_Next], x, where, where + 8, where + 16) & 255
                    ok = more == 1
                if ok:
                    ok = equal(descriptor, entry[1], rt.int64(r[U_what])[j]) == 1
                if ok:
                    y = entry[2]
                    rt.call1(d[D_Py_IncRef], y)
                    at[filled] = y
                    filled = filled + 1
    return filled if ok else -1 - filled

"""

# Whether no array that is written shares memory with another one.
_DISJOINT = """\
def disjoint(descriptor: "i8", data: "i8*"):
    d = rt.int64(descriptor)
    same = 1
    for k in range(d[D_input_count]):
        r = rt.int64(d[D_inputs] + 8 * INPUT_WORDS * k)
        if r[I_written]:
            for j in range(d[D_input_count]):
                other = rt.int64(d[D_inputs] + 8 * INPUT_WORDS * j)
                a = data[r[I_at]]
                b = data[other[I_at]]
                if j != k and a < b + other[I_bytes] and b < a + r[I_bytes]:
                    same = 0
    return same
"""

# Each step of the result puts one object on the stack, or takes several off it and puts the
# group of them there. Here: an output that is moved, a tuple or list.
_TAKE_STEPS = """\
def build(descriptor: "i8", made: "i8*", data: "i8*", registers: "i8", base: "i8"):
    d = rt.int64(descriptor)
    stack = rt.int64(base)
    depth = 0
    x = 0
    for k in range(d[D_result_count]):
        c = rt.int64(d[D_result] + 8 * STEP_WORDS * k)
        how = c[S_how]
        size = c[S_size]
        x = c[S_what]
        if how == MOVED:
            packed = rt.offset(made, x)
            x = packed[0]
            packed[0] = 0
        elif how == GROUP:
            x = rt.call1(c[S_make], size)
            if x != 0:
                depth = depth - size
                for j in range(size):
                    rt.call3(c[S_put], x, j, stack[depth + j])
"""

# Scalars, outputs that are used again, constants, and arguments that are returned.
_LEAF_STEPS = """\
        # +++
        elif how == SCALAR:
            x = rt.call3(d[D_Scalar], data[d[D_first] + x], c[S_make], 0)
        elif how == OUTPUT:
            x = made[x]
            if size:
                x = rt.call2(d[D_NewCopy], x, 0)
            else:
                rt.call1(d[D_Py_IncRef], x)
        elif how == CONSTANT:
            rt.call1(d[D_Py_IncRef], x)
        elif how == ARGUMENT:
            x = rt.int64(registers)[x]
            rt.call1(d[D_Py_IncRef], x)
        # ---
"""

# Dicts, and calls of a class with the objects on the stack.
_GROUP_STEPS = """\
        # +++
        elif how == MAPPING:
            x = rt.call0(d[D_PyDict_New])
            if x != 0:
                depth = depth - size
                for j in range(size):
                    name = rt.int64(c[S_names])[j]
                    if x != 0 and rt.call3(d[D_PyDict_SetItem], x, name, stack[depth + j]) & 255:
                        rt.call1(d[D_Py_DecRef], x)
                        x = 0
                    rt.call1(d[D_Py_DecRef], stack[depth + j])
        else:
            depth = depth - size
            first = size if c[S_names] == 0 else 0
            x = rt.call4(d[D_PyObject_Vectorcall], x, base + 8 * depth, first, c[S_names])
            for j in range(size):
                rt.call1(d[D_Py_DecRef], stack[depth + j])
        # ---
"""

# Where a step fails, what is on the stack is released.
_PUT_ON_STACK = """\
        if x == 0:
            break
        stack[depth] = x
        depth = depth + 1
    if x == 0:
        for j in range(depth):
            rt.call1(d[D_Py_DecRef], stack[j])
    return x
"""

UNPACK_ARGUMENTS = (
    "\n" + _EQUAL + _MATCH_KEYWORDS + _UNPACK + _UNPACK_FIELDS + _UNPACK_ITEMS + _DISJOINT
)
BUILD_RESULT = "\n" + _TAKE_STEPS + _LEAF_STEPS + _GROUP_STEPS + _PUT_ON_STACK
