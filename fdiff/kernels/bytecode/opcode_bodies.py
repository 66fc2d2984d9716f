"""Lines of text for opcodes that are not elementwise: docs/decisions/bytecode-interpreter.md.

They read the fields of the instruction (`opcodes`), the slots of the workspace as ``floats`` or
``ints``, and further numbers of ``extra`` from ``row`` on.
"""

from __future__ import annotations

from textwrap import dedent

RANK = 4  # loops of a copy and of a product, after axes that lie in one another were joined


def _lines(text: str, **names: str) -> tuple[str, ...]:
    for name, value in names.items():
        text = text.replace(f"<{name}>", value)
    return tuple(line for line in dedent(text).splitlines() if line.strip())


def _numbers(names: str) -> str:
    """Statements that read these from ``row`` of ``extra``."""
    return "".join(f"    {name} = extra[row + {k}]\n" for k, name in enumerate(names.split()))


# --- moving entries, whatever their dtype -------------------------------------------------------
_FILL = """
    word = ints[a]
    for i in range(count):
        ints[target + i] = word
"""
_MOVE = """
    for i in range(count):
        ints[target + i] = ints[a + i]
"""
_MOVE_PADDED = """
    for i in range(8 * count):
        ints[target + i] = ints[a + i]
"""
# A copy into an array of the caller's finds its destination in `extra`, as it lies far away.
# extra: four lengths, four steps of the source, four of the destination; the last axis innermost
_COPY = (
    "    to = target\n"
    + _numbers("n0 n1 n2 n3 from0 from1 from2 from3 to0 to1 to2 to3")
    + """\
    for j0 in range(n0):
        for j1 in range(n1):
            for j2 in range(n2):
                source = a + j0 * from0 + j1 * from1 + j2 * from2
                goal = to + j0 * to0 + j1 * to1 + j2 * to2
                if to3 == 1 and from3 == 1 and n3 < 8:
                    for i in range(n3):
                        rt.keep_scalar()
                        ints[goal + i] = ints[source + i]
                elif to3 == 1 and from3 == 1:
                    for i in range(n3):
                        ints[goal + i] = ints[source + i]
                elif to3 == 1 and from3 == 0:
                    word = ints[source]
                    for i in range(n3):
                        ints[goal + i] = word
                else:
                    for i in range(n3):
                        ints[goal + i * to3] = ints[source + i * from3]
"""
)
# --- reductions and scans: `count` outer, `reduced` and `inner` entries, in order ---------------
_REDUCE = """
    if <inner> == 1:
        for j in range(count):
            begin = a + j * <reduced>
            total = <start>
            for i in range(<reduced>):
                entry = <slots>[begin + i]
                total = <fast>
            <slots>[target + j] = total
    else:
        for j in range(count):
            begin = a + j * <reduced> * <inner>
            totals = target + j * <inner>
            for i in range(<inner>):
                <slots>[totals + i] = <first>
            for k in range(<from> <reduced>):
                line = begin + k * <inner>
                for i in range(<inner>):
                    total = <slots>[totals + i]
                    entry = <slots>[line + i]
                    <slots>[totals + i] = <plain>
"""
_ARGUMENT = """
    for j in range(count):
        for k in range(<inner>):
            begin = a + j * <reduced> * <inner> + k
            best = <slots>[begin]
            pick = 0
            for i in range(1, <reduced>):
                entry = <slots>[begin + i * <inner>]
                if entry <op> best<nan>:
                    best = entry
                    pick = i
            ints[target + j * <inner> + k] = pick
"""
# `steps` is 1 for a scan that runs from the end
_SCAN = """
    step = -<inner> if steps == 1 else <inner>
    for j in range(count):
        for k in range(<inner>):
            begin = j * <reduced> * <inner> + k + ((<reduced> - 1) * <inner> if steps == 1 else 0)
            total = <start>
            for i in range(<reduced>):
                at = begin + i * step
                total = <plain>
                <slots>[target + at] = total
"""
# --- index arrays: extra holds, for each of `b` of them, where it lies, the length and step of its
# axis; then where the other operand lies; `c` entries lie side by side after each index ---------
_PLACE = """
    base = extra[row + 3 * b]
    for j in range(count):
        indexed = base
        for k in range(b):
            index = ints[extra[row + 3 * k] + j]
            size = extra[row + 3 * k + 1]
            if index < 0:
                index = index + size
            if index < 0 or index >= size:
                return 1
            indexed = indexed + index * extra[row + 3 * k + 2]
        other = target + j * c
        <body>
"""


