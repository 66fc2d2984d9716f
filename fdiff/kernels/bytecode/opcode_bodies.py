"""What bytecode does that is not elementwise: lines of text by the name of the opcode.

They read ``m``, ``d``, ``a``, ``b``, ``c``, ``s`` and ``x`` of the instruction (`opcodes`), the
slots of the workspace as ``floats`` or ``ints``, and further numbers from row ``x`` of ``extra``.
"""

from __future__ import annotations

from textwrap import dedent

RANK = 4  # loops of a copy and of a product, after axes that lie in one another were joined


def _lines(text: str, **names: str) -> tuple[str, ...]:
    for name, value in names.items():
        text = text.replace(f"<{name}>", value)
    return tuple(line for line in dedent(text).splitlines() if line.strip())


def _numbers(names: str) -> str:
    """Statements that read these from row ``x`` of ``extra``."""
    return "".join(f"    {name} = extra[x + {k}]\n" for k, name in enumerate(names.split()))


# --- moving entries, whatever their dtype -------------------------------------------------------
_FILL = """
    word = ints[a]
    for i in range(m):
        ints[d + i] = word
"""
_MOVE = """
    for i in range(m):
        ints[d + i] = ints[a + i]
"""
_MOVE_PADDED = """
    for i in range(8 * m):
        ints[d + i] = ints[a + i]
"""
# A copy into an array of the caller's finds its destination in `extra`, as it lies far away.
# extra: four lengths, four steps of the source, four of the destination; the last axis innermost
_COPY = (
    "    to = d\n"
    + _numbers("c0 c1 c2 c3 from0 from1 from2 from3 to0 to1 to2 to3")
    + """\
    for j0 in range(c0):
        for j1 in range(c1):
            for j2 in range(c2):
                e = a + j0 * from0 + j1 * from1 + j2 * from2
                g = to + j0 * to0 + j1 * to1 + j2 * to2
                if to3 == 1 and from3 == 1 and c3 < 8:
                    for i in range(c3):
                        rt.keep_scalar()
                        ints[g + i] = ints[e + i]
                elif to3 == 1 and from3 == 1:
                    for i in range(c3):
                        ints[g + i] = ints[e + i]
                elif to3 == 1 and from3 == 0:
                    word = ints[e]
                    for i in range(c3):
                        ints[g + i] = word
                else:
                    for i in range(c3):
                        ints[g + i * to3] = ints[e + i * from3]
"""
)
# --- reductions and scans: m outer, b reduced, c inner entries, in order ------------------------
_REDUCE = """
    if c == 1:
        for j in range(m):
            q = a + j * b
            <acc> = <start>
            for i in range(b):
                <word> = <load>[q + i]
                <acc> = <fast>
            <load>[d + j] = <acc>
    else:
        for j in range(m):
            q = a + j * b * c
            g = d + j * c
            for i in range(c):
                <load>[g + i] = <first>
            for k in range(<from> b):
                e = q + k * c
                for i in range(c):
                    <acc> = <load>[g + i]
                    <word> = <load>[e + i]
                    <load>[g + i] = <plain>
"""
_ARGUMENT = """
    for j in range(m):
        for k in range(c):
            q = a + j * b * c + k
            <acc> = <load>[q]
            pick = 0
            for i in range(1, b):
                <word> = <load>[q + i * c]
                if <word> <op> <acc><nan>:
                    <acc> = <word>
                    pick = i
            ints[d + j * c + k] = pick
"""
# s is 1 for a scan that runs from the end
_SCAN = """
    step = -c if s == 1 else c
    for j in range(m):
        for k in range(c):
            q = j * b * c + k + ((b - 1) * c if s == 1 else 0)
            <acc> = <start>
            for i in range(b):
                e = q + i * step
                <acc> = <plain>
                <load>[d + e] = <acc>
"""
# --- index arrays: extra holds, for each of `b` of them, where it lies, the length and step of its
# axis; then where the other operand lies; `c` entries lie side by side behind each index ---------
_PLACE = """
    base = extra[x + 3 * b]
    for j in range(m):
        e = base
        for k in range(b):
            at = ints[extra[x + 3 * k] + j]
            size = extra[x + 3 * k + 1]
            if at < 0:
                at = at + size
            if at < 0 or at >= size:
                return 1
            e = e + at * extra[x + 3 * k + 2]
        g = d + j * c
        <body>
"""


