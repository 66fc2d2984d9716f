"""The protocol of the session that watches the functions which a trace runs.

`fdiff.dispatch.capture_session` implements it, for the outermost trace of a thread: functions run
as private copies there, and what they read from outside and memoise between calls is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..user_lines import Line


class Session(Protocol):
    """The session of an outermost trace.

    `private` gives what to run in place of a function, `note` records a reason why no later call
    may use the trace. `stores` gives what the functions have stored outside so far, `unknowns` what
    they have read that cannot be compared, `original` the user's object behind a proxy, `formatted`
    what an f-string holds in place of a value that it shows. `only_here` is told of a condition
    that holds at this point alone, and tells whether to take it as it is around the point. `ended`
    is given the values of the results of a trace that met one.
    """

    def private(self, f: Callable[..., object], /) -> Callable[..., object]: ...
    def note(self, reason: str, /) -> None: ...
    def stores(self) -> list[object]: ...
    def unknowns(self) -> dict[str, Line | None]: ...
    def original(self, value: object, /) -> object: ...
    def formatted(self, value: object, spec: str, text: str, frame: FrameType, /) -> str | None: ...
    def only_here(self, *, strong: bool) -> bool: ...
    def ended(self, call: str, results: list[object], /) -> None: ...