def _place(*body: str) -> tuple[str, ...]:
    lines = _lines(_PLACE)
    return (*lines[:-1], *("    " + line for line in body))


# --- products: extra holds four lengths, the steps of both operands and of the result, then two
# lengths of summed axes and the steps of both operands there --------------------------------------
_PRODUCT = (
    _numbers("n0 n1 n2 n3 a0 a1 a2 a3 b0 b1 b2 b3 o0 o1 o2 o3 k0 k1 ak0 ak1 bk0 bk1")
    + """\
    for j0 in range(n0):
        for j1 in range(n1):
            for j2 in range(n2):
                left = a + j0 * a0 + j1 * a1 + j2 * a2
                right = b + j0 * b0 + j1 * b1 + j2 * b2
                result = target + j0 * o0 + j1 * o1 + j2 * o2
                <body>
"""
)
_PRODUCT_PLAIN = """
    for i in range(n3):
        total = 0.0
        for k in range(k0):
            left_row = left + i * a3 + k * ak0
            right_row = right + i * b3 + k * bk0
            for j in range(k1):
                total = total + floats[left_row + j * ak1] * floats[right_row + j * bk1]
        floats[result + i * o3] = total
"""
_PRODUCT_DOT = """
    for i in range(n3):
        total = 0.0
        for k in range(k0):
            left_row = left + i * a3 + k * ak0
            right_row = right + i * b3 + k * bk0
            for j in range(k1):
                total = rt.add(total, floats[left_row + j] * floats[right_row + j])
        floats[result + i * o3] = total
"""
# The result's last axis and the second operand's lie side by side, the first operand has none: rows
# are added, four at a time, in the order of the sum.
_PRODUCT_ROWS = """
    for i in range(n3):
        floats[result + i] = 0.0
    for k in range(k0):
        left_row = left + k * ak0
        right_row = right + k * bk0
        j = 0
        while j + 4 <= k1:
            f0 = floats[left_row]
            f1 = floats[left_row + ak1]
            f2 = floats[left_row + 2 * ak1]
            f3 = floats[left_row + 3 * ak1]
            row1 = right_row + bk1
            row2 = row1 + bk1
            row3 = row2 + bk1
            for i in range(n3):
                total = floats[result + i] + f0 * floats[right_row + i] + f1 * floats[row1 + i]
                floats[result + i] = total + f2 * floats[row2 + i] + f3 * floats[row3 + i]
            left_row = left_row + 4 * ak1
            right_row = right_row + 4 * bk1
            j = j + 4
        while j < k1:
            f4 = floats[left_row]
            for i in range(n3):
                floats[result + i] = floats[result + i] + f4 * floats[right_row + i]
            left_row = left_row + ak1
            right_row = right_row + bk1
            j = j + 1
"""


def _product_short(count: int) -> str:
    """A sum of few terms: the first operand's entries are read once where it has no last axis."""
    terms = range(count)
    loads = "\n".join(f"f{k} = floats[left + {k} * ak1]" for k in terms)
    total = " + ".join(f"f{k} * floats[right_row + {k} * bk1]" for k in terms)
    again = " + ".join(
        f"floats[left_row + {k} * ak1] * floats[right_row + {k} * bk1]" for k in terms
    )
    return "\n".join(
        [
            "if a3 == 0:", *("    " + line for line in loads.splitlines()),
            "    for i in range(n3):", "        right_row = right + i * b3",
            f"        floats[result + i * o3] = {total}",
            "else:", "    for i in range(n3):", "        left_row = left + i * a3",
            "        right_row = right + i * b3", f"        floats[result + i * o3] = {again}",
        ]
    )  # fmt: skip


