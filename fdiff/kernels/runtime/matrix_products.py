"""Matrix products: loops for tiny matrices, register blocks for small ones, gemm for the others.

How texts are written, `routines` tells. Register blocks: K. Goto and R. van de Geijn, Anatomy of
high-performance matrix multiplication, ACM TOMS 34(3), 2008, section 6.1.
"""

from __future__ import annotations

from .macros import define

# ``c[:n] = row @ b``, four rows of `b` at a time, so that `c` is read and written less often.
_ROW = """
def row(c: "ENTRY*", a: "ENTRY*", step: "i8", b: "ENTRY*", lead: "i8", k: "i8", n: "i8"):
    for j in range(n):
        c[j] = 0
    last = k - k % 4
    for p in range(0, last, 4):
        f0 = a[p * step]
        f1 = a[(p + 1) * step]
        f2 = a[(p + 2) * step]
        f3 = a[(p + 3) * step]
        q = p * lead
        for j in range(n):
            left = rt.add(rt.multiply(f0, b[q + j]), rt.multiply(f1, b[q + lead + j]))
            right = rt.add(
                rt.multiply(f2, b[q + 2 * lead + j]), rt.multiply(f3, b[q + 3 * lead + j])
            )
            c[j] = rt.add(c[j], rt.add(left, right))
    for p in range(last, k):
        f4 = a[p * step]
        for j in range(n):
            c[j] = rt.add(c[j], rt.multiply(f4, b[p * lead + j]))
    return 0
"""


def _block(rows: int, vectors: int) -> str:
    """``c = a @ b`` for `rows` rows and `vectors` vectors of columns, with `c` in registers.

    The micro-kernel of Goto and van de Geijn (Anatomy of high-performance matrix multiplication,
    ACM TOMS 34(3), 2008, figure 8).
    """
    each = [(r, v) for r in range(rows) for v in range(vectors)]
    lines = [
        f"def block{rows}{vectors}(",
        '    c: "ENTRY* noalias", lead_c: "i8", a: "ENTRY* noalias", down: "i8", step: "i8",',
        '    b: "ENTRY* noalias", lead: "i8", k: "i8",',
        "):",
        *[f"    c{r}{v} = rt.broadcast(np.REAL(0), LANES)" for r, v in each],
        "    for p in range(k):",
        *[
            f"        b{v} = rt.load_vector(b, p * lead + {v} * LANES, LANES)"
            for v in range(vectors)
        ],
        *[f"        a{r} = rt.broadcast(a[{r} * down + p * step], LANES)" for r in range(rows)],
        *[f"        c{r}{v} = rt.add(c{r}{v}, rt.multiply(a{r}, b{v}))" for r, v in each],
        *[f"    rt.store_vector(c, {r} * lead_c + {v} * LANES, c{r}{v})" for r, v in each],
        "    return 0",
    ]
    return "\n".join(["", *lines, ""])


_SHAPES = [_block(rows, vectors) for rows in (1, 4) for vectors in (1, 2)]

# Packing: a panel of columns of `b` copied to lie together, as in a matrix with long rows each
# entry of a column is in a cache line of its own.
_PANEL = """
def panel_of(
    room: "ENTRY* noalias", b: "ENTRY* noalias", lead: "i8", k: "i8", n: "i8", flip: "i8"
):
    if flip:
        for j in range(n):
            for p in range(k):
                room[p * n + j] = b[j * lead + p]
    else:
        for q in range(k):
            for v in range(0, n, LANES):
                rt.store_vector(room, q * n + v, rt.load_vector(b, q * lead + v, LANES))
    return 0
"""

# The product by blocks, for at least a vector of columns; the last block overlaps the one before.
_BLOCKS = """
def blocks(
    c: "ENTRY*", lead_c: "i8", a: "ENTRY*", down: "i8", step: "i8", b: "ENTRY*", lead: "i8",
    m: "i8", k: "i8", n: "i8", room: "ENTRY*", packed: "i8", flip: "i8",
):
    j = 0
    while j < n:
        wide = n - j > LANES and n >= 2 * LANES
        width = 2 * LANES if wide else LANES
        begin = min(j, n - width)
        columns = rt.offset(b, begin * lead if flip else begin)
        if packed:
            panel_of(room, columns, lead, k, width, flip)
            columns = room
        across = width if packed else lead
        i = 0
        while i < m:
            r = i if m < 4 else min(i, m - 4)
            to = rt.offset(c, r * lead_c + begin)
            line = rt.offset(a, r * down)
            if wide and m >= 4:
                block42(to, lead_c, line, down, step, columns, across, k)
            elif m >= 4:
                block41(to, lead_c, line, down, step, columns, across, k)
            elif wide:
                block12(to, lead_c, line, down, step, columns, across, k)
            else:
                block11(to, lead_c, line, down, step, columns, across, k)
            i = i + (1 if m < 4 else 4)
        j = j + width
    return 0
"""