def _place(*body: str) -> tuple[str, ...]:
    lines = _lines(_PLACE)
    return (*lines[:-1], *("    " + line for line in body))


# --- products: extra holds four lengths, the steps of both operands and of the result, then two
# lengths of summed axes and the steps of both operands there --------------------------------------
_PRODUCT = (
    _numbers("c0 c1 c2 c3 a0 a1 a2 a3 b0 b1 b2 b3 o0 o1 o2 o3 k0 k1 ak0 ak1 bk0 bk1")
    + """\
    for j0 in range(c0):
        for j1 in range(c1):
            for j2 in range(c2):
                e = a + j0 * a0 + j1 * a1 + j2 * a2
                g = b + j0 * b0 + j1 * b1 + j2 * b2
                q = d + j0 * o0 + j1 * o1 + j2 * o2
                <body>
"""
)
_PRODUCT_PLAIN = """
    for i in range(c3):
        fz = 0.0
        for k in range(k0):
            ea = e + i * a3 + k * ak0
            eb = g + i * b3 + k * bk0
            for kk in range(k1):
                fz = fz + floats[ea + kk * ak1] * floats[eb + kk * bk1]
        floats[q + i * o3] = fz
"""
_PRODUCT_DOT = """
    for i in range(c3):
        fz = 0.0
        for k in range(k0):
            ea = e + i * a3 + k * ak0
            eb = g + i * b3 + k * bk0
            for kk in range(k1):
                fz = rt.add(fz, floats[ea + kk] * floats[eb + kk])
        floats[q + i * o3] = fz
"""
# The result's last axis and the second operand's lie side by side, the first operand has none: rows
# are added, four at a time, in the order of the sum.
_PRODUCT_ROWS = """
    for i in range(c3):
        floats[q + i] = 0.0
    for k in range(k0):
        ea = e + k * ak0
        eb = g + k * bk0
        kk = 0
        while kk + 4 <= k1:
            f0 = floats[ea]
            f1 = floats[ea + ak1]
            f2 = floats[ea + 2 * ak1]
            f3 = floats[ea + 3 * ak1]
            r1 = eb + bk1
            r2 = r1 + bk1
            r3 = r2 + bk1
            for i in range(c3):
                fz = floats[q + i] + f0 * floats[eb + i] + f1 * floats[r1 + i]
                floats[q + i] = fz + f2 * floats[r2 + i] + f3 * floats[r3 + i]
            ea = ea + 4 * ak1
            eb = eb + 4 * bk1
            kk = kk + 4
        while kk < k1:
            f4 = floats[ea]
            for i in range(c3):
                floats[q + i] = floats[q + i] + f4 * floats[eb + i]
            ea = ea + ak1
            eb = eb + bk1
            kk = kk + 1
"""


def _product_short(count: int) -> str:
    """A sum of few terms: the first operand's entries are read once where it has no last axis."""
    terms = range(count)
    loads = "\n".join(f"f{k} = floats[e + {k} * ak1]" for k in terms)
    total = " + ".join(f"f{k} * floats[eb + {k} * bk1]" for k in terms)
    again = " + ".join(f"floats[ea + {k} * ak1] * floats[eb + {k} * bk1]" for k in terms)
    return "\n".join(
        [
            "if a3 == 0:", *("    " + line for line in loads.splitlines()),
            "    for i in range(c3):", "        eb = g + i * b3",
            f"        floats[q + i * o3] = {total}",
            "else:", "    for i in range(c3):", "        ea = e + i * a3",
            "        eb = g + i * b3", f"        floats[q + i * o3] = {again}",
        ]
    )  # fmt: skip


def _product(body: str) -> tuple[str, ...]:
    lines = _lines(_PRODUCT)
    return (*lines[:-1], *("            " + line for line in dedent(body).splitlines() if line))