def _product(body: str) -> tuple[str, ...]:
    lines = _lines(_PRODUCT)
    return (*lines[:-1], *("            " + line for line in dedent(body).splitlines() if line))


# --- the table ----------------------------------------------------------------------------------
def _reductions(kind: str) -> dict[str, tuple[str, ...]]:
    """Opcodes of reductions, of floats (``f8``) or of integers and truth values (``i8``)."""
    slots = "floats" if kind == "f8" else "ints"
    zero, one = ("0.0", "1.0") if kind == "f8" else ("0", "1")
    names = {"slots": slots, "reduced": "b", "inner": "c"}
    out: dict[str, tuple[str, ...]] = {}

    def add(name: str, start: str, first: str, begin: str, plain: str, fast: str = "") -> None:
        texts = {"start": start, "first": first, "from": begin, "plain": plain}
        out[f"{name} {kind}"] = _lines(_REDUCE, fast=fast or plain, **texts, **names)

    add("sum", zero, zero, "0,", "total + entry", "rt.add(total, entry)")
    add("prod", one, one, "0,", "total * entry", "rt.multiply(total, entry)")
    add("max", f"{slots}[begin]", f"{slots}[begin + i]", "1,", "rt.maximum(total, entry)")
    add("min", f"{slots}[begin]", f"{slots}[begin + i]", "1,", "rt.minimum(total, entry)")
    if kind == "i8":  # of truth values
        add("any", "0", "0", "0,", "total | entry")
        add("all", "1", "1", "0,", "total & entry")
    nan = " or (entry != entry and best == best)" if kind == "f8" else ""
    for name, op in (("argmax", ">"), ("argmin", "<")):
        out[f"{name} {kind}"] = _lines(_ARGUMENT, op=op, nan=nan, **names)
    return out


def _scans(kind: str) -> dict[str, tuple[str, ...]]:
    slots = "floats" if kind == "f8" else "ints"
    lowest = "-math.inf" if kind == "f8" else "ints[a + begin]"
    zero, one = ("-0.0", "1.0") if kind == "f8" else ("0", "1")
    names = {"slots": slots, "reduced": "b", "inner": "c"}
    kinds = {
        "cumsum": (zero, f"total + {slots}[a + at]"),
        "cumprod": (one, f"total * {slots}[a + at]"),
        "cummax": (lowest, f"rt.maximum(total, {slots}[a + at])"),
    }
    return {
        f"{name} {kind}": _lines(_SCAN, start=start, plain=plain, **names)
        for name, (start, plain) in kinds.items()
    }


ROUTINES: dict[str, tuple[str, ...]] = {
    "fill": _lines(_FILL),
    "move": _lines(_MOVE),
    "move padded": _lines(_MOVE_PADDED),
    "copy": _lines(_COPY),
    "copy out": _lines(_COPY.replace("to = target\n", "to = extra[target]\n")),
    **_reductions("f8"),
    **_reductions("i8"),
    **_scans("f8"),
    **_scans("i8"),
    "recurrence": (
        "length = extra[row]",
        *_lines(
            _SCAN, start="0.0", slots="floats", reduced="length", inner="c",
            plain="floats[a + at] * total + floats[b + at]",
        ),
    ),
    "gather": _place("for i in range(c):", "    ints[other + i] = ints[indexed + i]"),
    "scatter_set": _place("for i in range(c):", "    ints[indexed + i] = ints[other + i]"),
    "scatter_add f8": _place(
        "for i in range(c):", "    floats[indexed + i] = floats[indexed + i] + floats[other + i]"
    ),
    "scatter_add i8": _place(
        "for i in range(c):", "    ints[indexed + i] = ints[indexed + i] + ints[other + i]"
    ),
    "product": _product(_PRODUCT_PLAIN),
    "product dot": _product(_PRODUCT_DOT),
    "product rows": _product(_PRODUCT_ROWS),
    **{f"product {count}": _product(_product_short(count)) for count in (1, 2, 3, 4)},
}  # fmt: skip
