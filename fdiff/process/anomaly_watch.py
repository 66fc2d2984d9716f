"""Whether calls look for NaN and infinity: one slot, None while nobody asks.

The mode is that of the process, as torch's is: a call in any thread is watched while a context is
open in one of them.
"""

from __future__ import annotations

from collections.abc import Callable


class AnomalyMode:
    """What is looked for.

    Without `check_nan` nothing is; errors in a backward pass alone tell the line of the forward
    operation. `discarded` values of the function count as well, those that no result depends on.
    """

    def __init__(
        self, *, check_nan: bool = True, discarded: bool = False, enabled: bool = True
    ) -> None:
        self.check_nan, self.discarded, self.enabled = check_nan, discarded, enabled


mode: AnomalyMode | None = None  # what hot code looks at
listeners: list[Callable[[], None]] = []  # called when the mode has changed
_entered: list[AnomalyMode] = []
_set: AnomalyMode | None = None  # one of these that was set for good, and is no context


def enter(new: AnomalyMode) -> None:
    """Put a mode in force, above those that are."""
    _entered.append(new)
    _settle()


def leave(old: AnomalyMode) -> None:
    """Take a mode out of force; the one entered last of the others holds then."""
    if old in _entered:
        _entered.remove(old)
    _settle()


def set_mode(new: AnomalyMode) -> None:
    """Put a mode in force for good, in place of the one that was set so before."""
    global _set  # noqa: PLW0603 - what the next call replaces
    if _set in _entered:
        _entered.remove(_set)
    _set = new
    enter(new)


def hand_to_context(new: AnomalyMode) -> None:
    """Let a context own a mode that was set: the context ends it, not the next `set_mode`."""
    global _set  # noqa: PLW0603 - as above
    if _set is new:
        _set = None


def _settle() -> None:
    global mode  # noqa: PLW0603 - the slot that the module is for
    mode = _entered[-1] if _entered and _entered[-1].enabled else None
    for told in listeners:
        told()


def watching() -> bool:
    """Whether calls look for NaN and infinity."""
    return mode is not None and mode.check_nan