# ``c = a @ b'`` by dot products, four rows of each operand at a time: for long rows, of which
# nothing has to be packed.
_FOUR = [(r, q) for r in range(4) for q in range(4)]
_DOTS = "\n".join(
    [
        "",
        "def dots44(",
        '    c: "ENTRY* noalias", lead_c: "i8", a: "ENTRY* noalias", lead_a: "i8",',
        '    b: "ENTRY* noalias", lead_b: "i8", k: "i8",',
        "):",
        *[f"    s{r}{q} = rt.broadcast(np.REAL(0), LANES)" for r, q in _FOUR],
        "    last = k - k % LANES",
        "    for p in range(0, last, LANES):",
        *[f"        a{r} = rt.load_vector(a, {r} * lead_a + p, LANES)" for r in range(4)],
        *[f"        b{q} = rt.load_vector(b, {q} * lead_b + p, LANES)" for q in range(4)],
        *[f"        s{r}{q} = rt.add(s{r}{q}, rt.multiply(a{r}, b{q}))" for r, q in _FOUR],
        *[f"    t{r}{q} = rt.sum_vector(s{r}{q})" for r, q in _FOUR],
        "    for p in range(last, k):",
        "        rt.keep_scalar()",
        *[f"        e{r} = a[{r} * lead_a + p]" for r in range(4)],
        *[f"        g{q} = b[{q} * lead_b + p]" for q in range(4)],
        *[f"        t{r}{q} = rt.add(t{r}{q}, rt.multiply(e{r}, g{q}))" for r, q in _FOUR],
        *[f"    c[{r} * lead_c + {q}] = t{r}{q}" for r, q in _FOUR],
        "    return 0",
        "",
        "",
        "def dots(",
        '    c: "ENTRY*", lead_c: "i8", a: "ENTRY*", lead_a: "i8", b: "ENTRY*", lead_b: "i8",',
        '    m: "i8", k: "i8", n: "i8",',
        "):",
        "    for i in range(0, m, 4):",
        "        r = min(i, m - 4)",
        "        for j in range(0, n, 4):",
        "            q = min(j, n - 4)",
        "            to = rt.offset(c, r * lead_c + q)",
        "            line = rt.offset(a, r * lead_a)",
        "            dots44(to, lead_c, line, lead_a, rt.offset(b, q * lead_b), lead_b, k)",
        "    return 0",
        "",
    ]
)

# By gemm or gemv, for which row-major matrices are transposes: c' = b' a'.
_LARGE = """
def large(
    a: "ENTRY*", lead_a: "i8", b: "ENTRY*", lead_b: "i8", c: "ENTRY*", lead_c: "i8",
    m: "i8", k: "i8", n: "i8", flip_a: "i8", flip_b: "i8", blas: "i8*",
):
    one = np.REAL(1)
    none = np.REAL(0)
    if n == 1 and not flip_b and lead_b == 1 and lead_c == 1:
        rows = m if flip_a else k
        across = k if flip_a else m
        how = PLAIN if flip_a else TURNED
        rt.fortran11(blas[GEMV], how, rows, across, one, a, lead_a, b, 1, none, c, 1)
        return 0
    left = TURNED if flip_b else PLAIN
    right = TURNED if flip_a else PLAIN
    rt.fortran13(blas[GEMM], left, right, n, m, k, one, b, lead_b, a, lead_a, none, c, lead_c)
    return 0
"""

