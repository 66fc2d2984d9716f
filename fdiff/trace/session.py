"""What a trace asks of the session that watches the functions it runs.

`fdiff.dispatch.capture_session` implements it, for the outermost trace of a thread: functions run
as private copies there, and what these read from outside and keep between calls is written down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from ..capture.kept_values import KeptValue


class Session(Protocol):
    """The session of an outermost trace.

    `private` gives what to run in place of a function, `note` records a reason why no later call
    may use the trace. The other methods tell where the functions under way keep a value between
    calls (`place_of_...`), and are told that a branch was taken as if nothing were kept (`asked`).
    """

    def private(self, f: Callable[..., object], /) -> Callable[..., object]: ...
    def note(self, reason: str, /) -> None: ...
    def keeps(self) -> bool: ...
    def place_of_array(self, node_id: int, /) -> KeptValue | None: ...
    def place_of_number(self, number: float, /) -> KeptValue | None: ...
    def place_of_key(self, key: object, /) -> KeptValue | None: ...
    def asked(self, place: KeptValue, /) -> None: ...
