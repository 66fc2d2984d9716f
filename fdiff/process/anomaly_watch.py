"""The setting by which calls look for NaN and infinity.

The mode belongs to the process, as torch's does: a call in any thread is watched while a context is
open in one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

from ..foreign_errors import Suppressed


class AnomalyMode:
    """Settings of the search for anomalies.

    Without `check_nan` nothing is; errors in a backward pass alone tell the line of the forward
    operation. `discarded` values of the function count as well, those that no result depends on.
    """

    def __init__(
        self, *, check_nan: bool = True, discarded: bool = False, enabled: bool = True
    ) -> None:
        self.check_nan, self.discarded, self.enabled = check_nan, discarded, enabled


listeners: list[Callable[[bool], object]] = []  # called with `watching` when the mode has changed
# Contexts own modes: an exception may end one as it begins or ends, and then nobody leaves it.
_entered: list[ref[AnomalyMode]] = []
_set: AnomalyMode | None = None  # one that was set for good, and is no context's
# The mode that the listeners were told of: as a reference, which gives None while they are told.
_told: list[Callable[[], AnomalyMode | None] | None] = [None]


def _being_told() -> None:
    """The listeners may have been told of one mode or another."""


def in_force() -> AnomalyMode | None:
    """The mode in force: of those that are entered and alive, the latest."""
    if not _entered and _told[0] is None:
        return None
    alive = [mode for reference in [*_entered] if (mode := reference()) is not None]
    latest = alive[-1] if alive and alive[-1].enabled else None
    heard, ended = _told[0], len(alive) < len(_entered)
    if ended or latest is not (heard and heard()) or (latest is None and heard is not None):
        _told[0] = _being_told  # after an exception they are told again
        for listener in listeners:
            listener(latest is not None and latest.check_nan)
        _told[0] = None if latest is None else ref(latest)
        # This step is the last one: after an exception all steps are done again.
        for reference in [*_entered]:
            if reference() is None:
                with Suppressed(ValueError):  # another thread has removed it
                    _entered.remove(reference)
    return latest


def watching() -> bool:
    """Whether calls look for NaN and infinity."""
    mode = in_force()
    return mode is not None and mode.check_nan


def enter(new: AnomalyMode) -> None:
    """Put a mode in force, above those that are."""
    if new.enabled or _entered:
        _entered.append(ref(new))
    in_force()


def leave(old: AnomalyMode) -> None:
    """Take a mode out of force; the one entered last of the others holds then."""
    if (entry := ref(old)) in _entered:
        _entered.remove(entry)
    in_force()


def set_mode(new: AnomalyMode) -> None:
    """Put a mode in force for good, in place of the one that was set so before."""
    global _set  # noqa: PLW0603 - what the next call replaces
    if _set is not None and (entry := ref(_set)) in _entered:
        _entered.remove(entry)
    _set = new
    enter(new)


def hand_to_context(new: AnomalyMode) -> None:
    """Let a context own a mode that was set: the context ends it, not the next `set_mode`."""
    global _set  # noqa: PLW0603 - as above
    if _set is new:
        _set = None
