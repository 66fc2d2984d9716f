"""Calls of matrix routines as lines of kernels, or as steps of their own."""

from __future__ import annotations

from ...errors import CompileError
from ..ir.loops import NUMPY, Call
from .kernel_text import KernelTexts
from .program import LibraryCall, Numbers, evaluate

_COUNTS = 4  # sizes of a product: stack, rows, terms, columns
_MASKED = {"matmul": 0, "matmul_a": 1, "matmul_b": 2}
_TILE = 16


def product_lines(call: Call, numbers: Numbers, most: int) -> list[str]:
    """A product by the threads of one block; nothing if it has more than `most` terms.

    Any number of terms will do if `most` is negative.
    """
    name, dtype = call.routine.rsplit("_", 1)
    if name not in _MASKED:
        return []
    if most >= 0:
        terms = 1
        for count in call.sizes[:_COUNTS]:
            terms *= evaluate(count, numbers)
        if terms > most:
            return []
    return [f"product({_arguments(call, dtype)}, {_MASKED[name]}, thread, threads)"]


def _arguments(call: Call, dtype: str) -> str:
    begins = call.begins or ("",) * len(call.buffers)
    buffers = [
        f"rt.offset({name}, {begin})" if begin else name
        for name, begin in zip(call.buffers, begins, strict=True)
    ]
    return ", ".join((*buffers, f"{NUMPY[dtype]}(0)", *call.sizes))


def emit_call(call: Call, texts: KernelTexts, numbers: Numbers, memory: dict[str, str]) -> None:
    """The steps of a call: kernels of our own, or a routine of a library."""
    name, dtype = call.routine.rsplit("_", 1)
    if name in _MASKED:
        lines = [
            f"# {call.comment}",
            f"product({_arguments(call, dtype)}, {_MASKED[name]}, grid_thread, grid_threads)",
        ]
        stack, rows, _, columns = call.sizes[:_COUNTS]
        entries = f"{stack} * {rows} * {columns}"
        texts.launch(lines, f"max(1, min(65536, ({entries} + 255) // 256))", 256)
        return
    raise CompileError(f"no kernel for CUDA of {call.routine}")


_ = LibraryCall, _TILE
