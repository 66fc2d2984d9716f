"""Measurements of the whole process, which other threads and the collector disturb."""

import gc

ROUNDS = 5


def undisturbed(measure):
    """Call what measures and asserts; again if it fails, up to five times in all.

    What is lost at each call fails in each round. What other threads hold for a moment, or the
    collector frees, does not.
    """
    gc.collect()
    for _ in range(ROUNDS - 1):
        try:
            measure()
        except AssertionError:
            gc.collect()
        else:
            return
    measure()
