"""The work from which threads share items of a kernel, and the number of parts.

`passes/parallel/cost_model.py` estimates the work. This module stands beside the cache of sources,
which loads no pass.
"""

from __future__ import annotations

from .kernel_source import GeneratedKernel, Work

_LEAST_SHARED = 60_000.0  # ns of work of a kernel from which on threads share it
_LEAST_OF_LOOP = 5_000.0  # ns of work of a loop from which on it is shared, if any is
_COST_OF_BARRIER = 2_000.0  # ns of work that each barrier has to be worth
_LEAST_OF_PART = 20_000.0  # ns of work in each part of a loop, at least
_MOST_PARTS = 64
_LEAST_RATIO = 12  # work of a loop, as a multiple of that on private memory, at least


def shared_items(kernel: GeneratedKernel, sizes: tuple[int, ...]) -> frozenset[int]:
    """The items worth sharing among threads, by number."""
    return frozenset(
        k for k, works in enumerate(kernel.work) if _nanoseconds(works, sizes) > _LEAST_OF_LOOP
    )


def parts_for_threads(kernel: GeneratedKernel, sizes: tuple[int, ...]) -> int:
    """The number of parts of each parallel loop; 1 if threads would gain nothing.

    The number depends on the sizes alone, so that the rounding of sums does not depend on threads.
    """
    time = sum(_nanoseconds(works, sizes) for works in kernel.work)
    if time < _LEAST_SHARED + _COST_OF_BARRIER * kernel.barriers:
        return 1
    private_work = _nanoseconds(kernel.private_work, sizes)
    most = time / (_LEAST_RATIO * private_work) if private_work else _MOST_PARTS
    return int(min(_MOST_PARTS, time / _LEAST_OF_PART, most))


def _nanoseconds(works: tuple[Work, ...], sizes: tuple[int, ...]) -> float:
    return sum(work.nanoseconds(sizes) for work in works)