# --- the table ----------------------------------------------------------------------------------
def _reductions(kind: str) -> dict[str, tuple[str, ...]]:
    """Opcodes of reductions, of floats (``f8``) or of integers and truth values (``i8``)."""
    load, letter = ("floats", "f") if kind == "f8" else ("ints", "i")
    zero, one = ("0.0", "1.0") if kind == "f8" else ("0", "1")
    acc, word = f"{letter}z", f"{letter}0"
    names = {"load": load, "acc": acc, "word": word}
    out: dict[str, tuple[str, ...]] = {}

    def add(name: str, start: str, first: str, begin: str, plain: str, fast: str = "") -> None:
        texts = {"start": start, "first": first, "from": begin, "plain": plain}
        out[f"{name} {kind}"] = _lines(_REDUCE, fast=fast or plain, **texts, **names)

    add("sum", zero, zero, "0,", f"{acc} + {word}", f"rt.add({acc}, {word})")
    add("prod", one, one, "0,", f"{acc} * {word}", f"rt.multiply({acc}, {word})")
    add("max", f"{load}[q]", f"{load}[q + i]", "1,", f"rt.maximum({acc}, {word})")
    add("min", f"{load}[q]", f"{load}[q + i]", "1,", f"rt.minimum({acc}, {word})")
    if kind == "i8":  # of truth values
        add("any", "0", "0", "0,", f"{acc} | {word}")
        add("all", "1", "1", "0,", f"{acc} & {word}")
    nan = f" or ({word} != {word} and {acc} == {acc})" if kind == "f8" else ""
    for name, op in (("argmax", ">"), ("argmin", "<")):
        out[f"{name} {kind}"] = _lines(_ARGUMENT, op=op, nan=nan, **names)
    return out


def _scans(kind: str) -> dict[str, tuple[str, ...]]:
    load, acc = ("floats", "fz") if kind == "f8" else ("ints", "iz")
    zero, one, lowest = ("-0.0", "1.0", "-math.inf") if kind == "f8" else ("0", "1", "ints[a + q]")
    entry = f"{load}[a + e]"
    kinds = {
        "cumsum": (zero, f"{acc} + {entry}"),
        "cumprod": (one, f"{acc} * {entry}"),
        "cummax": (lowest, f"rt.maximum({acc}, {entry})"),
    }
    return {
        f"{name} {kind}": _lines(_SCAN, start=start, plain=plain, load=load, acc=acc)
        for name, (start, plain) in kinds.items()
    }


_RECURRENCE = (
    _SCAN.replace("b * c", "n * c").replace("(b - 1)", "(n - 1)").replace("range(b)", "range(n)")
)
ROUTINES: dict[str, tuple[str, ...]] = {
    "fill": _lines(_FILL),
    "move": _lines(_MOVE),
    "move padded": _lines(_MOVE_PADDED),
    "copy": _lines(_COPY),
    "copy out": _lines(_COPY.replace("to = d\n", "to = extra[d]\n")),
    **_reductions("f8"),
    **_reductions("i8"),
    **_scans("f8"),
    **_scans("i8"),
    "recurrence": (
        "n = extra[x]",
        *_lines(
            _RECURRENCE, start="0.0", acc="fz", load="floats",
            plain="floats[a + e] * fz + floats[b + e]",
        ),
    ),
    "gather": _place("for i in range(c):", "    ints[g + i] = ints[e + i]"),
    "scatter_set": _place("for i in range(c):", "    ints[e + i] = ints[g + i]"),
    "scatter_add f8": _place(
        "for i in range(c):", "    floats[e + i] = floats[e + i] + floats[g + i]"
    ),
    "scatter_add i8": _place("for i in range(c):", "    ints[e + i] = ints[e + i] + ints[g + i]"),
    "product": _product(_PRODUCT_PLAIN),
    "product dot": _product(_PRODUCT_DOT),
    "product rows": _product(_PRODUCT_ROWS),
    **{f"product {count}": _product(_product_short(count)) for count in (1, 2, 3, 4)},
}  # fmt: skip
