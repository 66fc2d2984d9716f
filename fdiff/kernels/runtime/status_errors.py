"""Status codes of kernels that could not finish: docs/decisions/one-flag-per-loop.md."""

from __future__ import annotations

from numpy.linalg import LinAlgError

from ...errors import ConvergenceError
from ...ops.control.loop_operands import exceeded
from ...ops.shapes.dynamic_slices import LEAVES

OUT_OF_BOUNDS = 1  # an index lies outside of its array
SINGULAR = 2  # a matrix is singular
INDEFINITE = 3  # a matrix is not positive definite
ZERO_AT = 16  # plus k: the diagonal of a triangular matrix is zero at position k
# An argument of sin, cos or tan is too large for `rt.sin` and its like. It has to be -1, all bits
# ones: that is the flag itself, widened. Any other number LLVM selects by the flag, and its pass
# "jump threading" then freezes the flag within the loop, which is no longer vectorised for that.
OUT_OF_RANGE = -1
STOPPED = 5  # an exception has ended the wait for a kernel whose loops went on
ABANDONED = -3  # a worker left the kernel because another one had
NOT_CONVERGED = -4  # minus the number of trips that a loop may have

# Those that routines return, by the words for them in their texts.
ROUTINE_STATUS = {"SINGULAR": SINGULAR, "INDEFINITE": INDEFINITE, "ZERO_AT": ZERO_AT}


def error_of(status: int) -> Exception:
    """The exception that a kernel's status stands for, as NumPy and SciPy raise it."""
    if status <= NOT_CONVERGED:
        return ConvergenceError(exceeded(NOT_CONVERGED - status))
    if status == OUT_OF_BOUNDS:
        return IndexError(f"index is out of bounds, or {LEAVES}")
    if status == SINGULAR:
        return LinAlgError("Singular matrix")
    if status >= ZERO_AT:
        return LinAlgError(f"singular matrix: resolution failed at diagonal {status - ZERO_AT}")
    if status == INDEFINITE:
        return LinAlgError("Matrix is not positive definite")
    raise AssertionError(f"no error has the status {status}")  # callers answer the other codes
