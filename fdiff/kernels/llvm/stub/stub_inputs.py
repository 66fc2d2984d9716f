"""Pieces of the entry stub that take the inputs of a kernel, and compare values that `f` read.

They are parts of the body of one function; see `entry_stub` for the names in them. `TAKE_INPUTS`
puts addresses and strides of arrays and numbers into the tables of the kernel, or finds that they
do not fit. `COMPARE_WHAT_WAS_READ` finds whether globals, cells and attributes are what they were.
"""

# An input must be an array of its class, rank, dtype, shape and layout, or a number of its class.
_INPUTS = """\
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
"""

# An array of another layout is copied: a small one to the stack, row by row, another one by NumPy.
_COPIED_INPUT = """\
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
"""

# Where the entries of an input are, and its strides in entries where the kernel takes any.
_INPUT_ADDRESS = """\
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
"""

# An array that is written shares no memory with another one.
_DISJOINT_ARRAYS = """\
    # +++
    if ok and d[D_written] != 0:
        ok = disjoint(rt.int64(self)[A_data], rt.offset(data, 0)) == 1
"""

# What `f` read from outside is what it was: entries of dicts, attributes, and items.
_LOOKUPS = """\
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
"""

# Python functions that tell whether more of what was read is the same.
_PREDICATES = """\
        for k in range(d[D_predicate_count]):
            r = rt.int64(d[D_predicates] + 16 * k)
            if ok:
                found = rt.call2(d[D_PyObject_CallOneArg], r[0], r[1])
                ok = found == d[D_true]
                failed = found == 0
                if found != 0:
                    rt.call1(d[D_Py_DecRef], found)
    # ---
"""

TAKE_INPUTS = _INPUTS + _COPIED_INPUT + _INPUT_ADDRESS + _DISJOINT_ARRAYS
COMPARE_WHAT_WAS_READ = _LOOKUPS + _PREDICATES