# ``c = a @ b`` for stacks of matrices, either operand stored transposed (`flip_a`, `flip_b`). For
# each operand and the result, how far one matrix lies from the next, and one row from the next:
# matrices may lie interleaved in memory, as views of arrays with more axes.
_MATMUL = """
def matmul(
    a: "ENTRY*", b: "ENTRY*", c: "ENTRY*", stack: "i8", m: "i8", k: "i8", n: "i8",
    step_a: "i8", lead_a: "i8", step_b: "i8", lead_b: "i8", step_c: "i8", lead_c: "i8",
    flip_a: "i8", flip_b: "i8", blas: "i8*",
):
    # blocks are faster than one thread of gemm, as long as a panel stays in the cache
    packed = flip_b or (m >= 16 and k * lead_b > PANEL)
    wide = n >= LANES and m * n * k <= blas[BLOCKS_TO] and not (packed and 2 * LANES * k > PANEL)
    few = wide or m * n * k < BLAS_FROM
    size = 2 * LANES * k if wide else min(k * n, BLAS_FROM)
    # few rows of many entries each: copying a panel would take as long as multiplying by it
    long = flip_b and not flip_a and 4 <= m < 64 and 4 <= n < 64 and k >= 4 * LANES
    room = rt.REAL(rt.stack(size if packed and few else 1))
    for s in range(stack):
        x = rt.offset(a, s * step_a)
        y = rt.offset(b, s * step_b)
        z = rt.offset(c, s * step_c)
        step = lead_a if flip_a else 1
        down = 1 if flip_a else lead_a
        if long:
            dots(z, lead_c, x, lead_a, y, lead_b, m, k, n)
        elif wide:
            blocks(z, lead_c, x, down, step, y, lead_b, m, k, n, room, packed, flip_b)
        elif not few:
            large(x, lead_a, y, lead_b, z, lead_c, m, k, n, flip_a, flip_b, blas)
        elif m > 0:
            if flip_b:
                panel_of(room, y, lead_b, k, n, 1)
            below = room if flip_b else y
            lead = n if flip_b else lead_b
            for i in range(m):
                row(rt.offset(z, i * lead_c), rt.offset(x, i * down), step, below, lead, k, n)
    return 0
"""


# The same where an operand is masked (`to_graph/masked_operands.py`): terms in which it is -0.0
# are left out. That matters only where a sum is not finite: it is added up again without them.
_MATMUL_MASKED = """
def add_up(
    z: "ENTRY*", x: "ENTRY*", down: "i8", step: "i8", y: "ENTRY*", below: "i8", across: "i8",
    i: "i8", j: "i8", k: "i8",
):
    total = np.REAL(0)
    for p in range(k):
        if math.copysign(np.REAL(1), MASKED) > 0 or MASKED != 0:
            total = total + x[i * down + p * step] * y[p * below + j * across]
    z[j] = total
    return 0


def NAME(
    a: "ENTRY*", b: "ENTRY*", c: "ENTRY*", stack: "i8", m: "i8", k: "i8", n: "i8",
    step_a: "i8", lead_a: "i8", step_b: "i8", lead_b: "i8", step_c: "i8", lead_c: "i8",
    flip_a: "i8", flip_b: "i8", blas: "i8*",
):
    matmul(
        a, b, c, stack, m, k, n, step_a, lead_a, step_b, lead_b, step_c, lead_c, flip_a, flip_b,
        blas,
    )
    step = lead_a if flip_a else 1
    down = 1 if flip_a else lead_a
    below = 1 if flip_b else lead_b
    across = lead_b if flip_b else 1
    for s in range(stack):
        x = rt.offset(a, s * step_a)
        y = rt.offset(b, s * step_b)
        for i in range(m):
            z = rt.offset(c, s * step_c + i * lead_c)
            none = np.REAL(0)
            for j in range(n):
                none = rt.add(none, rt.multiply(z[j], np.REAL(0)))
            if none != 0:
                for j in range(n):
                    if z[j] - z[j] != 0:
                        add_up(z, x, down, step, y, below, across, i, j, k)
    return 0
"""


def _without_masked(operand: str) -> str:
    """`_MATMUL_MASKED` for operand ``a`` or ``b``."""
    entry = {"a": "x[i * down + p * step]", "b": "y[p * below + j * across]"}[operand]
    return define(_MATMUL_MASKED, {"MASKED": entry, "NAME": f"matmul_{operand}"})


_PRODUCT = (_ROW, *_SHAPES, _PANEL, _BLOCKS, _DOTS, _LARGE, _MATMUL)
PRODUCTS = {
    "matmul": _PRODUCT,
    "matmul_a": (*_PRODUCT, _without_masked("a")),
    "matmul_b": (*_PRODUCT, _without_masked("b")),
}
