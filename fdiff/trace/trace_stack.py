"""The traces under way, in each thread."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recording import Trace


class Stack(threading.local):
    """The traces under way in this thread, innermost last."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.examples = False  # whether arguments are zeros that stand for types
        self.branches: Any = None  # a counter of the lines that branch, where somebody counts


stack = Stack()

# What makes calls in any thread more than calls of kernels: traces under way, and a policy that was
# ever asked for. Machine code asks for its length.
occupied: dict[object, None] = {}


def _alone() -> None:
    """In a forked child: other threads are gone, and their traces."""
    for reason in [r for r in occupied if not isinstance(r, str) and r not in stack.traces]:
        del occupied[reason]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_alone)
