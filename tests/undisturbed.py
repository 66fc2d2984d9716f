"""Measurements of the whole process, which other threads disturb: those of Dask's clusters, say."""

import threading

ROUNDS = 5


def undisturbed(measure):
    """Call what measures and asserts; again if it fails while other threads of the process run.

    What is lost at each call fails in each round.
    """
    for _ in range(ROUNDS - 1):
        try:
            measure()
        except AssertionError:
            if threading.active_count() == 1:
                raise
        else:
            return
    measure()
