"""What holds for recorded arrays in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class ThreadState(threading.local):
    """The modes of this thread, set by `modes.py`, and the hooks for saved values.

    `grad_enabled` tells whether operations on recorded arrays are recorded, `inference` whether
    what is made now is an inference array, which may never be recorded.
    `dual` has the tangents of the level of forward mode under way, and `grad_before_dual` what
    `grad_enabled` was before. `saved_hooks` are the pairs ``(pack, unpack)`` under way, innermost
    last; `refusal` is the message where such hooks are disabled. `copies` keeps saved values that
    are stored into (`allow_mutation_on_saved_tensors`). `saved_watched` tells that one
    of these is on. `running` are the nodes of the backward pass under way.
    """

    grad_enabled = True
    grad_before_dual = True
    dual: Any = None
    inference = False
    saved_hooks: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()
    refusal: str | None = None
    copies: Any = None
    saved_watched = False
    running: Any = ()

    def watch_saved(self) -> None:
        """Note whether anybody wants to know what is saved."""
        self.saved_watched = bool(self.saved_hooks) or self.copies is not None


state = ThreadState()
