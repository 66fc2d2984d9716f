"""`memory_budget`: the memory that loops may take for reverse mode."""

from __future__ import annotations

from collections.abc import Generator

from ...errors import InputError, failure, shown
from ...foreign_errors import contextmanager
from ...process.memory_reserve import budget
from ..options import is_int


@contextmanager
def memory_budget(size: int) -> Generator[None]:
    """Choose how many bytes a loop may keep for its reverse mode.

    A reverse loop reads what its forward loop has computed in each trip. Where that does not fit,
    the carries of some trips are kept, and the others are computed again, from there. Results are
    the same to the last bit.

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
        If `size` is no number of bytes; or at a call, if it is less than a few snapshots of a
        loop's carries: the message tells the least that suffices.

    Notes
    -----
    A loop of `n` trips is cut into segments of about the square root of `n` trips, each of which is
    computed once more. In a smaller budget there are as many snapshots as fit, and trips are
    computed again as seldom as can be. A batch of `vmap` counts with all of its elements, and loops
    that end when they are done (`while_loop`) are cut when their trips have been counted. Loops
    that read each other's rows, such as the loops of a second derivative, count together.

    References
    ----------
    Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26(1), 2000, and "Evaluating
    Derivatives", 2nd ed., SIAM 2008, chapter 12.

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
    before = budget.get()
    try:
        budget.set(int(size))
        yield
    finally:
        budget.set(before)
