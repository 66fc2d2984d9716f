"""What holds for recorded arrays in one thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any

# By operation and kinds of operands, the short ways of calls that were met before
# (`direct_calls.py`): of calls that are recorded, and of calls that are not.
RECORDED_CALLS: dict[object, Callable[..., Any]] = {}
UNRECORDED_CALLS: dict[object, Callable[..., Any]] = {}
NO_CALLS: dict[object, Callable[..., Any]] = {}  # where somebody looks on: always empty


class MetRecorded(BaseException):
    """Raised where a function that a solver calls has to do with arrays that require gradients."""


class ThreadState(threading.local):
    """The modes of this thread, set by `modes.py`, and the hooks for saved values.

    `gradients` is what the modes say, `inference` whether what is made now is an inference array,
    which may never be recorded. `grad_enabled` tells whether operations on recorded arrays are
    recorded: gradients are on, and inference mode is off.
    `dual` has the tangents of the level of forward mode under way. `saved_hooks` are the pairs
    ``(pack, unpack)`` under way, innermost last; `refusal` is the message where such hooks are
    disabled. `copies` keeps saved values that are stored into (`allow_mutation_on_saved_tensors`).
    `saved_watched` tells that one of these is on. `running` are the nodes of the backward pass
    under way, `solving` tells that a solver calls functions of the user's. `calls` are the short
    ways that these modes allow. `multithreading` and `keeps_layouts` are the settings of backward
    passes (`engine_settings.py`). `ported` tells that a function is traced which is written for
    recorded arrays.
    """

    saved_hooks: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()
    refusal: str | None = None
    copies: Any = None
    solving = False
    running: Any = ()
    calls = RECORDED_CALLS
    multithreading = True
    keeps_layouts = True
    ported = False
    _gradients = True
    _inference = False
    _grad_enabled = True
    _saved_watched = False
    _dual: Any = None

    @property
    def dual(self) -> Any:
        """The tangents of the level of forward mode under way (`tangent_sweep.py`), or None."""
        return self._dual

    @dual.setter
    def dual(self, sweep: Any) -> None:
        self._dual = sweep
        self._choose()

    def moves(self, operands: Iterable[object]) -> bool:
        """Whether one of these has a tangent."""
        return self._dual is not None and self._dual.moves(operands)

    def pushes(self, operands: Iterable[object]) -> bool:
        """Whether a call on these is not recorded and gives tangents: `no_grad` leaves those on."""
        return not self._grad_enabled and not self._inference and self.moves(operands)

    @property
    def grad_enabled(self) -> bool:
        """Whether operations are recorded."""
        return self._grad_enabled

    @property
    def gradients(self) -> bool:
        """Whether the modes say that gradients are on."""
        return self._gradients

    @gradients.setter
    def gradients(self, enabled: bool) -> None:
        self._gradients = enabled
        self._choose()

    @property
    def inference(self) -> bool:
        """Whether what is made now is an inference array."""
        return self._inference

    @inference.setter
    def inference(self, on: bool) -> None:
        self._inference = on
        self._choose()

    @property
    def saved_watched(self) -> bool:
        """Whether anybody wants to know what is saved."""
        return self._saved_watched

    def watch_saved(self) -> None:
        """Note whether anybody wants to know what is saved."""
        self._saved_watched = bool(self.saved_hooks) or self.copies is not None
        self._choose()

    def _choose(self) -> None:
        """Whether operations are recorded, and the short ways that the modes allow."""
        self._grad_enabled = self._gradients and not self._inference
        pushes = self._dual is not None and not self._grad_enabled
        if self._saved_watched or self._inference or pushes:
            self.calls = NO_CALLS
        else:
            self.calls = RECORDED_CALLS if self._grad_enabled else UNRECORDED_CALLS


state = ThreadState()


@contextmanager
def not_recording() -> Generator[None]:
    """Code in this context computes with recorded arrays: no graph is made, nor are tangents."""
    before = state.gradients, state.dual
    state.gradients, state.dual = False, None
    try:
        yield
    finally:
        state.gradients, state.dual = before


@contextmanager
def ported() -> Generator[None]:
    """Traced arrays have the methods of recorded ones in this context."""
    before, state.ported = state.ported, True
    try:
        yield
    finally:
        state.ported = before


@contextmanager
def recording() -> Generator[None]:
    """What code in this context computes with recorded arrays is recorded."""
    before, state.gradients = state.gradients, True
    try:
        yield
    finally:
        state.gradients = before
