"""Errors that end a run on traced arguments, and the words for errors of code written in C."""

from __future__ import annotations

from ..errors import FdiffError, TraceError


class RunAgainError(Exception):
    """A run failed because it met inputs in place of numbers, and it has written nothing so far."""


class ManyQuestionsError(BaseException):
    """A run was left because it asked for many values; code that catches any Exception lets it go.

    The function is traced again, with loops that choose their branches.
    """


class NoSessionError(Exception):
    """An operator was called while one call on recorded arrays is traced.

    Such a trace belongs to that call alone, and does not watch the reads of the function.
    """


def words_of_refusal(error: Exception) -> tuple[str, str] | None:
    """Fact and way out for an error that C code raised because it met a traced array."""
    if "TracedKey" in str(error) or "buffer API" in str(error):
        return (
            f"the bytes of a differentiated array were read as numbers or text ({error}).",
            "Look up `x.tobytes()` itself, or what is made of fdiff.stop_gradient(x).",
        )
    if isinstance(error.__cause__, TraceError):  # NumPy's words for a refused __float__
        return (
            "a traced value was stored into an array of numbers, which would drop its derivative.",
            "Store into a copy made in the function: `a = np.array(a)`.",
        )
    if "TracedArray" in str(error) and not isinstance(error, FdiffError):
        return (
            f"a traced array met code that takes numbers or memory alone ({error}).",
            "Use numpy functions; or return the value (has_aux=True), and use it outside.",
        )
    if "not supported for the input types" in str(error) and _in_masked_arrays(error):
        return (
            f"a function of numpy.ma met a traced array ({error}).",
            "Use numpy.where with a mask, or take `a.filled(0.0)` and `~a.mask` outside of it.",
        )
    return None


def _in_masked_arrays(error: Exception) -> bool:
    """Whether code of `numpy.ma` raised an error."""
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    name = "" if traceback is None else traceback.tb_frame.f_globals.get("__name__")
    return str(name).startswith("numpy.ma")
