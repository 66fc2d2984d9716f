"""Matrix products: plain loops for small matrices, BLAS for the others.

How texts are written, `routines` tells.
"""

from __future__ import annotations

# ``c[:n] = row @ b``: four rows of `b` at once, so that `c` is read less often.
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

# By BLAS, which sees transposes: c' = b' a'.
_LARGE = """
def large(
    a: "ENTRY*", lead_a: "i8", b: "ENTRY*", lead_b: "i8", c: "ENTRY*", lead_c: "i8",
    m: "i8", k: "i8", n: "i8", blas: "i8*",
):
    one = np.REAL(1)
    none = np.REAL(0)
    if n == 1 and not FLIP_B and lead_b == 1 and lead_c == 1:
        rows = m if FLIP_A else k
        across = k if FLIP_A else m
        how = "n" if FLIP_A else "t"
        rt.fortran(blas[GEMV], how, rows, across, one, a, lead_a, b, 1, none, c, 1)
        return 0
    left = "t" if FLIP_B else "n"
    right = "t" if FLIP_A else "n"
    rt.fortran(blas[GEMM], left, right, n, m, k, one, b, lead_b, a, lead_a, none, c, lead_c)
    return 0
"""

# ``c = a @ b`` for stacks of matrices, either operand stored transposed. For each operand and the
# result, how far one matrix lies from the next, and one row from the next: matrices may lie
# interleaved in memory, as views of arrays with more axes.
_MATMUL = """
def matmul(
    a: "ENTRY*", b: "ENTRY*", c: "ENTRY*", stack: "i8", m: "i8", k: "i8", n: "i8",
    step_a: "i8", lead_a: "i8", step_b: "i8", lead_b: "i8", step_c: "i8", lead_c: "i8", blas: "i8*",
):
    few = m * n * k < BLAS_FROM
    turned = rt.REAL(rt.room(min(k * n, BLAS_FROM) if FLIP_B else 1))  # no rows, no need
    for s in range(stack):
        x = rt.at(a, s * step_a)
        y = rt.at(b, s * step_b)
        z = rt.at(c, s * step_c)
        if not few:
            large(x, lead_a, y, lead_b, z, lead_c, m, k, n, blas)
            continue
        if FLIP_B and m > 0:
            for j in range(n):
                for p in range(k):
                    turned[p * n + j] = y[j * lead_b + p]
        step = lead_a if FLIP_A else 1
        down = 1 if FLIP_A else lead_a
        below = turned if FLIP_B else y
        lead = n if FLIP_B else lead_b
        for i in range(m):
            row(rt.at(z, i * lead_c), rt.at(x, i * down), step, below, lead, k, n)
    return 0
"""


def _flipped(flip_a: int, flip_b: int) -> tuple[str, ...]:
    texts = (_ROW, _LARGE, _MATMUL)
    return tuple(
        t.replace("FLIP_A", str(bool(flip_a))).replace("FLIP_B", str(bool(flip_b))) for t in texts
    )


PRODUCTS = {f"matmul{i}{j}": _flipped(i, j) for i in (0, 1) for j in (0, 1)}
