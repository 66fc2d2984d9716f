"""Calls of matrix routines as lines of kernels, or as steps of their own."""

from __future__ import annotations

from math import isqrt

from ....errors import CompileError
from ...ir.expression_names import names_in
from ...ir.loops import NUMPY, PRODUCTS, Call
from ...ir.product_sizes import product_sizes
from ..cuda_program import LibraryCall, Numbers, evaluate
from ..devices.launch_sizes import Tuning
from ..kernel_text import KernelTexts
from .matrix_routines import EachMatrix, each_matrix
from .matrix_texts import TILED
from .register_matrices import RegisterRoutine, register_routine

_UNEVEN = 9  # rows of a product from which on their number need not be a multiple of four
_THREADS = ("status", "grid_thread", "grid_threads")  # last arguments of a routine of matrices


def product_lines(call: Call, numbers: Numbers, most: int | None = None) -> list[str]:
    """A product by the threads of one block; nothing if it has more than `most` terms."""
    if not call.is_product:
        return []
    if most is not None and terms_of(call, numbers) > most:
        return []
    return [_product(call, "thread, threads", fours=_has_fours(call, numbers))]


def emit_call(call: Call, texts: KernelTexts, numbers: Numbers, tuning: Tuning) -> None:
    """The steps of a call: kernels of our own, or a routine of a library."""
    if not call.is_product:
        _emit_routine(call, texts, numbers, tuning)
        return
    stack, rows, _, columns = product_sizes(call).counts
    if PRODUCTS[call.name]:
        lines = [_product(call, "grid_thread, grid_threads")]
        blocks = f"max(1, min({tuning.entry_blocks}, ({stack} * {rows} * {columns} + 255) // 256))"
        texts.launch([f"# {call.comment}", *lines], blocks, tuning.threads)
        return
    tile = isqrt(tuning.threads)
    up = tile - 1
    tiles = f"{stack} * ((({rows}) + {up}) // {tile}) * ((({columns}) + {up}) // {tile})"
    arguments = ", ".join((_operands(call), *call.sizes))
    lines = [f"tiled_product({arguments}, thread, block_number, blocks)"]
    library = None
    if terms_of(call, numbers) >= tuning.library_terms:
        library = LibraryCall(call)
    helper = TILED.replace("TILE", str(tile)).replace("TYPE", NUMPY[call.dtype])
    texts.launch(
        [f"# {call.comment}", *lines], f"max(1, min({tuning.entry_blocks}, {tiles}))", tile * tile,
        helper=helper, library=library,
    )  # fmt: skip


def terms_of(call: Call, numbers: Numbers) -> int:
    """How many terms the sums of a product have in all."""
    terms = 1
    for count in product_sizes(call).counts:
        terms *= evaluate(count, numbers)
    return terms


def _has_fours(call: Call, numbers: Numbers) -> bool:
    """Whether threads take four rows each.

    There have to be four; the last four overlap those before, unless all are a multiple of four,
    so that few of many rows are computed twice.
    """
    count = product_sizes(call).counts[1]
    if not numbers.keys() >= set(names_in(count)):
        return False  # rows of a tile, the last of which has fewer
    rows = evaluate(count, numbers)
    return rows >= 4 and (rows % 4 == 0 or rows >= _UNEVEN)


def _product(call: Call, team: str, *, fours: bool = False) -> str:
    """The line that computes a product, by the threads of a team."""
    counts, ((step_a, lead_a), (step_b, lead_b), result), (flip_a, flip_b) = product_sizes(call)
    strides_a, strides_b = _strides(lead_a, flip_a), _strides(lead_b, flip_b)
    sizes = (*counts, step_a, *strides_a, step_b, *strides_b, *result)
    masked = [str(PRODUCTS[call.name])] if PRODUCTS[call.name] else []
    helper = "masked_product" if masked else "product_by_fours" if fours else "product"
    return f"{helper}({', '.join((_operands(call), *sizes, *masked, team))})"


def _strides(lead: str, flip: str) -> tuple[str, str]:
    """The strides of rows and columns of an operand, which is transposed if `flip` is 1."""
    return ("1", lead) if flip == "1" else (lead, "1")


def _operands(call: Call) -> str:
    """The buffers of a product from where they begin, and the zero of its dtype."""
    begins = call.begins or ("",) * len(call.buffers)
    buffers = [
        f"rt.offset({name}, {begin})" if begin else name
        for name, begin in zip(call.buffers, begins, strict=True)
    ]
    return ", ".join((*buffers, f"{NUMPY[call.dtype]}(0)"))


def _emit_routine(call: Call, texts: KernelTexts, numbers: Numbers, tuning: Tuning) -> None:
    """A routine of square matrices: a thread for each matrix, a library for large ones."""
    each = each_matrix(call.name, call.dtype)
    if each is None:
        raise CompileError(f"there is no kernel for CUDA of {call.routine}")
    stack, order, *columns = call.sizes
    n = evaluate(order, numbers)
    if n > tuning.thread_order:
        texts.step(LibraryCall(call))
        return
    if n <= tuning.register_order and (own := register_routine(call.name, call.dtype, n)):
        arguments = [*call.buffers[: own.buffers], stack, *columns, *_THREADS]
        _launch_each(call, texts, tuning, own, arguments)
        return
    buffers = [*call.buffers[: each.buffers]]
    if each.row:
        buffers.append(texts.partial("f8", (stack, order)))
    lu = texts.partial("f8", (stack, order, order))
    rows = texts.partial("i8", (stack, "2", order))
    arguments = [*buffers, lu, rows, stack, order, *columns, *_THREADS]
    _launch_each(call, texts, tuning, each, arguments)


def _launch_each(
    call: Call,
    texts: KernelTexts,
    tuning: Tuning,
    own: EachMatrix | RegisterRoutine,
    arguments: list[str],
) -> None:
    """A kernel whose threads have matrices of their own."""
    threads = min(tuning.threads, 32)
    blocks = f"max(1, min({tuning.entry_blocks}, (({call.sizes[0]}) + {threads - 1}) // {threads}))"
    lines = [f"# {call.comment}", f"{own.name}({', '.join(arguments)})"]
    texts.launch(lines, blocks, threads, helper=own.text + "\n\n")
