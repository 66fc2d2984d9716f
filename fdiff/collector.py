"""Python's cyclic garbage collector, where many objects are made that live."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """No cyclic garbage collection meanwhile: a long trace makes millions of objects that live.

    Measured on a tape of 172,000 nodes: 5.8 s instead of 11.9.
    """
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
