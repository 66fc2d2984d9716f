"""Parts of the entry stub: structured arguments taken apart, structured results put together.

`UNPACK` fills registers with what lies in tuples, lists, dicts and dataclasses, and compares what
must be as it was; `BUILD` runs the recipe of the result on a stack of objects.
"""

UNPACK = """
def alike(table: "i8", x: "i8", wanted: "i8"):
    d = rt.int64(table)
    kind = rt.int64(x)[HEAD - 1]
    same = 0
    if x == wanted:
        same = 1
    elif kind == rt.int64(wanted)[HEAD - 1]:
        if kind == d[D_text] or kind == d[D_whole] or kind == d[D_bytes]:
            same = rt.call(d[D_PyObject_RichCompareBool], x, wanted, 2) & 255
    return same

def named(table: "i8", names: "i8"):
    d = rt.int64(table)
    same = 0
    if rt.call(d[D_PyTuple_Size], names) == d[D_keyword_count]:
        same = 1
    for k in range(d[D_keyword_count]):
        if same == 1:
            wanted = rt.int64(d[D_keywords])[k]
            same = alike(table, rt.call(d[D_PyTuple_GetItem], names, k), wanted)
    return same

def unpacked(table: "i8", registers: "i8"):
    d = rt.int64(table)
    at = rt.int64(registers)
    filled = d[D_given]
    where = rt.stack(3)
    entry = rt.int64(where)
    ok = True
    for k in range(d[D_unpack_count]):
        if not ok:
            break
        r = rt.int64(d[D_unpacks] + 8 * UNPACK * k)
        x = at[r[U_source]]
        how = r[U_how]
        size = r[U_size]
        if how == SAME:
            ok = alike(table, x, r[U_what]) == 1
        elif rt.int64(x)[HEAD - 1] != r[U_kind]:
            ok = False
        elif how == FIELDS:
            for j in range(size):
                if ok:
                    y = rt.call(d[D_PyObject_GetAttr], x, rt.int64(r[U_what])[j])
                    ok = y != 0
                    if ok:
                        at[filled] = y
                        filled = filled + 1
                    else:
                        rt.call(d[D_PyErr_Clear])
        elif rt.call(r[U_length], x) != size:
            ok = False
        elif how == SEQUENCE:
            for j in range(size):
                y = rt.call(r[U_item], x, j)
                rt.call(d[D_Py_IncRef], y)
                at[filled] = y
                filled = filled + 1
        else:
            entry[0] = 0
            for j in range(size):
                if ok:
                    more = rt.call(d[D_PyDict_Next], x, where, where + 8, where + 16) & 255
                    ok = more == 1
                if ok:
                    ok = alike(table, entry[1], rt.int64(r[U_what])[j]) == 1
                if ok:
                    y = entry[2]
                    rt.call(d[D_Py_IncRef], y)
                    at[filled] = y
                    filled = filled + 1
    return filled if ok else -1 - filled

def apart(table: "i8", tables: "i8*"):
    d = rt.int64(table)
    same = 1
    for k in range(d[D_input_count]):
        r = rt.int64(d[D_inputs] + 8 * INPUT * k)
        if r[I_written]:
            for j in range(d[D_input_count]):
                other = rt.int64(d[D_inputs] + 8 * INPUT * j)
                a = tables[r[I_at]]
                b = tables[other[I_at]]
                if j != k and a < b + other[I_bytes] and b < a + r[I_bytes]:
                    same = 0
    return same
"""

BUILD = """
def built(table: "i8", made: "i8*", data: "i8*", registers: "i8", base: "i8"):
    d = rt.int64(table)
    stack = rt.int64(base)
    depth = 0
    x = 0
    for k in range(d[D_result_count]):
        c = rt.int64(d[D_result] + 8 * RESULT * k)
        how = c[S_how]
        size = c[S_size]
        x = c[S_what]
        if how == MOVED:
            moved = rt.offset(made, x)
            x = moved[0]
            moved[0] = 0
        elif how == GROUP:
            x = rt.call(c[S_make], size)
            if x != 0:
                depth = depth - size
                for j in range(size):
                    rt.call(c[S_put], x, j, stack[depth + j])
        # +++
        elif how == SCALAR:
            x = rt.call(d[D_Scalar], data[d[D_first] + x], c[S_make], 0)
        elif how == MADE:
            x = made[x]
            if size:
                x = rt.call(d[D_NewCopy], x, 0)
            else:
                rt.call(d[D_Py_IncRef], x)
        elif how == CONSTANT:
            rt.call(d[D_Py_IncRef], x)
        elif how == GIVEN:
            x = rt.int64(registers)[x]
            rt.call(d[D_Py_IncRef], x)
        # ---
        # +++
        elif how == TABLE:
            x = rt.call(d[D_PyDict_New])
            if x != 0:
                depth = depth - size
                for j in range(size):
                    rt.call(d[D_PyDict_SetItem], x, rt.int64(c[S_names])[j], stack[depth + j])
                    rt.call(d[D_Py_DecRef], stack[depth + j])
        else:
            depth = depth - size
            first = size if c[S_names] == 0 else 0
            x = rt.call(d[D_PyObject_Vectorcall], x, base + 8 * depth, first, c[S_names])
            for j in range(size):
                rt.call(d[D_Py_DecRef], stack[depth + j])
        # ---
        if x == 0:
            break
        stack[depth] = x
        depth = depth + 1
    if x == 0:
        for j in range(depth):
            rt.call(d[D_Py_DecRef], stack[j])
    return x
"""
