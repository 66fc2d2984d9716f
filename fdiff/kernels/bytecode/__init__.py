"""The bytecode interpreter: machine code that runs tapes given as data.

Between the interpreter (about 1 us a node) and kernels (fast, but compiled for each structure at 1
ms a node), for long tapes. `prepare` encodes a tape: docs/decisions/bytecode-interpreter.md.
"""

from __future__ import annotations

from ...tape import Tape
from .assembler import RefusedError as RefusedError
from .bytecode_compiler import encode
from .execution import BytecodeExecutable as BytecodeExecutable
from .execution import provide as provide
from .execution import smallest_interpreter, wanted


def prepare(tape: Tape) -> BytecodeExecutable:
    """The program of `tape`; `RefusedError` if it is not for the bytecode interpreter."""
    return BytecodeExecutable(encode(tape, smallest_interpreter, wanted()))
