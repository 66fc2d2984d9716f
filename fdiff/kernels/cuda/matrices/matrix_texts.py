"""Matrix products as device functions in Numba's language."""

from __future__ import annotations

# Each thread has entries of the result. The stride of an operand's rows is `down`, the
# stride of its columns `right`.
_PRODUCT = """\
def product(
    a, b, c, zero, stack, m, k, n, step_a, down_a, right_a, step_b, down_b, right_b, step_c, lead_c,
    thread, threads,
):
    e = thread
    while e < stack * m * n:
        row = rt.quotient(e, n)
        j = e - row * n
        s = rt.quotient(row, m)
        i = row - s * m
        x = s * step_a + i * down_a
        y = s * step_b + j * right_b
        total = zero
        for p in range(k):
            total = total + a[x + p * right_a] * b[y + p * down_b]
        c[s * step_c + i * lead_c + j] = total
        e = e + threads
"""

# The same where each thread has four entries of a column, for which it reads an entry of the
# second operand once (register tiling, an idea of V. Volkov and J. Demmel, Benchmarking GPUs to
# tune dense linear algebra, SC 2008). Of the last rows some are computed twice.
_PRODUCT_BY_FOURS = """\
def product_by_fours(
    a, b, c, zero, stack, m, k, n, step_a, down_a, right_a, step_b, down_b, right_b, step_c, lead_c,
    thread, threads,
):
    fours = rt.quotient(m + 3, 4)
    e = thread
    while e < stack * fours * n:
        row = rt.quotient(e, n)
        j = e - row * n
        s = rt.quotient(row, fours)
        i = min((row - s * fours) * 4, m - 4)
        x = s * step_a + i * down_a
        y = s * step_b + j * right_b
        total0 = zero
        total1 = zero
        total2 = zero
        total3 = zero
        for p in range(k):
            other = b[y + p * down_b]
            at = x + p * right_a
            total0 = total0 + a[at] * other
            total1 = total1 + a[at + down_a] * other
            total2 = total2 + a[at + 2 * down_a] * other
            total3 = total3 + a[at + 3 * down_a] * other
        to = s * step_c + i * lead_c + j
        c[to] = total0
        c[to + lead_c] = total1
        c[to + 2 * lead_c] = total2
        c[to + 3 * lead_c] = total3
        e = e + threads
"""

# An entry at a time, without terms in which an entry of the first operand (if `masked` is 1) or of
# the second (if it is 2) is -0.0 (`to_graph/masked_operands.py`).
_MASKED_PRODUCT = """\
def masked_product(
    a, b, c, zero, stack, m, k, n, step_a, down_a, right_a, step_b, down_b, right_b, step_c, lead_c,
    masked, thread, threads,
):
    e = thread
    while e < stack * m * n:
        row = rt.quotient(e, n)
        j = e - row * n
        s = rt.quotient(row, m)
        i = row - s * m
        total = zero
        for p in range(k):
            x = a[s * step_a + i * down_a + p * right_a]
            y = b[s * step_b + p * down_b + j * right_b]
            z = x if masked == 1 else y
            if z != 0 or not rt.signbit(z):
                total = total + x * y
        c[s * step_c + i * lead_c + j] = total
        e = e + threads
"""

# Tiles of both operands are in shared memory (NVIDIA, CUDA C++ Programming Guide, section "Shared
# Memory"); each thread of a block has one entry of the result.
TILED = """\
def tiled_product(
    a, b, c, zero, stack, m, k, n, step_a, lead_a, step_b, lead_b, step_c, lead_c, flip_a, flip_b,
    thread, block_number, blocks,
):
    left = cuda.shared.array((TILE, TILE + 1), TYPE)
    right = cuda.shared.array((TILE, TILE + 1), TYPE)
    down_a, right_a = (1, lead_a) if flip_a else (lead_a, 1)
    down_b, right_b = (1, lead_b) if flip_b else (lead_b, 1)
    tx = thread % TILE
    ty = thread // TILE
    across = rt.quotient(n + TILE - 1, TILE)
    down = rt.quotient(m + TILE - 1, TILE)
    tile = block_number
    while tile < stack * down * across:
        band = rt.quotient(tile, across)
        s = rt.quotient(band, down)
        i = (band - s * down) * TILE + ty
        j = (tile - band * across) * TILE + tx
        total = zero
        for q in range(rt.quotient(k + TILE - 1, TILE)):
            p = q * TILE
            x = zero
            y = zero
            if i < m and p + tx < k:
                x = a[s * step_a + i * down_a + (p + tx) * right_a]
            if p + ty < k and j < n:
                y = b[s * step_b + (p + ty) * down_b + j * right_b]
            left[ty, tx] = x
            right[ty, tx] = y
            cuda.syncthreads()
            for r in range(TILE):
                total = rt.fma(left[ty, r], right[r, tx], total)
            cuda.syncthreads()
        if i < m and j < n:
            c[s * step_c + i * lead_c + j] = total
        tile = tile + blocks
"""

HELPERS = {
    "product": _PRODUCT,
    "product_by_fours": _PRODUCT_BY_FOURS,
    "masked_product": _MASKED_PRODUCT,
}
