"""What a trace asks of the session that watches the functions it runs.

`fdiff.dispatch.capture_session` implements it, for the outermost trace of a thread: functions run
as private copies there, and what they read from outside and memoise between calls is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Protocol

import fdiff.intact_numpy as np

from ..capture.memoised_values import MemoisedValue


class Session(Protocol):
    """The session of an outermost trace.

    `private` gives what to run in place of a function, `note` records a reason why no later call
    may use the trace. `stores` gives what the functions have stored outside so far, `original` the
    user's object behind a proxy, `formatted` what an f-string holds in place of a value that it
    shows. `memoises` tells whether the functions under way store anything that outlives
    the run, `place_of_...` where they have stored this value or key in an earlier call, and
    `place_in_condition` from which of several places the condition under way has it. It is told
    that a branch was taken as if a value were not stored (`assumed_missing`).
    """

    def private(self, f: Callable[..., object], /) -> Callable[..., object]: ...
    def note(self, reason: str, /) -> None: ...
    def stores(self) -> list[object]: ...
    def original(self, value: object, /) -> object: ...
    def formatted(self, value: object, spec: str, text: str, frame: FrameType, /) -> str | None: ...
    def memoises(self) -> bool: ...
    def place_of_array(self, node_id: int, /) -> MemoisedValue | None: ...
    def places_of_constant(self, array: np.ndarray, /) -> list[MemoisedValue]: ...
    def place_in_condition(
        self, places: list[MemoisedValue], array: np.ndarray, /
    ) -> MemoisedValue | None: ...
    def place_of_key(self, key: object, /) -> MemoisedValue | None: ...
    def assumed_missing(self, place: MemoisedValue, /) -> None: ...
