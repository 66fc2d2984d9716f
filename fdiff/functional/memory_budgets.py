"""`memory_budget`: how much memory loops may take for their reverse mode."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from ..errors import InputError, failure, shown
from ..transforms.loop_memory import budget
from .options import is_int


@contextmanager
def memory_budget(size: int) -> Generator[None]:
    """Choose how many bytes a loop may keep for its reverse mode.

    A reverse loop reads the carries of all trips. Where they do not fit, those of some trips are
    kept, and the others are computed again, from there. Results are the same to the last bit.

    Parameters
    ----------
    size : int
        Bytes that each loop may keep. The default is a quarter of the free memory, at most 1 GB.

    Returns
    -------
    context manager
        It applies to functions that are prepared and first called inside, in this thread.

    Raises
    ------
    InputError
        If `size` is no number of bytes.

    Notes
    -----
    A loop of `n` trips is cut into segments of about the square root of `n` trips, and those again
    where need be. Each level computes the trips once more. Loops whose number of trips is not known
    before they run (`while_loop`) keep the carries of all trips.

    References
    ----------
    Griewank and Walther, "Evaluating Derivatives", 2nd ed., SIAM 2008, chapter 12.

    Examples
    --------
    >>> import numpy as np
    >>> import fdiff
    >>> f = lambda x: fdiff.fori_loop(0, 10_000, lambda i, y: y + 1e-4 * np.sin(y), x)
    >>> with fdiff.memory_budget(10_000):
    ...     slope = fdiff.jit(fdiff.grad(f))
    ...     print(slope(1.0).round(6))
    1.101232
    """
    if not is_int(size) or size < 0:
        fact = f"the budget must be a number of bytes, not {shown(size)}."
        raise failure(InputError, "memory_budget", fact, "Give an int: memory_budget(10**6).")
    token = budget.set(int(size))
    try:
        yield
    finally:
        budget.reset(token)
